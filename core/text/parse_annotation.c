// parse_annotation.c — attribute values without influence on the result of an instruction:
// metadata, frontend attributes, statistics, original values, backend configurations. Grammar:
// ParseMetadata, ParseFrontendAttributes, ParseOriginalValue and their neighbours in XLA's
// hlo_parser.cc.
#include "core/text/parse.h"

#include <stdlib.h>

static int by_key(const void *a, const void *b) {
  const hlo_frontend_entry *x = a, *y = b;
  int c = memcmp(x->key.p, y->key.p, HS_MIN(x->key.n, y->key.n));
  return c ? c : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

bool hlo_read_frontend(hlo_parser *P, const hlo_frontend **out) {
  HS_VEC(hlo_frontend_entry) all = {0};
  bool ok = hlo_expect(LX, '{', "in front of frontend attributes");
  while (ok && hlo_peek(LX) != '}') {
    hlo_frontend_entry e;
    hs_str key = hlo_ident(LX);
    if (!key.n) {
      ok = hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects the name of a frontend attribute");
      break;
    }
    e.key = hs_str_of(hlo_intern(P->ctx, key.p, key.n));
    ok = hlo_expect(LX, '=', "behind the name of a frontend attribute");
    if (ok && hlo_peek(LX) == '{') {
      ok = hlo_braced(LX, &e.value);
      if (ok) e.value.p = hs_arena_strndup(LX->arena, e.value.p, e.value.n);
    } else if (ok) {
      ok = hlo_string_copy(LX, &e.value);
    }
    if (ok) hs_vec_push(&all, e);
    if (!hlo_accept(LX, ',')) break;
  }
  ok = ok && hlo_expect(LX, '}', "at the end of frontend attributes");
  if (ok) {
    if (all.n > 1) qsort(all.v, all.n, sizeof *all.v, by_key);
    hlo_frontend *f = HS_NEW(LX->arena, hlo_frontend);
    *f = (hlo_frontend){(u32)all.n, hs_arena_dup(LX->arena, all.v, all.n * sizeof *all.v)};
    *out = f;
  }
  hs_vec_free(&all);
  return ok;
}

bool hlo_read_statistics(hlo_parser *P, const hlo_statistics **out) {
  hlo_statistics *s = HS_NEW(LX->arena, hlo_statistics);
  *out = s;
  if (!hlo_expect(LX, '{', "in front of statistics")) return false;
  HS_VEC(hlo_stat) all = {0};
  bool ok = true, first = true;
  while (ok && hlo_peek(LX) != '}') {
    hs_str key = hlo_ident(LX);
    ok = (key.n || hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects the name of a statistic")) &&
         hlo_expect(LX, '=', "in the statistics");
    if (ok && first) {
      ok = hlo_int(LX, &s->visualizing_index);
    } else if (ok) {
      hlo_stat e = {{hlo_intern(P->ctx, key.p, key.n), key.n}, 0};
      ok = hlo_double(LX, &e.value);
      if (ok) hs_vec_push(&all, e);
    }
    first = false;
    if (!hlo_accept(LX, ',')) break;
  }
  s->n = (u32)all.n;
  s->v = hs_arena_dup(LX->arena, all.v, all.n * sizeof *all.v);
  hs_vec_free(&all);
  return ok && hlo_expect(LX, '}', "at the end of statistics");
}

static bool read_origin_node(hlo_parser *P, const hlo_origin_node **out) {
  hlo_origin_node *n = HS_NEW(LX->arena, hlo_origin_node);
  *out = n;
  if (hlo_accept(LX, '{')) {
    if (hlo_accept(LX, '}')) return true;
    n->present = true;
    return hlo_string_copy(LX, &n->name) && (hlo_peek(LX) != '{' || hlo_read_index(P, &n->index)) &&
           hlo_expect(LX, '}', "at the end of the original array");
  }
  n->tuple = true;
  if (!hlo_expect(LX, '(', "in front of an original value") || !hlo_lex_enter(LX)) return false;
  HS_VEC(const hlo_origin_node *) kids = {0};
  bool ok = true;
  while (ok && hlo_peek(LX) != ')') {
    const hlo_origin_node *k;
    ok = read_origin_node(P, &k);
    if (ok) hs_vec_push(&kids, k);
    if (!hlo_accept(LX, ',')) break;
  }
  hlo_lex_leave(LX);
  ok = ok && hlo_expect(LX, ')', "at the end of an original value");
  n->nchildren = (u32)kids.n;
  n->children = hs_arena_dup(LX->arena, kids.v, kids.n * sizeof *kids.v);
  hs_vec_free(&kids);
  return ok;
}

bool hlo_read_origin(hlo_parser *P, const hlo_origin **out) {
  hlo_origin *o = HS_NEW(LX->arena, hlo_origin);
  *out = o;
  if (!hlo_expect(LX, '{', "in front of the original value")) return false;
  if (hlo_accept(LX, '[')) {
    o->synthetic = true;
    if (!hlo_accept_word(LX, "synthetic_call"))
      return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects synthetic_call");
    return hlo_expect(LX, ']', "behind synthetic_call") &&
           hlo_expect(LX, '}', "at the end of the original value");
  }
  return read_origin_node(P, &o->root) && hlo_expect(LX, '}', "at the end of the original value");
}

bool hlo_read_i32(hlo_parser *P, i32 *out) {
  const char *at = LX->p;
  i64 v;
  if (!hlo_int(LX, &v)) return false;
  if (v < INT32_MIN || v > INT32_MAX)
    return hlo_lex_error(LX, HS_E_ATTR, at, "expects a 32-bit integer");
  *out = (i32)v;
  return true;
}

bool hlo_read_metadata(hlo_parser *P, const hlo_metadata **out) {
  // kind: 0 string, 1 i32, 2 list, 3 bool and 4 int, ignored
  static const struct {
    const char *text;
    u8 length, kind;
    bool rest;
    u16 offset;
  } fields[] = {
#define F(name, member, kind) {name, sizeof(name) - 1, kind, false, offsetof(hlo_metadata, member)}
#define R(name, member, kind) \
  { name, sizeof(name) - 1, kind, true, offsetof(hlo_metadata_rest, member) }
      F("op_name", op_name, 0),
      F("op_type", op_type, 0),
      F("source_file", source_file, 0),
      F("source_line", source_line, 1),
      F("stack_frame_id", stack_frame_id, 1),
      F("source_end_line", source_end_line, 1),
      F("source_column", source_column, 1),
      F("source_end_column", source_end_column, 1),
      R("profile_type", profile_type, 2),
      R("deduplicated_name", deduplicated_name, 0),
      R("scheduling_name", scheduling_name, 0),
      R("metadata_payload", payload, 0),
      F("preserve_layout", op_name, 3),
      F("size_of_generated_code_in_bytes", op_name, 4),
      F("size_of_memory_working_set_in_bytes", op_name, 4),
#undef F
#undef R
  };
  hlo_metadata *m = HS_NEW(LX->arena, hlo_metadata);
  hlo_metadata_rest *rest = NULL;
  *out = m;
  if (!hlo_expect(LX, '{', "to start metadata")) return false;
  while (hlo_peek(LX) != '}') {
    hs_str key = hlo_ident(LX);
    size_t k = 0;
    while (k < HS_COUNT(fields) &&
           !(fields[k].length == key.n && memcmp(fields[k].text, key.p, key.n) == 0))
      k++;
    if (k == HS_COUNT(fields))
      return hlo_lex_error(LX, HS_E_ATTR, key.p, "unexpected attribute \"%.*s\" in metadata",
                           (int)HS_MIN(key.n, 60u), key.p);
    if (!hlo_expect(LX, '=', "in metadata")) return false;
    if (fields[k].rest && !rest) m->rest = rest = HS_NEW(LX->arena, hlo_metadata_rest);
    void *to = (fields[k].rest ? (char *)rest : (char *)m) + fields[k].offset;
    i64 skip;
    bool ok = fields[k].kind == 0   ? hlo_string_copy(LX, to)
              : fields[k].kind == 1 ? hlo_read_i32(P, to)
              : fields[k].kind == 2 ? hlo_read_ints(P, '{', '}', to)
              : fields[k].kind == 3 ? hlo_bool(LX, &skip)
                                    : hlo_int(LX, &skip);
    if (!ok) return false;
    hlo_accept(LX, ',');
  }
  LX->p++;
  return true;
}

bool hlo_read_backend_config(hlo_parser *P, const hlo_backend_config **out) {
  hlo_backend_config *b = HS_NEW(LX->arena, hlo_backend_config);
  *out = b;
  b->raw_json = hlo_peek(LX) == '{';
  if (!b->raw_json) return hlo_string_copy(LX, &b->text);
  if (!hlo_braced(LX, &b->text)) return false;
  b->text.p = hs_arena_strndup(LX->arena, b->text.p, b->text.n);
  return true;
}
