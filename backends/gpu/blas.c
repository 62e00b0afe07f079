// blas.c — dots by cuBLASLt: which ones, by which of its algorithms, and how they are run. See
// library.h.
//
// The library is opened when the first dot that it should compute is lowered, so that its workspace
// is a scratch block of the step like any other. When the program is on the device, the library's
// heuristic names a few algorithms for each dot, and they are timed there, on the program's own
// memory filled with numbers; unless libraries are insisted on, our kernel is timed with them, and
// the fastest is kept. Equal products of the session's programs share one choice. Afterwards a dot
// is one call that enqueues kernels, in a recorded sequence too.
//
// What the library refuses is our kernel's: the reason stands in `dump schedule`. A fusion of a dot
// and an epilogue (epilogue.c) is one such call too.
#include "backends/gpu/library.h"

#include <stdio.h>

#if HAVE_LLVM

enum {
  LEAST_STEPS = 1 << 21,  // multiplications of a dot that is worth a library's choice
  LEAST_EDGE = 16,        // rows and columns; of narrower ones our kernels are as fast as memory
  TRIED = 4,              // algorithms
};
#define MOST_WORKSPACE ((i64)32 << 20)  // what NVIDIA advises from Hopper on

// What was chosen for a product: as long as the library is open, no other program times it again.
typedef struct found {
  gpu_product p;
  backend_libraries libraries;
  blas_algorithm algorithm;
  size_t workspace;
  bool chosen;
  char text[64], note[200];
} found;

typedef struct gpu_blas {
  gpu_library l;
  blas_api api;
  blas_handle *handle;
  HS_VEC(found) found;
} gpu_blas;

typedef struct blas_call {
  gpu_call call;
  gpu_product p;
  const gpu_blas *blas;
  blas_desc *desc;
  blas_layout *layout[3];
  blas_algorithm algorithm;
  size_t workspace;
} blas_call;

static hs_status open_blas(gpu_library *l) {
  gpu_blas *b = (gpu_blas *)l;
  HS_TRY(blas_open(NULL, &b->api));
  return blas_check(b->api.create(&b->handle), "starting cuBLASLt");
}

static const gpu_library_kind cublaslt = {
    .bytes = sizeof(gpu_blas),
    .name = "cuBLASLt",
    .variable = "HLOSH_LIBCUBLASLT",
    .open = open_blas,
};

// ---- which dots ---------------------------------------------------------------------------------

static bool is_worth_it(const gpu_program *g, const gpu_product *p) {
  return g->libraries == BACKEND_LIBRARIES_ON ||
         (gpu_product_steps(p) >= LEAST_STEPS && p->m >= LEAST_EDGE && p->n >= LEAST_EDGE);
}

static bool is_meant(const gpu_program *g, const hlo_instr *i, gpu_product *p) {
  return g->dev && g->libraries != BACKEND_LIBRARIES_OFF && gpu_product_of(i, g->sm, p) &&
         is_worth_it(g, p);
}

// Eight partial results of four bytes for each number of the result.
static i64 workspace_of(const gpu_product *p) {
  i64 n = p->m * p->n * p->batch;
  return n > MOST_WORKSPACE / 32 ? MOST_WORKSPACE : 32 * n;
}

hs_status gpu_blas_wants(gpu_program *g, const hlo_instr *i, i64 *workspace) {
  gpu_product p;
  gpu_blas *b;
  *workspace = -1;
  if (!is_meant(g, i, &p)) return HS_GOOD;
  hs_status s = gpu_library_find(g->dev, &g->dev->library[GPU_CUBLASLT], &cublaslt, &b);
  if (hs_ok(s)) *workspace = workspace_of(&p);
  else if (g->libraries == BACKEND_LIBRARIES_ON) return s;
  hs_status_drop(s);
  return HS_GOOD;
}

// ---- a call -------------------------------------------------------------------------------------

#define BLAS_TRY(call, what) HS_TRY(blas_check((call), (what)))

static int type_of(hlo_dtype t) {
  static const struct {
    hlo_dtype type;
    int number;
  } types[] = {{HLO_F32, BLAS_F32},           {HLO_F64, BLAS_F64},      {HLO_F16, BLAS_F16},
               {HLO_BF16, BLAS_BF16},         {HLO_S8, BLAS_S8},        {HLO_S32, BLAS_S32},
               {HLO_F8E4M3FN, BLAS_F8E4M3FN}, {HLO_F8E5M2, BLAS_F8E5M2}};
  size_t k = 0;
  while (k + 1 < HS_COUNT(types) && types[k].type != t) k++;
  return types[k].number;
}

