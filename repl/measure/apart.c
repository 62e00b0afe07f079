// apart.c: measuring kernels apart. See apart.h.
//
// A program whose arguments do not fit in memory, or one run of which takes minutes, still consists
// of kernels that can be run: most of them many times over, in the layers of a model or the
// iterations of a loop. So each distinct kernel (equal in structure, shapes and attributes) of all
// subjects is timed once, alone.c, and counts as often as it runs. The order is by the share of the
// estimated time, so that what the time does not suffice for is the least, and its share is said.
//
// What this leaves out: transfers between kernels through caches, the shell's and loops' own time,
// exchange between devices. All figures are measured; the estimate only orders and slices.
#include "repl/measure/apart.h"

#include <math.h>
#include <stdlib.h>

#include "core/analysis/cost.h"
#include "profiler/model/prof.h"
#include "profiler/units.h"
#include "repl/kernel/alone.h"
#include "repl/shell/exec.h"
#include "repl/shell/target.h"

// Seconds of an execution above which a kernel is cut to a slice, however few there are.
static const double longest = 1;
// A kernel gets time by its share of what is left, and none gets less than an equal part; operands
// for it are made at about so many bytes per second. Below the least sizes there is only dispatch.
static const double shortest = 0.02, least_s = 2e-3, least_bytes = 16e6, most_bytes = 64e6,
                    bytes_per_s = 4e8;
// Outside of fusions; more are not compiled as a whole, several times over.
static const u32 most_instrs = 5000;
// Runs of each subject that the rounds and what comes before them take at least.
enum { RUNS = 6 };

typedef struct distinct {
  u64 print;
  hlo_module *m;  // NULL once it has been timed
  bool per_instruction;
  double weight;  // its parts of the subjects' estimated times, summed
  alone_time t;
  bool timed;
} distinct;

// A kernel of a subject.
typedef struct member {
  u32 of;          // position in `all`
  double times;    // executions in one of the program
  double seconds;  // of these together, estimated
} member;

typedef struct apart {
  repl_cmd *c;
  comparison *m;
  const prof_device *here;
  double slower[HLO_OPCODE_COUNT];  // than estimated, the last kernel of the operation; 0: none yet
  HS_VEC(distinct) all;
  HS_VEC(member) members[MAX_SUBJECTS];
} apart;

// ---- whether ------------------------------------------------------------------------------------
static char *too_long(double seconds) {
  char t[32];
  return hs_format("a run is estimated to take %s", prof_time_text(t, seconds));
}

static u32 count_outside_fusions(const hlo_module *m) {
  u32 n = 0;
  hlo_for_each_comp(c, m)
    if (!hlo_is_fusion_comp(c))
      hlo_for_each_instr(i, c) n++;
  return n;
}

char *apart_reason(repl_cmd *c, const comparison *m, double seconds) {
  const prof_device *here = repl_here(c->s);
  double all = 0, one = 0;
  for (u32 k = 0; k < m->n; k++) {
    const subject *x = &m->x[k];
    hs_status fits = repl_memory_check(c, x->m, x->per_instruction, 0);
    if (!hs_ok(fits)) {
      char *why = hs_strdup(fits.err->message);
      hs_status_drop(fits);
      return why;
    }
    u32 n = count_outside_fusions(x->m);
    if (n > most_instrs) return hs_format("compiling %u instructions as a whole takes minutes", n);
    prof_estimate e;
    hs_status s = prof_estimate_module(x->m, here, x->per_instruction, &e);
    if (hs_ok(s)) all += e.time_s, one = fmax(one, e.time_s);
    hs_status_drop(s);
  }
  return RUNS * all > 20 + seconds ? too_long(one) : NULL;
}

double apart_most_first_s(const comparison *m, double seconds) { return (20 + seconds) / m->n; }

char *apart_reason_ran(const comparison *m) {
  char t[32];
  return hs_format("a run takes %s", prof_time_text(t, m->too_long_s));
}

// ---- the kernels --------------------------------------------------------------------------------
static u32 find_or_add(apart *x, hlo_module *m, bool per_instruction) {
  u64 print = hs_mix(hlo_fingerprint(m), per_instruction);
  for (size_t k = 0; k < x->all.n; k++)
    if (x->all.v[k].print == print) {
      hlo_module_free(m);
      return (u32)k;
    }
  distinct d = {.print = print, .m = m, .per_instruction = per_instruction};
  hs_vec_push(&x->all, d);
  return (u32)x->all.n - 1;
}

