// parse_instr.c — one instruction: name, shape, opcode, operands, attributes (XLA:
// ParseInstruction and CreateInstruction in hlo_parser.cc). What single opcodes need beyond that is
// in parse_op.c.
#include "core/text/parse.h"

#include <stdio.h>
#include <stdlib.h>

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
    if (!hlo_shape_is_tuple(t))
      return hlo_lex_error(LX, HS_E_SHAPE, at, "GTE operand must be tuple, but %s is none",
                           (*io)->name);
    if (k < 0 || k >= t->nelems)
      return hlo_lex_error(LX, HS_E_SHAPE, at, "GTE index %lld out of bounds: %s has %u elements",
                           (long long)k, (*io)->name, t->nelems);
    if (n + 24 < sizeof text)
      n += (size_t)snprintf(text + n, sizeof text - n, "_%lld", (long long)k);
    char key[540];
    // '#' keeps these apart from written names
    int len = snprintf(key, sizeof key, "%.*s#", (int)n, text);
    bool poisoned;
    hs_str id = {key, (size_t)len};
    hlo_instr *gte = hlo_lookup(&P->instrs, P->scope, id, &poisoned);
    if (!gte) {
      P->unmarked = true;
      gte = hlo_add(P->comp, HLO_GET_TUPLE_ELEMENT, t->elems[k], 1, io, (text[n] = 0, text));
      hlo_set_attr_int(gte, HLO_ATTR_INDEX, k);
      hlo_name_node_of_(gte->name)->derived = true;
      id.p = hs_arena_strndup(LX->arena, key, id.n);
      hlo_bind(&P->instrs, P->scope, P->inline_depth > 0, id, gte, false);
    }
    *io = gte;
  }
  return true;
}

// Single-instruction mode: an operand that nothing defines is a parameter of the wrapping
// computation.
static bool operand_as_parameter(hlo_parser *P, const hlo_shape *shape, hs_str name,
                                 hlo_instr **out) {
  bool poisoned;
  *out = name.n ? hlo_lookup_instr(P, name, &poisoned) : NULL;
  if (*out) return true;
  P->unmarked = true;
  char *s = hs_format("%.*s", (int)name.n, name.p);
  *out = hlo_add_parameter(P->comp, P->comp->nparams, shape, name.n ? s : "parameter");
  hs_free(s);
  if (!name.n) hlo_name_node_of_((*out)->name)->derived = true;  // nobody wrote it
  else hlo_bind_instr(P, name, *out);
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
  for (u32 d = 0; d < a->rank; d++)
    if (a->dims[d] != b->dims[d]) return false;
  for (u32 k = 0; k < a->nelems; k++)
    if (!hlo_shapes_agree(a->elems[k], b->elems[k])) return false;
  return true;
}

// Operands in their plain form, %a, %b), names and nothing else: true when that is all there is,
// the ')' taken too. Else the cursor stands where another operand must come.
static bool plain_operands(hlo_parser *P) {
  const char *end = LX->end;
  for (const char *p = LX->p; !P->single;) {
    bool percent = p < end && *p == '%';
    const char *at = p + percent;
    if (at == end || !hlo_is_ch(*at, HLO_CH_START)) return false;
    const char *stop = hlo_scan_ident(at + 1, end);
    hs_str name = {at, (size_t)(stop - at)};
    if (stop == end || (*stop != ',' && *stop != ')') || (!percent && hlo_is_reserved(name)))
      return false;
    hlo_instr *i = hlo_unique_instr_(P, name);
    if (!i) return false;
    hs_vec_push(&P->operands, i);
    p = stop + 1;
    if (*stop == ')') return LX->p = p, true;
    if (p < end && *p == ' ') p++;
    LX->p = p;
  }
  return false;
}

