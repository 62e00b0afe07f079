// trace.c — reads the log that XLA's pass pipelines write (TF_CPP_VMODULE=hlo_pass_pipeline=2)
// into a list of pass runs.
//
// Lines of interest, after the prefix that ends in "] ":
//   Running HLO pass pipeline on module M: PIPELINE
//   HLO pass PASS                                   a run begins; pipelines nest in passes
//   Module hash H    Number of instructions: N      the module as the run found it
//   HLO pass: PASS time: 1.81 ms (1806 us) (cumulative: 97.1 ms, ...)     the run has ended
// The state before a run is the state after the run in front of it, so whether a run changed the
// module follows from the hashes.
#include "backends/pjrt/pjrt.h"

#include <stdlib.h>

typedef struct open_run {
  u32 pipelines, begun, started;
  const char *pass;
  u64 hash;
  u32 before;
} open_run;
// waiting: runs that have ended, but whose result is not known yet
typedef struct tracer {
  pjrt_steps *out;
  HS_VEC(open_run) open;
  HS_VEC(const char *) pipelines;
  HS_VEC(u32) waiting;
} tracer;

static bool starts(const char *p, const char *end, const char *with, const char **rest) {
  size_t n = strlen(with);
  if ((size_t)(end - p) < n || memcmp(p, with, n) != 0) return false;
  *rest = p + n;
  return true;
}

static char *keep(tracer *t, const char *p, const char *end) {
  return hs_arena_strndup(&t->out->arena, p, (size_t)(end - p));
}

static void begin(tracer *t, const char *name) {
  open_run r = {.pipelines = (u32)t->pipelines.n,
                .pass = name,
                .begun = (u32)t->out->n,
                .started = t->out->pipelines};
  hs_vec_push(&t->open, r);
}

// The module's state at the start of a run, which is also the state after the runs before it.
static void state(tracer *t, bool hash, u64 value) {
  if (!t->open.n) return;
  open_run *r = &t->open.v[t->open.n - 1];
  if (hash) r->hash = value;
  else r->before = (u32)value;
  for (size_t k = 0; k < t->waiting.n; k++) {
    pjrt_step *s = &t->out->v[t->waiting.v[k]];
    if (hash) s->changed = s->hash != value;
    else s->after = (u32)value;
  }
  if (!hash) t->waiting.n = 0;
}

static double microseconds(const char *p) {
  char *unit;
  double v = strtod(p, &unit);
  while (*unit == ' ') unit++;
  return !strncmp(unit, "us", 2)   ? v
         : !strncmp(unit, "ms", 2) ? v * 1e3
         : !strncmp(unit, "ns", 2) ? v / 1e3
                                   : v * 1e6;
}

static void end_run(tracer *t, const char *p, const char *end) {
  const char *time = memmem(p, (size_t)(end - p), " time: ", 7),
             *exact = time ? memchr(time, '(', (size_t)(end - time)) : NULL;
  const char *all = time ? memmem(time, (size_t)(end - time), "(cumulative: ", 13) : NULL;
  if (!time || !exact || !t->open.n) return;
  open_run r = hs_vec_pop(&t->open);
  pjrt_step s = {.pass = keep(t, p, time),
                 .pipeline = r.pipelines ? t->pipelines.v[r.pipelines - 1] : "",
                 .us = microseconds(exact + 1),
                 .depth = (u32)t->open.n,
                 .before = r.before,
                 .after = r.before,
                 .hash = r.hash,
                 .whole = t->pipelines.n > r.pipelines,
                 .begun = r.begun,
                 .pipelines = {r.started, t->out->pipelines}};
  t->pipelines.n = r.pipelines;
  if (all) t->out->cumulative_us = microseconds(all + 13);
  hs_vec_push(t->out, s);
  hs_vec_push(&t->waiting, (u32)t->out->n - 1);
}

static void line(tracer *t, const char *p, const char *end) {
  const char *mark = memmem(p, (size_t)(end - p), "] ", 2), *rest;
  if (!mark || p[0] != 'I') return;
  for (p = mark + 2; p < end && *p == ' '; p++) {}
  if (starts(p, end, "Running HLO pass pipeline on module ", &rest)) {
    const char *colon = memmem(rest, (size_t)(end - rest), ": ", 2);
    u32 floor = t->open.n ? t->open.v[t->open.n - 1].pipelines : 0;
    if (t->pipelines.n > floor) t->pipelines.n = floor;  // the one before it has ended
    if (colon) hs_vec_push(&t->pipelines, keep(t, colon + 2, end)), t->out->pipelines++;
  } else if (starts(p, end, "HLO pass: ", &rest)) end_run(t, rest, end);
  else if (starts(p, end, "HLO pass ", &rest)) begin(t, keep(t, rest, end));
  else if (starts(p, end, "Module hash ", &rest)) state(t, true, strtoull(rest, NULL, 10));
  else if (starts(p, end, "Number of instructions: ", &rest))
    state(t, false, strtoull(rest, NULL, 10));
}

void pjrt_read_steps(const char *log, pjrt_steps *out) {
  *out = (pjrt_steps){0};
  tracer t = {.out = out};
  for (const char *p = log; p && *p;) {
    const char *end = p + strcspn(p, "\n");
    line(&t, p, end);
    p = *end ? end + 1 : end;
  }
  if (t.open.n) {
    const open_run *r = &t.open.v[t.open.n - 1];
    out->open = r->pass;
    out->open_pipeline = r->pipelines ? t.pipelines.v[r->pipelines - 1] : "";
  }
  hs_vec_free(&t.open);
  hs_vec_free(&t.pipelines);
  hs_vec_free(&t.waiting);
}

void pjrt_steps_free(pjrt_steps *s) {
  hs_vec_free(s);
  hs_arena_free(&s->arena);
}
