// collective.c — what happens between devices: as calls of NCCL, or on the host. See gpu.h.
//
// A collective that NCCL has becomes calls for every device, enqueued in the devices' streams by
// one thread between group_start and group_end. Its groups are the evaluator's (hlo_eval_group); a
// communicator is split off the one of all devices for each way of grouping, once in a process. An
// array whose gathered or split dimension is not its slowest in memory is several calls, a block
// each; a permute and an exchange are sends and receives.
//
// The host does what NCCL does not: other reducers and types, groups that do not partition the
// devices evenly, permutes of slices, and everything where there is no NCCL. Then operands are
// copied to it, the evaluator computes for all devices (cpu_called_run), and results go back.
//
// A device's own number is written into its memory; the done of an asynchronous collective, which
// was done at its start, is a copy.
#include "backends/gpu/library.h"

#include <stdio.h>

#include "backends/cpu/in_step.h"
#include "backends/gpu/nccl/nccl.h"
#include "core/analysis/customcall.h"
#include "core/eval/eval.h"

#if HAVE_LLVM

enum { MOST_BLOCKS = 64, MOST_CALLS = 1 << 14 };  // of one operand; of all devices at one step

// ---- the library --------------------------------------------------------------------------------

// Communicators of n devices, by device: of the one of color c in the group c, at place key.
typedef struct grouping {
  u32 n;
  int color[GPU_MOST_DEVICES], key[GPU_MOST_DEVICES];
  nccl_comm *comm[GPU_MOST_DEVICES];
} grouping;

typedef struct gpu_nccl {
  gpu_library l;
  nccl_api api;
  HS_VEC(grouping *) made;
} gpu_nccl;

static hs_status open_nccl(gpu_library *l) { return nccl_open(NULL, &((gpu_nccl *)l)->api); }

static const gpu_library_kind nccl = {
    .bytes = sizeof(gpu_nccl),
    .name = "NCCL",
    .variable = "HLOSH_LIBNCCL",
    .open = open_nccl,
};

static bool is_same(const grouping *a, const grouping *b) {
  return a->n == b->n && memcmp(a->color, b->color, a->n * sizeof *a->color) == 0 &&
         memcmp(a->key, b->key, a->n * sizeof *a->key) == 0;
}

static void all_devices(u32 n, grouping *out) {
  *out = (grouping){.n = n};
  for (u32 d = 0; d < n; d++) out->key[d] = (int)d;
}

static hs_status find_grouping(gpu_nccl *l, const grouping *want, const grouping **out);

static hs_status make_grouping(gpu_nccl *l, grouping *x) {
  grouping all;
  const grouping *of;
  all_devices(x->n, &all);
  if (is_same(x, &all))
    return nccl_check(l->api.init_all(x->comm, (int)x->n, x->key), "joining all devices");
  HS_TRY(find_grouping(l, &all, &of));
  nccl_result r = l->api.group_start();
  for (u32 d = 0; d < x->n && r == NCCL_OK; d++)
    r = l->api.split(of->comm[d], x->color[d], x->key[d], &x->comm[d], NULL);
  nccl_result end = l->api.group_end();
  return nccl_check(r == NCCL_OK ? end : r, "dividing devices into groups");
}

static hs_status find_grouping(gpu_nccl *l, const grouping *want, const grouping **out) {
  for (size_t k = 0; k < l->made.n; k++)
    if (is_same(l->made.v[k], want)) return *out = l->made.v[k], HS_GOOD;
  grouping *x = hs_alloc(sizeof *x);
  *x = *want;
  hs_status s = make_grouping(l, x);
  if (!hs_ok(s)) {
    hs_free(x);
    return s;
  }
  hs_vec_push(&l->made, x);
  *out = x;
  return HS_GOOD;
}

// ---- which operations ---------------------------------------------------------------------------

typedef enum sort {
  NUMBER,
  DONE,
  REDUCE,
  SCATTER,
  GATHER,
  BROADCAST,
  EXCHANGE,  // of parts of one operand
  DEAL,      // operand k goes to device k
  PERMUTE,
} sort;

