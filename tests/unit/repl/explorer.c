// explorer.c — the explorer's page and what it is made of: names of strangers do no harm, the
// same module gives the same bytes, scopes and parts become groups of a size that can be looked at,
// versions share what is the same, and neither a missing Graphviz nor Ctrl-C breaks anything.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "core/text/text.h"
#include "tests/unit/skip.h"
#include "viz/explore_model.h"
#include "viz/viz.h"

typedef struct fixture {
  hlo_ctx *ctx;
  hlo_module *m;
  char *path;
} fixture;
static int setup(void **state) {
  fixture *f = hs_calloc(1, sizeof *f);
  f->ctx = hlo_ctx_new();
  f->path = hs_strdup(getenv("PATH"));
  *state = f;
  return 0;
}
static int teardown(void **state) {
  fixture *f = *state;
  setenv("PATH", f->path, 1);
  hlo_module_free(f->m);
  hlo_ctx_free(f->ctx);
  hs_free(f->path);
  hs_free(f);
  return 0;
}
static void good(hs_status s) {
  if (s.err) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
}
static void load(fixture *f, const char *text) {
  hlo_module_free(f->m);
  good(hlo_parse(f->ctx, text, strlen(text), NULL, &f->m));
}
static const viz_version first = {.label = "load", .current = true};
static void page_of(fixture *f, hs_buf *page, char **note) {
  viz_explorer *x = viz_explorer_new(f->m->name, NULL, NULL, NULL);
  good(viz_explorer_add(x, f->m, &first));
  good(viz_explorer_page(x, 60, page, note));
  hs_buf_cstr(page);
  viz_explorer_free(x);
}
static u32 count(const char *text, const char *part) {
  u32 n = 0;
  for (const char *p = text; (p = strstr(p, part)); p++) n++;
  return n;
}

// A chain of `n` instructions, in scopes of `each`; each == 0: without op_name.
static void make_chain(fixture *f, u32 n, u32 each) {
  hlo_module_free(f->m);
  f->m = hlo_module_new(f->ctx, "chain");
  hlo_computation *c = hlo_add_computation(f->m, "e");
  const hlo_shape *s = hlo_shape_array(f->ctx, HLO_F32, 1, (i64[]){8});
  hlo_instr *last = hlo_add_parameter(c, 0, s, "x");
  for (u32 k = 0; k < n; k++) {
    last = hlo_add(c, HLO_NEGATE, s, 1, &last, NULL);
    if (!each) continue;
    char *name = hs_format("jit(f)/layer_%u/neg", k / each);
    hlo_metadata *md = HS_NEW(&f->m->arena, hlo_metadata);
    md->op_name = (hs_str){hs_arena_strndup(&f->m->arena, name, strlen(name)), strlen(name)};
    hlo_set_attr_ptr(last, HLO_ATTR_METADATA, md);
    hs_free(name);
  }
  hlo_set_root(c, last);
  hlo_set_entry(f->m, c);
}

static void hostile_names_are_data(void **state) {
  fixture *f = *state;
  f->m = hlo_module_new(f->ctx, "</title></script><script>alert(1)</script>");
  hlo_computation *c = hlo_add_computation(f->m, "\"}]}</script><img src=x onerror=alert(2)>");
  hlo_instr *i = hlo_add(c, HLO_CUSTOM_CALL, hlo_shape_scalar(f->ctx, HLO_F32), 0, NULL,
                         "a\xe2\x80\xae</script>\xff\x01'`${alert(3)}");
  hlo_set_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET, HS_STR("<!--<script>&\"\\\n\xe2\x80\xa8"));
  hlo_set_root(c, i);
  hlo_set_entry(f->m, c);
  hs_buf page = {0};
  page_of(f, &page, NULL);
  assert_int_equal(count(page.p, "</script>"), 2);  // of the data and of the program
  assert_int_equal(count(page.p, "<img"), 0);
  assert_int_equal(count(page.p, "<!--"), 0);
  assert_int_equal(count(page.p, "\xe2\x80\xae"), 0);  // right-to-left override
  assert_int_equal(count(page.p, "\xe2\x80\xa8"), 0);  // line separator
  assert_non_null(strstr(page.p, "\\\\u202e\\u003c/script\\u003e"));
  assert_non_null(strstr(page.p, "<title>&lt;/title&gt;"));
  for (size_t k = 0; k < page.n; k++) assert_true((u8)page.p[k] >= 32 || page.p[k] == '\n');
  page.n = 0;
  good(viz_model_explorer(f->m, &page));
  hs_buf_cstr(&page);
  assert_int_equal(count(page.p, "<"), 0);
  assert_int_equal(count(page.p, "\xff"), 0);
  hs_buf_free(&page);
}

