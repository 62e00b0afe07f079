// see.c — pictures: a bare name or show (terminal), plot (file). Arguments as in
// interactive_graphviz: X [WIDTH] [/ BOUNDARY...].
#include <ctype.h>
#include <stdlib.h>

#include "repl/cmd/cmd.h"
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

static hs_status draw(repl_cmd *c) {
  viz_options o;
  HS_TRY(view_of(c, &o));
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

static bool ends_in(const char *s, const char *end) {
  size_t n = strlen(s), k = strlen(end);
  return n >= k && strcmp(s + n - k, end) == 0;
}

hs_status cmd_plot(repl_cmd *c) {
  viz_options o;
  // A lone argument that is a file name is the picture's, as in `plot graph.svg`.
  const char *file = repl_flag(c, "-o"),
             *last = c->args.npos ? c->args.pos[c->args.npos - 1] : NULL;
  const char *dot = last ? strrchr(last, '.') : NULL;
  static const char *const kinds[] = {".svg", ".png", ".pdf", ".dot", ".html", ".json"};
  bool is_file = false;
  for (size_t k = 0; dot && k < HS_COUNT(kinds); k++) is_file |= strcmp(dot, kinds[k]) == 0;
  if (!file && is_file && !repl_find_instr(c->m, last)) {
    file = last;
    c->args.npos--;
  }
  HS_TRY(view_of(c, &o));
  const char *comp = repl_flag(c, "--computation");
  if (comp) {
    o.comp = repl_find_comp(c->m, comp);
    o.center = NULL;
    if (!o.comp) return repl_no_object(c->m, comp);
  }
  if (repl_flag(c, "--max-nodes")) {
    i64 n;
    HS_TRY(repl_arg_int(c, "--max-nodes", repl_flag(c, "--max-nodes"), 1, 100000, &n));
    o.max_nodes = (u32)n;
  }
  char *name = repl_file_name(o.center ? o.center->name : c->m->name);
  char *made = file ? hs_strdup(file) : hs_format("%s.svg", name);
  hs_free(name);
  bool page = ends_in(made, ".html");
  if (page || ends_in(made, ".json")) {
    hs_status wrote =
        page ? cmd_write_explorer(c, o.center, made) : cmd_write_model_explorer(c, made);
    if (hs_ok(wrote) && !c->doc) repl_say(c->out, "wrote %s\n", made);
    repl_json_str(c->doc, "file", made);
    hs_free(made);
    return wrote;
  }
  hs_buf dot_text = {0};
  char *note = NULL;
  hs_status s = viz_dot(c->m, &o, &dot_text, &note);
  if (hs_ok(s))
    s = viz_render(dot_text.p, dot_text.n, made, c->s->set.deadline > 0 ? c->s->set.deadline : 20);
  if (hs_ok(s)) {
    if (!c->doc) repl_say(c->out, "wrote %s\n", made);
    repl_json_str(c->doc, "file", made);
    if (note) repl_note(c->out, "%s", note);
  }
  hs_free(note);
  hs_buf_free(&dot_text);
  hs_free(made);
  return s;
}
