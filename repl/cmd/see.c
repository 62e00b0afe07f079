// see.c — pictures: a bare name or show (terminal), plot (file). Arguments as in
// interactive_graphviz: X [WIDTH] [/ BOUNDARY...].
#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

#include "repl/cmd/cmd.h"
#include "repl/formats/files.h"
#include "repl/shell/gate.h"
#include "repl/shell/target.h"
#include "viz/graphics.h"
#include "viz/viz.h"

static hs_status boundary_of(repl_cmd *c, u32 from, viz_options *o) {
  if (from >= c->args.npos) return HS_GOOD;
  if (strcmp(c->args.pos[from], "/") != 0)
    return repl_usage_error(
        c, "after X and WIDTH may follow / and the instructions to stop at, not \"%s\"",
        c->args.pos[from]);
  u32 n = c->args.npos - from - 1;
  const hlo_instr **list = HS_NEW_ARRAY(c->scratch, const hlo_instr *, n + 1);
  for (u32 k = 0; k < n; k++) {
    hlo_instr *i;
    HS_TRY(repl_arg_instr(c, from + 1 + k, &i));
    list[k] = i;
  }
  o->boundary = list;
  o->nboundary = n;
  return HS_GOOD;
}

static hs_status view_of(repl_cmd *c, viz_options *o) {
  *o = (viz_options){.width = 2,
                     .show_fusions = c->s->set.show_fusions,
                     .show_metadata = c->s->set.metadata,
                     .show_layouts = true};
  hlo_instr *i = NULL;
  hlo_computation *comp = NULL;
  u32 at = 0;
  if (repl_arg(c, 0)) HS_TRY(repl_arg_object(c, at++, &i, &comp));
  o->center = i;
  o->comp = comp ? comp : i ? NULL : c->m->entry;
  if (repl_arg(c, at) && isdigit((unsigned char)repl_arg(c, at)[0])) {
    i64 w;
    HS_TRY(repl_arg_int(c, "WIDTH", repl_arg(c, at++), 0, 1000, &w));
    o->width = (u32)w;
  }
  if (repl_flag(c, "--width")) {
    i64 w;
    HS_TRY(repl_arg_int(c, "--width", repl_flag(c, "--width"), 0, 1000, &w));
    o->width = (u32)w;
  }
  return boundary_of(c, at, o);
}

// What is drawn: a view of the module, or two versions of it.
typedef struct plot {
  viz_options o;
  repl_version *from, *to;  // NULL: the view
  hlo_graph_diff d;
  char *labels[2];
  char *shares;  // whose times the colours are; NULL: none
} plot;

static hs_status make_view(void *arg, const viz_limits *l, hs_buf *dot, char **note) {
  const plot *p = arg;
  viz_options o = p->o;
  if (l->max_nodes) o.max_nodes = l->max_nodes;
  o.max_fan = l->fan;
  o.show_fusions &= !l->fan;
  return viz_dot((o.center ? o.center->parent : o.comp)->module, &o, dot, note);
}
// What --picture asks for, or what the terminal can: it is asked once, and only where it is to have
// colours too.
static hs_status graphics_of(repl_cmd *c, viz_graphics *g) {
  const char *how = repl_flag(c, "--picture");
  *g = VIZ_NO_GRAPHICS;
  if (how && strcmp(how, "kitty") == 0) *g = VIZ_KITTY;
  else if (how && strcmp(how, "sixel") == 0) *g = VIZ_SIXEL;
  else if (how && strcmp(how, "auto") != 0 && strcmp(how, "text") != 0)
    return repl_usage_error(c, "--picture is auto, text, kitty or sixel");
  if (c->doc || (how && strcmp(how, "auto") != 0)) return HS_GOOD;
  if (!c->out->color || c->out->captured || !c->s->interactive) return HS_GOOD;
  if (!c->s->graphics) c->s->graphics = 1 + viz_graphics_of(STDIN_FILENO, STDOUT_FILENO);
  *g = (viz_graphics)(c->s->graphics - 1);
  return HS_GOOD;
}

