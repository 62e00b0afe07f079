// unit.c — a unit of GPU kernels: what is lowered, scheduled and compiled together (gpu.h).
//
// As in emit.c, equal kernels are found by their serialized nests, constants are copied, and all
// distinct ones are handed to LLVM at once.
#include "backends/emit/gpu/module.h"

#include <ctype.h>
#include <stdio.h>

enum { MOST_CONSTANT_BYTES = 16 << 20 };  // of one kernel, as text five times that

struct emit_gpu_unit {
  hs_arena arena;
  emit_gpu_options options;
  HS_VEC(emit_gpu_kernel *) kernels;
  HS_VEC(gpu_body *) bodies;
  HS_VEC(gpu_body *) body_of;  // of each kernel; NULL: nothing to do
  hs_buf ptx;
  bool finished;
};

bool emit_gpu_supports(const hlo_instr *i, hs_buf *why) { return nest_supports(i, true, why); }

hs_status emit_gpu_unit_new(const emit_gpu_options *o, emit_gpu_unit **out) {
  *out = NULL;
  HS_TRY(gpu_module_check(o));
  *out = hs_calloc(1, sizeof **out);
  (*out)->options = *o;
  return HS_GOOD;
}

// ---- launches before ----------------------------------------------------------------------------
const char *const emit_gpu_suffixes[EMIT_GPU_SUFFIXES] = {
    "_sort", "_step", "_tile", "_keys", "_count", "_scan", "_move", "_gather", "_starts"};
_Static_assert((u32)EMIT_GPU_SUFFIXES == (u32)GPU_ORDER_PARTS, "a suffix for each part");

typedef HS_VEC(emit_gpu_launch) launches;

static void add_launch(launches *l, gpu_order_part part, i64 grid, u64 number) {
  hs_vec_push(
      l, ((emit_gpu_launch){emit_gpu_suffixes[part], part, (u32)grid, GPU_ORDER_THREADS, number}));
}

static i64 blocks_for(i64 threads) { return (threads + GPU_ORDER_THREADS - 1) / GPU_ORDER_THREADS; }

// Digit by digit, the low ones first, from one pair of buffers to the other.
static void digit_launches(const gpu_order *o, launches *l) {
  i64 tiles = o->rows * ((o->size + GPU_ORDER_TILE_OF_DIGITS - 1) / GPU_ORDER_TILE_OF_DIGITS);
  add_launch(l, GPU_ORDER_KEYS, blocks_for(o->rows * o->size), 0);
  for (u32 k = 0; k < o->digits; k++) {
    u64 number = (u64)k * GPU_ORDER_BITS + (k & 1 ? GPU_ORDER_SHIFTS : 0);
    add_launch(l, GPU_ORDER_COUNT, tiles, number);
    add_launch(l, GPU_ORDER_SCAN, o->rows << GPU_ORDER_BITS, number);
    add_launch(l, GPU_ORDER_MOVE, tiles, number);
  }
  add_launch(l, GPU_ORDER_GATHER, blocks_for(o->rows * o->wanted),
             o->digits & 1 ? GPU_ORDER_SHIFTS : 0);
}

// Sorted tiles are merged two by two: the first pairs from both ends, then ever closer, the last of
// them in tiles.
static void network_launches(const gpu_order *p, launches *l) {
  gpu_order o = *p;
  i64 tiles =
      o.several ? o.rows * ((o.size + o.tile - 1) / o.tile) : (o.rows + o.each - 1) / o.each;
  u32 tile = gpu_order_log(o.tile), all = gpu_order_log(o.size);
  add_launch(l, GPU_ORDER_SORT, tiles, 0);
  for (u32 s = tile + 1; o.several && s <= all; s++) {
    i64 pairs = (o.rows << (all - 1));
    for (u32 h = s; h-- > tile;)
      add_launch(l, GPU_ORDER_STEP, blocks_for(pairs), h | (u64)(h == s - 1) << 8);
    add_launch(l, GPU_ORDER_TILE, tiles, 0);
  }
}

static void order_launches(const nest *n, launches *l) {
  gpu_order o = gpu_plan_order(n);
  if (!o.rows) return;
  if (o.digits) digit_launches(&o, l);
  else network_launches(&o, l);
  if (n->order->starts != NEST_NONE)
    add_launch(l, GPU_ORDER_STARTS, (n->order->limits + GPU_ORDER_THREADS) / GPU_ORDER_THREADS, 0);
}

static void body_free(gpu_body *b, bool constants) {
  if (constants) emit_free_constants(b->n);
  nest_free(b->n);
  hs_arena_free(&b->arena);
  hs_buf_free(&b->key);
  hs_free(b);
}