static const struct {
  hlo_opcode op;
  sort sort;
} operations[] = {
    {HLO_PARTITION_ID, NUMBER},
    {HLO_REPLICA_ID, NUMBER},
    {HLO_ALL_REDUCE_DONE, DONE},
    {HLO_ALL_GATHER_DONE, DONE},
    {HLO_COLLECTIVE_PERMUTE_DONE, DONE},
    {HLO_ALL_REDUCE, REDUCE},
    {HLO_ALL_REDUCE_START, REDUCE},
    {HLO_REDUCE_SCATTER, SCATTER},
    {HLO_ALL_GATHER, GATHER},
    {HLO_ALL_GATHER_START, GATHER},
    {HLO_COLLECTIVE_BROADCAST, BROADCAST},
    {HLO_ALL_TO_ALL, EXCHANGE},
    {HLO_COLLECTIVE_PERMUTE, PERMUTE},
    {HLO_COLLECTIVE_PERMUTE_START, PERMUTE},
};

static const struct {
  hlo_dtype type;
  int theirs;
  u32 numbers;  // in an element
} types[] = {
    {HLO_PRED, NCCL_NUMBER_UINT8, 1},    {HLO_S8, NCCL_NUMBER_INT8, 1},
    {HLO_U8, NCCL_NUMBER_UINT8, 1},      {HLO_S32, NCCL_NUMBER_INT32, 1},
    {HLO_U32, NCCL_NUMBER_UINT32, 1},    {HLO_S64, NCCL_NUMBER_INT64, 1},
    {HLO_U64, NCCL_NUMBER_UINT64, 1},    {HLO_F16, NCCL_NUMBER_FLOAT16, 1},
    {HLO_F32, NCCL_NUMBER_FLOAT32, 1},   {HLO_F64, NCCL_NUMBER_FLOAT64, 1},
    {HLO_BF16, NCCL_NUMBER_BFLOAT16, 1}, {HLO_C64, NCCL_NUMBER_FLOAT32, 2},
    {HLO_C128, NCCL_NUMBER_FLOAT64, 2},
};

// Truth values are numbers 0 and 1.
static const struct {
  hlo_opcode op;
  int theirs;
  bool of_pred, of_numbers, of_pairs;
} reductions[] = {
    {HLO_ADD, NCCL_NUMBER_SUM, false, true, true},
    {HLO_MULTIPLY, NCCL_NUMBER_PROD, false, true, false},
    {HLO_MAXIMUM, NCCL_NUMBER_MAX, true, true, false},
    {HLO_MINIMUM, NCCL_NUMBER_MIN, true, true, false},
    {HLO_OR, NCCL_NUMBER_MAX, true, false, false},
    {HLO_AND, NCCL_NUMBER_MIN, true, false, false},
};

typedef struct collective {
  sort sort;
  int reduction;
  u32 n;      // operands that are sent
  u32 first;  // result leaf of the first; those before are the operands themselves
  i64 dim;
} collective;

static const hlo_shape *sent(const hlo_instr *i, u32 k) { return hlo_operand(i, k)->shape; }
static const hlo_shape *got(const hlo_instr *i, const collective *c, u32 k) {
  return hlo_shape_leaf(i->shape, c->first + k);
}

static size_t row_of_type(hlo_dtype t) {
  size_t k = 0;
  while (k < HS_COUNT(types) && types[k].type != t) k++;
  return k;
}

// The reducer as NCCL knows it, for the type.
static bool reduction_of(const hlo_instr *i, hlo_dtype t, int *out) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  size_t row = row_of_type(t), k = 0;
  if (!c || c->nparams != 2 || row == HS_COUNT(types) ||
      !hlo_commutes_on(c->root, c->params[0], c->params[1]) || c->root->shape->dtype != t ||
      hlo_operand(c->root, 0)->shape->dtype != t)
    return false;
  while (k < HS_COUNT(reductions) && reductions[k].op != c->root->opcode) k++;
  if (k == HS_COUNT(reductions)) return false;
  *out = reductions[k].theirs;
  return t == HLO_PRED             ? reductions[k].of_pred
         : types[row].numbers == 2 ? reductions[k].of_pairs
                                   : reductions[k].of_numbers;
}

// An array as blocks one after the other, each of which is whole along the dimension.
static i64 block_elements(const hlo_shape *s, i64 dim) {
  i64 strides[HLO_MAX_RANK];
  cpu_strides(s, strides);
  return s->dims[dim] * strides[dim];
}

