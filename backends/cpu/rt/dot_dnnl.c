// dot_dnnl.c — dot by oneDNN's matmul: which dots it gets, and how.
//
// It gets matrix products of f32 and of bf16 (in place where both operands and the result have that
// type and collapse; otherwise in f32 through packed copies), and s8 times s8 to s32 where its sums
// are exact. Its reference implementations are slower than our own loops and are refused. Below
// 8192 multiplications, and for M = 1 or N = 1, a primitive costs more than the work.
//
// A product is split into pieces by its shape, and the pool runs them, each in one thread: oneDNN's
// own threads would compete with the pool for the cores, and its barriers cost a time slice where a
// core is busy with another process. The result does not depend on the number of threads.
#include "backends/cpu/rt/dot.h"

#if HAVE_DNNL
#include <dnnl.h>

// The engine and the stream of oneDNN, shared by all primitives of the worker: made on first use,
// they live until the process ends. Requests are handled by one thread, so nothing is locked.
static dnnl_engine_t engine;
static dnnl_stream_t stream;

dnnl_engine_t cpu_dnnl_engine(void) {
  if (!engine && dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) engine = NULL;
  if (engine && !stream &&
      dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success)
    engine = NULL;
  return engine;
}

dnnl_stream_t cpu_dnnl_stream(void) { return stream; }

// AMD's processors multiply twice as many numbers of bf16 at a time as of f32, and AMX many more.
// Intel's vectors take four times as long for an instruction of bf16, and where there is none
// oneDNN does it by several: widened to f32 a product takes half of the time there.
bool cpu_dnnl_fast_bf16(void) {
  unsigned isa = (unsigned)dnnl_get_effective_cpu_isa(), amx = dnnl_cpu_isa_avx512_core_amx,
           vector = dnnl_cpu_isa_avx512_core_bf16;
  if ((isa & amx) == amx) return true;
#if defined(__x86_64__)
  if (__builtin_cpu_is("intel")) return false;
#endif
  return (isa & vector) == vector;
}

// Part of the product: its own arrays, its own scratch memory and stream, so that several run at
// the same time.
typedef struct piece {
  dnnl_primitive_t prim;  // shared by pieces of the same extents
  bool owns;
  dnnl_memory_t a, b, c, scratch;
  dnnl_stream_t stream;
  i64 at_a, at_b, at_c;  // bytes
  i64 first, count;      // products of the batch, one after the other, where it has several dims
} piece;

enum { MOST_PIECES = 16 };
struct dot_dnnl {
  u32 n;
  i64 size_a, size_b, size_c;  // bytes of an element
  piece v[MOST_PIECES];
};

// Are its sums of s8 products exact? Without VNNI it adds pairs of products in 16 bits, which
// saturate. With VNNI it multiplies unsigned by signed values: it adds 128 to the left operand and
// takes that back in f32, where 255 * 128 * K has to be below 2^24. AMX multiplies signed values as
// they are.
static bool exact_s8(const char *impl, i64 K) {
  return strstr(impl, "amx") ||
         (K <= 512 && (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_vnni) ==
                          dnnl_cpu_isa_avx512_core_vnni);
}

static void free_piece(piece *p) {
  dnnl_memory_t *m[] = {&p->a, &p->b, &p->c, &p->scratch};
  for (size_t k = 0; k < HS_COUNT(m); k++)
    if (*m[k]) dnnl_memory_destroy(*m[k]);
  if (p->stream) dnnl_stream_destroy(p->stream);
  if (p->prim && p->owns) dnnl_primitive_destroy(p->prim);
}

void cpu_dot_dnnl_free(dot_dnnl *p) {
  for (u32 k = 0; p && k < p->n; k++) free_piece(&p->v[k]);
  hs_free(p);
}

