// parse_attr.c — attribute values by their kind (attrs.def): one reader per kind, and at the end
// the switch that selects it. Values without references to instructions are remembered by their
// text (parse_memo.c), since metadata and shardings repeat from line to line. Grammar:
// ParseAttributeHelper in XLA's hlo_parser.cc.
#include "core/text/parse.h"

// ---- enums, precisions --------------------------------------------------------------------------
static bool exact_case(hlo_attr_kind k) {
  return k == HLO_AK_ENUM_DIRECTION || k == HLO_AK_ENUM_COMPARE_TYPE ||
         k == HLO_AK_ENUM_FUSION_KIND || k == HLO_AK_ENUM_FFT_TYPE ||
         k == HLO_AK_ENUM_PADDING_TYPE || k == HLO_AK_ENUM_TRANSPOSE || k == HLO_AK_ENUM_CONV_KIND;
}

static const char *enum_what(hlo_attr_id id) {
  switch (id) {
  case HLO_ATTR_DIRECTION: return "comparison direction";
  case HLO_ATTR_COMPARE_TYPE: return "comparison type";
  case HLO_ATTR_KIND: return "fusion kind";
  case HLO_ATTR_FFT_TYPE: return "fft type";
  case HLO_ATTR_DISTRIBUTION: return "random distribution";
  default: return hlo_attr_text(id);
  }
}

static bool read_enum(hlo_parser *P, hlo_attr_id id, hlo_attr_kind kind, i64 *out) {
  hs_str w = hlo_ident(LX);
  *out = w.n ? hlo_enum_find(kind, w, !exact_case(kind)) : -1;
  if (*out >= 0) {
    if (id == HLO_ATTR_API_VERSION && *out == HLO_API_VERSION_UNSPECIFIED)
      return hlo_lex_error(LX, HS_E_ATTR, w.p, "Invalid API version %.*s", (int)w.n, w.p);
    return true;
  }
  if (id == HLO_ATTR_API_VERSION)
    hlo_lex_error(LX, HS_E_ATTR, w.p, "Unknown API version: %.*s", (int)HS_MIN(w.n, 60u), w.p);
  else
    hlo_lex_error(LX, HS_E_ATTR, w.p, "expects %s but sees: %.*s", enum_what(id),
                  (int)HS_MIN(w.n, 60u), w.p);
  const char *texts[32];
  size_t n = 0;
  for (const char *t; n < HS_COUNT(texts) && (t = hlo_enum_text(kind, (i64)n)); n++) texts[n] = t;
  hs_buf b = {0};
  for (size_t i = 0; i < n; i++) hs_buf_printf(&b, "%s%s", i ? ", " : "", texts[i]);
  hlo_lex_note(LX, "one of: %s", hs_buf_cstr(&b));
  hs_buf_free(&b);
  return false;
}

static bool read_precisions(hlo_parser *P, hlo_ints *out) {
  size_t mark = P->ints.n;
  if (!hlo_expect(LX, '{', "in front of precisions")) return false;
  while (hlo_peek(LX) != '}') {
    hs_str w = hlo_ident(LX);
    i64 v = w.n ? hlo_enum_find(HLO_AK_ENUM_PRECISION, w, true) : -1;
    if (v < 0)
      return hlo_lex_error(LX, HS_E_ATTR, w.p, "expects precision but sees: %.*s",
                           (int)HS_MIN(w.n, 60u), w.p);
    hs_vec_push(&P->ints, v);
    if (!hlo_accept(LX, ',')) break;
  }
  *out = hlo_keep_ints(P, mark);
  return hlo_expect(LX, '}', "at the end of precisions");
}

// ---- computations, shapes -----------------------------------------------------------------------
static bool read_comps(hlo_parser *P, hlo_comps *out) {
  HS_VEC(hlo_computation *) all = {0};
  bool ok = hlo_expect(LX, '{', "in front of a list of computations");
  while (ok && hlo_peek(LX) != '}') {
    hlo_computation *c;
    ok = hlo_read_comp(P, &c);
    if (ok) hs_vec_push(&all, c);
    if (!hlo_accept(LX, ',')) break;
  }
  ok = ok && hlo_expect(LX, '}', "at the end of a list of computations");
  if (ok) *out = (hlo_comps){(u32)all.n, hs_arena_dup(LX->arena, all.v, all.n * sizeof *all.v)};
  hs_vec_free(&all);
  return ok;
}

