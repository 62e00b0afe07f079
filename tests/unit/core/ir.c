// ir.c — the edit API and the journal: undo restores every list exactly, names are unique and
// freed by undo, clones are equal.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "core/ir/ir.h"
#include "core/text/text.h"
#include "tests/unit/fixture.h"
#include "tests/unit/skip.h"

static const char *const source =
    "HloModule m\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT add = f32[] add(a, b) }\n"
    "ENTRY e { x = f32[4,8] parameter(0) y = f32[4,8] parameter(1) s = f32[4,8] add(x, y) t = "
    "f32[4,8] multiply(s, s)\n"
    "  z = f32[] constant(0) ROOT r = f32[4] reduce(t, z), dimensions={1}, to_apply=add }\n";

static int setup(void **state) { return fixture_open(state, source); }

static char *text(const hlo_module *m) {
  hs_buf b = {0};
  hlo_print_options o = hlo_print_full();
  hlo_print_module(&b, m, &o);
  hs_buf_cstr(&b);
  return b.p;
}

// Walks every list both ways and counts: what the links say must agree with the counters.
static void check_links(const hlo_module *m) {
  hlo_for_each_comp(c, m) {
    u32 n = 0;
    hlo_for_each_instr(i, c) {
      n++;
      assert_true(!i->next || i->next->prev == i);
      u32 uses = 0;
      hlo_for_each_use(u, i) {
        uses++;
        assert_ptr_equal(u->def, i);
        assert_true(hlo_slot(u) < u->user->noperands);
        assert_false(u->user->dead);
      }
      assert_int_equal(uses, i->nuses);
    }
    assert_int_equal(n, c->ninstrs);
  }
}

static void undo_restores_text_and_order(void **state) {
  fixture *f = *state;
  char *before = text(f->m);
  hlo_instr *s = hlo_find_instr(f->m, "s"), *t = hlo_find_instr(f->m, "t"),
            *x = hlo_find_instr(f->m, "x");
  assert_non_null(s);
  hlo_instr *n = hlo_add(f->m->entry, HLO_NEGATE, s->shape, 1, &s, NULL);
  hlo_set_operand(t, 0, n);
  hlo_replace_uses(s, x);
  hlo_remove_dead(hlo_find_instr(f->m, "y"));  // a parameter is never removed
  hlo_set_attr_int(n, HLO_ATTR_INDEX, 3);
  hlo_set_name(t, "renamed");
  check_links(f->m);
  char *after = text(f->m);
  assert_string_not_equal(before, after);
  hlo_delta *d = hlo_commit(f->m);
  assert_non_null(d);
  for (int round = 0; round < 3; round++) {
    hlo_delta_undo(f->m, d);
    check_links(f->m);
    char *again = text(f->m);
    assert_string_equal(before, again);
    hs_free(again);
    hlo_delta_redo(f->m, d);
    check_links(f->m);
    again = text(f->m);
    assert_string_equal(after, again);
    hs_free(again);
  }
  hlo_delta_free(f->m, d);
  hs_free(before);
  hs_free(after);
}

static void rollback_to_mark(void **state) {
  fixture *f = *state;
  hlo_instr *s = hlo_find_instr(f->m, "s");
  hlo_add(f->m->entry, HLO_ABS, s->shape, 1, &s, NULL);
  size_t mark = hlo_journal_mark(f->m);
  u32 n = f->m->entry->ninstrs;
  hlo_instr *fresh = hlo_add(f->m->entry, HLO_ABS, s->shape, 1, &s, NULL);
  assert_string_equal(fresh->name, "abs.1");
  assert_true(hlo_changed_since(f->m, mark));
  hlo_journal_rollback(f->m, mark);
  assert_int_equal(f->m->entry->ninstrs, n);
  assert_null(hlo_find_instr(f->m, "abs.1"));
  fresh = hlo_add(f->m->entry, HLO_ABS, s->shape, 1, &s, NULL);
  assert_string_equal(fresh->name, "abs.1");  // the same pass run again gives the same names
  hlo_abort(f->m);
  check_links(f->m);
}

