// text.c — protocol buffers as text, both ways. See text.h; the language is that of protobuf.dev,
// "Text Format Language Specification".
//
// One pass each way over the schema; nothing here knows HLO. Reading writes the wire form as it
// goes, so that the one binary reader serves both. A field that the schema lacks is written by its
// number, its type as its bytes suggest: `99: 7` a varint, `99: 0x00000007` four bytes, `99:
// 0x0000000000000007` eight, `99: "..."` or `99 { ... }` a length-delimited one.
#include "core/proto/text.h"
#include "core/proto/schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_DEPTH = 200 };

// ---- reading ------------------------------------------------------------------------------------
typedef struct lexer {
  const char *start, *p, *end, *file;
  hs_buf *unknown;
  hs_buf scratch;
  hs_status bad;
} lexer;

static bool fail_at(lexer *x, const char *at, hs_code code, const char *what) {
  if (!hs_ok(x->bad)) return false;
  u32 line = 1;
  const char *from = x->start;
  for (const char *c = x->start; c < at; c++)
    if (*c == '\n') line++, from = c + 1;
  const char *nl = memchr(from, '\n', (size_t)(x->end - from));
  hs_status s = hs_fail(code, "%s", what);
  x->bad = hs_with_place(s, x->file, line, (u32)(at - from) + 1,
                         (hs_str){from, (size_t)((nl ? nl : x->end) - from)});
  return false;
}

static void skip_space(lexer *x) {
  for (; x->p < x->end; x->p++) {
    if (*x->p == '#') {
      const char *nl = memchr(x->p, '\n', (size_t)(x->end - x->p));
      x->p = nl ? nl : x->end - 1;
    } else if (!strchr(" \t\r\n\f\v", *x->p) || !*x->p) {
      return;
    }
  }
}

static bool at(lexer *x, char c) {
  skip_space(x);
  return x->p < x->end && *x->p == c;
}
static bool take(lexer *x, char c) { return at(x, c) && (x->p++, true); }
static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '+' || c == '-';
}

// An identifier or a number, sign and exponent included.
static hs_str word(lexer *x) {
  skip_space(x);
  const char *from = x->p;
  while (x->p < x->end && is_word(*x->p)) x->p++;
  return (hs_str){from, (size_t)(x->p - from)};
}

static bool digits(const char **p, const char *end, int base, int max, u32 *out) {
  int n = 0;
  for (*out = 0; n < max && *p < end; n++, ++*p) {
    int d = **p >= '0' && **p <= '9'   ? **p - '0'
            : **p >= 'a' && **p <= 'f' ? **p - 'a' + 10
            : **p >= 'A' && **p <= 'F' ? **p - 'A' + 10
                                       : 99;
    if (d >= base) break;
    *out = *out * (u32)base + (u32)d;
  }
  return n > 0;
}

static void put_utf8(hs_buf *b, u32 c) {
  if (c < 0x80) {
    hs_buf_putc(b, (char)c);
    return;
  }
  if (c < 0x800) hs_buf_putc(b, (char)(0xC0 | c >> 6));
  else if (c < 0x10000)
    hs_buf_putc(b, (char)(0xE0 | c >> 12)), hs_buf_putc(b, (char)(0x80 | (c >> 6 & 0x3F)));
  else
    hs_buf_putc(b, (char)(0xF0 | (c >> 18 & 7))), hs_buf_putc(b, (char)(0x80 | (c >> 12 & 0x3F))),
        hs_buf_putc(b, (char)(0x80 | (c >> 6 & 0x3F)));
  hs_buf_putc(b, (char)(0x80 | (c & 0x3F)));
}

