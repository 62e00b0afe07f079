// rt.c — the table of runtime kernels, and the relayouts around those that want row-major arrays.
//
// A wrapped kernel copies operands of other layouts to row-major arrays in its scratch, runs the
// kernel, and copies results back. Tables of leaves are made once, when the program is prepared.
#include "backends/cpu/rt/rt.h"

#include <sys/mman.h>

static const cpu_rt_kind kinds[] = {
#define RT(OPCODE, name, any_layout, first) \
  {HLO_##OPCODE, cpu_##name##_supports, cpu_##name##_prepare, any_layout, first},
#include "backends/cpu/rt/rt.def"
#undef RT
};

// Kernels that move or combine elements take all of them for the result's type. HLO lets a shape
// state another precision than the operands have.
static bool mixed_precision(const hlo_instr *i) {
  bool moves = hlo_op_has(i->opcode, HLO_F_MOVEMENT) && i->opcode != HLO_BITCAST_CONVERT &&
               i->opcode != HLO_BITCAST;
  if (!moves && i->opcode != HLO_SORT && i->opcode != HLO_SELECT_AND_SCATTER &&
      i->opcode != HLO_REDUCE && i->opcode != HLO_REDUCE_WINDOW && i->opcode != HLO_TOPK)
    return false;
  u32 leaves = hlo_shape_leaves(i->shape);
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *o = hlo_operand(i, k)->shape, *r = hlo_shape_leaf(i->shape, k % leaves);
    if (hlo_shape_is_array(o) && hlo_dtype_is_float(o->dtype) && hlo_dtype_is_float(r->dtype) &&
        o->dtype != r->dtype)
      return true;
  }
  // so do the computations that choose between two of their elements
  bool sorts = i->opcode == HLO_SORT, selects = i->opcode == HLO_SELECT_AND_SCATTER;
  const hlo_computation *c = hlo_attr_comp(i, selects ? HLO_ATTR_SELECT : HLO_ATTR_TO_APPLY);
  for (u32 k = 0; c && (sorts || selects) && k < c->nparams; k++)
    if (c->params[k]->shape->dtype != hlo_operand(i, k / 2)->shape->dtype) return true;
  return false;
}

const cpu_rt_kind *cpu_rt_find(const hlo_instr *i) {
  if (mixed_precision(i)) return NULL;
  for (size_t k = 0; k < HS_COUNT(kinds); k++)
    if (kinds[k].opcode == i->opcode && kinds[k].supports(i)) return &kinds[k];
  return NULL;
}

// ---- wrapping -----------------------------------------------------------------------------------

typedef struct wrapped {
  cpu_rt inner;
  u32 nin, n;               // leaves
  const hlo_shape **shape;  // per leaf
  i64 *at;                  // offset of its row-major copy in the scratch; -1: used as it is
  i64 inner_scratch;
  void **bufs;
} wrapped;

static hs_status run_wrapped(void *state, void *const *bufs, void *scratch) {
  wrapped *w = state;
  i64 phys[HLO_MAX_RANK], log[HLO_MAX_RANK];
  for (u32 k = 0; k < w->n; k++) {
    const hlo_shape *s = w->shape[k];
    w->bufs[k] = w->at[k] < 0 ? bufs[k] : (char *)scratch + w->at[k];
    if (w->at[k] < 0 || k >= w->nin) continue;
    cpu_strides(s, phys);
    hlo_row_major_strides(s->rank, s->dims, log);
    cpu_relayout(w->bufs[k], log, bufs[k], phys, s->rank, s->dims, hlo_dtype_storage(s->dtype));
  }
  HS_TRY(w->inner.run(w->inner.state, w->bufs, (char *)scratch + w->inner_scratch));
  for (u32 k = w->nin; k < w->n; k++) {
    const hlo_shape *s = w->shape[k];
    if (w->at[k] < 0) continue;
    cpu_strides(s, phys);
    hlo_row_major_strides(s->rank, s->dims, log);
    cpu_relayout(bufs[k], phys, w->bufs[k], log, s->rank, s->dims, hlo_dtype_storage(s->dtype));
  }
  return HS_GOOD;
}

