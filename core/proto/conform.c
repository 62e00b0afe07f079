// conform.c — a message as its schema has it, before anyone reads a field by its number.
//
// The encoding allows what no writer of XLA does: a field under another wire type, which protocol
// buffers count among the unknown ones; a single value given twice, of which the last counts; a
// single submessage in pieces, which are merged. A file that is damaged or made by hand may have
// them. They are resolved here once, so that the readers, which go by number alone, and the keeping
// of unknown fields, which goes by the schema, see the same message (protobuf.dev, "Encoding").
#include "core/proto/schema.h"

// singles above that number are taken as they come; the schema has none
enum { MAX_DEPTH = 200, MAX_NUM = 1024 };

bool pb_row_takes(const pb_row *r, u32 wire) {
  u32 own = pb_wire_of(r);
  return wire == own || (r->many && wire == 2);
}

static bool single(const pb_row *r) { return !r->many && r->num < MAX_NUM; }

bool pb_conforms(pb m, u32 message, u32 depth) {
  u64 seen[MAX_NUM / 64] = {0};
  for (pb_field f; pb_next(&m, &f);) {
    const pb_row *r = pb_row_by_number(message, f.num);
    if (!r) continue;
    if (!pb_row_takes(r, f.wire)) return false;
    if (single(r) && seen[f.num / 64] >> (f.num % 64) & 1) return false;
    if (single(r)) seen[f.num / 64] |= (u64)1 << (f.num % 64);
    if (r->type == PB_MESSAGE && depth < MAX_DEPTH && !pb_conforms(f.sub, r->sub, depth + 1))
      return false;
  }
  return true;
}

static u32 put(hs_buf *out, pb m, u32 message, u32 depth);

// All parts of a single submessage as one.
static u32 put_merged(hs_buf *out, pb m, const pb_row *r, u32 depth) {
  hs_buf whole = {0};
  for (pb_field f; pb_next(&m, &f);)
    if (f.num == r->num && pb_row_takes(r, f.wire))
      hs_buf_put(&whole, (const char *)f.sub.p, (size_t)(f.sub.end - f.sub.p));
  size_t mark = pb_begin(out);
  u32 left_out =
      put(out, (pb){(const u8 *)whole.p, (const u8 *)whole.p + whole.n, false}, r->sub, depth + 1);
  pb_end(out, r->num, mark);
  hs_buf_free(&whole);
  return left_out;
}

static u32 put(hs_buf *out, pb m, u32 message, u32 depth) {
  // where the value that counts begins; of a submessage, its first part
  const u8 **last = hs_calloc(MAX_NUM, sizeof *last);
  pb rest = m;
  for (pb_field f; pb_next(&rest, &f);) {
    const pb_row *r = pb_row_by_number(message, f.num);
    if (r && single(r) && pb_row_takes(r, f.wire) && !(r->type == PB_MESSAGE && last[f.num]))
      last[f.num] = f.at;
  }
  u32 left_out = 0;
  for (pb_field f; pb_next(&m, &f);) {
    const pb_row *r = pb_row_by_number(message, f.num);
    if (r && !pb_row_takes(r, f.wire)) {
      left_out++;
      continue;
    }
    if (r && single(r) && f.at != last[f.num]) continue;
    bool inside = r && r->type == PB_MESSAGE && depth < MAX_DEPTH;
    if (!inside) hs_buf_put(out, (const char *)f.at, (size_t)(m.p - f.at));
    else if (single(r)) left_out += put_merged(out, (pb){f.at, m.end, false}, r, depth);
    else {
      size_t mark = pb_begin(out);
      left_out += put(out, f.sub, r->sub, depth + 1);
      pb_end(out, f.num, mark);
    }
  }
  hs_free(last);
  return left_out;
}

u32 pb_conform(hs_buf *out, pb m, u32 message) { return put(out, m, message, 0); }