// A name for PTX made of the instruction's: letters, digits and underscores, another one than those
// there are.
static const char *body_name(emit_gpu_unit *u, gpu_body *b, const char *of) {
  size_t n = HS_MIN(strlen(of), (size_t)180);
  char *name = hs_arena_zalloc(&b->arena, n + 16);
  for (size_t k = 0; k < n; k++) name[k] = isalnum((unsigned char)of[k]) ? of[k] : '_';
  if (!isalpha((unsigned char)name[0])) name[0] = 'k';
  bool taken = false;
  for (size_t k = 0; k < u->bodies.n && !taken; k++) taken = !strcmp(u->bodies.v[k]->name, name);
  for (u32 k = 0; k < EMIT_GPU_SUFFIXES; k++) taken |= strstr(name, emit_gpu_suffixes[k]) != NULL;
  // with a number that no other name ends in after two underscores
  if (taken || strstr(name, "__") || strstr(name, "_finish") || strstr(name, "_shared"))
    (void)snprintf(name + n, 16, "__%zu", u->bodies.n);
  return name;
}

static u32 buffers_of(const hlo_instr *i) {
  u32 n = hlo_shape_leaves(i->shape);
  for (u32 k = 0; k < i->noperands; k++) n += hlo_shape_leaves(hlo_operand(i, k)->shape);
  return n;
}

static hs_status check_limits(const hlo_instr *i, const gpu_body *b) {
  i64 bytes = 0;
  for (size_t k = 0; k < b->n->bufs.n; k++)
    if (b->n->bufs.v[k].arg == NEST_BUF_CONST)
      bytes += b->n->bufs.v[k].elements * (i64)hlo_dtype_storage(b->n->bufs.v[k].dtype);
  if (bytes > MOST_CONSTANT_BYTES)
    return hs_fail_subject(HS_E_UNSUPPORTED, "constant",
                           "unsupported: constant: more than 16 MiB inside of %s", i->name);
  if (b->buffers > 500)  // 4 KiB of parameters
    return hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(i->opcode),
                           "unsupported: %s: %u buffers, at most 500", hlo_op_text(i->opcode),
                           b->buffers);
  return HS_GOOD;
}

// The operands that the only result of a kernel along rows, or of a scatter, may take the place of.
static void add_shares(emit_gpu_unit *u, const gpu_body *b, emit_gpu_kernel *k) {
  if (k->kind != EMIT_ROW_WISE && k->kind != EMIT_ORDER) return;
  u32 operands = b->buffers - hlo_shape_leaves(k->instr->shape);
  emit_share *shares = HS_NEW_ARRAY(&u->arena, emit_share, operands + 1);
  for (u32 in = 0; in < operands; in++)
    if (gpu_plan_in_place(b->n, b->phases, (int)in, (int)operands))
      shares[k->nshares++] = (emit_share){in, 0};
  k->shares = shares;
}

hs_status emit_gpu_add(emit_gpu_unit *u, const hlo_instr *i, const emit_gpu_kernel **out) {
  *out = NULL;
  HS_REQUIRE(!u->finished);
  gpu_body *b = hs_calloc(1, sizeof *b), *same = NULL;
  hs_status s = nest_lower_all(&b->arena, i, &b->n);
  b->buffers = buffers_of(i);
  if (hs_ok(s)) s = check_limits(i, b);
  if (!hs_ok(s)) {
    nest_free(b->n);
    hs_arena_free(&b->arena);
    hs_free(b);
    return s;
  }
  if (!b->n->order) nest_simplify(b->n);
  gpu_plan(b->n, u->options.sm, b->phases);
  nest_serialize(b->n, &b->key);
  hs_buf_put(&b->key, (const char *)&b->buffers, sizeof b->buffers);
  b->hash = hs_hash_bytes(b->key.p, b->key.n, 0);
  emit_gpu_kernel *k = HS_NEW(&u->arena, emit_gpu_kernel);
  k->instr = i;
  k->kind = gpu_plan_kind(b->n, b->phases);
  launches before = {0};
  order_launches(b->n, &before);
  k->nbefore = (u32)before.n;
  emit_gpu_launch *all = HS_NEW_ARRAY(&u->arena, emit_gpu_launch, before.n + 1);
  if (before.n) memcpy(all, before.v, before.n * sizeof *all);
  k->before = all;
  hs_vec_free(&before);
  k->name = "";
  k->grid = b->phases[0].grid, k->block = b->phases[0].block;
  k->finish_grid = b->phases[1].grid, k->finish_block = b->phases[1].block;
  k->scratch_bytes = b->n->scratch_bytes;
  emit_update *up = HS_NEW_ARRAY(&u->arena, emit_update, b->n->updates.n + 1);
  for (size_t j = 0; j < b->n->updates.n; j++)
    up[j] = (emit_update){b->n->updates.v[j].in, b->n->updates.v[j].out};
  k->updates = up;
  k->nupdates = (u32)b->n->updates.n;
  add_shares(u, b, k);
  for (size_t e = 0; e < u->bodies.n && !same; e++)
    if (u->bodies.v[e]->hash == b->hash && u->bodies.v[e]->key.n == b->key.n &&
        !memcmp(u->bodies.v[e]->key.p, b->key.p, b->key.n))
      same = u->bodies.v[e];
  if (same || (k->grid == 0 && k->nbefore == 0)) {
    body_free(b, false);
    b = same;
  } else {
    emit_own_constants(b->n);
    b->of = hs_arena_strndup(&b->arena, i->name, strlen(i->name));
    b->name = body_name(u, b, b->of);
    hs_vec_push(&u->bodies, b);
  }
  if (b) k->name = b->name;
  hs_vec_push(&u->kernels, k);
  hs_vec_push(&u->body_of, b);
  *out = k;
  return HS_GOOD;
}

