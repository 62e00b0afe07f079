// window.c — reduce-window in time linear in the input: running and sliding windows.
//
// A window of several dimensions is folded along one dimension after the other, each a pass over an
// array seen as [outer, n, inner]. Of the results along a dimension, those whose window begins at
// or before the first element are running totals from the front, those whose window ends after the
// last one are running totals from the back, and the others slide. A pass with results of one of
// the first two kinds only, one for each element, is a scan, as JAX writes cumulative sums.
//
// Sliding windows are never differences of running totals, which would lose all precision: short
// ones are built from partial results that double in length, longer ones from running totals of
// blocks as long as the window, from the back and from the front (van Herk 1992, Gil and Werman
// 1993), which are combined at the block's border. Where elements of the dimension are not
// neighbours, whole rows of inner elements take the place of elements.
//
// Long scans are divided into blocks: each runs alone, then takes up the total of those before it
// (Blelloch 1990). All grids come from the shapes, so that 1 and N threads give the same bits. Sums
// and products of narrow floats are those of f32, rounded once at the end.
//
// An operation that is not known to be associative is only taken for one where XLA does it too: in
// scans over more than a few elements.
#include "backends/cpu/rt/scalar.h"

enum {
  MOST = CPU_MONOID_MOST,
  SHORT = 256,          // the longest window that doubles
  DIRECT = 4,           // the longest window of rows whose rows are combined one by one
  TASK = 16384,         // elements worth a task
  WIDEST = 4096,        // the most columns of a task
  XLA_LONG = 32,        // where XLA begins to reassociate
  BETWEEN = 256 << 10,  // bytes between two passes over part of the leading indices
};

typedef struct pass {
  i64 outer, n, inner;  // of its operand
  i64 m;                // results along the dimension
  // result o folds the elements [o * step - low, o * step - low + w) that exist
  i64 w, step, low;
  // results, in order: [0, first) have none; up to `front` run from the first element; up to `back`
  // slide; up to `end` run to the last; the rest have none
  i64 first, front, back, end;
  bool scan, reverse;
  i64 length;  // scan: of its elements, from the end that it starts at
  i64 cols;    // of inner: what one task takes
  i64 block;   // scan: elements of the dimension that one task takes
} pass;

typedef struct windows {
  cpu_monoid op;
  hlo_dtype type;  // of operands and results, where `narrow`: they are folded as f32
  bool narrow;
  u32 n;  // arrays
  u32 npasses;
  pass pass[HLO_MAX_RANK];
  i64 elements_in, elements;
  // Indices of the dimensions before the first that has windows. All passes go over `group` of them
  // before the next ones, so that what is between passes stays in a cache.
  i64 leading, group;
  // what is between passes, by turns, and the widened operand and result: offsets in the scratch
  i64 between[2][MOST], wide_in, wide_out;
} windows;

// ---- shapes -------------------------------------------------------------------------------------

static i64 floor_div(i64 a, i64 b) { return a / b - (a % b < 0); }
static i64 within(i64 v, i64 lo, i64 hi) { return v < lo ? lo : v > hi ? hi : v; }

// Whether the reducer is an operation that is associative, whatever the type.
static bool associative(const hlo_computation *c) {
  cpu_combine op = cpu_combine_of(c);
  return op != CPU_COMB_OTHER && op != CPU_COMB_SECOND;
}

static pass pass_of(const hlo_window_dim *d, i64 outer, i64 n, i64 inner, i64 m) {
  pass p = {.outer = outer,
            .n = n,
            .inner = inner,
            .m = m,
            .w = d->size,
            .step = HS_MAX(d->stride, (i64)1),
            .low = d->pad_low};
  p.first = within(-floor_div(-(p.low - p.w + 1), p.step), 0, m);
  p.front = within(floor_div(p.low, p.step) + 1, p.first, m);
  p.back = within(floor_div(n - p.w + p.low, p.step) + 1, p.front, m);
  p.end = within(-floor_div(-(n + p.low), p.step), p.back, m);
  i64 begin = p.end * p.step - p.step - p.low, stop = p.first * p.step - p.low + p.w;
  if (p.step == 1 && p.first < p.end) {
    bool to_last = stop >= n && begin == n - 1;
    p.scan = to_last || (p.front == p.end && stop == 1);
    p.reverse = to_last;
    p.length = HS_MIN(n, p.end - p.first);
  }
  return p;
}

