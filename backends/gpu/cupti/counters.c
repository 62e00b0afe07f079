// counters.c — CUPTI's range profiler: its functions, what a chip counts, sessions. See
// counters.h.
//
// A session, in CUPTI's order: the chip's name and what of its counters the device lets be used; on
// the host a plan (which counters, in how many passes); the profiler on the context; memory for the
// values; the passes; then the values are decoded and the profiler goes. Ranges are ours, and so is
// the repetition: CUPTI neither saves memory nor launches anything again.
#include "backends/gpu/cupti/counters.h"

#include <dlfcn.h>
#include <math.h>

// Where CUPTI's structure ends, by which it knows its version.
enum {
#define COUNTERS_FN(field, symbol, args, last, theirs) \
  BYTES_##field = offsetof(args, last) + sizeof(((args *)0)->last),
#include "backends/gpu/cupti/counters.def"
#undef COUNTERS_FN
};
#define CALL(api, field, p, what) \
  ((p)->bytes_of = BYTES_##field, cupti_check((api)->field(p), (what)))

hs_status counters_find(const cupti_api *cupti, counters_api *out) {
  const struct {
    const char *symbol;
    void **fn;
  } fns[] = {
#define COUNTERS_FN(field, symbol, args, last, theirs) {#symbol, (void **)(void *)&out->field},
#include "backends/gpu/cupti/counters.def"
#undef COUNTERS_FN
  };
  *out = (counters_api){0};
  for (size_t k = 0; k < HS_COUNT(fns); k++)
    if (!(*fns[k].fn = dlsym(cupti->library, fns[k].symbol)))
      return hs_with_note(hs_fail(HS_E_NOT_BUILT, "this CUPTI has no %s", fns[k].symbol),
                          "fix: install that of CUDA 13, or name it in HLOSH_LIBCUPTI");
  return HS_GOOD;
}

static hs_status image_new(counters_image *x, size_t n) {
  x->p = hs_try_alloc(HS_MAX(n, 1));
  x->n = x->p ? n : 0;
  return x->p ? HS_GOOD : hs_fail(HS_E_NO_MEMORY, "no memory for %zu bytes of counters", n);
}

// ---- plans --------------------------------------------------------------------------------------

// A metric that the chip does not have is left out.
static hs_status add_metric(counters_plan *p, counters_metric m, const char *name) {
  counters_add a = {.bytes_of = BYTES_add, .host = p->host, .names = &name, .n = 1};
  cupti_result r = p->api->add(&a);
  if (r == COUNTERS_NO_METRIC) return HS_GOOD;
  HS_TRY(cupti_check(r, name));
  p->names[p->n] = name;
  p->metric[p->n++] = m;
  return HS_GOOD;
}

static hs_status make_plan(counters_plan *p, const char *chip, const u8 *available) {
  static const char *const names[] = {
#define METRIC(NAME, name) name,
#include "backends/gpu/cupti/metrics.def"
#undef METRIC
  };
  const counters_api *api = p->api;
  counters_host h = {.kind = COUNTERS_BY_RANGE, .chip = chip, .available = available};
  HS_TRY(CALL(api, host_new, &h, "asking what the chip counts"));
  p->host = h.host;
  for (size_t k = 0; k < HS_COUNT(names); k++) HS_TRY(add_metric(p, (counters_metric)k, names[k]));
  if (!p->n) return hs_fail(HS_E_UNSUPPORTED, "%s has none of the counters", chip);
  counters_config_size size = {.host = p->host};
  HS_TRY(CALL(api, config_size, &size, "planning counters"));
  HS_TRY(image_new(&p->config, size.bytes));
  counters_config c = {.host = p->host, .bytes = size.bytes, .image = p->config.p};
  HS_TRY(CALL(api, config, &c, "planning counters"));
  counters_passes n = {.bytes = size.bytes, .image = p->config.p};
  HS_TRY(CALL(api, passes, &n, "planning counters"));
  p->passes = n.passes;
  return HS_GOOD;
}

hs_status counters_plan_new(const counters_api *api, const char *chip, const u8 *available,
                            counters_plan *out) {
  *out = (counters_plan){.api = api};
  hs_status s = make_plan(out, chip, available);
  if (!hs_ok(s)) counters_plan_free(out);
  return s;
}

void counters_plan_free(counters_plan *p) {
  counters_host_end h = {.bytes_of = BYTES_host_free, .host = p->host};
  if (p->host) (void)p->api->host_free(&h);
  hs_free(p->config.p);
  *p = (counters_plan){0};
}

// ---- sessions -----------------------------------------------------------------------------------

static hs_status find_plan(const counters_api *api, void *context, size_t device,
                           counters_session *s) {
  counters_any none = {0};
  HS_TRY(CALL(api, start_up, &none, "starting the counters"));
  counters_chip chip = {.device = device};
  HS_TRY(CALL(api, chip, &chip, "asking for the chip"));
  counters_available a = {.context = context};
  HS_TRY(CALL(api, available, &a, "asking for the counters"));
  HS_TRY(image_new(&s->available, a.bytes));
  a.image = s->available.p;
  HS_TRY(CALL(api, available, &a, "asking for the counters"));
  return counters_plan_new(api, chip.name, a.image, &s->plan);
}

static hs_status configure(counters_session *s, void *context, size_t ranges) {
  static const char what[] = "setting up the counters";
  const counters_api *api = s->plan.api;
  counters_enable e = {.context = context};
  HS_TRY(CALL(api, enable, &e, what));
  s->enabled = true;
  s->profiler = e.profiler;
  counters_data_size size = {.profiler = s->profiler,
                             .names = s->plan.names,
                             .n = s->plan.n,
                             .ranges = ranges,
                             .nodes = (u32)ranges};
  HS_TRY(CALL(api, data_size, &size, what));
  HS_TRY(image_new(&s->data, size.bytes));
  counters_data d = {.profiler = s->profiler, .bytes = size.bytes, .image = s->data.p};
  HS_TRY(CALL(api, data_new, &d, what));
  counters_set set = {.profiler = s->profiler,
                      .config_bytes = s->plan.config.n,
                      .config = s->plan.config.p,
                      .data_bytes = size.bytes,
                      .data = s->data.p,
                      .range = COUNTERS_OUR_RANGES,
                      .replay = COUNTERS_OUR_REPLAY,
                      .ranges = ranges,
                      .levels = 1,
                      .least_level = 1,
                      .level = 1};
  return CALL(api, set, &set, what);
}

hs_status counters_begin(const counters_api *api, void *context, size_t device, size_t ranges,
                         counters_session *out) {
  *out = (counters_session){0};
  hs_status s = find_plan(api, context, device, out);
  if (hs_ok(s)) s = configure(out, context, ranges);
  if (!hs_ok(s)) counters_end(out);
  return s;
}

hs_status counters_pass_begin(counters_session *s) {
  counters_of p = {.profiler = s->profiler};
  HS_TRY(CALL(s->plan.api, start, &p, "starting to count"));
  s->started = true;
  return HS_GOOD;
}

hs_status counters_pass_end(counters_session *s, bool *all) {
  counters_stop p = {.profiler = s->profiler};
  s->started = false;
  HS_TRY(CALL(s->plan.api, stop, &p, "counting"));
  s->done++;
  *all = p.all != 0;
  return HS_GOOD;
}

hs_status counters_push_range(counters_session *s, const char *name) {
  counters_push p = {.profiler = s->profiler, .name = name};
  return CALL(s->plan.api, push, &p, "counting a kernel");
}

hs_status counters_pop_range(counters_session *s) {
  counters_of p = {.profiler = s->profiler};
  return CALL(s->plan.api, pop, &p, "counting a kernel");
}

static hs_status read_range(counters_session *s, size_t k, counters_each *each, void *ctx) {
  double got[COUNTERS_METRICS], values[COUNTERS_METRICS];
  const u8 *data = s->data.p;
  counters_range r = {.data = data, .bytes = s->data.n, .range = k, .delimiter = "/"};
  HS_TRY(CALL(s->plan.api, range, &r, "reading the counters"));
  counters_evaluate e = {.host = s->plan.host,
                         .data = data,
                         .bytes = s->data.n,
                         .range = k,
                         .names = s->plan.names,
                         .n = s->plan.n,
                         .values = got};
  HS_TRY(CALL(s->plan.api, evaluate, &e, "reading the counters"));
  for (size_t m = 0; m < COUNTERS_METRICS; m++) values[m] = (double)NAN;
  for (size_t m = 0; m < s->plan.n; m++)
    if (isfinite(got[m]) && got[m] >= 0) values[s->plan.metric[m]] = got[m];
  each(ctx, r.name, values);
  return HS_GOOD;
}

hs_status counters_read(counters_session *s, counters_each *each, void *ctx) {
  counters_decode d = {.profiler = s->profiler};
  HS_TRY(CALL(s->plan.api, decode, &d, "decoding the counters"));
  s->dropped = d.dropped;
  counters_ranges r = {.data = s->data.p, .bytes = s->data.n};
  HS_TRY(CALL(s->plan.api, ranges, &r, "reading the counters"));
  for (size_t k = 0; k < r.n; k++) HS_TRY(read_range(s, k, each, ctx));
  return HS_GOOD;
}

void counters_end(counters_session *s) {
  bool all;
  if (s->started) hs_status_drop(counters_pass_end(s, &all));
  counters_of p = {.bytes_of = BYTES_disable, .profiler = s->profiler};
  if (s->enabled) (void)s->plan.api->disable(&p);
  counters_plan_free(&s->plan);
  hs_free(s->available.p);
  hs_free(s->data.p);
  *s = (counters_session){0};
}