hs_status emit_gpu_finish(emit_gpu_unit *u, u32 threads, double *out_ms) {
  u64 t0 = hs_now_ns();
  HS_REQUIRE(!u->finished);
  HS_TRY(gpu_module_ptx(&u->options, (u32)u->bodies.n, u->bodies.v, threads, &u->ptx));
  u->finished = true;
  for (size_t k = 0; k < u->kernels.n; k++)
    if (u->body_of.v[k]) u->kernels.v[k]->shared_bytes = u->body_of.v[k]->shared_bytes;
  if (out_ms) *out_ms = (double)(hs_now_ns() - t0) * 1e-6;
  return HS_GOOD;
}

hs_status emit_gpu_ptx(emit_gpu_unit *u, hs_buf *out) {
  HS_REQUIRE(u->finished);
  if (u->options.chip)
    return hs_with_note(hs_fail(HS_E_USAGE, "code for %s is no PTX", u->options.chip),
                        "`dump asm` shows its assembly");
  hs_buf_put(out, u->ptx.p, u->ptx.n);
  return HS_GOOD;
}

hs_status emit_gpu_asm(emit_gpu_unit *u, hs_buf *out) {
  HS_REQUIRE(u->finished);
  if (!u->options.chip)
    return hs_with_note(hs_fail(HS_E_USAGE, "code for NVIDIA's GPUs is PTX, no assembly"),
                        "`dump ptx` shows it, `dump sass` what NVIDIA's assembler makes of it");
  hs_buf_put(out, u->ptx.p, u->ptx.n);
  return HS_GOOD;
}

hs_status emit_gpu_bitcode(emit_gpu_unit *u, hs_buf *out) {
  return gpu_module_ir(&u->options, (u32)u->bodies.n, u->bodies.v, true, out);
}

hs_status emit_gpu_dump(emit_gpu_unit *u, const char *what, hs_buf *out) {
  if (!strcmp(what, "ptx")) return emit_gpu_ptx(u, out);
  if (!strcmp(what, "asm")) return emit_gpu_asm(u, out);
  if (!strcmp(what, "llvm"))
    return gpu_module_ir(&u->options, (u32)u->bodies.n, u->bodies.v, false, out);
  if (strcmp(what, "schedule") != 0)
    return hs_fail(HS_E_USAGE, "no dump called '%s': llvm, ptx, asm or schedule", what);
  for (size_t k = 0; k < u->kernels.n; k++)
    hs_buf_printf(out, "%s: %s%s%s\n", u->kernels.v[k]->instr->name,
                  emit_kind_name(u->kernels.v[k]->kind), u->body_of.v[k] ? ", " : "",
                  u->kernels.v[k]->name);
  for (size_t k = 0; k < u->bodies.n; k++) {
    hs_buf_printf(out, "\n%s:\n", u->bodies.v[k]->name);
    gpu_plan_print(u->bodies.v[k]->n, u->bodies.v[k]->phases, out);
  }
  return HS_GOOD;
}

void emit_gpu_unit_free(emit_gpu_unit *u) {
  if (!u) return;
  for (size_t k = 0; k < u->bodies.n; k++) body_free(u->bodies.v[k], true);
  hs_vec_free(&u->bodies);
  hs_vec_free(&u->body_of);
  hs_vec_free(&u->kernels);
  hs_buf_free(&u->ptx);
  hs_arena_free(&u->arena);
  hs_free(u);
}
