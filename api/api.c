// api.c — libhlosh (include/hlosh.h): the layers below the shell behind opaque handles. Nothing
// is kept outside of an instance; every status becomes an error that the caller owns.
#include "include/hlosh.h"

#include "backends/block.h"
#include "backends/cpu/local.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "passes/passes.h"
#include "profiler/model/prof.h"

#include <stdlib.h>

_Static_assert(HLOSH_MAX_RANK >= HLO_MAX_RANK, "every shape has a place");

struct hlosh {
  hlo_ctx *ctx;
};
struct hlosh_error {
  char *message;
  const char *code;
};
struct hlosh_module {
  hlosh *of;
  hlo_module *m;
};
struct hlosh_program {
  hlosh *of;
  hlo_module *m;
  cpu_local *cpu;  // NULL: the evaluator
};

// ---- errors -------------------------------------------------------------------------------------
static hlosh_error *error_of(hs_status s) {
  if (hs_ok(s)) return NULL;
  hs_buf b = {0};
  hs_status_render(s, &b, false);
  while (b.n && b.p[b.n - 1] == '\n') b.n--;
  hlosh_error *e = hs_calloc(1, sizeof *e);
  e->message = hs_strdup(hs_buf_cstr(&b));
  e->code = hs_code_text(s.err->code);
  hs_buf_free(&b);
  hs_status_drop(s);
  return e;
}

const char *hlosh_error_message(const hlosh_error *e) { return e ? e->message : ""; }
const char *hlosh_error_code(const hlosh_error *e) { return e ? e->code : ""; }
void hlosh_error_free(hlosh_error *e) {
  if (e) hs_free(e->message);
  hs_free(e);
}

// ---- instances ----------------------------------------------------------------------------------
int hlosh_api_version(void) { return HLOSH_API_VERSION; }

hlosh_error *hlosh_open(int version, hlosh **out) {
  *out = NULL;
  if (version < 1 || version > HLOSH_API_VERSION)
    return error_of(hs_fail(HS_E_USAGE, "libhlosh has version %d of its interface, not %d",
                            HLOSH_API_VERSION, version));
  hlosh *h = hs_calloc(1, sizeof *h);
  h->ctx = hlo_ctx_new();
  return *out = h, NULL;
}

void hlosh_close(hlosh *h) {
  if (h) hlo_ctx_free(h->ctx);
  hs_free(h);
}

// ---- modules ------------------------------------------------------------------------------------
static hlosh_module *handle_of(hlosh *h, hlo_module *take) {
  hlosh_module *m = hs_calloc(1, sizeof *m);
  *m = (hlosh_module){h, take};
  return m;
}

hlosh_error *hlosh_load_file(hlosh *h, const char *path, hlosh_module **out) {
  hlo_module *m;
  *out = NULL;
  hs_status s = hlo_load_file(h->ctx, path, NULL, &m);
  if (hs_ok(s)) *out = handle_of(h, m);
  return error_of(s);
}

hlosh_error *hlosh_load(hlosh *h, const char *name, const void *bytes, size_t n,
                        hlosh_module **out) {
  hlo_module *m;
  *out = NULL;
  hs_status s = hlo_load_bytes(h->ctx, name ? name : "<memory>", bytes, n, &m);
  if (hs_ok(s)) *out = handle_of(h, m);
  return error_of(s);
}

hlosh_error *hlosh_build(hlosh *h, const char *name, hlosh_module **out) {
  hlo_module *m = hlo_module_new(h->ctx, name ? name : "module");
  hlo_set_entry(m, hlo_add_computation(m, "main"));
  return *out = handle_of(h, m), NULL;
}

hlosh_error *hlosh_add(hlosh_module *m, const char *instruction) {
  hlo_instr *i;
  return error_of(hlo_parse_instr_into(m->m->entry, instruction, strlen(instruction), &i));
}

hlosh_error *hlosh_clone(const hlosh_module *m, hlosh_module **out) {
  *out = handle_of(m->of, hlo_module_clone(m->m, m->m->name));
  return NULL;
}

void hlosh_module_free(hlosh_module *m) {
  if (m) hlo_module_free(m->m);
  hs_free(m);
}

const char *hlosh_module_name(const hlosh_module *m) { return m->m->name; }

size_t hlosh_instructions(const hlosh_module *m) {
  size_t n = 0;
  hlo_for_each_comp(c, m->m) n += c->ninstrs;
  return n;
}

// What may be printed and asked for its signature: a module that was built may have no result yet.
static hs_status check_root(const hlo_module *m) {
  if (m->entry && m->entry->root) return HS_GOOD;
  return hs_fail(HS_E_VERIFY, "the module has no result: no instruction is marked ROOT");
}

