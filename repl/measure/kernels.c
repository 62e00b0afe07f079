// kernels.c: recording the kernels of a run, and summing them up. See kernels.h.
//
// What the probes cost is known from the recording and taken off. A row's times are summed run by
// run before anything is sorted, so that a group's median is one of the group.
#include "repl/measure/kernels.h"

#include <math.h>
#include <stdlib.h>

#include "repl/measure/isolated.h"
#include "repl/shell/exec.h"
#include "repl/shell/target.h"

void kernels_free(kernel_run *p) {
  backend_result_free(&p->result);
  prof_module_free(&p->model);
  prof_recording_free(p->own);
  *p = (kernel_run){0};
}

hs_status kernels_estimate(repl_cmd *c, bool naive, kernel_run *p) {
  p->device = c->s->target == &c->s->here ? repl_here(c->s) : c->s->target;
  return prof_estimate_kernels(c->m, p->device, &(prof_options){.naive = naive}, &p->model);
}

// Of the profile that was joined to this version; false: there is none.
static bool take_recorded(const repl_cmd *c, kernel_run *p) {
  const repl_recorded *r = c->mod->recorded;
  if (!r || repl_flag(c, "--here") || r->version != c->mod->at->number) return false;
  *p = (kernel_run){.where = r->device, .file = r->file, .kernels = r->kernels, .rec = r->rec};
  return true;
}

// What the explorer shows of the version that was recorded.
static void keep_times(repl_cmd *c, const kernel_run *p) {
  repl_kernel_times_free(&c->mod->kernel_times);
  c->mod->kernel_times_version = c->mod->at->number;
  for (u32 k = 0; k < p->rec->nkernels; k++) {
    double ms = prof_recorded_kernel(p->rec, k).median;
    hs_vec_push(&c->mod->kernel_times, ((repl_kernel_time){hs_strdup(p->kernels[k].name), ms}));
  }
}

static hs_status record(repl_cmd *c, kernel_run *p) {
  double seconds = 1;
  if (take_recorded(c, p)) return kernels_estimate(c, false, p);
  bool alone = repl_flag(c, "--per-instruction") != NULL;
  *p = (kernel_run){.where = c->s->be->name};
  if (repl_flag(c, "--isolated") || backend_has(c->s->be, BACKEND_XLA))
    return isolated_record(c, p);
  HS_TRY(repl_arg_seconds(c, &seconds));
  HS_TRY(repl_inputs(c));
  repl_exe *x;
  HS_TRY(repl_compiled(c, c->s->be, alone, false, &x));
  const backend_compiled *program = x->be->compiled(x->exe);
  HS_TRY(repl_refuse_fallback(c, c->s->be, program));
  const backend_run_options o = {.warmup = 1,
                                 .min_runs = 5,
                                 .max_runs = 10000,
                                 .min_seconds = seconds / 2,
                                 .max_seconds = seconds / 2,
                                 .want_kernel_times = true,
                                 .want_counters = repl_flag(c, "--counters") != NULL};
  HS_TRY(x->be->run(x->exe, c->mod->ninputs, c->mod->inputs, &o, &p->result));
  if (!program->nkernels) {
    kernels_free(p);
    return hs_fail(HS_E_UNSUPPORTED, "the program has no kernels: nothing in it computes or moves");
  }
  p->kernels = program->kernels;
  p->rec = p->result.timing.kernels;
  p->plain = prof_summarize(p->result.timing.samples_ms, p->result.timing.runs);
  hs_status s =
      p->rec && p->rec->nkernels
          ? kernels_estimate(c, alone, p)
          : hs_with_note(hs_fail(HS_E_UNSUPPORTED, "the backend %s does not measure single kernels",
                                 p->where),
                         "backend cpu does; --isolated measures instructions one by one");
  if (!hs_ok(s)) kernels_free(p);
  return s;
}

hs_status kernels_record(repl_cmd *c, kernel_run *p) {
  HS_TRY(record(c, p));
  keep_times(c, p);
  return HS_GOOD;
}

static int slower_first(const void *a, const void *b) {
  double x = ((const kernel_row *)a)->t.median, y = ((const kernel_row *)b)->t.median;
  return (x < y) - (x > y);
}

// The pass that made an instruction: the one of its oldest note on the path to here.
static const char *made_by(const repl_cmd *c, const hlo_instr *i) {
  const char *pass = "(as loaded)";
  for (const repl_version *v = c->mod->at; v; v = v->parent)
    for (size_t k = v->notes.n; k-- > 0;)
      if (v->notes.v[k].done && v->notes.v[k].instr == i->id) pass = v->notes.v[k].pass;
  return pass;
}

// What a kernel counts under. by: kernel, opcode, scope, source or pass.
static const char *key_of(repl_cmd *c, const char *by, const backend_kernel *q) {
  const hlo_instr *i = hlo_find_instr(c->m, q->name);
  if (strcmp(by, "kernel") == 0) return q->name;
  if (!i) return "(not in this version)";
  if (strcmp(by, "opcode") == 0) return hlo_op_text(i->opcode);
  if (strcmp(by, "pass") == 0) return made_by(c, i);
  hs_buf b = {0};
  const hlo_metadata *md = hlo_metadata_of(i);
  if (strcmp(by, "source") == 0) cmd_put_place(i, &b);
  else if (md) hs_buf_put(&b, md->op_name.p, md->op_name.n);
  if (strcmp(by, "scope") == 0)  // without the operation itself
    while (b.n && b.p[b.n - 1] != '/') b.n--;
  const char *key = b.n ? hs_arena_strndup(c->scratch, b.p, b.n) : "(none)";
  hs_buf_free(&b);
  return key;
}

