// stablehlo.c — StableHLO's own tests: every text is read, and those that check their results are
// run.
//
// usage: stablehlo DIR [--backend NAME] [--only SUBSTRING] [--timeout SECONDS] [-j N]
// DIR is searched for NAME.mlir, in its folders too. A file may hold several modules, separated by
// lines "// -----". A module that has checks (check.expect_eq and its kin, as operations or custom
// calls) is converted and run on the backend (default: interp), and what the checks compare is
// compared here, by their meaning upstream; any other module is only read, and the functions in it
// that HLO has a form for are counted. What upstream has switched off (RUN-DISABLED), what
// HLO has no form for (quantized types, say) and what the backend does not cover is skipped, each
// with its reason. A file named invalid_* must be refused. Each converted module is also printed as
// StableHLO and read back, and must be the same. Prints "FAIL FILE: reason" and "skipped FILE:
// reason", "printed and read back: P/T" (of modules that StableHLO can express), "checks: P/T" and
// last "stablehlo: P/T, S skipped", by files. Exit 0 when nothing failed.
#include "backends/backend.h"
#include "backends/worker.h"
#include "core/mlir/mlir.h"
#include "core/verify/verify.h"
#include "tests/harness/driver.h"
#include "tests/harness/same.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { PASSED, SKIPPED = 40, FAILED };

typedef struct counts {
  u32 held, checks;  // checks
  u32 same, back;    // modules printed and read back
} counts;

typedef struct tests {
  const char *dir, *backend;
  drv_names names;
  u32 passed, skipped, failed;
  counts all;
} tests;

// ---- what a check says --------------------------------------------------------------------------
typedef struct check {
  const char *name;
  enum { EXACT, NEAR, ULPS } rule;
  // the bound where none is stated: by operations, and by the custom calls of JAX's tests
  double usual, usual_jax;
  bool equal_nan;
} check;
static const check kinds[] = {
    {"check.expect_eq", EXACT, 0, 0, false},
    {"check.expect_almost_eq", NEAR, 1e-4, 1e-3, true},
    {"check.expect_close", ULPS, 3, 3, true},
    {"check.eq", NEAR, 1e-4, 1e-4, true},
};

static bool is_check(const hlo_instr *i) {
  hs_str s = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  return i->opcode == HLO_CUSTOM_CALL && s.n > 6 && !memcmp(s.p, "check.", 6);
}

// "tolerance=0.1;" of what the operation stated; a custom call of JAX's tests says nothing.
static double stated(const hlo_instr *i, const char *name, double absent) {
  const hlo_backend_config *c = hlo_attr_ptr(i, HLO_ATTR_BACKEND_CONFIG);
  size_t n = strlen(name);
  const char *at = c ? memmem(c->text.p, c->text.n, name, n) : NULL;
  return at ? strtod(at + n, NULL) : absent;
}

// From the parts of complex numbers to the worse of them.
static bool element_ok(hlo_dtype t, const check *c, double bound, const u8 *got, const u8 *want) {
  if (hlo_dtype_is_complex(t)) {
    hlo_dtype part = hlo_dtype_real_part(t);
    size_t n = hlo_dtype_storage(part);
    return element_ok(part, c, bound, got, want) && element_ok(part, c, bound, got + n, want + n);
  }
  if (!hlo_dtype_is_float(t)) return hlo_elem_to_i64(t, got) == hlo_elem_to_i64(t, want);
  double a = hlo_elem_to_f64(t, got), b = hlo_elem_to_f64(t, want);
  if (isnan(a) || isnan(b)) return c->equal_nan && isnan(a) && isnan(b);
  if (a == b) return true;
  if (c->rule == EXACT) return false;
  if (isinf(a) || isinf(b)) return bound >= 0x1p63;
  if (c->rule == NEAR) return fabs(a - b) <= bound;
  u64 d = hlo_ulp_distance(t, got, want);
  return (double)d <= bound;
}