// Strings side by side are one; the bytes go to b.
static bool take_string(lexer *x, hs_buf *b) {
  if (!at(x, '"') && !at(x, '\'')) return fail_at(x, x->p, HS_E_PROTO, "expects a string");
  while (at(x, '"') || at(x, '\'')) {
    const char *open = x->p;
    char quote = *x->p++;
    for (;;) {
      if (x->p >= x->end || *x->p == '\n')
        return fail_at(x, open, HS_E_PROTO, "the string does not end");
      char c = *x->p++;
      if (c == quote) break;
      if (c != '\\') {
        hs_buf_putc(b, c);
        continue;
      }
      if (x->p >= x->end) return fail_at(x, open, HS_E_PROTO, "the string does not end");
      static const char names[] = "abfnrtv\\'\"?", means[] = "\a\b\f\n\r\t\v\\'\"?";
      const char *esc = x->p, *known = *esc ? strchr(names, *esc) : NULL;
      u32 v = 0;
      if (known) {
        hs_buf_putc(b, means[known - names]);
        x->p++;
        continue;
      }
      if ((*esc == 'x' || *esc == 'X') && (x->p++, digits(&x->p, x->end, 16, 2, &v))) {
        hs_buf_putc(b, (char)v);
        continue;
      }
      if ((*esc == 'u' || *esc == 'U') &&
          (x->p++, digits(&x->p, x->end, 16, *esc == 'u' ? 4 : 8, &v)) && v < 0x110000) {
        put_utf8(b, v);
        continue;
      }
      if (*esc >= '0' && *esc <= '7' && digits(&x->p, x->end, 8, 3, &v)) {
        hs_buf_putc(b, (char)v);
        continue;
      }
      return fail_at(x, esc, HS_E_PROTO, "unknown escape in a string");
    }
  }
  return true;
}

// Decimal, 0x or octal, with a sign.
static bool to_int(hs_str w, u64 *out) {
  char buf[40];
  size_t sign = w.n && (w.p[0] == '-' || w.p[0] == '+');
  if (w.n == sign || w.n >= sizeof buf || w.p[sign] < '0' || w.p[sign] > '9') return false;
  memcpy(buf, w.p + sign, w.n - sign);
  buf[w.n - sign] = '\0';
  char *end;
  *out = strtoull(buf, &end, 0);
  if (*end) return false;
  if (sign && w.p[0] == '-') *out = 0 - *out;
  return true;
}

static bool to_double(hs_str w, double *out) {
  char buf[64];
  if (!w.n || w.n >= sizeof buf) return false;
  memcpy(buf, w.p, w.n);
  buf[w.n] = '\0';
  char *end;
  *out = strtod(buf, &end);  // takes inf, infinity and nan too
  if (end != buf && (*end == 'f' || *end == 'F')) end++;
  return end != buf && !*end;
}

static bool take_message(lexer *x, hs_buf *b, u32 message, char close, u32 depth);

static bool take_scalar(lexer *x, hs_buf *b, const pb_row *r, bool tag) {
  if (tag) pb_put_tag(b, r->num, pb_wire_of(r));
  if (r->type == PB_STR || r->type == PB_BYTES) {
    x->scratch.n = 0;
    if (!take_string(x, &x->scratch)) return false;
    pb_put_varint(b, x->scratch.n);
    hs_buf_put(b, x->scratch.p, x->scratch.n);
    return true;
  }
  bool minus = take(x, '-');  // "- 1" is a number too
  hs_str w = word(x);
  double d;
  u64 v = 0;
  if (r->type == PB_F32 || r->type == PB_F64) {
    if (!to_double(w, &d)) return fail_at(x, w.p, HS_E_PROTO, "expects a number");
    if (minus) d = -d;
    float f = (float)d;
    hs_buf_put(b, r->type == PB_F32 ? (const char *)&f : (const char *)&d,
               r->type == PB_F32 ? 4 : 8);
    return true;
  }
  i64 choice;
  bool ok = to_int(w, &v);
  if (!ok && r->type == PB_BOOL && !minus) {
    bool yes =
        hs_str_eq(w, HS_STR("true")) || hs_str_eq(w, HS_STR("True")) || hs_str_eq(w, HS_STR("t"));
    ok = yes || hs_str_eq(w, HS_STR("false")) || hs_str_eq(w, HS_STR("False")) ||
         hs_str_eq(w, HS_STR("f"));
    v = yes;
  }
  if (!ok && r->type == PB_ENUM && (ok = pb_enum_number(r->sub, w, &choice))) v = (u64)choice;
  if (!ok)
    return fail_at(x, w.p, HS_E_PROTO,
                   r->type == PB_BOOL   ? "expects true or false"
                   : r->type == PB_ENUM ? "unknown value of an enum"
                                        : "expects an integer");
  pb_put_varint(b, minus ? 0 - v : v);
  return true;
}

static bool take_value(lexer *x, hs_buf *b, const pb_row *r, bool tag, u32 depth) {
  if (r->type != PB_MESSAGE) return take_scalar(x, b, r, tag);
  char open = take(x, '{') ? '{' : take(x, '<') ? '<' : 0;
  if (!open) return fail_at(x, x->p, HS_E_PROTO, "expects a message in braces");
  size_t mark = pb_begin(b);
  if (!take_message(x, b, r->sub, open == '{' ? '}' : '>', depth + 1)) return false;
  pb_end(b, r->num, mark);
  return true;
}