static bool read_operand(hlo_parser *P, hlo_instr **out) {
  const hlo_shape *shape = NULL;
  char c = hlo_peek(LX);
  const char *at = LX->p;
  if (c != '%') {
    if ((shape = hlo_recall_shape(P)) || hlo_shape_follows(P)) {
      if (!shape && !(shape = hlo_read_shape(P))) return false;
      c = hlo_peek(LX);
      if (P->single && !P->inline_depth && (c == ',' || c == ')'))
        return operand_as_parameter(P, shape, (hs_str){0}, out);
    }
    if (c != '%' && nested_follows(P)) {
      LX->p = at;
      return hlo_read_rhs(P, (hs_str){0}, false, out);
    }
  }
  hs_str name;
  if (!hlo_name(LX, &name)) return false;
  if (P->single && !P->inline_depth && shape) {
    if (!operand_as_parameter(P, shape, name, out)) return false;
  } else if (!hlo_resolve(P, name, out)) {
    return false;
  }
  if (hlo_peek(LX) == '#' && !read_compact_gte(P, name, out)) return false;
  if (shape && !hlo_shapes_agree(shape, (*out)->shape)) {
    hs_buf a = {0}, b = {0};
    hlo_shape_print(&a, shape, true);
    hlo_shape_print(&b, (*out)->shape, true);
    hlo_lex_error(
        LX, HS_E_SHAPE, at,
        "The declared operand shape %s is not compatible with the shape of the operand instruction "
        "%s.",
        hs_buf_cstr(&a), hs_buf_cstr(&b));
    hs_buf_free(&a);
    hs_buf_free(&b);
    return false;
  }
  return true;
}

// What a literal keeps of a written shape, as in XLA: neither a size of elements nor dimensions
// that may vary.
static const hlo_shape *literal_shape(hlo_ctx *ctx, const hlo_shape *s) {
  if (hlo_shape_is_tuple(s)) {
    const hlo_shape **v = hs_alloc((s->nelems + 1) * sizeof *v);
    for (u32 k = 0; k < s->nelems; k++) v[k] = literal_shape(ctx, s->elems[k]);
    s = hlo_shape_tuple(ctx, s->nelems, v);
    hs_free(v);
    return s;
  }
  if (!hlo_shape_is_array(s) || (!s->dynamic && !(s->layout && s->layout->element_bits))) return s;
  for (u32 d = 0; d < s->rank; d++)
    if (s->dims[d] == HLO_UNBOUNDED) return s;  // refused when the literal is made
  hlo_layout l = s->layout ? *s->layout : (hlo_layout){0};
  l.element_bits = 0;
  return hlo_shape_dynamic(ctx, s->dtype, s->rank, s->dims, NULL,
                           s->layout ? hlo_layout_intern(ctx, &l) : NULL);
}

static bool read_operands(hlo_parser *P, hlo_rhs *r) {
  if (!hlo_expect(LX, '(', "at the start of operands")) return false;
  if (r->op == HLO_PARAMETER) {
    const char *at = (hlo_skip(LX), LX->p);
    if (!hlo_int(LX, &r->number)) return false;
    if (r->number < 0) return hlo_lex_error(LX, HS_E_SYNTAX, at, "parameter number must be >= 0");
    if (r->number >= 1 << 20)
      return hlo_lex_error(LX, HS_E_LIMIT, at, "parameter number above %d", 1 << 20);
  } else if (r->op == HLO_CONSTANT) {
    if (!r->shape)
      return hlo_lex_error(LX, HS_E_SYNTAX, r->op_at, "cannot infer shape for opcode: constant");
    if (!hlo_read_literal(P, literal_shape(P->ctx, r->shape), &r->literal)) return false;
  } else if (hlo_peek(LX) != ')') {
    do {
      hlo_instr *o;
      hlo_skip(LX);
      if (plain_operands(P)) return true;
      if (!read_operand(P, &o)) return false;
      hs_vec_push(&P->operands, o);
    } while (hlo_accept(LX, ','));
  }
  return hlo_expect(LX, ')', "at the end of operands");
}

static const hlo_attr_id common_attrs[] = {HLO_ATTR_METADATA,
                                           HLO_ATTR_SHARDING,
                                           HLO_ATTR_BACKEND_CONFIG,
                                           HLO_ATTR_FRONTEND_ATTRIBUTES,
                                           HLO_ATTR_CONTROL_PREDECESSORS,
                                           HLO_ATTR_STATISTICS,
                                           HLO_ATTR_ORIGIN};

static const u8 attr_length[HLO_ATTR_COUNT] = {
    0,
#define ATTR(id, text, kind) sizeof(text) - 1,
#include "core/types/attrs.def"
#undef ATTR
};