static void free_wrapped(void *state) {
  wrapped *w = state;
  cpu_rt_free(&w->inner);
  hs_free(w->shape);
  hs_free(w->at);
  hs_free(w->bufs);
  hs_free(w);
}

// ---- what kernels keep --------------------------------------------------------------------------

i64 cpu_keep(cpu_kept *k, i64 bytes) {
  i64 at = k->bytes;
  k->bytes += cpu_align(bytes);
  return at;
}

hs_status cpu_kept_open(cpu_kept *k, bool *fill) {
  const size_t HUGE_PAGE = (size_t)2 << 20, LINE = 64;
  *fill = k->bytes && !k->filled;
  if (!*fill || k->at) return HS_GOOD;
  size_t n = (size_t)k->bytes, to = n >= HUGE_PAGE ? HUGE_PAGE : LINE;
  k->memory = hs_try_alloc(n + to);
  if (!k->memory) return hs_fail(HS_E_NO_MEMORY, "%zu bytes for packed constants", n);
  k->at = (char *)(((uintptr_t)k->memory + to - 1) & ~(uintptr_t)(to - 1));
  if (n >= HUGE_PAGE) (void)madvise(k->at, n / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
  return HS_GOOD;
}

void cpu_kept_free(cpu_kept *k) {
  hs_free(k->memory);
  *k = (cpu_kept){0};
}

// ---- the table's kernels ------------------------------------------------------------------------

void cpu_rt_free(cpu_rt *rt) {
  if (rt->state) {
    if (rt->release) rt->release(rt->state);
    else hs_free(rt->state);
  }
  *rt = (cpu_rt){0};
}

hs_status cpu_rt_make(const hlo_instr *i, u32 fixed, cpu_rt *out) {
  *out = (cpu_rt){.fixed = fixed};
  const cpu_rt_kind *kind = cpu_rt_find(i);
  if (!kind)
    return hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(i->opcode), "unsupported: %s",
                           hlo_op_text(i->opcode));
  HS_TRY(kind->prepare(i, out));
  u32 nin = 0, nout = hlo_shape_leaves(i->shape);
  for (u32 k = 0; k < i->noperands; k++) nin += hlo_shape_leaves(hlo_operand(i, k)->shape);
  wrapped *w = hs_calloc(1, sizeof *w);
  *w = (wrapped){.inner = *out,
                 .nin = nin,
                 .n = nin + nout,
                 .shape = hs_calloc(nin + nout + 1, sizeof *w->shape),
                 .at = hs_calloc(nin + nout + 1, sizeof *w->at),
                 .bufs = hs_calloc(nin + nout + 1, sizeof *w->bufs)};
  u32 n = 0;
  for (u32 k = 0; k < i->noperands; k++)
    for (u32 j = 0, m = hlo_shape_leaves(hlo_operand(i, k)->shape); j < m; j++)
      w->shape[n++] = hlo_shape_leaf(hlo_operand(i, k)->shape, j);
  for (u32 j = 0; j < nout; j++) w->shape[n++] = hlo_shape_leaf(i->shape, j);
  i64 scratch = cpu_align(out->scratch_bytes);
  bool needed = false;
  for (u32 k = 0; k < n; k++) {
    bool plain = kind->any_layout || out->strided || !hlo_shape_is_array(w->shape[k]) ||
                 hlo_shape_is_row_major(w->shape[k]);
    w->at[k] = plain ? -1 : scratch;
    if (!plain) {
      needed = true;
      scratch += cpu_align((i64)block_leaf_bytes(w->shape[k]));
    }
  }
  if (!needed) {
    w->inner = (cpu_rt){0};
    free_wrapped(w);
    return HS_GOOD;
  }
  *out = (cpu_rt){.kind = w->inner.kind,
                  .compiled = w->inner.compiled,
                  .kept_bytes = w->inner.kept_bytes,
                  .state = w,
                  .run = run_wrapped,
                  .release = free_wrapped,
                  .scratch_bytes = scratch};
  return HS_GOOD;
}
