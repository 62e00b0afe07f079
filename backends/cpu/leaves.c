// leaves.c — values for the leaves of instructions: constants, instructions that only rename
// data, and the copies between layouts that renaming takes. See leaves.h.
#include "backends/cpu/leaves.h"
#include "core/analysis/customcall.h"

// ---- values -------------------------------------------------------------------------------------

u32 cpu_new_value(cpu_lowering *l, cpu_value_kind kind, const hlo_shape *shape, i32 def, u32 leaf) {
  cpu_value v = {.kind = kind,
                 .instr = l->at,
                 .leaf = leaf,
                 .shape = shape,
                 .bytes = block_leaf_bytes(shape),
                 .slot = CPU_NONE,
                 .loop = l->loop,
                 .def = def,
                 .last_use = def,
                 .live_end = def,
                 .target = CPU_NONE,
                 .index = CPU_NONE};
  hs_vec_push(&l->p->values, v);
  return (u32)l->p->values.n - 1;
}

void cpu_use_value(cpu_lowering *l, u32 v, i32 pos) {
  cpu_use u = {v, pos, l->loop};
  hs_vec_push(&l->uses, u);
}

i32 cpu_new_pos(cpu_lowering *l) { return l->p->npos++; }

// An aligned copy of a constant in the physical order its shape asks for.
static const void *constant_data(cpu_lowering *l, const hlo_shape *leaf, const hlo_literal *lit) {
  size_t n = block_leaf_bytes(leaf);
  char *raw = hs_arena_alloc(&l->p->arena, n + 128);
  char *p = (char *)(((uintptr_t)raw + 63) & ~(uintptr_t)63);
  if (hlo_shape_is_row_major(leaf)) {
    memcpy(p, lit->data, n);
  } else {
    i64 from[HLO_MAX_RANK], to[HLO_MAX_RANK];
    hlo_row_major_strides(leaf->rank, leaf->dims, from);
    cpu_strides(leaf, to);
    cpu_relayout(p, to, lit->data, from, leaf->rank, leaf->dims, hlo_dtype_storage(leaf->dtype));
  }
  return p;
}

void cpu_constant_leaves(cpu_lowering *l, const hlo_shape *shape, const hlo_literal *lit,
                         u32 **out) {
  if (hlo_shape_is_tuple(shape)) {
    for (u32 k = 0; k < shape->nelems; k++)
      cpu_constant_leaves(l, shape->elems[k], lit->children[k], out);
    return;
  }
  u32 leaf = (u32)(*out - l->leaves[l->at->id]), v = cpu_new_value(l, CPU_CONST, shape, -1, leaf);
  if (l->p->values.v[v].bytes) l->p->values.v[v].data = constant_data(l, shape, lit);
  *(*out)++ = v;
}

u32 cpu_constants_of(const cpu_lowering *l, const cpu_step *s) {
  u32 which = 0;
  for (u32 k = 0; k < HS_MIN(s->nin, 32u); k++)
    if (l->p->values.v[s->vals[k]].kind == CPU_CONST) which |= 1u << k;
  return which;
}

// ---- instructions that move no data -------------------------------------------------------------

// Whether the result is a tuple of the operands: a tuple, or a marker over several values.
static bool packs_operands(const hlo_instr *i) {
  if (i->opcode != HLO_CUSTOM_CALL) return i->opcode == HLO_TUPLE;
  return hlo_shape_is_tuple(i->shape) &&
         !(i->noperands == 1 && hlo_shape_compatible(i->shape, hlo_operand(i, 0)->shape));
}

// Whether a transpose is nothing but its result's layout, as those are that JAX puts around loops.
static bool only_layout_changes(const hlo_instr *i) {
  const hlo_shape *to = i->shape, *from = hlo_operand(i, 0)->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 st[HLO_MAX_RANK], sf[HLO_MAX_RANK];
  if (!hlo_shape_is_array(to) || to->dtype != from->dtype || dims.n != to->rank) return false;
  cpu_strides(to, st);
  cpu_strides(from, sf);
  for (u32 k = 0; k < to->rank; k++)
    if (to->dims[k] > 1 && st[k] != sf[dims.v[k]]) return false;
  return true;
}

