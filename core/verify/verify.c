// verify.c — the verifier: is this module valid HLO?
//
// Follows XLA's HloVerifier (xla/service/hlo_verifier.cc). Here: collecting violations, the
// structure of computations (links, use lists, parameters, root, cycles, calls, schedules) and of
// the module (entry layout, aliasing, donors, recursion). shapes.c has the rules per
// instruction, collectives.c replica groups, channels and shardings, async.c split
// operations and buffers.
//
// The internal invariants of ir.h are checked as well: a broken use list is reported, not followed.
#include "core/verify/rules.h"

#include <stdio.h>

// ---- violations ---------------------------------------------------------------------------------
void verify_report(verifier *v, const hlo_instr *at, const char *fmt, ...) {
  if (v->nerrors++ >= VERIFY_MAX_ERRORS) return;
  va_list ap;
  va_start(ap, fmt);
  hs_buf b = {0};
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  hs_status s =
      at ? hs_fail_subject(HS_E_VERIFY, at->name, "%s %s in %s: %s", hlo_op_text(at->opcode),
                           at->name, at->parent ? at->parent->name : "?", hs_buf_cstr(&b))
         : hs_fail(HS_E_VERIFY, "%s", hs_buf_cstr(&b));
  hs_buf_free(&b);
  v->errors = hs_chain(v->errors, s);
}

// ---- helpers ------------------------------------------------------------------------------------
const char *verify_shape_text(const verifier *v, const hlo_shape *s) {
  static _Thread_local char ring[4][512];
  static _Thread_local unsigned next;
  if (!v->o.layout_sensitive) return infer_text(s);
  char *slot = ring[next++ % 4];
  hs_buf b = {0};
  hlo_shape_print(&b, s, true);
  snprintf(slot, sizeof ring[0], b.n < sizeof ring[0] ? "%s" : "%.500s...", hs_buf_cstr(&b));
  hs_buf_free(&b);
  return slot;
}

static bool same_layout(const hlo_shape *a, const hlo_shape *b) {
  if (a == b) return true;
  if (a->nelems != b->nelems) return false;
  for (u32 i = 0; i < a->nelems; i++)
    if (!same_layout(a->elems[i], b->elems[i])) return false;
  return a->layout == b->layout || !a->layout || !b->layout || a->rank < 1;
}
bool verify_same(const verifier *v, const hlo_shape *a, const hlo_shape *b) {
  return infer_compatible(a, b, 0) && (!v->o.layout_sensitive || same_layout(a, b));
}
static const char *index_text(hlo_ints index) {
  static _Thread_local char ring[2][160];
  static _Thread_local unsigned next;
  char *slot = ring[next++ % 2];
  snprintf(slot, sizeof ring[0], "{%.150s}", infer_ints_text(index.n, index.v));
  return slot;
}
bool verify_tracked_thread_equal(hs_str a, hs_str b) {
  if (a.n == 0) a = HS_STR("main");
  if (b.n == 0) b = HS_STR("main");
  return hs_str_eq(a, b);
}

