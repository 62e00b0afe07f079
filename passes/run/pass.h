// pass.h — what a pass is, and the runner.
//
// A pass is one function over a module: it edits through ir.h and returns a status. It does no
// printing, timing, dumping or verifying; the runner does (filter -> timer -> run -> changed? ->
// verify what was edited -> delta line). A pass explains itself with notes: why it rewrote an
// instruction, and above all why it declined to.
#ifndef PASS_PASS_H
#define PASS_PASS_H

#include "core/infer/build.h"
#include "core/analysis/live.h"
#include "core/verify/verify.h"

typedef struct pass_note {
  const char *pass;  // pass name
  u32 instr, other;  // ids; other 0xffffffff when there is none
  bool done;         // true: did it; false: declined
  char *text;        // rule and number: "not fused: would recompute exponential 512x"
} pass_note;
typedef HS_VEC(pass_note) pass_notes;

// Options of one pass execution: name=value pairs from the command line
// ("algsimp{layout_sensitive=true}").
typedef struct pass_options {
  u32 n;
  const struct pass_option { const char *key, *value; } * v;
} pass_options;

typedef struct pass_cache pass_cache;  // orders, calls and edits of earlier passes (cache.h)
// a position in the record of edits (cache.h); era 0: none
typedef struct pass_since {
  u64 era;
  size_t at;
} pass_since;

typedef struct pass_ctx {
  hlo_module *m;
  pass_cache *cache;
  // when this pass last began, if it may restrict itself to later edits (pass_edited)
  pass_since since;
  bool partial;                 // it did restrict itself
  const pass_options *options;  // NULL: none given
  u64 options_read;             // bit k: the pass has read its option k
  const char *undeclared;       // an option that it read without declaring it, or as another type
  hs_arena *scratch;            // freed after the pass
  pass_notes *notes;            // NULL: not recorded
  const struct pass_info *pass;
  i64 rewrite_limit;  // stop after so many rewrites (bisect); -1 = no limit
  i64 rewrites;       // counted by pass_may_rewrite
} pass_ctx;

// ---- descriptors --------------------------------------------------------------------------------
// One option. value: the default as text ("true", "32", "2.0", any text); for a PASS_CHOICE all
// words, "cost|greedy", of which the first is the default.
typedef enum pass_option_type {
  PASS_BOOL,
  PASS_INT,
  PASS_FLOAT,
  PASS_CHOICE,
  PASS_TEXT
} pass_option_type;
typedef struct pass_option_info {
  const char *name;
  pass_option_type type;
  const char *value, *meaning;
} pass_option_info;

// For samples: a computation `sum` of two f32.
#define PASS_SUM                             \
  "sum {\n"                                  \
  "  sum_a = f32[] parameter(0)\n"           \
  "  sum_b = f32[] parameter(1)\n"           \
  "  ROOT sum_c = f32[] add(sum_a, sum_b)\n" \
  "}\n"

// The descriptor of a pass: a constant `pass_NAME` behind the pass itself, listed by a row
// PASS(NAME) in passes.def. It is all that the shell, the runner and the tests know about a pass.
typedef hs_status pass_fn(pass_ctx *);
typedef struct pass_info {
  const char *name;        // hlo-opt's exact spelling
  const char *summary;     // one line
  const char *xla_source;  // the XLA file that defines it
  pass_fn *run;
  // Preconditions: the runner skips the pass on a module without any of these opcodes, without
  // arrays of this type, or without zero-sized arrays; 0: no precondition. With verify_all the pass
  // runs all the same, and a change is then an error.
  hlo_opcode needs[4];
  hlo_dtype needs_dtype;
  bool needs_empty;
  bool again;  // not idempotent: a second run may change more (else tests check that it does not)
  const char *inexact;  // what it does to results, "drops ..."; NULL: it keeps their values
  const pass_option_info *options;
  u32 noptions;  // at most 64
  // the smallest module that shows what the pass does, as text; the tests run it and evaluate it
  // before and after
  const char *sample;
} pass_info;