bool cpu_instr_is_alias(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_TUPLE:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_OPT_BARRIER:
  case HLO_ADD_DEPENDENCY:
  case HLO_DOMAIN: return true;
  // the same bytes; the verifier compares sizes only where layouts are final
  case HLO_BITCAST:
    return i->shape->dtype == hlo_operand(i, 0)->shape->dtype &&
           i->shape->elements == hlo_operand(i, 0)->shape->elements;
  case HLO_RESHAPE:
  case HLO_COPY:
    return hlo_shape_is_array(i->shape) && i->shape->dtype == hlo_operand(i, 0)->shape->dtype &&
           cpu_same_bytes(i->shape, hlo_operand(i, 0)->shape);
  case HLO_TRANSPOSE: return only_layout_changes(i);
  case HLO_CUSTOM_CALL: return hlo_custom_is_marker(i);
  default: return false;
  }
}

// ---- layouts of data that is only renamed -------------------------------------------------------
//
// The leaves of an instruction have the layouts of its own shape. Before layout assignment a module
// may pass an array of one layout to a parameter, a tuple element or a result of another; XLA
// inserts copies there, and so does this file.

typedef struct relayout {
  const hlo_shape *from, *to;
} relayout;

static hs_status run_relayout(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  const relayout *r = state;
  i64 from[HLO_MAX_RANK], to[HLO_MAX_RANK];
  cpu_strides(r->from, from);
  cpu_strides(r->to, to);
  cpu_relayout(bufs[1], to, bufs[0], from, r->to->rank, r->to->dims,
               hlo_dtype_storage(r->to->dtype));
  return HS_GOOD;
}

void cpu_adapt_leaf(cpu_lowering *l, const hlo_instr *i, cpu_block *b, u32 *vals, u32 k,
                    const hlo_shape *from, const hlo_shape *to) {
  const hlo_shape *x = hlo_shape_leaf(from, k), *y = hlo_shape_leaf(to, k);
  if (!hlo_shape_is_array(x) || x->rank != y->rank || x->elements != y->elements ||
      x->dtype != y->dtype || cpu_same_bytes(x, y))
    return;
  relayout *r = hs_calloc(1, sizeof *r);
  *r = (relayout){x, y};
  cpu_step s = {.kind = CPU_STEP_RT,
                .instr = i,
                .pos = cpu_new_pos(l),
                .nin = 1,
                .nvals = 2,
                .pred = CPU_NONE,
                .scratch_slot = CPU_NONE,
                .kernel_index = CPU_NONE,
                .rt = {.kind = "relayout", .state = r, .run = run_relayout}};
  s.vals = HS_NEW_ARRAY(&l->p->arena, u32, 2);
  s.vals[0] = vals[k];
  cpu_use_value(l, vals[k], s.pos);
  vals[k] = s.vals[1] = cpu_new_value(l, CPU_TEMP, y, s.pos, k);
  hs_vec_push(&b->steps, s);
}

void cpu_adapt_leaves(cpu_lowering *l, const hlo_instr *i, cpu_block *b, u32 *vals,
                      const hlo_shape *from, const hlo_shape *to) {
  u32 n = from == to ? 0 : HS_MIN(hlo_shape_leaves(from), hlo_shape_leaves(to));
  for (u32 k = 0; k < n; k++) cpu_adapt_leaf(l, i, b, vals, k, from, to);
}