// One product of the extents and with the strides of d; like: a piece of the same extents, or NULL.
// False when oneDNN has no primitive worth using.
static bool make_piece(const dot *d, dnnl_data_type_t ta, dnnl_data_type_t tb, dnnl_data_type_t tc,
                       const piece *like, piece *p) {
  dnnl_engine_t eng = cpu_dnnl_engine();
  dnnl_memory_desc_t a, b, c;
  dnnl_dims_t da = {d->B, d->M, d->K}, db = {d->B, d->K, d->N}, dc = {d->B, d->M, d->N};
  dnnl_dims_t sa = {d->step_a[0], d->a.r, d->a.c}, sb = {d->step_b[0], d->b.r, d->b.c},
              sc = {d->step_c[0], d->c.r, d->c.c};
  int r = d->B == 1 ? 2 : 3, o = 3 - r;
  dnnl_matmul_desc_t md;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t pd = NULL;
  if (!eng || dnnl_memory_desc_init_by_strides(&a, r, da + o, ta, sa + o) ||
      dnnl_memory_desc_init_by_strides(&b, r, db + o, tb, sb + o) ||
      dnnl_memory_desc_init_by_strides(&c, r, dc + o, tc, sc + o) ||
      dnnl_matmul_desc_init(&md, &a, &b, NULL, &c) || dnnl_primitive_attr_create(&attr))
    return false;
  dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  dnnl_status_t st = dnnl_primitive_desc_create(&pd, &md, attr, eng, NULL);
  dnnl_primitive_attr_destroy(attr);
  if (st) return false;
  const char *impl = NULL;
  dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &impl);
  bool ok = impl && !strstr(impl, "ref") && (ta != dnnl_s8 || exact_s8(impl, d->K));
  p->owns = ok && !like && dnnl_primitive_create(&p->prim, pd) == dnnl_success;
  if (like) p->prim = like->prim;
  const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
  ok = ok && p->prim && dnnl_memory_create(&p->a, &a, eng, DNNL_MEMORY_NONE) == dnnl_success &&
       dnnl_memory_create(&p->b, &b, eng, DNNL_MEMORY_NONE) == dnnl_success &&
       dnnl_memory_create(&p->c, &c, eng, DNNL_MEMORY_NONE) == dnnl_success &&
       dnnl_memory_create(&p->scratch, scratch, eng, DNNL_MEMORY_ALLOCATE) == dnnl_success &&
       dnnl_stream_create(&p->stream, eng, dnnl_stream_default_flags) == dnnl_success;
  dnnl_primitive_desc_destroy(pd);
  return ok;
}

// What is split, by shapes alone: batches where there are several, else rows or columns, whichever
// are more. A piece has PIECE_WORK multiplications at least.
#define PIECE_WORK ((i64)1 << 20)
static i64 *split(dot *part, u32 *n) {
  i64 work = hs_mul_sat_i64(hs_mul_sat_i64(part->B, part->M), hs_mul_sat_i64(part->N, part->K));
  i64 *along = part->B >= 4 ? &part->B : part->M >= part->N ? &part->M : &part->N;
  i64 smallest = along == &part->B ? 1 : 16;  // rows or columns of a piece
  i64 most = HS_MIN(work / PIECE_WORK, *along / smallest);
  *n = (u32)HS_MAX(HS_MIN(most, (i64)MOST_PIECES), 1);
  return along;
}

// Primitives for operands and a result of these types with the strides of d->a, d->b, d->c; NULL
// when oneDNN has none worth using.
static dot_dnnl *new_primitive(const dot *d, dnnl_data_type_t ta, dnnl_data_type_t tb,
                               dnnl_data_type_t tc) {
  dot part = *d;
  u32 n;
  i64 *along = split(&part, &n), extent = *along, made = 0;
  dot_dnnl *p = hs_calloc(1, sizeof *p);
  p->size_a = (i64)dnnl_data_type_size(ta);
  p->size_b = (i64)dnnl_data_type_size(tb);
  p->size_c = (i64)dnnl_data_type_size(tc);
  for (u32 k = 0; k < n; k++) {
    i64 lo = extent * k / n;
    piece *x = &p->v[p->n++],
          *like = k && *along == extent * (k + 1) / n - lo ? &p->v[k - 1] : NULL;
    *along = extent * (k + 1) / n - lo;
    if (d->nbatch > 1) {  // then it is B that is split, see split()
      like = k ? &p->v[0] : NULL;
      x->first = lo;
      x->count = *along;
      part.B = 1;
      lo = 0;
    }
    i64 sa = along == &part.B   ? d->step_a[0]
             : along == &part.M ? d->a.r
                                : 0,
        sb = along == &part.B   ? d->step_b[0]
             : along == &part.N ? d->b.c
                                : 0,
        sc = along == &part.B   ? d->step_c[0]
             : along == &part.M ? d->c.r
                                : d->c.c;
    x->at_a = lo * sa * p->size_a;
    x->at_b = lo * sb * p->size_b;
    x->at_c = lo * sc * p->size_c;
    made += make_piece(&part, ta, tb, tc, like, x);
  }
  if (made == n) return p;
  cpu_dot_dnnl_free(p);
  return NULL;
}

typedef struct product {
  const dot *d;
  const dot_dnnl *p;
  const char *a, *b;
  char *c;
  _Atomic int status;  // of oneDNN; the first that is not 0
} product;

