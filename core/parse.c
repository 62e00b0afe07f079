// parse.c — HLO text to a module: headers, computations, instructions, names (grammar: XLA's hlo_parser.cc).
//
// One pass, built through ir.h as it reads. Names are looked up in a hash table of their own, because a written name is
// scoped to its computation while the module's names are unique (a second `add` becomes `add.1`).
// After an error the reader goes on at the next instruction; the name of a failed one is poisoned, so that its users fail
// silently and every message is a mistake of its own.
#include "core/parse.h"

#include <stdio.h>
#include <stdlib.h>

// ---- names ----------------------------------------------------------------------------------------------------------
static hlo_bind_slot *binding_slot(const hlo_bindings *b, u32 hash, hs_str name) {
  size_t k = hash & (b->cap - 1);
  for (;; k = (k + 1) & (b->cap - 1)) {
    hlo_bind_slot *s = &b->slots[k];
    if (!s->at || (s->hash == hash && hs_str_eq(b->v.v[s->at - 1].name, name))) return s;
  }
}

static void bindings_grow(hlo_bindings *b) {
  hlo_bind_slot *old = b->slots;
  size_t old_cap = b->cap;
  b->cap = old_cap ? old_cap * 2 : 1024;
  b->slots = hs_calloc(b->cap, sizeof *b->slots);
  for (size_t i = 0; i < old_cap; i++) {
    if (!old[i].at) continue;
    size_t k = old[i].hash & (b->cap - 1);
    while (b->slots[k].at) k = (k + 1) & (b->cap - 1);
    b->slots[k] = old[i];
  }
  hs_free(old);
}

static u32 name_hash(hs_str s) { return (u32)hs_hash_bytes(s.p, s.n, 0); }

void *hlo_lookup(hlo_bindings *b, u32 scope, hs_str name, bool *poisoned) {
  *poisoned = false;
  if (!b->cap) return NULL;
  u32 at = binding_slot(b, name_hash(name), name)->at;
  if (!at || b->v.v[at - 1].scope != scope) return NULL;
  *poisoned = b->v.v[at - 1].poisoned;
  return b->v.v[at - 1].what;
}

// False when the name is taken in this scope.
static bool bind(hlo_bindings *b, u32 scope, bool nested, hs_str name, void *what, bool poisoned) {
  if (b->v.n * 2 >= b->cap) bindings_grow(b);
  u32 hash = name_hash(name);
  hlo_bind_slot *s = binding_slot(b, hash, name);
  hlo_binding fresh = {name, what, scope, poisoned};
  if (!s->at) {
    hs_vec_push(&b->v, fresh);
    *s = (hlo_bind_slot){hash, (u32)b->v.n};
    return true;
  }
  hlo_binding *e = &b->v.v[s->at - 1];
  if (e->scope == scope) return e->poisoned;
  if (nested) hs_vec_push(&b->shadowed, ((hlo_shadow){s->at - 1, *e}));
  *e = fresh;
  return true;
}

static void unshadow(hlo_bindings *b, size_t mark) {
  while (b->shadowed.n > mark) {
    hlo_shadow s = hs_vec_pop(&b->shadowed);
    b->v.v[s.at] = s.was;
  }
}

static void bindings_free(hlo_bindings *b) {
  hs_free(b->slots);
  hs_vec_free(&b->v);
  hs_vec_free(&b->shadowed);
}

static void suggest(hlo_parser *P, const hlo_bindings *b, u32 scope, hs_str name) {
  HS_VEC(const char *) all = {0};
  char *word = hs_format("%.*s", (int)HS_MIN(name.n, 200u), name.p);
  for (size_t i = 0; i < b->v.n; i++) {
    const hlo_binding *e = &b->v.v[i];
    if (e->scope == scope && e->what && !memchr(e->name.p, '#', e->name.n)) hs_vec_push(&all, hlo_intern(P->ctx, e->name.p, e->name.n));
  }
  const char *near = hs_nearest(word, all.v, all.n);
  if (near) hlo_lex_note(LX, "did you mean %s?", near);
  hs_free(word);
  hs_vec_free(&all);
}

// Silent failure: the real error was reported where the name was defined.
static bool give_up(hlo_parser *P) { return LX->failed = true, false; }

static bool resolve(hlo_parser *P, hs_str name, hlo_instr **out) {
  bool poisoned;
  *out = hlo_lookup(&P->instrs, P->scope, name, &poisoned);
  if (HS_LIKELY(*out)) return true;
  if (P->into && !poisoned) {
    const char *s = hlo_intern(P->ctx, name.p, name.n);
    hlo_for_each_instr(i, P->comp)
      if (i->name == s) return *out = i, true;
  }
  if (poisoned) return give_up(P);
  hlo_lex_error(LX, HS_E_NAME, name.p, "instruction does not exist: %.*s", (int)HS_MIN(name.n, 200u), name.p);
  suggest(P, &P->instrs, P->scope, name);
  return false;
}

