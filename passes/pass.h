// pass.h — what a pass is, and the runner.
//
// A pass is one function over a module: it edits through ir.h and returns a status. It does no printing, no timing, no
// dumping and no verifying; the runner does (filter -> timer -> run -> changed? -> verify what was touched -> delta
// line). A pass explains itself by recording notes: why it rewrote, and above all why it did not.
#ifndef PASS_PASS_H
#define PASS_PASS_H

#include "core/build.h"
#include "core/cost.h"
#include "core/verify.h"

typedef struct pass_note {
  const char *pass;        // pass name
  u32 instr, other;        // ids; other 0xffffffff when there is none
  bool done;               // true: did it; false: declined
  char *text;              // rule and number: "not fused: would recompute exponential 512x"
} pass_note;
typedef HS_VEC(pass_note) pass_notes;

// Options of one pass execution: name=value pairs from the command line ("algsimp{layout_sensitive=true}").
typedef struct pass_options { u32 n; const struct pass_option { const char *key, *value; } *v; } pass_options;

typedef struct pass_ctx {
  hlo_module *m;
  const pass_options *options;
  hs_arena *scratch;             // freed after the pass
  pass_notes *notes;             // NULL: not recorded
  const struct pass_info *pass;
  i64 rewrite_limit;             // stop after so many rewrites (bisect); -1 = no limit
  i64 rewrites;                  // counted by pass_may_rewrite
} pass_ctx;

typedef hs_status pass_fn(pass_ctx *);
typedef struct pass_info {
  const char *name;              // hlo-opt's exact spelling
  const char *summary;
  const char *xla_source;        // the XLA file that defines it
  pass_fn *run;
} pass_info;
#define PASS(function, name, summary, source) pass_fn pass_##function;
#include "passes/passes.def"
#undef PASS
extern const pass_info pass_table[];
extern const u32 pass_count;
const pass_info *pass_find(const char *name);                 // exact first, then '-' and '_' alike
hs_status pass_unknown(const char *name);                     // E_NO_PASS with the nearest names
bool pass_option_bool(const pass_ctx *, const char *key, bool absent);
i64 pass_option_int(const pass_ctx *, const char *key, i64 absent);
// Every rewrite asks first: false once the rewrite limit is reached (bisect counts rewrites with it).
bool pass_may_rewrite(pass_ctx *);
void pass_note_done(pass_ctx *, const hlo_instr *, const hlo_instr *other, const char *fmt, ...) HS_PRINTF(4, 5);
void pass_note_declined(pass_ctx *, const hlo_instr *, const hlo_instr *other, const char *fmt, ...) HS_PRINTF(4, 5);

// ---- runner (runner.c) --------------------------------------------------------------------------------------------
typedef struct pass_totals { u32 instructions, computations, kernels; double flops, bytes; i64 peak_bytes; } pass_totals;
hs_status pass_measure(const hlo_module *, pass_totals *out);

typedef struct pass_result {
  const char *pass, *pipeline;
  bool changed;
  double ms;
  i64 rewrites;
  pass_totals before, after;
} pass_result;
typedef HS_VEC(pass_result) pass_log;

typedef struct pass_run_options {
  bool verify;                    // verify touched computations after each pass (default on in the shell)
  bool verify_all;                // whole module after each pass, and "changed" against the text hash (check-passes)
  bool measure;                   // fill before/after totals
  i64 rewrite_limit;              // -1
  pass_notes *notes;              // may be NULL
  void (*progress)(void *arg, const pass_result *); void *progress_arg;   // after each pass
} pass_run_options;
pass_run_options pass_run_default(void);

// Runs one pass as a transaction: on error or a verifier failure its edits are rolled back and E_PASS names it.
// Edits stay uncommitted in the module's journal (the session commits them as a version).
hs_status pass_run(hlo_module *, const pass_info *, const pass_options *, const pass_run_options *, pass_result *out);

// ---- pipelines (pipeline.c, pipelines.def) -------------------------------------------------------------------------
// A pipeline is text: pass names separated by commas, fix(a,b,...) for a fixpoint, name{opt=v} for options, and names of
// other pipelines. `cpu` follows XLA's stages and order; `tuned` is hlosh's own for speed; `gpu` comes with the GPU.
typedef struct pass_step { const pass_info *pass; pass_options options; u32 fix_begin, fix_len; } pass_step;
typedef struct pass_pipeline { const char *name, *summary, *text; } pass_pipeline;
extern const pass_pipeline pipeline_table[];
extern const u32 pipeline_count;
const pass_pipeline *pipeline_find(const char *name);
// Runs a pipeline text on a module; each executed pass is appended to the log. Stops at the first failure.
hs_status pipeline_run(hlo_module *, const char *text, const pass_run_options *, pass_log *log);
// The flat list of passes (fixpoints once), for `next`.
hs_status pipeline_flatten(const char *text, hs_arena *, const char ***names, u32 *n);

#endif
