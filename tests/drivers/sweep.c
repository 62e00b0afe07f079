// sweep.c: every operation on every element type at its edge values, by every route that computes
// it: does each give what the evaluator gives?
//
// usage: sweep [--full] [--routes cpu,folded,algsimp,pjrt] [--kind KIND] [--type TYPE]
//              [--only SUBSTRING] [--verbose] [-j N]
//
// Routes: cpu, the compiled code; folded, the parameters made constants and folded; algsimp, the
// module simplified; pjrt, real XLA where a plug-in is at hand. What the cases are and how near is
// near enough: tests/harness/sweep.h and sweep.def. All cases of a kind and type run as one module;
// where a route refuses that, each in its own. Differences that have a reason stand in
// tests/harness/sweep_known.def and are counted apart. Prints "FAIL KIND TYPE CASE ROUTE: what"
// per difference, per route how many cases it ran and declined, and last "sweep: P/T agree, K
// known, D declined". Exit 0 when nothing failed.
#include "core/text/text.h"
#include "backends/backend.h"
#include "backends/worker.h"
#include "core/verify/verify.h"
#include "passes/passes.h"
#include "tests/harness/driver.h"
#include "tests/harness/sweep.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>

enum { PARAMS = 16, SHOWN = 3, DEADLINE_S = 120 };
#define ROUTES(X)     \
  X(ROUTE_CPU, "cpu") \
  X(ROUTE_FOLDED, "folded") X(ROUTE_ALGSIMP, "algsimp") X(ROUTE_PJRT, "pjrt")
#define X(id, name) id,
typedef enum route { ROUTES(X) ROUTE_COUNT } route;
#undef X
#define X(id, name) name,
static const char *const route_names[] = {ROUTES(X)};
#undef X

typedef struct totals {
  u64 agree, failed, known, declined, invalid;
} totals;
typedef struct setup {
  bool full, verbose, routes[ROUTE_COUNT];
  const char *only, *kind, *type;
  HS_VEC(u32) work;  // kind * HLO_DTYPE_COUNT + type
  totals of[ROUTE_COUNT], sum;
} setup;

// ---- routes -------------------------------------------------------------------------------------
typedef struct run {
  const setup *s;
  FILE *out;
  sweep_block *b;
  backend_context *backends;
  sweep_kind kind;
  totals of[ROUTE_COUNT];
} run;

static hs_status build(const run *r, u32 from, u32 to, hlo_module **m) {
  hs_buf text = {0};
  sweep_text(r->b, from, to, &text);
  hs_status s = hlo_parse(r->b->ctx, text.p, text.n, NULL, m);
  if (hs_ok(s)) {
    s = hlo_verify(*m, NULL);
    if (!hs_ok(s)) hlo_module_free(*m), *m = NULL;
  }
  hs_buf_free(&text);
  return s;
}

static hs_status evaluate(const run *r, const hlo_module *m, hlo_literal **out) {
  hlo_literal *args[PARAMS];
  for (size_t k = 0; k < r->b->params.n; k++) args[k] = r->b->params.v[k].value;
  return hlo_eval_module(m, (u32)r->b->params.n, args, NULL, out);
}

static hs_status simplified(const run *r, hlo_module *m, const char *passes, hlo_literal **out) {
  pass_run_options o = pass_run_default();
  o.measure = false;
  HS_TRY(pipeline_run(m, passes, &o, NULL));
  return evaluate(r, m, out);
}

static void make_constants(const run *r, hlo_module *m) {
  for (size_t k = 0; k < r->b->params.n; k++) {
    hlo_instr *p = hlo_find_instr(m, r->b->params.v[k].name);
    if (!p || !p->nuses) continue;
    hlo_instr *c = hlo_add_constant(m->entry, hlo_literal_ref(r->b->params.v[k].value), "value");
    hlo_replace_uses(p, c);
  }
}

