// parse_window.c — attribute values with one entry per dimension: slice ranges {[0:2], [1:9:2]},
// padding 0_1x2_2_1, windows {size=3x3 pad=1_1x1_1 ...}, and the dimension labels of a convolution,
// bf01_01io->bf01. Grammar: ParseWindow, ParsePaddingConfig, ParseSliceRanges and
// ParseConvolutionDimensionNumbers of XLA's hlo_parser.cc.
#include "core/text/parse.h"

// ---- slices, padding, windows -------------------------------------------------------------------
bool hlo_read_slices(hlo_parser *P, const hlo_slices **out) {
  hlo_slice_dim dims[HLO_MAX_RANK];
  hlo_slices *s = HS_NEW(LX->arena, hlo_slices);
  *out = s;
  if (!hlo_expect(LX, '{', "in front of slice ranges")) return false;
  while (hlo_peek(LX) != '}') {
    if (s->n == HLO_MAX_RANK)
      return hlo_lex_error(LX, HS_E_LIMIT, NULL, "more than %d slice ranges", HLO_MAX_RANK);
    hlo_slice_dim *d = &dims[s->n++];
    d->stride = 1;
    if (!hlo_expect(LX, '[', "in front of a slice range") || !hlo_int(LX, &d->start) ||
        !hlo_expect(LX, ':', "in the slice range") || !hlo_int(LX, &d->limit) ||
        (hlo_accept(LX, ':') && !hlo_int(LX, &d->stride)) ||
        !hlo_expect(LX, ']', "at the end of a slice range"))
      return false;
    if (!hlo_accept(LX, ',')) break;
  }
  s->v = hs_arena_dup(LX->arena, dims, s->n * sizeof *dims);
  return hlo_expect(LX, '}', "at the end of slice ranges");
}

// low_high or low_high_interior, joined by 'x'.
static bool read_pads(hlo_parser *P, hlo_pad_dim *dims, u32 *n, bool interior) {
  *n = 0;
  hlo_skip(LX);
  do {
    if (*n == HLO_MAX_RANK)
      return hlo_lex_error(LX, HS_E_LIMIT, NULL, "more than %d paddings", HLO_MAX_RANK);
    hlo_pad_dim *d = &dims[(*n)++];
    const char *at = LX->p;
    d->interior = 0;
    if (!hlo_int(LX, &d->low)) return false;
    if (hlo_at(LX, 0) != '_')
      return hlo_lex_error(LX, HS_E_ATTR, at,
                           "expects padding_low and padding_high separated by '_'");
    LX->p++;
    if (!hlo_int(LX, &d->high)) return false;
    if (hlo_at(LX, 0) == '_') {
      if (!interior)
        return hlo_lex_error(LX, HS_E_ATTR, at,
                             "expects padding_low and padding_high separated by '_'");
      LX->p++;
      if (!hlo_int(LX, &d->interior)) return false;
    }
  } while (hlo_at(LX, 0) == 'x' && (LX->p++, true));
  return true;
}

bool hlo_read_padding(hlo_parser *P, const hlo_padding **out) {
  hlo_pad_dim dims[HLO_MAX_RANK];
  hlo_padding *p = HS_NEW(LX->arena, hlo_padding);
  *out = p;
  if (!read_pads(P, dims, &p->n, true)) return false;
  p->v = hs_arena_dup(LX->arena, dims, p->n * sizeof *dims);
  return true;
}

static bool read_by_x(hlo_parser *P, i64 *v, u32 *n) {  // 3x3
  *n = 0;
  hlo_skip(LX);
  do {
    if (*n == HLO_MAX_RANK)
      return hlo_lex_error(LX, HS_E_LIMIT, NULL, "more than %d window dimensions", HLO_MAX_RANK);
    if (!hlo_int(LX, &v[(*n)++])) return false;
  } while (hlo_at(LX, 0) == 'x' && (LX->p++, true));
  return true;
}

bool hlo_read_window(hlo_parser *P, const hlo_window **out) {
  static const char *const fields[] = {"size",       "stride",       "lhs_dilate",
                                       "rhs_dilate", "rhs_reversal", "pad"};
  enum { PAD = 5 };
  i64 v[PAD][HLO_MAX_RANK];
  hlo_pad_dim pads[HLO_MAX_RANK];
  u32 n[PAD + 1] = {0};
  const char *at = (hlo_skip(LX), LX->p);
  if (!hlo_expect(LX, '{', "to start window attribute")) return false;
  while (hlo_peek(LX) != '}') {
    hs_str key = hlo_ident(LX);
    size_t k = 0;
    while (k < HS_COUNT(fields) && !hs_str_eq(key, hs_str_of(fields[k]))) k++;
    if (k == HS_COUNT(fields))
      return hlo_lex_error(
          LX, HS_E_ATTR, key.p,
          "unexpected attribute name in the window: expects size, stride, pad, lhs_dilate, "
          "rhs_dilate or rhs_reversal");
    if (n[k])
      return hlo_lex_error(LX, HS_E_ATTR, key.p, "window attribute %s is given twice", fields[k]);
    if (!hlo_expect(LX, '=', "in the window")) return false;
    if (k == PAD ? !read_pads(P, pads, &n[k], false) : !read_by_x(P, v[k], &n[k])) return false;
  }
  LX->p++;
  if (!n[0])
    return hlo_lex_error(LX, HS_E_ATTR, at,
                         "sub-attribute 'size=' is required in the window attribute");
  for (size_t k = 1; k < HS_COUNT(n); k++)
    if (n[k] && n[k] != n[0])
      return hlo_lex_error(LX, HS_E_ATTR, at, "expects '%s=' has the same size as 'size='",
                           fields[k]);
  hlo_window *w = HS_NEW(LX->arena, hlo_window);
  hlo_window_dim *d = HS_NEW_ARRAY(LX->arena, hlo_window_dim, n[0]);
  for (u32 i = 0; i < n[0]; i++)
    d[i] = (hlo_window_dim){.size = v[0][i],
                            .stride = n[1] ? v[1][i] : 1,
                            .pad_low = n[PAD] ? pads[i].low : 0,
                            .pad_high = n[PAD] ? pads[i].high : 0,
                            .lhs_dilate = n[2] ? v[2][i] : 1,
                            .rhs_dilate = n[3] ? v[3][i] : 1,
                            .reversal = n[4] && v[4][i] == 1};
  *w = (hlo_window){n[0], d};
  *out = w;
  return true;
}