static i64 minor(const hlo_shape *s, u32 k) {
  return s->layout ? s->layout->minor_to_major[k] : (i64)(s->rank - 1 - k);
}

// The same layout, whatever the sizes.
static bool is_laid_as(const hlo_shape *a, const hlo_shape *b) {
  bool same = a->rank == b->rank;
  for (u32 k = 0; k < a->rank && same; k++) same = minor(a, k) == minor(b, k);
  return same;
}

static bool is_dense(const hlo_shape *s) {
  return hlo_shape_is_array(s) && !hlo_shape_is_dynamic(s);
}

// Whether operand k and its result are what the calls need, groups aside.
static bool fits(const hlo_instr *i, const collective *c, u32 k) {
  const hlo_shape *in = sent(i, k), *out = got(i, c, k);
  bool along = c->sort == SCATTER || c->sort == GATHER || c->sort == EXCHANGE;
  int same = c->reduction;
  if (!is_dense(in) || !is_dense(out) || in->dtype != out->dtype) return false;
  if (!(along ? is_laid_as(in, out) : cpu_same_order(in, out))) return false;
  if (c->first && !is_dense(hlo_shape_leaf(i->shape, k))) return false;
  if (c->first && !cpu_same_order(in, hlo_shape_leaf(i->shape, k))) return false;
  if (c->sort <= SCATTER && (!reduction_of(i, in->dtype, &same) || same != c->reduction))
    return false;
  if (!along) return true;
  i64 slab = c->dim < in->rank ? block_elements(in, c->dim) : 0;
  return slab > 0 && out->elements > 0 && in->elements / slab <= MOST_BLOCKS;
}

// A start that has its operands in front of the results.
static bool carries_operands(const hlo_instr *i) {
  bool may = i->opcode == HLO_ALL_GATHER_START || i->opcode == HLO_COLLECTIVE_PERMUTE_START;
  return may && hlo_shape_is_tuple(i->shape) && i->shape->nelems >= 2;
}

// What a done copies: behind the operands that its start has in front.
static bool done_of(const hlo_instr *i, collective *c) {
  const hlo_instr *start = hlo_operand(i, 0);
  u32 n = hlo_shape_leaves(i->shape);
  c->first = carries_operands(start) ? hlo_shape_leaves(start->shape->elems[0]) : 0;
  bool is = c->first + n <= hlo_shape_leaves(start->shape);
  for (u32 k = 0; k < n && is; k++) {
    const hlo_shape *from = hlo_shape_leaf(start->shape, c->first + k),
                    *to = hlo_shape_leaf(i->shape, k);
    is = is_dense(from) && is_dense(to) && from->logical == to->logical && cpu_same_order(from, to);
  }
  c->n = n;
  return is;
}

static bool collective_of(const hlo_instr *i, collective *c) {
  size_t row = 0;
  while (row < HS_COUNT(operations) && operations[row].op != i->opcode) row++;
  if (row == HS_COUNT(operations)) return false;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  const hlo_int_lists *slices = hlo_attr_ptr(i, HLO_ATTR_PERMUTE_SLICE_SIZES);
  *c = (collective){.sort = operations[row].sort, .n = i->noperands, .dim = dims.n ? dims.v[0] : 0};
  if (c->sort == NUMBER) return true;
  if (c->sort == DONE) return done_of(i, c);
  if (carries_operands(i)) c->first = hlo_shape_leaves(i->shape->elems[0]);
  if (c->sort == EXCHANGE && (c->n != 1 || !hlo_shape_is_array(i->shape))) c->sort = DEAL;
  bool is = c->n > 0 && (c->first == 0 || c->first == c->n) &&
            c->first + c->n <= hlo_shape_leaves(i->shape) && !(slices && slices->n) &&
            !hlo_attr_int(i, HLO_ATTR_HAS_DYNAMIC_ROOT, 0);
  if (is && c->sort >= REDUCE && c->sort <= SCATTER)
    is = hlo_shape_is_array(sent(i, 0)) && reduction_of(i, sent(i, 0)->dtype, &c->reduction);
  for (u32 k = 0; k < c->n && is; k++) is = hlo_shape_is_array(sent(i, k)) && fits(i, c, k);
  return is;
}