static hs_status on_backend(const run *r, const char *name, const hlo_module *m,
                            hlo_literal **out) {
  // Of two numbers of which one is NaN, XLA:CPU by default gives either as minimum or maximum; the
  // first flag asks for NaN. The second: a narrow type is rounded to after every operation.
  static const backend_flag flags[] = {{"xla_cpu_enable_fast_min_max", "false"},
                                       {"xla_allow_excess_precision", "false"}};
  const backend_options o = {.context = r->backends,
                             .threads = 1,
                             .deadline_s = DEADLINE_S,
                             .nflags = HS_COUNT(flags),
                             .flags = flags};
  hlo_literal *args[PARAMS];
  for (size_t k = 0; k < r->b->params.n; k++) args[k] = r->b->params.v[k].value;
  return backend_run_once(backend_find(name), m, &o, (u32)r->b->params.n, args, out);
}

static hs_status by(const run *r, route way, u32 from, u32 to, hlo_literal **out) {
  hlo_module *m = NULL;
  HS_TRY(build(r, from, to, &m));
  hs_status s = HS_GOOD;
  switch (way) {
  case ROUTE_FOLDED:
    make_constants(r, m);
    s = simplified(r, m, "constant_folding", out);
    break;
  case ROUTE_ALGSIMP: s = simplified(r, m, "algsimp", out); break;
  default: s = on_backend(r, route_names[way], m, out); break;
  }
  hlo_module_free(m);
  return s;
}

// ---- comparison ---------------------------------------------------------------------------------
static double unit_of(hlo_dtype t, double v) {
  const hlo_float_format *f = &hlo_dtypes[t].format;
  int e, least = 1 - f->bias;
  (void)frexp(v, &e);
  return ldexp(1, HS_MAX(e - 1, least) - f->mbits);
}

// One part of an element: `largest` is the magnitude that units are counted at.
static bool part_agrees(hlo_dtype t, const void *want, const void *got, sweep_tolerance tol,
                        double largest) {
  if (memcmp(want, got, hlo_dtype_storage(t)) == 0) return true;
  if (!hlo_dtype_is_float(t)) return false;
  double w = hlo_elem_to_f64(t, want), g = hlo_elem_to_f64(t, got);
  if (w != w || g != g) return w != w && g != g;
  // where results are rounded they may be flushed, too
  double normal = ldexp(1, 1 - hlo_dtypes[t].format.bias);
  if (tol.ulps > 0 && fabs(w) < 2 * normal && fabs(g) < 2 * normal) return true;
  if (w == g) return tol.zeros || w != 0;
  if (isinf(w) || isinf(g) || tol.ulps <= 0) return false;
  return fabs(w - g) <= tol.ulps * unit_of(t, largest);
}

static bool element_agrees(hlo_dtype t, const void *want, const void *got, sweep_tolerance tol) {
  hlo_dtype part = hlo_dtype_real_part(t);
  size_t s = hlo_dtype_storage(part);
  if (part == t)
    return part_agrees(t, want, got, tol, hlo_dtype_is_float(t) ? hlo_elem_to_f64(t, want) : 0);
  double re = fabs(hlo_elem_to_f64(part, want)),
         im = fabs(hlo_elem_to_f64(part, (const char *)want + s)),
         largest = isfinite(re) && isfinite(im) ? HS_MAX(re, im)
                   : isfinite(re)               ? re
                                                : im;
  return part_agrees(part, want, got, tol, largest) &&
         part_agrees(part, (const char *)want + s, (const char *)got + s, tol, largest);
}

// ---- known differences --------------------------------------------------------------------------
typedef enum where { ANY, TINY, TINY_IN, ZERO, INF_NAN } where;
static const struct {
  const char *kind, *route, *types, *cases;
  where where;
} known[] = {
#define KNOWN(kind, route, types, cases, where, why) {kind, route, types, cases, where},
#include "tests/harness/sweep_known.def"
#undef KNOWN
};

