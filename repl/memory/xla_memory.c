// xla_memory.c — `memory xla FILE|DIR`: XLA's buffer assignment beside ours, allocation by
// allocation, matched by parameter and by the values inside.
//
// The module at hand should be the one that XLA assigned buffers for (the dump's
// after_optimizations state): values are matched by instruction name and path.
#include <dirent.h>
#include <stdlib.h>

#include "passes/buffer/donation.h"
#include "profiler/xla_report.h"
#include "repl/memory/memory.h"

// ---- which file ---------------------------------------------------------------------------------

static bool ends(const char *s, const char *with) {
  size_t n = strlen(s), m = strlen(with);
  return n >= m && !strcmp(s + n - m, with);
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

// The report in a folder: the only buffer assignment there, or the one whose name has the module's.
static hs_status find_report(repl_cmd *c, const char *dir, char **out) {
  HS_VEC(char *) v = {0};
  DIR *d = opendir(dir);
  if (!d) return hs_fail_errno(HS_E_IO, dir);
  for (struct dirent *e; (e = readdir(d));)
    if (ends(e->d_name, "-buffer-assignment.txt"))
      hs_vec_push(&v, hs_arena_strndup(c->scratch, e->d_name, strlen(e->d_name)));
  closedir(d);
  if (v.n) qsort(v.v, v.n, sizeof *v.v, by_text);
  const char *found = v.n == 1 ? v.v[0] : NULL;
  u32 matches = 0;
  char *part = hs_format(".%s.", c->m->name);
  for (size_t k = 0; k < v.n && v.n > 1; k++)
    if (strstr(v.v[k], part)) found = v.v[k], matches++;
  hs_free(part);
  hs_status s = HS_GOOD;
  if (!v.n) s = hs_fail(HS_E_IO, "%s has no *-buffer-assignment.txt", dir);
  else if (!found || matches > 1)
    s = hs_with_note(hs_fail(HS_E_USAGE, "%s has %zu buffer assignments, and %s of %s", dir, v.n,
                             matches ? "several" : "none", c->m->name),
                     "name one of them: memory xla %s/%s", dir, v.v[0]);
  else *out = hs_format("%s/%s", dir, found);
  hs_vec_free(&v);
  return s;
}

static hs_status read_report(repl_cmd *c, const char *path, xla_report *out) {
  char *file = NULL;
  hs_buf text = {0};
  DIR *d = opendir(path);
  if (d) {
    closedir(d);
    HS_TRY(find_report(c, path, &file));
  } else file = hs_strdup(path);
  hs_status s = repl_read_file(file, hlo_ctx_load_limit(c->s->ctx), &text);
  if (hs_ok(s)) s = xla_report_read(file, text.p ? text.p : "", text.n, out);
  hs_buf_free(&text);
  if (hs_ok(s)) repl_json_str(c->doc, "file", file);
  hs_free(file);
  return s;
}

// ---- ours, by label -----------------------------------------------------------------------------

typedef struct labelled {
  const char *label;
  const prof_buffer_value *v;
} labelled;
static int by_label(const void *a, const void *b) {
  const labelled *x = a, *y = b;
  int d = strcmp(x->label, y->label);
  return d ? d : x->v < y->v ? -1 : x->v > y->v;
}

// Our values under XLA's labels, sorted.
static labelled *labels(repl_cmd *c, const prof_memory *p, u32 *n) {
  labelled *out = HS_NEW_ARRAY(c->scratch, labelled, p->nvalues + 1);
  hs_buf b = {0};
  *n = 0;
  for (u32 v = 0; v < p->nvalues; v++) {
    if (p->values[v].scratch) continue;
    b.n = 0;
    hs_buf_puts(&b, p->values[v].instr);
    const hlo_instr *i = hlo_find_instr(c->m, p->values[v].instr);
    if (i && p->values[v].leaf < hlo_shape_leaves(i->shape))
      donation_path(i->shape, p->values[v].leaf, &b);
    out[(*n)++] = (labelled){hs_arena_strndup(c->scratch, hs_buf_cstr(&b), b.n), &p->values[v]};
  }
  hs_buf_free(&b);
  if (*n) qsort(out, *n, sizeof *out, by_label);
  return out;
}

static const prof_buffer_value *find(const labelled *v, u32 n, const char *label) {
  u32 lo = 0, hi = n;
  while (lo < hi) {
    u32 mid = lo + (hi - lo) / 2;
    if (strcmp(v[mid].label, label) < 0) lo = mid + 1;
    else hi = mid;
  }
  return lo < n && !strcmp(v[lo].label, label) ? v[lo].v : NULL;
}

// ---- kinds --------------------------------------------------------------------------------------

static prof_buffer_kind kind_of(const xla_allocation *a) {
  if (a->parameter >= 0) return PROF_BUFFER_PARAMETER;
  if (a->constant) return PROF_BUFFER_CONSTANT;
  if (a->thread_local_) return PROF_BUFFER_THREAD_LOCAL;
  return a->output || a->live_out ? PROF_BUFFER_OUTPUT : PROF_BUFFER_TEMPORARY;
}

// Bytes that it adds to those of its kind: temporaries are counted as an area, and one that lies in
// a result adds nothing.
static i64 adds(const prof_buffer *b) {
  return b->kind == PROF_BUFFER_TEMPORARY || (b->kind == PROF_BUFFER_OUTPUT && !b->output)
             ? 0
             : b->bytes;
}

typedef struct sum {
  i64 xla, ours;
  u32 nxla, nours;
} sum;

static void kinds_table(repl_cmd *c, const xla_report *x, const prof_memory *p) {
  sum by_kind[PROF_BUFFER_KINDS] = {0};
  for (size_t k = 0; k < x->allocations.n; k++) {
    sum *s = &by_kind[kind_of(&x->allocations.v[k])];
    s->xla = hs_add_sat_i64(s->xla, x->allocations.v[k].size);
    s->nxla++;
  }
  for (u32 b = 0; b < p->nbuffers; b++) {
    sum *s = &by_kind[p->buffers[b].kind];
    s->ours = hs_add_sat_i64(s->ours, adds(&p->buffers[b]));
    s->nours++;
  }
  by_kind[PROF_BUFFER_TEMPORARY].ours = p->temp_bytes;
  char a[2][32];
  if (!c->doc)
    repl_say(c->out, "%-14s %10s %10s   XLA's allocations, our buffers\n", "", "XLA", "ours");
  repl_json *list = repl_json_array(c->doc, "kinds");
  i64 ours = 0;
  for (int k = 0; k < PROF_BUFFER_KINDS; k++) {
    sum *s = &by_kind[k];
    ours = hs_add_sat_i64(ours, s->ours);
    if (!c->doc)
      repl_say(c->out, "%-14s %10s %10s   %u, %u\n", prof_buffer_kind_text((prof_buffer_kind)k),
               repl_bytes(a[0], (double)s->xla), repl_bytes(a[1], (double)s->ours), s->nxla,
               s->nours);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "kind", prof_buffer_kind_text((prof_buffer_kind)k));
    repl_json_int(j, "xla_bytes", s->xla);
    repl_json_int(j, "our_bytes", s->ours);
    repl_json_int(j, "xla_allocations", s->nxla);
    repl_json_int(j, "our_buffers", s->nours);
  }
  if (!c->doc)
    repl_say(c->out, "%-14s %10s %10s\n", "total", repl_bytes(a[0], (double)x->total_bytes),
             repl_bytes(a[1], (double)ours));
  repl_json_int(c->doc, "xla_bytes", x->total_bytes);
  repl_json_int(c->doc, "our_bytes", ours);
}