// ---- one computation ----------------------------------------------------------------------------
// Links of the instruction list, operand slots and use lists. False: too broken to look further.
static bool check_links(verifier *v, const hlo_computation *c) {
  u32 n = 0;
  const hlo_instr *prev = NULL;
  hlo_for_each_instr(i, c) {
    if (i->prev != prev || i->parent != c || i->dead || i->id >= v->m->next_instr_id) {
      verify_report(v, NULL, "computation %s: the instruction list is broken at %s", c->name,
                    i->name ? i->name : "?");
      return false;
    }
    if (++n > c->ninstrs) break;
    prev = i;
  }
  if (n != c->ninstrs || c->last != prev) {
    verify_report(v, NULL, "computation %s: the instruction list holds %u instructions, not %u",
                  c->name, n, c->ninstrs);
    return false;
  }
  bool ok = true;
  hlo_for_each_instr(i, c) {
    for (u32 k = 0; k < i->noperands; k++) {
      const hlo_use *u = &i->operands[k];
      if (!u->def || u->def->dead || u->def->parent != c) {
        verify_report(v, i, "Operand %u (%s) is in a different computation, or was removed", k,
                      u->def ? u->def->name : "none");
        ok = false;
      } else if (u->user != i || (u->prev ? u->prev->next : u->def->first_use) != u ||
                 (u->next ? u->next->prev : u->def->last_use) != u) {
        verify_report(v, i, "the use list of operand %u (%s) is broken", k, u->def->name);
        ok = false;
      }
    }
    u32 uses = 0;
    for (const hlo_use *u = i->first_use; u && uses <= i->nuses; u = u->next) {
      uses++;
      if (u->def != i || u->user->dead || u->user->parent != c) {
        verify_report(v, i,
                      "User of instruction %s is in a different computation, or was removed: %s",
                      i->name, u->user->name);
        ok = false;
        break;
      }
    }
    if (uses != i->nuses)
      verify_report(v, i, "the use list holds %u uses, not %u", uses, i->nuses), ok = false;
    for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++)
      if (!i->ctrl_preds->v[k] || i->ctrl_preds->v[k]->dead || i->ctrl_preds->v[k]->parent != c)
        verify_report(v, i, "control predecessor %s is in a different computation, or was removed",
                      i->ctrl_preds->v[k] ? i->ctrl_preds->v[k]->name : "none"),
            ok = false;
  }
  return ok;
}

static void check_params(verifier *v, const hlo_computation *c) {
  u32 seen = 0;
  hlo_for_each_instr(i, c) {
    if (i->opcode != HLO_PARAMETER) continue;
    i64 k = hlo_param_number(i);
    if (k < 0 || k >= c->nparams)
      verify_report(v, i,
                    "parameter number %lld is out of range; the computation has %u parameters",
                    (long long)k, c->nparams);
    else if (c->params[k] != i)
      verify_report(v, i, "parameter number %lld is taken by %s too", (long long)k,
                    c->params[k] ? c->params[k]->name : "nothing");
    seen++;
  }
  if (seen != c->nparams)
    verify_report(v, NULL, "computation %s has %u parameter instructions but %u parameters",
                  c->name, seen, c->nparams);
}

// The first thing that `i` depends on and that does not stand before it in the order held by
// v->pos; NULL when none.
static const hlo_instr *late_dependency(const verifier *v, const hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++)
    if (v->pos[hlo_operand(i, k)->id] >= v->pos[i->id]) return hlo_operand(i, k);
  for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++)
    if (v->pos[i->ctrl_preds->v[k]->id] >= v->pos[i->id]) return i->ctrl_preds->v[k];
  return NULL;
}
// Cycles, and the schedule. List order that puts dependencies first proves that there is no cycle;
// a scheduled module must have it, in any other one a post-order decides.
static void check_order(verifier *v, const hlo_computation *c) {
  bool scheduled = hlo_is_scheduled(v->m) && !v->fused[c->id], ordered = true;
  u32 n = 0;
  hlo_for_each_instr(i, c) v->pos[i->id] = n++;
  hlo_for_each_instr(i, c) {
    const hlo_instr *before = late_dependency(v, i);
    if (!before) continue;
    ordered = false;
    if (!scheduled || verify_full(v)) break;
    verify_report(v, i, "the schedule places it before %s, which it depends on", before->name);
  }
  if (ordered) return;
  hs_arena a = {0};
  hlo_instr **order = hlo_post_order(c, &a);
  for (u32 k = 0; k < n; k++) v->pos[order[k]->id] = k;
  for (u32 k = 0; k < n && !verify_full(v); k++) {
    const hlo_instr *before = late_dependency(v, order[k]);
    if (before)
      verify_report(v, order[k],
                    "A cycle is detected while visiting instruction %s, which depends on %s",
                    order[k]->name, before->name);
  }
  hs_arena_free(&a);
}