// ---- services of the context (context.c) --------------------------------------------------------
// The value of a declared option, its default when it is not given. Reading an option that the
// descriptor does not declare, or declares with another type, fails the pass.
bool pass_option_bool(pass_ctx *, const char *name);
i64 pass_option_int(pass_ctx *, const char *name);
u32 pass_option_choice(pass_ctx *, const char *name);  // position among its words
double pass_option_float(pass_ctx *, const char *name);
const char *pass_option_text(pass_ctx *, const char *name);
// To be called before every rewrite: false once the rewrite limit is reached (bisect searches over
// that limit).
bool pass_may_rewrite(pass_ctx *);
void pass_note_done(pass_ctx *, const hlo_instr *, const hlo_instr *other, const char *fmt, ...)
    HS_PRINTF(4, 5);
void pass_note_declined(pass_ctx *, const hlo_instr *, const hlo_instr *other, const char *fmt, ...)
    HS_PRINTF(4, 5);

// For callers that pass options. E_USAGE, with the nearest name, when the pass has no such option,
// or it is given twice, or its value is not of its type. options may be NULL.
hs_status pass_check_options(const pass_info *, const pass_options *);
bool pass_same_name(const char *, const char *);  // '-' and '_' are the same

// ---- runner (runner.c) --------------------------------------------------------------------------
// seconds: estimated by the caller's model (pass_run_options.estimate); 0 without one.
typedef struct pass_totals {
  u32 instructions, computations, kernels;
  double flops, bytes, seconds;
  i64 peak_bytes;
} pass_totals;

typedef struct pass_result {
  const char *pass, *pipeline;
  bool changed;
  double ms;
  bool partial;  // visited only what had been edited
  i64 rewrites;
  u64 options_read;  // bit k: option k of the pass
  pass_totals before, after;
} pass_result;
typedef HS_VEC(pass_result) pass_log;

typedef struct pipeline_op pipeline_op;
typedef struct pass_pipeline {
  const char *name, *summary, *text;
} pass_pipeline;
typedef HS_VEC(pass_pipeline) pass_pipelines;

// The names that a pipeline may use (lookup.c). The built-in registry is in passes/passes.h;
// another one extends it by naming it as `next`.
typedef struct pass_registry {
  const pass_info *const *passes;
  u32 npasses;
  const pass_pipeline *pipelines;
  u32 npipelines;
  const struct pass_registry *next;  // searched after this one; may be NULL
} pass_registry;
const pass_info *pass_find(const pass_registry *,
                           const char *name);  // exact first, then '-' and '_' alike
const pass_pipeline *pipeline_find(const pass_registry *, const char *name);
// E_NO_PASS with the nearest names; own: the user's pipelines, or NULL
hs_status pass_unknown(const pass_registry *, const pass_pipelines *own, const char *name);

// One pass of a pipeline; result NULL: it is about to run.
typedef struct pipeline_event {
  const struct pipeline_program *program;
  const pipeline_op *op;
  const pass_result *result;
} pipeline_event;

typedef struct pass_run_options {
  // after each pass the edited computations, after a pipeline everything (default on in the shell)
  bool verify;
  // the whole module after each pass, and "changed" against the hash of the text (check-passes)
  bool verify_all;
  bool measure;  // fill before/after totals
  // of the totals, from the costs by instruction id and the plan of memory; may be NULL
  hs_status (*estimate)(void *arg, const hlo_module *, const hlo_cost *, hlo_live_plan *,
                        double *seconds);
  void *estimate_arg;
  i64 rewrite_limit;  // -1
  pass_notes *notes;  // may be NULL
  // shared by the passes of a pipeline on the same module; NULL: this pass has one of its own
  pass_cache *cache;
  bool noted;        // record the edits of this run for later ones (pass_edited)
  pass_since since;  // see pass_ctx
  // before and after each pass of a pipeline
  void (*progress)(void *arg, const hlo_module *, const pipeline_event *);
  void *progress_arg;
  // a fixpoint that does not converge
  void (*warn)(void *arg, const char *text);
  void *warn_arg;
  const pass_registry *registry;  // for the names in a pipeline; pass_run itself needs none
  // pipelines of the user, looked up before those of the registry; may be NULL
  const pass_pipelines *own;
} pass_run_options;
// options may be NULL
hs_status pass_measure(const hlo_module *, const pass_run_options *, pass_totals *out);

