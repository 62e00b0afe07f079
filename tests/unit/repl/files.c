// files.c — loading and saving when the file is not what one hopes: each case is an error with
// its code, and a save that fails leaves what was there.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/proto/proto.h"
#include "core/text/text.h"
#include "repl/shell/out.h"

static char dir[] = "/tmp/hlosh-files-XXXXXX";

static int make_dir(void **state) {
  (void)state;
  return mkdtemp(dir) ? 0 : -1;
}
static int remove_dir(void **state) {
  (void)state;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) unlinkat(dirfd(d), e->d_name, 0);
  closedir(d);
  return rmdir(dir);
}

static char *put(const char *name, const void *p, size_t n) {
  char *path = hs_format("%s/%s", dir, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0 && write(fd, p, n) == (ssize_t)n);
  close(fd);
  return path;
}

static void expect(const char *path, hs_code code) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_load_file(ctx, path, NULL, &m);
  if (code == HS_OK ? !hs_ok(s) : hs_ok(s) || s.err->code != code)
    fail_msg("%s: %s", path, s.err ? s.err->message : "is read");
  assert_true((m != NULL) == (code == HS_OK));
  hs_status_drop(s);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

static const char good[] = "HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }\n";

static void loading_errors(void **state) {
  (void)state;
  expect(dir, HS_E_IO);  // a folder
  expect("/nonexistent/file.hlo", HS_E_IO);
  expect("/dev/null", HS_E_FORMAT);  // nothing at all
  static const struct {
    const char *name, *bytes;
    size_t n;
    hs_code code;
  } cases[] = {
      {"good", good, sizeof good - 1, HS_OK},
      {"nul-inside", "HloModule m\nENTRY e { ROOT p = f32[2]\0 parameter(0) }\n", 52, HS_E_TOKEN},
      {"nul-in-name", "HloModule m\0\nENTRY e { ROOT p = f32[2] parameter(0) }\n", 54, HS_E_TOKEN},
      {"nuls", "\0\0\0\0\0\0\0\0\0\0\0\0", 12, HS_E_FORMAT},
      {"gz-cut", "\x1F\x8B\x08\0\0\0\0\0\0\3\xCB\x48\xC9\x57\x28", 15, HS_E_FORMAT},
      {"zst-cut", "\x28\xB5\x2F\xFD\x04\x58\x11", 7, HS_E_FORMAT},
      {"png", "\x89PNG\r\n\x1A\n", 8, HS_E_FORMAT},
      {"mlir", "module @jit_f {\n  func.func public @main(%arg0: tensor<2xf32>) {\n", 65,
       HS_E_SYNTAX},
      {"bytecode", "ML\xEFR\x0D", 5, HS_E_BYTECODE},
      {"pb-cut",
       "\x0A\x01m\x1A\x7F\x0A\x01"
       "e\x12\x20\x0A\x01p\x12\x09parameter",
       24, HS_E_FORMAT}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    char *path = put(cases[k].name, cases[k].bytes, cases[k].n);
#if !HAVE_ZLIB || !HAVE_ZSTD
    if (strstr(cases[k].name, "-cut") && cases[k].bytes[0] != '\x0A') {
      hs_free(path);
      continue;
    }
#endif
    expect(path, cases[k].code);
    hs_free(path);
  }
}

static void fifos_are_read(void **state) {
  (void)state;
  char *path = hs_format("%s/fifo", dir);
  assert_int_equal(mkfifo(path, 0600), 0);
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open(path, O_WRONLY);
    ssize_t n = write(fd, good, 20);  // in pieces
    n += write(fd, good + 20, sizeof good - 1 - 20);
    close(fd);
    _exit(n == (ssize_t)sizeof good - 1 ? 0 : 1);
  }
  expect(path, HS_OK);
  int st;
  waitpid(pid, &st, 0);
  assert_int_equal(st, 0);
  hs_free(path);
}

// A disk that fills up while saving: a limit on the size of files does the same to write().
static void full_disk_keeps_the_old_file(void **state) {
  (void)state;
  char *path = put("kept.hlo", good, sizeof good - 1);
  pid_t pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
    static char big[5000];
    hs_status s = hs_write_file(path, big, sizeof big, false);
    _exit(hs_ok(s) ? 1 : s.err->code == HS_E_IO ? 0 : 2);
  }
  int st;
  waitpid(pid, &st, 0);
  assert_int_equal(st, 0);
  expect(path, HS_OK);
  DIR *d = opendir(dir);  // and no half file stays behind
  for (struct dirent *e; (e = readdir(d));) assert_null(strstr(e->d_name, "kept.hlo."));
  closedir(d);
  hs_status s = hs_write_file("/dev/full", good, sizeof good - 1, false);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_IO);
  hs_status_drop(s);
  hs_free(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(loading_errors),
                                     cmocka_unit_test(fifos_are_read),
                                     cmocka_unit_test(full_disk_keeps_the_old_file)};
  return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