// Vector operations per result, about.
static double pass_work(const pass *p) {
  if (p->scan) return 2;
  if (p->inner > 1) return HS_MIN((double)p->w, 3.0 * (double)p->step + 1);
  double doubling = 1;
  for (i64 w = p->w; w > 1; w /= 2) doubling += 1.5;
  return HS_MIN(doubling, 12.0) * (double)p->step;
}

static void split(pass *p) {
  i64 rows = p->scan ? p->length : p->n;
  // a few kilobytes of neighbours; less where that leaves too few tasks
  p->cols = HS_MIN(p->inner, (i64)WIDEST);
  if (p->outer < 8) p->cols = HS_MIN(p->cols, HS_MAX((i64)128, (p->inner / 8 + 63) / 64 * 64));
  i64 tasks = p->outer * ((p->inner + p->cols - 1) / p->cols);
  p->block = rows;
  if (p->scan && tasks < 8 && rows * p->cols >= 4 * TASK)
    p->block = HS_MAX((TASK + p->cols - 1) / p->cols, (rows + 63) / 64);
}

static bool describe(const hlo_instr *i, windows *x) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_shape *from = hlo_operand(i, 0)->shape, *to = hlo_shape_leaf(i->shape, 0);
  *x = (windows){.n = i->noperands / 2, .type = from->dtype};
  if (!c || !w || x->n == 0 || x->n > MOST || w->n != from->rank || from->elements == 0 ||
      to->elements == 0 || hlo_shape_is_dynamic(i->shape) || c->nparams != 2 * x->n)
    return false;
  for (u32 k = 0; k < x->n; k++) {
    hlo_dtype t = hlo_operand(i, k)->shape->dtype;
    if (t != hlo_operand(i, x->n + k)->shape->dtype || t != hlo_shape_leaf(i->shape, k)->dtype ||
        c->params[k]->shape->dtype != t || c->params[x->n + k]->shape->dtype != t ||
        hlo_shape_leaf(c->root->shape, k)->dtype != t ||
        hlo_shape_is_dynamic(hlo_operand(i, k)->shape))
      return false;
  }
  x->elements_in = from->elements;
  x->elements = to->elements;
  i64 outer = 1, inner = from->elements;
  double direct = 1, ours = 0;
  for (u32 d = 0; d < w->n; d++) {
    const hlo_window_dim *v = &w->v[d];
    i64 n = from->dims[d], m = to->dims[d];
    inner /= n;
    direct *= (double)HS_MIN(v->size, n);
    if (v->lhs_dilate > 1 || (v->rhs_dilate > 1 && v->size > 1)) return false;
    if (v->size != 1 || v->stride > 1 || v->pad_low || n != m) {
      pass *p = &x->pass[x->npasses++];
      *p = pass_of(v, outer, n, inner, m);
      split(p);
      ours += pass_work(p) * (double)(outer * m * inner);
    }
    outer *= m;
  }
  if (x->npasses == 0 || direct * (double)to->elements < 3 * ours) return false;
  return associative(c) || (x->npasses == 1 && x->pass[0].scan && x->pass[0].w > XLA_LONG);
}

static bool make_op(const hlo_instr *i, windows *x) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  hlo_dtype types[MOST];
  for (u32 k = 0; k < x->n; k++) types[k] = hlo_operand(i, k)->shape->dtype;
  x->narrow = x->n == 1 && hlo_dtype_is_float(x->type) && hlo_dtype_storage(x->type) < 4 &&
              cpu_combine_of(c) != CPU_COMB_OTHER;
  if (x->narrow) types[0] = HLO_F32;
  return cpu_monoid_make(c, x->n, types, &x->op);
}

