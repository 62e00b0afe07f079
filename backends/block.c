// block.c — packs arguments into shared memory and makes literals of results. See block.h.
//
// Leaves are visited in the order of the flattened tuples on both sides, so that no table of
// offsets has to cross. A block counts its references: one of the maker, one per literal that
// points into it.
#include "backends/block.h"

#include <math.h>
#include <sys/mman.h>

size_t block_leaf_bytes(const hlo_shape *s) {
  if (!hlo_shape_is_array(s)) return 0;
  i64 n = hs_mul_sat_i64(s->elements, (i64)hlo_dtype_storage(s->dtype));
  return HS_MIN((size_t)n, BLOCK_TOO_LARGE);
}

size_t block_bytes(const hlo_shape *s) {
  size_t n = 0;
  for (u32 k = 0, m = hlo_shape_leaves(s); k < m; k++)
    n = block_add(n, block_align(block_leaf_bytes(hlo_shape_leaf(s, k))));
  return n;
}

static hs_status collect(const hlo_shape *s, const hlo_literal *l, u32 param,
                         const hlo_literal **leaf, u32 *n) {
  if (hlo_shape_is_tuple(s)) {
    if (l->nchildren != s->nelems)
      return hs_fail(HS_E_INPUT, "argument %u is not the tuple that the parameter asks for", param);
    for (u32 k = 0; k < s->nelems; k++)
      HS_TRY(collect(s->elems[k], l->children[k], param, leaf, n));
    return HS_GOOD;
  }
  size_t bytes = block_leaf_bytes(s);
  if (l->elided) return hs_fail(HS_E_ELIDED, "argument %u has no value", param);
  if (bytes && (!l->data || l->bytes != bytes))
    return hs_fail(HS_E_INPUT, "argument %u has %zu bytes, the parameter needs %zu", param,
                   l->bytes, bytes);
  if (s->dtype != HLO_TOKEN) leaf[(*n)++] = l;
  return HS_GOOD;
}

hs_status block_leaves(u32 n, const hlo_shape *const *params, u32 nargs, hlo_literal *const *args,
                       const hlo_literal **leaf) {
  if (nargs != n) return hs_fail(HS_E_INPUT, "%u arguments for %u parameters", nargs, n);
  u32 at = 0;
  for (u32 k = 0; k < n; k++) HS_TRY(collect(params[k], args[k], k, leaf, &at));
  return HS_GOOD;
}

static size_t packed_bytes(u32 n, const hlo_shape *const *params, size_t *leaves) {
  size_t total = 0;
  *leaves = 0;
  for (u32 k = 0; k < n; k++)
    total = block_add(total, block_bytes(params[k])), *leaves += hlo_shape_leaves(params[k]);
  return total;
}

// leaf: ends with NULL when there are fewer than that many.
static hs_status pack(size_t total, size_t leaves, const hlo_literal *const *leaf,
                      worker_shm *out) {
  HS_TRY(worker_shm_new(total, out));
  size_t at = 0;
  for (size_t k = 0; k < leaves && leaf[k]; at += block_align(leaf[k++]->bytes))
    HS_TRY(hs_copy((char *)out->p + at, leaf[k]->data, leaf[k]->bytes));
  return worker_shm_seal(out);
}

hs_status block_pack(u32 n, const hlo_shape *const *params, u32 nargs, hlo_literal *const *args,
                     worker_shm *out) {
  size_t leaves, total = packed_bytes(n, params, &leaves);
  const hlo_literal **leaf = hs_calloc(leaves + 1, sizeof *leaf);
  hs_status s = block_leaves(n, params, nargs, args, leaf);
  if (hs_ok(s)) s = pack(total, leaves, leaf, out);
  hs_free(leaf);
  return s;
}

hs_status block_keep(u32 n, const hlo_shape *const *params, u32 nargs, hlo_literal *const *args,
                     block_kept *kept) {
  size_t leaves, total = packed_bytes(n, params, &leaves);
  const hlo_literal **leaf = hs_calloc(leaves + 1, sizeof *leaf);
  hs_status s = block_leaves(n, params, nargs, args, leaf);
  bool same = hs_ok(s) && kept->leaf && kept->n == leaves && kept->shm.bytes == total &&
              !memcmp(kept->leaf, leaf, leaves * sizeof *leaf);
  if (!hs_ok(s) || same) {
    hs_free(leaf);
    return s;
  }
  block_forget(kept);
  *kept = (block_kept){.number = kept->number + 1, .shm.fd = -1, .n = (u32)leaves, .leaf = leaf};
  for (size_t k = 0; k < leaves && leaf[k]; k++) leaf[k] = hlo_literal_ref(leaf[k]);
  s = pack(total, leaves, leaf, &kept->shm);
  if (!hs_ok(s)) block_forget(kept);
  return s;
}