static bool take_known(lexer *x, hs_buf *b, const pb_row *r, bool colon, u32 depth) {
  if (!colon && r->type != PB_MESSAGE)
    return fail_at(x, x->p, HS_E_PROTO, "expects ':' and a value");
  if (!take(x, '[')) return take_value(x, b, r, true, depth);
  bool packed = r->type != PB_MESSAGE && pb_wire_of(r) != 2;
  size_t mark = pb_begin(b);
  for (bool first = true; !take(x, ']'); first = false) {
    if (!first && !take(x, ',')) return fail_at(x, x->p, HS_E_PROTO, "expects ',' or ']'");
    if (!take_value(x, b, r, !packed, depth)) return false;
  }
  if (packed) pb_end(b, r->num, mark);
  return true;
}

// The value of a field that is known by its number only.
static bool take_raw(lexer *x, hs_buf *b, u32 num, u32 depth) {
  if (take(x, '{')) {
    size_t mark = pb_begin(b);
    if (!take_message(x, b, PB_NO_MESSAGE, '}', depth + 1)) return false;
    pb_end(b, num, mark);
    return true;
  }
  if (at(x, '"') || at(x, '\''))
    return take_scalar(x, b, &(pb_row){.num = num, .type = PB_BYTES}, true);
  hs_str w = word(x);
  u64 v;
  if (!to_int(w, &v))
    return fail_at(x, w.p, HS_E_PROTO, "expects the value of a field given by its number");
  bool hex = w.n > 2 && w.p[1] == 'x';
  pb_put_tag(b, num, hex && w.n == 10 ? 5 : hex && w.n == 18 ? 1 : 0);
  if (hex && (w.n == 10 || w.n == 18)) hs_buf_put(b, (const char *)&v, w.n == 10 ? 4 : 8);
  else pb_put_varint(b, v);
  return true;
}

// A value of unknown type is passed over.
static bool skip_value(lexer *x, u32 depth) {
  if (depth > MAX_DEPTH) return fail_at(x, x->p, HS_E_LIMIT, "messages are nested too deeply");
  char close = take(x, '{') ? '}' : take(x, '<') ? '>' : take(x, '[') ? ']' : 0;
  if (!close) {
    if (at(x, '"') || at(x, '\'')) return x->scratch.n = 0, take_string(x, &x->scratch);
    if (take(x, '-')) skip_space(x);
    hs_str w = word(x);
    return w.n > 0 || fail_at(x, x->p, HS_E_PROTO, "expects a value");
  }
  while (!take(x, close)) {
    if (x->p >= x->end) return fail_at(x, x->p, HS_E_PROTO, "the text ends inside a message");
    if (close == ']') {
      if (!skip_value(x, depth + 1)) return false;
    } else if (take(x, '[')) {  // an extension or a type: [name] { ... }
      while (x->p < x->end && *x->p != ']') x->p++;
      take(x, ']');
    } else {
      if (!word(x).n) return fail_at(x, x->p, HS_E_PROTO, "expects the name of a field");
    }
    if (close != ']') {
      take(x, ':');
      if (!skip_value(x, depth + 1)) return false;
    }
    if (!take(x, ',')) take(x, ';');
  }
  return true;
}

static void note_unknown(lexer *x, u32 message, hs_str name) {
  if (!x->unknown) return;
  hs_buf *b = &x->scratch;
  b->n = 0;
  hs_buf_printf(b, "%s.%.*s", message ? pb_rows[message].name : "?", (int)HS_MIN(name.n, 80u),
                name.p);
  const char *seen = hs_buf_cstr(x->unknown), *hit = strstr(seen, hs_buf_cstr(b));
  if (hit && (hit[b->n] == ',' || !hit[b->n])) return;
  hs_buf_printf(x->unknown, "%s%s", x->unknown->n ? ", " : "", hs_buf_cstr(b));
}