bool cpu_reduce_window_supports(const hlo_instr *i) {
  windows x;
  if (!describe(i, &x) || !make_op(i, &x)) return false;
  cpu_monoid_free(&x.op);
  return true;
}

// ---- tasks --------------------------------------------------------------------------------------

// One pass: what a task needs to know.
typedef struct pass_job {
  const windows *x;
  const pass *p;
  void *const *in, *const *out;
  void *const *init;     // scan: what it starts with; NULL: nothing
  void *carry[MOST];     // scan in blocks: what precedes each block, [outer, blocks, inner]
  i64 cols;              // of the pass's inner elements: what one task takes
  i64 col_parts, parts;  // tasks: outer * parts * col_parts
  i64 segment;           // sliding results that one task takes
  bool failed;           // set by any thread that had no memory
} pass_job;

static void at(const windows *x, void *const *base, i64 element, void **to) {
  for (u32 k = 0; k < x->n; k++) to[k] = (char *)base[k] + element * (i64)x->op.size[k];
}

static void copy(const windows *x, void *const *to, void *const *from, i64 n) {
  for (u32 k = 0; k < x->n; k++)
    if (to[k] != from[k]) memcpy(to[k], from[k], (size_t)n * x->op.size[k]);
}

static void run_tasks(cpu_par_fn *fn, void *ctx, i64 tasks, i64 elements) {
  if (elements < TASK)
    for (i64 k = 0; k < tasks; k++) fn(ctx, k, 0);
  else cpu_par_for(fn, ctx, tasks);
}

// The outer index, part and columns of a task.
typedef struct place {
  i64 outer, part, col, cols;
} place;
static place place_of(const pass_job *j, i64 task) {
  i64 c = task % j->col_parts * j->cols;
  return (place){task / j->col_parts / j->parts, task / j->col_parts % j->parts, c,
                 HS_MIN(j->cols, j->p->inner - c)};
}

// rows of `cols` elements; strides in elements. row k = row (k - 1) op row k, or from the back; the
// first one with `start`, unless that is NULL.
static void scan_rows(const windows *x, void *const *out, i64 ostride, void *const *in, i64 istride,
                      void *const *start, i64 rows, i64 cols, bool reverse) {
  void *o[MOST], *v[MOST], *before[MOST];
  if (cols == 1 && ostride == 1 && istride == 1) {
    cpu_monoid_scan(&x->op, out, in, start, rows, reverse);
    return;
  }
  for (i64 t = 0; t < rows; t++) {
    i64 r = reverse ? rows - 1 - t : t;
    at(x, out, r * ostride, o);
    at(x, in, r * istride, v);
    if (t) cpu_monoid_combine(&x->op, o, reverse ? v : before, reverse ? before : v, cols);
    else if (start) cpu_monoid_offset(&x->op, o, start, v, false, cols);
    else copy(x, o, v, cols);
    memcpy(before, o, sizeof o);
  }
}

// ---- scans --------------------------------------------------------------------------------------

// First of the rows of block b, and how many there are.
static i64 block_rows(const pass *p, i64 b, i64 *rows) {
  i64 lo = b * p->block, hi = HS_MIN(lo + p->block, p->length);
  *rows = hi - lo;
  return p->reverse ? p->length - hi : lo;
}

static i64 scan_from(const pass *p) { return p->reverse ? p->n - p->length : 0; }
static i64 scan_to(const pass *p) { return p->reverse ? p->end - p->length : p->first; }

