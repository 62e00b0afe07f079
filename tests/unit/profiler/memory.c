// memory.c — plans of memory: the model's buffers, live ranges and offsets, the chart, the heap
// simulation, and XLA's reports: real ones, and what a stranger may send instead.
#include <stdio.h>

#include "profiler/memory.h"
#include "core/analysis/heap.h"
#include "core/analysis/live.h"
#include "profiler/xla_report.h"
#include "tests/unit/modules.h"

#define ENTRY(body) "HloModule m, is_scheduled=true\nENTRY e {\n" body "\n}\n"

static const prof_buffer *buffer_of(const prof_memory *p, const char *instr) {
  for (u32 v = 0; v < p->nvalues; v++)
    if (!strcmp(p->values[v].instr, instr)) return &p->buffers[p->values[v].buffer];
  fail_msg("no buffer for %s", instr);
  return NULL;
}

// Buffers that are live at the same time lie apart, and within the area.
static void assert_apart(const prof_memory *p) {
  for (u32 a = 0; a < p->nbuffers; a++) {
    const prof_buffer *x = &p->buffers[a];
    if (x->kind != PROF_BUFFER_TEMPORARY) continue;
    assert_true(x->offset + x->bytes <= p->temp_bytes);
    for (u32 b = a + 1; b < p->nbuffers; b++) {
      const prof_buffer *y = &p->buffers[b];
      if (y->kind != PROF_BUFFER_TEMPORARY || x->first > y->last || y->first > x->last) continue;
      assert_true(x->offset + x->bytes <= y->offset || y->offset + y->bytes <= x->offset);
    }
  }
}

static void model(void **st) {
  (void)st;
  hlo_module *m =
      parse(ENTRY("x = f32[64] parameter(0)\n a = f32[64] negate(x)\n b = f32[64] reverse(a), "
                  "dimensions={0}\n c = f32[64] exponential(b)\n d = f32[128] concatenate(a, c), "
                  "dimensions={0}\n k = f32[128] constant({...})\n ROOT r = f32[128] add(d, k)"));
  prof_memory p, each;
  expect_good(prof_memory_model(m, false, &p), "model");
  expect_good(prof_memory_model(m, true, &each), "naive model");
  assert_int_equal(p.nsteps, 7);
  assert_int_equal(buffer_of(&p, "x")->kind, PROF_BUFFER_PARAMETER);
  assert_int_equal(buffer_of(&p, "k")->kind, PROF_BUFFER_CONSTANT);
  assert_int_equal(buffer_of(&p, "r")->kind, PROF_BUFFER_OUTPUT);
  // c is computed in place of b, while a waits for the concatenation; r in place of d
  assert_ptr_equal(buffer_of(&p, "b"), buffer_of(&p, "c"));
  assert_ptr_not_equal(buffer_of(&p, "a"), buffer_of(&p, "c"));
  assert_int_equal(buffer_of(&p, "a")->first, 1);
  assert_int_equal(buffer_of(&p, "a")->last, 4);
  assert_int_equal(p.live_bytes, 512);  // a and b
  assert_ptr_not_equal(buffer_of(&each, "b"), buffer_of(&each, "c"));
  assert_int_equal(each.live_bytes, 1024);  // a, c and d
  assert_apart(&p);
  assert_apart(&each);
  hlo_memory sums;
  expect_good(hlo_memory_estimate(m, false, &sums), "sums");
  assert_int_equal(sums.temp_bytes, p.live_bytes);
  i64 live[7];
  prof_memory_live(&p, live);
  assert_int_equal(live[prof_memory_peak_step(&p)], p.live_bytes);
  assert_int_equal(prof_memory_peak(&p), 256 + 512 + p.temp_bytes);
  hs_buf text = {0};
  prof_memory_print(&p, &text);
  assert_non_null(strstr(hs_buf_cstr(&text), "b@2-3 c@3-4"));
  hs_buf_free(&text);
  prof_memory_free(&p);
  prof_memory_free(&each);
  hlo_module_free(m);
}

static i64 temporaries(const char *text) {
  hlo_module *m = parse(text);
  hlo_memory sums;
  expect_good(hlo_memory_estimate(m, false, &sums), "sums");
  hlo_module_free(m);
  return sums.temp_bytes;
}