static void check_calls(verifier *v, const hlo_instr *i) {
  for (u32 k = 0; k < hlo_ncalled(i); k++) {
    const hlo_computation *c = hlo_called(i, k);
    if (!c || c->dead || c->module != v->m)
      verify_report(v, i, "calls a computation that is not in the module (%s)",
                    c ? c->name : "none");
    else if (c == v->m->entry) verify_report(v, i, "calls the entry computation %s", c->name);
    else if (!c->root) verify_report(v, i, "calls %s, which has no root", c->name);
  }
}

bool verify_callable(const hlo_module *m, const hlo_computation *c) {
  if (!c || c->dead || c->module != m || !c->root) return false;
  for (u32 p = 0; p < c->nparams; p++)
    if (!c->params[p]) return false;
  return true;
}
static bool calls_ok(const verifier *v, const hlo_instr *i) {
  for (u32 k = 0; k < hlo_ncalled(i); k++)
    if (!verify_callable(v->m, hlo_called(i, k))) return false;
  return true;
}

static void check_computation(verifier *v, const hlo_computation *c) {
  if (c->dead) return;
  if (!c->root || c->root->dead || c->root->parent != c) {
    verify_report(v, NULL, "computation %s has no root instruction", c->name);
    return;
  }
  if (!check_links(v, c)) return;
  check_params(v, c);
  u32 before = v->nerrors;
  check_order(v, c);
  if (v->o.no_deadlocks && hlo_is_scheduled(v->m)) verify_deadlocks(v, c);
  hlo_for_each_instr(i, c) {
    if (verify_full(v) || hs_interrupted()) return;
    check_calls(v, i);
    if (calls_ok(v, i)) verify_instr(v, i);
  }
  if (v->has_buffers && v->nerrors == before) verify_buffers(v, c);
}

// ---- the module ---------------------------------------------------------------------------------
static const hlo_attr *module_attr(const hlo_module *m, hlo_attr_id id) {
  return hlo_attrs_find(m->attrs, id);
}

