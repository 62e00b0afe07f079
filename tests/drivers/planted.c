// planted.c — shrink against faults whose smallest form is known: tests/planted [--suite DIR]
// [-j N] [NAME...].
//
// Faults are planted in two places: in a pass in the middle of a pipeline (PASS), and in the
// compiler of the cpu backend, in the worker's process (COMPILER; HLOSH_PLANTED says which). They
// are looked for in the modules of examples/, or with --suite in large ones, of up to thousands of
// instructions, in DIR. `shrink` has to find a module at most five instructions larger than the one
// that a person would write, and a pipeline of the wrong pass alone, within two minutes; the result
// has to show the fault three times of three when it is judged again, and three fresh processes
// have to replay its bundle: this program, called as hlosh is. A fault whose name begins with
// "late-" takes LATE_MS of the processor for each verdict: with -j N it is looked for with -j 1
// too, which has to give the same module, byte for byte. Prints a line per fault, "FAIL NAME:
// reason" when it does not hold, and last "planted: P/T". Exit 0 when nothing failed.
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "backends/worker.h"
#include "core/text/text.h"
#include "repl/debug/bundle.h"
#include "repl/registry.h"

#ifdef HAVE_LLVM
enum { COMPILES = HAVE_LLVM };
#else
enum { COMPILES = 0 };
#endif

enum { SLACK = 5, SECONDS = 120, PROOFS = 3, SLOWLY = 32, LATE_MS = 200 };

// What is done to instructions of an operation that is wrong.
typedef enum plant_kind {
  SWAP,     // the first two operands change places
  SWAP_23,  // the last two do
  OTHER,    // another operation in its place
  BYPASS,   // its first operand in its place
  FLIP,     // the opposite comparison
  SHIFT,    // a slice begins one further
  FAIL_ON,  // the pass fails, the compiler dies
  FAIL_TO,  // likewise, where its first operand is of the other operation
  BAD,      // a wrong shape, which the verifier refuses
  FAT,      // twice the result, of which half is thrown away
  SLOW      // many times the result, likewise
} plant_kind;

typedef enum plant_place { PASS, COMPILER } plant_place;