#define LOOP(body, start)                                                                          \
  "HloModule m\nbody {\n s = (s32[], f32[64], f32[64]) parameter(0)\n"                             \
  " i = s32[] get-tuple-element(s), index=0\n a = f32[64] get-tuple-element(s), index=1\n"         \
  " b = f32[64] get-tuple-element(s), index=2\n one = s32[] constant(1)\n j = s32[] add(i, one)\n" \
  " " body "}\ncond {\n s = (s32[], f32[64], f32[64]) parameter(0)\n"                              \
  " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(5)\n"                             \
  " ROOT less = pred[] compare(i, n), direction=LT\n}\n"                                           \
  "ENTRY e {\n p = f32[64] parameter(0)\n zero = s32[] constant(0)\n x = f32[64] negate(p)\n"      \
  " y = f32[64] cosine(p)\n t = (s32[], f32[64], f32[64]) tuple(zero, " start ")\n"                \
  " w = (s32[], f32[64], f32[64]) while(t), body=body, condition=cond\n"                           \
  " c = f32[64] get-tuple-element(w), index=1\n d = f32[64] get-tuple-element(w), index=2\n"       \
  " ROOT r = f32[128] concatenate(c, d), dimensions={0}\n}\n"

#define BOTH                                                  \
  "k = f32[64] multiply(a, a)\n l = f32[64] multiply(b, b)\n" \
  " ROOT o = (s32[], f32[64], f32[64]) tuple(j, k, l)\n"
#define ONE                      \
  "l = f32[64] multiply(b, b)\n" \
  " ROOT o = (s32[], f32[64], f32[64]) tuple(j, a, l)\n"
#define LATE                                                         \
  "k = f32[64] reverse(a), dimensions={0}\n l = f32[64] add(a, b)\n" \
  " ROOT o = (s32[], f32[64], f32[64]) tuple(j, k, l)\n"

// A loop writes to each element of its state, so that elements need memory of their own: not one
// for two, not what others read, not the entry's argument, unless the body hands them on.
static void loop_states(void **st) {
  (void)st;
  const i64 number = 4, array = 256;
  assert_int_equal(temporaries(LOOP(BOTH, "x, y")), number + 2 * array);
  assert_int_equal(temporaries(LOOP(BOTH, "x, x")), number + 2 * array);
  assert_int_equal(temporaries(LOOP(BOTH, "x, p")), number + 2 * array);
  assert_int_equal(temporaries(LOOP(ONE, "x, x")), number + 2 * array);
  assert_int_equal(temporaries(LOOP(ONE, "p, x")), number + array);
  assert_int_equal(temporaries(LOOP(LATE, "x, y")), number + 3 * array);
}

static void chart(void **st) {
  (void)st;
  const i64 live[] = {0, 1, 8, 4, 4, 0, 0, 0};
  hs_buf b = {0};
  prof_memory_chart(live, 8, 80, 2, true, &b);
  assert_string_equal(hs_buf_cstr(&b), "  #     \n ####   \n");
  b.n = 0;
  prof_memory_chart(live, 8, 4, 2, true, &b);  // two steps a column, the larger counts
  assert_string_equal(hs_buf_cstr(&b), " #  \n### \n");
  b.n = 0;
  prof_memory_chart(live, 0, 4, 2, true, &b);
  assert_string_equal(hs_buf_cstr(&b), " \n \n");
  assert_int_equal(prof_memory_column_of(8, 4, 7), 3);
  hs_buf_free(&b);
}

// Random live ranges: never apart in time and together in space, never less than what is live.
static void heap(void **st) {
  (void)st;
  u64 z = 7;
  for (int round = 0; round < 50; round++) {
    hlo_heap_buffer v[40];
    for (u32 k = 0; k < HS_COUNT(v); k++) {
      z = z * 6364136223846793005ull + 1442695040888963407ull;
      i32 first = (i32)(z >> 33) % 30;
      v[k] = (hlo_heap_buffer){(size_t)(z >> 20) % 5000, 0, first, first + (i32)(z >> 50) % 10};
    }
    size_t total, peak = hlo_heap_live_peak(HS_COUNT(v), v, 60, NULL);
    assert_true(hlo_heap_place(HS_COUNT(v), v, SIZE_MAX / 2, &total));
    assert_true(total >= peak && total <= 3 * peak);
    for (u32 a = 0; a < HS_COUNT(v); a++)
      for (u32 b = 0; b < a; b++)
        if (v[a].bytes && v[b].bytes && v[a].first <= v[b].last && v[b].first <= v[a].last)
          assert_true(v[a].offset + v[a].bytes <= v[b].offset ||
                      v[b].offset + v[b].bytes <= v[a].offset);
  }
  hlo_heap_buffer two[] = {{100, 0, 0, 1}, {100, 0, 1, 2}};
  size_t total;
  // layers of a network, one of them wider: by size alone the wide one leaves a hole beside it
  hlo_heap_buffer layers[] = {{1152, 0, 1, 8},  {1152, 0, 1, 8},  {2496, 0, 2, 3},
                              {8192, 0, 3, 5},  {8192, 0, 5, 7},  {8192, 0, 7, 8},
                              {10688, 0, 8, 9}, {8192, 0, 9, 11}, {8192, 0, 11, 13}};
  assert_true(hlo_heap_place(HS_COUNT(layers), layers, SIZE_MAX / 2, &total));
  assert_int_equal(total, hlo_heap_live_peak(HS_COUNT(layers), layers, 14, NULL));
  assert_false(hlo_heap_place(2, two, 200, &total));
}