static void scan_block(void *ctx, i64 task, u32 thread) {
  (void)thread;
  const pass_job *j = ctx;
  const pass *p = j->p;
  place l = place_of(j, task);
  void *in[MOST], *out[MOST], *last[MOST];
  i64 rows, row = block_rows(p, l.part, &rows);
  at(j->x, j->in, (l.outer * p->n + scan_from(p) + row) * p->inner + l.col, in);
  at(j->x, j->out, (l.outer * p->m + scan_to(p) + row) * p->inner + l.col, out);
  scan_rows(j->x, out, p->inner, in, p->inner, l.part ? NULL : j->init, rows, l.cols, p->reverse);
  if (l.part + 1 == j->parts) {
    // results after the last element have the same windows as it
    i64 end = p->reverse ? 0 : rows - 1, step = p->reverse ? -1 : 1;
    at(j->x, out, end * p->inner, last);
    for (i64 k = p->length; k < p->end - p->first; k++) {
      at(j->x, out, (end + step * (k - p->length + 1)) * p->inner, in);
      copy(j->x, in, last, l.cols);
    }
  } else {
    void *carry[MOST];
    at(j->x, out, (p->reverse ? 0 : rows - 1) * p->inner, last);
    at(j->x, j->carry, (l.outer * j->parts + l.part + 1) * p->inner + l.col, carry);
    copy(j->x, carry, last, l.cols);
  }
}

static void scan_carries(const pass_job *j) {
  const pass *p = j->p;
  void *a[MOST], *b[MOST];
  for (i64 o = 0; o < p->outer; o++)
    for (i64 part = 2; part < j->parts; part++) {
      at(j->x, j->carry, (o * j->parts + part - 1) * p->inner, a);
      at(j->x, j->carry, (o * j->parts + part) * p->inner, b);
      cpu_monoid_combine(&j->x->op, b, p->reverse ? b : a, p->reverse ? a : b, p->inner);
    }
}

static void scan_offset(void *ctx, i64 task, u32 thread) {
  (void)thread;
  const pass_job *j = ctx;
  const pass *p = j->p;
  place l = place_of(j, task);
  if (l.part == 0) return;
  void *out[MOST], *carry[MOST];
  i64 rows, row = block_rows(p, l.part, &rows);
  // with what was copied from the last one
  if (l.part + 1 == j->parts) {
    i64 more = p->end - p->first - p->length;
    rows += more;
    if (p->reverse) row -= more;
  }
  at(j->x, j->out, (l.outer * p->m + scan_to(p) + row) * p->inner + l.col, out);
  at(j->x, j->carry, (l.outer * j->parts + l.part) * p->inner + l.col, carry);
  if (p->inner == 1) {
    cpu_monoid_offset(&j->x->op, out, carry, out, p->reverse, rows);
    return;
  }
  for (i64 r = 0; r < rows; r++) {
    void *o[MOST];
    at(j->x, out, r * p->inner, o);
    cpu_monoid_combine(&j->x->op, o, p->reverse ? o : carry, p->reverse ? carry : o, l.cols);
  }
}

static void run_scan(pass_job *j) {
  const pass *p = j->p;
  const windows *x = j->x;
  j->parts = (p->length + p->block - 1) / p->block;
  i64 tasks = p->outer * j->parts * j->col_parts, elements = p->outer * p->length * p->inner;
  for (u32 k = 0; k < x->n && j->parts > 1; k++) {
    j->carry[k] = hs_try_alloc((size_t)(p->outer * j->parts * p->inner) * x->op.size[k]);
    j->failed = j->failed || !j->carry[k];
  }
  if (!j->failed) {
    run_tasks(scan_block, j, tasks, elements);
    if (j->parts > 1) {
      scan_carries(j);
      run_tasks(scan_offset, j, tasks, elements);
    }
  }
  for (u32 k = 0; k < x->n; k++) hs_free(j->carry[k]);
}

// ---- sliding ------------------------------------------------------------------------------------

// A task's own memory: for each array, room for so many elements.
static char *own_memory(const windows *x, i64 elements, void **to) {
  size_t bytes = 0, offset[MOST];
  for (u32 k = 0; k < x->n; k++) {
    offset[k] = bytes;
    bytes += block_align((size_t)elements * x->op.size[k]);
  }
  char *p = hs_try_alloc(bytes + 64);
  for (u32 k = 0; k < x->n && p; k++) to[k] = p + (-(uintptr_t)p & 63) + offset[k];
  return p;
}

