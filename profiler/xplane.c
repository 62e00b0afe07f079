// xplane.c: reading XSpace. See xplane.h.
//
// A plane is read in three steps: its two maps (what numbers of statistics and of events mean), its
// lines (executions, with their times within the line), and then, per program, the runs. A run is
// what one number of the statistic run_id stands for; where there is none, an execution on the line
// "XLA Modules" that the kernel's begin lies in; where that line is missing too, what lies between
// two executions of the program's first kernel outside of loops.
#include "profiler/xplane.h"

#include <math.h>
#include <stdlib.h>

#include "core/proto/wire.h"

enum {
#define XP(message, field, number) XP_##message##_##field = number,
#include "profiler/xplane.def"
#undef XP
};

// ---- numbers to numbers -------------------------------------------------------------------------
// Open addressing; values are stored plus one, so that 0 is free.
typedef struct table {
  u64 *keys;
  u32 *values;
  size_t cap, n;
} table;

static void table_free(table *t) {
  hs_free(t->keys);
  hs_free(t->values);
  *t = (table){0};
}

static size_t slot_of(const table *t, u64 key) {
  size_t k = (size_t)hs_mix(0, key) & (t->cap - 1);
  while (t->values[k] && t->keys[k] != key) k = (k + 1) & (t->cap - 1);
  return k;
}

static bool table_get(const table *t, u64 key, u32 *out) {
  if (!t->cap) return false;
  size_t k = slot_of(t, key);
  if (t->values[k]) *out = t->values[k] - 1;
  return t->values[k] != 0;
}

static void table_put(table *t, u64 key, u32 value) {
  if (2 * (t->n + 1) > t->cap) {
    table bigger = {.cap = t->cap ? 2 * t->cap : 64};
    bigger.keys = hs_calloc(bigger.cap, sizeof *bigger.keys);
    bigger.values = hs_calloc(bigger.cap, sizeof *bigger.values);
    for (size_t k = 0; k < t->cap; k++)
      if (t->values[k]) {
        size_t s = slot_of(&bigger, t->keys[k]);
        bigger.keys[s] = t->keys[k], bigger.values[s] = t->values[k];
      }
    bigger.n = t->n;
    table_free(t);
    *t = bigger;
  }
  size_t k = slot_of(t, key);
  t->n += !t->values[k];
  t->keys[k] = key, t->values[k] = value + 1;
}

// ---- what is collected --------------------------------------------------------------------------
// Statistics that say what an event is.
typedef enum meaning { OTHER, HLO_OP, HLO_MODULE, PROGRAM_ID, RUN_ID, HLO_PROTO_BYTES } meaning;

typedef struct event_kind {
  hs_str name, shown;
  pb stats;  // the whole EVENT_METADATA
} event_kind;

// An execution of a kernel.
typedef struct op {
  u32 program, kernel, depth;
  u64 begin_ps, ps, self_ps, run;  // run: as the file numbers it; 0: not said
} op;

typedef struct span {
  u64 begin_ps, end_ps;
} span;

typedef struct program {
  u32 module, plane;  // texts
  u64 id;
  table kernel_of;  // by text
  HS_VEC(u32) kernels;
} program;

typedef struct reader {
  const char *file;
  prof_xspace *out;
  HS_VEC(hs_str) texts;  // each once; in out->names
  table text_of;         // by hash, the first of that hash; others follow in next_text
  HS_VEC(u32) next_text;
  HS_VEC(program) programs;
  HS_VEC(op) ops;
  HS_VEC(prof_xmodule) modules;
  // of the plane at hand
  u32 plane;
  table stat_of, event_of;  // by id
  HS_VEC(hs_str) stats;     // names
  HS_VEC(meaning) meanings;
  HS_VEC(event_kind) events;
  HS_VEC(span) spans;  // executions of modules
  bool has_ops_line;
} reader;

enum { NONE = UINT32_MAX };