// The smallest gap, by looking at all pairs: of buffers in order of falling sizes.
static void place_slowly(u32 n, hlo_heap_buffer *v) {
  for (u32 k = 0; k < n; k++) {
    size_t best = SIZE_MAX, best_size = SIZE_MAX, at = 0, need = hlo_heap_align(v[k].bytes);
    for (;;) {  // from one end of what is live to the next that lies behind it
      size_t next = SIZE_MAX, end = at;
      for (u32 q = 0; q < k; q++) {
        if (v[q].first > v[k].last || v[k].first > v[q].last) continue;
        size_t to = v[q].offset + hlo_heap_align(v[q].bytes);
        if (v[q].offset <= at) end = HS_MAX(end, to);
        else next = HS_MIN(next, v[q].offset);
      }
      if (end > at) {
        at = end;
        continue;
      }
      if (next == SIZE_MAX) break;
      if (next - at >= need && next - at < best_size) best = at, best_size = next - at;
      at = next;
    }
    v[k].offset = best != SIZE_MAX ? best : at;
  }
}

// So many that only one order is tried, of few sizes and of many, of short and of long lives, and
// some that are live nowhere.
static void many(void **st) {
  (void)st;
  enum { MANY = 1100 };
  hlo_heap_buffer *v = hs_alloc(MANY * sizeof *v), *w = hs_alloc(MANY * sizeof *w);
  u64 z = 1;
  for (u32 round = 0; round < 6; round++) {
    size_t size = 200000;
    for (u32 k = 0; k < MANY; k++) {
      z = z * 6364136223846793005u + 1442695040888963407u;
      if (round % 2 || z >> 60 == 0) size -= (size_t)(z >> 40) % 150;
      i32 first = (i32)(z >> 33) % (100 << round),
          life = (i32)(z >> 40 & 0xffff) % (z >> 61 ? 12 : 90);
      v[k] = w[k] = (hlo_heap_buffer){size, 0, first, first + life - (round == 5)};
    }
    size_t total;
    assert_true(hlo_heap_place(MANY, v, SIZE_MAX / 2, &total));
    place_slowly(MANY, w);
    for (u32 k = 0; k < MANY; k++) assert_int_equal(v[k].offset, w[k].offset);
  }
  hs_free(v);
  hs_free(w);
}

// ---- XLA's reports ------------------------------------------------------------------------------

static char *file(const char *name, size_t *n) {
  char *path = hs_format("tests/data/xla_memory/%s", name);
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("no %s", path);
  char *text = hs_alloc(1 << 16);
  *n = fread(text, 1, (1 << 16) - 1, f);
  text[*n] = 0;
  fclose(f);
  hs_free(path);
  return text;
}

static void reports(void **st) {
  (void)st;
  size_t n;
  xla_report x;
  char *text = file("module_0012.jit_mlp.cpu_after_optimizations-buffer-assignment.txt", &n);
  expect_good(xla_report_read("a", text, n, &x), "buffer assignment");
  assert_int_equal(x.allocations.n, 14);
  assert_int_equal(x.values.n, 26);
  assert_int_equal(x.total_bytes, 90680);
  assert_int_equal(x.allocations.v[1].parameter, 2);
  assert_true(x.allocations.v[1].live_out && x.allocations.v[13].temporary);
  assert_true(x.allocations.v[7].thread_local_ && x.allocations.v[6].output);
  assert_int_equal(x.allocations.v[13].nvalues, 6);
  assert_string_equal(x.values.v[x.allocations.v[13].first_value].label, "add_tanh_fusion");
  xla_report_free(&x);
  hs_free(text);
  text = file("module_0016.jit_lo.cpu_after_optimizations-buffer-assignment.txt", &n);
  expect_good(xla_report_read("a", text, n, &x), "loop");
  assert_string_equal(x.values.v[2].label, "wide.arg_tuple.5{1}");  // without " (phi)"
  xla_report_free(&x);
  hs_free(text);
  text = file("module_0012.jit_mlp.cpu_after_optimizations-memory-usage-report.txt", &n);
  expect_good(xla_report_read("a", text, n, &x), "usage");
  assert_true(x.usage);
  assert_int_equal(x.total_bytes, 90680);
  assert_int_equal(x.allocations.n, 14);
  assert_int_equal(x.allocations.v[0].size, 40960);
  xla_report_free(&x);
  hs_free(text);
}