static void check_entry(verifier *v) {
  const hlo_computation *e = v->m->entry;
  NEED(v, NULL, e && !e->dead && e->root, "the module has no entry computation");
  const hlo_attr *at = module_attr(v->m, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  if (!at) return;
  const hlo_program_shape *p = at->v.p;
  NEED(v, NULL, p->n == e->nparams,
       "Number of parameters in entry computation layout (%u) must be the same as in the entry "
       "computation (%u)",
       p->n, e->nparams);
  for (u32 i = 0; i < p->n; i++)
    NEED(v, e->params[i], verify_same(v, p->params[i], e->params[i]->shape),
         "Shape of the entry computation parameter %u is %s; should be compatible to the one "
         "specified in module's entry "
         "computation layout %s",
         i, verify_shape_text(v, e->params[i]->shape), verify_shape_text(v, p->params[i]));
  NEED(v, e->root, !p->result || verify_same(v, p->result, e->root->shape),
       "Shape of the root instruction of entry computation (%s) should be compatible to one "
       "specified in module's entry "
       "computation layout (%s)",
       verify_shape_text(v, e->root->shape), p->result ? verify_shape_text(v, p->result) : "");
}

// input_output_alias and buffer_donor: indices lead somewhere, nothing is given away twice, sizes
// agree.
static void check_alias(verifier *v, hlo_attr_id id) {
  const hlo_attr *at = module_attr(v->m, id);
  const hlo_computation *e = v->m->entry;
  const hlo_aliases *l = at ? at->v.p : NULL;
  bool io = id == HLO_ATTR_INPUT_OUTPUT_ALIAS;
  if (!e || !e->root) return;
  for (u32 k = 0; l && k < l->n; k++) {
    const hlo_alias_entry *a = &l->v[k];
    const hlo_shape *out = io ? hlo_shape_at(e->root->shape, a->out_index, NULL) : NULL;
    NEED(v, NULL, a->param >= 0 && a->param < e->nparams,
         "%s names parameter %lld; the entry computation has %u", hlo_attr_text(id),
         (long long)a->param, e->nparams);
    const hlo_shape *in = hlo_shape_at(e->params[a->param]->shape, a->param_index, NULL);
    NEED(v, NULL, in, "%s: parameter %lld has no element %s", hlo_attr_text(id),
         (long long)a->param, index_text(a->param_index));
    NEED(v, NULL, !io || out, "%s: the result has no element %s", hlo_attr_text(id),
         index_text(a->out_index));
    NEED(v, NULL,
         !io || (!hlo_shape_is_tuple(in) && !hlo_shape_is_tuple(out)) ||
             in->logical == out->logical,
         "%s: %s is aliased with %s", hlo_attr_text(id), infer_text(in), infer_text(out));
    NEED(v, NULL,
         !io || !a->must || !hlo_shape_is_array(in) || !hlo_shape_is_array(out) ||
             hlo_shape_is_dynamic(in) || hlo_shape_is_dynamic(out) ||
             hlo_shape_bytes(in->logical) == hlo_shape_bytes(out->logical),
         "%s: parameter %lld, %s, and result %s, %s, differ in size", hlo_attr_text(id),
         (long long)a->param, infer_text(in), index_text(a->out_index), infer_text(out));
    for (u32 j = 0; j < k; j++) {
      const hlo_alias_entry *b = &l->v[j];
      bool same_in = a->param == b->param && a->param_index.n == b->param_index.n &&
                     (!a->param_index.n ||
                      !memcmp(a->param_index.v, b->param_index.v, a->param_index.n * sizeof(i64)));
      bool same_out = io && a->out_index.n == b->out_index.n &&
                      (!a->out_index.n ||
                       !memcmp(a->out_index.v, b->out_index.v, a->out_index.n * sizeof(i64)));
      NEED(v, NULL, !same_in, "%s: parameter %lld at %s is aliased twice", hlo_attr_text(id),
           (long long)a->param, index_text(a->param_index));
      NEED(v, NULL, !same_out, "%s: the result at %s is aliased twice", hlo_attr_text(id),
           index_text(a->out_index));
    }
  }
}

// No computation may reach itself through calls (HLO has no recursion): depth-first over the calls,
// three colours.
typedef struct call_frame {
  const hlo_computation *c;
  const hlo_instr *at;
} call_frame;
typedef HS_VEC(call_frame) call_stack;
enum { CALL_NEW, CALL_OPEN, CALL_DONE };

// Opens what an instruction calls; returns a computation that is still open (a cycle), or NULL.
static const hlo_computation *open_called(call_stack *stack, u8 *state, const hlo_instr *i) {
  for (u32 k = 0; k < hlo_ncalled(i); k++) {
    const hlo_computation *c = hlo_called(i, k);
    if (state[c->id] == CALL_OPEN) return c;
    // One at a time: the frame below comes back to this instruction until all of its callees are
    // done.
    if (state[c->id] == CALL_NEW) {
      state[c->id] = CALL_OPEN;
      hs_vec_push(stack, ((call_frame){c, c->first}));
      break;
    }
  }
  return NULL;
}

static void check_recursion(verifier *v) {
  u8 *state = hs_calloc(v->m->next_comp_id + 1, 1);
  call_stack stack = {0};
  hlo_for_each_comp(top, v->m) {
    if (state[top->id] != CALL_NEW) continue;
    state[top->id] = CALL_OPEN;
    hs_vec_push(&stack, ((call_frame){top, top->first}));
    while (stack.n) {
      size_t depth = stack.n;
      const hlo_instr *i = stack.v[depth - 1].at;
      if (!i) {
        state[hs_vec_pop(&stack).c->id] = CALL_DONE;
        continue;
      }
      const hlo_computation *cycle =
          hlo_op_has(i->opcode, HLO_F_CALLS) ? open_called(&stack, state, i) : NULL;
      if (cycle) {
        verify_report(v, i, "computation %s calls itself through %s; HLO has no recursion",
                      cycle->name, i->parent->name);
        goto done;
      }
      if (stack.n == depth) stack.v[depth - 1].at = i->next;
    }
  }
done:
  hs_vec_free(&stack);
  hs_free(state);
}

static bool shape_has_buffer(const hlo_shape *s) {
  if (s->dtype == HLO_BUFFER) return true;
  for (u32 i = 0; hlo_shape_is_tuple(s) && i < s->nelems; i++)
    if (shape_has_buffer(s->elems[i])) return true;
  return false;
}

static void check_module_links(verifier *v) {
  u32 n = 0;
  const hlo_computation *prev = NULL;
  bool entry = false;
  hlo_for_each_comp(c, v->m) {
    NEED(v, NULL,
         c->prev == prev && c->module == v->m && !c->dead && c->id < v->m->next_comp_id &&
             n <= v->m->ncomputations,
         "the list of computations is broken at %s", c->name);
    prev = c, n++, entry |= c == v->m->entry;
  }
  NEED(v, NULL, n == v->m->ncomputations && v->m->last == prev,
       "the module's list holds %u computations, not %u", n, v->m->ncomputations);
  NEED(v, NULL, entry, "the module has no entry computation");
}

static void check_constrained_all_reduces(verifier *v) {
  bool with = false, without = false;
  hlo_for_each_comp(c, v->m)
    hlo_for_each_instr(i, c) {
      if (i->opcode != HLO_ALL_REDUCE) continue;
      if (hlo_attr_int(i, HLO_ATTR_CONSTRAIN_LAYOUT, 0)) with = true;
      else without = true;
    }
  NEED(v, NULL, !with || !without,
       "HloModule has a mix of layout constrained and unconstrained AllReduce instructions.");
}

static void begin(verifier *v, const hlo_module *m, const hlo_verify_options *o) {
  *v = (verifier){.m = m, .o = o ? *o : (hlo_verify_options){0}};
  v->pos = hs_alloc((size_t)m->next_instr_id * sizeof *v->pos + 1);
  v->fused = hs_calloc(m->next_comp_id + 1, sizeof *v->fused);
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      if (i->opcode == HLO_FUSION) {
        const hlo_computation *body = hlo_attr_comp(i, HLO_ATTR_CALLS);
        if (body && body->id < m->next_comp_id) v->fused[body->id] = true;
      } else if ((i->opcode == HLO_CUSTOM_CALL || i->opcode == HLO_PARAMETER) && !v->has_buffers) {
        v->has_buffers = shape_has_buffer(i->shape);
      }
    }
}
static hs_status finish(verifier *v) {
  hs_free(v->pos);
  hs_free(v->fused);
  if (hs_interrupted()) {
    hs_status_drop(v->errors);
    return hs_stopped();
  }
  if (v->nerrors > VERIFY_MAX_ERRORS)
    v->errors =
        hs_with_note(v->errors, "%u more violations are not shown", v->nerrors - VERIFY_MAX_ERRORS);
  return v->errors;
}

hs_status hlo_verify(const hlo_module *m, const hlo_verify_options *o) {
  verifier v;
  begin(&v, m, o);
  check_module_links(&v);
  if (!v.nerrors) {
    hlo_for_each_comp(c, m) check_computation(&v, c);
    check_entry(&v);
    check_alias(&v, HLO_ATTR_INPUT_OUTPUT_ALIAS);
    check_alias(&v, HLO_ATTR_BUFFER_DONOR);
    if (!v.nerrors) check_recursion(&v);
    if (!v.nerrors) verify_channels(&v);
    if (!v.nerrors) check_constrained_all_reduces(&v);
  }
  return finish(&v);
}

hs_status hlo_verify_computations(const hlo_module *m, u32 n, const hlo_computation *const *list,
                                  const hlo_verify_options *o) {
  if (!n) return HS_GOOD;
  verifier v;
  begin(&v, m, o);
  for (u32 k = 0; k < n; k++) {
    check_computation(&v, list[k]);
    if (list[k] == m->entry) check_entry(&v);
  }
  return finish(&v);
}

hs_status hlo_verify_computation(const hlo_computation *c, const hlo_verify_options *o) {
  return hlo_verify_computations(c->module, 1, &c, o);
}