static u32 text(reader *r, hs_str s) {
  u64 h = hs_hash_bytes(s.p, s.n, 0);
  u32 first = NONE;
  if (table_get(&r->text_of, h, &first))
    for (u32 k = first; k != NONE; k = r->next_text.v[k])
      if (hs_str_eq(r->texts.v[k], s)) return k;
  u32 id = (u32)r->texts.n;
  hs_vec_push(&r->texts, ((hs_str){hs_arena_strndup(&r->out->names, s.p, s.n), s.n}));
  hs_vec_push(&r->next_text, first);
  table_put(&r->text_of, h, id);
  return id;
}

static hs_status damaged(const reader *r, const char *what) {
  return hs_fail(HS_E_PROTO, "%s: damaged profile: %s cannot be read", r->file, what);
}

// ---- a plane's maps -----------------------------------------------------------------------------
static meaning meaning_of(hs_str name) {
  static const struct {
    const char *name;
    meaning m;
  } known[] = {{"hlo_op", HLO_OP}, {"hlo_module", HLO_MODULE},     {"program_id", PROGRAM_ID},
               {"run_id", RUN_ID}, {"hlo_proto", HLO_PROTO_BYTES}, {"Hlo Proto", HLO_PROTO_BYTES}};
  for (size_t k = 0; k < HS_COUNT(known); k++)
    if (hs_str_eq(name, hs_str_of(known[k].name))) return known[k].m;
  return OTHER;
}

static hs_status read_maps(reader *r, pb plane) {
  for (pb_field f; pb_next(&plane, &f);) {
    bool stat = f.num == XP_PLANE_STAT_METADATA;
    if ((!stat && f.num != XP_PLANE_EVENT_METADATA) || f.wire != 2) continue;
    u64 id = (u64)pb_int(f.sub, XP_ENTRY_KEY, 0);
    pb value = pb_sub(f.sub, XP_ENTRY_VALUE);
    if (!pb_valid(f.sub) || !pb_valid(value)) return damaged(r, "a name");
    if (stat) {
      hs_str name = pb_str(value, XP_STATKIND_NAME);
      table_put(&r->stat_of, id, (u32)r->stats.n);
      hs_vec_push(&r->stats, name);
      hs_vec_push(&r->meanings, meaning_of(name));
    } else {
      event_kind e = {pb_str(value, XP_EVENTKIND_NAME), pb_str(value, XP_EVENTKIND_DISPLAY_NAME),
                      value};
      table_put(&r->event_of, id, (u32)r->events.n);
      hs_vec_push(&r->events, e);
    }
  }
  return plane.bad ? damaged(r, "a plane") : hs_poll();
}

// What the statistics of an event, or of its kind, say.
typedef struct facts {
  hs_str op, module, proto;
  u64 program, run;
} facts;

// A text given in place, or as the name of another statistic.
static hs_str stat_text(const reader *r, const pb_field *v) {
  u32 k;
  if (v->wire == 2) return (hs_str){(const char *)v->sub.p, (size_t)(v->sub.end - v->sub.p)};
  if (v->num == XP_STAT_REF && table_get(&r->stat_of, v->v, &k)) return r->stats.v[k];
  return (hs_str){0};
}

static u64 stat_number(const reader *r, const pb_field *v) {
  if (v->num == XP_STAT_UINT64 || v->num == XP_STAT_INT64) return v->wire == 0 ? v->v : 0;
  hs_str s = stat_text(r, v);
  u64 n = 0;
  for (size_t k = 0; k < s.n && s.p[k] >= '0' && s.p[k] <= '9'; k++)
    n = n * 10 + (u64)(s.p[k] - '0');
  return n;
}

