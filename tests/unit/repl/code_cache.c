// code_cache.c — code that is kept on disk (backends/code_cache.h): entries come back whole or
// not at all, whatever happens to their files and whoever else writes; the limit holds; and what
// the cpu backend makes of kept code is what it made before, bit by bit.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/backend.h"
#include "tests/unit/modules.h"
#include "tests/unit/skip.h"

static char base[64];

static code_cache fresh(void) { return (code_cache){.on = true, .limit = 1 << 20}; }

static void key_of(u32 k, code_cache_key key) {
  hs_sha256 h;
  hs_sha256_begin(&h);
  hs_sha256_put(&h, &k, sizeof k);
  hs_sha256_end(&h, key);
}

static void put(code_cache *c, u32 k, u32 n) {
  code_cache_key key;
  key_of(k, key);
  char *p = hs_alloc(n + 1);
  memset(p, (int)k, n);
  code_cache_put(c, key, "module", p, n);
  hs_free(p);
}

// Whether entry k is there, with the right bytes.
static bool get(code_cache *c, u32 k) {
  code_cache_key key;
  key_of(k, key);
  char *p;
  size_t n;
  if (!code_cache_get(c, key, &p, &n)) return false;
  for (size_t j = 0; j < n; j++) assert_int_equal((u8)p[j], (u8)k);
  hs_free(p);
  return true;
}

static code_cache_entries list(void) {
  code_cache_entries all = {0};
  char *folder = code_cache_folder();
  code_cache_list(folder, &all);
  hs_free(folder);
  return all;
}

static int clear(void **state) {
  (void)state;
  u32 n;
  i64 bytes;
  char *folder = code_cache_folder();
  hs_status s = code_cache_clear(folder, &n, &bytes);
  hs_free(folder);
  return hs_ok(s) ? 0 : -1;
}

// The path of the only entry.
static char *only_file(void) {
  code_cache_entries all = list();
  assert_int_equal(all.n, 1);
  char *folder = code_cache_folder(), *path = hs_format("%s/%s", folder, all.v[0].file);
  hs_free(folder);
  hs_vec_free(&all);
  return path;
}

static void flip(const char *path, long at) {
  FILE *f = fopen(path, "r+");
  assert_non_null(f);
  assert_int_equal(fseek(f, at, SEEK_SET), 0);
  int byte = fgetc(f);
  assert_int_equal(fseek(f, at, SEEK_SET), 0);
  (void)fputc(byte ^ 0x10, f);
  (void)fclose(f);
}

static void forget(code_cache *c) {
  hs_free(c->complaint);
  c->complaint = NULL;
}

// ---- entries ------------------------------------------------------------------------------------
static void comes_back(void **state) {
  (void)state;
  code_cache c = fresh();
  assert_false(get(&c, 1));
  put(&c, 1, 1000);
  put(&c, 2, 0);
  assert_true(get(&c, 1) && get(&c, 2));
  assert_false(get(&c, 3));
  c.on = false;
  assert_false(get(&c, 1));
  put(&c, 3, 10);
  c.on = true;
  assert_false(get(&c, 3));
  assert_int_equal(c.hits, 2);
  assert_null(c.complaint);
}

static void damage_is_named(void **state) {
  (void)state;
  for (long at = 0; at < 300; at += at < 136 ? 5 : 23) {
    code_cache c = fresh();
    (void)clear(NULL);
    put(&c, 1, 300);
    char *path = only_file();
    bool name = at >= 48 && at < 112;  // the module's name is for people
    flip(path, at);
    assert_int_equal(get(&c, 1), name);
    assert_int_equal(c.damaged, !name);
    assert_int_equal(c.complaint != NULL, !name);
    if (!name) assert_true(strstr(c.complaint, "damaged") && access(path, F_OK) != 0);
    forget(&c);
    hs_free(path);
  }
}

static void short_or_another(void **state) {
  (void)state;
  static const long lengths[] = {0, 1, 100, 127, 128, 300};
  for (size_t k = 0; k < HS_COUNT(lengths); k++) {
    code_cache c = fresh();
    put(&c, 1, 300);
    char *path = only_file();
    assert_int_equal(truncate(path, lengths[k]), 0);
    assert_false(get(&c, 1));
    assert_int_equal(c.damaged, 1);
    forget(&c);
    hs_free(path);
  }
  code_cache c = fresh();
  put(&c, 1, 300);
  char *from = only_file();
  (void)clear(NULL);
  put(&c, 2, 300);
  char *two = only_file();
  assert_int_equal(rename(two, from), 0);
  assert_false(get(&c, 1));
  assert_non_null(strstr(c.complaint, "something else"));
  forget(&c);
  hs_free(from);
  hs_free(two);
}

// Used as the system's clock says, which may stand still between two of them.
static void age(u32 k, long seconds) {
  code_cache_key key;
  key_of(k, key);
  char *folder = code_cache_folder(), name[65];
  for (u32 j = 0; j < sizeof key; j++) (void)snprintf(name + 2 * j, 3, "%02x", key[j]);
  char *path = hs_format("%s/%s.code", folder, name);
  struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - seconds}};
  assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
  hs_free(path);
  hs_free(folder);
}

