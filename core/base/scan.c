// scan.c — the classes of characters, and balanced braces. See scan.h.
#include "core/base/scan.h"

enum { LETTER = HLO_CH_IDENT | HLO_CH_START, DIGIT = HLO_CH_IDENT | HLO_CH_DIGIT };

const u8 hlo_char_class[256] = {
    ['A' ... 'Z'] = LETTER, ['a' ... 'z'] = LETTER, ['_'] = LETTER,        ['0' ... '9'] = DIGIT,
    ['.'] = HLO_CH_IDENT,   ['-'] = HLO_CH_IDENT,   ['/'] = HLO_CH_SLASH,  [' '] = HLO_CH_SPACE,
    ['\t'] = HLO_CH_SPACE,  ['\n'] = HLO_CH_SPACE,  ['\r'] = HLO_CH_SPACE,
};

size_t hlo_braced_length(const char *p, const char *end) {
  const char *s = p;
  int level = 0;
  for (; (p = hlo_scan_for3(p, end, '"', '{', '}')) < end; p++) {
    if (*p == '"') {
      while ((p = hlo_scan_for2(p + 1, end, '"', '\\')) < end && *p != '"')
        if (++p == end) return 0;
      if (p == end) return 0;
    } else if (*p == '{') {
      level++;
    } else if (--level == 0) {
      return (size_t)(p - s) + 1;
    }
  }
  return 0;
}

bool hlo_is_braced(hs_str s) {
  return s.n >= 2 && s.p[0] == '{' && hlo_braced_length(s.p, s.p + s.n) == s.n;
}