bool hlo_read_instr_name(hlo_parser *P, hlo_instr **out) {
  hs_str name;
  return hlo_name(LX, &name) && resolve(P, name, out);
}

// ---- computations -------------------------------------------------------------------------------------------------------
static bool read_instructions(hlo_parser *P);

static bool read_inline_comp(hlo_parser *P, hlo_computation **out) {
  if (!hlo_lex_enter(LX)) return false;
  hlo_computation *outer = P->comp;
  u32 scope = P->scope;
  size_t shadow = P->instrs.shadowed.n;
  P->comp = *out = hlo_add_computation(P->m, "_");
  P->scope = ++P->next_scope;
  P->inline_depth++;
  bool ok = read_instructions(P);
  P->inline_depth--;
  unshadow(&P->instrs, shadow);
  P->comp = outer;
  P->scope = scope;
  hlo_lex_leave(LX);
  return ok || give_up(P);
}

bool hlo_read_comp(hlo_parser *P, hlo_computation **out) {
  if (hlo_peek(LX) == '{') return read_inline_comp(P, out);
  hs_str name;
  if (!hlo_name(LX, &name)) return false;
  bool poisoned;
  *out = hlo_lookup(&P->comps, 1, name, &poisoned);
  if (*out) return true;
  if (P->into) {
    char *s = hs_format("%.*s", (int)name.n, name.p);
    *out = hlo_find_comp(P->m, s);
    hs_free(s);
    if (*out) return true;
  }
  if (poisoned) return give_up(P);
  hlo_lex_error(LX, HS_E_NAME, name.p, "computation does not exist: %.*s", (int)HS_MIN(name.n, 200u), name.p);
  suggest(P, &P->comps, 1, name);
  return false;
}

// ---- one instruction --------------------------------------------------------------------------------------------------
static bool read_rhs(hlo_parser *P, hs_str name, bool with_attrs, hlo_instr **out);

// x#1#0: get-tuple-elements made on the way, shared within the computation.
static bool read_compact_gte(hlo_parser *P, hs_str name, hlo_instr **io) {
  char text[512];
  size_t n = HS_MIN(name.n, 300u);
  memcpy(text, name.p, n);
  while (hlo_accept(LX, '#')) {
    const char *at = LX->p;
    i64 k;
    if (!hlo_int(LX, &k)) return false;
    const hlo_shape *t = (*io)->shape;
    if (!hlo_shape_is_tuple(t)) return hlo_lex_error(LX, HS_E_SHAPE, at, "'#' takes an element of a tuple, but %s is none", (*io)->name);
    if (k < 0 || k >= t->nelems) return hlo_lex_error(LX, HS_E_SHAPE, at, "tuple index %lld is out of bounds: %s has %u elements", (long long)k, (*io)->name, t->nelems);
    if (n + 24 < sizeof text) n += (size_t)snprintf(text + n, sizeof text - n, "_%lld", (long long)k);
    char key[540];
    int len = snprintf(key, sizeof key, "%.*s#", (int)n, text);   // '#' keeps these apart from written names
    bool poisoned;
    hs_str id = {key, (size_t)len};
    hlo_instr *gte = hlo_lookup(&P->instrs, P->scope, id, &poisoned);
    if (!gte) {
      P->unmarked = true;
      gte = hlo_add(P->comp, HLO_GET_TUPLE_ELEMENT, t->elems[k], 1, io, (text[n] = 0, text));
      hlo_set_attr_int(gte, HLO_ATTR_INDEX, k);
      id.p = hs_arena_strndup(LX->arena, key, id.n);
      bind(&P->instrs, P->scope, P->inline_depth > 0, id, gte, false);
    }
    *io = gte;
  }
  return true;
}

// Single-instruction mode: an operand that nothing defines is a parameter of the wrapping computation.
static bool operand_as_parameter(hlo_parser *P, const hlo_shape *shape, hs_str name, hlo_instr **out) {
  bool poisoned;
  *out = name.n ? hlo_lookup(&P->instrs, P->scope, name, &poisoned) : NULL;
  if (*out) return true;
  P->unmarked = true;
  char *s = hs_format("%.*s", (int)name.n, name.p);
  *out = hlo_add_parameter(P->comp, P->comp->nparams, shape, name.n ? s : "parameter");
  hs_free(s);
  if (name.n) bind(&P->instrs, P->scope, false, name, *out, false);
  return true;
}

// A nested instruction starts with an opcode: a word right in front of '('.
static bool nested_follows(hlo_parser *P) {
  const char *at = LX->p;
  hs_str id = hlo_ident(LX);
  bool yes = id.n && hlo_peek(LX) == '(';
  LX->p = at;
  return yes;
}