const char *gpu_collective_library(const hlo_instr *i) {
  collective c;
  return collective_of(i, &c) && c.sort >= REDUCE ? "NCCL" : NULL;
}

bool gpu_collective_is_own(const hlo_instr *i) {
  collective c;
  return collective_of(i, &c) && c.sort < REDUCE;
}

bool gpu_collective_is(const cpu_step *s) {
  return hlo_op_has(s->instr->opcode, HLO_F_COLLECTIVE) ||
         (s->instr->opcode == HLO_CUSTOM_CALL && hlo_custom_is_of_devices(s->instr));
}

// ---- calls --------------------------------------------------------------------------------------

typedef struct collective_call {
  gpu_call call;
  collective c;
  gpu_nccl *nccl;  // NULL: not needed, or the program is to be looked at only
  const grouping *groups;
  u32 size;     // of each group
  u32 *source;  // of a permute, by device
} collective_call;

// One device's part.
typedef struct part {
  gpu_program *lane;
  const cpu_step *s;
  const collective_call *x;
  nccl_comm *comm;
  u32 k;  // operand
  cuda_ptr from, to;
  size_t bytes;  // of the operand
} part;

static size_t element(const part *p) { return hlo_dtype_storage(sent(p->s->instr, p->k)->dtype); }

static nccl_result reduce(const part *p) {
  const nccl_api *api = &p->x->nccl->api;
  const hlo_shape *s = sent(p->s->instr, p->k);
  size_t row = row_of_type(s->dtype);
  return api->all_reduce(p->from, p->to, (size_t)s->elements * types[row].numbers,
                         types[row].theirs, p->x->c.reduction, p->comm, p->lane->dev->stream);
}

static nccl_result scatter(const part *p) {
  const nccl_api *api = &p->x->nccl->api;
  const hlo_shape *s = got(p->s->instr, &p->x->c, p->k);
  size_t row = row_of_type(s->dtype), slab = (size_t)block_elements(s, p->x->c.dim);
  nccl_result r = NCCL_OK;
  for (size_t at = 0; at < (size_t)s->elements && r == NCCL_OK; at += slab)
    r = api->reduce_scatter(p->from + at * p->x->size * element(p), p->to + at * element(p),
                            slab * types[row].numbers, types[row].theirs, p->x->c.reduction,
                            p->comm, p->lane->dev->stream);
  return r;
}

static nccl_result gather(const part *p) {
  const nccl_api *api = &p->x->nccl->api;
  size_t slab = (size_t)block_elements(sent(p->s->instr, p->k), p->x->c.dim) * element(p);
  nccl_result r = NCCL_OK;
  for (size_t at = 0; at < p->bytes && r == NCCL_OK; at += slab)
    r = api->all_gather(p->from + at, p->to + at * p->x->size, slab, NCCL_NUMBER_UINT8, p->comm,
                        p->lane->dev->stream);
  return r;
}

static nccl_result broadcast(const part *p) {
  return p->x->nccl->api.broadcast(p->from, p->to, p->bytes, NCCL_NUMBER_UINT8, 0, p->comm,
                                   p->lane->dev->stream);
}

static nccl_result swap(const part *p, u32 peer, cuda_ptr from, cuda_ptr to, size_t n) {
  const nccl_api *api = &p->x->nccl->api;
  cuda_stream *stream = p->lane->dev->stream;
  nccl_result r = api->send(from, n, NCCL_NUMBER_UINT8, (int)peer, p->comm, stream);
  return r == NCCL_OK ? api->recv(to, n, NCCL_NUMBER_UINT8, (int)peer, p->comm, stream) : r;
}

static nccl_result exchange(const part *p) {
  size_t slab = (size_t)block_elements(sent(p->s->instr, p->k), p->x->c.dim) * element(p),
         one = slab / p->x->size;
  nccl_result r = NCCL_OK;
  for (size_t at = 0; at < p->bytes; at += slab)
    for (u32 peer = 0; peer < p->x->size && r == NCCL_OK; peer++)
      r = swap(p, peer, p->from + at + peer * one, p->to + at + peer * one, one);
  return r;
}