static bool attr_is(hlo_attr_id id, hs_str key) {
  return attr_length[id] == key.n && memcmp(hlo_attr_text(id), key.p, key.n) == 0;
}

static hlo_attr_id find_attr(hlo_opcode op, hs_str key) {
  if (attr_is(HLO_ATTR_METADATA, key)) return HLO_ATTR_METADATA;  // on nearly every line
  for (const hlo_op_attr *a = hlo_ops[op].attrs; a->id; a++)
    if (attr_is(a->id, key)) return a->id;
  for (size_t k = 0; k < HS_COUNT(common_attrs); k++)
    if (attr_is(common_attrs[k], key)) return common_attrs[k];
  return hlo_op_is_unary_math(op) && attr_is(HLO_ATTR_RESULT_ACCURACY, key)
             ? HLO_ATTR_RESULT_ACCURACY
             : HLO_ATTR_NONE;
}

// Attributes that XLA reads and forgets.
static bool skip_ignored(hlo_parser *P, hlo_opcode op, hs_str key, bool *done) {
  *done = true;
  bool coll = hlo_op_has(op, HLO_F_COLLECTIVE);
  if (coll && hs_str_eq(key, HS_STR("mode"))) {
    static const char *const modes[] = {"cross_replica", "cross_partition",
                                        "cross_replica_and_partition", "flattened_id"};
    hs_str w = hlo_ident(LX);
    for (size_t k = 0; k < HS_COUNT(modes); k++)
      if (hs_str_eq(w, hs_str_of(modes[k]))) return true;
    return hlo_lex_error(LX, HS_E_ATTR, w.p, "expects a collective op group mode but sees: %.*s",
                         (int)HS_MIN(w.n, 60u), w.p);
  }
  hlo_ints dims;
  if (op == HLO_RAGGED_ALL_TO_ALL && hs_str_eq(key, HS_STR("dimensions")))
    return hlo_read_ints(P, '{', '}', &dims);
  return *done = false, true;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool unexpected_attr(hlo_parser *P, hlo_opcode op, hs_str key) {
  HS_VEC(const char *) all = {0};
  for (size_t k = 0; k < HS_COUNT(common_attrs); k++)
    hs_vec_push(&all, hlo_attr_text(common_attrs[k]));
  for (const hlo_op_attr *a = hlo_ops[op].attrs; a->id; a++)
    hs_vec_push(&all, hlo_attr_text(a->id));
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

// Keeps the attributes from `mark` on ordered by id; an insertion, as there are few and mostly in
// order.
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
      return hlo_lex_error(LX, HS_E_SYNTAX, NULL,
                           "expects ', ' and an attribute name directly followed by '='");
    }
    LX->p++;
    hlo_attr a = {.id = find_attr(r->op, key)};
    if (!a.id && (r->sugar || r->op == HLO_ASYNC_UPDATE || r->op == HLO_ASYNC_DONE))
      a.id = find_attr(HLO_ASYNC_START, key);
    if (!a.id) {
      bool done;
      if (!skip_ignored(P, r->op, key, &done)) return false;
      if (done) continue;
      return unexpected_attr(P, r->op, key);
    }
    if (seen[a.id / 64] >> (a.id % 64) & 1)
      return hlo_lex_error(LX, HS_E_ATTR, key.p, "attribute %.*s already exists", (int)key.n,
                           key.p);
    seen[a.id / 64] |= (u64)1 << (a.id % 64);
    if (!hlo_read_attr(P, &a)) return false;
    if (a.id != HLO_ATTR_CONTROL_PREDECESSORS && !hlo_attr_droppable(r->op, &a))
      put_attr(P, r->attrs, a);
  }
  if (r->sugar == 'u' || r->sugar == 'd') return true;
  for (const hlo_op_attr *a = hlo_ops[r->op].attrs; a->id; a++) {
    if (!a->required || seen[a->id / 64] >> (a->id % 64) & 1) continue;
    bool scalar_broadcast = r->op == HLO_BROADCAST && P->operands.n > r->operands &&
                            hlo_shape_is_scalar(P->operands.v[r->operands]->shape);
    if (!scalar_broadcast) return hlo_missing_attr(P, r, a->id);
    put_attr(P, r->attrs, (hlo_attr){.id = HLO_ATTR_DIMENSIONS});
  }
  return true;
}