// What is written to the instruction added last needs no record of its own, and still comes back
// with it, and only with it.
static void fresh_fields(void **state) {
  fixture *f = *state;
  hlo_module *m = f->m;
  hlo_instr *s = hlo_find_instr(m, "s"), *x = hlo_find_instr(m, "x");
  char *before = text(m);
  hlo_instr *n = hlo_add(m->entry, HLO_ADD, s->shape, 2, (hlo_instr *[]){s, s}, NULL);
  hlo_set_attr_int(n, HLO_ATTR_INDEX, 1);
  hlo_set_operands(n, 1, &x);
  size_t second = hlo_journal_mark(m);
  hlo_set_attr_int(n, HLO_ATTR_INDEX, 2);
  check_links(m);
  char *after = text(m);
  hlo_journal_rollback(m, second);
  assert_int_equal(hlo_attr_int(n, HLO_ATTR_INDEX, 0), 1);
  hlo_set_attr_int(n, HLO_ATTR_INDEX, 2);
  hlo_delta *d = hlo_commit(m);
  for (int round = 0; round < 2; round++) {
    hlo_delta_undo(m, d);
    check_links(m);
    char *again = text(m);
    assert_string_equal(before, again);
    hs_free(again);
    hlo_delta_redo(m, d);
    check_links(m);
    again = text(m);
    assert_string_equal(after, again);
    hs_free(again);
  }
  hlo_delta_free(m, d);
  hs_free(before);
  hs_free(after);
}

static bool in_order(const hlo_computation *c) {
  hlo_for_each_instr(i, c)
    for (u32 k = 0; k < i->noperands; k++)
      for (const hlo_instr *x = i; x; x = x->next)
        if (x == hlo_operand(i, k)) return false;
  return true;
}

static void lists_are_put_in_order(void **state) {
  fixture *f = *state;
  hlo_computation *e = f->m->entry;
  hlo_instr *s = hlo_find_instr(f->m, "s"), *t = hlo_find_instr(f->m, "t");
  hlo_put_in_order(e);
  assert_false(e->unsorted);
  hlo_instr *a = hlo_add(e, HLO_NEGATE, s->shape, 1, &s, NULL),
            *b = hlo_add(e, HLO_ABS, s->shape, 1, &a, NULL);
  assert_false(e->unsorted);  // what is appended comes after what it needs
  hlo_set_operand(t, 0, b);
  assert_true(e->unsorted);
  assert_false(in_order(e));
  hlo_put_in_order(e);
  assert_true(in_order(e));
  check_links(f->m);
  hlo_abort(f->m);
  hlo_put_in_order(e);
  assert_true(in_order(e));
  hlo_set_ctrl_preds(s, 1, &t);
  assert_true(e->unsorted);
  hlo_abort(f->m);
}

static void keep_name(void *arg, hlo_instr *i) { hs_buf_printf(arg, "%s ", i->name); }

static void edits_are_told(void **state) {
  fixture *f = *state;
  hlo_instr *s = hlo_find_instr(f->m, "s"), *t = hlo_find_instr(f->m, "t");
  hlo_add(f->m->entry, HLO_NEGATE, s->shape, 1, &s, "early");
  size_t mark = hlo_journal_mark(f->m);
  hs_buf b = {0};
  hlo_edited_since(f->m, mark, keep_name, &b);
  assert_int_equal(b.n, 0);
  hlo_set_name(t, "named");
  hlo_edited_since(f->m, mark, keep_name, &b);
  assert_int_equal(b.n, 0);  // a name is not what passes look at
  hlo_instr *late = hlo_add(f->m->entry, HLO_ABS, s->shape, 1, &s, "late");
  hlo_set_operand(t, 0, late);
  hlo_set_shape(t, hlo_shape_scalar(f->ctx, HLO_F64));
  hlo_edited_since(f->m, mark, keep_name, &b);
  assert_string_equal(hs_buf_cstr(&b), "late s named late named ");
  hs_buf_free(&b);
  hlo_abort(f->m);
}