// The shape that the readers of each element have in common; NULL where somebody reads the whole.
static const hlo_shape *as_read(const hlo_instr *param) {
  const hlo_shape *s = param->shape;
  if (!hlo_shape_is_tuple(s) || hlo_is_root(param)) return NULL;
  const hlo_shape **elems = hs_calloc(s->nelems + 1, sizeof *elems);
  bool ok = true;
  hlo_for_each_use(u, param) {
    i64 k = hlo_attr_int(u->user, HLO_ATTR_INDEX, 0);
    ok &= u->user->opcode == HLO_GET_TUPLE_ELEMENT;
    if (!ok) break;
    elems[k] = !elems[k] || elems[k] == u->user->shape ? u->user->shape : s->elems[k];
  }
  for (u32 k = 0; k < s->nelems; k++)
    if (!elems[k] || elems[k]->logical != s->elems[k]->logical) elems[k] = s->elems[k];
  s = ok ? hlo_shape_tuple(param->parent->module->ctx, s->nelems, elems) : NULL;
  hs_free(elems);
  return s;
}

const hlo_shape *cpu_lay_out(cpu_lowering *l, const hlo_instr *param, const hlo_shape *want) {
  const hlo_shape *read = as_read(param);
  if (!read || (want && want->logical != param->shape->logical)) return param->shape;
  return l->laid[param->id] = want ? want : read;
}

u32 *cpu_copy_leaves(cpu_lowering *l, const u32 *vals, u32 n) {
  u32 *c = HS_NEW_ARRAY(&l->p->arena, u32, n + 1);
  memcpy(c, vals, n * sizeof *c);
  return c;
}

u32 *cpu_root_leaves(cpu_lowering *l, const hlo_instr *i, cpu_block *b, const hlo_computation *c,
                     const hlo_shape *shape) {
  u32 *r = cpu_copy_leaves(l, l->leaves[c->root->id], hlo_shape_leaves(c->root->shape));
  cpu_adapt_leaves(l, i, b, r, c->root->shape, shape);
  return r;
}

void cpu_alias_leaves(cpu_lowering *l, const hlo_instr *i, cpu_block *b, u32 *out, u32 n) {
  if (packs_operands(i)) {
    for (u32 k = 0, at = 0; k < i->noperands; k++) {
      const hlo_instr *o = hlo_operand(i, k);
      u32 m = hlo_shape_leaves(o->shape);
      memcpy(out + at, l->leaves[o->id], m * sizeof *out);
      cpu_adapt_leaves(l, i, b, out + at, o->shape, i->shape->elems[k]);
      at += m;
    }
    return;
  }
  const hlo_instr *o = hlo_operand(i, 0);
  const hlo_shape *laid = l->laid[o->id] ? l->laid[o->id] : o->shape;
  bool element = i->opcode == HLO_GET_TUPLE_ELEMENT;
  i64 index = element ? hlo_attr_int(i, HLO_ATTR_INDEX, 0) : 0;
  memcpy(out, l->leaves[o->id] + (element ? hlo_shape_leaf_offset(o->shape, index) : 0),
         n * sizeof *out);
  if (i->opcode == HLO_BITCAST || i->opcode == HLO_RESHAPE || i->opcode == HLO_COPY ||
      i->opcode == HLO_TRANSPOSE)
    return;
  cpu_adapt_leaves(l, i, b, out, element ? laid->elems[index] : laid, i->shape);
}

bool cpu_traces_to_parameter(const hlo_instr *i, u32 leaf, u32 *pleaf) {
  for (;;) {
    if (i->opcode == HLO_PARAMETER) {
      *pleaf = leaf;
      return true;
    }
    // the same bytes under another name of their places are another value
    if (!cpu_instr_is_alias(i) || i->opcode == HLO_TRANSPOSE) return false;
    if (packs_operands(i)) {
      u32 k = 0, m;
      while (leaf >= (m = hlo_shape_leaves(hlo_operand(i, k)->shape))) {
        leaf -= m;
        k++;
      }
      i = hlo_operand(i, k);
      continue;
    }
    if (i->opcode == HLO_GET_TUPLE_ELEMENT)
      leaf += hlo_shape_leaf_offset(hlo_operand(i, 0)->shape, hlo_attr_int(i, HLO_ATTR_INDEX, 0));
    i = hlo_operand(i, 0);
  }
}