// ShapeUtil::Compatible: layouts do not count, nor whether a dimension is dynamic.
bool hlo_shapes_agree(const hlo_shape *a, const hlo_shape *b) {
  if (a->logical == b->logical) return true;
  if (a->dtype != b->dtype || a->rank != b->rank || a->nelems != b->nelems) return false;
  for (u32 d = 0; d < a->rank; d++) if (a->dims[d] != b->dims[d]) return false;
  for (u32 k = 0; k < a->nelems; k++) if (!hlo_shapes_agree(a->elems[k], b->elems[k])) return false;
  return true;
}

static bool read_operand(hlo_parser *P, hlo_instr **out) {
  const hlo_shape *shape = NULL;
  char c = hlo_peek(LX);
  const char *at = LX->p;
  if (c != '%') {
    if (hlo_shape_follows(P)) {
      if (!(shape = hlo_read_shape(P))) return false;
      c = hlo_peek(LX);
      if (P->single && !P->inline_depth && (c == ',' || c == ')')) return operand_as_parameter(P, shape, (hs_str){0}, out);
    }
    if (c != '%' && nested_follows(P)) {
      LX->p = at;
      return read_rhs(P, (hs_str){0}, false, out);
    }
  }
  hs_str name;
  if (!hlo_name(LX, &name)) return false;
  if (P->single && !P->inline_depth && shape) {
    if (!operand_as_parameter(P, shape, name, out)) return false;
  } else if (!resolve(P, name, out)) {
    return false;
  }
  if (hlo_peek(LX) == '#' && !read_compact_gte(P, name, out)) return false;
  if (shape && !hlo_shapes_agree(shape, (*out)->shape)) {
    hs_buf a = {0}, b = {0};
    hlo_shape_print(&a, shape, true);
    hlo_shape_print(&b, (*out)->shape, true);
    hlo_lex_error(LX, HS_E_SHAPE, at, "The declared operand shape %s is not compatible with the shape of the operand instruction %s.", hs_buf_cstr(&a),
                  hs_buf_cstr(&b));
    hs_buf_free(&a);
    hs_buf_free(&b);
    return false;
  }
  return true;
}

static bool read_operands(hlo_parser *P, hlo_rhs *r) {
  if (!hlo_expect(LX, '(', "at the start of operands")) return false;
  if (r->op == HLO_PARAMETER) {
    const char *at = (hlo_skip(LX), LX->p);
    if (!hlo_int(LX, &r->number)) return false;
    if (r->number < 0) return hlo_lex_error(LX, HS_E_SYNTAX, at, "parameter number must be >= 0");
    if (r->number >= 1 << 20) return hlo_lex_error(LX, HS_E_LIMIT, at, "parameter number above %d", 1 << 20);
  } else if (r->op == HLO_CONSTANT) {
    if (!r->shape) return hlo_lex_error(LX, HS_E_SYNTAX, r->op_at, "cannot infer shape for opcode: constant");
    if (!hlo_read_literal(P, r->shape, &r->literal)) return false;
  } else if (hlo_peek(LX) != ')') {
    do {
      hlo_instr *o;
      if (!read_operand(P, &o)) return false;
      hs_vec_push(&P->operands, o);
    } while (hlo_accept(LX, ','));
  }
  return hlo_expect(LX, ')', "at the end of operands");
}

static const hlo_attr_id common_attrs[] = {HLO_ATTR_METADATA, HLO_ATTR_SHARDING, HLO_ATTR_BACKEND_CONFIG, HLO_ATTR_FRONTEND_ATTRIBUTES,
                                           HLO_ATTR_CONTROL_PREDECESSORS, HLO_ATTR_STATISTICS, HLO_ATTR_ORIGIN};

static const u8 attr_length[HLO_ATTR_COUNT] = {0,
#define ATTR(id, text, kind) sizeof(text) - 1,
#include "core/attrs.def"
#undef ATTR
};

static bool attr_is(hlo_attr_id id, hs_str key) {
  return attr_length[id] == key.n && memcmp(hlo_attr_text(id), key.p, key.n) == 0;
}

static hlo_attr_id find_attr(hlo_opcode op, hs_str key) {
  for (size_t k = 0; k < HS_COUNT(common_attrs); k++)
    if (attr_is(common_attrs[k], key)) return common_attrs[k];
  for (const hlo_op_attr *a = hlo_ops[op].attrs; a->id; a++)
    if (attr_is(a->id, key)) return a->id;
  return hlo_op_is_unary_math(op) && attr_is(HLO_ATTR_RESULT_ACCURACY, key) ? HLO_ATTR_RESULT_ACCURACY : HLO_ATTR_NONE;
}