// What one task folds: `rows` rows of `cols` elements of the operand, `istride` apart.
typedef struct strip {
  const windows *x;
  void *const *in;
  i64 istride, rows, cols, w;
  i64 results;  // rows - w + 1 windows, or those of them that are a multiple of step
  i64 step;
  void *const *out;
  i64 ostride;
} strip;

// out[k] = in[k * step] op ... op in[k * step + w - 1], row by row.
static void slide_direct(const strip *s) {
  const windows *x = s->x;
  for (i64 k = 0; k < s->results; k++) {
    void *o[MOST], *v[MOST], *first[MOST];
    at(x, s->out, k * s->ostride, o);
    at(x, s->in, k * s->step * s->istride, first);
    if (s->w == 1) copy(x, o, first, s->cols);
    for (i64 r = 1; r < s->w; r++) {
      at(x, s->in, (k * s->step + r) * s->istride, v);
      cpu_monoid_combine(&x->op, o, r == 1 ? first : o, v, s->cols);
    }
  }
}

// Neighbours: windows of 1, 2, 4, ... elements, those of the lengths that w is made of combined.
static bool slide_doubling(const strip *s) {
  const windows *x = s->x;
  i64 count = s->rows - s->w + 1, done = 0, have = s->rows;
  void *half[MOST], *all[MOST], *from[MOST], *with[MOST];
  char *p = own_memory(x, s->rows, half), *q = NULL;
  if (s->step > 1) q = own_memory(x, count, all);
  else at(x, s->out, 0, all);
  if (!p || (s->step > 1 && !q)) return hs_free(p), hs_free(q), false;
  at(x, s->in, 0, from);
  for (i64 length = 1; length <= s->w; length *= 2) {
    if (s->w & length) {
      at(x, from, done, with);
      if (done == 0) copy(x, all, with, count);
      else cpu_monoid_combine(&x->op, all, all, with, count);
      done += length;
    }
    if (2 * length > s->w) break;
    at(x, from, length, with);
    have -= length;
    cpu_monoid_combine(&x->op, half, from, with, have);
    at(x, half, 0, from);
  }
  for (i64 k = 0; k < s->results && s->step > 1; k++) {
    at(x, s->out, k * s->ostride, from);
    at(x, all, k * s->step, with);
    copy(x, from, with, 1);
  }
  hs_free(p), hs_free(q);
  return true;
}

// Blocks as long as the window: what runs to a block's end with what runs from the next one's
// beginning.
static bool slide_blocks(const strip *s) {
  const windows *x = s->x;
  i64 c = s->cols, w = s->w;
  void *to_end[MOST], *from_start[MOST], *in[MOST], *o[MOST], *a[MOST], *b[MOST];
  char *p = own_memory(x, s->rows * c, to_end), *q = own_memory(x, s->rows * c, from_start);
  if (!p || !q) return hs_free(p), hs_free(q), false;
  for (i64 r = 0; r < s->rows; r += w) {
    i64 n = HS_MIN(w, s->rows - r);
    at(x, s->in, r * s->istride, in);
    at(x, to_end, r * c, a);
    at(x, from_start, r * c, b);
    if (n == w) scan_rows(x, a, c, in, s->istride, NULL, n, c, true);
    scan_rows(x, b, c, in, s->istride, NULL, n, c, false);
  }
  bool flat = c == 1 && s->ostride == 1 && s->step == 1;
  for (i64 k = 0; k < s->results;) {
    i64 r = k * s->step, run = flat ? HS_MIN(w - r % w, s->results - k) : 1;
    at(x, s->out, k * s->ostride, o);
    at(x, to_end, r * c, a);
    if (r % w == 0) {
      copy(x, o, a, c);
      k++;
      continue;
    }
    at(x, from_start, (r + w - 1) * c, b);
    cpu_monoid_combine(&x->op, o, a, b, run * c);
    k += run;
  }
  hs_free(p), hs_free(q);
  return true;
}

