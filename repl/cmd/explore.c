// explore.c: explore, and `plot` to .html and .json: what the session knows, handed to the writers
// of viz/explore.h.
//
// The page has the versions on the way from the loaded module to the current one, and on from there
// as far as redo goes. Costs and estimates of a version are made while the module stands there; one
// that the verifier refuses has none.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/analysis/cost.h"
#include "core/base/file.h"
#include "profiler/memory.h"
#include "repl/cmd/cmd.h"
#include "repl/shell/gate.h"
#include "repl/shell/target.h"
#include "viz/explore.h"

// ---- figures of a version -----------------------------------------------------------------------
// By instruction id, for all versions in turn: ids are never used twice.
typedef struct figures {
  u32 n;
  double *of[VIZ_METRICS];
  bool known[VIZ_METRICS];
} figures;

static double *column(figures *f, viz_metric k) {
  f->known[k] = true;
  return memset(f->of[k], 0, f->n * sizeof(double));
}

static hs_status add_costs(repl_cmd *c, figures *f) {
  hlo_cost_table t;
  prof_module e;
  HS_TRY(hlo_cost_module(c->m, &t));
  double *flops = column(f, VIZ_FLOPS), *bytes = column(f, VIZ_BYTES);
  for (u32 k = 0; k < t.n && k < f->n; k++) {
    flops[k] = t.by_id[k].flops;
    bytes[k] = t.by_id[k].bytes_read + t.by_id[k].bytes_written;
  }
  hlo_cost_free(&t);
  HS_TRY(prof_estimate_kernels(c->m, c->s->target, &(prof_options){0}, &e));
  double *time = column(f, VIZ_ESTIMATED);
  for (u32 k = 0; k < e.n && k < f->n; k++) time[k] = e.kernels[k].seconds * e.times[k];
  prof_module_free(&e);
  return HS_GOOD;
}

// What each instruction holds at the step at which most memory is in use: of the values that share
// a buffer, the latest.
static hs_status add_peak(repl_cmd *c, figures *f) {
  prof_memory p = {0};
  HS_TRY(prof_memory_model(c->m, false, &p));
  double *held = column(f, VIZ_PEAK);
  i32 step = p.nsteps ? (i32)prof_memory_peak_step(&p) : 0;
  for (u32 v = 0, b = 0; b < p.nbuffers && p.nsteps; b++) {
    const prof_buffer *x = &p.buffers[b];
    const prof_buffer_value *now = NULL;
    for (; v < p.nvalues && p.values[v].buffer == b; v++) {
      const prof_buffer_value *y = &p.values[v];
      if (!now || (y->first <= step && (now->first > step || y->first >= now->first))) now = y;
    }
    if (!now || x->first > step || x->last < step) continue;
    const hlo_instr *i = hlo_find_instr(c->m, now->instr);
    if (i && i->id < f->n) held[i->id] += (double)x->bytes;
  }
  prof_memory_free(&p);
  return HS_GOOD;
}

static void add_times(repl_cmd *c, figures *f) {
  if (!c->mod->kernel_times.n || c->mod->kernel_times_version != c->mod->at->number) return;
  double *ms = column(f, VIZ_MEASURED);
  for (size_t k = 0; k < c->mod->kernel_times.n; k++) {
    const hlo_instr *i = hlo_find_instr(c->m, c->mod->kernel_times.v[k].name);
    if (i && i->id < f->n) ms[i->id] = c->mod->kernel_times.v[k].ms * 1e-3;
  }
}

// A figure that cannot be had is left out; an interruption is an error.
static hs_status left_out(hs_status s) {
  if (hs_ok(s) || hs_interrupted()) return s;
  hs_status_drop(s);
  return HS_GOOD;
}

// ---- versions -----------------------------------------------------------------------------------
// The remarks of the passes that made a version.
static const viz_remark *remarks_of(repl_cmd *c, const repl_version *v, u32 *n) {
  viz_remark *list = HS_NEW_ARRAY(c->scratch, viz_remark, v->notes.n + 1);
  for (size_t k = 0; k < v->notes.n; k++) {
    const pass_note *x = &v->notes.v[k];
    list[k] = (viz_remark){x->instr, x->other, x->done, x->pass, x->text};
  }
  *n = (u32)v->notes.n;
  return list;
}

static hs_status add_version(repl_cmd *c, viz_explorer *x, repl_version *v, bool current,
                             figures *f) {
  memset(f->known, 0, sizeof f->known);
  if (repl_is_verified(c->mod)) {
    HS_TRY(left_out(add_costs(c, f)));
    HS_TRY(left_out(add_peak(c, f)));
    add_times(c, f);
  }
  HS_TRY(hs_poll());
  viz_version info = {.number = v->number, .label = v->label, .current = current, .nids = f->n};
  for (u32 k = 0; k < VIZ_METRICS; k++) info.metric[k] = f->known[k] ? f->of[k] : NULL;
  info.remarks = remarks_of(c, v, &info.nremarks);
  return viz_explorer_add(x, c->m, &info);
}

