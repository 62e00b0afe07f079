// mutate_proto.c — serialized modules, changed by fields. The bytes are read into a tree by the
// schema; a change picks a field of the tree and deletes it, repeats it, gives it another value of
// its type, takes the value of a field of the same row elsewhere, here or in another proto, or adds
// a field that the message may have. What is written has right lengths and tags, so that the reader
// meets wrong values and not only broken bytes.
#include "core/proto/read.h"
#include "core/proto/schema.h"
#include "core/types/ops.h"
#include "tests/harness/mutate.h"

enum { MAX_DEPTH = 40, MAX_BYTES = 1 << 16 };
typedef struct node {
  const pb_row *row;  // NULL: not in the schema, or the root
  u32 num, wire, message;
  u64 v;
  pb bytes;
  u32 first, next;  // its fields, and the field behind it; 0: none
  bool gone;
} node;
typedef struct tree {
  u64 *state;
  HS_VEC(node) v;
  hs_arena arena;
} tree;

static size_t below(tree *t, size_t n) { return mutate_below(t->state, n); }

static u32 read_fields(tree *t, pb m, u32 message, u32 depth) {
  u32 first = 0, last = 0;
  for (pb_field f; pb_next(&m, &f);) {
    node x = {.row = pb_row_by_number(message, f.num), .num = f.num, .wire = f.wire, .v = f.v};
    x.bytes = f.sub;
    if (x.row && x.row->type == PB_MESSAGE && f.wire == 2 && depth < MAX_DEPTH && pb_valid(f.sub))
      x.message = x.row->sub, x.first = read_fields(t, f.sub, x.row->sub, depth + 1);
    hs_vec_push(&t->v, x);
    u32 k = (u32)t->v.n - 1;
    if (last) t->v.v[last].next = k;
    else first = k;
    last = k;
  }
  return first;
}

// A tree's root is a node without a row. Node 0 is none.
static u32 read_tree(tree *t, const char *p, size_t n) {
  pb m = {(const u8 *)p, (const u8 *)p + n, false};
  u32 root = hlo_proto_root(m);
  if (!root) return 0;
  node x = {.message = root, .first = read_fields(t, m, root, 0)};
  hs_vec_push(&t->v, x);
  return (u32)t->v.n - 1;
}

static void write_fields(const tree *t, u32 k, hs_buf *b, u32 depth) {
  for (; k && depth < MAX_DEPTH && b->n < MAX_BYTES; k = t->v.v[k].next) {
    const node *x = &t->v.v[k];
    if (x->gone) continue;
    if (x->message) {
      size_t mark = pb_begin(b);
      write_fields(t, x->first, b, depth + 1);
      pb_end(b, x->num, mark);
      continue;
    }
    pb_put_tag(b, x->num, x->wire);
    if (x->wire == 0) pb_put_varint(b, x->v);
    if (x->wire == 1) hs_buf_put(b, (const char *)&x->v, 8);
    if (x->wire == 5) hs_buf_put(b, (const char *)&x->v, 4);
    if (x->wire == 2) {
      size_t n = (size_t)(x->bytes.end - x->bytes.p);
      pb_put_varint(b, n);
      if (n) hs_buf_put(b, (const char *)x->bytes.p, n);
    }
  }
}

// ---- values -------------------------------------------------------------------------------------
static u64 number(tree *t, const pb_row *r, u64 old) {
  static const u64 edges[] = {0,
                              1,
                              2,
                              3,
                              5,
                              8,
                              31,
                              32,
                              63,
                              64,
                              127,
                              128,
                              255,
                              1000,
                              65536,
                              INT32_MAX,
                              (u64)1 << 31,
                              UINT32_MAX,
                              (u64)1 << 32,
                              INT64_MAX,
                              (u64)1 << 63,
                              UINT64_MAX,
                              UINT64_MAX - 1,
                              (u64)-5};
  static const double reals[] = {0, -0.0, 1, -1, 1e308, -1e308, 1e-320, 0.5, 0.0 / 1.0};
  if (r && r->type == PB_F64) return hs_load64(&reals[below(t, HS_COUNT(reals))]);
  if (r && r->type == PB_F32) {
    float x = (float)(reals[below(t, HS_COUNT(reals))]);
    return hs_load32(&x);
  }
  if (r && r->type == PB_BOOL) return below(t, 2);
  if (r && r->type == PB_ENUM && below(t, 8)) return below(t, 40);
  switch (below(t, 4)) {
  case 0: return old + 1;
  case 1: return old - 1;
  case 2: return edges[below(t, 10)];
  default: return edges[below(t, HS_COUNT(edges))];
  }
}

static pb keep(tree *t, hs_buf *b) {
  u8 *p = hs_arena_dup(&t->arena, b->n ? b->p : "", b->n);
  pb out = {p, p + b->n, false};
  hs_buf_free(b);
  return out;
}

