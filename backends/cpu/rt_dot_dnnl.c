// rt_dot_dnnl.c — dot by oneDNN's matmul: which dots it gets, and how.
//
// It gets matrix products of f32 and of bf16 (in place where both operands and the result have that
// type and collapse; otherwise in f32 through packed copies), and s8 times s8 to s32 where its sums
// are exact. Its reference implementations are slower than our own loops and are refused. Below
// 8192 multiplications, and for M = 1 or N = 1, a primitive costs more than the work.
#include "backends/cpu/rt_dot.h"

#if HAVE_DNNL
#include <dnnl.h>

struct dot_dnnl {
  dnnl_primitive_t prim;
  dnnl_memory_t a, b, c;
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

void cpu_dot_dnnl_free(dot_dnnl *p) {
  if (!p) return;
  if (p->prim) dnnl_primitive_destroy(p->prim);
  if (p->a) dnnl_memory_destroy(p->a);
  if (p->b) dnnl_memory_destroy(p->b);
  if (p->c) dnnl_memory_destroy(p->c);
  hs_free(p);
}

// Makes a primitive for operands and a result of these types with the strides of d->a, d->b, d->c;
// NULL when oneDNN has none worth using.
static dot_dnnl *new_primitive(const dot *d, dnnl_data_type_t ta, dnnl_data_type_t tb,
                               dnnl_data_type_t tc) {
  dnnl_engine_t eng = cpu_dnnl_engine();
  if (!eng) return NULL;
  dnnl_memory_desc_t a, b, c;
  dnnl_dims_t da = {d->B, d->M, d->K}, db = {d->B, d->K, d->N}, dc = {d->B, d->M, d->N};
  dnnl_dims_t sa = {d->a.b, d->a.r, d->a.c}, sb = {d->b.b, d->b.r, d->b.c},
              sc = {d->c.b, d->c.r, d->c.c};
  int r = d->B == 1 ? 2 : 3, o = 3 - r;
  if (dnnl_memory_desc_init_by_strides(&a, r, da + o, ta, sa + o) ||
      dnnl_memory_desc_init_by_strides(&b, r, db + o, tb, sb + o) ||
      dnnl_memory_desc_init_by_strides(&c, r, dc + o, tc, sc + o))
    return NULL;
  dnnl_matmul_desc_t md;
  dnnl_primitive_desc_t pd = NULL;
  if (dnnl_matmul_desc_init(&md, &a, &b, NULL, &c)) return NULL;
  if (dnnl_primitive_desc_create(&pd, &md, NULL, eng, NULL)) return NULL;
  const char *impl = NULL;
  dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &impl);
  dot_dnnl *p = hs_calloc(1, sizeof *p);
  bool ok = impl && !strstr(impl, "ref") && (ta != dnnl_s8 || exact_s8(impl, d->K)) &&
            dnnl_primitive_create(&p->prim, pd) == dnnl_success &&
            dnnl_memory_create(&p->a, &a, eng, DNNL_MEMORY_NONE) == dnnl_success &&
            dnnl_memory_create(&p->b, &b, eng, DNNL_MEMORY_NONE) == dnnl_success &&
            dnnl_memory_create(&p->c, &c, eng, DNNL_MEMORY_NONE) == dnnl_success;
  dnnl_primitive_desc_destroy(pd);
  if (ok) return p;
  cpu_dot_dnnl_free(p);
  return NULL;
}

hs_status cpu_dot_dnnl_run(const dot *d, const void *a, const void *b, void *c) {
  const dot_dnnl *p = d->dnnl;
  dnnl_memory_set_data_handle(p->a, (void *)(uintptr_t)a);
  dnnl_memory_set_data_handle(p->b, (void *)(uintptr_t)b);
  dnnl_memory_set_data_handle(p->c, c);
  dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}};
  dnnl_status_t st = dnnl_primitive_execute(p->prim, cpu_dnnl_stream(), 3, args);
  return st == dnnl_success ? HS_GOOD
                            : hs_fail(HS_E_RUN, "oneDNN matmul failed with status %d", (int)st);
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
