// prepare.c — brings a module into the form that plug-ins accept.
//
// PJRT passes flat lists of arrays. Tuples among the parameters and nested tuples in the result
// crash plug-ins, and tokens have no host value; so an entry that has any of them is called from a
// new one whose parameters are the leaves and whose result is a flat tuple. Schedules are dropped
// (XLA aborts on scheduled modules) unless the back end alone is to run. The entry's layouts are
// written out, shardings are collected, aliases are renumbered to leaves, and the devices of
// collectives are listed: newer versions of the proto have other fields for their short forms, and
// a plug-in that does not know such a field takes the collective for one over all devices.
#include "core/eval/world.h"
#include "backends/pjrt/pjrt.h"
#include "backends/pjrt/api.h"
#include "core/analysis/customcall.h"
#include "passes/run/rewrite.h"

// ---- checks -------------------------------------------------------------------------------------

static bool entry_is_flat(const hlo_module *m) {
  for (u32 k = 0; k < m->entry->nparams; k++)
    if (!hlo_shape_is_array(m->entry->params[k]->shape)) return false;
  const hlo_shape *r = m->entry->root->shape;
  if (!hlo_shape_is_tuple(r)) return hlo_shape_is_array(r);
  for (u32 k = 0; k < r->nelems; k++)
    if (!hlo_shape_is_array(r->elems[k])) return false;
  return true;
}

static hs_status check_leaves(const hlo_shape *s, const char *what, u32 k) {
  for (u32 j = 0, n = hlo_shape_leaves(s); j < n; j++) {
    const hlo_shape *l = hlo_shape_leaf(s, j);
    if (l->dtype == HLO_TOKEN) continue;
    if (hlo_shape_is_dynamic(l))
      return hs_fail(HS_E_UNSUPPORTED,
                     "%s %u has dynamic dimensions, which PJRT buffers cannot have", what, k);
    if (!pj_type((int)l->dtype))
      return hs_fail(HS_E_UNSUPPORTED, "%s %u has type %s, which PJRT has no number for", what, k,
                     hlo_dtype_text(l->dtype));
  }
  return HS_GOOD;
}