// One of several patterns, separated by |.
static bool matches(const char *patterns, const char *s) {
  char one[200];
  for (const char *p = patterns, *end; *p; p = end + (*end == '|')) {
    end = p + strcspn(p, "|");
    snprintf(one, sizeof one, "%.*s", (int)(end - p), p);
    if (fnmatch(one, s, 0) == 0) return true;
  }
  return false;
}

typedef enum shape_of { IS_ZERO = 1, IS_TINY = 2, IS_WILD = 4, IS_PLAIN = 8 } shape_of;
// What the parts of an element are, as a set.
static u32 parts_of(hlo_dtype t, const void *p) {
  hlo_dtype part = hlo_dtype_real_part(t);
  if (!hlo_dtype_is_float(part)) return IS_PLAIN;
  u32 set = 0;
  for (size_t at = 0; at < hlo_dtype_storage(t); at += hlo_dtype_storage(part)) {
    double v = hlo_elem_to_f64(part, (const char *)p + at);
    double normal = ldexp(1, 1 - hlo_dtypes[part].format.bias);
    set |= v == 0 ? IS_ZERO : !isfinite(v) ? IS_WILD : fabs(v) < normal ? IS_TINY : IS_PLAIN;
  }
  return set;
}

static bool used_by(const run *r, u32 k, const sweep_param *a) {
  size_t w = strlen(a->name);
  for (const char *hit = r->b->cases.v[k].body; (hit = strstr(hit, a->name)) != NULL; hit += w)
    if (strchr("( ", hit[-1]) && strchr(",)", hit[w])) return true;
  return false;
}

static bool is_known(const run *r, u32 k, route way, hlo_dtype t, i64 n, i64 at, const void *want,
                     const void *got) {
  u32 w = parts_of(t, want), g = parts_of(t, got), in = 0;
  for (size_t p = 0; p < r->b->params.n; p++) {
    const hlo_literal *l = r->b->params.v[p].value;
    hlo_dtype lt = l->shape->dtype;
    if (l->shape->elements == n && used_by(r, k, &r->b->params.v[p]))
      in |= parts_of(lt, (const char *)l->data + (size_t)at * hlo_dtype_storage(lt));
  }
  for (size_t j = 0; j < HS_COUNT(known); j++) {
    if (!matches(known[j].kind, sweep_kind_names[r->kind]) ||
        !matches(known[j].route, route_names[way]) ||
        !matches(known[j].types, hlo_dtype_text(r->b->type)) ||
        !matches(known[j].cases, r->b->cases.v[k].name))
      continue;
    switch (known[j].where) {
    case ANY: return true;
    case TINY:
      if (((w | g) & (IS_WILD | IS_PLAIN)) == 0) return true;
      break;
    case TINY_IN:
      if (in & IS_TINY) return true;
      break;
    case ZERO:
      if (w & g & IS_ZERO) return true;
      break;
    case INF_NAN:
      if ((w | g) & IS_WILD) return true;
      break;
    default: break;
    }
  }
  return false;
}

static void put_element(FILE *out, const hlo_literal *l, i64 k) {
  hlo_dtype t = l->shape->dtype, part = hlo_dtype_real_part(t);
  size_t s = hlo_dtype_storage(t), p = hlo_dtype_storage(part);
  for (size_t at = 0; at < s; at += p) {
    const char *v = (const char *)l->data + (size_t)k * s + at;
    if (at) fputc(';', out);
    if (hlo_dtype_is_integer(t)) fprintf(out, "%lld", (long long)hlo_elem_to_i64(t, v));
    else fprintf(out, "%.*g", hlo_dtype_digits(part), hlo_elem_to_f64(part, v));
  }
}

// Elements of the parameters that have as many as the result: what the operation was given.
static void put_operands(const run *r, u32 k, i64 n, i64 at) {
  for (size_t p = 0; p < r->b->params.n; p++) {
    const sweep_param *a = &r->b->params.v[p];
    if (!used_by(r, k, a) || a->value->shape->elements != n) continue;
    fprintf(r->out, " %s=", a->name);
    put_element(r->out, a->value, at);
  }
}