// ---- convolution dimension labels ---------------------------------------------------------------
// One of the three groups: positions of the two letters and of the digits. `what` names it in
// errors.
static bool read_labels(hlo_parser *P, hs_str s, char first, char second, const char *what,
                        i64 *at_first, i64 *at_second, i64 *spatial, u32 *n) {
  *at_first = *at_second = -1;
  *n = 0;
  for (size_t i = 0; i < s.n; i++) *n += s.p[i] != first && s.p[i] != second && s.p[i] != '?';
  for (u32 i = 0; i < *n && i < 10; i++) spatial[i] = -1;
  for (size_t i = 0; i < s.n; i++) {
    char c = s.p[i];
    if (c == '?') continue;
    i64 *to = c == first ? at_first : c == second ? at_second : NULL;
    if (!to) {
      if (c < '0' || c > '9' || c - '0' >= (i64)s.n)
        return hlo_lex_error(LX, HS_E_ATTR, s.p, "expects [0-%zu%c%c?] in %s dimension numbers",
                             s.n - 1, first, second, what);
      if ((u32)(c - '0') >= *n)
        return hlo_lex_error(LX, HS_E_ATTR, s.p,
                             "expects the %s dimension numbers 0 to %d, each once", what,
                             (int)*n - 1);
      to = &spatial[c - '0'];
    }
    if (*to >= 0)
      return hlo_lex_error(LX, HS_E_ATTR, s.p, "expects unique %s dimension numbers, but sees %.*s",
                           what, (int)s.n, s.p);
    *to = (i64)i;
  }
  return true;
}

static bool need_letters(hlo_parser *P, hs_str s, i64 at_first, i64 at_second, char first,
                         char second, const char *what) {
  return (at_first >= 0 && at_second >= 0) ||
         hlo_lex_error(LX, HS_E_ATTR, s.p, "expects '%c' and '%c' in the %s dimension numbers",
                       first, second, what);
}

static hs_str label_span(hlo_parser *P) {
  const char *s = LX->p;
  while (LX->p < LX->end &&
         (hlo_is_ch(*LX->p, HLO_CH_DIGIT) || *LX->p == '?' || (*LX->p >= 'a' && *LX->p <= 'z')))
    LX->p++;
  return (hs_str){s, (size_t)(LX->p - s)};
}

bool hlo_read_dim_labels(hlo_parser *P, const hlo_dim_labels **out) {
  hlo_skip(LX);
  const char *at = LX->p;
  hs_str lhs = label_span(P), rhs = {0}, res = {0};
  bool ok = hlo_at(LX, 0) == '_' &&
            (LX->p++, rhs = label_span(P), hlo_at(LX, 0) == '-' && hlo_at(LX, 1) == '>');
  if (ok) LX->p += 2, res = label_span(P);
  if (!ok || lhs.n < 2 || rhs.n < 2 || res.n < 2)
    return hlo_lex_error(LX, HS_E_ATTR, at, "expects dim labels pattern, e.g., 'bf0_0io->0bf'");
  if (lhs.n > HLO_MAX_RANK || rhs.n > HLO_MAX_RANK || res.n > HLO_MAX_RANK)
    return hlo_lex_error(LX, HS_E_LIMIT, at, "rank above %d", HLO_MAX_RANK);
  hlo_dim_labels *d = HS_NEW(LX->arena, hlo_dim_labels);
  i64 sp[3][10];
  u32 n[3];
  if (!read_labels(P, lhs, 'b', 'f', "lhs", &d->lhs_batch, &d->lhs_feature, sp[0], &n[0]) ||
      !read_labels(P, rhs, 'i', 'o', "rhs", &d->rhs_input_feature, &d->rhs_output_feature, sp[1],
                   &n[1]) ||
      !read_labels(P, res, 'b', 'f', "output", &d->out_batch, &d->out_feature, sp[2], &n[2]))
    return false;
  if (n[0] != n[1] || n[0] != n[2])
    return hlo_lex_error(LX, HS_E_ATTR, at,
                         "lhs, rhs and output must have same number of spatial dimensions");
  if (!need_letters(P, lhs, d->lhs_batch, d->lhs_feature, 'b', 'f', "lhs") ||
      !need_letters(P, rhs, d->rhs_input_feature, d->rhs_output_feature, 'i', 'o', "rhs") ||
      !need_letters(P, res, d->out_batch, d->out_feature, 'b', 'f', "output"))
    return false;
  d->nspatial = n[0];
  d->lhs_spatial = hs_arena_dup(LX->arena, sp[0], n[0] * sizeof(i64));
  d->rhs_spatial = hs_arena_dup(LX->arena, sp[1], n[0] * sizeof(i64));
  d->out_spatial = hs_arena_dup(LX->arena, sp[2], n[0] * sizeof(i64));
  d->text = hs_arena_strndup(LX->arena, at, (size_t)(LX->p - at));
  *out = d;
  return true;
}
