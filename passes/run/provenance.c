// provenance.c — provenance of values that rewrites remove, move or regroup: the attribute
// `origin`, and the module's origin_recovery_table.
//
// The table says how to compute an array of the original program that no instruction computes any
// more from one that an instruction still computes. It follows XLA's table of the same name
// (xla/hlo/ir/hlo_module.cc): an array has at most one entry, and an instruction without a
// counterpart in the original program gets a placeholder, NAME__ovpN, as its name in the table. The
// other functions compute the origins of tuples that lose or gain elements, and of instructions
// copied out of a call or a loop.
#include "core/text/text.h"
#include "passes/run/rewrite.h"

#include <stdlib.h>

#define PLACEHOLDER "__ovp"

static const hlo_origin_node *array_of(const hlo_instr *i) {
  const hlo_origin *o = hlo_attr_ptr(i, HLO_ATTR_ORIGIN);
  return o && !o->synthetic && !o->root->tuple && o->root->present ? o->root : NULL;
}

// A placeholder for `name`; the next one when it is a placeholder itself.
static hs_str placeholder(hs_arena *a, hs_str name) {
  hs_buf b = {0};
  hs_buf_put(&b, name.p, name.n);
  char *mark = strstr(hs_buf_cstr(&b), PLACEHOLDER);
  u64 n = mark ? strtoull(mark + strlen(PLACEHOLDER), NULL, 10) + 1 : 0;
  if (mark) b.n = (size_t)(mark - b.p);
  hs_buf_printf(&b, PLACEHOLDER "%llu", (unsigned long long)n);
  hs_str s = {hs_arena_strndup(a, b.p, b.n), b.n};
  hs_buf_free(&b);
  return s;
}

static void put_array(hs_buf *b, const hlo_origin_node *n) {
  hs_buf_printf(b, "{\"%.*s\"", (int)n->name.n, n->name.n ? n->name.p : "");
  for (u32 k = 0; k < n->index.n; k++)
    hs_buf_printf(b, "%s%lld", k ? "," : " {", (long long)n->index.v[k]);
  hs_buf_puts(b, n->index.n ? "}}" : "}");
}

static bool has_entry(hs_str table, const hlo_origin_node *n) {
  hs_buf text = {0}, key = {0};
  hs_buf_put(&text, table.p, table.n);
  put_array(&key, n);
  hs_buf_puts(&key, " :");
  bool found = strstr(hs_buf_cstr(&text), hs_buf_cstr(&key)) != NULL;
  hs_buf_free(&text);
  hs_buf_free(&key);
  return found;
}

void pass_recover_reshape(hlo_instr *reshape) {
  hlo_module *m = reshape->parent->module;
  hlo_instr *from = hlo_operand(reshape, 0);
  const hlo_origin_node *old = array_of(reshape), *now = array_of(from);
  const hlo_attr *have = hlo_attrs_find(m->attrs, HLO_ATTR_ORIGIN_RECOVERY_TABLE);
  hs_str table = have ? have->v.s : (hs_str){0};
  if (!old || has_entry(table, old)) return;
  if (!now) {
    hlo_origin_node *node = HS_NEW(&m->arena, hlo_origin_node);
    hlo_origin *origin = HS_NEW(&m->arena, hlo_origin);
    *node = (hlo_origin_node){
        .present = true, .name = placeholder(&m->arena, old->name), .index = old->index};
    *origin = (hlo_origin){.root = node};
    hlo_set_attr_ptr(from, HLO_ATTR_ORIGIN, origin);
    now = node;
  }
  hlo_module *recovery = hlo_module_new(m->ctx, "recovery_module");
  hlo_computation *entry = hlo_add_computation(recovery, "recovery_computation");
  hlo_set_entry(recovery, entry);
  hlo_instr *p = hlo_add_parameter(entry, 0, from->shape, "p");
  hlo_set_root(entry, hlo_add(entry, HLO_RESHAPE, reshape->shape, 1, &p, "reshape"));
  hs_buf b = {0};
  while (table.n && table.p[table.n - 1] != '}') table.n--;
  if (table.n) hs_buf_put(&b, table.p, table.n - 1);  // without the closing brace
  else hs_buf_puts(&b, "{\n");
  hs_buf_puts(&b, "  ");
  put_array(&b, old);
  hs_buf_puts(&b, " : ");
  put_array(&b, now);
  hlo_put_recovery_module(&b, recovery);
  hs_buf_puts(&b, "\n}");
  hlo_module_free(recovery);
  hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_ORIGIN_RECOVERY_TABLE,
                                    .v.s = {hs_arena_strndup(&m->arena, b.p, b.n), b.n}});
  hs_buf_free(&b);
}