static void used_longest_ago_goes(void **state) {
  (void)state;
  code_cache c = fresh();
  for (u32 k = 0; k < 6; k++) put(&c, k, 1000), age(k, 100 - (long)k);
  assert_true(get(&c, 0));  // used now
  c.limit = 4 * (1000 + 200);
  put(&c, 6, 1000);
  for (u32 k = 0; k < 7; k++) assert_int_equal(get(&c, k), k == 0 || k >= 4);
  c.limit = 500;
  put(&c, 7, 1000);  // more than may be there
  assert_false(get(&c, 7));
  assert_null(c.complaint);
}

static void abandoned_files_go(void **state) {
  (void)state;
  code_cache c = fresh();
  put(&c, 1, 10);
  char *path = only_file(), *old = hs_format("%s.abcdef", path),
       *new = hs_format("%s.ghijkl", path);
  FILE *f = fopen(old, "w");
  (void)fclose(f);
  f = fopen(new, "w");
  (void)fclose(f);
  struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - 7200}};
  assert_int_equal(utimensat(AT_FDCWD, old, t, 0), 0);
  put(&c, 2, 10);
  assert_true(access(old, F_OK) != 0 && access(new, F_OK) == 0);
  (void)clear(NULL);
  assert_true(access(new, F_OK) == 0);
  assert_int_equal(unlink(new), 0);
  hs_free(path);
  hs_free(old);
  hs_free(new);
}

