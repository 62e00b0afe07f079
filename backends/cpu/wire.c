// wire.c — numbers and strings in and out of request payloads. Both ends are the same program on the same machine, so
// the format is plain memory; the reader still checks every length.
#include "backends/cpu/cpu.h"

void cpu_put(hs_buf *b, const void *p, size_t n) { hs_buf_put(b, p, n); }

void cpu_put_str(hs_buf *b, const char *s) {
  u32 n = s ? (u32)strlen(s) : 0;
  cpu_put_u32(b, n);
  if (n) cpu_put(b, s, n);
}

void cpu_get(cpu_reader *r, void *p, size_t n) {
  if (r->bad || r->n < n) { r->bad = true; memset(p, 0, n); return; }
  memcpy(p, r->p, n);
  r->p += n;
  r->n -= n;
}

u32 cpu_get_u32(cpu_reader *r) { u32 v; cpu_get(r, &v, sizeof v); return v; }
i64 cpu_get_i64(cpu_reader *r) { i64 v; cpu_get(r, &v, sizeof v); return v; }
double cpu_get_f64(cpu_reader *r) { double v; cpu_get(r, &v, sizeof v); return v; }

hs_str cpu_get_str(cpu_reader *r) {
  u32 n = cpu_get_u32(r);
  if (r->bad || r->n < n) { r->bad = true; return (hs_str){"", 0}; }
  hs_str s = {r->p, n};
  r->p += n;
  r->n -= n;
  return s;
}