const hlo_origin *pass_origin_of_elements(hs_arena *a, const hlo_attr *from, u32 n,
                                          const i64 *index) {
  const hlo_origin *old = from ? from->v.p : NULL;
  if (!old || !old->root || !old->root->tuple) return NULL;
  hlo_origin_node *root = HS_NEW(a, hlo_origin_node);
  const hlo_origin_node **v = HS_NEW_ARRAY(a, const hlo_origin_node *, n + 1);
  for (u32 k = 0; k < n; k++)
    v[k] = index[k] >= 0 && index[k] < old->root->nchildren ? old->root->children[index[k]]
                                                            : HS_NEW(a, hlo_origin_node);
  *root = (hlo_origin_node){.tuple = true, .nchildren = n, .children = v};
  hlo_origin *now = HS_NEW(a, hlo_origin);
  *now = (hlo_origin){old->synthetic, root};
  return now;
}

const hlo_origin *pass_origin_with(hs_arena *a, const hlo_attr *from, u32 n,
                                   hlo_instr *const *more) {
  const hlo_origin *old = from ? from->v.p : NULL;
  if (!old || old->synthetic || !old->root || !old->root->tuple) return NULL;
  u32 had = old->root->nchildren;
  const hlo_origin_node **v = HS_NEW_ARRAY(a, const hlo_origin_node *, had + n + 1);
  memcpy(v, old->root->children, had * sizeof *v);
  for (u32 k = 0; k < n; k++) {
    const hlo_origin *o = hlo_attr_ptr(more[k], HLO_ATTR_ORIGIN);
    v[had + k] = o && o->root ? o->root : HS_NEW(a, hlo_origin_node);
  }
  hlo_origin_node *root = HS_NEW(a, hlo_origin_node);
  *root = (hlo_origin_node){.tuple = true, .nchildren = had + n, .children = v};
  hlo_origin *now = HS_NEW(a, hlo_origin);
  *now = (hlo_origin){.root = root};
  return now;
}

// ---- instructions copied out of a computation ---------------------------------------------------
static const hlo_origin_node *first_leaf(const hlo_origin_node *n) {
  while (n && n->tuple) n = n->nchildren ? n->children[0] : NULL;
  return n && n->present ? n : NULL;
}

static const hlo_origin_node *with_prefix(hs_arena *a, const hlo_origin_node *n, hs_str outer,
                                          const char *mark) {
  hlo_origin_node *now = HS_NEW(a, hlo_origin_node);
  *now = *n;
  if (n->tuple) {
    const hlo_origin_node **v = HS_NEW_ARRAY(a, const hlo_origin_node *, n->nchildren + 1);
    for (u32 k = 0; k < n->nchildren; k++) v[k] = with_prefix(a, n->children[k], outer, mark);
    now->children = v;
  } else if (n->present) {
    char *name = hs_format("%.*s%s/%.*s", (int)outer.n, outer.p, mark, (int)n->name.n,
                           n->name.n ? n->name.p : "");
    now->name = (hs_str){hs_arena_strndup(a, name, strlen(name)), strlen(name)};
    hs_free(name);
  }
  return now;
}

void pass_origin_leaves(hlo_instr *copy, const hlo_instr *caller, const char *mark) {
  hs_arena *a = &copy->parent->module->arena;
  const hlo_origin *own = hlo_attr_ptr(copy, HLO_ATTR_ORIGIN),
                   *outer = hlo_attr_ptr(caller, HLO_ATTR_ORIGIN);
  const hlo_origin_node *name = outer && !outer->synthetic ? first_leaf(outer->root) : NULL;
  if (!own || (outer && outer->synthetic)) return;
  if (!name) {
    hlo_remove_attr(copy, HLO_ATTR_ORIGIN);
    return;
  }
  if (own->synthetic || !own->root) return;
  hlo_origin *now = HS_NEW(a, hlo_origin);
  *now = (hlo_origin){.root = with_prefix(a, own->root, name->name, mark)};
  hlo_set_attr_ptr(copy, HLO_ATTR_ORIGIN, now);
}
