// viz.c — pictures: what the DOT text holds, where views stop, and how rendering fails: Graphviz
// missing, hanging, failing, killed; a full disk. Each failure must come back as an error and leave
// no half file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/text/text.h"
#include "viz/svg.h"
#include "viz/viz.h"
#include "tests/unit/skip.h"

static const char *const source =
    "HloModule pic\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
    "fused { fa = f32[8,4] parameter(0) fk = f32[] constant(3) fb = f32[8,4] broadcast(fk), "
    "dimensions={} ROOT fm = f32[8,4] multiply(fa, fb) }\n"
    "ENTRY e { x = f32[8,4] parameter(0), metadata={op_name=\"in <x> & \\\"y\\\"\" "
    "source_file=\"a.py\" source_line=3}\n"
    "  n = f32[8,4] negate(x) f = f32[8,4] fusion(n), kind=kLoop, calls=fused z = f32[] "
    "constant(0.5)\n"
    "  s = f32[8] reduce(f, z), dimensions={1}, to_apply=add t = (f32[8], f32[8,4]) tuple(s, f) g "
    "= f32[8] get-tuple-element(t), index=0\n"
    "  b = f32[8] exponential(g) ROOT out = f32[8] add(b, s), control-predecessors={n} }\n";

typedef struct fixture {
  hlo_ctx *ctx;
  hlo_module *m;
  char dir[64];
  char *path;
} fixture;
static hs_status load(fixture *f, const char *text) {
  return hlo_parse(f->ctx, text, strlen(text), NULL, &f->m);
}
static int setup(void **state) {
  fixture *f = hs_calloc(1, sizeof *f);
  f->ctx = hlo_ctx_new();
  hs_status s = load(f, source);
  if (s.err) print_error("%s\n", s.err->message);
  strcpy(f->dir, "/tmp/hlosh-viz-XXXXXX");
  f->path = hs_strdup(getenv("PATH"));
  *state = f;
  return s.err || !mkdtemp(f->dir) ? -1 : 0;
}
static u32 files_in(const char *dir, bool remove_them) {
  u32 n = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    n++;
    char *p = hs_format("%s/%s", dir, e->d_name);
    if (remove_them) unlink(p);
    hs_free(p);
  }
  if (d) closedir(d);
  return n;
}
static int teardown(void **state) {
  fixture *f = *state;
  setenv("PATH", f->path, 1);
  files_in(f->dir, true);
  rmdir(f->dir);
  hlo_module_free(f->m);
  hlo_ctx_free(f->ctx);
  hs_free(f->path);
  hs_free(f);
  return 0;
}
static void contains(const hs_buf *b, const char *part, bool yes) {
  bool found = strstr(b->p, part) != NULL;
  if (found != yes)
    print_error("%s: %s\n%s\n", yes ? "missing" : "should not be there", part, b->p);
  assert_true(found == yes);
}
static u32 count(const char *text, const char *part) {
  u32 n = 0;
  for (const char *p = text; (p = strstr(p, part)); p++) n++;
  return n;
}
static void dot_of(fixture *f, const viz_options *o, hs_buf *b, char **note) {
  hs_status s = viz_dot(f->m, o, b, note);
  assert_true(hs_ok(s));
  hs_buf_cstr(b);
}

static void draws_the_entry(void **state) {
  fixture *f = *state;
  hs_buf b = {0}, again = {0};
  char *note;
  viz_options o = {.show_fusions = true, .show_layouts = true};
  dot_of(f, &o, &b, &note);
  assert_null(note);
  contains(&b, "Fused expression for <b>f</b>", true);
  contains(&b, "operand 1 = 0.5", true);  // the reduce's initial value
  contains(&b, "operand 1 = 3", true);    // the fused broadcast of a constant
  contains(&b, "to_apply add", true);
  contains(&b, "style=dotted", true);  // the control edge
  contains(&b, "&lt;x&gt;", false);    // metadata is in the tooltip only
  contains(&b, "in <x> & \\\"y\\\"", true);
  contains(&b, "a.py:3", true);
  contains(&b, "ROOT", true);
  dot_of(f, &o, &again, NULL);
  assert_string_equal(b.p, again.p);
  o.show_metadata = true;
  again.n = 0;
  dot_of(f, &o, &again, NULL);
  contains(&again, "in &lt;x&gt; &amp;", true);
  hs_buf_free(&b), hs_buf_free(&again);
}