// least: instructions of the smallest module with the fault, called computations included. By hand
// that is the operation with a parameter for each operand (subtract: 3, select: 4, tanh: 2), or one
// for both where that shows it (x * x for x + x: 2); a sum of exponentials has a reducer of 2 (it
// may return a parameter), an initial value, a parameter, exponential and reduce (6); the square of
// a matrix added to itself has 3; a loop has a parameter, a condition that is a parameter and a
// constant, and a body that is a parameter (5).
static const struct plant {
  const char *name;
  plant_place place;
  const char *condition;
  hlo_opcode op;
  plant_kind kind;
  hlo_opcode other;
  u32 least;
  const char *example, *large;  // modules; NULL: not looked for there
} plants[] = {
    {"swap-subtract", PASS, "mismatch", HLO_SUBTRACT, SWAP, 0, 3, "softmax", "gpt2_2layer_fwd"},
    {"swap-divide", PASS, "mismatch", HLO_DIVIDE, SWAP, 0, 3, "attention", "bert_encoder_layer"},
    {"swap-select", PASS, "mismatch", HLO_SELECT, SWAP_23, 0, 4, "attention", "moe_sorted_ragged"},
    {"exp-as-expm1", PASS, "mismatch", HLO_EXP, OTHER, HLO_EXPM1, 2, "lstm_scan", "nerf_mlp"},
    {"tanh-as-sine", PASS, "mismatch", HLO_TANH, OTHER, HLO_SIN, 2, "gelu_mlp_train",
     "gpt_scan_layers_remat"},
    {"max-as-min", PASS, "mismatch", HLO_MAXIMUM, OTHER, HLO_MINIMUM, 3, "convnet",
     "mobilenet_se_fwd"},
    {"multiply-as-add", PASS, "mismatch", HLO_MULTIPLY, OTHER, HLO_ADD, 2, "layernorm",
     "resnet18_cifar_train"},
    {"divide-as-multiply", PASS, "mismatch", HLO_DIVIDE, OTHER, HLO_MULTIPLY, 2, "kmeans",
     "mlp_mnist_train_adam"},
    {"lost-negate", PASS, "mismatch", HLO_NEGATE, BYPASS, 0, 2, "lstm_scan", "lstm_scan_grad"},
    {"lost-rsqrt", PASS, "mismatch", HLO_RSQRT, BYPASS, 0, 2, "layernorm", "vit_small_train"},
    {"flipped-compare", PASS, "mismatch", HLO_COMPARE, FLIP, 0, 2, "kmeans", "viterbi_decode"},
    {"shifted-slice", PASS, "mismatch", HLO_SLICE, SHIFT, 0, 2, "lstm_scan", "mamba_associative"},
    {"dies-of-transpose", PASS, "crash", HLO_TRANSPOSE, FAIL_ON, 0, 2, "gelu_mlp_train",
     "vit_small_train"},
    {"dies-of-sum-of-exp", PASS, "crash", HLO_REDUCE, FAIL_TO, HLO_EXP, 6, "softmax",
     "gpt_scan_layers_remat"},
    {"dies-of-dot-plus", PASS, "crash", HLO_ADD, FAIL_TO, HLO_DOT, 3, "gelu_mlp_train",
     "mlp_mnist_train_adam"},
    {"dies-of-while", PASS, "crash", HLO_WHILE, FAIL_ON, 0, 5, "kmeans", "gpt_scan_layers_remat"},
    {"bad-tanh", PASS, "verify", HLO_TANH, BAD, 0, 2, "lstm_scan", "gpt2_2layer_fwd"},
    {"nan-for-exp", PASS, "nan", HLO_EXP, OTHER, HLO_LOG, 2, "softmax", "bert_encoder_layer"},
    {"nan-for-tanh", PASS, "nan", HLO_TANH, OTHER, HLO_ACOSH, 2, "lstm_scan", "gpt2_2layer_fwd"},
    {"late-min-for-max", PASS, "mismatch", HLO_MAXIMUM, OTHER, HLO_MINIMUM, 3, "convnet",
     "mobilenet_se_fwd"},
    {"late-lost-rsqrt", PASS, "mismatch", HLO_RSQRT, BYPASS, 0, 2, "layernorm", "vit_small_train"},
    {"fat-add", PASS, "bigger", HLO_ADD, FAT, 0, 2, "convnet", "resnet18_cifar_train"},
    {"slow-tanh", PASS, "slower", HLO_TANH, SLOW, 0, 2, "gelu_mlp_train", NULL},
    {"slow-sqrt", PASS, "slower", HLO_SQRT, SLOW, 0, 2, NULL, "mlp_mnist_train_adam"},
    {"compiled-swap-subtract", COMPILER, "mismatch", HLO_SUBTRACT, SWAP, 0, 3, "softmax",
     "lenet_train"},
    {"compiled-min-for-max", COMPILER, "mismatch", HLO_MAXIMUM, OTHER, HLO_MINIMUM, 3, NULL,
     "bert_encoder_layer"},
    {"compiled-nan-for-exp", COMPILER, "nan", HLO_EXP, OTHER, HLO_LOG, 2, NULL, "mobilenet_se_fwd"},
    {"compiler-dies-of-rsqrt", COMPILER, "crash", HLO_RSQRT, FAIL_ON, 0, 2, "layernorm",
     "resnet18_cifar_train"},
    {"compiler-dies-of-slice", COMPILER, "crash", HLO_DYNAMIC_SLICE, FAIL_ON, 0, 4, NULL,
     "monte_carlo_pi"},
};
enum { PLANTS = HS_COUNT(plants) };

static const struct plant *find_plant(const char *name) {
  for (size_t k = 0; name && k < PLANTS; k++)
    if (strcmp(plants[k].name, name) == 0) return &plants[k];
  return NULL;
}

// ---- what goes wrong ----------------------------------------------------------------------------
static hlo_instr *made(hlo_instr *i, hlo_opcode op, u32 n, hlo_instr *const *operands) {
  hlo_instr *now = hlo_add(i->parent, op, i->shape, n, operands, "planted");
  if (op == i->opcode) hlo_copy_attrs(now, i);
  return now;
}

