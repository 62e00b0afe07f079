// wire.c — reading and writing the wire format of protocol buffers. See wire.h; the encoding is
// that of protobuf.dev, "Encoding".
#include "core/proto/wire.h"

static bool varint(pb *m, u64 *out) {
  u64 v = 0;
  for (u32 shift = 0; shift < 70 && m->p < m->end; shift += 7) {
    u8 c = *m->p++;
    if (shift < 64) v |= (u64)(c & 0x7F) << shift;
    if (!(c & 0x80)) return *out = v, true;
  }
  m->bad = true;
  return false;
}

bool pb_next(pb *m, pb_field *f) {
  u64 tag;
  const u8 *at = m->p;
  if (m->bad || m->p >= m->end || !varint(m, &tag)) return false;
  if (tag >> 32 || tag >> 3 == 0) return m->bad = true, false;  // no field has the number 0
  *f = (pb_field){.num = (u32)(tag >> 3), .wire = (u32)(tag & 7), .at = at};
  size_t left = (size_t)(m->end - m->p);
  u64 n;
  switch (f->wire) {
  case 0: return varint(m, &f->v);
  case 1:
  case 5: n = f->wire == 1 ? 8 : 4; break;
  case 2:
    if (!varint(m, &n)) return false;
    left = (size_t)(m->end - m->p);
    break;
  default: n = UINT64_MAX;
  }
  if (n > left) return m->bad = true, false;
  if (f->wire == 2) f->sub = (pb){m->p, m->p + n, false};
  else memcpy(&f->v, m->p, (size_t)n);
  m->p += n;
  return true;
}

bool pb_find(pb m, const u32 *path, pb_field *out) {
  bool found = false;
  for (pb_field f; pb_next(&m, &f);) {
    if (f.num != path[0]) continue;
    if (path[1]) {
      if (f.wire == 2) found |= pb_find(f.sub, path + 1, out);
    } else {
      *out = f;
      found = true;
    }
  }
  return found;
}

double pb_double(pb m, u32 num) {
  pb_field f;
  if (!pb_get(m, num, &f)) return 0;
  if (f.wire == 5) {
    float v;
    u32 bits = (u32)f.v;
    memcpy(&v, &bits, 4);
    return v;
  }
  double v;
  memcpy(&v, &f.v, 8);
  return f.wire == 1 ? v : (double)f.v;
}

size_t pb_each_int(pb m, u32 num, void (*take)(void *, i64), void *arg) {
  size_t n = 0;
  for (pb_field f; pb_next(&m, &f);) {
    if (f.num != num) continue;
    if (f.wire != 2) {
      take(arg, (i64)f.v);
      n++;
      continue;
    }
    for (u64 v; f.sub.p < f.sub.end && varint(&f.sub, &v); n++) take(arg, (i64)v);
  }
  return n;
}

bool pb_next_packed(pb *values, u32 wire, u64 *v) {
  if (wire == 0) return values->p < values->end && varint(values, v);
  size_t n = wire == 1 ? 8 : 4;
  if ((size_t)(values->end - values->p) < n) return false;
  *v = 0;
  memcpy(v, values->p, n);
  values->p += n;
  return true;
}

bool pb_valid(pb m) {
  pb_field f;
  while (pb_next(&m, &f)) {}
  return !m.bad;
}

void pb_put_varint(hs_buf *b, u64 v) {
  for (; v >= 0x80; v >>= 7) hs_buf_putc(b, (char)(v | 0x80));
  hs_buf_putc(b, (char)v);
}
void pb_put_tag(hs_buf *b, u32 num, u32 wire) { pb_put_varint(b, (u64)num << 3 | wire); }
void pb_put_int_always(hs_buf *b, u32 num, i64 v) {
  pb_put_tag(b, num, 0);
  pb_put_varint(b, (u64)v);
}
void pb_put_int(hs_buf *b, u32 num, i64 v) {
  if (v) pb_put_int_always(b, num, v);
}
void pb_put_bytes(hs_buf *b, u32 num, const void *p, size_t n) {
  if (!n) return;
  pb_put_tag(b, num, 2);
  pb_put_varint(b, n);
  hs_buf_put(b, p, n);
}
void pb_put_ints(hs_buf *b, u32 num, const i64 *v, size_t n) {
  if (!n) return;
  size_t mark = pb_begin(b);
  for (size_t k = 0; k < n; k++) pb_put_varint(b, (u64)v[k]);
  pb_end(b, num, mark);
}
void pb_put_double(hs_buf *b, u32 num, double v) {
  pb_put_tag(b, num, 1);
  hs_buf_put(b, (const char *)&v, 8);
}
void pb_put_float(hs_buf *b, u32 num, float v) {
  pb_put_tag(b, num, 5);
  hs_buf_put(b, (const char *)&v, 4);
}

size_t pb_begin(const hs_buf *b) { return b->n; }

// The head is written behind the content and then rotated in front of it.
void pb_end(hs_buf *b, u32 num, size_t mark) {
  size_t n = b->n - mark;
  pb_put_tag(b, num, 2);
  pb_put_varint(b, n);
  size_t head = b->n - mark - n;
  char tmp[24];
  memcpy(tmp, b->p + mark + n, head);
  memmove(b->p + mark + head, b->p + mark, n);
  memcpy(b->p + mark, tmp, head);
}