static void take_stats(const reader *r, pb m, u32 field, facts *out) {
  for (pb_field f; pb_next(&m, &f);) {
    if (f.num != field || f.wire != 2) continue;
    pb_field v = {0}, g;
    u32 k = NONE;
    for (pb s = f.sub; pb_next(&s, &g);)
      if (g.num == XP_STAT_METADATA_ID) {
        if (!table_get(&r->stat_of, g.v, &k)) k = NONE;
      } else v = g;
    if (k == NONE || !v.num) continue;
    switch (r->meanings.v[k]) {
    case HLO_OP: out->op = stat_text(r, &v); break;
    case HLO_MODULE: out->module = stat_text(r, &v); break;
    case PROGRAM_ID: out->program = stat_number(r, &v); break;
    case RUN_ID: out->run = stat_number(r, &v); break;
    case HLO_PROTO_BYTES: out->proto = stat_text(r, &v); break;
    case OTHER: break;
    }
  }
}

// "jit_f(12)" is the module jit_f, program 12.
static hs_str without_id(hs_str name, u64 *id) {
  size_t n = name.n;
  if (!n || name.p[n - 1] != ')') return name;
  u64 v = 0, unit = 1;
  size_t k = n - 1;
  for (; k && name.p[k - 1] >= '0' && name.p[k - 1] <= '9'; unit *= 10)
    v += (u64)(name.p[--k] - '0') * unit;
  if (k == n - 1 || k < 2 || name.p[k - 1] != '(') return name;
  *id = v;
  return (hs_str){name.p, k - 1};
}

// Modules are statistics of kinds of events in a plane that has no events of them.
static void take_modules(reader *r) {
  for (size_t k = 0; k < r->events.n; k++) {
    facts f = {0};
    take_stats(r, r->events.v[k].stats, XP_EVENTKIND_STATS, &f);
    if (!f.proto.n) continue;
    u64 id = (u64)pb_int(r->events.v[k].stats, XP_EVENTKIND_ID, 0);
    hs_str name = without_id(r->events.v[k].name, &id);
    hs_vec_push(&r->modules,
                ((prof_xmodule){r->texts.v[text(r, name)].p, id, f.proto.p, f.proto.n}));
  }
}

// ---- lines --------------------------------------------------------------------------------------
static u32 program_of(reader *r, u32 module, u64 id) {
  for (size_t k = r->programs.n; k-- > 0;) {
    const program *p = &r->programs.v[k];
    if (p->plane == r->plane && p->id == id && (id || p->module == module)) return (u32)k;
  }
  hs_vec_push(&r->programs, ((program){.module = module, .plane = r->plane, .id = id}));
  return (u32)r->programs.n - 1;
}

static u32 kernel_of(program *p, u32 name) {
  u32 k;
  if (table_get(&p->kernel_of, name, &k)) return k;
  k = (u32)p->kernels.n;
  table_put(&p->kernel_of, name, k);
  hs_vec_push(&p->kernels, name);
  return k;
}

// "%fusion.1 = f32[8] fusion(...)", as TPUs name their events, is fusion.1.
static hs_str instruction_of(hs_str name) {
  size_t n = 0;
  if (name.n && name.p[0] == '%') name.p++, name.n--;
  while (n < name.n && name.p[n] != ' ' && name.p[n] != '=') n++;
  return (hs_str){name.p, n};
}