// The instruction on its operands so many times over, of which the first time is taken.
static hlo_instr *fat(hlo_instr *i, i64 times) {
  hlo_ctx *ctx = i->parent->module->ctx;
  i64 dims[8], zero = 0;
  if (!i->shape->rank || i->shape->rank > HS_COUNT(dims)) return i;
  memcpy(dims, i->shape->dims, i->shape->rank * sizeof *dims);
  dims[0] *= times;
  hlo_instr *many[2], *same[SLOWLY];
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *d = hlo_operand(i, k);
    const hlo_shape *wide = hlo_shape_array(ctx, d->shape->dtype, i->shape->rank, dims);
    for (i64 j = 0; j < times; j++) same[j] = d;
    many[k] = hlo_add(i->parent, HLO_CONCATENATE, hlo_shape_with_default_layout(ctx, wide),
                      (u32)times, same, "many");
    hlo_set_attr_ints(many[k], HLO_ATTR_DIMENSIONS, 1, &zero);
  }
  hlo_instr *all = hlo_add(i->parent, i->opcode, many[0]->shape, i->noperands, many, "fat");
  hlo_instr *one = hlo_add(i->parent, HLO_SLICE, i->shape, 1, &all, "one");
  hlo_slices *s = HS_NEW(&i->parent->module->arena, hlo_slices);
  hlo_slice_dim *d = HS_NEW_ARRAY(&i->parent->module->arena, hlo_slice_dim, i->shape->rank);
  for (u32 k = 0; k < i->shape->rank; k++) d[k] = (hlo_slice_dim){0, i->shape->dims[k], 1};
  *s = (hlo_slices){i->shape->rank, d};
  hlo_set_attr_ptr(one, HLO_ATTR_SLICE, s);
  return one;
}

static bool shifted(hlo_instr *i) {
  const hlo_slices *old = hlo_attr_ptr(i, HLO_ATTR_SLICE);
  hlo_slices *now = HS_NEW(&i->parent->module->arena, hlo_slices);
  hlo_slice_dim *d = hs_arena_dup(&i->parent->module->arena, old->v, old->n * sizeof *d);
  bool any = false;
  for (u32 k = 0; k < old->n && !any; k++)
    if (d[k].limit < hlo_operand(i, 0)->shape->dims[k]) d[k].start++, d[k].limit++, any = true;
  *now = (hlo_slices){old->n, d};
  if (any) hlo_set_attr_ptr(i, HLO_ATTR_SLICE, now);
  return any;
}

// c: the pass; NULL: the compiler.
static hs_status plant_in(pass_ctx *c, const struct plant *p, hlo_instr *i) {
  hlo_instr *ops[4] = {0};
  for (u32 k = 0; k < i->noperands && k < HS_COUNT(ops); k++) ops[k] = hlo_operand(i, k);
  u32 a = p->kind == SWAP_23 ? i->noperands - 2 : 0;
  bool fits = p->kind != FAIL_TO || ops[0]->opcode == p->other;
  if (p->kind == FAIL_ON || (p->kind == FAIL_TO && fits)) {
    if (!c) abort();
    return hs_fail(HS_E_RUN, "planted: cannot handle %s", hlo_op_text(p->op));
  }
  if (!fits || !hlo_shape_is_array(i->shape) || (c && !pass_may_rewrite(c))) return HS_GOOD;
  switch (p->kind) {
  case SWAP:
  case SWAP_23: {
    hlo_instr *x = ops[a];
    ops[a] = ops[a + 1];
    ops[a + 1] = x;
    hlo_replace(i, made(i, i->opcode, i->noperands, ops));
    break;
  }
  case OTHER: hlo_replace(i, made(i, p->other, i->noperands, ops)); break;
  case BYPASS: hlo_replace(i, ops[0]); break;
  case FLIP: {
    static const i64 opposite[] = {HLO_DIRECTION_NE, HLO_DIRECTION_EQ, HLO_DIRECTION_LT,
                                   HLO_DIRECTION_LE, HLO_DIRECTION_GT, HLO_DIRECTION_GE};
    hlo_set_attr_int(i, HLO_ATTR_DIRECTION, opposite[hlo_attr_int(i, HLO_ATTR_DIRECTION, 0)]);
    break;
  }
  case SHIFT: shifted(i); break;
  case BAD: {
    i64 wrong[1] = {i->shape->elements + 1};
    hlo_ctx *ctx = i->parent->module->ctx;
    hlo_set_shape(
        i, hlo_shape_with_default_layout(ctx, hlo_shape_array(ctx, i->shape->dtype, 1, wrong)));
    break;
  }
  case FAT: hlo_replace(i, fat(i, 2)); break;
  case SLOW: hlo_replace(i, fat(i, SLOWLY)); break;
  case FAIL_ON:
  case FAIL_TO: break;
  }
  return HS_GOOD;
}

static hs_status plant_all(pass_ctx *c, const struct plant *p, hlo_module *m) {
  u32 old = m->next_instr_id;
  hlo_for_each_comp(k, m) {
    if (k != m->entry && k->nparams == 2 && k->ninstrs == 3) continue;  // of a reduce
    hlo_for_each_instr_safe(i, k)
      if (i->opcode == p->op && i->id < old) HS_TRY(plant_in(c, p, i));
  }
  return HS_GOOD;
}