static bool read_shapes(hlo_parser *P, char open, char close, u32 *n,
                        const hlo_shape *const **out) {
  size_t mark = P->shapes.n;
  bool ok = hlo_expect(LX, open, "in front of a list of shapes");
  while (ok && hlo_peek(LX) != close) {
    const hlo_shape *s = hlo_read_shape(P);
    ok = s != NULL;
    if (ok) hs_vec_push(&P->shapes, s);
    if (!hlo_accept(LX, ',')) break;
  }
  ok = ok && hlo_expect(LX, close, "at the end of a list of shapes");
  if (ok) {
    *n = (u32)(P->shapes.n - mark);
    *out = *n ? hs_arena_dup(LX->arena, P->shapes.v + mark, *n * sizeof **out) : NULL;
  }
  P->shapes.n = mark;
  return ok;
}

static bool read_program_shape(hlo_parser *P, const hlo_program_shape **out) {
  hlo_program_shape *s = HS_NEW(LX->arena, hlo_program_shape);
  *out = s;
  if (!hlo_expect(LX, '{', "at the start of the layout") ||
      !read_shapes(P, '(', ')', &s->n, &s->params))
    return false;
  if (!hlo_accept_text(LX, "->"))
    return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects '->' in the entry computation layout");
  return (s->result = hlo_read_shape(P)) && hlo_expect(LX, '}', "at the end of the layout");
}

// ---- aliasing -----------------------------------------------------------------------------------
static bool read_alias(hlo_parser *P, hlo_attr_kind kind, hlo_alias_entry *e) {
  *e = (hlo_alias_entry){0};
  if (kind != HLO_AK_DONORS &&
      (!hlo_read_index(P, &e->out_index) || !hlo_expect(LX, ':', "behind the output index")))
    return false;
  if (!hlo_expect(LX, '(', "in the aliasing") || !hlo_int(LX, &e->param) ||
      !hlo_expect(LX, ',', "in the aliasing") || !hlo_read_index(P, &e->param_index))
    return false;
  if (kind == HLO_AK_IO_ALIAS && hlo_accept(LX, ',')) {
    const char *at = (hlo_skip(LX), LX->p);
    if (hlo_accept_word(LX, "must-alias")) e->must = true;
    else if (!hlo_accept_word(LX, "may-alias"))
      return hlo_lex_error(
          LX, HS_E_ATTR, at,
          "Unexpected aliasing kind; expected SYSTEM or USER: may-alias or must-alias");
  }
  return hlo_expect(LX, ')', "at the end of the aliasing");
}

static bool read_aliases(hlo_parser *P, hlo_attr_kind kind, const hlo_aliases **out) {
  HS_VEC(hlo_alias_entry) all = {0};
  bool ok = hlo_expect(LX, '{', "at the start of aliasing description");
  while (ok && hlo_peek(LX) != '}') {
    hlo_alias_entry e;
    ok = read_alias(P, kind, &e);
    if (ok) hs_vec_push(&all, e);
    if (!hlo_accept(LX, ',')) break;
  }
  ok = ok && hlo_expect(LX, '}', "at the end of aliasing description");
  if (ok) {
    hlo_aliases *a = HS_NEW(LX->arena, hlo_aliases);
    *a = (hlo_aliases){(u32)all.n, hs_arena_dup(LX->arena, all.v, all.n * sizeof *all.v)};
    *out = a;
  }
  hs_vec_free(&all);
  return ok;
}