static void branches_of_parameters(void **state) {
  fixture *f = *state;
  const hlo_shape *s = hlo_shape_scalar(f->ctx, HLO_F32);
  hlo_instr *a = hlo_add_parameter(f->m->entry, 2, s, "a");
  hlo_delta *one = hlo_commit(f->m);
  hlo_instr *b = hlo_add_parameter(f->m->entry, 3, s, "b");
  hlo_delta *two = hlo_commit(f->m);
  hlo_delta_undo(f->m, two);
  hlo_instr *c = hlo_add_parameter(f->m->entry, 3, s, "c");
  hlo_delta *three = hlo_commit(f->m);
  assert_ptr_equal(f->m->entry->params[3], c);
  hlo_delta_undo(f->m, three);
  hlo_delta_redo(f->m, two);
  assert_ptr_equal(f->m->entry->params[3], b);
  assert_ptr_equal(f->m->entry->params[2], a);
  hlo_delta_free(f->m, one);
  hlo_delta_free(f->m, two);
  hlo_delta_free(f->m, three);
}

static void clone_prints_the_same(void **state) {
  fixture *f = *state;
  hlo_module *copy = hlo_module_clone(f->m, NULL);
  char *a = text(f->m), *b = text(copy);
  assert_string_equal(a, b);
  assert_true(hlo_fingerprint(f->m) == hlo_fingerprint(copy));
  check_links(copy);
  hs_free(a);
  hs_free(b);
  hlo_module_free(copy);
}

static void fingerprint_sees_structure_not_names(void **state) {
  fixture *f = *state;
  u64 before = hlo_fingerprint(f->m);
  hlo_set_name(hlo_find_instr(f->m, "t"), "other");
  assert_true(before == hlo_fingerprint(f->m));
  hlo_set_operand(hlo_find_instr(f->m, "other"), 1, hlo_find_instr(f->m, "x"));
  assert_false(before == hlo_fingerprint(f->m));
}

static void provenance_unites(void **state) {
  fixture *f = *state;
  hlo_mark_sources(f->m);
  hlo_instr *s = hlo_find_instr(f->m, "s"), *t = hlo_find_instr(f->m, "t");
  u32 ids[2] = {s->id, t->id};
  hlo_instr *n = hlo_add(f->m->entry, HLO_NEGATE, s->shape, 1, &s, NULL);
  hlo_add_provenance(n, s);
  hlo_replace(t, n);
  hs_arena a = {0};
  hlo_ints o = hlo_origins_collect(n, HLO_MOST_ORIGINS, &a);
  assert_int_equal(o.n, 2);
  assert_int_equal(o.v[0], HS_MIN(ids[0], ids[1]));
  assert_int_equal(o.v[1], HS_MAX(ids[0], ids[1]));
  assert_int_equal(hlo_origins_collect(n, 1, &a).n, 1);
  assert_true(hlo_stems_from(n, ids[0]) && hlo_stems_from(n, ids[1]));
  assert_false(hlo_stems_from(n, n->id));
  assert_true(hlo_stems_from(s, s->id));
  hs_arena_free(&a);
}

// ---- what a version costs -----------------------------------------------------------------------
static hlo_module *chain(hlo_ctx *ctx, u32 n) {
  hlo_module *m = hlo_module_new(ctx, "chain");
  hlo_computation *c = hlo_add_computation(m, "main");
  const hlo_shape *s = hlo_shape_array(ctx, HLO_F32, 1, (const i64[]){16});
  hlo_instr *last = hlo_add_parameter(c, 0, s, "x");
  for (u32 k = 1; k < n; k++) last = hlo_add(c, HLO_NEGATE, s, 1, &last, NULL);
  hlo_set_root(c, last);
  hlo_set_entry(m, c);
  hlo_delta_free(m, hlo_commit(m));
  return m;
}

static int by_value(const void *a, const void *b) {
  u64 x = *(const u64 *)a, y = *(const u64 *)b;
  return (x > y) - (x < y);
}