static nccl_result deal(const part *p) { return swap(p, p->k, p->from, p->to, p->bytes); }

static nccl_result permute(const part *p) {
  const nccl_api *api = &p->x->nccl->api;
  cuda_stream *stream = p->lane->dev->stream;
  u32 me = p->lane->number, n = p->lane->ndevices;
  const u32 *source = p->x->source;
  nccl_result r = NCCL_OK;
  for (u32 d = 0; d < n && r == NCCL_OK; d++)
    if (source[d] == me && d != me)
      r = api->send(p->from, p->bytes, NCCL_NUMBER_UINT8, (int)d, p->comm, stream);
  if (source[me] < n && source[me] != me && r == NCCL_OK)
    r = api->recv(p->to, p->bytes, NCCL_NUMBER_UINT8, (int)source[me], p->comm, stream);
  return r;
}

// What a device does alone: it hands its operands on, keeps what it sends to itself, and gets zeros
// where nobody sends to it.
static hs_status do_alone(const part *p) {
  u32 leaf = p->s->nin + p->k;
  if (p->x->c.first)
    HS_TRY(gpu_copy(p->lane, gpu_address(p->lane, p->s->vals[leaf]), p->from, p->bytes));
  if (p->x->c.sort != PERMUTE || p->bytes == 0) return HS_GOOD;
  u32 source = p->x->source[p->lane->number];
  if (source == p->lane->number) return gpu_copy(p->lane, p->to, p->from, p->bytes);
  if (source < p->lane->ndevices) return HS_GOOD;
  gpu_device *dev = p->lane->dev;
  return gpu_check(dev, dev->d.set8(p->to, 0, p->bytes, dev->stream), p->s->instr->name);
}

static hs_status call_nccl(const part *p) {
  static nccl_result (*const calls[])(const part *) = {
      [REDUCE] = reduce,     [SCATTER] = scatter, [GATHER] = gather,  [BROADCAST] = broadcast,
      [EXCHANGE] = exchange, [DEAL] = deal,       [PERMUTE] = permute};
  if (p->bytes == 0) return HS_GOOD;
  p->lane->launches++;
  return nccl_check(calls[p->x->c.sort](p), p->s->instr->name);
}

// fn for all operands on all devices that are here.
static hs_status on_all(gpu_program *g, const cpu_step *s, const collective_call *x,
                        hs_status (*fn)(const part *)) {
  for (u32 d = 0; d < g->ndevices; d++) {
    gpu_program *lane = g->lanes[d];
    if (!g->here[d]) continue;
    HS_TRY(gpu_device_use(lane->dev));
    for (u32 k = 0; k < x->c.n; k++)
      HS_TRY(fn(&(part){.lane = lane,
                        .s = s,
                        .x = x,
                        .comm = x->groups->comm[d],
                        .k = k,
                        .from = gpu_address(lane, s->vals[k]),
                        .to = gpu_address(lane, s->vals[s->nin + x->c.first + k]),
                        .bytes = g->p->values.v[s->vals[k]].bytes}));
  }
  return HS_GOOD;
}

static hs_status by_nccl(gpu_program *g, const cpu_step *s, const collective_call *x) {
  const nccl_api *api = &x->nccl->api;
  HS_TRY(on_all(g, s, x, do_alone));
  HS_TRY(nccl_check(api->group_start(), s->instr->name));
  hs_status st = on_all(g, s, x, call_nccl);
  nccl_result end = api->group_end();
  return hs_ok(st) ? nccl_check(end, s->instr->name) : st;
}

// ---- on the host --------------------------------------------------------------------------------

static hs_status exchange_on_host(gpu_program *g, cpu_step *s, void **const *bufs) {
  for (u32 d = 0; d < g->ndevices; d++) {
    if (!g->here[d]) continue;
    HS_TRY(gpu_device_use(g->lanes[d]->dev));
    HS_TRY(gpu_host_begin(g->lanes[d], s, bufs[d]));
  }
  hs_status st = cpu_called_run(s->instr, g->replicas, g->partitions, g->here,
                                (void *const *const *)bufs, NULL);
  bool away = memchr(g->here, false, g->ndevices) != NULL;
  if (!hs_ok(st)) return away ? cpu_did_not_meet(g->p->m, s->instr, st) : st;
  for (u32 d = 0; d < g->ndevices; d++) {
    if (!g->here[d]) continue;
    HS_TRY(gpu_device_use(g->lanes[d]->dev));
    HS_TRY(gpu_host_end(g->lanes[d], s, bufs[d]));
  }
  return HS_GOOD;
}