// Results that run from one end: the window grows by a step from result to result.
static bool run_from_end(const pass_job *j, const place *l, bool front) {
  const pass *p = j->p;
  const windows *x = j->x;
  i64 lo = front ? p->first : p->back, hi = front ? p->front : p->end;
  if (lo >= hi) return true;
  void *in[MOST], *acc[MOST], *o[MOST], *v[MOST];
  at(x, j->in, l->outer * p->n * p->inner + l->col, in);
  bool line = p->inner == 1;
  i64 reach = front ? HS_MIN(p->n, (hi - 1) * p->step - p->low + p->w)
                    : p->n - (lo * p->step - p->low);  // elements of the longest
  char *mem = own_memory(x, line ? reach : l->cols, acc);
  if (!mem) return false;
  if (line) {
    at(x, in, front ? 0 : p->n - reach, v);
    cpu_monoid_scan(&x->op, acc, v, NULL, reach, !front);
  }
  i64 folded = 0;
  for (i64 t = 0; t < hi - lo; t++) {
    i64 r = front ? lo + t : hi - 1 - t, begin = r * p->step - p->low;
    i64 want = front ? HS_MIN(p->n, begin + p->w) : p->n - begin;
    at(x, j->out, (l->outer * p->m + r) * p->inner + l->col, o);
    if (line) {
      at(x, acc, front ? want - 1 : reach - want, v);
      copy(x, o, v, 1);
      continue;
    }
    for (; folded < want; folded++) {
      at(x, in, (front ? folded : p->n - 1 - folded) * p->inner, v);
      if (folded == 0) copy(x, acc, v, l->cols);
      else cpu_monoid_combine(&x->op, acc, front ? acc : v, front ? v : acc, l->cols);
    }
    copy(x, o, acc, l->cols);
  }
  hs_free(mem);
  return true;
}

static void slide_task(void *ctx, i64 task, u32 thread) {
  (void)thread;
  pass_job *j = ctx;
  const pass *p = j->p;
  place l = place_of(j, task);
  bool ok = true;
  if (l.part < 2) ok = run_from_end(j, &l, l.part == 0);
  else {
    i64 r = p->front + (l.part - 2) * j->segment, results = HS_MIN(j->segment, p->back - r);
    void *in[MOST], *out[MOST];
    at(j->x, j->in, (l.outer * p->n + r * p->step - p->low) * p->inner + l.col, in);
    at(j->x, j->out, (l.outer * p->m + r) * p->inner + l.col, out);
    strip s = {j->x,    in,  p->inner, (results - 1) * p->step + p->w, l.cols, p->w, results,
               p->step, out, p->inner};
    if (p->inner == 1 && p->w <= SHORT) ok = slide_doubling(&s);
    else if (p->w <= DIRECT || p->w - 1 <= 3 * p->step) slide_direct(&s);
    else ok = slide_blocks(&s);
  }
  if (!ok) __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
}

static void run_slide(pass_job *j) {
  const pass *p = j->p;
  i64 slides = p->back - p->front;
  j->segment =
      p->inner == 1 ? HS_MAX((i64)4096, 2 * p->w) / p->step : HS_MAX((i64)32, 2 * p->w) / p->step;
  j->segment = HS_MAX(j->segment, (i64)1);
  j->parts = 2 + (slides + j->segment - 1) / j->segment;
  run_tasks(slide_task, j, p->outer * j->parts * j->col_parts, p->outer * p->m * p->inner);
}

// ---- initial values -----------------------------------------------------------------------------

typedef struct init_job {
  const windows *x;
  void *const *init, *const *out;
} init_job;

static void init_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const init_job *j = ctx;
  void *o[MOST];
  at(j->x, j->out, chunk * TASK, o);
  cpu_monoid_offset(&j->x->op, o, j->init, o, false,
                    HS_MIN(j->x->elements - chunk * TASK, (i64)TASK));
}