void block_forget(block_kept *k) {
  if (!k->leaf) return;
  for (u32 j = 0; j < k->n; j++) hlo_literal_unref((hlo_literal *)(uintptr_t)k->leaf[j]);
  hs_free(k->leaf);
  worker_shm_free(&k->shm);
  *k = (block_kept){.number = k->number};
}

hs_status block_new(size_t bytes, block **out) {
  block *b = hs_calloc(1, sizeof *b);
  b->refs = 1;
  hs_status s = worker_shm_new(bytes, &b->shm);
  if (!hs_ok(s)) {
    hs_free(b);
    b = NULL;
  }
  *out = b;
  return s;
}

hs_status block_own(block *b) {
  size_t n = b->shm.bytes;
  void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return hs_fail_errno(HS_E_NO_MEMORY, "a copy of the results");
  (void)madvise(p, n, MADV_HUGEPAGE);
  hs_status s = hs_copy(p, b->shm.p, n);
  worker_shm_free(&b->shm);
  b->shm = (worker_shm){.fd = -1, .p = p, .bytes = n};
  return s;
}

void block_drop(block *b) {
  if (!b || --b->refs > 0) return;
  worker_shm_free(&b->shm);
  hs_free(b);
}

static void drop_from_literal(void *data, size_t bytes, void *arg) {
  (void)data;
  (void)bytes;
  block_drop(arg);
}

hlo_literal *block_literal(const hlo_shape *s, block *b, size_t *at) {
  if (hlo_shape_is_tuple(s)) {
    hlo_literal **kids = hs_calloc(s->nelems + 1, sizeof *kids);
    for (u32 k = 0; k < s->nelems; k++) kids[k] = block_literal(s->elems[k], b, at);
    hlo_literal *t = hlo_literal_tuple(s, s->nelems, kids);
    hs_free(kids);
    return t;
  }
  size_t n = block_leaf_bytes(s);
  b->refs++;
  hlo_literal *l = hlo_literal_wrap(s, (char *)b->shm.p + *at, n, drop_from_literal, b);
  *at += block_align(n);
  return l;
}

void block_put_options(hs_buf *b, const backend_run_options *o) {
  wire_put_u32(b, o->warmup);
  wire_put_u32(b, o->min_runs);
  wire_put_u32(b, o->max_runs);
  wire_put_f64(b, o->min_seconds);
  wire_put_f64(b, o->max_seconds);
  wire_put_u32(b, o->want_kernel_times);
  wire_put_u32(b, o->want_counters);
}

backend_run_options block_get_options(wire_reader *r) {
  backend_run_options o = {0};
  o.warmup = wire_get_u32(r);
  o.min_runs = wire_get_u32(r);
  o.max_runs = wire_get_u32(r);
  o.min_seconds = wire_get_f64(r);
  o.max_seconds = wire_get_f64(r);
  o.want_kernel_times = wire_get_u32(r) != 0;
  o.want_counters = wire_get_u32(r) != 0;
  return o;
}

static void put_power(hs_buf *b, const backend_power *p) {
  wire_put_f64(b, p->seconds);
  wire_put_f64(b, p->joules);
  wire_put_u32(b, p->runs);
  wire_put_u32(b, p->mhz);
  wire_put_str(b, p->slowed);
}

static backend_power get_power(wire_reader *r) {
  backend_power p = {0};
  p.seconds = wire_get_f64(r);
  p.joules = wire_get_f64(r);
  p.runs = wire_get_u32(r);
  p.mhz = wire_get_u32(r);
  hs_str slowed = wire_get_str(r);
  if (!r->bad) memcpy(p.slowed, slowed.p, HS_MIN(slowed.n, sizeof p.slowed - 1));
  r->bad |= !isfinite(p.seconds) || p.seconds < 0 || !isfinite(p.joules) || p.joules < 0;
  return p;
}