static hs_status on_host(gpu_program *g, cpu_step *s) {
  size_t n = s->nvals + 1;
  void **all = hs_calloc(n * g->ndevices, sizeof *all);
  void ***bufs = hs_alloc(g->ndevices * sizeof *bufs);
  for (u32 d = 0; d < g->ndevices; d++) bufs[d] = all + d * n;
  hs_status st = exchange_on_host(g, s, bufs);
  hs_free(all);
  hs_free(bufs);
  return st;
}

// Whether each group is here as a whole, or away. A permute takes all.
static bool are_whole(const gpu_program *g, const collective_call *x) {
  for (u32 d = 0; d < g->ndevices; d++)
    for (u32 e = 0; e < g->ndevices; e++)
      if (g->here[d] != g->here[e] && x->groups->color[d] == x->groups->color[e]) return false;
  return true;
}

// Where some of a group are away the evaluator says what that means.
hs_status gpu_collective_run(gpu_program *g, cpu_step *s) {
  gpu_call *call = g->kernels[s->kernel_index].call;
  const collective_call *x = (const collective_call *)call;
  return call && are_whole(g, x) ? by_nccl(g, s, x) : on_host(g, s);
}

// ---- one device's own ---------------------------------------------------------------------------

static hs_status run_own(gpu_program *g, const cpu_step *s, gpu_call *call) {
  const collective *c = &((const collective_call *)call)->c;
  gpu_device *dev = g->dev;
  if (c->sort == NUMBER) {
    bool replica = s->instr->opcode == HLO_REPLICA_ID;
    u32 number = replica ? g->number / g->partitions : g->number % g->partitions;
    g->launches++;
    return gpu_check(dev, dev->d.set32(gpu_address(g, s->vals[0]), number, 1, dev->stream),
                     s->instr->name);
  }
  for (u32 k = 0; k < c->n; k++) {
    u32 to = s->vals[s->nin + k];
    HS_TRY(gpu_copy(g, gpu_address(g, to), gpu_address(g, s->vals[c->first + k]),
                    g->p->values.v[to].bytes));
  }
  return HS_GOOD;
}

static void print_call(const gpu_call *x, hs_buf *out) {
  const collective_call *c = (const collective_call *)x;
  if (c->c.sort < REDUCE) hs_buf_puts(out, "of each device");
  else hs_buf_printf(out, "%u operand%s, groups of %u", c->c.n, c->c.n == 1 ? "" : "s", c->size);
}

// Communicators are the process's.
static void free_call(gpu_program *g, gpu_call *x) { (void)g, (void)x; }

static const gpu_call_kind own = {.run = run_own, .print = print_call, .free = free_call};
static const gpu_call_kind together = {
    .unrecorded = true, .run = run_own, .print = print_call, .free = free_call};

// ---- groups -------------------------------------------------------------------------------------

// The groups of a collective; false: they do not divide the devices into ones of a size.
static bool groups_of(const gpu_program *g, const hlo_instr *i, grouping *out, u32 *size) {
  u32 n = g->ndevices, *devices = hs_alloc(n * sizeof *devices);
  bool is = true;
  *out = (grouping){.n = n};
  *size = 0;
  for (u32 d = 0; d < n && is; d++) {
    u32 members, at, least = n;
    is = hlo_eval_group(i, g->replicas, g->partitions, d, &members, devices, &at) &&
         (d == 0 || members == *size);
    for (u32 k = 0; k < members && is; k++) {
      least = HS_MIN(least, devices[k]);
      for (u32 j = 0; j < k; j++) is &= devices[j] != devices[k];
    }
    if (!is) break;
    *size = members;
    out->color[d] = (int)least;
    out->key[d] = (int)at;
    is = devices[at] == d;
  }
  hs_free(devices);
  return is;
}