// Readers see whole entries while others write the same ones, remove them, and clear.
static void processes(void **state) {
  (void)state;
  pid_t child[3];
  for (u32 w = 0; w < HS_COUNT(child); w++) {
    child[w] = fork();
    if (child[w]) continue;
    code_cache c = fresh();
    c.limit = 3 * 5000;
    for (u32 k = 0; k < 200; k++) put(&c, k % 5, 3000 + k % 5);
    _exit(c.complaint != NULL);
  }
  code_cache c = fresh();
  u32 found = 0;
  for (u32 k = 0; k < 2000; k++) {
    found += get(&c, k % 5);
    if (k % 500 == 499) assert_int_equal(clear(NULL), 0);
  }
  for (u32 w = 0; w < HS_COUNT(child); w++) {
    int status;
    assert_int_equal(waitpid(child[w], &status, 0), child[w]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(c.damaged, 0);
  (void)found;
}

static void no_place(void **state) {
  (void)state;
  code_cache c = fresh();
  setenv("XDG_CACHE_HOME", "/nonexistent", 1);
  assert_null(code_cache_folder());
  put(&c, 1, 10);
  assert_false(get(&c, 1));
  assert_null(c.complaint);
  setenv("XDG_CACHE_HOME", "/dev/null", 1);  // to be written to, but no folder
  assert_null(code_cache_folder());
  setenv("XDG_CACHE_HOME", base, 1);
}

// ---- programs -----------------------------------------------------------------------------------
// A constant array that the code reads, a function of the C library, and a loop that is one
// function.
static const char program[] =
    "HloModule kept\n"
    "cond { p = (s32[], f32[96]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
    " n = s32[] constant(5)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
    "body { p = (s32[], f32[96]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
    " v = f32[96] get-tuple-element(p), index=1\n one = s32[] constant(1)\n"
    " next = s32[] add(i, one)\n w = f32[96] tan(v)\n ROOT t = (s32[], f32[96]) tuple(next, w) }\n"
    "ENTRY e { a = f32[96] parameter(0)\n zero = s32[] constant(0)\n"
    " k = f32[96] constant({%s})\n s = f32[96] add(a, k)\n h = f32[96] sinh(s)\n"
    " t = (s32[], f32[96]) tuple(zero, h)\n r = (s32[], f32[96]) while(t), condition=cond, "
    "body=body\n g = f32[96] get-tuple-element(r), index=1\n"
    " ROOT out = (f32[96], f32[96]) tuple(g, s) }\n";

static hlo_module *with_constants(u32 seed) {
  hs_buf values = {0};
  for (u32 k = 0; k < 96; k++)
    hs_buf_printf(&values, "%s0.0%u", k ? ", " : "", 1 + (k * 7 + seed) % 89);
  char *text = hs_format(program, hs_buf_cstr(&values));
  hlo_module *m = parse(text);
  hs_free(text);
  hs_buf_free(&values);
  return m;
}

// Runs m in a new process; whether its code had been kept.
static bool ran_kept(const hlo_module *m, backend_options o, hlo_literal **result, char **said) {
  const backend *cpu = backend_find("cpu");
  o.context = backend_context_new();
  o.keep_code = true;
  *backend_context_code(o.context) = fresh();
  backend_exe *e = NULL;
  expect_good(cpu->compile(m, &o, &e), "compiling");
  bool kept = cpu->compiled(e)->kept_code;
  hlo_literal *arg;
  expect_good(hlo_literal_new(m->entry->params[0]->shape, &arg), "an argument");
  for (u32 k = 0; k < 96; k++) ((float *)arg->data)[k] = (float)k / 97;
  backend_result r = {0};
  expect_good(cpu->run(e, 1, &arg, NULL, &r), "running");
  *result = hlo_literal_ref(r.outputs);
  backend_result_free(&r);
  hlo_literal_unref(arg);
  cpu->release(e);
  hs_buf b = {0};
  (void)backend_context_warning(o.context, &b);
  if (said) *said = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  backend_context_free(o.context);
  return kept;
}

static bool equal(const hlo_literal *a, const hlo_literal *b) {
  for (u32 k = 0; k < 2; k++)
    if (memcmp(a->children[k]->data, b->children[k]->data, 96 * sizeof(float)) != 0) return false;
  return true;
}

static void programs(void **state) {
  (void)state;
  hs_status probe = backend_find("cpu")->probe();
  if (!hs_ok(probe)) {
    hs_status_drop(probe);
    SKIP_TEST("no LLVM");
  }
  hlo_literal *first, *again, *other;
  hlo_module *m = with_constants(0), *n = with_constants(1);
  backend_options o = {.threads = 1};
  assert_false(ran_kept(m, o, &first, NULL));
  assert_true(ran_kept(m, o, &again, NULL));
  assert_true(equal(first, again));
  hlo_literal_unref(again);
  assert_false(ran_kept(n, o, &other, NULL));  // other constants
  assert_false(equal(first, other));
  hlo_literal_unref(other);
  o.no_contract = true;
  assert_false(ran_kept(m, o, &other, NULL));
  hlo_literal_unref(other);
  o.no_contract = false;
  (void)clear(NULL);
  assert_false(ran_kept(m, o, &again, NULL));
  hlo_literal_unref(again);
  char *path = only_file(), *said;
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  flip(path, st.st_size / 2);
  assert_false(ran_kept(m, o, &again, &said));  // compiled anew, and kept anew
  assert_true(equal(first, again));
  assert_non_null(strstr(said, "damaged"));
  hlo_literal_unref(again);
  assert_true(ran_kept(m, o, &again, NULL));
  hlo_literal_unref(again);
  hlo_literal_unref(first);
  hs_free(said);
  hs_free(path);
  hlo_module_free(m);
  hlo_module_free(n);
}

// What a worker is handed ends early, with a checksum that fits: it compiles what is missing.
static void half_an_answer(void **state) {
  (void)state;
  hs_status probe = backend_find("cpu")->probe();
  if (!hs_ok(probe)) {
    hs_status_drop(probe);
    SKIP_TEST("no LLVM");
  }
  hlo_module *m = with_constants(2);
  hlo_literal *first, *again;
  assert_false(ran_kept(m, (backend_options){.threads = 1}, &first, NULL));
  char *path = only_file();
  code_cache_key key;
  for (u32 k = 0; k < sizeof key; k++) {
    u32 byte;
    assert_int_equal(sscanf(strrchr(path, '/') + 1 + 2 * k, "%2x", &byte), 1);
    key[k] = (u8)byte;
  }
  hs_free(path);
  char *whole;
  size_t n;
  code_cache c = fresh();
  assert_true(code_cache_get(&c, key, &whole, &n));
  for (size_t part = 0; part < 8; part++) {
    code_cache_put(&c, key, "part", whole, n * part / 8);
    assert_false(ran_kept(m, (backend_options){.threads = 1}, &again, NULL));
    assert_true(equal(first, again));
    hlo_literal_unref(again);
  }
  hs_free(whole);
  hlo_literal_unref(first);
  hlo_module_free(m);
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  (void)snprintf(base, sizeof base, "%s/hlosh_code.XXXXXX",
                 getenv("TMPDIR") && strlen(getenv("TMPDIR")) < 32 ? getenv("TMPDIR") : "/tmp");
  if (!mkdtemp(base)) return 1;
  setenv("XDG_CACHE_HOME", base, 1);
  ctx = hlo_ctx_new();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(comes_back, clear),
      cmocka_unit_test_teardown(damage_is_named, clear),
      cmocka_unit_test_teardown(short_or_another, clear),
      cmocka_unit_test_teardown(used_longest_ago_goes, clear),
      cmocka_unit_test_teardown(abandoned_files_go, clear),
      cmocka_unit_test_teardown(processes, clear),
      cmocka_unit_test(no_place),
      cmocka_unit_test_teardown(programs, clear),
      cmocka_unit_test_teardown(half_an_answer, clear),
  };
  int bad = cmocka_run_group_tests(tests, NULL, NULL);
  hlo_ctx_free(ctx);
  char *inner = hs_format("%s/hlosh/code", base);
  for (char *end = inner + strlen(inner); end; end = strrchr(inner, '/')) {
    *end = 0;
    if (strlen(inner) < strlen(base) || rmdir(inner) != 0) break;
  }
  hs_free(inner);
  return bad;
}
