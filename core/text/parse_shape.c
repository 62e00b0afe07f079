// parse_shape.c — shapes and layouts (XLA: ParseShape and ParseLayout in hlo_parser.cc). A module
// repeats few shapes many times, so a shape is first looked up by its exact text; only a text not
// seen before is parsed and interned.
#include "core/text/parse.h"

static bool read_dims(hlo_parser *P, u32 *rank, i64 *dims, bool *dynamic) {
  *rank = 0;
  if (!hlo_expect(LX, '[', "in the shape")) return false;
  if (hlo_accept(LX, ']')) return true;
  do {
    if (*rank == HLO_MAX_RANK)
      return hlo_lex_error(LX, HS_E_LIMIT, NULL, "rank above %d", HLO_MAX_RANK);
    i64 v = HLO_UNBOUNDED;
    bool dyn = true;
    const char *at = (hlo_skip(LX), LX->p);
    if (!hlo_accept(LX, '?')) {
      dyn = hlo_accept_text(LX, "<=");
      if (!hlo_int(LX, &v)) return false;
      if (v < 0) return hlo_lex_error(LX, HS_E_SYNTAX, at, "expects a dimension size of 0 or more");
    }
    dims[*rank] = v;
    dynamic[(*rank)++] = dyn;
  } while (hlo_accept(LX, ','));
  return hlo_expect(LX, ']', "at the end of the dimensions");
}

// '(' int ')' behind a one-letter layout part.
static bool read_part(hlo_parser *P, i64 *out) {
  return hlo_expect(LX, '(', "in the layout") && hlo_int(LX, out) &&
         hlo_expect(LX, ')', "in the layout");
}

static bool part(hlo_parser *P, const char *word) {
  hs_str id = hlo_peek_ident(LX);
  size_t n = strlen(word);
  if (id.n != n || memcmp(id.p, word, n) != 0) return false;
  LX->p += n;
  return true;
}

static bool read_tiles(hlo_parser *P, hlo_layout *l) {
  hlo_tile tiles[32];
  for (l->ntiles = 0; hlo_peek(LX) == '('; l->ntiles++) {
    if (l->ntiles == HS_COUNT(tiles))
      return hlo_lex_error(LX, HS_E_LIMIT, NULL, "more than 32 tiles");
    LX->p++;
    size_t mark = P->ints.n;
    do {
      i64 v = HLO_UNBOUNDED;
      if (!hlo_accept(LX, '*') && !hlo_int(LX, &v)) return false;
      hs_vec_push(&P->ints, v);
    } while (hlo_accept(LX, ','));
    if (!hlo_expect(LX, ')', "at the end of the tile")) return false;
    hlo_ints t = hlo_keep_ints(P, mark);
    tiles[l->ntiles] = (hlo_tile){t.n, t.v};
  }
  if (!l->ntiles)
    return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects '(' to start tile dimensions");
  l->tiles = hs_arena_dup(LX->arena, tiles, l->ntiles * sizeof *tiles);
  return true;
}

static bool read_splits(hlo_parser *P, hlo_layout *l) {
  hlo_split splits[32];
  for (l->nsplits = 0; hlo_peek(LX) == '('; l->nsplits++) {
    if (l->nsplits == HS_COUNT(splits))
      return hlo_lex_error(LX, HS_E_LIMIT, NULL, "more than 32 split configurations");
    LX->p++;
    i64 dim, v;
    if (!hlo_int(LX, &dim) || !hlo_expect(LX, ':', "in the split configuration")) return false;
    size_t mark = P->ints.n;
    do {
      if (!hlo_int(LX, &v)) return false;
      hs_vec_push(&P->ints, v);
    } while (hlo_accept(LX, ','));
    if (!hlo_expect(LX, ')', "at the end of the split configuration")) return false;
    hlo_ints t = hlo_keep_ints(P, mark);
    splits[l->nsplits] = (hlo_split){dim, t.n, t.v};
  }
  l->splits = hs_arena_dup(LX->arena, splits, l->nsplits * sizeof *splits);
  return true;
}

static bool read_unsigned_type(hlo_parser *P, hlo_dtype *out) {
  if (!hlo_expect(LX, '(', "in the layout")) return false;
  const char *at = (hlo_skip(LX), LX->p);
  *out = hlo_dtype_find(hlo_ident(LX));
  if (!hlo_dtype_is_unsigned(*out))
    return hlo_lex_error(LX, HS_E_LAYOUT, at, "expects an unsigned integer type");
  return hlo_expect(LX, ')', "in the layout");
}