static void keeps_to_the_neighbourhood(void **state) {
  fixture *f = *state;
  const hlo_instr *s = hlo_find_instr(f->m, "s"), *fu = hlo_find_instr(f->m, "f");
  hs_buf b = {0};
  viz_options o = {.center = s, .width = 1};
  dot_of(f, &o, &b, NULL);
  contains(&b, "diamond", true);
  contains(&b, "<b>f</b>", true);
  contains(&b, "<b>n</b>", false);
  contains(&b, "<b>b</b>", false);
  contains(&b, "dashed", true);
  b.n = 0;
  o.width = 3, o.boundary = &fu, o.nboundary = 1;
  dot_of(f, &o, &b, NULL);
  contains(&b, "<b>f</b>", true);
  contains(&b, "<b>n</b>", false);  // behind the boundary
  contains(&b, "<b>g</b>", true);
  hs_buf_free(&b);
}

static void limits_large_graphs(void **state) {
  fixture *f = *state;
  hlo_module_free(f->m);
  f->m = hlo_module_new(f->ctx, "big");
  hlo_computation *c = hlo_add_computation(f->m, "e");
  const hlo_shape *s = hlo_shape_array(f->ctx, HLO_F32, 1, (i64[]){8});
  hlo_instr *x = hlo_add_parameter(c, 0, s, "x"), *last = x;
  for (int k = 0; k < 100000; k++) last = hlo_add(c, HLO_ADD, s, 2, (hlo_instr *[]){last, x}, NULL);
  hlo_set_root(c, last);
  hlo_set_entry(f->m, c);
  hs_buf b = {0};
  char *note;
  u64 t = hs_now_ns();
  dot_of(f, &(viz_options){0}, &b, &note);
  assert_non_null(note);
  assert_true(count(b.p, "shape=rect") <= 310);
  hs_free(note);
  b.n = 0;
  dot_of(f, &(viz_options){.center = x, .width = 2}, &b, &note);  // 100,001 users: not unfolded
  assert_true(count(b.p, "shape=") < 20);
  hs_free(note);
  b.n = 0;
  hs_status st = viz_terminal(f->m, &(viz_options){.center = x, .width = 5}, false, &b);
  assert_true(hs_ok(st));
  contains(&b, "more users", true);
  st = viz_terminal(f->m, &(viz_options){0}, true, &b);
  assert_true(hs_ok(st));
  assert_true((hs_now_ns() - t) / 1000000 < 2000);
  hs_buf_free(&b);
}

static void escapes_hostile_names(void **state) {
  fixture *f = *state;
  hlo_module_free(f->m);
  f->m = hlo_module_new(f->ctx, "</b>\"]; evil [label=\x01\xff");
  hlo_computation *c = hlo_add_computation(f->m, "e");
  hlo_set_root(c, hlo_add(c, HLO_CUSTOM_CALL, hlo_shape_scalar(f->ctx, HLO_F32), 0, NULL, "c"));
  hlo_set_attr_str(c->root, HLO_ATTR_CUSTOM_CALL_TARGET, HS_STR("<&\"\\>\xc3(\n"));
  hlo_set_entry(f->m, c);
  hs_buf b = {0};
  dot_of(f, &(viz_options){0}, &b, NULL);
  contains(&b, "</b>\"]; evil", false);
  contains(&b, "&lt;/b&gt;&quot;]; evil [label=??", true);
  contains(&b, "&lt;&amp;&quot;\\&gt;?( ", true);
  hs_buf_free(&b);
}

static void draws_in_the_terminal(void **state) {
  fixture *f = *state;
  hs_buf b = {0};
  hs_status s = viz_terminal(f->m, &(viz_options){.center = hlo_find_instr(f->m, "s"), .width = 1},
                             false, &b);
  assert_true(hs_ok(s));
  assert_string_equal(hs_buf_cstr(&b), "┌─ f  f32[8,4]  fusion kLoop  calls fused  ...\n"
                                       "├─ z  f32[]  constant 0.5\n"
                                       "◆ s  f32[8]  reduce {1}  to_apply add\n"
                                       "├─ t  (f32[8], f32[8,4])  tuple  (as operand 0)\n"
                                       "└─ out  f32[8]  add  ROOT  (as operand 1)\n");
  hs_buf_free(&b);
}