// What cannot be cut is a kernel of its own that is never timed.
// all: the estimated time of the subject.
static hs_status add_kernel(apart *x, u32 subject_at, hlo_instr *i, double times, double seconds,
                            double all) {
  const subject *s = &x->m->x[subject_at];
  hlo_module *m = NULL;
  hs_status cut = alone_cut(s->m, i, &m);
  u32 at = (u32)x->all.n;
  if (hs_ok(cut)) {
    // one instruction is the same program either way
    at = find_or_add(x, m, s->per_instruction && hlo_ncalled(m->entry->root) > 0);
  } else {
    repl_note(x->c->out, "%s cannot be cut out: %s", i->name, cut.err->message);
    distinct none = {.print = 0};
    hs_vec_push(&x->all, none);
  }
  hs_status_drop(cut);
  x->all.v[at].weight += seconds / all;
  member k = {.of = at, .times = times, .seconds = seconds};
  hs_vec_push(&x->members[subject_at], k);
  return hs_poll();
}

static hs_status find_kernels(apart *x, u32 at) {
  subject *s = &x->m->x[at];
  prof_module e;
  const prof_options o = {.naive = s->per_instruction, .devices = 1};
  HS_TRY(prof_estimate_kernels(s->m, x->here, &o, &e));
  HS_VEC(hlo_instr *) kernels = {0};
  hlo_for_each_comp(k, s->m)
    hlo_for_each_instr(i, k)
      if (e.times[i->id] > 0 && e.kernels[i->id].seconds > 0 &&
          !hlo_op_has(i->opcode, HLO_F_CONTROL))
        hs_vec_push(&kernels, i);
  hs_status st = HS_GOOD;
  for (size_t k = 0; k < kernels.n && hs_ok(st); k++) {
    hlo_instr *i = kernels.v[k];
    double times = e.times[i->id];
    repl_progress(x->c->out, s->label, (double)k, (double)kernels.n);
    st = add_kernel(x, at, i, times, times * e.kernels[i->id].seconds, e.total.time_s);
  }
  s->kernels = e.total.kernels;
  s->bytes_moved = e.total.bytes;
  hs_vec_free(&kernels);
  prof_module_free(&e);
  return st;
}

static int heavier_first(const void *a, const void *b) {
  double x = (*(distinct *const *)a)->weight, y = (*(distinct *const *)b)->weight;
  return (x < y) - (x > y);
}

// What the estimate is off by tells how long slices of later kernels will take.
static void note_error(apart *x, const distinct *d) {
  prof_kernel e;
  prof_estimate_kernel(d->m->entry->root, x->here, &e);
  // of short ones dispatch is most, which slices have as well
  if (e.seconds >= 1e-3)
    x->slower[d->m->entry->root->opcode] = d->t.median.value * 1e-3 / e.seconds;
}

// seconds: since `from`, of which finding the kernels is a part; half of them are for timing.
static hs_status time_kernels(apart *x, u64 from, double seconds) {
  repl_cmd *c = x->c;
  distinct **order = HS_NEW_ARRAY(c->scratch, distinct *, x->all.n + 1);
  for (size_t k = 0; k < x->all.n; k++) order[k] = &x->all.v[k];
  qsort(order, x->all.n, sizeof *order, heavier_first);
  double room = c->s->set.memory_limit;
  if (!(room > 0)) room = (double)hs_memory_free();
  double all = 0;
  for (size_t k = 0; k < x->all.n; k++) all += order[k]->weight;
  seconds = fmax(seconds - (double)(hs_now_ns() - from) * 1e-9, seconds / 2);
  from = hs_now_ns();
  for (size_t k = 0; k < x->all.n; k++) {
    distinct *d = order[k];
    if (!d->m) continue;
    double left = seconds - (double)(hs_now_ns() - from) * 1e-9;
    if (left < 0) break;
    repl_progress(c->out, "kernels alone", (double)k, (double)x->all.n);
    double part = fmax(d->weight / all, 1 / (double)(x->all.n - k)), each = left * fmin(part, 1);
    all -= d->weight;
    double slower = fmax(x->slower[d->m->entry->root->opcode], 1);
    const alone_options o = {
        .be = c->s->be,
        .here = x->here,
        .per_instruction = d->per_instruction,
        .seconds = fmin(fmax(each / 4, 0.004), 0.1),
        .most_s = fmax(fmin(fmax(each / 2, shortest), longest) / slower, least_s),
        .most_bytes = fmin(fmax(each * bytes_per_s, least_bytes), fmin(most_bytes, room / 4))};
    hs_status s = alone_measure(c, d->m, &o, &d->t);
    d->timed = hs_ok(s);
    if (d->timed) note_error(x, d);
    if (!d->timed) repl_note(c->out, "%s is left out: %s", d->m->name, s.err->message);
    bool stop = hs_interrupted();
    if (stop) return s;
    hs_status_drop(s);
    hlo_module_free(d->m);
    d->m = NULL;
    HS_TRY(hs_poll());
  }
  repl_progress_end(c->out);
  return HS_GOOD;
}