static bool values_ok(const hlo_instr *i, const check *c, bool jax, const hlo_literal *got,
                      const hlo_literal *want, hs_buf *why) {
  double bound = stated(
      i, c->rule == ULPS ? "max_ulp_difference=" : "tolerance=", jax ? c->usual_jax : c->usual);
  double least = stated(i, "min_ulp_difference=", 0), most = 0;
  hlo_dtype t = want->shape->dtype;
  size_t n = hlo_dtype_storage(t);
  if (got->shape->logical != want->shape->logical)
    return hs_buf_printf(why, "%s: shapes differ", i->name), false;
  // at least so far off: somewhere
  bool far = least > 0;
  i64 wrong = 0, at = -1;
  for (i64 k = 0; k < want->shape->elements; k++) {
    const u8 *a = (u8 *)got->data + (size_t)k * n, *b = (u8 *)want->data + (size_t)k * n;
    if (far && !hlo_dtype_is_complex(t)) most = HS_MAX(most, (double)hlo_ulp_distance(t, a, b));
    if (element_ok(t, c, bound, a, b)) continue;
    wrong++;
    if (at < 0) at = k;
  }
  if (far && !wrong && most < least && !hlo_dtype_is_complex(t))
    return hs_buf_printf(why, "closer than %g units in the last place", least), false;
  if (!wrong) return true;
  hs_buf_printf(why, "%.*s: %lld of %lld elements, first ",
                (int)hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET).n,
                hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET).p, (long long)wrong,
                (long long)want->shape->elements);
  hlo_index_print(why, want->shape, at);
  hs_buf_printf(why, " of %s: ", hlo_dtype_text(t));
  for (int w = 0; w < 2; w++) {
    const u8 *p = (const u8 *)(w ? want : got)->data + (size_t)at * n;
    if (w) hs_buf_puts(why, ", not ");
    if (hlo_dtype_is_complex(t)) {
      hlo_dtype part = hlo_dtype_real_part(t);
      hs_buf_printf(why, "(%.9g,%.9g)", hlo_elem_to_f64(part, p),
                    hlo_elem_to_f64(part, p + hlo_dtype_storage(part)));
    } else if (hlo_dtype_is_float(t)) {
      hs_buf_printf(why, "%.9g", hlo_elem_to_f64(t, p));
    } else {
      hs_buf_printf(why, "%lld", (long long)hlo_elem_to_i64(t, p));
    }
  }
  return false;
}

// ---- one module ---------------------------------------------------------------------------------
static hs_status run_on(const char *name, const hlo_module *m, hlo_literal **out) {
  if (!name || !strcmp(name, "interp")) {
    const hlo_eval_options o = {.keep_denormals = true};
    return hlo_eval_module(m, 0, NULL, &o, out);
  }
  const backend *b = backend_find(name);
  if (!b) return hs_fail(HS_E_USAGE, "no backend %s", name);
  const backend_options o = {.no_contract = true, .keep_denormals = true};
  backend_exe *exe = NULL;
  backend_result r = {0};
  HS_TRY(b->compile(m, &o, &exe));
  hs_status s = b->run(exe, 0, NULL, &backend_once, &r);
  if (hs_ok(s)) *out = hlo_literal_ref(r.outputs);
  backend_result_free(&r);
  b->release(exe);
  return s;
}