static void is_deterministic(void **state) {
  fixture *f = *state;
  make_chain(f, 300, 30);
  hs_buf a = {0}, b = {0};
  page_of(f, &a, NULL);
  page_of(f, &b, NULL);
  assert_int_equal(a.n, b.n);
  assert_memory_equal(a.p, b.p, a.n);
  assert_int_equal(count(a.p, "://"), 1);  // the name of SVG, which nobody fetches
  assert_non_null(strstr(a.p, "xmlns=\"http://www.w3.org/2000/svg\""));
  hs_buf_free(&a), hs_buf_free(&b);
}

// ---- groups -------------------------------------------------------------------------------------
static const u32 *group_at(const viz_explorer *x, u32 g) { return viz_intern_get(&x->groups, g); }
static u32 groups_of_kind(const viz_explorer *x, viz_group_kind kind) {
  u32 n = 0;
  for (u32 g = 0; g < viz_intern_count(&x->groups); g++) n += group_at(x, g)[0] == kind;
  return n;
}
static viz_explorer *added(fixture *f) {
  viz_explorer *x = viz_explorer_new("m", NULL, NULL, NULL);
  good(viz_explorer_add(x, f->m, &first));
  return x;
}

static void scopes_become_groups(void **state) {
  fixture *f = *state;
  make_chain(f, 120, 30);
  viz_explorer *x = added(f);
  assert_int_equal(groups_of_kind(x, VIZ_GROUP_SCOPE), 4);
  const u32 *top = group_at(x, x->steps.v[0].groups.v[1]);
  assert_int_equal(top[0], VIZ_GROUP_COMPUTATION);
  assert_int_equal(top[2], 121);  // instructions
  assert_int_equal(top[4], 5);    // children: the parameter and the layers
  const u32 *layer = group_at(x, top[6] & ~VIZ_GROUP_BIT);
  assert_string_equal(viz_intern_get(&x->strings, layer[1]), "jit(f)/layer_0");
  assert_int_equal(layer[2], 30);
  // equal layers have one layout
  assert_int_equal(layer[3], group_at(x, top[7] & ~VIZ_GROUP_BIT)[3]);
  viz_explorer_free(x);
}

// The same scope name in two places that are not connected is two groups.
static void scopes_are_connected(void **state) {
  fixture *f = *state;
  make_chain(f, 120, 30);
  for (hlo_instr *i = f->m->entry->first; i; i = i->next) {
    const hlo_metadata *md = hlo_metadata_of(i);
    if (!md || !strstr(md->op_name.p, "layer_2")) continue;
    hlo_metadata *other = HS_NEW(&f->m->arena, hlo_metadata);
    other->op_name = HS_STR("jit(f)/layer_0/neg");
    hlo_set_attr_ptr(i, HLO_ATTR_METADATA, other);
  }
  viz_explorer *x = added(f);
  assert_int_equal(groups_of_kind(x, VIZ_GROUP_SCOPE), 4);
  viz_explorer_free(x);
}

static void much_is_cut_into_parts(void **state) {
  fixture *f = *state;
  make_chain(f, 100000, 0);
  u64 t = hs_now_ns();
  viz_explorer *x = added(f);
  assert_true((hs_now_ns() - t) / 1000000 < 30000);
  u32 largest = 0;
  for (u32 g = 0; g < viz_intern_count(&x->groups); g++)
    largest = HS_MAX(largest, group_at(x, g)[4]);
  assert_true(largest <= 80);
  assert_true(groups_of_kind(x, VIZ_GROUP_PART) > 1000);
  viz_explorer_free(x);
}