// ---- the sums -----------------------------------------------------------------------------------
// Runs of a kernel, from which on they say themselves how far they are apart.
enum { ENOUGH = 6 };

// How far runs of one kernel are mostly apart: of kernels with enough of them, the mean of half the
// logarithm of p90 / p10. What the machine does to the others is the same.
static double common_spread(const apart *x) {
  static const double unknown = 0.2;
  double sum = 0;
  u32 n = 0;
  for (size_t k = 0; k < x->all.n; k++) {
    const alone_time *t = &x->all.v[k].t;
    if (!x->all.v[k].timed || t->runs < ENOUGH || !(t->p10 > 0)) continue;
    sum += log(t->p90 / t->p10) / 2;
    n++;
  }
  return n ? sum / n : unknown;
}

// Of the median: its own, or of a few runs as far as `spread` makes it.
static prof_interval median_of(const alone_time *t, double spread) {
  prof_interval i = t->median;
  if (!t->runs || t->runs >= ENOUGH) return i;
  double factor = exp(2 * spread / sqrt(t->runs));
  return (prof_interval){i.value, i.value / factor, i.value * factor};
}

static void add_up(const apart *x, u32 at) {
  subject *s = &x->m->x[at];
  subject_apart *a = &s->apart;
  double seconds = 0, out = 0;
  bool *seen = hs_calloc(x->all.n + 1, sizeof *seen);
  double *counts = hs_calloc(x->all.n + 1, sizeof *counts);  // executions
  for (size_t k = 0; k < x->members[at].n; k++) {
    const member *b = &x->members[at].v[k];
    const distinct *d = &x->all.v[b->of];
    seconds += b->seconds;
    if (!d->timed) out += b->seconds;
    s->median.value += b->times * d->t.median.value;
    s->stats.p10 += b->times * d->t.p10;
    s->stats.p90 += b->times * d->t.p90;
    if (d->timed && d->t.part < 1) a->sliced_ms += b->times * d->t.median.value;
    counts[b->of] += b->times;
    if (seen[b->of]) continue;
    seen[b->of] = true;
    a->distinct++;
    a->timed += d->timed;
    a->sliced += d->timed && d->t.part < 1;
    s->stats.n += d->t.runs;
  }
  // what one kernel is off by, it is each time; kernels are off independently of each other
  double low = 0, high = 0, spread = common_spread(x);
  for (size_t k = 0; k < x->all.n; k++) {
    prof_interval i = median_of(&x->all.v[k].t, spread);
    low += pow(counts[k] * (i.value - i.low), 2);
    high += pow(counts[k] * (i.high - i.value), 2);
  }
  s->median.low = fmax(s->median.value - sqrt(low), 0);
  s->median.high = s->median.value + sqrt(high);
  hs_free(seen);
  hs_free(counts);
  a->left_out = seconds > 0 ? out / seconds : 0;
}

// As the backend plans it; where it cannot, by the model.
static hs_status plan(repl_cmd *c, subject *s) {
  backend_options o = repl_backend_options(c->s);
  o.plan_only = true;
  o.one_device = true;
  o.per_instruction = s->per_instruction;
  backend_exe *exe = NULL;
  hs_status st = s->be->plan ? s->be->compile(s->m, &o, &exe) : HS_GOOD;
  hlo_memory mem = {0};
  if (exe) {
    const backend_compiled *b = s->be->compiled(exe);
    mem = (hlo_memory){.argument_bytes = b->argument_bytes,
                       .output_bytes = b->output_bytes,
                       .alias_bytes = b->alias_bytes,
                       .temp_bytes = b->temp_bytes,
                       .peak_bytes = b->peak_bytes};
    s->be->release(exe);
  } else if (!hs_interrupted()) {
    hs_status_drop(st);
    st = hlo_memory_estimate(s->m, s->per_instruction, &mem);
  }
  i64 parts = s->parts;
  s->argument_bytes = mem.argument_bytes / parts;
  s->output_bytes = mem.output_bytes / parts;
  s->alias_bytes = mem.alias_bytes / parts;
  s->temp_bytes = mem.temp_bytes / parts;
  s->peak_bytes = mem.peak_bytes / parts;
  return st;
}

