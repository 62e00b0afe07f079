// kernels.c: recording the kernels of a run, and summing them up. See kernels.h.
//
// What the probes cost is known from the recording and taken off. A row's times are summed run by
// run before anything is sorted, so that a group's median is one of the group.
#include "repl/measure/kernels.h"

#include <math.h>
#include <stdlib.h>

#include "repl/shell/exec.h"

void kernels_free(kernel_run *p) { backend_result_free(&p->result); }

hs_status kernels_record(repl_cmd *c, kernel_run *p) {
  double seconds = 1;
  *p = (kernel_run){.be = c->s->be};
  if (repl_flag(c, "--seconds"))
    HS_TRY(repl_arg_num(c, "--seconds", repl_flag(c, "--seconds"), &seconds));
  HS_TRY(repl_inputs(c));
  repl_exe *x;
  HS_TRY(repl_compiled(c, p->be, repl_flag(c, "--per-instruction") != NULL, false, &x));
  p->program = x->be->compiled(x->exe);
  HS_TRY(repl_refuse_fallback(c, p->program));
  const backend_run_options o = {.warmup = 1,
                                 .min_runs = 5,
                                 .max_runs = 10000,
                                 .min_seconds = seconds / 2,
                                 .max_seconds = seconds / 2,
                                 .want_kernel_times = true};
  HS_TRY(x->be->run(x->exe, c->mod->ninputs, c->mod->inputs, &o, &p->result));
  p->rec = p->result.timing.kernels;
  if (p->rec && p->rec->nkernels) return HS_GOOD;
  kernels_free(p);
  return hs_fail(HS_E_UNSUPPORTED, "the backend %s does not measure single kernels", p->be->name);
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

static void add_kernel(kernel_row *r, const kernel_run *p, u32 k, const prof_device *d) {
  const prof_recording *rec = p->rec;
  const backend_kernel *q = &p->program->kernels[k];
  double calls = (double)rec->calls[k], probes = calls * rec->probe_ns * 0.5e-6;
  double bandwidth = q->bytes <= (double)d->cache_bytes ? d->cache_bandwidth : d->bandwidth;
  double memory = 1e3 * q->bytes / bandwidth, compute = 1e3 * q->flops / d->flops_f32;
  r->kind = r->kernels++ ? "" : q->kind;
  r->calls += calls;
  r->bytes += calls * q->bytes;
  r->flops += calls * q->flops;
  r->memory_ms += calls * memory;
  r->roof_ms += calls * HS_MAX(memory, compute);
  r->estimated_ms += calls * (HS_MAX(memory, compute) + 1e3 * d->launch_s);
  for (u32 t = 0; t < rec->nruns; t++)
    r->ms[t] += fmax(rec->ms[(size_t)t * rec->nkernels + k] - probes, 0);
}

kernel_row *kernels_rows(repl_cmd *c, const kernel_run *p, const char *by, u32 *n) {
  const prof_recording *rec = p->rec;
  kernel_row *rows = HS_NEW_ARRAY(c->scratch, kernel_row, rec->nkernels);
  *n = 0;
  for (u32 k = 0; k < rec->nkernels; k++) {
    kernel_row *r =
        row_of(rows, n, key_of(c, by, &p->program->kernels[k]), strcmp(by, "kernel") == 0);
    if (!r->ms) r->ms = HS_NEW_ARRAY(c->scratch, double, rec->nruns);
    add_kernel(r, p, k, c->s->target);
  }
  for (u32 k = 0; k < *n; k++) rows[k].t = prof_summarize(rows[k].ms, rec->nruns);
  qsort(rows, *n, sizeof *rows, slower_first);
  return rows;
}

const char *kernel_bound(const kernel_row *r) {
  if (r->estimated_ms > 2 * r->roof_ms) return "launch";
  return r->memory_ms >= r->roof_ms ? "memory" : "compute";
}