static bool read_result_accuracy(hlo_parser *P, const hlo_result_accuracy **out) {
  hlo_result_accuracy *r = HS_NEW(LX->arena, hlo_result_accuracy);
  *out = r;
  if (!hlo_expect(LX, '{', "in front of the result accuracy")) return false;
  const char *at = (hlo_skip(LX), LX->p);
  if (hlo_accept_word(LX, "mode")) {
    if (!hlo_expect(LX, '=', "behind mode")) return false;
    hs_str w = hlo_ident(LX);
    r->has_mode = true;
    if (w.n == 7 && strncasecmp(w.p, "highest", 7) == 0) r->mode = 1;
    else if (w.n != 7 || strncasecmp(w.p, "default", 7) != 0)
      return hlo_lex_error(LX, HS_E_ATTR, w.p, "expects ResultAccuracy type but sees: %.*s",
                           (int)HS_MIN(w.n, 60u), w.p);
    return hlo_expect(LX, '}', "at the end of the result accuracy");
  }
  if (!hlo_accept_word(LX, "tolerance") || !hlo_accept(LX, '=') || !hlo_accept(LX, '{'))
    return hlo_lex_error(LX, HS_E_ATTR, at, "expects attribute name: mode= or tolerance={...}");
  r->has_tolerance = true;
  while (hlo_peek(LX) != '}') {
    hs_str key = hlo_ident(LX);
    if (!hlo_expect(LX, '=', "in the tolerance")) return false;
    if (hs_str_eq(key, HS_STR("atol"))   ? !hlo_double(LX, &r->atol)
        : hs_str_eq(key, HS_STR("rtol")) ? !hlo_double(LX, &r->rtol)
        : hs_str_eq(key, HS_STR("ulps"))
            ? !hlo_int(LX, &r->ulps)
            : !hlo_lex_error(LX, HS_E_ATTR, key.p, "expects atol, rtol or ulps"))
      return false;
    if (!hlo_accept(LX, ',')) break;
  }
  return hlo_expect(LX, '}', "at the end of the tolerance") &&
         hlo_expect(LX, '}', "at the end of the result accuracy");
}

static bool read_sparsity_side(hlo_parser *P, hlo_sparsity_side *s) {
  s->present = true;
  if (!hlo_expect(LX, '=', "in the sparsity configuration") ||
      !hlo_expect(LX, '{', "in the sparsity configuration"))
    return false;
  while (hlo_peek(LX) != '}') {
    hs_str key = hlo_ident(LX);
    if (!hlo_expect(LX, '=', "in the sparsity configuration")) return false;
    if (hs_str_eq(key, HS_STR("sparsity"))) {
      if (!hlo_int(LX, &s->num_non_zero) || !hlo_expect(LX, 'x', "in the sparsity") ||
          !hlo_int(LX, &s->block_size))
        return false;
      continue;
    }
    i64 *to = hs_str_eq(key, HS_STR("dimension")) ? &s->dimension
              : hs_str_eq(key, HS_STR("stride"))  ? &s->stride
              : hs_str_eq(key, HS_STR("idx"))     ? &s->idx
                                                  : NULL;
    if (!to)
      return hlo_lex_error(LX, HS_E_ATTR, key.p, "expects sparsity, dimension, stride or idx");
    if (!hlo_int(LX, to)) return false;
  }
  LX->p++;
  return true;
}

static bool read_sparsity(hlo_parser *P, const hlo_sparsity **out) {
  hlo_sparsity *s = HS_NEW(LX->arena, hlo_sparsity);
  *out = s;
  if (!hlo_expect(LX, '{', "in front of the sparsity configuration")) return false;
  while (hlo_peek(LX) != '}') {
    bool lhs = hlo_accept_word(LX, "lhs");
    if (!lhs && !hlo_accept_word(LX, "rhs"))
      return hlo_lex_error(LX, HS_E_ATTR, NULL, "expects lhs or rhs");
    if (!read_sparsity_side(P, lhs ? &s->lhs : &s->rhs)) return false;
  }
  LX->p++;
  return true;
}

static bool read_domain(hlo_parser *P, const hlo_domain **out) {
  hlo_domain *d = HS_NEW(LX->arena, hlo_domain);
  *out = d;
  if (!hlo_expect(LX, '{', "in front of the domain")) return false;
  while (hlo_peek(LX) != '}') {
    hs_str key = hlo_ident(LX);
    if (!hlo_expect(LX, '=', "in the domain")) return false;
    bool ok = hs_str_eq(key, HS_STR("kind"))    ? hlo_string_copy(LX, &d->kind)
              : hs_str_eq(key, HS_STR("entry")) ? hlo_read_sharding(P, &d->entry)
              : hs_str_eq(key, HS_STR("exit"))
                  ? hlo_read_sharding(P, &d->exit)
                  : hlo_lex_error(LX, HS_E_ATTR, key.p, "expects kind, entry or exit");
    if (!ok) return false;
    if (!hlo_accept(LX, ',')) break;
  }
  if (!hlo_expect(LX, '}', "at the end of the domain")) return false;
  if (!d->entry || !d->exit || !hs_str_eq(d->kind, HS_STR("sharding")))
    return hlo_lex_error(LX, HS_E_ATTR, NULL,
                         "expects kind=\"sharding\", entry and exit in the domain");
  return true;
}