static hs_status take_event(reader *r, pb event, u64 line_ps, bool ops_line) {
  u64 kind = 0, offset = 0, ps = 0, begin;
  facts f = {0};
  pb m = event;
  for (pb_field g; pb_next(&m, &g);)
    if (g.wire == 0) {
      if (g.num == XP_EVENT_METADATA_ID) kind = g.v;
      if (g.num == XP_EVENT_OFFSET_PS) offset = g.v;
      if (g.num == XP_EVENT_DURATION_PS) ps = g.v;
    }
  if (m.bad) return damaged(r, "an event");
  u32 k;
  const event_kind *e = table_get(&r->event_of, kind, &k) ? &r->events.v[k] : NULL;
  if (e) take_stats(r, e->stats, XP_EVENTKIND_STATS, &f);
  take_stats(r, event, XP_EVENT_STATS, &f);
  if (!f.op.n && ops_line && e) f.op = e->shown.n ? e->shown : e->name;
  // times are of a clock since 1970: what does not fit in 63 bits is no time
  if (!f.op.n || __builtin_add_overflow(line_ps, offset, &begin) || begin >> 62 || ps >> 62)
    return HS_GOOD;
  f.module = without_id(f.module, &f.program);
  u32 p = program_of(r, text(r, f.module), f.program);
  op o = {.program = p, .begin_ps = begin, .ps = ps, .self_ps = ps, .run = f.run};
  o.kernel = kernel_of(&r->programs.v[p], text(r, instruction_of(f.op)));
  hs_vec_push(&r->ops, o);
  return HS_GOOD;
}

static int by_begin(const void *a, const void *b) {
  const op *x = a, *y = b;
  if (x->begin_ps != y->begin_ps) return x->begin_ps < y->begin_ps ? -1 : 1;
  return x->ps != y->ps ? (x->ps > y->ps ? -1 : 1) : 0;
}

// Takes the time of what lies inside of an operation off it: ops from `from` on are of one line.
static void nest(reader *r, size_t from) {
  op *v = r->ops.v + from;
  size_t n = r->ops.n - from;
  if (n) qsort(v, n, sizeof *v, by_begin);
  HS_VEC(op *) open = {0};
  for (size_t k = 0; k < n; k++) {
    u64 end = v[k].begin_ps + v[k].ps;
    while (open.n && open.v[open.n - 1]->begin_ps + open.v[open.n - 1]->ps < end) open.n--;
    // what begins where the other one ends is not inside of it
    while (open.n && open.v[open.n - 1]->begin_ps + open.v[open.n - 1]->ps <= v[k].begin_ps)
      open.n--;
    v[k].depth = (u32)open.n;
    if (open.n) open.v[open.n - 1]->self_ps -= HS_MIN(v[k].ps, open.v[open.n - 1]->self_ps);
    hs_vec_push(&open, &v[k]);
  }
  hs_vec_free(&open);
}

static hs_str name_of_line(pb line) {
  hs_str s = pb_str(line, XP_LINE_DISPLAY_NAME);
  return s.n ? s : pb_str(line, XP_LINE_NAME);
}

static u64 begin_of_line(pb line) {
  u64 ns = (u64)pb_int(line, XP_LINE_TIMESTAMP_NS, 0);
  return ns < (u64)1 << 52 ? ns * 1000 : (u64)1 << 63;  // the latter is no time: nothing is taken
}

static hs_status read_line(reader *r, pb line) {
  hs_str name = name_of_line(line);
  bool ops = hs_str_eq(name, HS_STR("XLA Ops"));
  if (r->has_ops_line && !ops) return HS_GOOD;
  u64 begin = begin_of_line(line);
  size_t from = r->ops.n;
  for (pb_field f; pb_next(&line, &f);) {
    if (f.num != XP_LINE_EVENTS || f.wire != 2) continue;
    HS_TRY(take_event(r, f.sub, begin, ops));
    if (r->ops.n % 4096 == 0) HS_TRY(hs_poll());
  }
  if (line.bad) return damaged(r, "a line");
  nest(r, from);
  return hs_poll();
}

static int by_begin_of_span(const void *a, const void *b) {
  const span *x = a, *y = b;
  return (x->begin_ps > y->begin_ps) - (x->begin_ps < y->begin_ps);
}