// Median nanoseconds of a new instruction taking over a use, the version made of that, and going
// back.
static u64 version_ns(hlo_module *m) {
  enum { TIMES = 401 };
  static u64 ns[TIMES];
  hlo_computation *c = m->entry;
  hlo_instr *x = c->params[0], *user = x->next->next;
  for (u32 k = 0; k < TIMES; k++) {
    u64 start = hs_now_ns();
    hlo_instr *fresh = hlo_add(c, HLO_ABS, x->shape, 1, &x, NULL);
    hlo_set_operand(user, 0, fresh);
    hlo_delta *d = hlo_commit(m);
    ns[k] = hs_now_ns() - start;
    assert_non_null(d);
    assert_true(hlo_delta_bytes(d) < 1000);
    hlo_delta_undo(m, d);
    hlo_delta_free(m, d);
  }
  qsort(ns, TIMES, sizeof *ns, by_value);
  return ns[TIMES / 2];
}

static void version_costs_what_was_edited(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  for (u32 n = 100; n <= 100000; n *= 1000) {
    hlo_module *m = chain(ctx, n);
    u64 ns = version_ns(m);
    print_message("a version of %u instructions after one edit: %.2f us\n", n, (double)ns * 1e-3);
    assert_true(ns <= 20000);
    assert_int_equal(hlo_instr_count(m), n);
    hlo_module_free(m);
  }
  hlo_ctx_free(ctx);
}

// Ten edits at n places.
static hlo_delta *edit_some(hlo_module *m, u32 seed) {
  hlo_computation *c = m->entry;
  hlo_instr *x = c->params[0], *at = x->next->next;
  for (u32 k = 0; k < seed % 97; k++) at = at->next;
  for (u32 k = 0; k < 10; k++, at = at->next)
    hlo_set_operand(at, 0, hlo_add(c, HLO_ABS, x->shape, 1, &x, NULL));
  return hlo_commit(m);
}