static bool read_control(hlo_parser *P) {
  if (!hlo_expect(LX, '{', "in front of control predecessors")) return false;
  if (hlo_peek(LX) == '}')
    return hlo_lex_error(LX, HS_E_ATTR, NULL, "expects at least one control predecessor");
  do {
    hlo_instr *i;
    if (!hlo_read_instr_name(P, &i)) return false;
    hs_vec_push(&P->ctrl, i);
  } while (hlo_accept(LX, ','));
  return hlo_expect(LX, '}', "at the end of control predecessors");
}

static bool read_text(hlo_parser *P, hs_str *out) {
  if (!hlo_braced(LX, out)) return false;
  out->p = hs_arena_strndup(LX->arena, out->p, out->n);
  return true;
}

// literal=s32[2]{0} {1, 2} or ( s32[] 1, ... )
static bool read_shaped_literal(hlo_parser *P, hlo_literal **out) {
  const hlo_shape *s = NULL;
  if (hlo_peek(LX) != '(') {
    s = hlo_read_shape(P);
    return s && hlo_read_literal(P, s, out);
  }
  if (!hlo_lex_enter(LX)) return false;
  LX->p++;
  HS_VEC(hlo_literal *) kids = {0};
  size_t mark = P->shapes.n;
  bool ok = true;
  while (ok && hlo_peek(LX) != ')') {
    hlo_literal *k = NULL;
    ok = read_shaped_literal(P, &k);
    if (ok) {
      hs_vec_push(&kids, k);
      hs_vec_push(&P->shapes, k->shape);
    }
    if (!hlo_accept(LX, ',')) break;
  }
  ok = ok && hlo_expect(LX, ')', "at the end of the tuple literal");
  hlo_lex_leave(LX);
  if (ok)
    *out =
        hlo_literal_tuple(hlo_shape_tuple(P->ctx, (u32)kids.n, kids.n ? P->shapes.v + mark : NULL),
                          (u32)kids.n, kids.v);
  else
    for (size_t i = 0; i < kids.n; i++) hlo_literal_unref(kids.v[i]);
  P->shapes.n = mark;
  hs_vec_free(&kids);
  return ok;
}

// ---- by kind ------------------------------------------------------------------------------------
// Values that depend on their text alone, begin with '{' and repeat often.
static bool memorable(hlo_attr_kind kind) {
  return kind == HLO_AK_METADATA || kind == HLO_AK_SHARDING || kind == HLO_AK_FRONTEND ||
         kind == HLO_AK_BACKEND_CONFIG || kind == HLO_AK_SLICES || kind == HLO_AK_REPLICA_GROUPS ||
         kind == HLO_AK_WINDOW || kind == HLO_AK_ORIGIN;
}

static bool read_value(hlo_parser *P, hlo_attr *a);

// Most of these values end their line, and the end of a line is found faster than that of a value:
// it is tried first. A wrong guess is harmless: text that is found in the memo was parsed before
// and was exactly one value.
static bool recall(hlo_parser *P, u32 kind, hlo_attr *a, const char *stop, u32 *hash) {
  size_t n = (size_t)(stop - LX->p);
  *hash = hlo_memo_hash(LX->p, n);
  a->v.p = hlo_memo_get(&P->memo, *hash, kind, LX->p, n);
  return a->v.p && (LX->p = stop, true);
}

bool hlo_read_attr(hlo_parser *P, hlo_attr *a) {
  enum { LONG_LINE = 4096 };
  hlo_attr_kind kind = hlo_attr_kind_of(a->id);
  if (!memorable(kind) || hlo_peek(LX) != '{') return read_value(P, a);
  const char *start = LX->p, *limit = LX->end - start > LONG_LINE ? start + LONG_LINE : LX->end,
             *stop = hlo_scan_for(start, limit, '\n');
  u32 hash = 0;
  if (stop < limit && recall(P, kind, a, stop, &hash)) return true;
  if (P->values_inside || stop == limit) {
    size_t n = hlo_braced_length(start, LX->end);
    if (n && start + n != stop && recall(P, kind, a, stop = start + n, &hash)) return true;
  }
  if (!read_value(P, a)) return false;
  // not const before the text is read
  hlo_metadata *md = kind == HLO_AK_METADATA ? (hlo_metadata *)(uintptr_t)a->v.p : NULL;
  if (md && md->stack_frame_id) hs_vec_push(&P->framed, md);
  size_t n = (size_t)(LX->p - start);
  if (LX->p != stop) P->values_inside = true, hash = hlo_memo_hash(start, n);
  hlo_memo_put(&P->memo, hash, kind, start, n, a->v.p);
  return true;
}