static const hlo_program_shape *entry_layout(const hlo_module *m) {
  const hlo_attr *a = hlo_attrs_find(m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  const hlo_program_shape *p = a ? a->v.p : NULL;
  if (!p || p->n != m->entry->nparams || !hlo_shape_compatible(p->result, m->entry->root->shape))
    return NULL;
  for (u32 k = 0; k < p->n; k++)
    if (!hlo_shape_compatible(p->params[k], m->entry->params[k]->shape)) return NULL;
  return p;
}

// ---- flattening ---------------------------------------------------------------------------------

typedef struct flattener {
  hlo_computation *c;
  hs_arena *a;
  HS_VEC(hlo_instr *) outs;
  u32 nparams;
} flattener;

// One parameter of the old entry, put together from new parameters.
static hlo_instr *gather(flattener *f, const hlo_shape *s) {
  if (s->dtype == HLO_TOKEN) return hlo_add(f->c, HLO_AFTER_ALL, s, 0, NULL, "token");
  if (!hlo_shape_is_tuple(s)) return hlo_add_parameter(f->c, f->nparams++, s, "leaf");
  hlo_instr **kids = HS_NEW_ARRAY(f->a, hlo_instr *, s->nelems + 1);
  for (u32 k = 0; k < s->nelems; k++) kids[k] = gather(f, s->elems[k]);
  return hlo_add_tuple(f->c, s->nelems, kids);
}

static void scatter(flattener *f, hlo_instr *v) {
  if (v->shape->dtype == HLO_TOKEN) return;
  if (!hlo_shape_is_tuple(v->shape)) {
    hs_vec_push(&f->outs, v);
    return;
  }
  for (u32 k = 0; k < v->shape->nelems; k++) scatter(f, hlo_add_gte(v, k));
}

static void flatten(hlo_module *m, hs_arena *a) {
  hlo_computation *old = m->entry;
  flattener f = {.c = hlo_add_computation(m, "flat_entry"), .a = a};
  hlo_instr **args = HS_NEW_ARRAY(a, hlo_instr *, old->nparams + 1);
  for (u32 k = 0; k < old->nparams; k++) args[k] = gather(&f, old->params[k]->shape);
  hlo_instr *call =
      hlo_add_call(f.c, HLO_CALL, old->root->shape, HLO_ATTR_TO_APPLY, old, old->nparams, args);
  scatter(&f, call);
  hlo_set_root(f.c, hlo_add_tuple(f.c, (u32)f.outs.n, f.outs.v));
  hlo_set_entry(m, f.c);
  hs_vec_free(&f.outs);
}

// ---- aliases ------------------------------------------------------------------------------------

// Number of the leaf at `index` below `s`, tokens not counted; the index must lead to an array.
static i64 leaf_number(const hlo_shape *s, hlo_ints index) {
  i64 n = 0;
  for (u32 d = 0; d < index.n; d++) {
    if (!hlo_shape_is_tuple(s) || index.v[d] < 0 || index.v[d] >= s->nelems) return -1;
    for (i64 k = 0; k < index.v[d]; k++)
      for (u32 j = 0, leaves = hlo_shape_leaves(s->elems[k]); j < leaves; j++)
        n += hlo_shape_leaf(s->elems[k], j)->dtype != HLO_TOKEN;
    s = s->elems[index.v[d]];
  }
  return hlo_shape_is_array(s) ? n : -1;
}

static i64 first_leaf(const hlo_program_shape *p, i64 param) {
  i64 n = 0;
  for (i64 k = 0; k < param; k++)
    for (u32 j = 0, leaves = hlo_shape_leaves(p->params[k]); j < leaves; j++)
      n += hlo_shape_leaf(p->params[k], j)->dtype != HLO_TOKEN;
  return n;
}

// Marks donated leaves; when the entry was flattened, the entries are rewritten to leaf numbers.
static void map_aliases(pjrt_ready *r, const hlo_program_shape *old, hlo_attr_id id,
                        bool flattened) {
  const hlo_attr *attr = hlo_attrs_find(r->m->attrs, id);
  const hlo_aliases *from = attr ? attr->v.p : NULL;
  if (!from) return;
  hlo_alias_entry *v = HS_NEW_ARRAY(&r->m->arena, hlo_alias_entry, from->n + 1);
  u32 n = 0;
  for (u32 k = 0; k < from->n; k++) {
    hlo_alias_entry e = from->v[k];
    if (e.param < 0 || e.param >= old->n) continue;
    i64 below = leaf_number(old->params[e.param], e.param_index),
        arg = first_leaf(old, e.param) + below, out = leaf_number(old->result, e.out_index);
    if (below < 0 || arg >= r->nargs) continue;
    r->donated[arg] = true;
    if (flattened) {
      e.param = arg;
      e.param_index = (hlo_ints){0};
      i64 *index = hs_arena_dup(&r->m->arena, &out, sizeof out);
      if (id == HLO_ATTR_INPUT_OUTPUT_ALIAS) {
        if (out < 0) continue;
        e.out_index = (hlo_ints){1, index};
      }
    }
    v[n++] = e;
  }
  if (!flattened) return;
  hlo_aliases *to = HS_NEW(&r->m->arena, hlo_aliases);
  *to = (hlo_aliases){n, v};
  hlo_set_module_attr(r->m, (hlo_attr){.id = id, .v.p = to});
}

// ---- layouts, shardings, collectives ------------------------------------------------------------

static u32 leaves_of(hlo_ctx *ctx, const hlo_shape *s, const hlo_shape **out, u32 n) {
  for (u32 k = 0, m = hlo_shape_leaves(s); k < m; k++) {
    const hlo_shape *l = hlo_shape_leaf(s, k);
    if (l->dtype == HLO_TOKEN) continue;
    if (out) out[n] = hlo_shape_fill_layout(ctx, l);
    n++;
  }
  return n;
}

static void collect_leaves(pjrt_ready *r, const hlo_program_shape *p) {
  for (u32 k = 0; k < p->n; k++) r->nargs = leaves_of(r->m->ctx, p->params[k], NULL, r->nargs);
  r->nouts = leaves_of(r->m->ctx, p->result, NULL, 0);
  r->arg = HS_NEW_ARRAY(&r->arena, const hlo_shape *, r->nargs + 1);
  r->out = HS_NEW_ARRAY(&r->arena, const hlo_shape *, r->nouts + 1);
  u32 n = 0;
  for (u32 k = 0; k < p->n; k++) n = leaves_of(r->m->ctx, p->params[k], r->arg, n);
  leaves_of(r->m->ctx, p->result, r->out, 0);
  r->donated = HS_NEW_ARRAY(&r->arena, bool, r->nargs + 1);
  r->arg_sharding = HS_NEW_ARRAY(&r->arena, const hlo_sharding *, r->nargs + 1);
  r->out_sharding = HS_NEW_ARRAY(&r->arena, const hlo_sharding *, r->nouts + 1);
}

static void collect_shardings(pjrt_ready *r) {
  const hlo_computation *e = r->m->entry;
  for (u32 k = 0; k < r->nargs; k++)
    r->arg_sharding[k] = hlo_attr_ptr(e->params[k], HLO_ATTR_SHARDING);
  const hlo_sharding *s = hlo_attr_ptr(e->root, HLO_ATTR_SHARDING);
  for (u32 k = 0; k < r->nouts; k++)
    r->out_sharding[k] = !s                        ? NULL
                         : s->type != HLO_SH_TUPLE ? s
                         : k < s->nchildren        ? s->children[k]
                                                   : NULL;
}

static void state_layout(pjrt_ready *r, bool tuple) {
  hlo_program_shape *p = HS_NEW(&r->m->arena, hlo_program_shape);
  p->n = r->nargs;
  p->params = hs_arena_dup(&r->m->arena, r->arg, sizeof *r->arg * (r->nargs + 1u));
  p->result = tuple ? hlo_shape_tuple(r->m->ctx, r->nouts, r->out) : r->out[0];
  hlo_set_module_attr(r->m, (hlo_attr){.id = HLO_ATTR_ENTRY_COMPUTATION_LAYOUT, .v.p = p});
}

// "{mesh = #sdy.mesh<[...]>, ...}" where Shardy partitions the module, else NULL.
static const hs_str *shardy_meshes(const hlo_module *m) {
  return hlo_frontend_find(hlo_attrs_find(m->attrs, HLO_ATTR_FRONTEND_ATTRIBUTES),
                           "xla.sdy.meshes");
}

// Sharding propagation may choose tiles for a parameter that has no sharding, and the caller, who
// has whole arrays, would not know: it is stated that each device gets the array.
static void pin_parameters(hlo_module *m, const hs_str *meshes) {
  static const hlo_sharding whole = {.type = HLO_SH_REPLICATED};
  size_t name = 0, end;
  while (meshes && name < meshes->n && strchr("{ ", meshes->p[name])) name++;
  for (end = name; meshes && end < meshes->n && !strchr("= ", meshes->p[end]);) end++;
  for (u32 k = 0; k < m->entry->nparams; k++) {
    hlo_instr *p = m->entry->params[k];
    if (hlo_attr_get(p, HLO_ATTR_SHARDING) || hlo_attr_get(p, HLO_ATTR_FRONTEND_ATTRIBUTES))
      continue;
    hlo_set_attr_ptr(p, HLO_ATTR_SHARDING, &whole);
    if (!meshes) continue;
    hs_buf b = {0};
    hs_buf_printf(&b, "#sdy.sharding<@%.*s, [", (int)(end - name), meshes->p + name);
    for (u32 d = 0; d < p->shape->rank; d++) hs_buf_puts(&b, d ? ", {}" : "{}");
    hs_buf_puts(&b, "]>");
    hlo_frontend_entry *e = HS_NEW(&m->arena, hlo_frontend_entry);
    *e = (hlo_frontend_entry){HS_STR("xla.sdy.sharding"),
                              {hs_arena_strndup(&m->arena, b.p, b.n), b.n}};
    hlo_frontend *f = HS_NEW(&m->arena, hlo_frontend);
    *f = (hlo_frontend){1, e};
    hlo_set_attr_ptr(p, HLO_ATTR_FRONTEND_ATTRIBUTES, f);
    hs_buf_free(&b);
  }
}

// Text that JAX printed as HLO names the meshes, but does not say num_partitions.
static hs_status count_devices(pjrt_ready *r) {
  u32 replicas, partitions;
  bool transfers;
  r->replicas = (u32)HS_MAX(hlo_module_int(r->m, HLO_ATTR_REPLICA_COUNT, 1), 1);
  r->partitions = (u32)HS_MAX(hlo_module_int(r->m, HLO_ATTR_NUM_PARTITIONS, 1), 1);
  if (!r->shardy || r->partitions > 1) return HS_GOOD;
  HS_TRY(hlo_eval_devices(r->m, NULL, &replicas, &partitions, &transfers));
  r->partitions = partitions;
  hlo_set_module_attr(r->m, (hlo_attr){.id = HLO_ATTR_NUM_PARTITIONS, .v.i = partitions});
  return HS_GOOD;
}

// XLA:CPU's code generator knows loop fusions, not input fusions; a fusion's kind is a hint without
// meaning for its value.
static void plain_fusions(hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (i->opcode == HLO_FUSION &&
          hlo_attr_int(i, HLO_ATTR_KIND, HLO_FUSION_KIND_LOOP) == HLO_FUSION_KIND_INPUT)
        hlo_set_attr_int(i, HLO_ATTR_KIND, HLO_FUSION_KIND_LOOP);
}

// XLA's partitioner and other passes in front of its layout assignment take layouts from what they
// rewrite, to be assigned again, which does not happen inside fusions; so fusions are inlined in
// modules that go through these passes, and XLA makes its own.
static void dissolve_fusions(pjrt_ready *r) {
  hlo_module *m = r->m;
  bool again = true;
  while (again) {
    again = false;
    hlo_for_each_comp(c, m)
      hlo_for_each_instr_safe(i, c) {
        if (i->opcode != HLO_FUSION) continue;
        hlo_instr **args = HS_NEW_ARRAY(&r->arena, hlo_instr *, i->noperands + 1);
        for (u32 k = 0; k < i->noperands; k++) args[k] = hlo_operand(i, k);
        pass_inline_call(i, hlo_fusion_comp(i), args, &r->arena);
        again = true;
      }
  }
  for (again = true; again;) {
    hlo_call_list calls = hlo_find_calls(m, &r->arena);
    u32 *counts = hlo_count_callers(m, &calls, &r->arena);
    again = false;
    for (hlo_computation *c = m->first, *next; c; c = next) {
      next = c->next;
      if (c == m->entry || counts[1 + c->id]) continue;
      hlo_remove_computation(c);
      again = true;
    }
  }
}

static void list_groups(hlo_instr *i, const hlo_replica_groups *g) {
  if (!g || g->form != HLO_GROUPS_IOTA || g->dims.n != 2) return;
  hlo_module *m = i->parent->module;
  enum { MOST_DEVICES = 1 << 20 };
  i64 n = g->dims.v[0], size = g->dims.v[1], all;
  if (!hs_mul_ok(n, size, &all) || all < 0 || all > MOST_DEVICES || n > MOST_DEVICES) return;
  i64 *device = HS_NEW_ARRAY(&m->arena, i64, all + 1);
  hlo_ints *list = HS_NEW_ARRAY(&m->arena, hlo_ints, n + 1);
  hlo_replica_groups *out = HS_NEW(&m->arena, hlo_replica_groups);
  if (!ev_iota_devices(g->reshape, g->perm, n * size, device)) return;
  for (i64 k = 0; k < n; k++) list[k] = (hlo_ints){(u32)size, device + k * size};
  out->groups = (hlo_int_lists){(u32)n, list};
  hlo_set_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS, out);
}