static void nothing_fans_out(void **state) {
  fixture *f = *state;
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule fan\nENTRY e {\n");
  for (u32 k = 0; k < 40; k++) hs_buf_printf(&b, "p%u = f32[8] parameter(%u)\n", k, k);
  hs_buf_puts(&b, "c = f32[] constant(2)\nd = f32[8] broadcast(c), dimensions={}\n"
                  "s = f32[8] sine(p0)\n");
  for (u32 k = 0; k < 40; k++) hs_buf_printf(&b, "m%u = f32[8] multiply(s, d)\n", k);
  hs_buf_puts(&b, "ROOT t = (f32[8]");
  for (u32 k = 1; k < 40; k++) hs_buf_puts(&b, ", f32[8]");
  hs_buf_puts(&b, ") tuple(m0");
  for (u32 k = 1; k < 40; k++) hs_buf_printf(&b, ", m%u", k);
  hs_buf_puts(&b, ")\n}\n");
  load(f, hs_buf_cstr(&b));
  hs_buf_free(&b);
  viz_explorer *x = added(f);
  const u32 *top = group_at(x, x->steps.v[0].groups.v[1]);
  assert_int_equal(groups_of_kind(x, VIZ_GROUP_PARAMETERS), 1);
  assert_int_equal(top[4], 43);  // the parameters' group, s, m0 ... m39, t: no constant
  const u32 *hubs = top + 5 + top[4];
  assert_int_equal(hubs[0], 2);  // s and t
  const u32 *spec = viz_intern_get(&x->specs, top[3]);
  assert_int_equal(spec[1 + 2 * spec[0]], 0);  // no edges: all of them are hubs'
  viz_explorer_free(x);
}

// ---- versions -----------------------------------------------------------------------------------
static void versions_share_what_is_the_same(void **state) {
  fixture *f = *state;
  make_chain(f, 600, 30);
  viz_explorer *x = added(f);
  size_t records = x->records.n, groups = viz_intern_count(&x->groups);
  hlo_instr *middle = f->m->entry->first;
  for (u32 k = 0; k < 310; k++) middle = middle->next;
  hlo_instr *now = hlo_add(f->m->entry, HLO_COSH, middle->shape, 1,
                           (hlo_instr *[]){hlo_operand(middle, 0)}, NULL);
  hlo_replace(middle, now);
  good(viz_explorer_add(x, f->m, &(viz_version){.number = 1, .label = "edit"}));
  assert_true(x->records.n - records <= 3);  // the new one and its user
  assert_true(viz_intern_count(&x->groups) - groups <= 3);
  const viz_step *s = &x->steps.v[1];
  assert_true(s->added.n + s->changed.n >= 1 && s->added.n + s->changed.n <= 3);
  assert_int_equal(s->groups.n, 2);
  viz_explorer_free(x);
}

// ---- layouts ------------------------------------------------------------------------------------
// No two boxes of a group touch, and every edge begins and ends at its boxes.
static void check_layouts(viz_explorer *x, u32 *notes) {
  hs_arena a = {0};
  viz_layout *l;
  char *note = NULL;
  good(viz_layouts_make(x, 60, &a, &l, &note));
  *notes = note != NULL;
  hs_free(note);
  for (u32 k = 0; k < viz_intern_count(&x->specs); k++) {
    const u32 *spec = viz_intern_get(&x->specs, k), *e = spec + 2 + 2 * spec[0];
    assert_int_equal(l[k].n, spec[0]);
    for (u32 i = 0; i < l[k].n; i++) {
      const i32 *p = l[k].boxes + 4 * i;
      assert_true(p[0] >= 0 && p[1] >= 0 && p[0] + p[2] <= (i32)l[k].w + 1 &&
                  p[1] + p[3] <= (i32)l[k].h + 1);
      for (u32 j = 0; j < i; j++) {
        const i32 *q = l[k].boxes + 4 * j;
        assert_true(p[0] + p[2] <= q[0] || q[0] + q[2] <= p[0] || p[1] + p[3] <= q[1] ||
                    q[1] + q[3] <= p[1]);
      }
    }
    const i32 *q = l[k].edges;
    for (u32 j = 0; j < spec[1 + 2 * spec[0]]; j++, q += 1 + 2 * q[0]) {
      const i32 *from = l[k].boxes + 4 * e[3 * j];
      assert_true(q[0] >= 4 && (q[0] - 1) % 3 == 0);
      assert_true(q[1] >= from[0] - 4 && q[1] <= from[0] + from[2] + 4);
      assert_true(q[2] >= from[1] - 4 && q[2] <= from[1] + from[3] + 4);
    }
  }
  hs_arena_free(&a);
}

static const char *const diamond =
    "HloModule d\nENTRY e { x = f32[8] parameter(0) a = f32[8] sine(x) b = f32[8] cosine(x)\n"
    "c = f32[8] add(a, b) d = f32[8] multiply(c, x) alone = f32[8] iota(), iota_dimension=0\n"
    "ROOT t = (f32[8], f32[8]) tuple(d, a), control-predecessors={b} }\n";

static void graphviz_lays_out(void **state) {
  if (!viz_have_graphviz()) SKIP_TEST("built without Graphviz");
  fixture *f = *state;
  u32 noted;
  load(f, diamond);
  viz_explorer *x = added(f);
  check_layouts(x, &noted);
  assert_false(noted);
  viz_explorer_free(x);
}
static void lays_out_without_graphviz(void **state) {
  fixture *f = *state;
  u32 noted;
  setenv("PATH", "/nonexistent", 1);
  load(f, diamond);
  viz_explorer *x = added(f);
  check_layouts(x, &noted);
  assert_true(noted);
  viz_explorer_free(x);
}

static hs_interrupt interrupt;
static void stops_on_interrupt(void **state) {
  fixture *f = *state;
  make_chain(f, 2000, 20);
  viz_explorer *x = added(f);
  hs_buf page = {0};
  hs_interrupt_watch(&interrupt);
  interrupt = 1;
  hs_status s = viz_explorer_page(x, 60, &page, NULL);
  interrupt = 0;
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_INTERRUPTED);
  hs_status_drop(s);
  hs_buf_free(&page);
  viz_explorer_free(x);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {T(hostile_names_are_data),
                                     T(is_deterministic),
                                     T(scopes_become_groups),
                                     T(scopes_are_connected),
                                     T(much_is_cut_into_parts),
                                     T(nothing_fans_out),
                                     T(versions_share_what_is_the_same),
                                     T(graphviz_lays_out),
                                     T(lays_out_without_graphviz),
                                     T(stops_on_interrupt)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
