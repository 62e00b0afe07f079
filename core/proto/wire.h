// wire.h — the wire format of protocol buffers, private to proto*.c: a message is a view of
// bytes that is read field by field; a writer appends fields to a buffer. No schema, no objects.
#ifndef HLO_PROTO_WIRE_H
#define HLO_PROTO_WIRE_H

#include "core/base/base.h"

// bad: the bytes are no message
typedef struct pb {
  const u8 *p, *end;
  bool bad;
} pb;
// wire 0, 1, 5: v; 2: sub. at: its tag
typedef struct pb_field {
  u32 num, wire;
  u64 v;
  pb sub;
  const u8 *at;
} pb_field;

// false at the end or when damaged
bool pb_next(pb *m, pb_field *f);
// Path of field numbers from a message, ended by 0: the last occurrence; submessages given in
// parts are merged.
bool pb_find(pb m, const u32 *path, pb_field *out);
#define PB_PATH(...) ((const u32[]){__VA_ARGS__, 0})
static inline bool pb_get(pb m, u32 num, pb_field *out) { return pb_find(m, PB_PATH(num), out); }
static inline i64 pb_int(pb m, u32 num, i64 absent) {
  pb_field f;
  return pb_get(m, num, &f) ? (i64)f.v : absent;
}
static inline pb pb_sub(pb m, u32 num) {
  pb_field f;
  return pb_get(m, num, &f) ? f.sub : (pb){0};
}
static inline hs_str pb_str(pb m, u32 num) {
  pb s = pb_sub(m, num);
  return (hs_str){(const char *)s.p, (size_t)(s.end - s.p)};
}
double pb_double(pb m, u32 num);  // double or float
// Repeated numbers, packed or not; each is passed on. Returns how many.
size_t pb_each_int(pb m, u32 num, void (*take)(void *, i64), void *arg);
// one value of a packed list
bool pb_next_packed(pb *values, u32 wire, u64 *v);
bool pb_valid(pb m);  // checks the top level

void pb_put_tag(hs_buf *b, u32 num, u32 wire);
void pb_put_varint(hs_buf *b, u64 v);
void pb_put_int(hs_buf *b, u32 num, i64 v);  // left out when 0
void pb_put_int_always(hs_buf *b, u32 num, i64 v);
void pb_put_bytes(hs_buf *b, u32 num, const void *p, size_t n);  // left out when empty
void pb_put_ints(hs_buf *b, u32 num, const i64 *v, size_t n);    // packed
void pb_put_double(hs_buf *b, u32 num, double v);
void pb_put_float(hs_buf *b, u32 num, float v);
// A submessage: begin gives a mark, end writes tag and length in front of what was appended since.
size_t pb_begin(const hs_buf *b);
void pb_end(hs_buf *b, u32 num, size_t mark);

#endif