// The entry returns what its checks compare, in pairs; the checks are removed. E_UNSUPPORTED for a
// check elsewhere.
typedef HS_VEC(hlo_instr *) instrs;
static hs_status take_checks(hlo_module *m, instrs *checks) {
  instrs values = {0};
  hlo_for_each_comp(c, m) {
    hlo_for_each_instr(i, c) {
      if (!is_check(i)) continue;
      if (c != m->entry)
        return hs_vec_free(&values), hs_fail(HS_E_UNSUPPORTED, "a check inside of %s", c->name);
      hs_vec_push(checks, i);
    }
  }
  for (size_t k = 0; k < checks->n; k++)
    for (u32 j = 0; j < 2; j++) hs_vec_push(&values, hlo_operand(checks->v[k], j));
  hlo_instr *all = hlo_add_tuple(m->entry, (u32)values.n, values.v);
  hs_vec_free(&values);
  hlo_set_root(m->entry, all);
  hlo_set_shape(all, hlo_shape_fill_layout(m->ctx, all->shape));
  // what a removed instruction was can still be read
  for (size_t k = 0; k < checks->n; k++) hlo_remove(checks->v[k]);
  hlo_remove_module_attr(m, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  hlo_remove_module_attr(m, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  return HS_GOOD;
}

// How many hold; `why` is about those that do not.
static u32 compare_all(const instrs *checks, bool jax, const hlo_literal *out, hs_buf *why) {
  u32 held = 0;
  size_t said = 0;
  for (size_t k = 0; k < checks->n; k++) {
    const hlo_instr *i = checks->v[k];
    hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
    const check *c = NULL;
    for (size_t j = 0; j < HS_COUNT(kinds) && !c; j++)
      if (hs_str_eq(target, hs_str_of(kinds[j].name))) c = &kinds[j];
    if (why->n && why->n > said) hs_buf_puts(why, "; "), said = why->n;
    if (!c) hs_buf_printf(why, "no meaning is known of %.*s", (int)target.n, target.p);
    else held += values_ok(i, c, jax, out->children[2 * k], out->children[2 * k + 1], why);
  }
  return held;
}

static void first_line(FILE *out, hs_status s) {
  fprintf(out, "%s%s%s", s.err->message, s.err->note ? "; " : "", s.err->note ? s.err->note : "");
}

static int refused(FILE *out, hs_status s) {
  int verdict = s.err->code == HS_E_NO_HLO || s.err->code == HS_E_UNSUPPORTED ? SKIPPED : FAILED;
  fprintf(out, "%lld: ", (long long)s.err->line);
  first_line(out, s);
  hs_status_drop(s);
  return verdict;
}

// The module as text of StableHLO and back, unless StableHLO has no form for it.
static int print_back(const hlo_module *m, counts *n, FILE *out) {
  hs_buf text = {0}, why = {0};
  hlo_module *b = NULL;
  const hlo_parse_options o = {.as_written = true};
  int verdict = PASSED;
  hs_status s = hlo_mlir_print(m, &text);
  if (!hs_ok(s)) {
    hs_status_drop(s);
  } else {
    n->back++;
    s = hlo_mlir_read(m->ctx, text.p, text.n, &o, &b);
    if (hs_ok(s)) s = hlo_verify(b, NULL);
    if (!hs_ok(s)) verdict = FAILED, fprintf(out, "printed and read back: "), refused(out, s);
    else if (!same_modules(m, b, true, &why))
      verdict = FAILED, fprintf(out, "printed and read back: %s", hs_buf_cstr(&why));
    n->same += verdict == PASSED;
  }
  hs_buf_free(&text);
  hs_buf_free(&why);
  hlo_module_free(b);
  return verdict;
}

static int run_checks(const tests *t, hlo_module *m, bool jax, counts *n, FILE *out) {
  instrs checks = {0};
  hs_buf why = {0};
  hlo_literal *values = NULL;
  int verdict = PASSED;
  hs_status s = hlo_verify(m, NULL);
  if (hs_ok(s)) verdict = print_back(m, n, out);
  if (hs_ok(s)) s = take_checks(m, &checks);
  if (hs_ok(s)) s = run_on(t->backend, m, &values);
  if (!hs_ok(s)) {
    int run = refused(out, s);
    if (run == FAILED || verdict == PASSED) verdict = run;
    if (run == FAILED) n->checks += (u32)checks.n;
  } else {
    u32 held = compare_all(&checks, jax, values, &why);
    n->checks += (u32)checks.n;
    n->held += held;
    if (held < checks.n) fprintf(out, "%s", hs_buf_cstr(&why)), verdict = FAILED;
  }
  hlo_literal_unref(values);
  hs_buf_free(&why);
  hs_vec_free(&checks);
  return verdict;
}

// What comes behind the directives of FileCheck is no part of the module.
static bool has_check(const char *p, size_t n) {
  for (const char *at = p; (at = memmem(at, (size_t)(p + n - at), "check.", 6)); at++) {
    const char *line = at;
    while (line > p && line[-1] != '\n') line--;
    if (!memmem(line, (size_t)(at - line), "//", 2)) return true;
  }
  return false;
}

static int one_text(const tests *t, const char *path, const char *p, size_t n, size_t from,
                    size_t *next, counts *found, FILE *out) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_parse_options o = {.file = path, .from = from, .stopped_at = next};
  hlo_module *m = NULL;
  int verdict = PASSED;
  hs_status s = hlo_mlir_check(ctx, p, n, &o);
  size_t stop = *next;
  if (!hs_ok(s)) {
    verdict = refused(out, s);
  } else if (has_check(p + from, stop - from)) {
    s = hlo_mlir_read(ctx, p, n, &o, &m);
    bool jax = memmem(p + from, stop - from, "@check.", 7) != NULL;
    verdict = hs_ok(s) ? run_checks(t, m, jax, found, out) : refused(out, s);
    if (verdict == FAILED && !m) found->checks++;  // at least one
  }
  *next = stop;
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return verdict;
}

static int run_file(void *arg, u32 k, FILE *out) {
  const tests *t = arg;
  const char *name = strrchr(t->names.v[k], '/');
  name = name ? name + 1 : t->names.v[k];
  size_t n = 0;
  char *path = hs_format("%s/%s", t->dir, t->names.v[k]), *p = drv_read(path, &n);
  int verdict = p ? PASSED : FAILED;
  if (!p) fprintf(out, "%s", strerror(errno));
  else if (strstr(p, "RUN-DISABLED"))
    fprintf(out, "switched off upstream"), n = 0, verdict = SKIPPED;
  counts found = {0};
  for (size_t at = 0; p && at < n;) {
    size_t next = n;
    int v = one_text(t, path, p, n, at, &next, &found, out);
    if (v) fprintf(out, " ");
    if (v == FAILED || verdict == PASSED) verdict = v;
    if (next <= at) break;
    at = next < n ? next + 8 : n;
  }
  // behind the last line: what file_done adds up
  fprintf(out, "\n%u %u %u %u", found.held, found.checks, found.same, found.back);
  if (!strncmp(name, "invalid_", 8)) {
    if (verdict == PASSED) fprintf(out, "an invalid file is read");
    verdict = verdict == PASSED ? FAILED : PASSED;
  }
  hs_free(p);
  hs_free(path);
  return verdict;
}

static void file_done(void *arg, u32 k, drv_result *r) {
  tests *t = arg;
  counts found;
  char *last = strrchr(r->text, '\n');
  if (last &&
      sscanf(last, "\n%u %u %u %u", &found.held, &found.checks, &found.same, &found.back) == 4) {
    *last = 0;
    t->all.held += found.held;
    t->all.checks += found.checks;
    t->all.same += found.same;
    t->all.back += found.back;
  }
  if (r->verdict == PASSED) {
    t->passed++;
    return;
  }
  bool skipped = r->verdict == SKIPPED;
  *(skipped ? &t->skipped : &t->failed) += 1;
  printf("%s %s: %s\n", skipped ? "skipped" : "FAIL", t->names.v[k], drv_reason(r));
  fflush(stdout);
}

// The names of the .mlir files below dir/prefix, relative to dir.
static bool collect(tests *t, const char *prefix, const char *only) {
  char *path = hs_format("%s/%s", t->dir, prefix);
  drv_names here = {0};
  bool ok = drv_list(path, ".mlir", &here);
  for (size_t k = 0; k < here.n; k++) {
    char *name = hs_format("%s%s", prefix, here.v[k]);
    if (only && !strstr(name, only)) hs_free(name);
    else hs_vec_push(&t->names, name);
  }
  drv_names_free(&here);
  DIR *d = ok ? opendir(path) : NULL;
  hs_free(path);
  if (!d) return false;
  drv_names folders = {0};
  for (struct dirent *e; (e = readdir(d));)
    if (e->d_type == DT_DIR && e->d_name[0] != '.')
      hs_vec_push(&folders, hs_format("%s%s/", prefix, e->d_name));
  closedir(d);
  for (size_t k = 0; k < folders.n && ok; k++) ok = collect(t, folders.v[k], only);
  drv_names_free(&folders);
  return ok;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

int main(int argc, char **argv) {
  int worker_status;
  // this binary is its own worker
  if (worker_entry(argc, argv, &worker_status)) return worker_status;
  static const char *const options[] = {"backend", "only", "timeout", NULL};
  drv_args a;
  if (!drv_parse(argc, argv, options, &a) || a.n != 1) {
    fprintf(stderr,
            "usage: stablehlo DIR [--backend NAME] [--only SUBSTRING] [--timeout SECONDS] [-j "
            "N]\n");
    return 2;
  }
  tests t = {.dir = a.v[0], .backend = drv_option(&a, "backend")};
  if (!collect(&t, "", drv_option(&a, "only"))) {
    fprintf(stderr, "%s: %s\n", t.dir, strerror(errno));
    return 2;
  }
  if (t.names.n) qsort(t.names.v, t.names.n, sizeof *t.names.v, by_name);
  const char *timeout = drv_option(&a, "timeout");
  drv_run((u32)t.names.n, a.jobs, timeout ? atof(timeout) : 120, run_file, file_done, &t);
  printf("printed and read back: %u/%u\n", t.all.same, t.all.back);
  printf("checks: %u/%u\n", t.all.held, t.all.checks);
  printf("stablehlo: %u/%u, %u skipped\n", t.passed, (u32)t.names.n - t.skipped, t.skipped);
  drv_names_free(&t.names);
  return t.failed ? 1 : 0;
}