hlosh_error *hlosh_print(const hlosh_module *m, char **out, size_t *n) {
  hs_buf b = {0};
  *out = NULL;
  *n = 0;
  hs_status s = check_root(m->m);
  if (!hs_ok(s)) return error_of(s);
  hlo_print_options o = hlo_print_full();
  hlo_print_module(&b, m->m, &o);
  (void)hs_buf_cstr(&b);
  *n = b.n;
  *out = b.p;
  return NULL;
}
void hlosh_text_free(char *text) { hs_free(text); }

static hs_status verify(const hlo_module *m) {
  HS_TRY(check_root(m));
  return hlo_verify(m, NULL);
}
hlosh_error *hlosh_verify(const hlosh_module *m) { return error_of(verify(m->m)); }

hlosh_error *hlosh_passes(hlosh_module *m, const char *passes) {
  hs_status s = verify(m->m);
  pass_run_options o = pass_run_default();
  o.measure = false;
  if (hs_ok(s)) s = pipeline_run(m->m, passes, &o, NULL);
  return error_of(s);
}

// ---- signatures ---------------------------------------------------------------------------------
static size_t count_arguments(const hlo_module *m) {
  size_t n = 0;
  for (u32 k = 0; m->entry && k < m->entry->nparams; k++)
    n += hlo_shape_leaves(m->entry->params[k]->shape);
  return n;
}

size_t hlosh_arguments(const hlosh_module *m) { return count_arguments(m->m); }
size_t hlosh_results(const hlosh_module *m) {
  return hs_ok(check_root(m->m)) ? hlo_shape_leaves(m->m->entry->root->shape) : 0;
}

static hlosh_error *describe(const hlo_shape *s, size_t k, hlosh_array *out) {
  *out = (hlosh_array){.type = ""};
  if (!s) return error_of(hs_fail(HS_E_USAGE, "there is no array %zu", k));
  out->type = hlo_dtype_text(s->dtype);
  out->rank = s->rank;
  for (u32 d = 0; d < s->rank; d++) out->dims[d] = s->dims[d];
  out->bytes = block_leaf_bytes(s);
  return NULL;
}

hlosh_error *hlosh_argument(const hlosh_module *m, size_t k, hlosh_array *out) {
  const hlo_computation *c = m->m->entry;
  size_t at = k;
  for (u32 j = 0; c && j < c->nparams; j++) {
    u32 n = hlo_shape_leaves(c->params[j]->shape);
    if (at < n) return describe(hlo_shape_leaf(c->params[j]->shape, (u32)at), k, out);
    at -= n;
  }
  return describe(NULL, k, out);
}

hlosh_error *hlosh_result(const hlosh_module *m, size_t k, hlosh_array *out) {
  bool there = k < hlosh_results(m);
  return describe(there ? hlo_shape_leaf(m->m->entry->root->shape, (u32)k) : NULL, k, out);
}

// ---- programs -----------------------------------------------------------------------------------
hlosh_error *hlosh_compile(const hlosh_module *m, const char *name, hlosh_program **out) {
  *out = NULL;
  bool cpu = !strcmp(name, "cpu");
  if (!cpu && strcmp(name, "interp") != 0)
    return error_of(hs_fail(HS_E_USAGE, "backend '%.40s' is not cpu or interp", name));
  hs_status s = verify(m->m);
  if (!hs_ok(s)) return error_of(s);
  hlosh_program *p = hs_calloc(1, sizeof *p);
  p->of = m->of;
  p->m = hlo_module_clone(m->m, m->m->name);
  hlo_journal_disable(p->m);
  const cpu_local_options o = {.few_devices = true};
  const hlo_eval_options eval = {0};
  s = cpu ? cpu_local_compile(p->m, &o, &p->cpu) : hlo_eval_check(p->m, &eval);
  if (hs_ok(s) && cpu && cpu_local_devices(p->cpu) > 1)
    s = hs_fail(HS_E_UNSUPPORTED, "a program of several devices");
  if (!hs_ok(s)) return hlosh_program_free(p), error_of(s);
  return *out = p, NULL;
}

void hlosh_program_free(hlosh_program *p) {
  if (!p) return;
  cpu_local_free(p->cpu);
  hlo_module_free(p->m);
  hs_free(p);
}

static void fill(hlo_literal *l, const void *const *arrays, size_t *at) {
  for (u32 k = 0; k < l->nchildren; k++) fill(l->children[k], arrays, at);
  if (hlo_shape_is_tuple(l->shape)) return;
  if (l->bytes && hlo_shape_is_array(l->shape)) memcpy(l->data, arrays[*at], l->bytes);
  ++*at;
}