// D(...) is checked and dropped: sparse layouts are gone from the language.
static bool read_dim_levels(hlo_parser *P) {
  if (!hlo_expect(LX, '(', "in the layout")) return false;
  do {
    hs_str id = hlo_ident(LX);
    if (id.n != 1 || !memchr("DCSH", id.p[0], 4))
      return hlo_lex_error(LX, HS_E_LAYOUT, id.p,
                           "expected a DimLevelType abbreviation (D, C, S, or H)");
    hlo_accept(LX, '+');
    hlo_accept(LX, '~');
  } while (hlo_accept(LX, ','));
  return hlo_expect(LX, ')', "at the end of the dimension levels");
}

static bool read_layout_parts(hlo_parser *P, hlo_layout *l) {
  if (part(P, "D") && !read_dim_levels(P)) return false;
  if (part(P, "T") && !read_tiles(P, l)) return false;
  if (part(P, "L") && !read_part(P, &l->tail_alignment)) return false;
  if (hlo_accept(LX, '#') && !read_unsigned_type(P, &l->index_type)) return false;
  if (hlo_accept(LX, '*') && !read_unsigned_type(P, &l->pointer_type)) return false;
  if (part(P, "E") && !read_part(P, &l->element_bits)) return false;
  if (part(P, "S") && !read_part(P, &l->memory_space)) return false;
  if (part(P, "SC") && !read_splits(P, l)) return false;
  if (part(P, "P"))
    return hlo_lex_error(LX, HS_E_LAYOUT, NULL,
                         "Layout has physical shape, but is not for a sparse array");
  if (part(P, "M") && !read_part(P, &l->metadata_prefix)) return false;
  return true;
}

static bool layout_follows(hlo_parser *P) {
  if (hlo_peek(LX) != '{') return false;
  const char *at = LX->p++;
  char c = hlo_peek(LX);
  bool yes = hlo_is_ch(c, HLO_CH_DIGIT) || c == ':' ||
             (c == '-' && hlo_is_ch(hlo_at(LX, 1), HLO_CH_DIGIT));
  LX->p = at;
  return yes;
}

static bool read_layout(hlo_parser *P, hlo_dtype type, u32 rank, const hlo_layout **out) {
  const char *at = LX->p++;
  i64 order[HLO_MAX_RANK];
  bool seen[HLO_MAX_RANK] = {0};
  hlo_layout l = {.tail_alignment = 1, .minor_to_major = order};
  if (hlo_peek(LX) != ':') {
    do {
      if (l.rank == HLO_MAX_RANK)
        return hlo_lex_error(LX, HS_E_LIMIT, NULL, "rank above %d", HLO_MAX_RANK);
      if (!hlo_int(LX, &order[l.rank])) return false;
      l.rank++;
    } while (hlo_accept(LX, ','));
  }
  if (hlo_accept(LX, ':') && !read_layout_parts(P, &l)) return false;
  if (!hlo_expect(LX, '}', "at the end of the layout")) return false;
  if (l.rank != rank)
    return hlo_lex_error(LX, HS_E_LAYOUT, at,
                         "Dimensions size is %u, but minor to major size is %u.", rank, l.rank);
  for (u32 i = 0; i < rank; i++) {
    if (order[i] < 0 || order[i] >= rank || seen[order[i]])
      return hlo_lex_error(LX, HS_E_LAYOUT, at,
                           "the layout's minor_to_major is no permutation of the dimensions");
    seen[order[i]] = true;
  }
  if (!hlo_dtype_is_array(type)) return *out = NULL, true;
  *out = hlo_layout_intern(P->ctx, &l);
  return true;
}

static const hlo_shape *read_array(hlo_parser *P, hlo_dtype type) {
  u32 rank;
  i64 dims[HLO_MAX_RANK];
  bool dynamic[HLO_MAX_RANK];
  const char *at = LX->p;
  if (!read_dims(P, &rank, dims, dynamic)) {
    if (LX->p < LX->end && (*LX->p == ')' || *LX->p == ','))
      hlo_lex_note(LX, "%s is an element type, and no instruction's name", hlo_dtype_text(type));
    return NULL;
  }
  const hlo_layout *layout = NULL;
  bool laid_out = layout_follows(P);
  if (laid_out && !read_layout(P, type, rank, &layout)) return NULL;
  if (!hlo_dtype_is_array(type)) {
    if (rank)
      return hlo_lex_error(LX, HS_E_SHAPE, at, "%s has no dimensions", hlo_dtype_text(type)), NULL;
    return type == HLO_TOKEN ? hlo_shape_token(P->ctx) : hlo_shape_opaque(P->ctx);
  }
  if (!hlo_lex_status(LX, hlo_shape_check_limits(type, rank, dims), at)) return NULL;
  if (!laid_out && !P->opt.keep_missing_layouts) layout = hlo_layout_default(P->ctx, rank);
  return hlo_shape_dynamic(P->ctx, type, rank, dims, dynamic, layout);
}