static void show_progress(void *arg, const char *what, double done, double total) {
  repl_progress(((repl_cmd *)arg)->out, what, done, total);
}

static hs_status add_history(repl_cmd *c, viz_explorer *x) {
  repl_version *here = c->mod->at;
  HS_VEC(repl_version *) path = {0};
  for (repl_version *v = here; v; v = v->parent) hs_vec_push(&path, v);
  for (size_t a = 0, b = path.n; a + 1 < b; a++) {
    repl_version *v = path.v[--b];
    path.v[b] = path.v[a], path.v[a] = v;
  }
  for (repl_version *v = here->redo; v; v = v->redo) hs_vec_push(&path, v);
  figures f = {.n = c->m->next_instr_id};
  for (u32 k = 0; k < VIZ_METRICS; k++) f.of[k] = HS_NEW_ARRAY(c->scratch, double, f.n + 1);
  hs_status s = HS_GOOD;
  repl_visit_state was = repl_visit(c->mod, here);
  for (size_t k = 0; k < path.n && hs_ok(s); k++) {
    repl_progress(c->out, "reading versions", (double)k, (double)path.n);
    repl_visit(c->mod, path.v[k]);
    s = add_version(c, x, path.v[k], path.v[k] == here, &f);
  }
  repl_return(c->mod, &was);
  hs_vec_free(&path);
  return s;
}

hs_status cmd_write_explorer(repl_cmd *c, const hlo_instr *focus, const char *path) {
  double deadline = c->s->set.deadline > 0 ? c->s->set.deadline : 120;
  viz_explorer *x = viz_explorer_new(c->m->name, repl_device_label(c->s->target), show_progress, c);
  hs_buf page = {0};
  char *note = NULL;
  if (focus) viz_explorer_focus(x, focus->id);
  hs_status s = add_history(c, x);
  if (hs_ok(s)) s = viz_explorer_page(x, deadline, &page, &note);
  if (hs_ok(s)) s = hs_write_file(path, page.p, page.n, false);
  repl_progress_end(c->out);
  if (hs_ok(s) && note) repl_note(c->out, "%s", note);
  hs_free(note);
  hs_buf_free(&page);
  viz_explorer_free(x);
  return s;
}

hs_status cmd_write_model_explorer(repl_cmd *c, const char *path) {
  hs_buf b = {0};
  hs_status s = viz_model_explorer(c->m, &b);
  if (hs_ok(s)) s = hs_write_file(path, b.p, b.n, false);
  hs_buf_free(&b);
  return s;
}

// ---- the browser --------------------------------------------------------------------------------

// What opens a page here: $BROWSER, else xdg-open where there is a screen; NULL for nothing.
static const char *browser(void) {
  const char *own = getenv("BROWSER");
  if (own && *own && !strchr(own, ':') && !strchr(own, '%')) return own;
  const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
  bool screen = (x && *x) || (wayland && *wayland);
  return screen && hs_has_program("xdg-open") ? "xdg-open" : NULL;
}

// Starts it and does not wait: its parent ends at once, so that nobody has to collect it.
static bool open_page(const char *program, const char *path) {
  pid_t pid = fork();
  if (pid == 0) {
    pid_t inner = fork();
    if (inner) _exit(inner < 0);
    setsid();
    if (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stdout) ||
        !freopen("/dev/null", "w", stderr))
      _exit(127);
    execlp(program, program, path, (char *)NULL);
    _exit(127);
  }
  int status = 1;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

hs_status cmd_explore(repl_cmd *c) {
  hlo_instr *focus = NULL;
  if (repl_arg(c, 0)) HS_TRY(repl_arg_instr(c, 0, &focus));
  char *name = repl_file_name(c->m->name);
  const char *file = repl_flag(c, "-o");
  char *path = file ? hs_strdup(file) : hs_format("%s.html", name);
  hs_status s = cmd_write_explorer(c, focus, path);
  const char *program = hs_ok(s) && !file ? browser() : NULL;
  bool opened = program && open_page(program, path);
  if (hs_ok(s)) {
    if (!c->doc && opened) repl_say(c->out, "wrote %s and opened it with %s\n", path, program);
    else if (!c->doc) repl_say(c->out, "wrote %s: open it in a browser\n", path);
    repl_json_str(c->doc, "file", path);
    repl_json_bool(c->doc, "opened", opened);
  }
  hs_free(path);
  hs_free(name);
  return s;
}