// ---- differences --------------------------------------------------------------------------------

// What differs between a value of XLA's and ours; NULL when nothing does.
static const char *difference(repl_cmd *c, const xla_allocation *a, const xla_value *x,
                              const prof_buffer_value *y, const prof_memory *p) {
  if (!y) return "not among ours";
  const prof_buffer *b = &p->buffers[y->buffer];
  char *text = NULL;
  // an argument that holds a result is an output's memory in both
  if (kind_of(a) != b->kind && !(a->live_out && b->output))
    text = hs_format("%s in XLA's, %s in ours", prof_buffer_kind_text(kind_of(a)),
                     prof_buffer_kind_text(b->kind));
  else if (x->size != y->bytes)
    text = hs_format("%lld bytes in XLA's, %lld in ours", (long long)x->size, (long long)y->bytes);
  if (!text) return NULL;
  const char *kept = hs_arena_strndup(c->scratch, text, strlen(text));
  hs_free(text);
  return kept;
}

typedef struct tally {
  u32 same, differ, shown, ours_only;
} tally;

static void differences(repl_cmd *c, const xla_report *x, const prof_memory *p, i64 limit) {
  u32 n;
  labelled *ours = labels(c, p, &n);
  bool *seen = HS_NEW_ARRAY(c->scratch, bool, p->nvalues + 1);
  tally t = {0};
  repl_json *list = repl_json_array(c->doc, "allocations");
  hs_buf line = {0};
  for (size_t k = 0; k < x->allocations.n; k++) {
    const xla_allocation *a = &x->allocations.v[k];
    repl_json *j = repl_json_object(list, NULL);
    repl_json_int(j, "number", a->number);
    repl_json_str(j, "kind", prof_buffer_kind_text(kind_of(a)));
    repl_json_int(j, "bytes", a->size);
    repl_json_bool(j, "live_out", a->live_out);
    repl_json *values = repl_json_array(j, "values");
    for (u32 v = a->first_value; v < a->first_value + a->nvalues; v++) {
      const xla_value *xv = &x->values.v[v];
      const prof_buffer_value *y = find(ours, n, xv->label);
      const char *why = difference(c, a, xv, y, p);
      if (y) seen[y - p->values] = true;
      t.same += !why;
      t.differ += why != NULL;
      if (why && !c->doc && t.shown++ < limit)
        hs_buf_printf(&line, "  allocation %lld: %s: %s\n", (long long)a->number, xv->label, why);
      repl_json *o = repl_json_object(values, NULL);
      repl_json_str(o, "value", xv->label);
      repl_json_int(o, "bytes", xv->size);
      repl_json_int(o, "offset", xv->offset);
      if (y) repl_json_int(o, "our_buffer", y->buffer);
      else repl_json_null(o, "our_buffer");
      repl_json_str(o, "difference", why);
    }
  }
  repl_json *only = repl_json_array(c->doc, "only_ours");
  for (u32 k = 0; k < n; k++) {
    if (seen[ours[k].v - p->values] || find(ours, n, ours[k].label) != ours[k].v) continue;
    t.ours_only++;
    if (!c->doc && t.shown++ < limit)
      hs_buf_printf(&line, "  %s: not among XLA's (%s of ours)\n", ours[k].label,
                    prof_buffer_kind_text(p->buffers[ours[k].v->buffer].kind));
    repl_json_str(only, NULL, ours[k].label);
  }
  repl_json_int(c->doc, "same", t.same);
  repl_json_int(c->doc, "different", t.differ);
  if (!c->doc) {
    repl_say(c->out,
             "%u of XLA's %zu values lie in memory of the same kind and size; %u differ, "
             "%u are only ours\n",
             t.same, x->values.n, t.differ, t.ours_only);
    repl_say(c->out, "%s", hs_buf_cstr(&line));
    if (t.shown > limit)
      repl_say(c->out, "  %lld more; --limit=N shows more\n", (long long)t.shown - limit);
  }
  hs_buf_free(&line);
}

