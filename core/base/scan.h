// scan.h — finding the end of identifiers and strings, sixteen bytes at a time where the machine
// has SSE2 (every x86-64), and the classes of characters.
//
// Each function reads [p, end) only and returns end when nothing is found. The scalar loops behind
// the vector ones serve other machines and the last bytes of a text.
#ifndef HLO_SCAN_H
#define HLO_SCAN_H

#include "core/base/base.h"

extern const u8 hlo_char_class[256];
enum { HLO_CH_IDENT = 1, HLO_CH_START = 2, HLO_CH_DIGIT = 4, HLO_CH_SPACE = 8, HLO_CH_SLASH = 16 };
#define hlo_is_ch(c, cls) ((hlo_char_class[(u8)(c)] & (cls)) != 0)

#ifdef __SSE2__
#include <emmintrin.h>

static inline __m128i hlo_load16_(const char *p) {
  return _mm_loadu_si128((const __m128i *)(const void *)p);
}
static inline __m128i hlo_bytes_(char c) { return _mm_set1_epi8(c); }
// 0xFF where lo <= x < lo + n, as unsigned bytes
static inline __m128i hlo_in_range_(__m128i x, char lo, char n) {
  __m128i t = _mm_sub_epi8(x, hlo_bytes_(lo));
  return _mm_cmpeq_epi8(_mm_min_epu8(t, hlo_bytes_((char)(n - 1))), t);
}
#define HLO_SCAN16(p, end, hits_)               \
  for (; (end) - (p) >= 16; (p) += 16) {        \
    __m128i x = hlo_load16_(p);                 \
    u32 hits = (u32)_mm_movemask_epi8(hits_);   \
    if (hits) return (p) + __builtin_ctz(hits); \
  }
#else
#define HLO_SCAN16(p, end, hits_)
#endif

// The first byte that is none of [A-Za-z0-9_.-].
static inline const char *hlo_scan_ident(const char *p, const char *end) {
#ifdef __SSE2__
  for (; end - p >= 16; p += 16) {
    __m128i x = hlo_load16_(p);
    __m128i letters = hlo_in_range_(_mm_or_si128(x, hlo_bytes_(0x20)), 'a', 26);
    // - . 0 to 9
    __m128i others =
        _mm_andnot_si128(_mm_cmpeq_epi8(x, hlo_bytes_('/')), hlo_in_range_(x, '-', 13));
    u32 in = (u32)_mm_movemask_epi8(
        _mm_or_si128(_mm_or_si128(letters, others), _mm_cmpeq_epi8(x, hlo_bytes_('_'))));
    if (in != 0xFFFF) return p + __builtin_ctz(~in);
  }
#endif
  while (p < end && hlo_is_ch(*p, HLO_CH_IDENT)) p++;
  return p;
}

static inline const char *hlo_scan_for(const char *p, const char *end, char a) {
  HLO_SCAN16(p, end, _mm_cmpeq_epi8(x, hlo_bytes_(a)))
  while (p < end && *p != a) p++;
  return p;
}

static inline const char *hlo_scan_for2(const char *p, const char *end, char a, char b) {
  HLO_SCAN16(p, end,
             _mm_or_si128(_mm_cmpeq_epi8(x, hlo_bytes_(a)), _mm_cmpeq_epi8(x, hlo_bytes_(b))))
  while (p < end && *p != a && *p != b) p++;
  return p;
}

static inline const char *hlo_scan_for3(const char *p, const char *end, char a, char b, char c) {
  HLO_SCAN16(
      p, end,
      _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, hlo_bytes_(a)), _mm_cmpeq_epi8(x, hlo_bytes_(b))),
                   _mm_cmpeq_epi8(x, hlo_bytes_(c))))
  while (p < end && *p != a && *p != b && *p != c) p++;
  return p;
}

// Length of the balanced {...} at p, braces in quoted strings apart; 0 when it does not end.
size_t hlo_braced_length(const char *p, const char *end);
// Whether the whole string is one such value.
bool hlo_is_braced(hs_str s);

#endif