// The line of modules' executions, if there is one; and whether there is one of operations, which
// then has all of them (lines of streams repeat it).
static hs_status look_at_lines(reader *r, pb plane) {
  r->has_ops_line = false;
  for (pb_field f; pb_next(&plane, &f);) {
    if (f.num != XP_PLANE_LINES || f.wire != 2) continue;
    if (!pb_valid(f.sub)) return damaged(r, "a line");
    hs_str name = name_of_line(f.sub);
    r->has_ops_line |= hs_str_eq(name, HS_STR("XLA Ops"));
    if (!hs_str_eq(name, HS_STR("XLA Modules"))) continue;
    u64 begin = begin_of_line(f.sub);
    for (pb_field e; pb_next(&f.sub, &e);) {
      if (e.num != XP_LINE_EVENTS || e.wire != 2) continue;
      u64 at, offset = (u64)pb_int(e.sub, XP_EVENT_OFFSET_PS, 0),
              ps = (u64)pb_int(e.sub, XP_EVENT_DURATION_PS, 0);
      if (__builtin_add_overflow(begin, offset, &at) || at >> 62 || ps >> 62) continue;
      hs_vec_push(&r->spans, ((span){at, at + ps}));
    }
  }
  if (r->spans.n) qsort(r->spans.v, r->spans.n, sizeof *r->spans.v, by_begin_of_span);
  return HS_GOOD;
}

// The execution of a module that a time lies in, counted from 1; 0: none.
static u64 span_at(const reader *r, u64 ps) {
  size_t lo = 0, hi = r->spans.n;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (r->spans.v[mid].begin_ps <= ps) lo = mid + 1;
    else hi = mid;
  }
  return lo && ps <= r->spans.v[lo - 1].end_ps ? lo : 0;
}

static hs_status read_plane(reader *r, pb plane) {
  r->plane = text(r, pb_str(plane, XP_PLANE_NAME));
  size_t from = r->ops.n;
  HS_TRY(read_maps(r, plane));
  take_modules(r);
  HS_TRY(look_at_lines(r, plane));
  for (pb_field f; pb_next(&plane, &f);)
    if (f.num == XP_PLANE_LINES && f.wire == 2) HS_TRY(read_line(r, f.sub));
  for (size_t k = from; k < r->ops.n; k++)
    if (!r->ops.v[k].run) r->ops.v[k].run = span_at(r, r->ops.v[k].begin_ps);
  table_free(&r->stat_of);
  table_free(&r->event_of);
  r->stats.n = r->meanings.n = r->events.n = r->spans.n = 0;
  return plane.bad ? damaged(r, "a plane") : HS_GOOD;
}

// ---- runs ---------------------------------------------------------------------------------------
// Of one program, by begin: its operations get the numbers 0, 1, ... of the runs in order of time.
// Gives how many there are.
static u32 number_runs(op *v, size_t n) {
  table seen = {0};
  u32 runs = 0;
  bool said = true;
  for (size_t k = 0; k < n; k++) said &= v[k].run != 0;
  for (size_t k = 0; k < n; k++) {
    u32 run = runs;
    if (said) {
      if (!table_get(&seen, v[k].run, &run)) table_put(&seen, v[k].run, run = runs++);
    } else if (k == 0 || (v[k].kernel == v[0].kernel && v[k].depth == 0 && v[0].depth == 0)) {
      run = runs++;
    } else run = runs - 1;
    v[k].run = run;
  }
  table_free(&seen);
  return runs;
}

typedef struct run_sum {
  u64 begin_ps, end_ps;
  u32 ops;
  bool whole;
} run_sum;

static int by_count(const void *a, const void *b) {
  u32 x = *(const u32 *)a, y = *(const u32 *)b;
  return (x > y) - (x < y);
}

// The first and the last run are left out when they have fewer operations than runs usually have:
// the recording began or ended within them. Gives how many are left.
static u32 drop_cut_runs(run_sum *s, u32 n) {
  u32 *counts = hs_alloc((n + 1) * sizeof *counts), kept = 0;
  for (u32 k = 0; k < n; k++) counts[k] = s[k].ops;
  qsort(counts, n, sizeof *counts, by_count);
  u32 usual = counts[n / 2];
  hs_free(counts);
  for (u32 k = 0; k < n; k++) {
    s[k].whole = n < 3 || (k && k + 1 < n) || s[k].ops >= usual;
    kept += s[k].whole;
  }
  return kept;
}

