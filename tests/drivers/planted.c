// planted.c — shrink against faults whose smallest form is known: tests/planted [NAME...].
//
// Twenty passes that are wrong, each in one way, run in the middle of a pipeline over the modules
// of examples/. `shrink` has to find a module at most five instructions larger than the one that a
// person would write, and a pipeline of the wrong pass alone, within two minutes, and its result
// has to show the fault three times of three when it is judged again. Prints a line per fault,
// "FAIL NAME: reason" when it does not hold, and last "planted: P/T". Exit 0 when nothing failed.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/worker.h"
#include "repl/registry.h"

enum { SLACK = 5, SECONDS = 120 };

// What a wrong pass does to instructions of its operation.
typedef enum plant_kind {
  SWAP,     // the first two operands change places
  SWAP_23,  // the last two do
  OTHER,    // another operation in its place
  BYPASS,   // its first operand in its place
  FLIP,     // the opposite comparison
  SHIFT,    // a slice begins one further
  FAIL_ON,  // the pass fails
  FAIL_TO,  // the pass fails where its first operand is of the other operation
  BAD,      // a wrong shape, which the verifier refuses
  FAT       // twice the result, of which half is thrown away
} plant_kind;

static const struct plant {
  const char *name, *module, *condition;
  hlo_opcode op;
  plant_kind kind;
  hlo_opcode other;
  u32 least;  // instructions of the smallest module with the fault, called computations included
} plants[] = {
    {"swap-subtract", "softmax", "mismatch", HLO_SUBTRACT, SWAP, 0, 3},
    {"swap-divide", "attention", "mismatch", HLO_DIVIDE, SWAP, 0, 3},
    {"swap-select", "attention", "mismatch", HLO_SELECT, SWAP_23, 0, 4},
    {"exp-as-expm1", "lstm_scan", "mismatch", HLO_EXP, OTHER, HLO_EXPM1, 2},
    {"tanh-as-sine", "gelu_mlp_train", "mismatch", HLO_TANH, OTHER, HLO_SIN, 2},
    {"max-as-min", "convnet", "mismatch", HLO_MAXIMUM, OTHER, HLO_MINIMUM, 3},
    {"multiply-as-add", "layernorm", "mismatch", HLO_MULTIPLY, OTHER, HLO_ADD, 3},
    {"divide-as-multiply", "kmeans", "mismatch", HLO_DIVIDE, OTHER, HLO_MULTIPLY, 3},
    {"lost-negate", "lstm_scan", "mismatch", HLO_NEGATE, BYPASS, 0, 2},
    {"lost-rsqrt", "layernorm", "mismatch", HLO_RSQRT, BYPASS, 0, 2},
    {"flipped-compare", "kmeans", "mismatch", HLO_COMPARE, FLIP, 0, 3},
    {"shifted-slice", "lstm_scan", "mismatch", HLO_SLICE, SHIFT, 0, 2},
    {"dies-of-transpose", "gelu_mlp_train", "crash", HLO_TRANSPOSE, FAIL_ON, 0, 2},
    {"dies-of-sum-of-exp", "softmax", "crash", HLO_REDUCE, FAIL_TO, HLO_EXP, 7},
    {"dies-of-dot-plus", "gelu_mlp_train", "crash", HLO_ADD, FAIL_TO, HLO_DOT, 5},
    {"dies-of-while", "kmeans", "crash", HLO_WHILE, FAIL_ON, 0, 5},
    {"bad-tanh", "lstm_scan", "verify", HLO_TANH, BAD, 0, 2},
    {"nan-for-exp", "softmax", "nan", HLO_EXP, OTHER, HLO_LOG, 2},
    {"nan-for-tanh", "lstm_scan", "nan", HLO_TANH, OTHER, HLO_ACOSH, 2},
    {"fat-add", "convnet", "bigger", HLO_ADD, FAT, 0, 3},
};
enum { PLANTS = HS_COUNT(plants) };

// ---- the passes ---------------------------------------------------------------------------------
static hlo_instr *made(hlo_instr *i, hlo_opcode op, u32 n, hlo_instr *const *operands) {
  hlo_instr *now = hlo_add(i->parent, op, i->shape, n, operands, "planted");
  if (op == i->opcode) hlo_copy_attrs(now, i);
  return now;
}