// Fields up to the closing bracket (0: the end of the text).
static bool take_message(lexer *x, hs_buf *b, u32 message, char close, u32 depth) {
  if (depth > MAX_DEPTH) return fail_at(x, x->p, HS_E_LIMIT, "messages are nested too deeply");
  for (;;) {
    skip_space(x);
    if (x->p >= x->end)
      return !close || fail_at(x, x->p, HS_E_PROTO, "the text ends inside a message");
    if (close && take(x, close)) return true;
    const char *from = x->p;
    hs_str name = word(x);
    if (!name.n && take(x, '[')) {
      while (x->p < x->end && *x->p != ']') x->p++;
      name = (hs_str){from, (size_t)(x->p - from)};
      take(x, ']');
    }
    if (!name.n) return fail_at(x, from, HS_E_PROTO, "expects the name of a field");
    u64 num;
    bool by_number = to_int(name, &num) && num > 0 && num < 1u << 29;
    const pb_row *r =
        by_number ? pb_row_by_number(message, (u32)num) : pb_row_by_name(message, name);
    bool colon = take(x, ':'), ok;
    if (by_number && !at(x, '{') && !at(x, '<')) ok = take_raw(x, b, (u32)num, depth);
    else if (r) ok = take_known(x, b, r, colon, depth);
    else if (by_number) ok = take_raw(x, b, (u32)num, depth);
    else note_unknown(x, message, name), ok = skip_value(x, depth);
    if (!ok) return false;
    if (!take(x, ',')) take(x, ';');
  }
}

static const u32 roots[] = {PB_HloModuleProto, PB_HloProto, PB_HloSnapshot,
                            PB_HloUnoptimizedSnapshot, PB_HloModuleProtoWithConfig};

// A field of a root message, followed by ':' or by a message whose first word is followed by ':',
// '{' or '<', alternating.
u32 pb_text_root(const char *text, size_t n) {
  lexer x = {.start = text, .p = text, .end = text + n};
  u32 best = 0;
  size_t best_known = 0;
  hs_str first = word(&x);
  if (!first.n) return 0;
  bool opens = !take(&x, ':') && (at(&x, '{') || at(&x, '<'));
  if (opens) {
    x.p++;
    hs_str inner = word(&x);
    if (inner.n && !at(&x, ':') && !at(&x, '{') && !at(&x, '<')) return 0;
  } else if (x.p[-1] != ':') {
    return 0;
  }
  for (size_t k = 0; k < HS_COUNT(roots); k++) {
    if (!pb_row_by_name(roots[k], first)) continue;
    lexer y = {.start = text, .p = text, .end = text + n};
    size_t known = 0, total = 0;
    for (hs_str w; (w = word(&y)).n; total++) {  // all fields of the top level
      known += pb_row_by_name(roots[k], w) != NULL;
      take(&y, ':');
      if (!skip_value(&y, 0)) break;
      if (!take(&y, ',')) take(&y, ';');
    }
    hs_status_drop(y.bad);
    hs_buf_free(&y.scratch);
    if (known > best_known) best = roots[k], best_known = known;
  }
  return best;
}

hs_status pb_from_text(hs_buf *wire, const char *text, size_t n, const char *file, u32 message,
                       hs_buf *unknown) {
  lexer x = {.start = text, .p = text, .end = text + n, .file = file, .unknown = unknown};
  take_message(&x, wire, message, 0, 0);
  hs_buf_free(&x.scratch);
  return x.bad;
}

// ---- writing ------------------------------------------------------------------------------------
static void put_string(hs_buf *b, pb s) {
  hs_buf_putc(b, '"');
  for (const u8 *p = s.p; p < s.end; p++) {
    static const char from[] = "\n\r\t\"'\\", to[] = "nrt\"'\\";
    const char *esc = *p ? strchr(from, *p) : NULL;
    if (esc) hs_buf_putc(b, '\\'), hs_buf_putc(b, to[esc - from]);
    else if (*p < 32 || *p >= 127) hs_buf_printf(b, "\\%03o", *p);
    else hs_buf_putc(b, (char)*p);
  }
  hs_buf_putc(b, '"');
}