// The places of what the epilogue reads and writes are part of the description: buffers that loops
// exchange have other ones in each iteration.
static hs_status point(const gpu_program *g, const cpu_step *s, const blas_call *c) {
  const blas_api *api = &c->blas->api;
  cuda_ptr bias = c->p.bias ? gpu_address(g, s->vals[c->p.bias_in]) : 0,
           before = c->p.both ? gpu_address(g, s->vals[s->nin + 1]) : 0;
  if (bias) BLAS_TRY(api->desc_set(c->desc, BLAS_DESC_BIAS, &bias, sizeof bias), "naming a bias");
  if (before)
    BLAS_TRY(api->desc_set(c->desc, BLAS_DESC_BOTH, &before, sizeof before), "naming a result");
  return HS_GOOD;
}

static hs_status describe_epilogue(const blas_call *c) {
  static const char what[] = "describing an epilogue";
  const blas_api *api = &c->blas->api;
  const gpu_product *p = &c->p;
  if (!p->epilogue) return HS_GOOD;
  BLAS_TRY(api->desc_set(c->desc, BLAS_DESC_EPILOGUE, &p->epilogue, sizeof p->epilogue), what);
  if (!p->both) return HS_GOOD;
  BLAS_TRY(api->desc_set(c->desc, BLAS_DESC_BOTH_LEADING, &p->d.leading, sizeof p->d.leading),
           what);
  return blas_check(api->desc_set(c->desc, BLAS_DESC_BOTH_STRIDE, &p->d.batch, sizeof p->d.batch),
                    what);
}

static hs_status describe(blas_call *c) {
  static const char what[] = "describing a product";
  const blas_api *api = &c->blas->api;
  const gpu_product *p = &c->p;
  const gpu_matrix *x[] = {&p->a, &p->b, &p->d};
  const i64 rows[] = {p->m, p->k, p->m}, columns[] = {p->k, p->n, p->n};
  BLAS_TRY(api->desc_new(&c->desc, p->compute, p->scale), what);
  for (u32 k = 0; k < 3; k++) {
    i64 r = x[k]->turned ? columns[k] : rows[k], n = x[k]->turned ? rows[k] : columns[k];
    i32 batch = (i32)p->batch, op = x[k]->turned ? BLAS_OP_TURNED : BLAS_OP_PLAIN;
    blas_layout **l = &c->layout[k];
    BLAS_TRY(api->layout_new(l, type_of(p->type[k]), (u64)r, (u64)n, x[k]->leading), what);
    BLAS_TRY(api->layout_set(*l, BLAS_LAYOUT_BATCH, &batch, sizeof batch), what);
    BLAS_TRY(api->layout_set(*l, BLAS_LAYOUT_STRIDE, &x[k]->batch, sizeof x[k]->batch), what);
    if (k < 2)
      BLAS_TRY(api->desc_set(c->desc, k ? BLAS_DESC_TURN_B : BLAS_DESC_TURN_A, &op, sizeof op),
               what);
  }
  return describe_epilogue(c);
}

static hs_status run_by(gpu_program *g, const cpu_step *s, const blas_call *c,
                        const blas_algorithm *algorithm, size_t workspace) {
  union {
    float f32;
    double f64;
    i32 s32;
  } one = {.f32 = 1}, zero = {.f64 = 0};
  if (c->p.scale == BLAS_F64) one.f64 = 1;
  if (c->p.scale == BLAS_S32) one.s32 = 1;
  cuda_ptr d = gpu_address(g, s->vals[s->nin]),
           scratch = s->scratch_slot == CPU_NONE ? 0 : g->addr[s->scratch_slot];
  g->launches++;
  HS_TRY(point(g, s, c));
  return blas_check(c->blas->api.multiply(c->blas->handle, c->desc, &one,
                                          gpu_address(g, s->vals[c->p.a_in]), c->layout[0],
                                          gpu_address(g, s->vals[c->p.b_in]), c->layout[1], &zero,
                                          d, c->layout[2], d, c->layout[2], algorithm,
                                          workspace ? scratch : 0, workspace, g->dev->stream),
                    s->instr->name);
}