// Runs one pass as a transaction: on error or a verifier failure its edits are rolled back and
// E_PASS names it. Edits stay uncommitted in the module's journal (the session commits them as a
// version).
hs_status pass_run(hlo_module *, const pass_info *, const pass_options *, const pass_run_options *,
                   pass_result *out);

// ---- pipelines (pipeline.c)  --------------------------------------------------------------------
// A pipeline is text: pass names separated by commas, fix(a,b,...) for a fixpoint, name{opt=v} for
// options, and names of other pipelines. `cpu` follows XLA's stages and order; `tuned` is hlosh's
// own for speed; `gpu` comes with the GPU.
// Runs a pipeline text on a module; each executed pass is appended to the log (may be NULL). Stops
// at the first failure.
hs_status pipeline_run(hlo_module *, const char *text, const pass_run_options *o, pass_log *log);
// Verifies the whole module, not only what each pass edited, as pipeline_run does at its end.
hs_status pipeline_verify(const hlo_module *, const pass_run_options *);

// The same step by step. A parsed pipeline is a program of passes and loops; a cursor is a
// position in a run of it and may be copied to return there (the module must be rolled back too).
#define PIPELINE_MAX_LOOPS 16
typedef enum pipeline_kind { PIPELINE_PASS, PIPELINE_FIX, PIPELINE_END } pipeline_kind;
struct pipeline_op {
  pipeline_kind kind;
  const pass_info *pass;
  pass_options options;
  const char *text;      // as written, with options
  const char *pipeline;  // name of the pipeline that contains it; NULL: unnamed
  // the next item of that pipeline: a pass, a pipeline, or "pipeline-end"
  const char *before;
  bool first;  // the first item of that pipeline
  u32 number;  // among the program's passes, from 1
  u32 begin;   // END: its FIX
  bool idle;
  u64 generation;  // the last run changed nothing, and the module's generation then
  bool partial;    // the last run visited only what had been edited
  u32 same;        // the first pass of the program with this text
  // of that first one: 1 + the module's generation when one of them last found nothing to do
  u64 idle_at;
  pass_since since;  // when the last run began
  u64 changed_at;    // number of executions when it last changed the module
};
typedef struct pipeline_program pipeline_program;
struct pipeline_program {
  hs_arena arena;
  char *text;
  u32 npasses;
  HS_VEC(pipeline_op) ops;
  pass_cache *cache;
};
// instructions: before the first round; prints: fingerprints of late rounds, or 0; counts: hashes
// of the opcode counts. whole: this round visits everything.
typedef struct pipeline_loop {
  u32 begin, round, instructions;
  bool whole;
  u64 generation, executed, prints[4], counts[4];
} pipeline_loop;
typedef struct pipeline_cursor {
  u32 at, depth;
  u64 executed;
  pipeline_loop loops[PIPELINE_MAX_LOOPS];
} pipeline_cursor;
// registry, own: see pass_run_options
hs_status pipeline_parse(const char *text, const pass_registry *, const pass_pipelines *own,
                         pipeline_program **out);
void pipeline_free(pipeline_program *);
// The next pass of a run; NULL at the end. Moves the cursor to it, past the ends of loops and
// passes known to be idle.
const pipeline_op *pipeline_next(pipeline_program *, pipeline_cursor *, const hlo_module *,
                                 const pass_run_options *);
// Runs the pass that pipeline_next has moved the cursor to, and moves on: *next is the one after
// it. The log may be NULL.
hs_status pipeline_step(hlo_module *, pipeline_program *, pipeline_cursor *,
                        const pass_run_options *, pass_log *log, const pipeline_op **next);

#endif
