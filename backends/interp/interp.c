// interp.c — the reference evaluator as a backend.
//
// It runs in the shell's own process: the evaluator is plain C that checks its input, polls Ctrl-C,
// and calls no foreign code (custom calls of loaded libraries go to a worker, see ffi.c). Compiling
// copies the module, so that later edits do not change a compiled program. Memory is estimated from
// live ranges, not measured.
#include "backends/backend.h"
#include "backends/ffi.h"

struct backend_exe {
  hlo_module *m;
  backend_compiled info;
  backend_kernel *kernels;
  hlo_eval_options eval;
};

static hs_status interp_probe(void) { return HS_GOOD; }

static bool interp_supports(const hlo_instr *i, hs_buf *why) {
  hs_buf reason = {0};
  bool fine = hlo_eval_supports(i, &reason) ||
              (i->opcode == HLO_CUSTOM_CALL && ffi_peer.covers(ffi_peer.arg, i));
  if (!fine && why)
    hs_buf_printf(why, reason.n ? "unsupported: %s (%s)" : "unsupported: %s",
                  hlo_op_text(i->opcode), hs_buf_cstr(&reason));
  hs_buf_free(&reason);
  return fine;
}

// Bytes of the entry's parameters and result, and an estimate of the temporaries from live ranges.
static void fill_memory(const hlo_module *m, backend_compiled *info) {
  hlo_memory mem;
  hs_status s = hlo_memory_estimate(m, true, &mem);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    return;
  }
  info->argument_bytes = mem.argument_bytes;
  info->output_bytes = mem.output_bytes;
  info->alias_bytes = 0;
  info->temp_bytes = mem.temp_bytes;
  info->peak_bytes = mem.argument_bytes + mem.output_bytes + mem.temp_bytes;
}

static void interp_release(backend_exe *e) {
  if (!e) return;
  hlo_module_free(e->m);
  hs_free(e->kernels);
  hs_free(e);
}

static hs_status interp_compile(const hlo_module *m, const backend_options *opt,
                                backend_exe **out) {
  HS_ASSERT(!hlo_known_invalid(m));
  *out = NULL;
  const hlo_eval_options eval = {.peer = &ffi_peer,
                                 .keep_denormals = opt && opt->keep_denormals,
                                 .round_each_term = opt && opt->round_each_term};
  // instructions whose result is not used are not run and need not be supported
  HS_TRY(hlo_eval_check(m, &eval));
  u64 t0 = hs_now_ns();
  backend_exe *e = hs_calloc(1, sizeof *e);
  e->m = hlo_module_clone(m, m->name);
  e->eval = eval;
  if (opt && opt->one_device) e->eval.nreplicas = e->eval.npartitions = 1;
  hlo_cost_table cost = {0};
  hs_status s = hlo_cost_module(m, &cost);
  if (!hs_ok(s)) return hlo_module_free(e->m), hs_free(e), s;
  fill_memory(m, &e->info);
  e->kernels = hs_calloc(m->entry->ninstrs + 1, sizeof *e->kernels);
  u32 n = 0;
  // names are interned in the shared context; ids are those of the caller's module
  hlo_for_each_instr(i, e->m->entry) {
    const hlo_instr *orig = hlo_find_instr(m, i->name);
    if (!orig || hlo_op_has(i->opcode, HLO_F_FREE)) continue;
    hlo_cost c = cost.by_id[orig->id];
    e->kernels[n++] = (backend_kernel){.name = orig->name,
                                       .kind = "evaluator",
                                       .instr = orig->id,
                                       .flops = c.flops,
                                       .bytes = c.bytes_read + c.bytes_written};
  }
  hlo_cost_free(&cost);
  e->info.kernels = e->kernels;
  e->info.nkernels = n;
  e->info.compile_ms = (double)(hs_now_ns() - t0) / 1e6;
  e->info.compile_cpu_ms = e->info.compile_ms;
  *out = e;
  return HS_GOOD;
}

static const backend_compiled *interp_compiled(const backend_exe *e) { return &e->info; }

static hs_status interp_run(backend_exe *e, u32 nargs, hlo_literal *const *args,
                            const backend_run_options *opt, backend_result *out) {
  *out = (backend_result){0};
  if (!opt) opt = &backend_once;
  u32 max = HS_MAX(opt->max_runs, 1u), min = HS_MIN(HS_MAX(opt->min_runs, 1u), max);
  HS_VEC(double) samples = {0};
  hs_status s = HS_GOOD;
  double total = 0;
  // With one run asked for, the first run is the measured one: slow modules are not run twice for a
  // warm number.
  u32 skip = max > 1 ? 1 + opt->warmup : 0, n = 0;
  for (u32 k = 0; hs_ok(s); k++) {
    u64 t0 = hs_now_ns();
    hlo_literal *r = NULL;
    e->eval.host = opt->host;
    s = hlo_eval_module(e->m, nargs, args, &e->eval, &r);
    double ms = (double)(hs_now_ns() - t0) / 1e6;
    if (!hs_ok(s)) break;
    if (k == 0) out->timing.first_ms = ms;
    if (opt->want_outputs && !out->outputs) out->outputs = r;
    else hlo_literal_unref(r);
    if (k >= skip) {
      hs_vec_push(&samples, ms);
      n++;
      total += ms / 1e3;
    }
    if (n >= max || (n >= min && total >= opt->min_seconds)) break;
    if (n >= 1 && opt->max_seconds > 0 && total >= opt->max_seconds) break;
  }
  out->timing.samples_ms = samples.v;
  out->timing.runs = n;
  out->timing.dispatch_ms = -1;
  if (!hs_ok(s)) backend_result_free(out);
  return s;
}

const backend backend_interp = {
    .name = "interp",
    .summary = "reference evaluator: every operation, slow, exact",
    .caps = BACKEND_EVALUATOR,
    .probe = interp_probe,
    .supports = interp_supports,
    .compile = interp_compile,
    .compiled = interp_compiled,
    .run = interp_run,
    .dump = NULL,
    .release = interp_release,
};