static bool read_value(hlo_parser *P, hlo_attr *a) {
  hlo_attr_kind kind = hlo_attr_kind_of(a->id);
  switch (kind) {
  case HLO_AK_INT: return hlo_int(LX, &a->v.i);
  case HLO_AK_BOOL: return hlo_bool(LX, &a->v.i);
  case HLO_AK_FLOAT: return hlo_double(LX, &a->v.f);
  case HLO_AK_STRING: return hlo_string_copy(LX, &a->v.s);
  case HLO_AK_TEXT: return read_text(P, &a->v.s);
  case HLO_AK_INTS: return hlo_read_ints(P, '{', '}', &a->v.ints);
  case HLO_AK_BOOLS: return hlo_read_bools(P, &a->v.ints);
  case HLO_AK_PAIRS: return hlo_read_pairs(P, &a->v.ints);
  case HLO_AK_PRECISIONS: return read_precisions(P, &a->v.ints);
  case HLO_AK_INT_LISTS: {
    hlo_int_lists *l = HS_NEW(LX->arena, hlo_int_lists);
    a->v.p = l;
    return hlo_read_int_lists(P, l);
  }
  case HLO_AK_COMP: return hlo_read_comp(P, &a->v.comp);
  case HLO_AK_COMPS: return read_comps(P, &a->v.comps);
  case HLO_AK_LITERAL: return read_shaped_literal(P, &a->v.literal);
  case HLO_AK_SHAPE: return (a->v.shape = hlo_read_shape(P)) != NULL;
  case HLO_AK_SHAPES: {
    hlo_shapes *s = HS_NEW(LX->arena, hlo_shapes);
    a->v.p = s;
    return read_shapes(P, '{', '}', &s->n, &s->v);
  }
  case HLO_AK_CONTROL: return read_control(P);
#define STRUCT(kind_, type, reader) \
  case HLO_AK_##kind_: {            \
    const type *v = NULL;           \
    bool ok = reader;               \
    a->v.p = v;                     \
    return ok;                      \
  }
    STRUCT(SLICES, hlo_slices, hlo_read_slices(P, &v))
    STRUCT(PADDING, hlo_padding, hlo_read_padding(P, &v))
    STRUCT(WINDOW, hlo_window, hlo_read_window(P, &v))
    STRUCT(DIM_LABELS, hlo_dim_labels, hlo_read_dim_labels(P, &v))
    STRUCT(REPLICA_GROUPS, hlo_replica_groups, hlo_read_replica_groups(P, &v))
    STRUCT(OUTPUT_ALIASING, hlo_aliases, read_aliases(P, kind, &v))
    STRUCT(IO_ALIAS, hlo_aliases, read_aliases(P, kind, &v))
    STRUCT(DONORS, hlo_aliases, read_aliases(P, kind, &v))
    STRUCT(SHARDING, hlo_sharding, hlo_read_sharding(P, &v))
    STRUCT(DOMAIN, hlo_domain, read_domain(P, &v))
    STRUCT(FRONTEND, hlo_frontend, hlo_read_frontend(P, &v))
    STRUCT(STATISTICS, hlo_statistics, hlo_read_statistics(P, &v))
    STRUCT(RESULT_ACCURACY, hlo_result_accuracy, read_result_accuracy(P, &v))
    STRUCT(ORIGIN, hlo_origin, hlo_read_origin(P, &v))
    STRUCT(METADATA, hlo_metadata, hlo_read_metadata(P, &v))
    STRUCT(BACKEND_CONFIG, hlo_backend_config, hlo_read_backend_config(P, &v))
    STRUCT(SPARSITY, hlo_sparsity, read_sparsity(P, &v))
    STRUCT(PROGRAM_SHAPE, hlo_program_shape, read_program_shape(P, &v))
#undef STRUCT
  default: return read_enum(P, a->id, kind, &a->v.i);
  }
}
