// chain.c — finds products that are computed in pieces of rows with what lies between them
// (rt/chain.c says how): of a block's steps a dot, a kernel along rows that alone reads its result,
// and a dot whose left operand that is, and which alone reads it, become one step in the place of
// the last. The two values between them take no memory. Not in the per-instruction baseline.
#include "backends/cpu/chain.h"

typedef struct finding {
  cpu_lowering *l;
  u32 *reads;   // per value: how many steps read it
  u32 *reader;  // per value: the last of its uses, an index into the lowering's
  i64 *made;    // per value: the step of this block that makes it; -1
} finding;

static bool is_between(const finding *f, u32 v) {
  const cpu_value *x = &f->l->p->values.v[v];
  return x->kind == CPU_TEMP && x->target == CPU_NONE && f->reads[v] == 1;
}

static cpu_step *maker(const finding *f, const cpu_block *b, u32 v) {
  return f->made[v] < 0 ? NULL : &b->steps.v[f->made[v]];
}

static bool is_dot(const cpu_step *s) {
  return s && s->kind == CPU_STEP_RT && s->instr->opcode == HLO_DOT && s->nin == 2;
}

// The chain that ends with the dot; false: none does.
static bool chain_of(const finding *f, const cpu_block *b, const cpu_step *last, cpu_step **first,
                     cpu_step **rows, u32 *in) {
  if (!is_dot(last) || !is_between(f, last->vals[0])) return false;
  *rows = maker(f, b, last->vals[0]);
  if (!*rows || (*rows)->kind != CPU_STEP_EMIT || (*rows)->nvals != (*rows)->nin + 1) return false;
  const emit_kernel *k = (*rows)->kernel;
  for (u32 j = 0; j < k->nshares; j++) {
    *in = k->shares[j].in;
    u32 v = (*rows)->vals[*in];
    *first = is_between(f, v) ? maker(f, b, v) : NULL;
    if (is_dot(*first)) return true;
  }
  return false;
}

static void join(finding *f, cpu_step *first, cpu_step *rows, u32 in, cpu_step *last,
                 const cpu_rt *rt) {
  cpu_program *p = f->l->p;
  u32 n = 0, nin = rows->nin, result = last->vals[2], right = last->vals[1];
  u32 *vals = HS_NEW_ARRAY(&p->arena, u32, nin + 5), between[] = {rows->vals[in], last->vals[0]};
  vals[n++] = first->vals[0], vals[n++] = first->vals[1];
  for (u32 k = 0; k < nin; k++) vals[n++] = k == in ? first->vals[0] : rows->vals[k];
  vals[n++] = right;
  u32 loop = f->l->uses.v[f->reader[between[1]]].loop;
  for (u32 k = 0; k < n; k++) {
    cpu_use u = {vals[k], last->pos, loop};
    hs_vec_push(&f->l->uses, u);
  }
  vals[n] = result;
  for (u32 k = 0; k < 2; k++) p->values.v[between[k]].bytes = 0;
  cpu_rt_free(&first->rt);
  cpu_rt_free(&last->rt);
  last->rt = *rt;
  last->nin = n, last->nvals = n + 1, last->vals = vals;
  last->scratch_bytes = (size_t)rt->scratch_bytes;
  last->joined[0] = first->instr, last->joined[1] = rows->instr;
  first->instr = rows->instr = NULL;  // they go
}

static void join_block(finding *f, cpu_block *b) {
  cpu_program *p = f->l->p;
  for (size_t k = 0; k < b->steps.n; k++)
    for (u32 j = 0; j < b->steps.v[k].nblocks; j++) join_block(f, &b->steps.v[k].blocks[j]);
  for (size_t k = 0; k < p->values.n; k++) f->made[k] = -1;
  bool any = false;
  for (size_t k = 0; k < b->steps.n; k++) {
    cpu_step *s = &b->steps.v[k], *first, *rows;
    u32 in;
    cpu_rt rt;
    if (chain_of(f, b, s, &first, &rows, &in) &&
        cpu_chain_make(first->instr, rows->kernel, rows->nin, in, s->instr, &rt)) {
      join(f, first, rows, in, s, &rt);
      any = true;
    }
    for (u32 j = s->nin; j < s->nvals; j++)
      if (s->vals[j] != CPU_NONE) f->made[s->vals[j]] = (i64)k;
  }
  if (!any) return;
  size_t n = 0;
  for (size_t k = 0; k < b->steps.n; k++)
    if (b->steps.v[k].instr) b->steps.v[n++] = b->steps.v[k];
  b->steps.n = n;
}

void cpu_join_chains(cpu_lowering *l) {
  cpu_program *p = l->p;
  if (p->per_instruction || p->away) return;
  size_t n = p->values.n + 1;
  finding f = {l, hs_calloc(n, sizeof *f.reads), hs_calloc(n, sizeof *f.reader),
               hs_calloc(n, sizeof *f.made)};
  for (size_t k = 0; k < l->uses.n; k++) {
    f.reads[l->uses.v[k].value]++;
    f.reader[l->uses.v[k].value] = (u32)k;
  }
  join_block(&f, &p->entry);
  hs_free(f.reads);
  hs_free(f.reader);
  hs_free(f.made);
}