static void cuts_names_in_the_middle(void **state) {
  fixture *f = *state;
  hlo_module_free(f->m);
  f->m = hlo_module_new(f->ctx, "m");
  hlo_computation *c = hlo_add_computation(f->m, "e");
  hlo_set_root(c,
               hlo_add_parameter(c, 0, hlo_shape_scalar(f->ctx, HLO_F32),
                                 "the_beginning_of_a_name_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                                 "xxxxxxxxxxxxxxxxxxxx_and_its_end"));
  hlo_set_entry(f->m, c);
  hs_buf b = {0};
  dot_of(f, &(viz_options){0}, &b, NULL);
  contains(&b, "the_beginning_of_a_nam…xxxxxxxxx_and_its_end", true);
  b.n = 0;
  hs_status s = viz_terminal(f->m, &(viz_options){0}, false, &b);
  assert_true(hs_ok(s));
  contains(&b, "…", true);
  hs_buf_free(&b);
}

static const char *const before =
                             "HloModule m\nENTRY e { x = f32[8] parameter(0) a = f32[8] negate(x) "
                             "gone = f32[8] abs(a) b = f32[8] add(gone, a) ROOT r = f32[8] "
                             "multiply(b, x) }\n",
                         *const after =
                             "HloModule m\nENTRY e { x = f32[8] parameter(0) a = f32[8] negate(x) "
                             "came = f32[8] tanh(a) b = f32[8] add(came, a) ROOT r = f32[8] "
                             "multiply(b, x) }\n";

static void draws_what_changed(void **state) {
  fixture *f = *state;
  hlo_module *other = NULL;
  hlo_module_free(f->m);
  hs_status s = load(f, before);
  if (hs_ok(s)) s = hlo_parse(f->ctx, after, strlen(after), NULL, &other);
  assert_true(hs_ok(s));
  hs_arena a = {0};
  hlo_graph_diff d;
  hlo_graph_diff_make(f->m, other, &a, &d);
  hs_buf b = {0};
  char *note;
  s = viz_diff_dot(&d, "@0", "@1", 0, &b, &note);
  assert_true(hs_ok(s));
  hs_buf_cstr(&b);
  assert_null(note);
  contains(&b, "<b>came</b>", true);
  contains(&b, "<b>gone</b>", true);
  contains(&b, "<b>a</b>", true);  // beside it
  contains(&b, "@0 to @1", true);
  const char *gone = strstr(b.p, "<b>gone</b>"), *came = strstr(b.p, "<b>came</b>");
  assert_true(strstr(gone, "#ffcdd2") && strstr(gone, "#ffcdd2") < strchr(gone, '\n'));
  assert_true(strstr(came, "#c8e6c9") && strstr(came, "#c8e6c9") < strchr(came, '\n'));
  b.n = 0;
  s = viz_diff_dot(&d, "@0", "@1", 1, &b, &note);
  assert_true(hs_ok(s));
  assert_non_null(strstr(note, "more differences"));
  hs_free(note);
  hs_buf_free(&b);
  hs_arena_free(&a);
  hlo_module_free(other);
}

// ---- width --------------------------------------------------------------------------------------
static hs_status draw_view(void *arg, const viz_limits *l, hs_buf *dot, char **note) {
  const fixture *f = arg;
  viz_options o = {.max_nodes = l->max_nodes, .max_fan = l->fan};
  return viz_dot(f->m, &o, dot, note);
}
static u32 width(const hs_buf *png) {
  const u8 *p = (const u8 *)png->p + 16;
  return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}
static void pictures_are_narrow(void **state) {
  if (!viz_have_graphviz()) SKIP_TEST("built without Graphviz");
  fixture *f = *state;
  hlo_module_free(f->m);
  f->m = hlo_module_new(f->ctx, "wide");
  hlo_computation *c = hlo_add_computation(f->m, "e");
  hlo_instr *x[120];
  for (u32 k = 0; k < HS_COUNT(x); k++)
    x[k] = hlo_add_parameter(c, k, hlo_shape_array(f->ctx, HLO_F32, 2, (i64[]){128, 128}), "p");
  hlo_set_root(c, hlo_add_tuple(c, HS_COUNT(x), x));
  hlo_set_entry(f->m, c);
  hs_buf b = {0};
  char *note;
  viz_picture_options o = {.format = "png", .max_width = 3000, .deadline_s = 20};
  hs_status s = viz_picture(draw_view, f, &o, &b, &note);
  assert_true(hs_ok(s));
  assert_true(width(&b) <= 3000);
  assert_non_null(strstr(note, "--wide"));
  hs_free(note);
  o.max_width = 0;
  s = viz_picture(draw_view, f, &o, &b, &note);
  assert_true(hs_ok(s));
  assert_null(note);
  assert_true(width(&b) > 9000);
  o.format = "svg", o.max_width = 1000;
  s = viz_picture(draw_view, f, &o, &b, &note);
  assert_true(hs_ok(s));
  assert_true(strtod(strstr(hs_buf_cstr(&b), "<svg width=\"") + 12, NULL) * 96 / 72 <= 1000);
  hs_free(note);
  o.format = "pdf";  // whose width is not read from it
  s = viz_picture(draw_view, f, &o, &b, &note);
  assert_true(hs_ok(s));
  assert_memory_equal(b.p, "%PDF", 4);
  assert_non_null(strstr(note, "--wide"));
  hs_free(note);
  hs_buf_free(&b);
}

// A computation that returns an element of a tuple, too large to be drawn whole: the picture goes
// on through the tuple, and says how much of it is drawn.
static void goes_through_tuples(void **state) {
  fixture *f = *state;
  hlo_module_free(f->m);
  f->m = hlo_module_new(f->ctx, "chain");
  hlo_computation *c = hlo_add_computation(f->m, "e");
  hlo_instr *x = hlo_add_parameter(c, 0, hlo_shape_array(f->ctx, HLO_F32, 1, (i64[]){8}), "p");
  for (u32 k = 0; k < 20; k++) x = hlo_add(c, HLO_NEGATE, x->shape, 1, &x, NULL);
  hlo_instr *tuple = hlo_add_tuple(c, 1, &x);
  hlo_set_root(c, hlo_add_gte(tuple, 0));
  hlo_set_entry(f->m, c);
  hs_buf b = {0};
  char *note;
  assert_true(hs_ok(viz_dot(f->m, &(viz_options){.max_nodes = 10}, &b, &note)));
  assert_non_null(strstr(hs_buf_cstr(&b), "negate"));
  assert_non_null(strstr(note, "e has 23 instructions: only 10 near the root are drawn"));
  hs_free(note);
  hs_buf_free(&b);
}

// ---- rendering ----------------------------------------------------------------------------------
static char *in_dir(const fixture *f, const char *name) { return hs_format("%s/%s", f->dir, name); }
static void fake_dot(const fixture *f, const char *script) {
  char *p = in_dir(f, "dot");
  FILE *o = fopen(p, "w");
  assert_non_null(o);
  fprintf(o, "#!/bin/sh\n%s\n", script);
  fclose(o);
  chmod(p, 0755);
  hs_free(p);
  char *path = hs_format("%s:/usr/bin:/bin", f->dir);
  setenv("PATH", path, 1);
  hs_free(path);
}
static void fails(hs_status s, hs_code code, const char *part) {
  assert_false(hs_ok(s));
  if (s.err->code != code || !strstr(s.err->message, part))
    print_error("got %s: %s\n", hs_code_text(s.err->code), s.err->message);
  assert_int_equal(s.err->code, code);
  assert_non_null(strstr(s.err->message, part));
  hs_status_drop(s);
}
static const char *const tiny = "digraph G { a -> b }\n";

static void renders(void **state) {
  fixture *f = *state;
  if (!viz_have_graphviz()) SKIP_TEST("built without Graphviz");
  static const char *const names[] = {"p.svg", "p.png", "p.dot"};
  for (size_t k = 0; k < HS_COUNT(names); k++) {
    char *p = in_dir(f, names[k]);
    hs_status s = viz_render(tiny, strlen(tiny), p, 20);
    if (s.err) print_error("%s\n", s.err->message);
    assert_true(hs_ok(s));
    struct stat st;
    assert_int_equal(stat(p, &st), 0);
    assert_true(st.st_size > 10);
    hs_free(p);
  }
  assert_int_equal(files_in(f->dir, false), HS_COUNT(names));
  char *p = in_dir(f, "p.what");
  fails(viz_render(tiny, strlen(tiny), p, 20), HS_E_USAGE, "must end in");
  hs_free(p);
}
static void reports_missing_graphviz(void **state) {
  fixture *f = *state;
  char *p = in_dir(f, "p.svg");
  setenv("PATH", f->dir, 1);
  assert_false(viz_have_graphviz());
  fails(viz_render(tiny, strlen(tiny), p, 20), HS_E_RENDER, "not installed");
  assert_int_equal(files_in(f->dir, false), 0);
  hs_free(p);
}
static void stops_a_hanging_graphviz(void **state) {
  fixture *f = *state;
  char *p = in_dir(f, "p.svg");
  fake_dot(f, "sleep 60 & sleep 60");
  u64 t = hs_now_ns();
  fails(viz_render(tiny, strlen(tiny), p, 0.3), HS_E_RENDER, "did not finish");
  assert_true((hs_now_ns() - t) / 1000000 < 5000);
  assert_int_equal(files_in(f->dir, false), 1);  // the fake dot itself
  hs_free(p);
}
static hs_interrupt interrupt;
static void stops_on_interrupt(void **state) {
  fixture *f = *state;
  char *p = in_dir(f, "p.svg");
  fake_dot(f, "sleep 60");
  hs_interrupt_watch(&interrupt);
  interrupt = 1;
  hs_status s = viz_render(tiny, strlen(tiny), p, 20);
  interrupt = 0;
  fails(s, HS_E_INTERRUPTED, "");
  assert_int_equal(files_in(f->dir, false), 1);
  hs_free(p);
}
static void reports_failing_graphviz(void **state) {
  fixture *f = *state;
  char *p = in_dir(f, "p.svg");
  fake_dot(f, "echo half a picture; echo 'Error: no such luck' >&2; exit 3");
  fails(viz_render(tiny, strlen(tiny), p, 20), HS_E_RENDER, "no such luck");
  fake_dot(f, "kill -SEGV $$");
  fails(viz_render(tiny, strlen(tiny), p, 20), HS_E_RENDER, "signal 11");
  fake_dot(f, "exit 0");
  fails(viz_render(tiny, strlen(tiny), p, 20), HS_E_RENDER, "wrote nothing");
  assert_int_equal(files_in(f->dir, false), 1);
  hs_free(p);
}
static void reports_a_full_disk(void **state) {
  fixture *f = *state;
  fails(viz_render(tiny, strlen(tiny), "/dev/full", 20), HS_E_IO, "No space left");
  fails(viz_render(tiny, strlen(tiny), "/nonexistent/folder/p.dot", 20), HS_E_IO, "No such file");
  if (mount("tmpfs", f->dir, "tmpfs", 0, "size=16k") != 0)
    SKIP_TEST("a full disk takes root to make");
  char *p = in_dir(f, "p.dot");
  size_t n = 1 << 20;
  char *big = hs_alloc(n);
  memset(big, ' ', n);
  hs_status s = viz_render(big, n, p, 20);
  u32 left = files_in(f->dir, true);
  umount(f->dir);
  hs_free(big);
  hs_free(p);
  fails(s, HS_E_IO, "No space left");
  assert_int_equal(left, 0);
}

// Numbers at the axes of a roofline are written out, from millions to millionths.
static void axes_without_exponents(void **state) {
  (void)state;
  const viz_roof roofs[] = {{"products", 2e15, 0}, {"memory", 0, 4e12}};
  const viz_roof_point points[] = {{"slow", 2e-4, 3e2, 0, 0.5}, {"fast", 900, 1e15, 0, 0.5}};
  const viz_roofline r = {"t", roofs, 2, points, 2};
  hs_buf b = {0};
  viz_roofline_text(&r, 60, 20, &b);
  assert_null(strstr(hs_buf_cstr(&b), "e+"));
  assert_null(strstr(hs_buf_cstr(&b), "e-"));
  assert_non_null(strstr(hs_buf_cstr(&b), "000 |"));
  b.n = 0;
  viz_roofline_svg(&r, &b);
  assert_null(strstr(hs_buf_cstr(&b), ">1e"));
  assert_non_null(strstr(hs_buf_cstr(&b), ">1000000<"));
  hs_buf_free(&b);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      T(draws_the_entry),          T(keeps_to_the_neighbourhood),
      T(limits_large_graphs),      T(escapes_hostile_names),
      T(cuts_names_in_the_middle), T(draws_what_changed),
      T(pictures_are_narrow),      T(goes_through_tuples),
      T(draws_in_the_terminal),    T(renders),
      T(reports_missing_graphviz), T(stops_a_hanging_graphviz),
      T(stops_on_interrupt),       T(reports_failing_graphviz),
      T(reports_a_full_disk),      cmocka_unit_test(axes_without_exponents)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