static hs_status run_call(gpu_program *g, const cpu_step *s, gpu_call *x) {
  const blas_call *c = (const blas_call *)x;
  return run_by(g, s, c, &c->algorithm, c->workspace);
}

static void free_call(gpu_program *g, gpu_call *x) {
  (void)g;
  blas_call *c = (blas_call *)x;
  for (u32 k = 0; k < 3; k++)
    if (c->layout[k]) (void)c->blas->api.layout_free(c->layout[k]);
  if (c->desc) (void)c->blas->api.desc_free(c->desc);
}

static void print_call(const gpu_call *x, hs_buf *out) {
  const gpu_product *p = &((const blas_call *)x)->p;
  hs_buf_printf(out, "%lld x %lld by %lld, batch %lld, %s%s%s", (long long)p->m, (long long)p->n,
                (long long)p->k, (long long)p->batch, p->a.turned ? "T" : "N",
                p->b.turned ? "T" : "N", gpu_epilogue_text(p));
}

static const gpu_call_kind products = {.run = run_call, .print = print_call, .free = free_call};

// ---- choosing -----------------------------------------------------------------------------------

typedef struct trial {
  const blas_call *c;
  const blas_choice *x;
} trial;

static hs_status run_trial(gpu_program *g, const cpu_step *s, const void *arg) {
  const trial *t = arg;
  return run_by(g, s, t->c, &t->x->algorithm, t->x->workspace_bytes);
}

static hs_status ask(const blas_call *c, size_t workspace, blas_choice *out, int *n) {
  const blas_api *api = &c->blas->api;
  blas_preference *p = NULL;
  BLAS_TRY(api->preference_new(&p), "asking for algorithms");
  blas_result r = api->preference_set(p, BLAS_PREFER_WORKSPACE, &workspace, sizeof workspace);
  if (r == BLAS_OK)
    r = api->heuristic(c->blas->handle, c->desc, c->layout[0], c->layout[1], c->layout[2],
                       c->layout[2], p, TRIED, out, n);
  (void)api->preference_free(p);
  if (r == BLAS_OK && *n == 0) r = BLAS_NOT_SUPPORTED;
  return blas_check(r, "its heuristic");
}

static void name_choice(blas_call *c, const char *of, u32 tried, double ms, double ours) {
  u32 id = 0, tile = 0, splits = 0;
  size_t n;
  if (c->blas->api.algorithm_get) {
    (void)c->blas->api.algorithm_get(&c->algorithm, BLAS_ALGORITHM_ID, &id, sizeof id, &n);
    (void)c->blas->api.algorithm_get(&c->algorithm, BLAS_ALGORITHM_TILE, &tile, sizeof tile, &n);
    (void)c->blas->api.algorithm_get(&c->algorithm, BLAS_ALGORITHM_SPLITS, &splits, sizeof splits,
                                     &n);
  }
  (void)snprintf(c->call.text, sizeof c->call.text, "cuBLASLt algo %u", id);
  int at = snprintf(c->call.note, sizeof c->call.note,
                    "%s algorithm %u, tile %u, %u splits, workspace %zu B; %.4g ms, the best of %u",
                    of, id, tile, splits, c->workspace, ms, tried);
  if (ours >= 0)
    (void)snprintf(c->call.note + at, sizeof c->call.note - (size_t)at, "; our kernel %.4g ms",
                   ours);
}

// Times the candidates. An algorithm that fails is left out, unless the device went with it.
static hs_status choose(gpu_program *g, const cpu_step *s, size_t room, blas_call *c) {
  blas_choice x[TRIED];
  int n = 0;
  double ours = -1, best = -1;
  u32 tried = 0;
  HS_TRY(describe(c));
  HS_TRY(point(g, s, c));
  HS_TRY(ask(c, room, x, &n));
  hs_status last = HS_GOOD;
  for (int k = 0; k < HS_MIN(n, (int)TRIED); k++) {
    double ms;
    if (x[k].state != BLAS_OK || x[k].workspace_bytes > room) continue;
    hs_status one = gpu_library_time(g, s, run_trial, &(trial){c, &x[k]}, &ms);
    if (!hs_ok(one) && g->dev->failed) return one;
    tried += hs_ok(one);
    if (hs_ok(one) && (best < 0 || ms < best)) {
      best = ms;
      c->algorithm = x[k].algorithm;
      c->workspace = x[k].workspace_bytes;
    }
    hs_status_drop(last);
    last = one;
  }
  if (!tried && !hs_ok(last)) return last;
  hs_status_drop(last);
  if (!tried) return blas_check(BLAS_NOT_SUPPORTED, "its algorithms");
  if (g->libraries == BACKEND_LIBRARIES_AUTO) HS_TRY(gpu_library_time(g, s, NULL, NULL, &ours));
  c->call.chosen = ours < 0 || best <= ours;
  name_choice(c, c->call.chosen ? "cuBLASLt," : "our kernel, not cuBLASLt's", tried, best, ours);
  return HS_GOOD;
}