static hs_status draw_picture(repl_cmd *c, viz_graphics g, const viz_options *o) {
  plot p = {.o = *o};
  u32 wide = viz_graphics_width(STDOUT_FILENO);
  const viz_picture_options q = {"png", 0, wide ? wide : 1000, 10};
  hs_buf png = {0}, b = {0};
  char *note = NULL;
  hs_status s = viz_picture(make_view, &p, &q, &png, &note);
  if (hs_ok(s)) s = viz_graphics_put(g, png.p, png.n, &b);
  if (hs_ok(s)) repl_send_picture(c->out, b.p, b.n);
  if (hs_ok(s) && note) repl_note(c->out, "%s", note);
  hs_free(note);
  hs_buf_free(&png);
  hs_buf_free(&b);
  return s;
}

static hs_status draw(repl_cmd *c) {
  viz_options o;
  viz_graphics g;
  HS_TRY(view_of(c, &o));
  HS_TRY(graphics_of(c, &g));
  if (g != VIZ_NO_GRAPHICS) {
    hs_status drawn = draw_picture(c, g, &o);
    if (hs_ok(drawn) || repl_flag(c, "--picture") || hs_interrupted()) return drawn;
    hs_status_drop(drawn);  // without Graphviz there is still the text
  }
  hs_buf b = {0};
  hs_status s = viz_terminal(c->m, &o, c->out->color, &b);
  if (hs_ok(s)) {
    repl_say_painted(c->out, b.p, b.n);
    if (b.n && b.p[b.n - 1] != '\n') hs_buf_putc(&c->out->text, '\n');
    repl_json_str(c->doc, "of", o.center ? o.center->name : o.comp->name);
  }
  hs_buf_free(&b);
  return s;
}

hs_status cmd_show(repl_cmd *c) { return draw(c); }
hs_status cmd_neighbourhood(repl_cmd *c) { return draw(c); }

// The part that each instruction has of the kernels' time: of the loaded profile of this version,
// or of an estimate for the target. In the command's scratch memory; *from says which.
static hs_status time_shares(repl_cmd *c, const double **out, char **from) {
  double *ms = HS_NEW_ARRAY(c->scratch, double, c->m->next_instr_id + 1u), all = 0;
  const repl_recorded *r = c->mod->recorded;
  if (r && r->version == c->mod->at->number) {
    for (u32 k = 0; k < r->rec->nkernels; k++) {
      const hlo_instr *i = hlo_find_instr(c->m, r->kernels[k].name);
      double t = prof_recorded_kernel(r->rec, k).median;
      if (i) ms[i->id] += t;
      all += t;
    }
    *from = hs_format("time of %s, as recorded in %s", r->device, r->file);
  } else {
    const prof_device *d = c->s->target == &c->s->here ? repl_here(c->s) : c->s->target;
    prof_module e;
    HS_TRY(repl_gate_version(c, c->mod, c->mod->at));
    HS_TRY(prof_estimate_kernels(c->m, d, &(prof_options){0}, &e));
    for (u32 k = 0; k < e.n; k++) all += ms[k] = e.kernels[k].seconds * e.times[k];
    prof_module_free(&e);
    *from = hs_format("time estimated for %s", d->name);
  }
  for (u32 k = 0; k < c->m->next_instr_id && all > 0; k++) ms[k] /= all;
  *out = ms;
  return HS_GOOD;
}

// ---- plot ---------------------------------------------------------------------------------------
enum { MAX_WIDTH = 3000 };  // pixels

static hs_status make_diff(void *arg, const viz_limits *l, hs_buf *dot, char **note) {
  const plot *p = arg;
  u32 most = l->max_nodes ? l->max_nodes : p->o.max_nodes;
  return viz_diff_dot(&p->d, p->labels[0], p->labels[1], most, dot, note);
}

// `plot 0 1`: two versions, unless the first names something in the module.
static hs_status versions_of(repl_cmd *c, plot *p) {
  if (c->args.npos != 2 || strcmp(repl_arg(c, 1), "/") == 0 ||
      repl_find_instr(c->m, repl_arg(c, 0)) || repl_find_comp(c->m, repl_arg(c, 0)) ||
      !repl_version_find(c->mod, repl_arg(c, 0)))
    return HS_GOOD;
  HS_TRY(cmd_arg_version(c, repl_arg(c, 0), &p->from));
  HS_TRY(cmd_arg_version(c, repl_arg(c, 1), &p->to));
  c->args.npos = 0;
  return HS_GOOD;
}