// A usage report names no instructions: its allocations, and the totals.
static void usage_table(repl_cmd *c, const xla_report *x, const prof_memory *p, i64 limit) {
  char a[2][32];
  i64 ours = p->temp_bytes;
  for (u32 b = 0; b < p->nbuffers; b++) ours = hs_add_sat_i64(ours, adds(&p->buffers[b]));
  if (!c->doc)
    repl_say(c->out, "XLA %s in %zu allocations; ours %s\n",
             repl_bytes(a[0], (double)x->total_bytes), x->allocations.n,
             repl_bytes(a[1], (double)ours));
  repl_json_int(c->doc, "xla_bytes", x->total_bytes);
  repl_json_int(c->doc, "our_bytes", ours);
  repl_json *list = repl_json_array(c->doc, "allocations");
  for (size_t k = 0; k < x->allocations.n; k++) {
    const xla_allocation *al = &x->allocations.v[k];
    if (!c->doc && (i64)k < limit)
      repl_say(c->out, "%10s  places: %u, the first for %s\n", repl_bytes(a[0], (double)al->size),
               al->nvalues, al->nvalues ? x->values.v[al->first_value].label : "nothing");
    repl_json *j = repl_json_object(list, NULL);
    repl_json_int(j, "bytes", al->size);
    repl_json_int(j, "places", al->nvalues);
  }
}

hs_status memory_beside_xla(repl_cmd *c, const prof_memory *p, const char *path, i64 limit) {
  xla_report x;
  HS_TRY(read_report(c, path, &x));
  repl_json_str(c->doc, "kind", x.usage ? "memory-usage-report" : "buffer-assignment");
  if (x.usage) usage_table(c, &x, p, limit);
  else {
    kinds_table(c, &x, p);
    differences(c, &x, p, limit);
  }
  xla_report_free(&x);
  return HS_GOOD;
}