// The last whole run, operation by operation.
static void take_last_run(prof_recording *rec, const op *v, size_t n, u32 run, u64 begin) {
  size_t all = 0;
  for (size_t k = 0; k < n; k++) all += v[k].run == run;
  rec->nevents = (u32)HS_MIN(all, (size_t)PROF_MOST_EVENTS);
  rec->dropped = all - rec->nevents;
  rec->events = hs_calloc(rec->nevents + 1u, sizeof *rec->events);
  u32 at = 0;
  for (size_t k = 0; k < n; k++) {
    if (v[k].run != run) continue;
    rec->calls[v[k].kernel]++;
    if (at < rec->nevents)
      rec->events[at++] = (prof_event){
          .begin_ns = (v[k].begin_ps - begin) / 1000, .ns = v[k].ps / 1000, .kernel = v[k].kernel};
  }
}

// The runs of a program; its operations are sorted by begin.
static prof_recording *record(op *v, size_t n, u32 nkernels, u32 *left_out) {
  enum { MOST_CELLS = 1 << 24 };
  u32 runs = number_runs(v, n), last = 0;
  run_sum *sum = hs_calloc(runs + 1u, sizeof *sum);
  for (size_t k = 0; k < n; k++) {
    run_sum *s = &sum[v[k].run];
    if (!s->ops++) s->begin_ps = v[k].begin_ps;
    s->end_ps = HS_MAX(s->end_ps, v[k].begin_ps + v[k].ps);
  }
  u32 kept = drop_cut_runs(sum, runs), most = HS_MAX((u32)MOST_CELLS / nkernels, 1u);
  // of more runs than a table can hold the oldest are left out
  for (u32 k = 0; k < runs && kept > most; k++)
    if (sum[k].whole) sum[k].whole = false, kept--;
  *left_out = runs - kept;
  prof_recording *rec = hs_calloc(1, sizeof *rec);
  u32 *row = hs_calloc(runs + 1u, sizeof *row);
  *rec = (prof_recording){.nkernels = nkernels, .nruns = kept};
  rec->run_ms = hs_calloc(kept + 1u, sizeof *rec->run_ms);
  rec->ms = hs_calloc((size_t)kept * nkernels + 1, sizeof *rec->ms);
  rec->calls = hs_calloc(nkernels + 1u, sizeof *rec->calls);
  for (u32 k = 0, at = 0; k < runs; k++) {
    if (!sum[k].whole) continue;
    last = k, row[k] = at;
    rec->run_ms[at++] = (double)(sum[k].end_ps - sum[k].begin_ps) * 1e-9;
  }
  for (size_t k = 0; k < n; k++)
    if (sum[v[k].run].whole)
      rec->ms[(size_t)row[v[k].run] * nkernels + v[k].kernel] += (double)v[k].self_ps * 1e-9;
  take_last_run(rec, v, n, last, sum[last].begin_ps);
  hs_free(sum);
  hs_free(row);
  return rec;
}

static int by_program(const void *a, const void *b) {
  const op *x = a, *y = b;
  if (x->program != y->program) return x->program < y->program ? -1 : 1;
  return by_begin(a, b);
}

static int longest_first(const void *a, const void *b) {
  double x = ((const prof_xprogram *)a)->seconds, y = ((const prof_xprogram *)b)->seconds;
  return (x < y) - (x > y);
}