// Windows without an element give the initial value.
static void fill_empty(const windows *x, void *const *init, void *const *out) {
  for (u32 q = 0; q < x->npasses; q++) {
    const pass *p = &x->pass[q];
    if (p->first == 0 && p->end == p->m) continue;
    i64 inner = x->elements / p->outer / p->m;  // of the result
    for (i64 o = 0; o < p->outer; o++)
      for (i64 r = 0; r < p->m; r++) {
        if (r >= p->first && r < p->end) continue;
        for (u32 k = 0; k < x->n; k++) {
          size_t e = x->op.size[k];
          char *to = (char *)out[k] + (size_t)((o * p->m + r) * inner) * e;
          for (i64 c = 0; c < inner; c++) memcpy(to + (size_t)c * e, init[k], e);
        }
      }
  }
}

// ---- narrow floats ------------------------------------------------------------------------------

typedef struct convert_job {
  hlo_dtype type;
  const void *from;
  void *to;
  bool widen;
  i64 n;
} convert_job;

static void widen(hlo_dtype t, const void *from, float *to, i64 n) {
  const u16 *x = from;
  size_t e = hlo_dtype_storage(t);
  if (t == HLO_BF16)
    for (i64 k = 0; k < n; k++) {
      u32 bits = (u32)x[k] << 16;
      memcpy(&to[k], &bits, 4);
    }
  else if (t == HLO_F16)
    for (i64 k = 0; k < n; k++) to[k] = hlo_f16_to_f32(x[k]);
  else
    for (i64 k = 0; k < n; k++)
      to[k] = (float)hlo_elem_to_f64(t, (const char *)from + (size_t)k * e);
}

static void narrow(hlo_dtype t, const float *from, void *to, i64 n) {
  u16 *x = to;
  size_t e = hlo_dtype_storage(t);
  if (t == HLO_BF16)
    for (i64 k = 0; k < n; k++) {
      u32 b;
      memcpy(&b, &from[k], 4);
      u32 even = (b + 0x7fff + (b >> 16 & 1)) >> 16, nan = b >> 16 | 0x40;
      x[k] = (u16)((b & 0x7fffffff) > 0x7f800000 ? nan : even);
    }
  else if (t == HLO_F16)
    for (i64 k = 0; k < n; k++) x[k] = hlo_f32_to_f16(from[k]);
  else
    for (i64 k = 0; k < n; k++) hlo_elem_from_f64(t, (char *)to + (size_t)k * e, (double)from[k]);
}

static void convert_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const convert_job *j = ctx;
  i64 at0 = chunk * TASK, n = HS_MIN(j->n - at0, (i64)TASK);
  size_t e = hlo_dtype_storage(j->type);
  if (j->widen) widen(j->type, (const char *)j->from + (size_t)at0 * e, (float *)j->to + at0, n);
  else narrow(j->type, (const float *)j->from + at0, (char *)j->to + (size_t)at0 * e, n);
}

static void convert(const windows *x, const void *from, void *to, bool wider, i64 n) {
  convert_job j = {x->type, from, to, wider, n};
  run_tasks(convert_chunk, &j, (n + TASK - 1) / TASK, n);
}

// ---- the kernel ---------------------------------------------------------------------------------

// How many columns a task takes changes no result, so it may depend on the threads: a scan of whole
// columns reads its rows in long pieces where each thread gets some as long as a page, for half a
// page is fetched ahead no better than less.
static i64 job_cols(const pass *p) {
  enum { PAGE = 1024 };  // elements, of four bytes
  i64 each = p->outer * p->inner / cpu_par_threads();
  if (!p->scan || p->block < p->length || each < PAGE) return p->cols;
  return HS_MIN(p->inner, HS_MAX(p->cols, HS_MIN((each + 63) / 64 * 64, (i64)WIDEST)));
}

