// trace.c: one run of a program as a picture: `trace` writes its kernels over time for Perfetto or
// XProf, `flame` the medians of all runs as a flame graph over the scopes of the source program.
#include <stdlib.h>

#include "core/proto/proto.h"
#include "profiler/xplane.h"
#include "repl/formats/files.h"
#include "repl/measure/kernels.h"
#include "repl/shell/exec.h"
#include "viz/svg.h"

// ---- trace --------------------------------------------------------------------------------------
// Trace Event Format (chrome://tracing, Perfetto): complete events, times in microseconds.
static void put_event(repl_json *list, const kernel_run *p, const hlo_module *m,
                      const prof_event *e) {
  const backend_kernel *q = &p->kernels[e->kernel];
  const hlo_instr *i = hlo_find_instr(m, q->name);
  const hlo_metadata *md = i ? hlo_metadata_of(i) : NULL;
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", q->name);
  repl_json_str(j, "cat", q->kind);
  repl_json_str(j, "ph", "X");
  repl_json_num(j, "ts", (double)e->begin_ns * 1e-3);
  repl_json_num(j, "dur", (double)e->ns * 1e-3);
  repl_json_int(j, "pid", 1);
  repl_json_int(j, "tid", 1);
  repl_json *args = repl_json_object(j, "args");
  repl_json_str(args, "kind", q->kind);
  repl_json_num(args, "bytes", q->bytes);
  repl_json_num(args, "flops", q->flops);
  if (i) repl_json_str(args, "opcode", hlo_op_text(i->opcode));
  if (md && md->op_name.n) repl_json_strn(args, "op_name", md->op_name.p, md->op_name.n);
}

static void name_track(repl_json *list, const char *what, const char *name) {
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", what);
  repl_json_str(j, "ph", "M");
  repl_json_int(j, "pid", 1);
  repl_json_int(j, "tid", 1);
  repl_json_str(repl_json_object(j, "args"), "name", name);
}

static hs_status write_json(repl_cmd *c, const kernel_run *p) {
  if (!repl_json_built()) return hs_fail(HS_E_NOT_BUILT, "trace: this build lacks cJSON");
  repl_json *root = repl_json_root();
  repl_json_str(root, "displayTimeUnit", "ns");
  repl_json *list = repl_json_array(root, "traceEvents");
  name_track(list, "process_name", c->m->name);
  name_track(list, "thread_name", p->where);
  for (u32 k = 0; k < p->rec->nevents; k++) put_event(list, p, c->m, &p->rec->events[k]);
  repl_json *other = repl_json_object(root, "otherData");
  repl_json_str(other, "module", c->m->name);
  repl_json_str(other, "backend", p->where);
  repl_json_num(other, "probe_ns", p->rec->probe_ns);
  repl_json_num(other, "dropped_events", (double)p->rec->dropped);
  hs_buf b = {0};
  repl_json_print(root, &b);
  hs_status s = hs_poll();
  if (hs_ok(s)) s = hs_write_file(repl_arg(c, 0), b.p, b.n, false);
  hs_buf_free(&b);
  repl_json_free(root);
  return s;
}

// The same for XProf, with the module (profiler/xplane.h).
static hs_status write_xspace(repl_cmd *c, const kernel_run *p) {
  u32 n = p->rec->nkernels;
  const char **names = HS_NEW_ARRAY(c->scratch, const char *, n + 1),
             **kinds = HS_NEW_ARRAY(c->scratch, const char *, n + 1);
  double *flops = HS_NEW_ARRAY(c->scratch, double, n + 1),
         *bytes = HS_NEW_ARRAY(c->scratch, double, n + 1);
  for (u32 k = 0; k < n; k++) {
    const backend_kernel *q = &p->kernels[k];
    names[k] = q->name, kinds[k] = q->kind, flops[k] = q->flops, bytes[k] = q->bytes;
  }
  hlo_module *m;
  hs_buf proto = {0}, b = {0};
  HS_TRY(repl_filled(c, NULL, false, &m));
  hs_status s = hlo_proto_write(&proto, m, true);
  hlo_module_free(m);
  const prof_recording *rec = p->rec;
  const prof_xwritten program = {.module = c->m->name,
                                 .id = c->mod->at->number + 1u,
                                 .nkernels = n,
                                 .kernels = names,
                                 .kinds = kinds,
                                 .flops = flops,
                                 .bytes = bytes,
                                 .proto = proto.p,
                                 .nproto = proto.n};
  const prof_xrun run = {.number = rec->nruns,
                         .ns = rec->nruns ? (u64)(rec->run_ms[rec->nruns - 1] * 1e6) : 0,
                         .nevents = rec->nevents,
                         .events = rec->events};
  const prof_xtrace x = {.device = p->file ? p->where : "/host:CPU",
                         .nprograms = 1,
                         .programs = &program,
                         .nruns = 1,
                         .runs = &run};
  if (hs_ok(s)) prof_xspace_write(&x, &b);
  if (hs_ok(s)) s = hs_poll();
  if (hs_ok(s)) s = hs_write_file(repl_arg(c, 0), b.p, b.n, false);
  hs_buf_free(&proto);
  hs_buf_free(&b);
  return s;
}