// Attributes that XLA reads and forgets.
static bool skip_ignored(hlo_parser *P, hlo_opcode op, hs_str key, bool *done) {
  *done = true;
  bool coll = hlo_op_has(op, HLO_F_COLLECTIVE);
  if (coll && hs_str_eq(key, HS_STR("mode"))) {
    static const char *const modes[] = {"cross_replica", "cross_partition", "cross_replica_and_partition", "flattened_id"};
    hs_str w = hlo_ident(LX);
    for (size_t k = 0; k < HS_COUNT(modes); k++) if (hs_str_eq(w, hs_str_of(modes[k]))) return true;
    return hlo_lex_error(LX, HS_E_ATTR, w.p, "expects a collective op group mode but sees: %.*s", (int)HS_MIN(w.n, 60u), w.p);
  }
  hlo_ints dims;
  if (op == HLO_RAGGED_ALL_TO_ALL && hs_str_eq(key, HS_STR("dimensions"))) return hlo_read_ints(P, '{', '}', &dims);
  return *done = false, true;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static bool unexpected_attr(hlo_parser *P, hlo_opcode op, hs_str key) {
  HS_VEC(const char *) all = {0};
  for (size_t k = 0; k < HS_COUNT(common_attrs); k++) hs_vec_push(&all, hlo_attr_text(common_attrs[k]));
  for (const hlo_op_attr *a = hlo_ops[op].attrs; a->id; a++) hs_vec_push(&all, hlo_attr_text(a->id));
  if (hlo_op_is_unary_math(op)) hs_vec_push(&all, "result_accuracy");
  qsort(all.v, all.n, sizeof *all.v, by_text);
  hs_buf b = {0};
  for (size_t i = 0; i < all.n; i++) hs_buf_printf(&b, "%s%s", i ? ", " : "", all.v[i]);
  char *word = hs_format("%.*s", (int)HS_MIN(key.n, 200u), key.p);
  hlo_lex_error(LX, HS_E_ATTR, key.p, "unexpected attribute \"%s\"", word);
  hlo_lex_note(LX, "Allowed attributes: %s", hs_buf_cstr(&b));
  const char *near = hs_nearest(word, all.v, all.n);
  if (near) hlo_lex_note(LX, "did you mean %s?", near);
  hs_free(word);
  hs_buf_free(&b);
  hs_vec_free(&all);
  return false;
}

// Keeps the attributes from `mark` on ordered by id; an insertion, as there are few and mostly in order.
static void put_attr(hlo_parser *P, size_t mark, hlo_attr a) {
  hs_vec_push(&P->attrs, a);
  size_t k = P->attrs.n - 1;
  for (; k > mark && P->attrs.v[k - 1].id > a.id; k--) P->attrs.v[k] = P->attrs.v[k - 1];
  P->attrs.v[k] = a;
}

static bool read_attrs(hlo_parser *P, hlo_rhs *r, bool with_attrs) {
  u64 seen[(HLO_ATTR_COUNT + 63) / 64] = {0};
  while (with_attrs && hlo_accept(LX, ',')) {
    hs_str key = hlo_ident(LX);
    if (!key.n || hlo_at(LX, 0) != '=') {
      LX->p = key.p;
      return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects ', ' and an attribute name directly followed by '='");
    }
    LX->p++;
    hlo_attr a = {.id = find_attr(r->op, key)};
    if (!a.id && (r->sugar || r->op == HLO_ASYNC_UPDATE || r->op == HLO_ASYNC_DONE)) a.id = find_attr(HLO_ASYNC_START, key);
    if (!a.id) {
      bool done;
      if (!skip_ignored(P, r->op, key, &done)) return false;
      if (done) continue;
      return unexpected_attr(P, r->op, key);
    }
    if (seen[a.id / 64] >> (a.id % 64) & 1) return hlo_lex_error(LX, HS_E_ATTR, key.p, "attribute %.*s already exists", (int)key.n, key.p);
    seen[a.id / 64] |= (u64)1 << (a.id % 64);
    if (!hlo_read_attr(P, &a)) return false;
    if (a.id != HLO_ATTR_CONTROL_PREDECESSORS && !hlo_attr_droppable(r->op, &a)) put_attr(P, r->attrs, a);
  }
  if (r->sugar == 'u' || r->sugar == 'd') return true;
  for (const hlo_op_attr *a = hlo_ops[r->op].attrs; a->id; a++) {
    if (!a->required || seen[a->id / 64] >> (a->id % 64) & 1) continue;
    bool scalar_broadcast = r->op == HLO_BROADCAST && P->operands.n > r->operands && hlo_shape_is_scalar(P->operands.v[r->operands]->shape);
    if (!scalar_broadcast) return hlo_lex_error(LX, HS_E_ATTR, r->op_at, "attribute %s is expected but not seen", hlo_attr_text(a->id));
    put_attr(P, r->attrs, (hlo_attr){.id = HLO_ATTR_DIMENSIONS});
  }
  return true;
}

static bool unknown_opcode(hlo_parser *P, hs_str text) {
  const char *all[HLO_OPCODE_COUNT];
  for (int k = 1; k < HLO_OPCODE_COUNT; k++) all[k - 1] = hlo_op_text((hlo_opcode)k);
  char *word = hs_format("%.*s", (int)HS_MIN(text.n, 200u), text.p);
  hlo_lex_error(LX, HS_E_OPCODE, text.p, "Unknown opcode: %s", word);
  const char *near = hs_nearest(word, all, HLO_OPCODE_COUNT - 1);
  if (near) hlo_lex_note(LX, "did you mean %s?", near);
  hs_free(word);
  return false;
}

static bool read_opcode(hlo_parser *P, hlo_rhs *r) {
  r->op_at = (hlo_skip(LX), LX->p);
  r->op_text = hlo_ident(LX);
  if (!r->op_text.n) return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects opcode");
  r->op = hlo_op_find(r->op_text);
  return r->op != HLO_OP_INVALID || hlo_async_opcode(r) || unknown_opcode(P, r->op_text);
}

static bool read_rhs(hlo_parser *P, hs_str name, bool with_attrs, hlo_instr **out) {
  hlo_rhs r = {.operands = P->operands.n, .attrs = P->attrs.n, .ctrl = P->ctrl.n};
  *out = NULL;
  if (!hlo_lex_enter(LX)) return false;
  r.at = (hlo_skip(LX), LX->p);
  bool ok = !hlo_shape_follows(P) || (r.shape = hlo_read_shape(P));
  ok = ok && read_opcode(P, &r) && read_operands(P, &r);
  ok = ok && read_attrs(P, &r, with_attrs) && hlo_complete_rhs(P, &r) && hlo_make_instr(P, &r, name, out);
  if (!ok && r.literal) hlo_literal_unref(r.literal);
  for (size_t k = r.attrs; !ok && k < P->attrs.n; k++)
    if (P->attrs.v[k].id == HLO_ATTR_LITERAL) hlo_literal_unref(P->attrs.v[k].v.literal);
  P->operands.n = r.operands;
  P->attrs.n = r.attrs;
  P->ctrl.n = r.ctrl;
  hlo_lex_leave(LX);
  return ok;
}

static bool legal_name(hlo_parser *P, hs_str name) {
  if (name.n > 1 && name.p[0] == '_' && name.p[1] == '_' && !(name.n >= 6 && memcmp(name.p, "__xla_", 6) == 0))
    return hlo_lex_error(LX, HS_E_NAME, name.p, "illegal instruction name: %.*s", (int)name.n, name.p);
  char a = name.p[0], b = name.n > 1 ? name.p[1] : 0;
  bool like_type = name.n < 16 && (hlo_is_ch(b, HLO_CH_DIGIT) || a == 'p' || a == 't' || a == 'o' || (a == 'b' && b == 'f'));
  if (like_type && hlo_dtype_find(name) != HLO_DT_INVALID)
    return hlo_lex_error(LX, HS_E_NAME, name.p, "illegal instruction name: %.*s; suggest renaming to: %.*s_", (int)name.n, name.p, (int)name.n, name.p);
  return true;
}

// ROOT? name = rhs
static bool read_instruction(hlo_parser *P, hs_str *name, bool *is_root, hlo_instr **out) {
  *name = (hs_str){0};
  *is_root = hlo_accept_word(LX, "ROOT");
  if (!hlo_name(LX, name)) return false;
  if (!hlo_accept(LX, '=')) return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects '=' in instruction");
  if (!legal_name(P, *name) || !read_rhs(P, *name, true, out)) return false;
  if (!bind(&P->instrs, P->scope, P->inline_depth > 0, *name, *out, false))
    return hlo_lex_error(LX, HS_E_REDEFINED, name->p, "instruction already exists: %.*s", (int)name->n, name->p);
  return true;
}

// Where reading goes on after an error: the next line that starts an instruction, ends a computation or starts one.
static void recover(hlo_parser *P, const char *start) {
  if (LX->p < start) LX->p = start;
  const char *back = LX->p;   // blanks behind the instruction may have been skipped already
  while (back > start && hlo_is_ch(back[-1], HLO_CH_SPACE)) back--;
  LX->p = back;
  for (;;) {
    const char *q = memchr(LX->p, '\n', (size_t)(LX->end - LX->p));
    if (!q) { LX->p = LX->end; return; }
    LX->p = q + 1;
    const char *line = LX->p;
    LX->failed = false;
    char c = hlo_peek(LX);
    if (LX->failed) return;
    if (c == 0 || c == '}') return;
    bool root = hlo_accept_word(LX, "ROOT");
    if (hlo_at(LX, 0) == ' ' && root) hlo_skip(LX);
    bool percent = hlo_at(LX, 0) == '%' && (LX->p++, true);
    hs_str id = hlo_ident(LX);
    bool entry = hs_str_eq(id, HS_STR("ENTRY"));
    bool instr = id.n && (hlo_peek(LX) == '=' && (percent || LX->p > id.p + id.n));
    bool comp = id.n && (hlo_peek(LX) == '{' || (percent && hlo_peek(LX) == '('));
    LX->p = line;
    if (root || entry || instr || comp) return;
  }
}

static bool finish_computation(hlo_parser *P, hlo_instr *root, bool failed) {
  hlo_computation *c = P->comp;
  if (failed) return true;
  if (!c->last) return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects an instruction in the computation");
  hlo_set_root(c, root ? root : c->last);
  for (u32 k = 0; k < c->nparams; k++)
    if (!c->params[k]) return hlo_lex_error(LX, HS_E_VERIFY, NULL, "parameter number %u is missing in computation %s", k, c->name);
  return true;
}

// '{' instruction+ '}'. Errors are recorded and recovered from; false when there was any.
static bool read_instructions(hlo_parser *P) {
  if (!hlo_expect(LX, '{', "at the start of the instruction list")) return false;
  hlo_instr *root = NULL, *last = NULL;
  bool any_failed = false;
  while (hlo_peek(LX) != '}' || LX->failed) {
    const char *start = LX->p;
    hs_str name;
    bool is_root;
    hlo_instr *i = NULL;
    bool ok = !LX->failed && (LX->p < LX->end || hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects '}' at the end of the instruction list"));
    ok = ok && read_instruction(P, &name, &is_root, &i);
    if (ok && is_root) {
      if (root) ok = hlo_lex_error(LX, HS_E_SYNTAX, start, "one computation should have only one ROOT");
      root = i;
    }
    if (ok) {
      last = i;
      continue;
    }
    any_failed = true;
    if (start < LX->end && name.n) bind(&P->instrs, P->scope, P->inline_depth > 0, name, NULL, true);
    if (LX->p >= LX->end && start >= LX->end) return false;
    if (LX->nerrors >= LX->max_errors) return LX->p = LX->end, false;
    recover(P, start);
  }
  hlo_accept(LX, '}');
  if (!root && last && !any_failed) root = last;
  return finish_computation(P, root, any_failed) && !any_failed;
}

// '(' (name: shape, ...)* ')' '->' shape: the parameters are read and forgotten; *result is checked against the root.
static bool read_signature(hlo_parser *P, const hlo_shape **result) {
  LX->p++;
  if (hlo_peek(LX) != ')') {
    do {
      hs_str name;   // a ':' belongs to the name and may be missing
      if (!hlo_name(LX, &name) || !hlo_read_shape(P)) return false;
    } while (hlo_accept(LX, ','));
  }
  if (!hlo_expect(LX, ')', "at the end of the signature's parameters")) return false;
  if (!hlo_accept_text(LX, "->")) return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects '->' in the signature");
  return (*result = hlo_read_shape(P)) != NULL;
}

static bool check_result(hlo_parser *P, const hlo_shape *result, const char *at) {
  const hlo_instr *root = P->comp->root;
  if (!result || !root || hlo_shapes_agree(result, root->shape)) return true;
  hs_buf a = {0}, b = {0};
  hlo_shape_print(&a, result, false);
  hlo_shape_print(&b, root->shape, false);
  hlo_lex_error(LX, HS_E_SHAPE, at, "Shape of computation %s, %s, is not compatible with that of its root instruction %s, %s", P->comp->name,
                hs_buf_cstr(&a), root->name, hs_buf_cstr(&b));
  hs_buf_free(&a);
  hs_buf_free(&b);
  return false;
}

static bool read_computation(hlo_parser *P) {
  bool entry = hlo_accept_word(LX, "ENTRY");
  const char *at = (hlo_skip(LX), LX->p);
  hs_str name;
  if (!hlo_name(LX, &name)) return false;
  bool poisoned;
  if (hlo_lookup(&P->comps, 1, name, &poisoned))
    return hlo_lex_error(LX, HS_E_REDEFINED, at, "computation already exists: %.*s", (int)name.n, name.p);
  const hlo_shape *result = NULL;
  if (hlo_peek(LX) == '(' && !read_signature(P, &result)) return false;
  char *s = hs_format("%.*s", (int)name.n, name.p);
  P->comp = hlo_add_computation(P->m, s);
  hs_free(s);
  P->scope = ++P->next_scope;
  bool ok = read_instructions(P);
  LX->failed = false;
  ok = ok && check_result(P, result, at);
  bind(&P->comps, 1, false, name, ok ? P->comp : NULL, !ok);
  if (entry) {
    if (P->m->entry) return hlo_lex_error(LX, HS_E_SYNTAX, at, "expects only one ENTRY");
    hlo_set_entry(P->m, P->comp);
  }
  if (hlo_accept(LX, ',')) {
    if (!hlo_accept_text(LX, "execution_thread=")) return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects execution_thread=");
    hs_str thread;
    if (!hlo_string_copy(LX, &thread)) return false;
    if (!hs_str_eq(thread, HS_STR("main"))) hlo_set_execution_thread(P->comp, thread);
  }
  return ok;
}

// ---- the module ---------------------------------------------------------------------------------------------------------
static bool read_module_attrs(hlo_parser *P) {
  while (hlo_accept(LX, ',')) {
    hs_str key = hlo_ident(LX);
    if (!key.n || hlo_at(LX, 0) != '=') return hlo_lex_error(LX, HS_E_SYNTAX, key.p, "expects ', ' and a module attribute directly followed by '='");
    LX->p++;
    hlo_attr a = {.id = hs_str_eq(key, HS_STR("frontend_attributes")) ? HLO_ATTR_FRONTEND_ATTRIBUTES : HLO_ATTR_NONE};
    for (int k = HLO_ATTR_IS_SCHEDULED; !a.id && k < HLO_ATTR_COUNT; k++)
      if (hs_str_eq(key, hs_str_of(hlo_attr_text((hlo_attr_id)k)))) a.id = (hlo_attr_id)k;
    if (!a.id) {
      const char *all[HLO_ATTR_COUNT];
      size_t n = 0;
      for (int k = HLO_ATTR_IS_SCHEDULED; k < HLO_ATTR_COUNT; k++) all[n++] = hlo_attr_text((hlo_attr_id)k);
      all[n++] = "frontend_attributes";
      char *word = hs_format("%.*s", (int)HS_MIN(key.n, 200u), key.p);
      hlo_lex_error(LX, HS_E_ATTR, key.p, "unexpected attribute \"%s\" of the module", word);
      const char *near = hs_nearest(word, all, n);
      if (near) hlo_lex_note(LX, "did you mean %s?", near);
      hs_free(word);
      return false;
    }
    if (hlo_attrs_find(P->m->attrs, a.id)) return hlo_lex_error(LX, HS_E_ATTR, key.p, "attribute %.*s already exists", (int)key.n, key.p);
    if (!hlo_read_attr(P, &a)) return false;
    if (!hlo_attr_droppable(HLO_OP_INVALID, &a)) hlo_set_module_attr(P->m, a);
  }
  return true;
}

static void complete_entry_layout(hlo_parser *P) {
  hlo_computation *e = P->m->entry;
  if (!e || !e->root || hlo_attrs_find(P->m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT)) return;
  hlo_program_shape *s = HS_NEW(LX->arena, hlo_program_shape);
  const hlo_shape **params = HS_NEW_ARRAY(LX->arena, const hlo_shape *, e->nparams);
  for (u32 k = 0; k < e->nparams; k++) params[k] = e->params[k]->shape;
  *s = (hlo_program_shape){e->nparams, params, e->root->shape};
  hlo_set_module_attr(P->m, (hlo_attr){.id = HLO_ATTR_ENTRY_COMPUTATION_LAYOUT, .v.p = s});
}

static void read_computations(hlo_parser *P) {
  while (hlo_peek(LX) != 0) {
    const char *start = LX->p;
    if (read_computation(P)) continue;
    if (LX->nerrors >= LX->max_errors || LX->p >= LX->end) return;
    if (!LX->failed) continue;   // its instructions had errors and were recovered from
    recover(P, start);
    while (LX->p < LX->end && hlo_peek(LX) != 0) {   // on to the next computation
      const char *line = LX->p;
      hs_str id = hlo_peek_ident(LX);
      if (hs_str_eq(id, HS_STR("ENTRY")) || hlo_at(LX, 0) == '%' || (id.n && id.p == LX->p && line[-1] == '\n')) break;
      recover(P, LX->p);
    }
    LX->failed = false;
    if (LX->p == start) LX->p = LX->end;
  }
}

static void read_module(hlo_parser *P, bool header) {
  if (header) {
    hlo_accept_word(LX, "HloModule");
    hs_str name;
    if (!hlo_name(LX, &name)) return;
    P->m->name = hlo_intern(P->ctx, name.p, name.n);
    if (!read_module_attrs(P) || !hlo_read_frames(P)) return;
  }
  read_computations(P);
  if (LX->nerrors) return;
  if (!P->m->entry) {
    if (!P->comp) {
      hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects a computation: the text holds no instructions");
      return;
    }
    hlo_set_entry(P->m, P->comp);
  }
  if (!header) {
    char *s = hs_format("module_%s", P->m->entry->name);
    P->m->name = hlo_intern_str(P->ctx, s);
    hs_free(s);
  }
  complete_entry_layout(P);
}

// A single instruction gets a computation whose parameters are its operands.
static void read_single(hlo_parser *P) {
  P->single = true;
  P->comp = hlo_add_computation(P->m, "entry");
  P->scope = ++P->next_scope;
  bool is_root = hlo_accept_word(LX, "ROOT");
  hs_str name = {0};
  hlo_instr *i;
  if (is_root || !hlo_shape_follows(P)) {
    if (!hlo_name(LX, &name)) return;
    if (!hlo_accept(LX, '=')) {
      hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects '=' in instruction");
      return;
    }
  }
  if (!read_rhs(P, name, true, &i)) return;
  if (hlo_peek(LX) != 0) {
    hlo_lex_error(LX, HS_E_SYNTAX, NULL, "Syntax error: Unexpected content after parsed value");
    return;
  }
  hlo_set_root(P->comp, i);
  hlo_set_entry(P->m, P->comp);
  P->m->name = hlo_intern_str(P->ctx, i->name);
  complete_entry_layout(P);
}

static void parser_free(hlo_parser *P) {
  bindings_free(&P->instrs);
  bindings_free(&P->comps);
  hs_vec_free(&P->operands);
  hs_vec_free(&P->attrs);
  hs_vec_free(&P->shapes);
  hs_vec_free(&P->ints);
  hs_vec_free(&P->ctrl);
  hs_vec_free(&P->wrapped);
  hs_free(P->memo.v);
}

static hlo_parser parser_new(hlo_ctx *ctx, hs_arena *arena, const char *text, size_t n, const hlo_parse_options *o) {
  hlo_parser P = {.ctx = ctx};
  if (o) P.opt = *o;
  hlo_lex_init(&P.lex, arena, text, n, P.opt.file, P.opt.max_depth, P.opt.max_errors);
  return P;
}

hs_status hlo_parse(hlo_ctx *ctx, const char *text, size_t n, const hlo_parse_options *o, hlo_module **out) {
  *out = NULL;
  hlo_module *m = hlo_module_new(ctx, "module");
  hlo_parser parser = parser_new(ctx, &m->arena, text, n, o), *P = &parser;
  P->m = m;
  LX->stack_base = __builtin_frame_address(0);
  hlo_journal_disable(m);
  if (n > 1 << 16) {   // tables sized once: a line is an instruction, more or less
    size_t lines = 0;
    for (const char *p = text, *end = text + n; (p = memchr(p, '\n', (size_t)(end - p))); p++) lines++;
    hlo_ctx_reserve(ctx, lines);
    hlo_names_reserve(m, lines);
    while (P->instrs.cap < lines * 2) bindings_grow(&P->instrs);
  }
  if (hlo_lex_check_nul(LX)) {
    hs_str first = hlo_peek_ident(LX);
    bool header = hs_str_eq(first, HS_STR("HloModule")), comps = hs_str_eq(first, HS_STR("ENTRY"));
    if (!header && !comps) {   // name { ... starts a module without a header
      const char *at = LX->p;
      if (hlo_at(LX, 0) == '%') LX->p++;
      comps = hlo_ident(LX).n && hlo_peek(LX) == '{';
      LX->p = at;
    }
    if (header || comps) read_module(P, header); else read_single(P);
  }
  if (!LX->errors.err) hlo_check_wrapped(P);
  parser_free(P);
  hlo_journal_enable(m);
  if (LX->errors.err) {
    hlo_module_free(m);
    return LX->errors;
  }
  if (P->unmarked) hlo_mark_sources(m);
  *out = m;
  return HS_GOOD;
}

// ---- pieces ---------------------------------------------------------------------------------------------------------------
static hs_status finish_piece(hlo_parser *P) {
  if (!LX->failed && hlo_peek(LX) != 0) hlo_lex_error(LX, HS_E_SYNTAX, NULL, "unexpected text behind the value");
  parser_free(P);
  return LX->errors;
}

hs_status hlo_parse_shape(hlo_ctx *ctx, const char *text, size_t n, const hlo_shape **out) {
  hs_arena arena = {0};
  hlo_parser parser = parser_new(ctx, &arena, text, n, &(hlo_parse_options){.keep_missing_layouts = true}), *P = &parser;
  LX->stack_base = __builtin_frame_address(0);
  *out = hlo_lex_check_nul(LX) ? hlo_read_shape(P) : NULL;
  hs_status s = finish_piece(P);
  hs_arena_free(&arena);
  if (!hs_ok(s)) *out = NULL;
  return s;
}

hs_status hlo_parse_literal(hlo_ctx *ctx, const hlo_shape *shape, const char *text, size_t n, hlo_literal **out) {
  hs_arena arena = {0};
  hlo_parser parser = parser_new(ctx, &arena, text, n, NULL), *P = &parser;
  LX->stack_base = __builtin_frame_address(0);
  *out = NULL;
  if (hlo_lex_check_nul(LX)) (void)hlo_read_literal(P, shape, out);
  hs_status s = finish_piece(P);
  hs_arena_free(&arena);
  if (!hs_ok(s) && *out) hlo_literal_unref(*out), *out = NULL;
  return s;
}

hs_status hlo_parse_instr_into(hlo_computation *c, const char *text, size_t n, hlo_instr **out) {
  *out = NULL;
  hlo_parser parser = parser_new(c->module->ctx, &c->module->arena, text, n, NULL), *P = &parser;
  LX->stack_base = __builtin_frame_address(0);
  P->m = c->module;
  P->comp = c;
  P->into = true;
  P->scope = P->next_scope = 1;
  hs_str name;
  bool is_root = false;
  size_t mark = hlo_journal_mark(c->module);
  if (hlo_lex_check_nul(LX)) (void)read_instruction(P, &name, &is_root, out);
  hs_status s = finish_piece(P);
  if (!hs_ok(s)) {
    hlo_journal_rollback(c->module, mark);
    *out = NULL;
  } else if (is_root) {
    hlo_set_root(c, *out);
  }
  return s;
}