// What opcodes of 2018 and before, which XLA no longer reads either, are today.
static const char *todays_form(const char *word) {
  static const struct {
    const char *old, *now;
  } all[] = {{"equal-to", "compare(..), direction=EQ"},
             {"not-equal-to", "compare(..), direction=NE"},
             {"less-than", "compare(..), direction=LT"},
             {"less-than-or-equal-to", "compare(..), direction=LE"},
             {"greater-than", "compare(..), direction=GT"},
             {"greater-than-or-equal-to", "compare(..), direction=GE"},
             {"cross-replica-sum", "all-reduce(..), replica_groups={}, to_apply=SUM"}};
  for (size_t k = 0; k < HS_COUNT(all); k++)
    if (strcmp(word, all[k].old) == 0) return all[k].now;
  return NULL;
}

static bool unknown_opcode(hlo_parser *P, hs_str text) {
  const char *all[HLO_OPCODE_COUNT];
  for (int k = 1; k < HLO_OPCODE_COUNT; k++) all[k - 1] = hlo_op_text((hlo_opcode)k);
  char *word = hs_format("%.*s", (int)HS_MIN(text.n, 200u), text.p);
  hlo_lex_error(LX, HS_E_OPCODE, text.p, "Unknown opcode: %s", word);
  const char *now = todays_form(word), *near = hs_nearest(word, all, HLO_OPCODE_COUNT - 1);
  if (now) hlo_lex_note(LX, "today that is %s", now);
  else if (near) hlo_lex_note(LX, "did you mean %s?", near);
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

bool hlo_read_rhs(hlo_parser *P, hs_str name, bool with_attrs, hlo_instr **out) {
  hlo_rhs r = {.operands = P->operands.n, .attrs = P->attrs.n, .ctrl = P->ctrl.n};
  *out = NULL;
  if (!hlo_lex_enter(LX)) return false;
  r.at = (hlo_skip(LX), LX->p);
  bool ok =
      (r.shape = hlo_recall_shape(P)) || !hlo_shape_follows(P) || (r.shape = hlo_read_shape(P));
  ok = ok && read_opcode(P, &r) && read_operands(P, &r);
  ok = ok && read_attrs(P, &r, with_attrs) && hlo_complete_rhs(P, &r) &&
       hlo_make_instr(P, &r, name, out);
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
  if (name.n > 1 && name.p[0] == '_' && name.p[1] == '_' &&
      !(name.n >= 6 && memcmp(name.p, "__xla_", 6) == 0))
    return hlo_lex_error(LX, HS_E_NAME, name.p, "illegal instruction name: %.*s", (int)name.n,
                         name.p);
  char a = name.p[0], b = name.n > 1 ? name.p[1] : 0;
  bool like_type = name.n < 16 && (hlo_is_ch(b, HLO_CH_DIGIT) || a == 'p' || a == 't' || a == 'o' ||
                                   (a == 'b' && b == 'f'));
  if (like_type && hlo_dtype_find(name) != HLO_DT_INVALID)
    return hlo_lex_error(LX, HS_E_NAME, name.p,
                         "illegal instruction name: %.*s; suggest renaming to: %.*s_", (int)name.n,
                         name.p, (int)name.n, name.p);
  return true;
}

// ROOT? name = rhs
bool hlo_read_instruction(hlo_parser *P, hs_str *name, bool *is_root, hlo_instr **out) {
  *name = (hs_str){0};
  if (!hlo_lex_ahead(LX)) return false;
  *is_root = hlo_accept_word(LX, "ROOT");
  if (!hlo_name(LX, name)) return false;
  hlo_names_prefetch_(P->m->names, hlo_name_hash_(*name));
  if (!hlo_accept(LX, '='))
    return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects '=' in instruction");
  if (!legal_name(P, *name) || !hlo_read_rhs(P, *name, true, out)) return false;
  if (!hlo_bind_instr(P, *name, *out))
    return hlo_lex_error(LX, HS_E_REDEFINED, name->p, "instruction already exists: %.*s",
                         (int)name->n, name->p);
  return true;
}