// ---- memo ---------------------------------------------------------------------------------------
// Where the text of a shape at p probably ends: type[...], type[...]{...}, or a balanced (...).
// A guess is enough: what is found under these very characters was read in detail once, and ended
// here.
static const char *probable_end(const hlo_parser *P, const char *p) {
  const char *end = P->lex.end;
  if (*p == '(') {
    enum { LONGEST = 1 << 16 };  // a nest of tuples is looked through at each of its levels
    int level = 0;
    if (end - p > LONGEST) end = p + LONGEST;
    for (; (p = hlo_scan_for2(p, end, '(', ')')) < end; p++) {
      level += *p == '(' ? 1 : -1;
      if (!level) return p + 1;
    }
    return NULL;
  }
  p = hlo_scan_for2(p, end, ']', ' ');
  if (end - p < 3 || *p != ']') return NULL;
  if (*++p == '{') return (p = hlo_scan_for2(p, end, '}', '\n')) < end ? p + 1 : NULL;
  if (*p != ' ') return *p == ',' || *p == ')' ? p : NULL;
  char c = p[1];  // a layout may stand behind blanks: read in detail
  return c == '{' || c == '/' || hlo_is_ch(c, HLO_CH_SPACE) ? NULL : p;
}

static const hlo_shape *read_typed(hlo_parser *P) {
  const char *start = LX->p;
  hs_str id = hlo_ident(LX);
  hlo_dtype type = id.n && id.n <= 16 ? hlo_dtype_find(id) : HLO_DT_INVALID;
  if (type != HLO_DT_INVALID) return read_array(P, type);
  LX->p = start;
  return hlo_lex_error(LX, HS_E_SYNTAX, start, "expected primitive type, saw %.*s",
                       (int)HS_MIN(id.n, 40u), id.p),
         NULL;
}

static const hlo_shape *read_tuple(hlo_parser *P) {
  const char *at = LX->p++;
  size_t mark = P->shapes.n;
  const hlo_shape *s = NULL;
  bool ok = true;
  if (!hlo_accept(LX, ')')) {
    do {
      const hlo_shape *e = hlo_read_shape(P);
      ok = e != NULL;
      if (ok) hs_vec_push(&P->shapes, e);
    } while (ok && hlo_accept(LX, ','));
    ok = ok && hlo_expect(LX, ')', "at the end of tuple shape");
  }
  if (ok) s = hlo_shape_tuple(P->ctx, (u32)(P->shapes.n - mark), P->shapes.v + mark);
  P->shapes.n = mark;
  return s && hlo_lex_status(LX, hlo_shape_check_tuple(s), at) ? s : NULL;
}

static const hlo_shape *read_buffer(hlo_parser *P) {
  const char *start = LX->p;
  LX->p += 2;
  const hlo_shape *content = hlo_read_shape(P);
  if (!content || !hlo_expect(LX, ')', "at the end of buffer shape")) return NULL;
  if (hlo_shape_is_array(content)) return hlo_shape_buffer(P->ctx, content);
  return hlo_lex_error(LX, HS_E_SHAPE, start, "a buffer holds an array"), NULL;
}

bool hlo_shape_follows(hlo_parser *P) {
  if (hlo_peek(LX) == '(') return true;
  hs_str id = hlo_peek_ident(LX);
  if (id.n == 0 || id.n > 16) return false;
  if (id.p + id.n < LX->end && id.p[id.n] == '[') return true;
  if (id.n == 1 && id.p[0] == 'b') return id.p + 1 < LX->end && id.p[1] == '(';
  return hlo_dtype_find(id) != HLO_DT_INVALID;
}

const hlo_shape *hlo_recall_shape(hlo_parser *P) {
  const char *start = (hlo_skip(LX), LX->p),
             *stop = start < LX->end ? probable_end(P, start) : NULL;
  if (!stop) return NULL;
  size_t n = (size_t)(stop - start);
  const hlo_shape *s =
      hlo_memo_get(&P->shape_memo, hlo_memo_hash(start, n), HLO_AK_SHAPE, start, n);
  if (s) LX->p = stop;
  return s;
}

const hlo_shape *hlo_read_shape(hlo_parser *P) {
  const hlo_shape *s = hlo_recall_shape(P);
  if (HS_LIKELY(s)) return s;
  if (!hlo_lex_enter(LX)) return NULL;
  char c = hlo_peek(LX);
  const char *start = LX->p;
  s = c == '(' ? read_tuple(P) : c == 'b' && hlo_at(LX, 1) == '(' ? read_buffer(P) : read_typed(P);
  hlo_lex_leave(LX);
  size_t n = (size_t)(LX->p - start);
  if (s && probable_end(P, start) == LX->p)
    hlo_memo_put(&P->shape_memo, hlo_memo_hash(start, n), HLO_AK_SHAPE, start, n, s);
  return s;
}