// Reports the elements that differ.
typedef enum verdict { AGREES, KNOWN, DIFFERS } verdict;
static verdict compare(const run *r, u32 k, route way, const hlo_literal *want,
                       const hlo_literal *got) {
  const sweep_case *c = &r->b->cases.v[k];
  hlo_dtype t = want->shape->dtype;
  size_t s = hlo_dtype_storage(t);
  if (want->shape->logical != got->shape->logical) {
    fprintf(r->out, "FAIL %s %s %s %s: another shape\n", sweep_kind_names[r->kind],
            hlo_dtype_text(r->b->type), c->name, route_names[way]);
    return DIFFERS;
  }
  i64 bad = 0, excused = 0, n = want->shape->elements;
  for (i64 e = 0; e < want->shape->elements; e++) {
    const char *w = (const char *)want->data + (size_t)e * s,
               *g = (const char *)got->data + (size_t)e * s;
    if (element_agrees(t, w, g, c->tol)) continue;
    if (is_known(r, k, way, t, n, e, w, g)) {
      excused++;
      continue;
    }
    if (bad++ >= (r->s->verbose ? 20 * SHOWN : SHOWN)) continue;
    if (bad == 1)
      fprintf(r->out, "FAIL %s %s %s %s:", sweep_kind_names[r->kind], hlo_dtype_text(r->b->type),
              c->name, route_names[way]);
    fprintf(r->out, " [%lld]", (long long)e);
    put_operands(r, k, want->shape->elements, e);
    fputs(" want ", r->out);
    put_element(r->out, want, e);
    fputs(" got ", r->out);
    put_element(r->out, got, e);
    fputc(';', r->out);
  }
  if (bad) fprintf(r->out, " %lld of %lld\n", (long long)bad, (long long)want->shape->elements);
  return bad ? DIFFERS : excused ? KNOWN : AGREES;
}

// ---- a block ------------------------------------------------------------------------------------
static void declined(run *r, u32 k, route way, hs_status s) {
  r->of[way].declined++;
  if (r->s->verbose || s.err->code == HS_E_WORKER) {
    hs_buf text = {0};
    for (const hs_diag *d = s.err; d; d = d->next) hs_buf_printf(&text, ": %s", d->message);
    for (size_t b = 0; b < text.n; b++)
      if (text.p[b] == '\n') text.p[b] = ' ';
    fprintf(r->out, "declined %s %s %s %s%.300s\n", sweep_kind_names[r->kind],
            hlo_dtype_text(r->b->type), r->b->cases.v[k].name, route_names[way],
            hs_buf_cstr(&text));
    hs_buf_free(&text);
  }
  hs_status_drop(s);
}

// Cases [from, to) by a route: together, or in halves where that is refused.
static void go(run *r, route way, u32 from, u32 to, hlo_literal *const *want) {
  hlo_literal *got = NULL;
  hs_status s = by(r, way, from, to, &got);
  if (hs_ok(s)) {
    for (u32 k = from; k < to; k++) switch (compare(r, k, way, want[k], got->children[k - from])) {
      case AGREES: r->of[way].agree++; break;
      case KNOWN: r->of[way].known++; break;
      default: r->of[way].failed++;
      }
  } else if (to - from == 1) {
    declined(r, from, way, s);
  } else {
    hs_status_drop(s);
    u32 mid = from + (to - from) / 2;
    go(r, way, from, mid, want);
    go(r, way, mid, to, want);
  }
  hlo_literal_unref(got);
}

