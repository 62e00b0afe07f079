// replay.c — runs a fuzz target over files, without libFuzzer: what `make check` does with the
// corpora.
//
// usage: TARGET FILE|FOLDER...     the last line says how many inputs there were; a crash ends the
//                                  process
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"
#include "tests/fuzz/target.h"

static unsigned count;

static void run_file(const char *path) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) != 0) {
    perror(path);
    exit(2);
  }
  // one more, so that it is never NULL; ASan sees reads past the end of small ones
  u8 *p = hs_alloc((size_t)st.st_size + 1);
  ssize_t n = read(fd, p, (size_t)st.st_size);
  close(fd);
  u8 *exact = hs_alloc(n > 0 ? (size_t)n : 1);
  if (n > 0) memcpy(exact, p, (size_t)n);
  hs_free(p);
  fprintf(stderr, "%s\n", path);
  LLVMFuzzerTestOneInput(exact, n > 0 ? (size_t)n : 0);
  hs_free(exact);
  count++;
}

static void run(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) {
    perror(path);
    exit(2);
  }
  if (!S_ISDIR(st.st_mode)) {
    run_file(path);
    return;
  }
  struct dirent **names;
  int n = scandir(path, &names, NULL, alphasort);
  for (int k = 0; k < n; k++) {
    if (names[k]->d_name[0] != '.') {
      char *file = hs_format("%s/%s", path, names[k]->d_name);
      run(file);
      hs_free(file);
    }
    free(names[k]);
  }
  if (n >= 0) free(names);
}

int main(int argc, char **argv) {
  if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
  int out = dup(1), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(null, 1);  // what the target says is not looked at
  for (int k = 1; k < argc; k++) run(argv[k]);
  fflush(stdout);
  dup2(out, 1);
  printf("%u inputs\n", count);
  return count ? 0 : 1;
}