// The passes over n leading indices from at0 on. init: for a scan at the end; NULL: not yet.
static bool run_passes(const windows *x, i64 at0, i64 n, void *const *from, void *const *to,
                       void **init, char *space) {
  void *in[MOST], *out[MOST];
  bool failed = false;
  for (u32 k = 0; k < x->n; k++)
    in[k] = (char *)from[k] + at0 * (x->elements_in / x->leading) * (i64)x->op.size[k];
  for (u32 q = 0; q < x->npasses; q++) {
    bool last = q + 1 == x->npasses;
    pass p = x->pass[q];
    p.outer = p.outer / x->leading * n;
    for (u32 k = 0; k < x->n; k++)
      out[k] = last ? (char *)to[k] + at0 * (x->elements / x->leading) * (i64)x->op.size[k]
                    : space + x->between[q % 2][k];
    pass_job j = {.x = x, .p = &p, .in = in, .out = out, .cols = job_cols(&p)};
    j.col_parts = (p.inner + j.cols - 1) / j.cols;
    if (p.scan && last) j.init = init;
    if (p.scan) run_scan(&j);
    else run_slide(&j);
    failed = failed || j.failed;
    memcpy(in, out, sizeof in);
  }
  return failed;
}

static hs_status run_windows(void *state, void *const *bufs, void *scratch) {
  const windows *x = state;
  void *in[MOST], *init[MOST], *final[MOST];
  char *space = scratch;
  float first_value;
  for (u32 k = 0; k < x->n; k++) {
    in[k] = bufs[k];
    init[k] = bufs[x->n + k];
    final[k] = bufs[2 * x->n + k];
  }
  if (x->narrow) {
    widen(x->type, init[0], &first_value, 1);
    convert(x, in[0], space + x->wide_in, true, x->elements_in);
    in[0] = space + x->wide_in, init[0] = &first_value, final[0] = space + x->wide_out;
  }
  bool failed = false, begun = cpu_monoid_is_identity(&x->op, init);
  for (i64 at0 = 0; at0 < x->leading; at0 += x->group)
    failed |= run_passes(x, at0, HS_MIN(x->group, x->leading - at0), in, final, begun ? NULL : init,
                         space);
  if (!begun && !x->pass[x->npasses - 1].scan) {
    init_job j = {x, init, final};
    run_tasks(init_chunk, &j, (x->elements + TASK - 1) / TASK, x->elements);
  }
  fill_empty(x, init, final);
  if (x->narrow) convert(x, final[0], bufs[2], false, x->elements);
  return failed ? hs_fail(HS_E_NO_MEMORY, "no memory for the windows' partial results") : HS_GOOD;
}

static void free_windows(void *state) {
  windows *x = state;
  cpu_monoid_free(&x->op);
  hs_free(x);
}

static i64 take(i64 *scratch, i64 bytes) {
  i64 at0 = *scratch;
  *scratch += cpu_align(bytes);
  return at0;
}

// What pass q makes of one leading index.
static i64 bytes_between(const windows *x, u32 q, u32 array) {
  const pass *p = &x->pass[q];
  return p->outer / x->leading * p->m * p->inner * (i64)x->op.size[array];
}

hs_status cpu_reduce_window_prepare(const hlo_instr *i, cpu_rt *out) {
  windows *x = hs_calloc(1, sizeof *x);
  if (!describe(i, x) || !make_op(i, x)) {
    hs_free(x);
    return hs_fail(HS_E_UNSUPPORTED, "unsupported: this reduce-window");
  }
  i64 scratch = 0, most = 1;
  x->leading = x->pass[0].outer;
  for (u32 q = 0; q + 1 < x->npasses; q++) most = HS_MAX(most, bytes_between(x, q, 0));
  x->group = within(BETWEEN / most, 1, x->leading);
  for (u32 q = 0; q + 1 < x->npasses; q++)
    for (u32 k = 0; k < x->n; k++)
      x->between[q % 2][k] = take(&scratch, x->group * bytes_between(x, q, k));
  if (x->narrow) {
    x->wide_in = take(&scratch, x->elements_in * 4);
    x->wide_out = take(&scratch, x->elements * 4);
  }
  bool scans = true;
  for (u32 q = 0; q < x->npasses; q++) scans = scans && x->pass[q].scan;
  *out = (cpu_rt){.kind = scans ? "reduce-window (scan)" : "reduce-window (sliding)",
                  .state = x,
                  .run = run_windows,
                  .release = free_windows,
                  .scratch_bytes = scratch,
                  .compiled = &x->op.lanes};
  return HS_GOOD;
}