static void refuses(const char *text, size_t n, u32 line, const char *part) {
  xla_report x;
  hs_status s = xla_report_read("f", text, n, &x);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_XLA_REPORT);
  assert_int_equal(s.err->line, line);
  if (!strstr(s.err->message, part)) fail_msg("no %s in %s", part, s.err->message);
  hs_status_drop(s);
}
#define REFUSES(text, line, part) refuses(text, sizeof(text) - 1, line, part)
#define HEAD "BufferAssignment:\nallocation 0: size 64, constant:\n"

static void strangers(void **st) {
  (void)st;
  REFUSES("", 1, "empty");
  REFUSES("\n\n", 1, "empty");
  REFUSES("HloModule m\n", 1, "neither");
  REFUSES("BufferAssignment:\n", 1, "ends before an allocation");
  REFUSES("BufferAssignment:\nallocation 0: size 64, cons\0tant:\n", 2, "NUL");
  REFUSES("BufferAssignment:\nallocation 0: size 99999999999999999999, constant:\n", 2, "size");
  REFUSES("BufferAssignment:\nallocation 0: size 64, purple:\n", 2, "unknown property");
  REFUSES("BufferAssignment:\nallocation 0: size 64, parameter 1, shape |f32[64", 2, "shape");
  REFUSES(HEAD "allocation 1: size 9223372036854775790, constant:\n", 3, "add up");
  REFUSES(HEAD " value: <1 a @0> (size=64,offset=1): f32[16]\n", 3, "outside");
  REFUSES(HEAD " value: <1 a @0> (size=64,off", 3, "expected");
  REFUSES(HEAD " value: <1 @0> (size=4,offset=0): f32[]\n", 3, "name");
  REFUSES(HEAD "nonsense\n", 3, "not a line");
  REFUSES("BufferAssignment:\n value: <1 a @0> (size=64,offset=0): f32[16]\n", 2, "before");
  REFUSES("Memory Space: default (color=0)\n", 1, "no total");
  REFUSES("Memory Space: default (color=0)\nTotal bytes: 12\n  12B(100%); 12B;\n", 3, "expected");
}

// Every prefix, and the real reports with bytes changed: a status, never more.
static void damaged(void **st) {
  (void)st;
  static const char *const names[] = {
      "module_0012.jit_mlp.cpu_after_optimizations-buffer-assignment.txt",
      "module_0012.jit_mlp.cpu_after_optimizations-memory-usage-report.txt"};
  u64 z = 1;
  u32 good = 0, bad = 0;
  for (size_t f = 0; f < HS_COUNT(names); f++) {
    size_t n;
    char *text = file(names[f], &n);
    for (size_t k = 0; k < 3 * n; k++) {
      xla_report x;
      size_t at = k % n;
      char was = text[at];
      z = z * 6364136223846793005ull + 1442695040888963407ull;
      if (k >= n) text[at] = (char)(z >> 56);
      char *copy = hs_alloc(n + 1);  // its own block: reading past the end would be seen
      size_t length = k < n ? k : n;
      memcpy(copy, text, length);
      hs_status s = xla_report_read("f", copy, length, &x);
      good += hs_ok(s);
      bad += !hs_ok(s);
      if (hs_ok(s)) xla_report_free(&x);
      hs_status_drop(s);
      hs_free(copy);
      text[at] = was;
    }
    hs_free(text);
  }
  assert_true(good > 0 && bad > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(model),     cmocka_unit_test(loop_states),
                                     cmocka_unit_test(chart),     cmocka_unit_test(heap),
                                     cmocka_unit_test(many),      cmocka_unit_test(reports),
                                     cmocka_unit_test(strangers), cmocka_unit_test(damaged)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
