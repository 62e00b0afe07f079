// null.c — the smallest backend there can be, kept compilable: copy this folder, rename, fill in
// (README.md beside it).
//
// It accepts modules whose entry result is one of its parameters, and returns that parameter. Every
// function of the contract in backend.h is here with what it must promise.
#include "backends/backend.h"

// A compiled program belongs to the backend. Keep nothing that points into the module: it may be
// edited or freed.
struct backend_exe {
  backend_compiled info;
  u32 result_param;
};

// ok when the backend can run on this machine; otherwise E_NOT_BUILT or E_RUN with a note that says
// what would fix it.
static hs_status null_probe(void) { return HS_GOOD; }

// Exact: what this accepts, compile and run must do. `why` gets "unsupported: <opcode>", and the
// reason when there is one.
static bool null_supports(const hlo_instr *i, hs_buf *why) {
  if (i->opcode == HLO_PARAMETER) return true;
  if (why) hs_buf_printf(why, "unsupported: %s", hlo_op_text(i->opcode));
  return false;
}

static void null_release(backend_exe *e) { hs_free(e); }

// Foreign code (a code generator, a driver) is called in the worker process only: see worker.h and
// cpu/cpu.c.
static hs_status null_compile(const hlo_module *m, const backend_options *opt, backend_exe **out) {
  (void)opt;
  *out = NULL;
  hlo_for_each_instr(i, m->entry) {
    hs_buf why = {0};
    if (null_supports(i, &why)) continue;
    hs_status s =
        hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(i->opcode), "%s", hs_buf_cstr(&why));
    hs_buf_free(&why);
    return s;
  }
  u64 t0 = hs_now_ns();
  backend_exe *e = hs_calloc(1, sizeof *e);
  e->result_param = (u32)hlo_param_number(m->entry->root);
  e->info.output_bytes = hlo_shape_bytes(m->entry->root->shape);
  // measured, never made up; -1 or 0 only where documented
  e->info.compile_ms = (double)(hs_now_ns() - t0) / 1e6;
  *out = e;
  return HS_GOOD;
}

static const backend_compiled *null_compiled(const backend_exe *e) { return &e->info; }

// Runs once for first_ms, then warmup times unmeasured, then min_runs..max_runs measured ones.
// Polls Ctrl-C.
static hs_status null_run(backend_exe *e, u32 nargs, hlo_literal *const *args,
                          const backend_run_options *opt, backend_result *out) {
  *out = (backend_result){0};
  HS_TRY(hs_poll());
  if (e->result_param >= nargs)
    return hs_fail(HS_E_INPUT, "argument %u is missing", e->result_param);
  if (!opt) opt = &backend_once;
  if (opt->want_outputs) out->outputs = hlo_literal_ref(args[e->result_param]);
  out->timing.dispatch_ms = -1;
  return HS_GOOD;
}

const backend backend_null = {
    .name = "null",
    .summary = "skeleton of a backend",
    .caps = 0,  // see backend_caps
    .probe = null_probe,
    .supports = null_supports,
    .compile = null_compile,
    .compiled = null_compiled,
    .run = null_run,
    .dump = NULL,
    .plan = NULL,
    .release = null_release,
};