static kernel_row *row_of(kernel_row *rows, u32 *n, const char *key, bool own) {
  for (u32 k = 0; k < *n && !own; k++)
    if (strcmp(rows[k].key, key) == 0) return &rows[k];
  rows[*n] = (kernel_row){.key = key};
  return &rows[(*n)++];
}

// The part of tensor cores: of the time of all, by how long each takes. `tensor` is ms here.
static void add_counters(kernel_row *r, const prof_recording *rec, u32 k) {
  static const prof_counters none = {(double)NAN, (double)NAN, (double)NAN};
  const prof_counters *c = rec->counters ? &rec->counters[k] : &none;
  if (!rec->calls[k]) return;
  r->counted.read_bytes += c->read_bytes;
  r->counted.written_bytes += c->written_bytes;
  r->counted.tensor += c->tensor * prof_recorded_kernel(rec, k).median;
  r->counted_ms += prof_recorded_kernel(rec, k).median;
}

// The estimate of one execution. A fusion for a library, which the model prices by what is in it,
// is the sum of that.
static prof_kernel estimated(const prof_module *e, const hlo_instr *i) {
  prof_kernel sum = {0};
  if (!i || i->id >= e->n) return sum;
  const hlo_computation *c = i->opcode == HLO_FUSION ? hlo_fusion_comp(i) : NULL;
  if (e->kernels[i->id].seconds > 0 || !c || !(e->times[i->id] > 0)) return e->kernels[i->id];
  hlo_for_each_instr(j, c) {
    if (j->id >= e->n) continue;
    const prof_kernel *k = &e->kernels[j->id];
    double times = e->times[j->id] / e->times[i->id];
    sum.seconds += times * k->seconds;
    sum.memory_s += times * k->memory_s;
    sum.compute_s += times * k->compute_s;
    sum.launch_s += times * k->launch_s;
    sum.network_s += times * k->network_s;
  }
  return sum;
}

static void add_kernel(const repl_cmd *c, kernel_row *r, const kernel_run *p, u32 k) {
  const prof_recording *rec = p->rec;
  const backend_kernel *q = &p->kernels[k];
  const hlo_instr *i = hlo_find_instr(c->m, q->name);
  const prof_kernel sum = estimated(&p->model, i), *e = &sum;
  double calls = (double)rec->calls[k], probes = calls * rec->probe_ns * 0.5e-6;
  r->kind = r->kernels++ ? "" : q->kind;
  r->calls += calls;
  r->bytes += calls * q->bytes;
  r->flops += calls * q->flops;
  r->estimated_ms += 1e3 * calls * e->seconds;
  r->memory_ms += 1e3 * calls * e->memory_s;
  r->compute_ms += 1e3 * calls * e->compute_s;
  r->launch_ms += 1e3 * calls * e->launch_s;
  r->network_ms += 1e3 * calls * e->network_s;
  r->roof_ms += 1e3 * calls * HS_MAX(e->memory_s, e->compute_s);
  add_counters(r, rec, k);
  for (u32 t = 0; t < rec->nruns; t++)
    r->ms[t] += fmax(rec->ms[(size_t)t * rec->nkernels + k] - probes, 0);
}

kernel_row *kernels_rows(repl_cmd *c, const kernel_run *p, const char *by, u32 *n) {
  const prof_recording *rec = p->rec;
  kernel_row *rows = HS_NEW_ARRAY(c->scratch, kernel_row, rec->nkernels);
  *n = 0;
  for (u32 k = 0; k < rec->nkernels; k++) {
    kernel_row *r = row_of(rows, n, key_of(c, by, &p->kernels[k]), strcmp(by, "kernel") == 0);
    if (!r->ms) r->ms = HS_NEW_ARRAY(c->scratch, double, rec->nruns);
    add_kernel(c, r, p, k);
  }
  for (u32 k = 0; k < *n; k++) {
    rows[k].t = prof_summarize(rows[k].ms, rec->nruns);
    rows[k].counted.tensor /= rows[k].counted_ms;  // of nothing: NAN
  }
  qsort(rows, *n, sizeof *rows, slower_first);
  return rows;
}

const char *kernel_bound(const kernel_row *r) {
  const double ms[] = {[PROF_MEMORY] = r->memory_ms,
                       [PROF_COMPUTE] = r->compute_ms,
                       [PROF_LAUNCH] = r->launch_ms,
                       [PROF_NETWORK] = r->network_ms};
  prof_bound longest = PROF_MEMORY;
  for (u32 k = 1; k < HS_COUNT(ms); k++)
    if (ms[k] > ms[longest]) longest = (prof_bound)k;
  return prof_bound_text(longest);
}