static hs_status take_programs(reader *r) {
  hs_arena *a = &r->out->names;
  prof_xprogram *out = HS_NEW_ARRAY(a, prof_xprogram, r->programs.n + 1);
  if (r->ops.n) qsort(r->ops.v, r->ops.n, sizeof *r->ops.v, by_program);
  r->out->programs = out;
  for (size_t k = 0, end; k < r->ops.n; k = end) {
    const program *p = &r->programs.v[r->ops.v[k].program];
    for (end = k; end < r->ops.n && r->ops.v[end].program == r->ops.v[k].program;) end++;
    const char **names = HS_NEW_ARRAY(a, const char *, p->kernels.n + 1);
    for (size_t j = 0; j < p->kernels.n; j++) names[j] = r->texts.v[p->kernels.v[j]].p;
    prof_xprogram *x = &out[r->out->nprograms++];
    *x = (prof_xprogram){.module = r->texts.v[p->module].p,
                         .device = r->texts.v[p->plane].p,
                         .id = p->id,
                         .kernels = names};
    for (size_t j = k; j < end; j++) x->seconds += (double)r->ops.v[j].self_ps * 1e-12;
    x->rec = record(r->ops.v + k, end - k, (u32)p->kernels.n, &x->left_out);
    HS_TRY(hs_poll());
  }
  if (r->out->nprograms) qsort(out, r->out->nprograms, sizeof *out, longest_first);
  r->out->nmodules = (u32)r->modules.n;
  r->out->modules = hs_arena_dup(a, r->modules.v, r->modules.n * sizeof *r->modules.v);
  return HS_GOOD;
}

// ---- the whole ----------------------------------------------------------------------------------
static pb view(const void *p, size_t n) { return (pb){.p = p, .end = (const u8 *)p + n}; }

// A plane begins with a number or a name; a module, which stands there in an HloProto, with a name
// as field 1.
static bool is_plane(pb m) {
  bool named = false;
  for (pb_field f; pb_next(&m, &f);) {
    if (f.num == XP_PLANE_ID && f.wire != 0) return false;
    if (f.num > XP_PLANE_ID && (f.num > XP_PLANE_STATS || f.wire != 2)) return false;
    if (f.num == XP_PLANE_NAME) named = f.sub.end > f.sub.p && *f.sub.p >= ' ' && *f.sub.p < 127;
  }
  return named && !m.bad;
}

bool prof_is_xspace(const void *p, size_t n) {
  pb m = view(p, n);
  u32 planes = 0;
  for (pb_field f; pb_next(&m, &f);) {
    if (f.wire != 2 || f.num > XP_SPACE_HOSTNAMES) return false;
    if (f.num == XP_SPACE_PLANES && !is_plane(f.sub)) return false;
    planes += f.num == XP_SPACE_PLANES;
  }
  return planes && !m.bad;
}

hs_status prof_xspace_read(const void *p, size_t n, const char *file, prof_xspace *out) {
  *out = (prof_xspace){0};
  reader r = {.file = file, .out = out};
  hs_status s = HS_GOOD;
  pb m = view(p, n);
  for (pb_field f; hs_ok(s) && pb_next(&m, &f);)
    if (f.num == XP_SPACE_PLANES && f.wire == 2) s = read_plane(&r, f.sub);
  if (hs_ok(s) && m.bad) s = damaged(&r, "it");
  if (hs_ok(s)) s = take_programs(&r);
  for (size_t k = 0; k < r.programs.n; k++) {
    table_free(&r.programs.v[k].kernel_of);
    hs_vec_free(&r.programs.v[k].kernels);
  }
  hs_vec_free(&r.texts);
  hs_vec_free(&r.next_text);
  table_free(&r.text_of);
  hs_vec_free(&r.programs);
  hs_vec_free(&r.ops);
  hs_vec_free(&r.modules);
  table_free(&r.stat_of);
  table_free(&r.event_of);
  hs_vec_free(&r.stats);
  hs_vec_free(&r.meanings);
  hs_vec_free(&r.events);
  hs_vec_free(&r.spans);
  return s;
}

void prof_xspace_free(prof_xspace *x) {
  for (u32 k = 0; k < x->nprograms; k++) prof_recording_free(x->programs[k].rec);
  hs_arena_free(&x->names);
  *x = (prof_xspace){0};
}