// A lone argument that is a file name is the picture's, as in `plot graph.svg`.
static const char *file_argument(repl_cmd *c) {
  static const char *const kinds[] = {".svg", ".png", ".pdf", ".dot", ".html", ".json"};
  const char *file = repl_flag(c, "-o"), *last = c->args.npos ? c->args.pos[c->args.npos - 1] : "";
  for (size_t k = 0; !file && k < HS_COUNT(kinds); k++)
    if (repl_ends_in(last, kinds[k]) && !repl_find_instr(c->m, last)) {
      c->args.npos--;
      return last;
    }
  return file;
}

static hs_status read_plot(repl_cmd *c, plot *p) {
  HS_TRY(versions_of(c, p));
  HS_TRY(view_of(c, &p->o));
  const char *comp = repl_flag(c, "--computation");
  if (comp) {
    p->o.comp = repl_find_comp(c->m, comp);
    p->o.center = NULL;
    if (!p->o.comp) return repl_no_object(c->m, comp);
  }
  if (repl_flag(c, "--max-nodes")) {
    i64 n;
    HS_TRY(repl_arg_int(c, "--max-nodes", repl_flag(c, "--max-nodes"), 1, 100000, &n));
    p->o.max_nodes = (u32)n;
  }
  const char *by = repl_flag(c, "--by");
  if (by && strcmp(by, "time") != 0) return repl_usage_error(c, "--by is time, not \"%s\"", by);
  return by ? time_shares(c, &p->o.heat, &p->shares) : HS_GOOD;
}

// The picture in a file of that format; DOT has no width.
static hs_status draw_file(repl_cmd *c, plot *p, const char *path, char **note) {
  viz_maker *make = p->from ? make_diff : make_view;
  const char *format = viz_format_of(path);
  double deadline = c->s->set.deadline > 0 ? c->s->set.deadline : 20;
  bool wide = repl_flag(c, "--wide") || repl_flag(c, "--max-nodes");
  const viz_picture_options o = {format, 0, wide ? 0 : MAX_WIDTH, deadline};
  hs_buf b = {0};
  hs_status s;
  if (format && strcmp(format, "dot") != 0) {
    s = viz_picture(make, p, &o, &b, note);
    if (hs_ok(s)) s = hs_write_file(path, b.p, b.n, false);
  } else {
    s = make(p, &(viz_limits){0}, &b, note);
    if (hs_ok(s)) s = viz_render(b.p, b.n, path, deadline);
  }
  hs_buf_free(&b);
  return s;
}

static hs_status draw_versions(repl_cmd *c, plot *p, const char *path, char **note) {
  hlo_module *a = repl_module_at(c->mod, p->from), *b = repl_module_at(c->mod, p->to);
  p->labels[0] = hs_format("@%u", p->from->number);
  p->labels[1] = hs_format("@%u", p->to->number);
  hlo_graph_diff_make(a, b, c->scratch, &p->d);
  hs_status s = hs_poll();
  if (hs_ok(s)) s = draw_file(c, p, path, note);
  if (hs_ok(s)) {
    repl_json_int(c->doc, "added", p->d.added);
    repl_json_int(c->doc, "removed", p->d.removed);
    repl_json_int(c->doc, "changed", p->d.changed);
    repl_json_int(c->doc, "moved", p->d.moved);
  }
  for (u32 k = 0; k < 2; k++) hs_free(p->labels[k]);
  hlo_module_free(a);
  hlo_module_free(b);
  return s;
}

hs_status cmd_plot(repl_cmd *c) {
  plot p = {0};
  const char *file = file_argument(c);
  HS_TRY(read_plot(c, &p));
  char *name = repl_file_name(p.o.center ? p.o.center->name : c->m->name), *note = NULL;
  char *made = file ? hs_strdup(file) : hs_format("%s.svg", name);
  hs_free(name);
  hs_status s;
  if (repl_ends_in(made, ".html")) s = cmd_write_explorer(c, p.o.center, made);
  else if (repl_ends_in(made, ".json")) s = cmd_write_model_explorer(c, made);
  else if (p.from) s = draw_versions(c, &p, made, &note);
  else s = draw_file(c, &p, made, &note);
  if (hs_ok(s)) {
    if (!c->doc)
      repl_say(c->out, "wrote %s%s%s\n", made, p.shares ? ": " : "", p.shares ? p.shares : "");
    repl_json_str(c->doc, "file", made);
    if (p.shares) repl_json_str(c->doc, "shares", p.shares);
    if (note) repl_note(c->out, "%s", note);
  }
  hs_free(note);
  hs_free(made);
  hs_free(p.shares);
  return s;
}