static void a_thousand_versions(void **state) {
  (void)state;
  enum { VERSIONS = 1000 };
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = chain(ctx, 5000);
  u64 text = hlo_text_hash(m);
  size_t before = hs_arena_bytes(&m->arena), deltas = 0;
  static hlo_delta *d[VERSIONS];
  for (u32 k = 0; k < VERSIONS; k++) deltas += hlo_delta_bytes(d[k] = edit_some(m, k));
  u64 last = hlo_text_hash(m);
  size_t bytes = hs_arena_bytes(&m->arena) - before + deltas;
  print_message("1000 versions of ten edits of 5000 instructions: %.1f MB\n", (double)bytes * 1e-6);
  assert_true(bytes < 100 << 20);
  for (u32 k = VERSIONS; k-- > 0;) hlo_delta_undo(m, d[k]);
  assert_int_equal(hlo_text_hash(m), text);
  for (u32 k = 0; k < VERSIONS; k++) hlo_delta_redo(m, d[k]);
  assert_int_equal(hlo_text_hash(m), last);
  for (u32 k = VERSIONS; k-- > 0;) hlo_delta_undo(m, d[k]), hlo_delta_free(m, d[k]);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// Undoes and redoes the version five times, then undoes it: the best of each takes at most `ns`.
static void undone_within(const char *what, hlo_module *m, hlo_delta *d, u64 ns) {
  u64 undo = UINT64_MAX, redo = UINT64_MAX;
  for (u32 k = 0; k < 5; k++) {
    u64 start = hs_now_ns();
    hlo_delta_undo(m, d);
    u64 between = hs_now_ns();
    hlo_delta_redo(m, d);
    undo = HS_MIN(undo, between - start);
    redo = HS_MIN(redo, hs_now_ns() - between);
  }
  print_message("of %s: undo %.2f ms, redo %.2f ms\n", what, (double)undo * 1e-6,
                (double)redo * 1e-6);
  assert_true(undo <= ns && redo <= ns);
  hlo_delta_undo(m, d);
}

// The worst version: every instruction of 100,000 was edited.
static void undo_is_quick(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = chain(ctx, 100000);
  const hlo_shape *s = hlo_shape_array(ctx, HLO_F32, 1, (const i64[]){17});
  hlo_for_each_instr(i, m->entry) hlo_set_shape(i, s);
  hlo_delta *d = hlo_commit(m);
  undone_within("100000 edits", m, d, 10000000);
  hlo_delta_free(m, d);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// A version that holds a whole pass: every instruction of 100,000 was replaced by a new one.
static void undo_of_a_pass_is_quick(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = chain(ctx, 100000);
  u64 text = hlo_text_hash(m);
  hlo_instr **old = hs_alloc(m->entry->ninstrs * sizeof *old);
  u32 n = 0;
  hlo_for_each_instr(i, m->entry)
    if (i->opcode != HLO_PARAMETER) old[n++] = i;
  for (u32 k = 0; k < n; k++) {
    hlo_instr *ops[] = {hlo_operand(old[k], 0), hlo_operand(old[k], old[k]->noperands - 1)};
    hlo_instr *now = hlo_add(m->entry, HLO_MULTIPLY, old[k]->shape, 2, ops, NULL);
    hlo_replace(old[k], now);
  }
  hlo_put_in_order(m->entry);
  hs_free(old);
  hlo_delta *d = hlo_commit(m);
  undone_within("a pass over 100000 instructions", m, d, 30000000);
  assert_true(hlo_text_hash(m) == text);
  check_links(m);
  hlo_delta_free(m, d);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// ---- counters -----------------------------------------------------------------------------------
static void check_counts(const hlo_module *m) {
  u32 nops[HLO_OPCODE_COUNT] = {0};
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) nops[i->opcode]++;
  assert_memory_equal(m->nops, nops, sizeof nops);
  hlo_for_each_comp(c, m) {
    u32 n = 0;
    hlo_for_each_comp(d, m)
      hlo_for_each_instr(i, d)
        n += i->opcode == HLO_FUSION && hlo_attr_comp(i, HLO_ATTR_CALLS) == c;
    assert_int_equal(c->nfusion_callers, n);
    assert_int_equal(hlo_is_fusion_comp(c), n > 0);
  }
}

// Fusions are made, copied, pointed elsewhere, removed and buried with their computation, and all
// that is undone.
static void counts_follow_the_edits(void **state) {
  fixture *f = *state;
  hlo_module *m = f->m;
  hlo_mark_sources(m);
  hlo_instr *x = m->entry->params[0];
  hlo_computation *body = hlo_add_computation(m, "body"), *other = hlo_add_computation(m, "other"),
                  *holder = hlo_add_computation(m, "holder");
  hlo_set_root(body, hlo_add_parameter(body, 0, x->shape, "p"));
  hlo_set_root(other, hlo_add_parameter(other, 0, x->shape, "p"));
  hlo_instr *p = hlo_add_parameter(holder, 0, x->shape, "p");
  hlo_delta *made = hlo_commit(m);
  check_counts(m);
  hlo_instr *a = hlo_add_call(m->entry, HLO_FUSION, x->shape, HLO_ATTR_CALLS, body, 1, &x);
  hlo_instr *b = hlo_clone_instr(m->entry, a, NULL, 1, &x);
  hlo_set_root(holder, hlo_add_call(holder, HLO_FUSION, x->shape, HLO_ATTR_CALLS, body, 1, &p));
  assert_int_equal(body->nfusion_callers, 3);
  check_counts(m);
  size_t mark = hlo_journal_mark(m);
  hlo_set_attr_comp(b, HLO_ATTR_CALLS, other);
  hlo_remove(a);
  hlo_remove_computation(holder);
  assert_int_equal(body->nfusion_callers, 0);
  check_counts(m);
  hlo_journal_rollback(m, mark);
  assert_int_equal(body->nfusion_callers, 3);
  check_counts(m);
  hlo_delta *d = hlo_commit(m);
  hlo_delta_undo(m, d);
  assert_false(hlo_is_fusion_comp(body));
  check_counts(m);
  hlo_delta_redo(m, d);
  check_counts(m);
  hlo_module *copy = hlo_module_clone(m, NULL);
  check_counts(copy);
  hlo_module_free(copy);
  hlo_delta_free(m, d);
  hlo_delta_free(m, made);
}

// Whether ids lie close together or far apart, each instruction gets its number and others get
// none.
static void numbers_by_id(void **state) {
  fixture *f = *state;
  hlo_computation *e = f->m->entry, *elsewhere = hlo_add_computation(f->m, "elsewhere");
  hs_arena a = {0};
  for (u32 round = 0; round < 12; round++) {
    hlo_instr **order = hlo_post_order(e, &a);
    hlo_positions n = hlo_positions_in(e->ninstrs, order, &a);
    for (u32 k = 0; k < e->ninstrs; k++) {
      assert_int_equal(hlo_position_of(&n, order[k]), k);
      for (u32 o = 0; o < order[k]->noperands; o++)
        assert_true(hlo_position_of(&n, hlo_operand(order[k], o)) < k);
    }
    hlo_for_each_comp(c, f->m)
      if (c != e)
        hlo_for_each_instr(i, c) assert_int_equal(hlo_position_of(&n, i), UINT32_MAX);
    hlo_add(e, HLO_NEGATE, e->params[0]->shape, 1, &e->params[0], NULL);
    for (u32 k = 0; k < 10u << round; k++)
      hlo_add_parameter(elsewhere, elsewhere->nparams, e->params[0]->shape, NULL);
  }
  hs_arena_free(&a);
}

// A whole list in another order is one record; small versions and large ones, undone and redone.
static void reordering_is_undone(void **state) {
  fixture *f = *state;
  hlo_computation *e = f->m->entry;
  hlo_instr *x = e->params[0], *y = e->params[1], *order[16];
  char *before = text(f->m);
  hlo_delta *d[3];
  for (u32 round = 0; round < 3; round++) {
    u32 n = 0;
    order[n++] = round % 2 ? x : y;
    order[n++] = round % 2 ? y : x;
    hlo_for_each_instr(i, e)
      if (i != x && i != y) order[n++] = i;
    hlo_reorder(e, order);
    check_links(f->m);
    assert_ptr_equal(e->first, order[0]);
    d[round] = hlo_commit(f->m);
    hlo_reorder(e, order);
    assert_null(hlo_commit(f->m));  // nothing moved
  }
  char *after = text(f->m);
  for (u32 times = 0; times < 2; times++) {
    for (u32 round = 3; round-- > 0;) hlo_delta_undo(f->m, d[round]), check_links(f->m);
    char *now = text(f->m);
    assert_string_equal(now, before);
    hs_free(now);
    for (u32 round = 0; round < 3; round++) hlo_delta_redo(f->m, d[round]), check_links(f->m);
    now = text(f->m);
    assert_string_equal(now, after);
    hs_free(now);
  }
  for (u32 round = 0; round < 3; round++) hlo_delta_free(f->m, d[round]);
  hs_free(before);
  hs_free(after);
}

// 240 computations, each calling the previous one twice: 2^240 paths, and one visit of each. The
// deepest decides.
static void effects_of_shared_calls(void **state) {
  enum { DEPTH = 240 };
  fixture *f = *state;
  const hlo_shape *shape = f->m->entry->params[0]->shape;
  hlo_computation *deepest = NULL, *below = NULL;
  hlo_instr *call = NULL;
  for (u32 k = 0; k < DEPTH; k++) {
    hlo_computation *c = hlo_add_computation(f->m, "level");
    hlo_instr *p = hlo_add_parameter(c, 0, shape, NULL);
    for (u32 twice = 0; below && twice < 2; twice++)
      p = call = hlo_add_call(c, HLO_CALL, shape, HLO_ATTR_TO_APPLY, below, 1, &p);
    hlo_set_root(c, p);
    if (!below) deepest = c;
    below = c;
  }
  for (u32 effect = 0; effect < 2; effect++) {
    u64 least = UINT64_MAX;
    for (u32 round = 0; round < 5; round++) {
      u64 start = hs_now_ns();
      assert_int_equal(hlo_has_side_effect(call), effect);
      least = HS_MIN(least, hs_now_ns() - start);
    }
    assert_true(least < 1000000);
    hlo_instr *c = hlo_add(deepest, HLO_CUSTOM_CALL, shape, 0, NULL, NULL);
    hlo_set_attr_int(c, HLO_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, 1);
  }
}

// ---- overruns -----------------------------------------------------------------------------------
#if HS_ARENA_GAP
typedef void overrun(fixture *);

static void into_the_next_instruction(fixture *f) {
  volatile hlo_instr *behind = f->m->entry->first + 1;
  behind->opcode = HLO_ADD;
}
static void into_the_next_operands(fixture *f) {
  hlo_instr *i = f->m->entry->root;
  volatile hlo_use *behind = i->operands + i->noperands;
  behind->def = NULL;
}
static void behind_a_large_allocation(fixture *f) {
  enum { N = 1 << 20 };
  hs_arena_alloc(&f->m->arena, 1);
  volatile char *p = hs_arena_alloc(&f->m->arena, N);
  p[N] = 1;
}

// In a child process: AddressSanitizer ends it with a report on stderr.
static void reported(fixture *f, overrun *write_behind) {
  int fd[2];
  assert_int_equal(pipe(fd), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(fd[1], STDERR_FILENO);
    write_behind(f);
    _exit(0);
  }
  close(fd[1]);
  hs_buf report = {0};
  char part[4096];
  for (ssize_t n; (n = read(fd[0], part, sizeof part)) > 0;) hs_buf_put(&report, part, (size_t)n);
  close(fd[0]);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_non_null(strstr(hs_buf_cstr(&report), "AddressSanitizer"));
  hs_buf_free(&report);
}
#endif

// Objects lie next to each other in an arena; under AddressSanitizer what lies between must not be
// touched.
static void overruns_are_reported(void **state) {
#if HS_ARENA_GAP
  reported(*state, into_the_next_instruction);
  reported(*state, into_the_next_operands);
  reported(*state, behind_a_large_allocation);
#else
  (void)state;
  SKIP_TEST("no AddressSanitizer in this build");
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(version_costs_what_was_edited),
      cmocka_unit_test(a_thousand_versions),
      cmocka_unit_test(undo_is_quick),
      cmocka_unit_test(undo_of_a_pass_is_quick),
      cmocka_unit_test_setup_teardown(undo_restores_text_and_order, setup, fixture_close),
      cmocka_unit_test_setup_teardown(rollback_to_mark, setup, fixture_close),
      cmocka_unit_test_setup_teardown(fresh_fields, setup, fixture_close),
      cmocka_unit_test_setup_teardown(lists_are_put_in_order, setup, fixture_close),
      cmocka_unit_test_setup_teardown(edits_are_told, setup, fixture_close),
      cmocka_unit_test_setup_teardown(branches_of_parameters, setup, fixture_close),
      cmocka_unit_test_setup_teardown(clone_prints_the_same, setup, fixture_close),
      cmocka_unit_test_setup_teardown(fingerprint_sees_structure_not_names, setup, fixture_close),
      cmocka_unit_test_setup_teardown(provenance_unites, setup, fixture_close),
      cmocka_unit_test_setup_teardown(counts_follow_the_edits, setup, fixture_close),
      cmocka_unit_test_setup_teardown(numbers_by_id, setup, fixture_close),
      cmocka_unit_test_setup_teardown(reordering_is_undone, setup, fixture_close),
      cmocka_unit_test_setup_teardown(overruns_are_reported, setup, fixture_close),
      cmocka_unit_test_setup_teardown(effects_of_shared_calls, setup, fixture_close),
  };
  return cmocka_run_group_tests_name("ir", tests, NULL, NULL);
}