// A list of numbers: one of them other, gone or twice.
static pb packed(tree *t, const pb_row *r, pb old) {
  HS_VEC(u64) v = {0};
  u32 wire = pb_wire_of(r);
  for (u64 x; pb_next_packed(&old, wire, &x);) hs_vec_push(&v, x);
  if (v.n == 0 || below(t, 4) == 0) hs_vec_push(&v, number(t, r, 1));
  size_t k = below(t, v.n);
  switch (below(t, 4)) {
  case 0: v.v[k] = v.v[--v.n]; break;
  case 1: hs_vec_push(&v, v.v[k]); break;
  default: v.v[k] = number(t, r, v.v[k]); break;
  }
  hs_buf b = {0};
  for (k = 0; k < v.n; k++) {
    if (wire == 0) pb_put_varint(&b, v.v[k]);
    else hs_buf_put(&b, (const char *)&v.v[k], wire == 1 ? 8 : 4);
  }
  hs_vec_free(&v);
  return keep(t, &b);
}

static pb text(tree *t, const pb_row *r, pb old) {
  hs_buf b = {0};
  if (r && strcmp(r->name, "opcode") == 0 && below(t, 8)) {
    hs_buf_puts(&b, hlo_op_text((hlo_opcode)(1 + below(t, HLO_OPCODE_COUNT - 1))));
  } else {
    size_t n = (size_t)(old.end - old.p);
    if (n) hs_buf_put(&b, (const char *)old.p, n);
    if (below(t, 6) == 0) b.n = 0;
    else mutate_bytes(t->state, &b);
  }
  return keep(t, &b);
}

static void change_value(tree *t, node *x) {
  bool numbers = x->row && x->row->type < PB_STR;
  if (x->wire == 2 && numbers) x->bytes = packed(t, x->row, x->bytes);
  else if (x->wire == 2) x->bytes = text(t, x->row, x->bytes);
  else x->v = number(t, x->row, x->v);
}

// ---- changes ------------------------------------------------------------------------------------
// A node of the same row as x, in any of the trees; 0 when there is no other.
static u32 alike(tree *t, const node *x) {
  size_t from = below(t, t->v.n);
  for (size_t k = 0; k < t->v.n; k++) {
    size_t j = (from + k) % t->v.n;
    const node *y = &t->v.v[j];
    bool same = y->row == x->row || (x->message && y->message == x->message && y->row);
    if (j && same && y != x) return (u32)j;
  }
  return 0;
}
static void take_value(node *x, const node *y) {
  x->v = y->v, x->bytes = y->bytes, x->first = y->first, x->message = y->message, x->wire = y->wire;
}

static void add_field(tree *t, u32 k) {
  u32 message = t->v.v[k].message, rows = 0;
  for (const pb_row *r = &pb_rows[message + 1]; r->num; r++) rows++;
  if (!rows) return;
  const pb_row *r = &pb_rows[message + 1 + below(t, rows)];
  node x = {.row = r, .num = r->num, .wire = pb_wire_of(r)};
  if (r->type == PB_MESSAGE) x.message = r->sub;
  u32 y = alike(t, &x);
  if (y) take_value(&x, &t->v.v[y]);
  if (!x.message && below(t, 3)) change_value(t, &x);
  x.next = t->v.v[k].first;
  hs_vec_push(&t->v, x);
  t->v.v[k].first = (u32)t->v.n - 1;
}

static void change_one(tree *t, u32 mine) {
  u32 k = 1 + (u32)below(t, mine);
  for (u32 tries = 0; tries < 20 && (t->v.v[k].gone || !t->v.v[k].num); tries++)
    k = 1 + (u32)below(t, mine);
  if (!t->v.v[k].num) {
    add_field(t, k);
    return;
  }
  node copy = t->v.v[k];
  switch (below(t, 10)) {
  case 0: t->v.v[k].gone = true; break;
  case 1:  // twice
    hs_vec_push(&t->v, copy);
    t->v.v[k].next = (u32)t->v.n - 1;
    break;
  case 2:
  case 3:
  case 4: {
    u32 y = alike(t, &t->v.v[k]);
    if (y) take_value(&t->v.v[k], &t->v.v[y]);
    break;
  }
  case 5:
    if (copy.message) add_field(t, k);
    else change_value(t, &t->v.v[k]);
    break;
  case 6:  // another field's number
    if (below(t, 4) == 0) t->v.v[k].num = 1 + (u32)below(t, 100);
    break;
  default:
    if (copy.message) add_field(t, k);
    else change_value(t, &t->v.v[k]);
  }
}

void mutate_proto(u64 *state, hs_buf *bytes, const char *other, size_t nother, u32 edits) {
  tree t = {.state = state};
  hs_vec_push(&t.v, (node){0});
  u32 root = bytes->n ? read_tree(&t, bytes->p, bytes->n) : 0;
  if (!root) {
    mutate_bytes(state, bytes);
    hs_vec_free(&t.v);
    return;
  }
  u32 mine = root;
  if (other) (void)read_tree(&t, other, nother);
  for (u32 k = 0; k < edits; k++) change_one(&t, mine);
  hs_buf b = {0};
  write_fields(&t, t.v.v[root].first, &b, 0);
  bytes->n = 0;
  if (b.n) hs_buf_put(bytes, b.p, b.n);
  if (below(&t, 25) == 0) mutate_bytes(state, bytes);
  hs_buf_free(&b);
  hs_vec_free(&t.v);
  hs_arena_free(&t.arena);
}