// Leaves the cases that are valid and that the evaluator covers, with their values in `want`.
static void reference(run *r, hlo_literal **want) {
  u32 n = 0;
  for (u32 k = 0; k < r->b->cases.n; k++) {
    hlo_module *m = NULL;
    hlo_literal *value = NULL;
    sweep_case c = r->b->cases.v[k];
    bool wanted = !r->s->only || strstr(c.name, r->s->only);
    hs_status s = wanted ? build(r, k, k + 1, &m) : HS_GOOD;
    if (wanted && hs_ok(s)) {
      s = evaluate(r, m, &value);
      if (!hs_ok(s) && s.err->code == HS_E_UNSUPPORTED) {
        if (r->s->verbose)
          fprintf(r->out, "declined %s %s %s interp\n", sweep_kind_names[r->kind],
                  hlo_dtype_text(r->b->type), c.name);
        r->of[ROUTE_CPU].invalid++;
      } else if (!hs_ok(s)) {
        fprintf(r->out, "FAIL %s %s %s interp: %s\n", sweep_kind_names[r->kind],
                hlo_dtype_text(r->b->type), c.name, s.err->message);
        r->of[ROUTE_CPU].failed++;
      }
    } else if (wanted && s.err->code == HS_E_SYNTAX) {
      fprintf(r->out, "FAIL %s %s %s: %s\n", sweep_kind_names[r->kind], hlo_dtype_text(r->b->type),
              c.name, s.err->message);
      r->of[ROUTE_CPU].failed++;
    } else if (wanted) {
      if (r->s->verbose)
        fprintf(r->out, "invalid %s %s %s: %s\n", sweep_kind_names[r->kind],
                hlo_dtype_text(r->b->type), c.name, s.err->message);
      r->of[ROUTE_CPU].invalid++;
    }
    hs_status_drop(s);
    hlo_module_free(m);
    if (value) {
      want[n] = hlo_literal_ref(value->children[0]);
      r->b->cases.v[k] = r->b->cases.v[n];
      r->b->cases.v[n++] = c;
    }
    hlo_literal_unref(value);
  }
  for (u32 k = n; k < r->b->cases.n; k++) {
    hs_free(r->b->cases.v[k].name);
    hs_free(r->b->cases.v[k].helpers);
    hs_free(r->b->cases.v[k].body);
  }
  r->b->cases.n = n;
}

// Real XLA needs minutes for the thousands of modules with constants: those it gets in full only.
static bool takes(const setup *s, route way, sweep_kind kind) {
  bool few = kind == SWEEP_EW || kind == SWEEP_CONVERT || kind == SWEEP_SHAPED;
  // of two functions in a row the second enlarges how far the first may be off
  if (kind == SWEEP_CHAIN && (way == ROUTE_CPU || way == ROUTE_PJRT)) return false;
  return s->routes[way] && (way != ROUTE_PJRT || few || s->full);
}

static int run_block(void *arg, u32 number, FILE *out) {
  const setup *s = arg;
  hlo_ctx *ctx = hlo_ctx_new();
  sweep_block b;
  run r = {.s = s, .out = out, .b = &b, .kind = s->work.v[number] / HLO_DTYPE_COUNT};
  sweep_make(ctx, r.kind, s->work.v[number] % HLO_DTYPE_COUNT, s->full, &b);
  hlo_literal **want = hs_calloc(b.cases.n + 1, sizeof *want);
  r.backends = backend_context_new();
  reference(&r, want);
  for (route way = 0; way < ROUTE_COUNT; way++)
    for (u32 from = 0; takes(s, way, r.kind) && from < b.cases.n; from += 200)
      go(&r, way, from, HS_MIN(from + 200, (u32)b.cases.n), want);
  backend_context_free(r.backends);
  for (route way = 0; way < ROUTE_COUNT; way++)
    fprintf(out, "totals %d %llu %llu %llu %llu %llu\n", way, (unsigned long long)r.of[way].agree,
            (unsigned long long)r.of[way].failed, (unsigned long long)r.of[way].known,
            (unsigned long long)r.of[way].declined, (unsigned long long)r.of[way].invalid);
  for (size_t k = 0; k < b.cases.n; k++) hlo_literal_unref(want[k]);
  hs_free(want);
  sweep_free(&b);
  hlo_ctx_free(ctx);
  return 0;
}