static bool is_same_matrix(const gpu_matrix *a, const gpu_matrix *b) {
  return a->turned == b->turned && a->leading == b->leading && a->batch == b->batch;
}

static bool is_same(const gpu_product *a, const gpu_product *b) {
  return a->m == b->m && a->n == b->n && a->k == b->k && a->batch == b->batch &&
         is_same_matrix(&a->a, &b->a) && is_same_matrix(&a->b, &b->b) &&
         is_same_matrix(&a->d, &b->d) && memcmp(a->type, b->type, sizeof a->type) == 0 &&
         a->compute == b->compute && a->scale == b->scale && a->epilogue == b->epilogue;
}

// What was found for an equal product since the library was opened, in this program or another one.
static bool choose_as_before(const gpu_blas *b, backend_libraries libraries, size_t room,
                             blas_call *c) {
  for (size_t k = 0; k < b->found.n; k++) {
    const found *o = &b->found.v[k];
    if (!is_same(&o->p, &c->p) || o->libraries != libraries || o->workspace > room) continue;
    c->algorithm = o->algorithm, c->workspace = o->workspace, c->call.chosen = o->chosen;
    memcpy(c->call.text, o->text, sizeof c->call.text);
    memcpy(c->call.note, o->note, sizeof c->call.note);
    size_t n = strlen(c->call.note);
    (void)snprintf(c->call.note + n, sizeof c->call.note - n, ", found before");
    return true;
  }
  return false;
}

static void remember(gpu_blas *b, backend_libraries libraries, const blas_call *c) {
  found f = {.p = c->p,
             .libraries = libraries,
             .algorithm = c->algorithm,
             .workspace = c->workspace,
             .chosen = c->call.chosen};
  memcpy(f.text, c->call.text, sizeof f.text);
  memcpy(f.note, c->call.note, sizeof f.note);
  hs_vec_push(&b->found, f);
}

static hs_status prepare(gpu_program *g, u32 kernel, blas_call *c) {
  gpu_blas *b = (gpu_blas *)g->first->dev->library[GPU_CUBLASLT];  // all devices do the same
  const cpu_step *s = g->p->kernels.v[kernel];
  size_t room = s->scratch_slot == CPU_NONE ? 0 : g->p->slots.v[s->scratch_slot].bytes;
  for (u32 k = 0; k < s->nin; k++)
    for (u32 r = s->nin; r < s->nvals; r++)
      HS_REQUIRE(g->p->values.v[s->vals[k]].slot != g->p->values.v[s->vals[r]].slot);
  bool before = choose_as_before(b, g->libraries, room, c);
  hs_status st = before ? c->call.chosen ? describe(c) : HS_GOOD : choose(g, s, room, c);
  if (hs_ok(st) && !before) remember(b, g->libraries, c);
  if (hs_ok(st) || g->dev->failed) return st;
  c->call.chosen = false;
  (void)snprintf(c->call.note, sizeof c->call.note, "our kernel: %s", st.err->message);
  hs_status_drop(st);
  return HS_GOOD;
}

hs_status gpu_blas_prepare(gpu_program *g, u32 kernel) {
  const gpu_library *l = g->dev->library[GPU_CUBLASLT];
  gpu_product p;
  if (!l || !l->open || !is_meant(g, g->p->kernels.v[kernel]->instr, &p)) return HS_GOOD;
  HS_TRY(gpu_library_fill(g));
  blas_call *c = HS_NEW(&g->arena, blas_call);
  *c = (blas_call){.call.kind = &products, .p = p, .blas = (const gpu_blas *)l};
  g->kernels[kernel].call = &c->call;
  gpu_call_add(g, &c->call);
  return prepare(g, kernel, c);
}

#endif
