// config.c — a look into backend_config without reading it whole: keys are found by name, values
// end where their brackets, quotes or commas say.
#include "core/ir/config.h"

#include <stdlib.h>

static bool word_char(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// From p to the end of the value that starts there.
static const char *value_end(const char *p, const char *end) {
  int depth = 0;
  bool quoted = *p == '"';
  if (quoted) {
    for (p++; p < end && *p != '"'; p++) p += *p == '\\' && p + 1 < end;
    return p < end ? p + 1 : end;
  }
  for (; p < end; p++) {
    if (*p == '{' || *p == '[') depth++;
    if (*p == '}' || *p == ']') {
      if (depth == 0) return p;
      if (--depth == 0) return p + 1;
    }
    if (*p == ',' && depth == 0) return p;
  }
  return end;
}

static bool find_in(hs_str text, hs_str key, hs_str *out) {
  const char *end = text.p + text.n;
  for (const char *p = text.p; p + key.n < end; p++) {
    if (memcmp(p, key.p, key.n) != 0 || (p > text.p && word_char(p[-1])) || word_char(p[key.n]))
      continue;
    const char *v = p + key.n;
    v += *v == '"';
    while (v < end && blank(*v)) v++;
    if (v >= end || (*v != ':' && *v != '=')) continue;
    for (v++; v < end && blank(*v);) v++;
    if (v >= end) return false;
    const char *stop = value_end(v, end);
    if (*v == '"' && stop > v + 1) v++, stop--;
    *out = (hs_str){v, (size_t)(stop - v)};
    return true;
  }
  return false;
}

bool hlo_config_find(const hlo_instr *i, const char *section, const char *key, hs_str *out) {
  const hlo_backend_config *c = hlo_attr_ptr(i, HLO_ATTR_BACKEND_CONFIG);
  if (!c || !c->text.p) return false;
  hs_str text = c->text;
  while (section && *section) {
    size_t n = strcspn(section, ".");
    if (!find_in(text, (hs_str){section, n}, &text)) return false;
    section += n + (section[n] == '.');
  }
  return find_in(text, hs_str_of(key), out);
}

static double number(hs_str s) {
  char buf[48];
  size_t n = HS_MIN(s.n, sizeof buf - 1);
  memcpy(buf, s.p, n);
  buf[n] = 0;
  return strtod(buf, NULL);
}

double hlo_config_number(const hlo_instr *i, const char *section, const char *key, double absent) {
  hs_str v;
  if (!hlo_config_find(i, section, key, &v)) return absent;
  if (v.n >= 4 && memcmp(v.p, "true", 4) == 0) return 1;
  if (v.n >= 5 && memcmp(v.p, "false", 5) == 0) return 0;
  return v.n && (v.p[0] == '-' || (v.p[0] >= '0' && v.p[0] <= '9')) ? number(v) : absent;
}

u32 hlo_config_words(const hlo_instr *i, const char *section, const char *key, hs_str *out,
                     u32 cap) {
  hs_str v;
  u32 n = 0;
  if (!hlo_config_find(i, section, key, &v)) return 0;
  for (const char *p = v.p, *end = v.p + v.n; p < end;) {
    if (!word_char(*p) && *p != '-') {
      p++;
      continue;
    }
    const char *from = p;
    while (p < end && (word_char(*p) || *p == '-' || *p == '.' || *p == '+')) p++;
    if (n < cap) out[n] = (hs_str){from, (size_t)(p - from)};
    n++;
  }
  return n;
}

u32 hlo_config_list(const hlo_instr *i, const char *section, const char *key, i64 *out, u32 cap) {
  hs_str words[64];
  u32 n = HS_MIN(hlo_config_words(i, section, key, words, HS_MIN(cap, (u32)HS_COUNT(words))),
                 HS_MIN(cap, (u32)HS_COUNT(words)));
  for (u32 k = 0; k < n; k++) out[k] = (i64)number(words[k]);
  return n;
}