static bool is_late(const struct plant *p) { return strncmp(p->name, "late-", 5) == 0; }

// Seconds of processor time of this thread.
static double busy(void) {
  struct timespec t = {0};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static hs_status run_planted(pass_ctx *c) {
  const struct plant *p = find_plant(c->pass->name);
  double end = busy() + LATE_MS * 1e-3;
  while (is_late(p) && busy() < end) HS_TRY(hs_poll());
  return plant_all(c, p, c->m);
}

// The linker gives the compiler's calls of cpu_lower to this one (Makefile).
hs_status __real_cpu_lower(const hlo_module *, const cpu_lower_options *, cpu_program **);
hs_status __wrap_cpu_lower(const hlo_module *, const cpu_lower_options *, cpu_program **);
hs_status __wrap_cpu_lower(const hlo_module *m, const cpu_lower_options *o, cpu_program **out) {
  static HS_VEC(hlo_module *) wrong;  // programs point at them
  const struct plant *p = find_plant(getenv("HLOSH_PLANTED"));
  if (!p) return __real_cpu_lower(m, o, out);
  hlo_module *copy = hlo_module_clone(m, NULL), *again = NULL;
  hlo_journal_disable(copy);
  HS_TRY(plant_all(NULL, p, copy));
  // through its text, as the worker gets modules: operands come first again
  hlo_print_options full = hlo_print_full();
  hs_buf text = {0};
  hlo_print_module(&text, copy, &full);
  hs_status s = hlo_parse(m->ctx, text.p, text.n, &(hlo_parse_options){.file = "wrong"}, &again);
  hs_buf_free(&text);
  hlo_module_free(copy);
  HS_TRY(s);
  hs_vec_push(&wrong, again);
  return __real_cpu_lower(again, o, out);
}

// ---- judging ------------------------------------------------------------------------------------
// The number behind "KEY": in a document; -1 when it is not there.
static long field(const char *doc, const char *key) {
  char name[64];
  snprintf(name, sizeof name, "\"%s\":", key);
  const char *p = strstr(doc, name);
  return p ? strtol(p + strlen(name), NULL, 10) : -1;
}

// Why it does not hold; NULL when it does.
static char *verdict_on(const struct plant *p, int code, const char *doc) {
  char *alone = hs_format("\"pipeline\":\"%s\"", p->name), *why = NULL;
  long n = field(doc, "instructions"), bad = field(doc, "judged_bad"),
       same = field(doc, "replays_same");
  if (code) why = hs_format("exit status %d: %s", code, doc);
  else if (n < 0 || n > (long)p->least + SLACK)
    why = hs_format("%ld instructions, a person needs %u", n, p->least);
  else if (bad != PROOFS) why = hs_format("bad in %ld of 3 runs of the result", bad);
  else if (same != PROOFS) why = hs_format("replayed by %ld of 3 processes", same);
  else if (p->place == PASS && !strstr(doc, alone))
    why = hs_strdup("the pipeline was not reduced to the wrong pass");
  else if (strstr(doc, "\"out_of_time\":true")) why = hs_strdup("out of time");
  hs_free(alone);
  return why;
}

// said: the document of the command; text: the module that is left.
static char *shrink_it(const struct plant *p, const char *folder, const char *module,
                       const pass_registry *passes, u32 jobs, hs_buf *said, hs_buf *text) {
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  s->passes = passes;
  s->json = true;
  if (p->place == COMPILER) setenv("HLOSH_PLANTED", p->name, 1);
  else unsetenv("HLOSH_PLANTED");
  char dir[] = "/tmp/hlosh-planted-XXXXXX";
  bool made = mkdtemp(dir) != NULL;
  bool compiled = p->place == COMPILER || strcmp(p->condition, "slower") == 0;
  char *load = hs_format("load %s/%s.hlo > %s/said", folder, module, dir),
       *line = hs_format("shrink %s%s%s %s --backend=%s --abs=1e-6 --seconds=%d -j %u -o "
                         "%s/bundle > %s/said",
                         p->place == PASS ? "dce," : "", p->place == PASS ? p->name : "",
                         p->place == PASS ? ",cse" : "", p->condition, compiled ? "cpu" : "interp",
                         SECONDS, jobs, dir, dir),
       *print = hs_format("print > %s/module", dir), *left = hs_format("%s/module", dir),
       *path = hs_format("%s/said", dir);
  int code = made ? repl_run_line(s, load, strlen(load)) : 1;
  if (!code) code = repl_run_line(s, line, strlen(line));
  hs_status_drop(repl_read_file(path, (size_t)1 << 20, said));
  s->json = false;
  if (!code) code = repl_run_line(s, print, strlen(print));
  hs_status_drop(repl_read_file(left, (size_t)1 << 20, text));
  if (made) bundle_remove(dir);
  char *why = verdict_on(p, code, hs_buf_cstr(said));
  hs_free(load);
  hs_free(line);
  hs_free(path);
  hs_free(print);
  hs_free(left);
  repl_session_free(s);
  return why;
}

// Seconds of processor time of this process and of those that have ended.
static double processor(void) {
  double sum = 0;
  struct rusage u;
  for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; who++)
    if (getrusage(who, &u) == 0)
      sum += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
             (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
  return sum;
}

static bool judge(const struct plant *p, const char *suite, u32 jobs, const pass_registry *passes) {
  const char *module = suite ? p->large : p->example, *folder = suite ? suite : "examples";
  hs_buf said = {0}, text = {0};
  u64 start = hs_now_ns();
  double before = processor();
  char *why = shrink_it(p, folder, module, passes, jobs, &said, &text);
  double seconds = (double)(hs_now_ns() - start) * 1e-9;
  const char *doc = hs_buf_cstr(&said);
  if (!why && seconds > SECONDS) why = hs_format("%.0f s", seconds);
  if (!why && jobs > 1 && is_late(p)) {
    hs_buf alone = {0}, same = {0};
    why = shrink_it(p, folder, module, passes, 1, &alone, &same);
    if (!why && (!text.n || strcmp(hs_buf_cstr(&text), hs_buf_cstr(&same)) != 0 ||
                 field(doc, "tried") != field(hs_buf_cstr(&alone), "tried")))
      why = hs_format("another result than one after another");
    hs_buf_free(&alone);
    hs_buf_free(&same);
  }
  if (why) printf("FAIL %s: %s\n", p->name, why);
  printf(
      "%-22s %-22s %4ld -> %ld instructions (%u by hand), %ld tries, %.1f s, %.1f of them busy\n",
      p->name, module, field(doc, "instructions_before"), field(doc, "instructions"), p->least,
      field(doc, "tried"), seconds, processor() - before);
  fflush(stdout);
  bool good = !why;
  hs_free(why);
  hs_buf_free(&said);
  hs_buf_free(&text);
  return good;
}

// As `hlosh --no-rc -c LINE`: what shrink starts to replay a bundle.
static int as_hlosh(const char *line, const pass_registry *passes) {
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  s->passes = passes;
  int code = repl_run_line(s, line, strlen(line));
  repl_session_free(s);
  return code;
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  hs_interrupt_watch(&repl_interrupt);  // deadlines stop what the evaluator does
  static pass_info infos[PLANTS];
  static const pass_info *all[PLANTS];
  for (size_t k = 0; k < PLANTS; k++) {
    infos[k] = (pass_info){.name = plants[k].name, .summary = "wrong", .run = run_planted};
    all[k] = &infos[k];
  }
  const pass_registry passes = {.passes = all, .npasses = PLANTS, .next = &pass_builtin};
  if (argc == 4 && strcmp(argv[1], "--no-rc") == 0) return as_hlosh(argv[3], &passes);
  bool large = argc > 2 && strcmp(argv[1], "--suite") == 0;
  const char *suite = large ? argv[2] : NULL;
  int first = large ? 3 : 1;
  u32 jobs = 1;
  if (argc > first + 1 && strcmp(argv[first], "-j") == 0) {
    jobs = (u32)strtoul(argv[first + 1], NULL, 10);
    first += 2;
  }
  u32 good = 0, n = 0;
  for (size_t k = 0; k < PLANTS; k++) {
    const struct plant *p = &plants[k];
    bool asked = argc == first;
    for (int j = first; j < argc; j++) asked |= strcmp(argv[j], p->name) == 0;
    if (!asked || !(suite ? p->large : p->example)) continue;
    if (!COMPILES && (p->place == COMPILER || p->kind == SLOW)) {
      printf("SKIP planted fault %s: no LLVM\n", p->name);
      continue;
    }
    n++;
    good += judge(p, suite, jobs, &passes);
  }
  printf("planted: %u/%u\n", good, n);
  return good == n ? 0 : 1;
}
