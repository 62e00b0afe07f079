// wire.c — numbers and strings of worker payloads. See wire.h.
//
// A reader that meets the end sets `bad` and gives zeros from then on, so that callers check once,
// at the end.
#include "backends/wire.h"

void wire_put(hs_buf *b, const void *p, size_t n) { hs_buf_put(b, p, n); }

void wire_put_bytes(hs_buf *b, const void *p, size_t n) {
  wire_put_i64(b, (i64)n);
  if (n) wire_put(b, p, n);
}

void wire_put_str(hs_buf *b, const char *s) { wire_put_bytes(b, s, s ? strlen(s) : 0); }

void wire_get(wire_reader *r, void *p, size_t n) {
  if (r->bad || r->n < n) {
    r->bad = true;
    memset(p, 0, n);
    return;
  }
  memcpy(p, r->p, n);
  r->p += n;
  r->n -= n;
}

u32 wire_get_u32(wire_reader *r) {
  u32 v;
  wire_get(r, &v, sizeof v);
  return v;
}
i64 wire_get_i64(wire_reader *r) {
  i64 v;
  wire_get(r, &v, sizeof v);
  return v;
}
double wire_get_f64(wire_reader *r) {
  double v;
  wire_get(r, &v, sizeof v);
  return v;
}

hs_str wire_get_bytes(wire_reader *r) {
  i64 n = wire_get_i64(r);
  if (r->bad || n < 0 || r->n < (size_t)n) {
    r->bad = true;
    return (hs_str){"", 0};
  }
  hs_str s = {r->p, (size_t)n};
  r->p += n;
  r->n -= (size_t)n;
  return s;
}

hs_str wire_get_str(wire_reader *r) { return wire_get_bytes(r); }