// Calls of JAX's own libraries in their older form are asked for through the typed interface, the
// only one for which handlers can be registered with a plug-in (serve_calls.c).
static void type_calls(hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      if (hlo_custom_is_of_jaxlib(i) && !hlo_attr_ptr(i, HLO_ATTR_BACKEND_CONFIG))
        hlo_set_attr_int(i, HLO_ATTR_API_VERSION, HLO_API_VERSION_TYPED_FFI);
    }
}

// Passes leave out layouts where nothing depends on them; XLA's abort where one is missing.
static void fill_layouts(hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      const hlo_shape *s = hlo_shape_fill_layout(m->ctx, i->shape);
      if (s != i->shape) hlo_set_shape(i, s);
    }
}

hs_status pjrt_prepare(const hlo_module *from, bool backend_only, bool dissolve, pjrt_ready *r) {
  *r = (pjrt_ready){0};
  if (!from->entry || !from->entry->root)
    return hs_fail(HS_E_VERIFY, "the module has no entry computation");
  for (u32 k = 0; k < from->entry->nparams; k++)
    HS_TRY(check_leaves(from->entry->params[k]->shape, "parameter", k));
  HS_TRY(check_leaves(from->entry->root->shape, "the result's output", 0));
  hlo_module *m = r->m = hlo_module_clone(from, from->name);
  hlo_journal_disable(m);
  const hs_str *meshes = shardy_meshes(m);
  r->shardy = meshes != NULL;
  HS_TRY(count_devices(r));
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (hlo_op_has(i->opcode, HLO_F_COLLECTIVE))
        list_groups(i, hlo_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS));
  type_calls(m);
  fill_layouts(m);
  if (!backend_only && (dissolve || r->partitions > 1)) dissolve_fusions(r);
  plain_fusions(m);
  if (!backend_only) hlo_remove_module_attr(m, HLO_ATTR_IS_SCHEDULED);
  const hlo_program_shape *stated = entry_layout(m);
  hlo_program_shape own = {.n = m->entry->nparams,
                           .result = stated ? stated->result : m->entry->root->shape};
  const hlo_shape **params = HS_NEW_ARRAY(&r->arena, const hlo_shape *, own.n + 1);
  for (u32 k = 0; k < own.n; k++)
    params[k] = stated ? stated->params[k] : m->entry->params[k]->shape;
  own.params = params;
  bool flat = entry_is_flat(m), tuple = !flat || hlo_shape_is_tuple(m->entry->root->shape);
  collect_leaves(r, &own);
  map_aliases(r, &own, HLO_ATTR_INPUT_OUTPUT_ALIAS, !flat);
  map_aliases(r, &own, HLO_ATTR_BUFFER_DONOR, !flat);
  if (!flat) flatten(m, &r->arena);
  if (flat && r->partitions > 1 && !backend_only) pin_parameters(m, meshes);
  if (flat) collect_shardings(r);
  state_layout(r, tuple);
  return HS_GOOD;
}

void pjrt_ready_free(pjrt_ready *r) {
  hlo_module_free(r->m);
  hs_arena_free(&r->arena);
  *r = (pjrt_ready){0};
}