void block_put_timing(hs_buf *b, const backend_timing *t) {
  wire_put_f64(b, t->first_ms);
  wire_put_f64(b, t->transfer_ms);
  wire_put_f64(b, t->dispatch_ms);
  put_power(b, &t->power);
  wire_put_u32(b, t->runs);
  if (t->runs) wire_put(b, t->samples_ms, t->runs * sizeof(double));
  const prof_recording *k = t->kernels;
  wire_put_u32(b, k ? k->nruns : 0);
  if (!k) return;
  wire_put_u32(b, k->nkernels);
  wire_put_u32(b, k->nevents);
  wire_put_f64(b, k->probe_ns);
  wire_put_f64(b, k->slowdown);
  wire_put_str(b, k->how);
  wire_put_str(b, k->counted);
  wire_put_u32(b, k->counters != NULL);
  wire_put_i64(b, (i64)k->dropped);
  wire_put(b, k->run_ms, k->nruns * sizeof *k->run_ms);
  wire_put(b, k->ms, (size_t)k->nruns * k->nkernels * sizeof *k->ms);
  wire_put(b, k->calls, k->nkernels * sizeof *k->calls);
  wire_put(b, k->events, k->nevents * sizeof *k->events);
  if (k->counters) wire_put(b, k->counters, k->nkernels * sizeof *k->counters);
}

// n elements of `size` bytes; NULL, and the reader bad, when the message is shorter.
static void *get_array(wire_reader *r, size_t n, size_t size) {
  if (r->bad || n > r->n / size) {
    r->bad = true;
    return NULL;
  }
  void *v = hs_calloc(n + 1, size);
  wire_get(r, v, n * size);
  return v;
}

static double *get_times(wire_reader *r, u32 *n) {
  *n = wire_get_u32(r);
  double *v = get_array(r, *n, sizeof *v);
  for (u32 k = 0; v && k < *n; k++) r->bad |= !isfinite(v[k]) || v[k] < 0;
  if (!v) *n = 0;
  return v;
}

// NULL when the message has none.
static prof_recording *get_recording(wire_reader *r, u32 nkernels) {
  u32 nruns = wire_get_u32(r);
  if (r->bad || !nruns) return NULL;
  prof_recording *k = hs_calloc(1, sizeof *k);
  k->nruns = nruns;
  k->nkernels = wire_get_u32(r);
  k->nevents = wire_get_u32(r);
  k->probe_ns = wire_get_f64(r);
  k->slowdown = wire_get_f64(r);
  hs_str how = wire_get_str(r);
  memcpy(k->how, how.p, HS_MIN(how.n, sizeof k->how - 1));
  hs_str counted = wire_get_str(r);
  memcpy(k->counted, counted.p, HS_MIN(counted.n, sizeof k->counted - 1));
  bool counters = wire_get_u32(r) != 0;
  k->dropped = (u64)wire_get_i64(r);
  k->run_ms = get_array(r, k->nruns, sizeof *k->run_ms);
  k->ms = get_array(r, (size_t)k->nruns * k->nkernels, sizeof *k->ms);
  k->calls = get_array(r, k->nkernels, sizeof *k->calls);
  k->events = get_array(r, k->nevents, sizeof *k->events);
  if (counters) k->counters = get_array(r, k->nkernels, sizeof *k->counters);
  r->bad |= k->nkernels != nkernels;
  if (!r->bad) r->bad = !prof_recording_is_sound(k);
  return k;
}

hs_status block_get_timing(wire_reader *r, u32 nkernels, backend_timing *t) {
  // one statement each: a list of initializers has no order
  *t = (backend_timing){0};
  t->first_ms = wire_get_f64(r);
  t->transfer_ms = wire_get_f64(r);
  t->dispatch_ms = wire_get_f64(r);
  r->bad |= !isfinite(t->first_ms) || t->first_ms < 0;
  r->bad |= !isfinite(t->transfer_ms) || t->transfer_ms < 0;
  r->bad |= !isfinite(t->dispatch_ms) || (t->dispatch_ms < 0 && t->dispatch_ms != -1);
  t->power = get_power(r);
  t->samples_ms = get_times(r, &t->runs);
  t->kernels = get_recording(r, nkernels);
  if (!r->bad && t->runs) return HS_GOOD;
  hs_free(t->samples_ms);
  prof_recording_free(t->kernels);
  *t = (backend_timing){0};
  return hs_fail(HS_E_WORKER, "the worker's answer to a run request is damaged");
}