// The fewest digits that read back as the same value.
static void put_double(hs_buf *b, double v, bool single) {
  if (isnan(v) || isinf(v)) {
    hs_buf_puts(b, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    return;
  }
  char text[40];
  snprintf(text, sizeof text, "%.*g", single ? 6 : 15, v);
  double back = strtod(text, NULL);
  if (single ? (float)back != (float)v : back != v)
    snprintf(text, sizeof text, "%.*g", single ? 9 : 17, v);
  hs_buf_puts(b, text);
}

static void put_number(hs_buf *b, const pb_row *r, u64 v) {
  const char *name;
  float f;
  double d;
  u32 bits = (u32)v;
  switch ((pb_type)r->type) {
  case PB_F32:
    memcpy(&f, &bits, 4);
    put_double(b, (double)f, true);
    break;
  case PB_F64:
    memcpy(&d, &v, 8);
    put_double(b, d, false);
    break;
  case PB_BOOL: hs_buf_puts(b, v ? "true" : "false"); break;
  case PB_U64:
  case PB_U32: hs_buf_printf(b, "%llu", (unsigned long long)v); break;
  case PB_ENUM:
    if ((name = pb_enum_text(r->sub, (i64)v))) hs_buf_puts(b, name);
    else hs_buf_i64(b, (i64)v);
    break;
  default: hs_buf_i64(b, (i64)v);
  }
}

static void put_indent(hs_buf *b, u32 depth) {
  while (depth-- > 0) hs_buf_puts(b, "  ");
}

static void put_head(hs_buf *b, const pb_row *r, u32 num, u32 depth) {
  put_indent(b, depth);
  if (r) hs_buf_puts(b, r->name);
  else hs_buf_printf(b, "%u", num);
}

static void put_text(hs_buf *b, pb m, u32 message, u32 depth);

static void put_block(hs_buf *b, const pb_row *r, u32 num, pb m, u32 message, u32 depth) {
  put_head(b, r, num, depth);
  hs_buf_puts(b, " {\n");
  put_text(b, m, message, depth + 1);
  put_indent(b, depth);
  hs_buf_puts(b, "}\n");
}

static void put_unknown(hs_buf *b, const pb_field *f, u32 depth) {
  if (f->wire == 2 && f->sub.p < f->sub.end && depth < MAX_DEPTH && pb_valid(f->sub)) {
    put_block(b, NULL, f->num, f->sub, PB_NO_MESSAGE, depth);
    return;
  }
  put_head(b, NULL, f->num, depth);
  hs_buf_puts(b, ": ");
  if (f->wire == 2) put_string(b, f->sub);
  else if (f->wire == 0) hs_buf_printf(b, "%llu", (unsigned long long)f->v);
  else hs_buf_printf(b, f->wire == 5 ? "0x%08llx" : "0x%016llx", (unsigned long long)f->v);
  hs_buf_putc(b, '\n');
}

static void put_known(hs_buf *b, const pb_row *r, const pb_field *f, u32 depth) {
  u32 wire = pb_wire_of(r);
  if (r->type == PB_MESSAGE && f->wire == 2 && depth < MAX_DEPTH && pb_valid(f->sub)) {
    put_block(b, r, 0, f->sub, r->sub, depth);
    return;
  }
  if (f->wire == 2 && wire == 2 && r->type != PB_MESSAGE) {
    put_head(b, r, 0, depth);
    hs_buf_puts(b, ": ");
    put_string(b, f->sub);
    hs_buf_putc(b, '\n');
  } else if (f->wire == wire && wire != 2) {
    put_head(b, r, 0, depth);
    hs_buf_puts(b, ": ");
    put_number(b, r, f->v);
    hs_buf_putc(b, '\n');
  } else if (f->wire == 2 && wire != 2) {
    pb it = f->sub;
    for (u64 v; pb_next_packed(&it, wire, &v);) {
      put_head(b, r, 0, depth);
      hs_buf_puts(b, ": ");
      put_number(b, r, v);
      hs_buf_putc(b, '\n');
    }
  } else {
    put_unknown(b, f, depth);
  }
}

static int by_number(const void *a, const void *b) {
  const pb_field *x = a, *y = b;
  if (x->num != y->num) return x->num < y->num ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}

static void put_text(hs_buf *b, pb m, u32 message, u32 depth) {
  HS_VEC(pb_field) all = {0};
  for (pb_field f; pb_next(&m, &f);) hs_vec_push(&all, f);
  if (all.n > 1) qsort(all.v, all.n, sizeof *all.v, by_number);
  for (size_t k = 0; k < all.n && !hs_interrupted(); k++) {
    const pb_row *r = pb_row_by_number(message, all.v[k].num);
    if (r) put_known(b, r, &all.v[k], depth);
    else put_unknown(b, &all.v[k], depth);
  }
  hs_vec_free(&all);
}

void pb_to_text(hs_buf *text, pb m, u32 message) { put_text(text, m, message, 0); }
