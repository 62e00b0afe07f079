// recovery.c — the table origin_recovery_table, which the module keeps as its text: to and
// from its message. An entry says which array a later one can be recovered from, and by which
// module:
//
//   {"old" {0}} : {"new"},
//   "
//     HloModule ...
//   "
#include "core/proto/read.h"
#include "core/proto/recovery.h"
#include "core/text/text.h"

static void put_array(hs_buf *b, proto_reader *r, pb m) {
  hs_str name = pb_str(m, 1);
  hlo_ints index = proto_ints(r, m, 2);
  hs_buf_printf(b, "{\"%.*s\"", (int)name.n, name.n ? name.p : "");
  for (u32 k = 0; k < index.n; k++)
    hs_buf_printf(b, "%s%lld", k ? "," : " {", (long long)index.v[k]);
  hs_buf_puts(b, index.n ? "}}" : "}");
}

static void put_indented(hs_buf *b, const char *text, size_t n) {
  for (size_t at = 0; at < n;) {
    const char *nl = memchr(text + at, '\n', n - at);
    size_t len = nl ? (size_t)(nl - text) - at : n - at;
    if (len) hs_buf_puts(b, "    "), hs_buf_put(b, text + at, len);
    hs_buf_putc(b, '\n');
    at += len + 1;
  }
}

void hlo_put_recovery_module(hs_buf *b, const hlo_module *m) {
  hlo_print_options o = hlo_print_default();
  o.print_large_constants = true;
  hs_buf text = {0};
  if (m) hlo_print_module(&text, m, &o);
  hs_buf_puts(b, ",\n  \"\n");
  put_indented(b, text.p, text.n);
  hs_buf_puts(b, "\n  \"");
  hs_buf_free(&text);
}

hs_str proto_recovery_text(proto_reader *r, pb table) {
  hs_buf b = {0};
  hs_buf_puts(&b, "{\n");
  for (pb_field e, module; !r->failed && pb_next(&table, &e);) {
    if (e.num != 1 || e.wire != 2) continue;
    hs_buf_puts(&b, "  ");
    put_array(&b, r, pb_sub(e.sub, 1));
    hs_buf_puts(&b, " : ");
    put_array(&b, r, pb_sub(e.sub, 2));
    if (pb_get(e.sub, 3, &module) && module.wire == 2 && module.sub.p < module.sub.end) {
      hlo_module *m = NULL;
      hs_status s = r->depth >= 4 ? hs_fail(HS_E_LIMIT, "recovery tables are nested too deeply")
                                  : proto_read_nested(r->ctx, module.sub, r->depth + 1, &m);
      if (!hs_ok(s)) proto_error(r, "a recovery module: %s", s.err->message);
      hs_status_drop(s);
      hlo_put_recovery_module(&b, m);
      hlo_module_free(m);
    }
    hs_buf_putc(&b, '\n');
  }
  hs_buf_putc(&b, '}');
  hs_str out = {hs_arena_strndup(r->arena, b.p, b.n), b.n};
  hs_buf_free(&b);
  return out;
}

// ---- text to message ----------------------------------------------------------------------------
typedef struct cursor {
  const char *p, *end;
} cursor;

static bool take(cursor *c, char want) {
  while (c->p < c->end && strchr(" \t\r\n", *c->p)) c->p++;
  return c->p < c->end && *c->p == want && (c->p++, true);
}

static bool take_array(cursor *c, hs_buf *b, u32 num) {
  if (!take(c, '{') || !take(c, '"')) return false;
  const char *from = c->p, *quote = memchr(from, '"', (size_t)(c->end - from));
  if (!quote) return false;
  size_t mark = pb_begin(b);
  pb_put_bytes(b, 1, from, (size_t)(quote - from));
  c->p = quote + 1;
  if (take(c, '{')) {
    HS_VEC(i64) index = {0};
    while (c->p < c->end && *c->p != '}') {
      i64 v = 0;
      bool digit = false;
      for (; c->p < c->end && *c->p >= '0' && *c->p <= '9' && v < 1 << 28; c->p++)
        v = v * 10 + (*c->p - '0'), digit = true;
      if (digit) hs_vec_push(&index, v);
      else c->p++;
    }
    pb_put_ints(b, 2, index.v, index.n);
    hs_vec_free(&index);
    take(c, '}');
  }
  pb_end(b, num, mark);
  return take(c, '}');
}

// The closing quote stands alone on its line; quotes in the module do not.
static const char *end_of_module(const cursor *c) {
  for (const char *q = c->p; (q = memchr(q, '"', (size_t)(c->end - q))); q++) {
    const char *before = q, *after = q + 1;
    while (before > c->p && (before[-1] == ' ' || before[-1] == '\t')) before--;
    while (after < c->end && (*after == ' ' || *after == '\t' || *after == '\r')) after++;
    if ((before == c->p || before[-1] == '\n') &&
        (after == c->end || *after == '\n' || *after == '}'))
      return q;
  }
  return NULL;
}

bool proto_put_recovery(hs_buf *b, u32 num, hlo_ctx *ctx, hs_str text, proto_module_writer *write) {
  size_t start = b->n, mark = pb_begin(b);
  cursor c = {text.p, text.p + text.n};
  bool ok = take(&c, '{');
  while (ok && !take(&c, '}')) {
    size_t entry = pb_begin(b);
    ok = take_array(&c, b, 1) && take(&c, ':') && take_array(&c, b, 2);
    if (ok && take(&c, ',') && (ok = take(&c, '"'))) {
      const char *end = end_of_module(&c);
      hlo_module *m = NULL;
      hs_status s = end ? hlo_parse(ctx, c.p, (size_t)(end - c.p), NULL, &m) : HS_GOOD;
      size_t module = pb_begin(b);
      u32 lost = 0;
      if (m) {
        hs_status w = write(b, m, &lost);
        ok = hs_ok(w);
        hs_status_drop(w);
      }
      ok &= m != NULL;
      pb_end(b, 3, module);
      hs_status_drop(s);
      hlo_module_free(m);
      if (end) c.p = end + 1;
    }
    pb_end(b, 1, entry);
  }
  if (ok) pb_end(b, num, mark);
  else b->n = start;
  return ok;
}