static void empty(const hlo_literal *l, void *const *arrays, size_t *at) {
  for (u32 k = 0; k < l->nchildren; k++) empty(l->children[k], arrays, at);
  if (hlo_shape_is_tuple(l->shape)) return;
  if (arrays && arrays[*at] && l->bytes && hlo_shape_is_array(l->shape))
    memcpy(arrays[*at], l->data, l->bytes);
  ++*at;
}

static hs_status evaluate(hlosh_program *p, const void *const *arguments, void *const *results) {
  const hlo_computation *c = p->m->entry;
  hlo_literal **args = hs_calloc(c->nparams + 1, sizeof *args), *out = NULL;
  hs_status s = HS_GOOD;
  size_t at = 0;
  for (u32 k = 0; k < c->nparams && hs_ok(s); k++) {
    const hlo_shape *shape = hlo_shape_with_default_layout(p->of->ctx, c->params[k]->shape);
    s = hlo_literal_new(shape, &args[k]);
    if (hs_ok(s)) fill(args[k], arguments, &at);
  }
  const hlo_eval_options o = {0};
  if (hs_ok(s)) s = hlo_eval_module(p->m, c->nparams, args, &o, &out);
  at = 0;
  if (hs_ok(s)) empty(out, results, &at);
  hlo_literal_unref(out);
  for (u32 k = 0; k < c->nparams; k++) hlo_literal_unref(args[k]);
  hs_free(args);
  return s;
}

static hs_status run(hlosh_program *p, const void *const *arguments, void *const *results) {
  for (size_t k = 0, n = count_arguments(p->m); k < n; k++)
    if (!arguments || !arguments[k]) return hs_fail(HS_E_INPUT, "argument %zu is NULL", k);
  if (!p->cpu) return evaluate(p, arguments, results);
  size_t n = hlo_shape_leaves(p->m->entry->root->shape);
  void **none = results ? NULL : hs_calloc(n + 1, sizeof *none);
  hs_status s = cpu_local_run(p->cpu, arguments, results ? results : none, NULL);
  hs_free(none);
  return s;
}

hlosh_error *hlosh_run(hlosh_program *p, const void *const *arguments, void *const *results) {
  return error_of(run(p, arguments, results));
}

// ---- figures ------------------------------------------------------------------------------------
static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double q) {
  double at = q * (double)(n - 1);
  size_t k = (size_t)at;
  return k + 1 < n ? sorted[k] + (at - (double)k) * (sorted[k + 1] - sorted[k]) : sorted[k];
}

// Copies a struct of ours to a caller's, which may be shorter.
static void hand_over(void *to, size_t room, const void *from, size_t n) {
  size_t head = sizeof(size_t);
  if (room > head) memcpy((char *)to + head, (const char *)from + head, HS_MIN(room, n) - head);
}

hlosh_error *hlosh_measure(hlosh_program *p, const void *const *arguments, size_t runs,
                           hlosh_times *out) {
  enum { MOST = 1000000 };
  size_t n = HS_MIN(HS_MAX(runs, (size_t)1), (size_t)MOST);
  double *ms = hs_calloc(n, sizeof *ms);
  hs_status s = run(p, arguments, NULL);
  for (size_t k = 0; k < n && hs_ok(s); k++) {
    u64 t0 = hs_now_ns();
    s = run(p, arguments, NULL);
    ms[k] = (double)(hs_now_ns() - t0) * 1e-6;
  }
  if (hs_ok(s)) {
    qsort(ms, n, sizeof *ms, by_value);
    const hlosh_times t = {.runs = n,
                           .median_ms = quantile(ms, n, 0.5),
                           .p10_ms = quantile(ms, n, 0.1),
                           .p90_ms = quantile(ms, n, 0.9),
                           .min_ms = ms[0]};
    hand_over(out, out->struct_size, &t, sizeof t);
  }
  hs_free(ms);
  return error_of(s);
}

hlosh_error *hlosh_estimate(const hlosh_module *m, const char *device, hlosh_estimated *out) {
  const prof_device *d = prof_device_find(device);
  if (!d) return error_of(hs_fail(HS_E_USAGE, "there is no device '%.40s'", device));
  prof_estimate e;
  hs_status s = verify(m->m);
  if (hs_ok(s)) s = prof_estimate_module(m->m, d, false, &e);
  if (!hs_ok(s)) return error_of(s);
  const hlosh_estimated t = {.seconds = e.time_s,
                             .flops = e.flops,
                             .bytes = e.bytes,
                             .peak_bytes = e.peak_bytes,
                             .kernels = e.kernels};
  hand_over(out, out->struct_size, &t, sizeof t);
  return NULL;
}
