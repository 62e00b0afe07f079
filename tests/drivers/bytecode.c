// bytecode.c — portable artifacts of StableHLO against their texts, function by function.
//
// usage: bytecode DIR [-j N]
// Each NAME.bc in DIR is read beside NAME, its text. Every function of the text is converted as the
// entry, from both: the modules must be the same, or both refused with the same error. A file
// named invalid_* must be refused. Prints "FAIL FILE: reason", then "functions: P/T, S refused by
// both" and last "bytecode: P/T". Exit 0 when nothing failed.
#include "core/mlir/mlir.h"
#include "core/text/text.h"
#include "tests/harness/driver.h"

#include <errno.h>
#include <stdlib.h>

typedef struct work {
  const char *dir;
  drv_names names;
  u32 passed;
  u64 functions, same, refused;
} work;

// The module of one function, or "error E0110".
static void convert(const char *p, size_t n, const char *entry, hs_buf *out, bool *refused) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  const hlo_parse_options opt = {.entry = entry};
  hs_status s = hlo_mlir_read(ctx, p, n, &opt, &m);
  *refused = !hs_ok(s);
  if (hs_ok(s)) {
    hlo_print_options o = hlo_print_canonical();
    o.print_large_constants = true;
    hlo_print_module(out, m, &o);
  } else {
    hs_buf_printf(out, "error %s", hs_code_text(s.err->code));
    if (getenv("BYTECODE_WHY")) hs_buf_printf(out, " %s", s.err->message);
  }
  hs_status_drop(s);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// The next function's name at or behind p; NULL.
static const char *next_function(const char *p, char *name, size_t size) {
  while ((p = strstr(p, "func.func"))) {
    p += strcspn(p, "@\n");
    if (*p != '@') continue;
    bool quoted = *++p == '"';
    p += quoted;
    size_t n = strcspn(p, quoted ? "\"\n" : "(\n");
    if (n && n < size) {
      memcpy(name, p, n);
      name[n] = 0;
      return p + n;
    }
  }
  return NULL;
}

enum { PASSED, FAILED };

static int compare(const char *text, size_t n, const char *bytes, size_t m, FILE *out) {
  char name[256];
  u64 functions = 0, same = 0, refused = 0;
  hs_buf why = {0};
  for (const char *p = text; (p = next_function(p, name, sizeof name));) {
    hs_buf a = {0}, b = {0};
    bool no[2];
    convert(text, n, name, &a, &no[0]);
    convert(bytes, m, name, &b, &no[1]);
    bool equal = strcmp(hs_buf_cstr(&a), hs_buf_cstr(&b)) == 0;
    functions++;
    same += equal;
    refused += equal && no[0];
    if (!equal && why.n < 400)
      hs_buf_printf(&why, "%s@%s (%.60s, %.200s)", why.n ? ", " : "", name,
                    no[0] ? hs_buf_cstr(&a) : "converted", no[1] ? hs_buf_cstr(&b) : "converted");
    hs_buf_free(&a);
    hs_buf_free(&b);
  }
  fprintf(out, "%llu %llu %llu %s\n", (unsigned long long)functions, (unsigned long long)same,
          (unsigned long long)refused, why.n ? hs_buf_cstr(&why) : "");
  hs_buf_free(&why);
  return same == functions ? PASSED : FAILED;
}

static int run_case(void *arg, u32 k, FILE *out) {
  work *w = arg;
  size_t n, m;
  char *path = hs_format("%s/%s", w->dir, w->names.v[k]);
  char *bytes = drv_read(path, &m);
  path[strlen(path) - 3] = 0;
  char *text = drv_read(path, &n);
  int verdict = FAILED;
  if (!bytes || !text) {
    fprintf(out, "0 0 0 %s\n", strerror(errno));
  } else if (!strncmp(w->names.v[k], "invalid_", 8)) {
    hs_buf got = {0};
    bool refused;
    convert(bytes, m, NULL, &got, &refused);
    fprintf(out, "0 0 0 %s\n", refused ? "" : "is not refused");
    verdict = refused ? PASSED : FAILED;
    hs_buf_free(&got);
  } else {
    verdict = compare(text, n, bytes, m, out);
  }
  hs_free(bytes);
  hs_free(text);
  hs_free(path);
  return verdict;
}

static void done(void *arg, u32 k, drv_result *r) {
  work *w = arg;
  char *end = r->text;
  u64 v[3] = {0};
  for (int j = 0; j < 3 && end; j++) v[j] = strtoull(end, &end, 10);
  w->functions += v[0];
  w->same += v[1];
  w->refused += v[2];
  w->passed += r->verdict == PASSED;
  if (r->verdict == PASSED) return;
  const char *why = r->ending[0] ? r->ending : end ? end : "";
  printf("FAIL %s:%.*s\n", w->names.v[k], (int)strcspn(why, "\n"), why);
}

int main(int argc, char **argv) {
  static const char *const options[] = {NULL};
  drv_args a;
  work w = {0};
  if (!drv_parse(argc, argv, options, &a)) return 2;
  if (a.n != 1) {
    fputs("usage: bytecode DIR [-j N]\n", stderr);
    return 2;
  }
  w.dir = a.v[0];
  if (!drv_list(w.dir, ".bc", &w.names)) {
    fprintf(stderr, "bytecode: %s: %s\n", w.dir, strerror(errno));
    return 2;
  }
  drv_run((u32)w.names.n, a.jobs, 120, run_case, done, &w);
  printf("functions: %llu/%llu, %llu refused by both\n", (unsigned long long)w.same,
         (unsigned long long)w.functions, (unsigned long long)w.refused);
  printf("bytecode: %u/%zu\n", w.passed, w.names.n);
  int status = w.passed == w.names.n ? 0 : 1;
  drv_names_free(&w.names);
  return status;
}