hs_status cmd_trace(repl_cmd *c) {
  kernel_run p;
  HS_TRY(kernels_record(c, &p));
  const char *file = repl_arg(c, 0);
  if (p.isolated) {
    kernels_free(&p);
    return hs_with_note(
        hs_fail(HS_E_UNSUPPORTED, "kernels that were measured one by one are no run of a program"),
        "the backend cpu records runs; jax.profiler does for jaxlib, and `load` reads that");
  }
  bool xspace = repl_ends_in(file, ".pb");
  hs_status s = xspace ? write_xspace(c, &p) : write_json(c, &p);
  if (hs_ok(s)) {
    if (!c->doc)
      repl_say(c->out, "wrote one run, %u executions of kernels, to %s: %s\n", p.rec->nevents, file,
               xspace ? "XProf (xprof --logdir) opens it, and `load` reads it again"
                      : "Perfetto (ui.perfetto.dev) opens it");
    repl_json_str(c->doc, "file", file);
    repl_json_int(c->doc, "events", p.rec->nevents);
    repl_json_num(c->doc, "dropped", (double)p.rec->dropped);
    if (p.rec->dropped)
      repl_note(c->out, "%.0f more executions of this run are not in it", (double)p.rec->dropped);
  }
  kernels_free(&p);
  return s;
}

// ---- flame --------------------------------------------------------------------------------------
// The frames of a scope: cut at each / outside of brackets ("jit(f)/while/body/add"). text is
// cut in place.
static u32 cut_scope(char *text, const char **frames, u32 most) {
  u32 n = 0, depth = 0;
  char *from = text;
  for (char *p = text;; p++) {
    if (*p == '(' || *p == '[') depth++;
    if ((*p == ')' || *p == ']') && depth) depth--;
    if (*p && (*p != '/' || depth)) continue;
    bool end = !*p;
    *p = 0;
    if (*from && n < most) frames[n++] = from;
    if (end) return n;
    from = p + 1;
  }
}

static viz_flame_leaf leaf_of(repl_cmd *c, const kernel_row *r) {
  enum { MOST = 100 };
  const char *frames[MOST];
  const hlo_instr *i = hlo_find_instr(c->m, r->key);
  const hlo_metadata *md = i ? hlo_metadata_of(i) : NULL;
  u32 n = 0;
  frames[n++] = c->m->name;
  if (md && md->op_name.n)
    n +=
        cut_scope(hs_arena_strndup(c->scratch, md->op_name.p, md->op_name.n), frames + n, MOST - 2);
  frames[n++] = r->key;
  const char **copy = HS_NEW_ARRAY(c->scratch, const char *, n);
  memcpy(copy, frames, n * sizeof *frames);
  return (viz_flame_leaf){copy, n, r->t.median * 1e3, r->kind};
}

static int by_path(const void *a, const void *b) {
  const viz_flame_leaf *x = a, *y = b;
  for (u32 k = 0; k < x->nframes && k < y->nframes; k++) {
    int order = strcmp(x->frames[k], y->frames[k]);
    if (order) return order;
  }
  return (x->nframes > y->nframes) - (x->nframes < y->nframes);
}

hs_status cmd_flame(repl_cmd *c) {
  kernel_run p;
  HS_TRY(kernels_record(c, &p));
  u32 n;
  kernel_row *rows = kernels_rows(c, &p, "kernel", &n);
  viz_flame_leaf *leaves = HS_NEW_ARRAY(c->scratch, viz_flame_leaf, n + 1);
  for (u32 k = 0; k < n; k++) leaves[k] = leaf_of(c, &rows[k]);
  qsort(leaves, n, sizeof *leaves, by_path);
  hs_buf b = {0};
  char *title = hs_format("%s on %s, median of %u runs", c->m->name, p.where, p.rec->nruns);
  u32 narrow = viz_flame(leaves, n, title, "%.4g us", &b);
  const char *file = repl_arg(c, 0);
  char many[32];
  hs_status s = hs_poll();
  if (hs_ok(s)) s = hs_write_file(file, b.p, b.n, false);
  if (hs_ok(s)) {
    if (!c->doc) repl_say(c->out, "wrote %s: %s by scope\n", file, repl_plural(many, n, "kernel"));
    repl_json_str(c->doc, "file", file);
    repl_json_int(c->doc, "kernels", n);
    repl_json_int(c->doc, "left_out", narrow);
  }
  hs_free(title);
  hs_buf_free(&b);
  kernels_free(&p);
  return s;
}