// All figures, of one device; and against the first subject, whose interval adds to its own.
static void finish(comparison *m, subject *s) {
  double *const ms[] = {&s->median.value, &s->median.low, &s->median.high,
                        &s->stats.p10,    &s->stats.p90,  &s->apart.sliced_ms};
  for (size_t k = 0; k < HS_COUNT(ms); k++) *ms[k] /= s->parts;
  s->bytes_moved /= s->parts;
  s->stats.median = s->median.value;
  s->compile_ms = s->compile_cpu_ms = s->first_ms = s->dispatch_ms = s->transfer_ms = -1;
  s->stats.p99 = s->stats.max = -1;
  s->compile_peak_bytes = -1;
  const subject *b = &m->x[0];
  if (!s->apart.timed) s->failed = hs_fail(HS_E_LIMIT, "none of its kernels could be timed alone");
  if (s == b || !s->apart.timed || !b->apart.timed) return;
  // a program may take longer by what was left out of it
  double most = s->median.high / (1 - s->apart.left_out),
         base_most = b->median.high / (1 - b->apart.left_out);
  s->ratio.value = b->median.value / s->median.value;
  s->ratio.low = most > 0 ? b->median.low / most : 0;
  s->ratio.high = s->median.low > 0 ? base_most / s->median.low : INFINITY;
}

hs_status apart_measure(repl_cmd *c, comparison *m, double seconds) {
  apart x = {.c = c, .m = m, .here = repl_here(c->s)};
  u64 from = hs_now_ns();
  m->noise = prof_noise_measure(0.2);
  hs_status s = HS_GOOD;
  // of runs of the whole that were given up
  for (u32 k = 0; k < m->n; k++) {
    subject *v = &m->x[k];
    if (v->exe) v->be->release(v->exe);
    v->exe = NULL;
    hlo_literal_unref(v->result);
    v->result = NULL;
    v->bytes_moved = 0;
  }
  for (u32 k = 0; k < m->n && hs_ok(s); k++) {
    m->x[k].parts = HS_MAX(prof_module_undivided(m->x[k].m), 1u);
    if (m->x[k].parts > m->x[0].parts) m->x[0].parts = m->x[k].parts;
    s = find_kernels(&x, k);
    m->x[k].apart.known = true;
  }
  // a pipeline may have removed what says how it is to be divided
  for (u32 k = 0; k < m->n; k++) m->x[k].parts = m->x[0].parts;
  if (hs_ok(s)) s = time_kernels(&x, from, seconds);
  repl_progress_end(c->out);
  for (u32 k = 0; k < m->n && hs_ok(s); k++) {
    add_up(&x, k);
    s = plan(c, &m->x[k]);
    finish(m, &m->x[k]);
  }
  m->trial.rounds = 1;
  m->trial.reached = true;
  m->trial.seconds = (double)(hs_now_ns() - from) * 1e-9;
  for (size_t k = 0; k < x.all.n; k++) hlo_module_free(x.all.v[k].m);
  for (u32 k = 0; k < m->n; k++) hs_vec_free(&x.members[k]);
  hs_vec_free(&x.all);
  return s;
}

// ---- words --------------------------------------------------------------------------------------
void apart_say(repl_cmd *c, const comparison *m, const char *reason) {
  const subject *x = &m->x[0];
  char t[32];
  repl_say(c->out,
           "%s: kernels are measured apart, each distinct one once, times how often it runs; what "
           "is between them is not in it, and results are not compared\n",
           reason);
  if (x->parts > 1)
    repl_say(c->out, "not partitioned yet: everything divided by %u, one device's share at best\n",
             x->parts);
  repl_say(c->out, "measured in %s\n", prof_time_text(t, m->trial.seconds));
}

void apart_json(repl_json *row, const subject *x) {
  if (!x->apart.known) return;
  repl_json *j = repl_json_object(row, "apart");
  repl_json_int(j, "distinct", x->apart.distinct);
  repl_json_int(j, "timed", x->apart.timed);
  repl_json_int(j, "sliced", x->apart.sliced);
  repl_json_num(j, "sliced_ms", x->apart.sliced_ms);
  repl_json_num(j, "left_out", x->apart.left_out);
  repl_json_int(j, "parts", x->parts);
}
