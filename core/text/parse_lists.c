// parse_lists.c — lists of integers and booleans, in braces: {0,2,1}, {{0,1},{2,3}},
// {true,false}, source_target_pairs and indices into tuple shapes. They are collected on the
// parser's stack P->ints and moved to the arena when their length is known; the common form, a few
// digits between commas without blanks, is read without that.
#include "core/text/parse.h"

hlo_ints hlo_keep_ints(hlo_parser *P, size_t mark) {
  hlo_ints out = {(u32)(P->ints.n - mark), NULL};
  if (out.n) out.v = hs_arena_dup(LX->arena, P->ints.v + mark, out.n * sizeof(i64));
  P->ints.n = mark;
  return out;
}

// {0,2,1,3}, as printed: the cursor moves only when that is what stands there.
static bool plain_ints(hlo_parser *P, hlo_ints *out) {
  i64 v[16];
  u32 n = 0;
  const char *p = LX->p, *end = LX->end;
  if (end - p < 2 || *p != '{') return false;
  do {
    const char *first = ++p;
    i64 x = 0;
    while (p < end && p - first < 18 && hlo_is_ch(*p, HLO_CH_DIGIT)) x = x * 10 + (*p++ - '0');
    if (p == first || p == end || n == HS_COUNT(v)) return false;
    v[n++] = x;
  } while (*p == ',');
  if (*p != '}') return false;
  *out = (hlo_ints){n, hs_arena_dup(LX->arena, v, n * sizeof *v)};
  return LX->p = p + 1, true;
}

bool hlo_read_ints(hlo_parser *P, char open, char close, hlo_ints *out) {
  size_t mark = P->ints.n;
  *out = (hlo_ints){0};
  if (open == '{' && plain_ints(P, out)) return true;
  if (!hlo_expect(LX, open, "in front of a list of integers")) return false;
  if (!hlo_accept(LX, close)) {
    do {
      i64 v;
      if (!hlo_int(LX, &v)) return P->ints.n = mark, false;
      hs_vec_push(&P->ints, v);
    } while (hlo_accept(LX, ','));
    if (!hlo_expect(LX, close, "at the end of a list of integers")) return P->ints.n = mark, false;
  }
  *out = hlo_keep_ints(P, mark);
  return true;
}

bool hlo_read_bools(hlo_parser *P, hlo_ints *out) {
  size_t mark = P->ints.n;
  i64 v;
  if (hlo_peek(LX) != '{') {  // a single one may stand without braces
    if (!hlo_bool(LX, &v)) return false;
    hs_vec_push(&P->ints, v);
  } else {
    LX->p++;
    while (hlo_peek(LX) != '}') {
      if (!hlo_bool(LX, &v)) return false;
      hs_vec_push(&P->ints, v);
      if (!hlo_accept(LX, ',')) break;
    }
    if (!hlo_expect(LX, '}', "at the end of a list")) return false;
  }
  *out = hlo_keep_ints(P, mark);
  return true;
}

bool hlo_read_int_lists(hlo_parser *P, hlo_int_lists *out) {
  HS_VEC(hlo_ints) lists = {0};
  bool ok = hlo_expect(LX, '{', "in front of a list of lists");
  while (ok && hlo_peek(LX) != '}') {
    hlo_ints l;
    ok = hlo_read_ints(P, '{', '}', &l);
    if (ok) hs_vec_push(&lists, l);
    if (!hlo_accept(LX, ',')) break;
  }
  ok = ok && hlo_expect(LX, '}', "at the end of a list of lists");
  if (ok)
    *out =
        (hlo_int_lists){(u32)lists.n, hs_arena_dup(LX->arena, lists.v, lists.n * sizeof *lists.v)};
  hs_vec_free(&lists);
  return ok;
}

bool hlo_read_pairs(hlo_parser *P, hlo_ints *out) {
  const char *at = (hlo_skip(LX), LX->p);
  hlo_int_lists l;
  if (!hlo_read_int_lists(P, &l)) return false;
  size_t mark = P->ints.n;
  for (u32 i = 0; i < l.n; i++) {
    if (l.v[i].n != 2)
      return hlo_lex_error(LX, HS_E_ATTR, at,
                           "expects 'source_target_pairs' to be a list of pairs");
    hs_vec_push(&P->ints, l.v[i].v[0]);
    hs_vec_push(&P->ints, l.v[i].v[1]);
  }
  *out = hlo_keep_ints(P, mark);
  out->n /= 2;
  return true;
}

bool hlo_read_index(hlo_parser *P, hlo_ints *out) {
  size_t mark = P->ints.n;
  if (!hlo_accept(LX, '{'))
    return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "Expects '{' at the start of ShapeIndex");
  while (hlo_peek(LX) != '}') {
    i64 v;
    if (!hlo_int(LX, &v)) return false;
    if (v < 0) return hlo_lex_error(LX, HS_E_LIMIT, NULL, "the index is past the largest number");
    hs_vec_push(&P->ints, v);
    if (!hlo_accept(LX, ',')) break;
  }
  if (!hlo_accept(LX, '}'))
    return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "Expects '}' at the end of ShapeIndex");
  *out = hlo_keep_ints(P, mark);
  return true;
}