// Whether arrays divide among so many devices as the calls do it.
static bool divides(const hlo_instr *i, const collective *c, u32 size) {
  if (c->sort == DEAL) return c->n == size;
  for (u32 k = 0; k < c->n; k++) {
    const hlo_shape *in = sent(i, k), *out = got(i, c, k);
    if (c->sort == GATHER && out->dims[c->dim] != in->dims[c->dim] * size) return false;
    if (c->sort == SCATTER && in->dims[c->dim] != out->dims[c->dim] * size) return false;
    if (c->sort == EXCHANGE && in->dims[c->dim] % size) return false;
  }
  return true;
}

// Calls that one device makes at most.
static i64 calls_of(const hlo_instr *i, const collective *c, u32 size) {
  i64 n = 0;
  for (u32 k = 0; k < c->n; k++) {
    const hlo_shape *s = sent(i, k);
    bool along = c->sort == SCATTER || c->sort == GATHER || c->sort == EXCHANGE;
    i64 one = c->sort == EXCHANGE ? 2 * (i64)size : 2;
    n += along ? one * (s->elements / block_elements(s, c->dim)) : one;
  }
  return c->sort == PERMUTE ? n * size : n;
}

static hs_status find_nccl(gpu_program *g, collective_call *x, const grouping *groups) {
  gpu_library *l;
  HS_TRY(gpu_library_find(g->dev, &g->dev->library[GPU_NCCL], &nccl, &l));
  x->nccl = (gpu_nccl *)l;
  return find_grouping(x->nccl, groups, &x->groups);
}

static collective_call *new_call(gpu_program *g, const hlo_instr *i, const collective *c,
                                 const emit_gpu_kernel **out) {
  collective_call *x = HS_NEW(&g->arena, collective_call);
  *x = (collective_call){.call.kind = c->sort < REDUCE ? &own : &together, .c = *c};
  x->call.chosen = true;
  gpu_call_add(g, &x->call);
  gpu_call_stands(g, &x->call, i);
  *out = x->call.alone;
  return x;
}

// A library that is missing is an error where libraries are insisted on.
static hs_status add_together(gpu_program *g, const hlo_instr *i, const collective *c,
                              const emit_gpu_kernel **out) {
  grouping groups;
  u32 size = g->ndevices;
  collective_call found = {0};
  if (g->libraries == BACKEND_LIBRARIES_OFF || size > GPU_MOST_DEVICES) return HS_GOOD;
  if (c->sort == PERMUTE) all_devices(size, &groups);
  else if (!groups_of(g, i, &groups, &size)) return HS_GOOD;
  if (!divides(i, c, size) || calls_of(i, c, size) * g->ndevices > MOST_CALLS) return HS_GOOD;
  hs_status s = g->dev ? find_nccl(g, &found, &groups) : HS_GOOD;
  if (!hs_ok(s)) {
    if (found.nccl || g->libraries == BACKEND_LIBRARIES_ON) return s;
    hs_status_drop(s);
    return HS_GOOD;
  }
  collective_call *x = new_call(g, i, c, out);
  x->nccl = found.nccl;
  x->groups = found.groups;
  x->size = size;
  if (c->sort == PERMUTE) x->source = HS_NEW_ARRAY(&g->arena, u32, g->ndevices);
  for (u32 d = 0; d < g->ndevices && x->source; d++)
    x->source[d] = hlo_eval_source(i, g->replicas, g->partitions, d);
  (void)snprintf(x->call.text, sizeof x->call.text, "NCCL");
  (void)snprintf(x->call.note, sizeof x->call.note, "NCCL %s", hlo_op_text(i->opcode));
  return HS_GOOD;
}

hs_status gpu_collective_add(gpu_program *g, const hlo_instr *i, const emit_gpu_kernel **out) {
  collective c;
  *out = NULL;
  if (!collective_of(i, &c)) return HS_GOOD;
  if (c.sort >= REDUCE) return g->ndevices > 1 ? add_together(g, i, &c, out) : HS_GOOD;
  collective_call *x = new_call(g, i, &c, out);
  (void)snprintf(x->call.text, sizeof x->call.text, c.sort == NUMBER ? "number" : "copy");
  (void)snprintf(x->call.note, sizeof x->call.note, "written by the driver");
  return HS_GOOD;
}

#endif