static void block_done(void *arg, u32 number, drv_result *result) {
  setup *s = arg;
  for (const char *p = result->text, *end; *p; p = end + (*end == '\n')) {
    end = p + strcspn(p, "\n");
    unsigned long long v[5];
    int way;
    if (sscanf(p, "totals %d %llu %llu %llu %llu %llu", &way, v, v + 1, v + 2, v + 3, v + 4) == 6) {
      totals *t = &s->of[way];
      t->agree += v[0], t->failed += v[1], t->known += v[2], t->declined += v[3];
      t->invalid += v[4];
    } else printf("%.*s\n", (int)(end - p), p);
  }
  if (result->verdict) {
    s->sum.failed++;
    printf("FAIL %s %s: %s\n", sweep_kind_names[s->work.v[number] / HLO_DTYPE_COUNT],
           hlo_dtype_text(s->work.v[number] % HLO_DTYPE_COUNT), result->ending);
  }
  fflush(stdout);
}

// ---- main ---------------------------------------------------------------------------------------
// A route that this machine lacks is named and left out.
static void choose_routes(setup *s, const char *asked) {
  for (route way = 0; way < ROUTE_COUNT; way++) {
    s->routes[way] = asked ? strstr(asked, route_names[way]) != NULL : true;
    if (!s->routes[way] || (way != ROUTE_CPU && way != ROUTE_PJRT)) continue;
    hs_status st = backend_find(route_names[way])->probe();
    if (hs_ok(st)) continue;
    printf("SKIP %s: %s\n", route_names[way], st.err->message);
    hs_status_drop(st);
    s->routes[way] = false;
  }
}

int main(int argc, char **argv) {
  int worker_status;
  // this binary is its own worker
  if (worker_entry(argc, argv, &worker_status)) return worker_status;
  static const char *const options[] = {"!full", "routes",   "kind", "type",
                                        "only",  "!verbose", NULL};
  drv_args a;
  if (!drv_parse(argc, argv, options, &a) || a.n) {
    fprintf(stderr, "usage: sweep [--full] [--routes cpu,folded,algsimp,pjrt] [--kind KIND] "
                    "[--type TYPE] [--only SUBSTRING] [--verbose] [-j N]\n");
    return 2;
  }
  setup s = {.full = drv_option(&a, "full") != NULL,
             .verbose = drv_option(&a, "verbose") != NULL,
             .only = drv_option(&a, "only"),
             .kind = drv_option(&a, "kind"),
             .type = drv_option(&a, "type")};
  choose_routes(&s, drv_option(&a, "routes"));
  for (u32 kind = 0; kind < SWEEP_KIND_COUNT; kind++)
    for (u32 t = 1; t < HLO_DTYPE_COUNT; t++)
      if (hlo_dtype_is_array(t) && (!s.kind || !strcmp(s.kind, sweep_kind_names[kind])) &&
          (!s.type || !strcmp(s.type, hlo_dtype_text(t))))
        hs_vec_push(&s.work, kind * HLO_DTYPE_COUNT + t);
  drv_run((u32)s.work.n, a.jobs, 1800, run_block, block_done, &s);
  for (route way = 0; way < ROUTE_COUNT; way++) {
    const totals *t = &s.of[way];
    if (s.routes[way])
      printf("%s: %llu agree, %llu differ, %llu known, %llu declined\n", route_names[way],
             (unsigned long long)t->agree, (unsigned long long)t->failed,
             (unsigned long long)t->known, (unsigned long long)t->declined);
    s.sum.agree += t->agree, s.sum.failed += t->failed, s.sum.known += t->known;
    s.sum.declined += t->declined, s.sum.invalid += t->invalid;
  }
  printf("%llu cases of no valid type\n", (unsigned long long)s.sum.invalid);
  printf("sweep: %llu/%llu agree, %llu known, %llu declined\n", (unsigned long long)s.sum.agree,
         (unsigned long long)(s.sum.agree + s.sum.failed), (unsigned long long)s.sum.known,
         (unsigned long long)s.sum.declined);
  hs_vec_free(&s.work);
  return s.sum.failed ? 1 : 0;
}