static hlo_instr *fat(hlo_instr *i) {
  hlo_ctx *ctx = i->parent->module->ctx;
  i64 dims[8], one = 0;
  if (!i->shape->rank || i->shape->rank > HS_COUNT(dims)) return i;
  memcpy(dims, i->shape->dims, i->shape->rank * sizeof *dims);
  dims[0] *= 2;
  const hlo_shape *twice = hlo_shape_array(ctx, i->shape->dtype, i->shape->rank, dims);
  hlo_instr *ops[2] = {hlo_operand(i, 0), hlo_operand(i, 1)};
  hlo_instr *sum = made(i, HLO_ADD, 2, ops), *both[2] = {sum, sum};
  hlo_instr *joined = hlo_add(i->parent, HLO_CONCATENATE, hlo_shape_with_default_layout(ctx, twice),
                              2, both, "fat");
  hlo_set_attr_ints(joined, HLO_ATTR_DIMENSIONS, 1, &one);
  hlo_instr *half = hlo_add(i->parent, HLO_SLICE, i->shape, 1, &joined, "half");
  hlo_slices *s = HS_NEW(&i->parent->module->arena, hlo_slices);
  hlo_slice_dim *d = HS_NEW_ARRAY(&i->parent->module->arena, hlo_slice_dim, i->shape->rank);
  for (u32 k = 0; k < i->shape->rank; k++) d[k] = (hlo_slice_dim){0, i->shape->dims[k], 1};
  *s = (hlo_slices){i->shape->rank, d};
  hlo_set_attr_ptr(half, HLO_ATTR_SLICE, s);
  return half;
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

static hs_status plant_in(pass_ctx *c, const struct plant *p, hlo_instr *i) {
  hlo_instr *ops[4] = {0};
  for (u32 k = 0; k < i->noperands && k < HS_COUNT(ops); k++) ops[k] = hlo_operand(i, k);
  u32 a = p->kind == SWAP_23 ? i->noperands - 2 : 0;
  bool fits = p->kind != FAIL_TO || ops[0]->opcode == p->other;
  if (p->kind == FAIL_ON || (p->kind == FAIL_TO && fits))
    return hs_fail(HS_E_RUN, "planted: cannot handle %s", hlo_op_text(p->op));
  if (!fits || !hlo_shape_is_array(i->shape) || !pass_may_rewrite(c)) return HS_GOOD;
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
    hlo_ctx *ctx = c->m->ctx;
    hlo_set_shape(
        i, hlo_shape_with_default_layout(ctx, hlo_shape_array(ctx, i->shape->dtype, 1, wrong)));
    break;
  }
  case FAT: hlo_replace(i, fat(i)); break;
  case FAIL_ON:
  case FAIL_TO: break;
  }
  return HS_GOOD;
}

static hs_status run_planted(pass_ctx *c) {
  const struct plant *p = NULL;
  for (size_t k = 0; k < PLANTS; k++)
    if (strcmp(plants[k].name, c->pass->name) == 0) p = &plants[k];
  u32 old = c->m->next_instr_id;
  hlo_for_each_comp(k, c->m) {
    if (k != c->m->entry && k->nparams == 2 && k->ninstrs == 3) continue;  // of a reduce
    hlo_for_each_instr_safe(i, k)
      if (i->opcode == p->op && i->id < old) HS_TRY(plant_in(c, p, i));
  }
  return HS_GOOD;
}

// ---- judging ------------------------------------------------------------------------------------
// The number behind "KEY": in a document; -1 when it is not there.
static long field(const char *doc, const char *key) {
  char name[64];
  snprintf(name, sizeof name, "\"%s\":", key);
  const char *p = strstr(doc, name);
  return p ? strtol(p + strlen(name), NULL, 10) : -1;
}

static char *judge(const struct plant *p, const pass_registry *passes, hs_buf *said) {
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  s->passes = passes;
  s->json = true;
  char path[] = "/tmp/hlosh-planted-XXXXXX";
  int fd = mkstemp(path);
  char *load = hs_format("load examples/%s.hlo > %s", p->module, path);
  char *line = hs_format("shrink dce,%s,cse %s --backend=interp --abs=1e-6 --seconds=%d > %s",
                         p->name, p->condition, SECONDS, path);
  int code = fd < 0 ? 1 : repl_run_line(s, load, strlen(load));
  if (!code) code = repl_run_line(s, line, strlen(line));
  if (fd >= 0) close(fd);
  hs_status_drop(repl_read_file(path, (size_t)1 << 20, said));
  unlink(path);
  const char *doc = hs_buf_cstr(said);
  char *alone = hs_format("\"pipeline\":\"%s\"", p->name), *why = NULL;
  long n = field(doc, "instructions"), bad = field(doc, "judged_bad");
  if (code) why = hs_format("exit status %d", code);
  else if (n < 0 || n > (long)p->least + SLACK)
    why = hs_format("%ld instructions, a person needs %u", n, p->least);
  else if (bad != 3) why = hs_format("bad in %ld of 3 runs of the result", bad);
  else if (!strstr(doc, alone)) why = hs_strdup("the pipeline was not reduced to the wrong pass");
  else if (strstr(doc, "\"out_of_time\":true")) why = hs_strdup("out of time");
  hs_free(alone);
  hs_free(load);
  hs_free(line);
  repl_session_free(s);
  return why;
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
  u32 good = 0, n = 0;
  for (size_t k = 0; k < PLANTS; k++) {
    bool asked = argc == 1;
    for (int j = 1; j < argc; j++) asked |= strcmp(argv[j], plants[k].name) == 0;
    if (!asked) continue;
    n++;
    hs_buf said = {0};
    u64 start = hs_now_ns();
    char *why = judge(&plants[k], &passes, &said);
    double seconds = (double)(hs_now_ns() - start) * 1e-9;
    if (why) printf("FAIL %s: %s\n", plants[k].name, why);
    else
      printf("%-20s %-15s %4ld -> %ld instructions (%u by hand), %ld tries, %.1f s\n",
             plants[k].name, plants[k].module, field(hs_buf_cstr(&said), "instructions_before"),
             field(hs_buf_cstr(&said), "instructions"), plants[k].least,
             field(hs_buf_cstr(&said), "tried"), seconds);
    good += !why;
    fflush(stdout);
    hs_free(why);
    hs_buf_free(&said);
  }
  printf("planted: %u/%u\n", good, n);
  return good == n ? 0 : 1;
}