static void run_piece(void *ctx, i64 k, u32 thread) {
  (void)thread;
  product *x = ctx;
  const piece *p = &x->p->v[k];
  for (i64 i = 0; i < HS_MAX(p->count, (i64)1); i++) {
    i64 a = 0, b = 0, c = 0;
    if (p->count) cpu_dot_batch(x->d, p->first + i, &a, &b, &c);
    dnnl_memory_set_data_handle(p->a, (void *)(uintptr_t)(x->a + p->at_a + a * x->p->size_a));
    dnnl_memory_set_data_handle(p->b, (void *)(uintptr_t)(x->b + p->at_b + b * x->p->size_b));
    dnnl_memory_set_data_handle(p->c, x->c + p->at_c + c * x->p->size_c);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, p->a},
                                    {DNNL_ARG_WEIGHTS, p->b},
                                    {DNNL_ARG_DST, p->c},
                                    {DNNL_ARG_SCRATCHPAD, p->scratch}};
    dnnl_status_t st = dnnl_primitive_execute(p->prim, p->stream, 4, args);
    if (st) x->status = (int)st;
  }
}

hs_status cpu_dot_dnnl_run(const dot *d, const void *a, const void *b, void *c) {
  product x = {.d = d, .p = d->dnnl, .a = a, .b = b, .c = c};
  cpu_par_for(run_piece, &x, x.p->n);
  return x.status == 0 ? HS_GOOD
                       : hs_fail(HS_E_RUN, "oneDNN matmul failed with status %d", x.status);
}

static bool dnnl_type(hlo_dtype t, dnnl_data_type_t *out) {
  switch (t) {
  case HLO_F32: *out = dnnl_f32; return true;
  case HLO_BF16: *out = dnnl_bf16; return true;
  case HLO_S8: *out = dnnl_s8; return true;
  case HLO_S32: *out = dnnl_s32; return true;
  default: return false;
  }
}

// oneDNN wants one of the two matrix strides to be 1. The stride along a dim of extent 1 is never
// used, so it is set to what oneDNN accepts.
static bool accepts(dot_side *s, i64 rows, i64 cols) {
  if (cols == 1 && s->r != 1) s->c = 1;
  else if (rows == 1 && s->c != 1) s->r = 1;
  if (cols == 1 && s->c == 1 && s->r < 1) s->r = 1;
  if (rows == 1 && s->c == 1) s->r = HS_MAX(s->r, cols);
  return s->r == 1 || s->c == 1;
}

static bool pays(const dot *d) {
  if (d->sum_type != DOT_F32 && !(d->ta == HLO_S8 && d->tb == HLO_S8 && d->tc == HLO_S32))
    return false;
  if (d->M == 1 || d->N == 1) return false;
  return d->B > 0 && d->M * d->N * d->K >= 8192;
}

// The operands in place, in their own types.
static bool in_place(dot *d) {
  dnnl_data_type_t ta, tb, tc;
  dot try = *d;
  if (d->pack_a || d->pack_b || d->pack_c || !dnnl_type(d->ta, &ta) || !dnnl_type(d->tb, &tb) ||
      !dnnl_type(d->tc, &tc) || ta != tb)
    return false;
  if (!accepts(&try.a, d->M, d->K) || !accepts(&try.b, d->K, d->N) || try.c.c != 1) return false;
  try.dnnl = new_primitive(&try, ta, tb, tc);
  if (!try.dnnl) return false;
  *d = try;
  return true;
}

bool cpu_dot_dnnl_prepare(dot *d) {
  if (!pays(d)) return false;
  if (in_place(d)) return true;
  if (d->sum_type != DOT_F32) return false;
  d->pack_a |= d->ta != HLO_F32 || !accepts(&d->a, d->M, d->K);
  d->pack_b |= d->tb != HLO_F32 || !accepts(&d->b, d->K, d->N);
  d->pack_c |= d->tc != HLO_F32 || d->c.c != 1;
  cpu_dot_pack_strides(d);
  d->dnnl = new_primitive(d, dnnl_f32, dnnl_f32, dnnl_f32);
  return d->dnnl != NULL;
}
#else

bool cpu_dnnl_fast_bf16(void) { return false; }

bool cpu_dot_dnnl_prepare(dot *d) {
  (void)d;
  return false;
}

hs_status cpu_dot_dnnl_run(const dot *d, const void *a, const void *b, void *c) {
  (void)d, (void)a, (void)b, (void)c;
  return hs_fail(HS_E_NOT_BUILT, "built without oneDNN");
}

void cpu_dot_dnnl_free(dot_dnnl *p) { (void)p; }
#endif
