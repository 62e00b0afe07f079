// cpu_scatter.c — scatter and gather on the cpu backend against the evaluator: every operation
// and type that has a loop of its own, those that are compiled, single elements and rows, few and
// many places, duplicates, indices out of bounds, windows that overlap, batches, several arrays.
#include "tests/unit/backends/cpu.h"

// Updates [n, ...rest] at s32 indices that the sum of two hashes makes: many are equal, and some
// are out of bounds. The operand is [places, ...rest].
static void rows(const char *type, const char *combiner, int n, int places, const char *rest,
                 int rank) {
  static const char *const window[] = {"", "1", "1,2"};
  char text[4096];
  snprintf(text, sizeof text,
           "HloModule t\n"
           "f { a = %s[] parameter(0)\n b = %s[] parameter(1)\n ROOT c = %s[] %s }\n"
           "ENTRY e { x = %s[%d%s] parameter(0)\n u = %s[%d%s] parameter(1)\n"
           " k = s32[%d,1] iota(), iota_dimension=0\n"
           " p = s32[] constant(7919)\n pb = s32[%d,1] broadcast(p), dimensions={}\n"
           " q = s32[] constant(%d)\n qb = s32[%d,1] broadcast(q), dimensions={}\n"
           " h = s32[%d,1] multiply(k, pb)\n hh = s32[%d,1] xor(h, k)\n"
           " i = s32[%d,1] remainder(hh, qb)\n"
           " ROOT r = %s[%d%s] scatter(x, i, u), update_window_dims={%s}, "
           "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
           "to_apply=f }",
           type, type, type, combiner, type, places, rest, type, n, rest, n, n, places + 3, n, n, n,
           n, type, places, rest, window[rank]);
  agrees(text);
}

static void operations(void **st) {
  (void)st;
  static const char *const types[] = {"f32", "f64", "bf16", "f16", "s8",  "u8",
                                      "s16", "u16", "s32",  "u32", "s64", "u64"};
  static const char *const ops[] = {"add(a, b)", "maximum(b, a)", "minimum(a, b)",
                                    "multiply(a, b)"};
  for (size_t t = 0; t < HS_COUNT(types); t++)
    for (size_t o = 0; o < HS_COUNT(ops); o++) {
      bool narrow = t == 2 || t == 3;
      rows(types[t], ops[o], narrow ? 20 : 100, 30, "", 0);
      rows(types[t], ops[o], narrow ? 20 : 60, 20, ",5", 1);
    }
  rows("c64", "add(a, b)", 100, 30, "", 0);
  rows("c128", "add(a, b)", 100, 30, ",3", 1);
  rows("c64", "multiply(a, b)", 20, 30, ",3", 1);
  rows("pred", "or(a, b)", 100, 130, "", 0);
  rows("pred", "and(a, b)", 100, 130, ",9", 1);
  rows("u32", "xor(a, b)", 100, 30, "", 0);
  rows("s32", "subtract(a, b)", 100, 30, ",4", 1);
}

static void set(void **st) {
  (void)st;
  static const char *const types[] = {"pred", "u8", "bf16", "f32", "f64", "c128"};
  for (size_t t = 0; t < HS_COUNT(types); t++) {
    char text[2048];
    for (int rank = 0; rank < 2; rank++) {
      const char *rest = rank ? ",70" : "";
      snprintf(text, sizeof text,
               "HloModule t\n"
               "f { a = %s[] parameter(0)\n ROOT b = %s[] parameter(1) }\n"
               "ENTRY e { x = %s[50%s] parameter(0)\n u = %s[300%s] parameter(1)\n"
               " k = s64[300,1] iota(), iota_dimension=0\n p = s64[] constant(53)\n"
               " q = s64[300,1] broadcast(p), dimensions={}\n i = s64[300,1] remainder(k, q)\n"
               " ROOT r = %s[50%s] scatter(x, i, u), update_window_dims={%s}, "
               "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
               "to_apply=f }",
               types[t], types[t], types[t], rest, types[t], rest, types[t], rest, rank ? "1" : "");
      agrees(text);
    }
  }
}

// Enough work for threads: private copies, owners, rows.
static void many(void **st) {
  (void)st;
  rows("s32", "add(a, b)", 200000, 256, "", 0);
  rows("f32", "maximum(a, b)", 200000, 1000, "", 0);
  rows("pred", "or(a, b)", 200000, 1000, "", 0);
  rows("u64", "minimum(a, b)", 100000, 90000, "", 0);
  rows("s32", "add(a, b)", 30000, 90000, "", 0);
  rows("f32", "minimum(a, b)", 5000, 300, ",16", 1);
  rows("f32", "add(a, b)", 300, 100, ",2", 1);
  rows("f64", "maximum(a, b)", 300, 100, ",3", 1);
  rows("s32", "add(a, b)", 60, 30, ",3000", 1);
  rows("s32", "subtract(a, b)", 9000, 300, ",2,3", 2);
}

#define SUM "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"

static void windows(void **st) {
  (void)st;
  // Down a column, and rows of a matrix in the middle of three dimensions.
  agrees(MODULE(SUM "ENTRY e { x = f32[40,30] parameter(0)\n i = s32[50] parameter(1)\n"
                    " u = f32[50,40] parameter(2)\n ROOT r = f32[40,30] scatter(x, i, u), "
                    "update_window_dims={1}, inserted_window_dims={1}, "
                    "scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=f }"));
  agrees(MODULE(SUM "ENTRY e { x = f32[20,5,300] parameter(0)\n i = s32[50] parameter(1)\n"
                    " u = f32[20,50,300] parameter(2)\n ROOT r = f32[20,5,300] scatter(x, i, u), "
                    "update_window_dims={0,2}, inserted_window_dims={1}, "
                    "scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=f }"));
  // Windows that overlap in part.
  agrees(MODULE(SUM "ENTRY e { x = f32[4000] parameter(0)\n i = s32[9,1] iota(), iota_dimension=0\n"
                    " u = f32[9,2000] parameter(1)\n ROOT r = f32[4000] scatter(x, i, u), "
                    "update_window_dims={1}, inserted_window_dims={}, "
                    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }"));
  // One window, two index components; and one beyond the edge.
  agrees(MODULE(SUM "ENTRY e { x = f32[40,3000] parameter(0)\n i = s32[2] constant({3, 5})\n"
                    " u = f32[20,2900] parameter(1)\n ROOT r = f32[40,3000] scatter(x, i, u), "
                    "update_window_dims={0,1}, inserted_window_dims={}, "
                    "scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=f }"));
  agrees(MODULE(SUM "ENTRY e { x = f32[40,30] parameter(0)\n i = s32[2] constant({21, 5})\n"
                    " u = f32[20,25] parameter(1)\n ROOT r = f32[40,30] scatter(x, i, u), "
                    "update_window_dims={0,1}, inserted_window_dims={}, "
                    "scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=f }"));
  // Batches, and several arrays.
  agrees(MODULE(SUM "ENTRY e { x = f32[30,50,7] parameter(0)\n i = s32[30,90] parameter(1)\n"
                    " u = f32[30,90,7] parameter(2)\n ROOT r = f32[30,50,7] scatter(x, i, u), "
                    "update_window_dims={2}, inserted_window_dims={1}, "
                    "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
                    "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=f }"));
  agrees(MODULE(
      "g { a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n"
      " j = s32[] parameter(3)\n p = pred[] compare(a, b), direction=GE\n"
      " v = f32[] select(p, a, b)\n w = s32[] select(p, i, j)\n"
      " ROOT t = (f32[], s32[]) tuple(v, w) }\n"
      "ENTRY e { x = f32[30] parameter(0)\n y = s32[30] parameter(1)\n i = s32[90,1] parameter(2)\n"
      " u = f32[90] parameter(3)\n v = s32[90] parameter(4)\n"
      " ROOT r = (f32[30], s32[30]) scatter(x, y, i, u, v), update_window_dims={}, "
      "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
      "to_apply=g }"));
  agrees(MODULE(SUM "ENTRY e { x = f32[0] parameter(0)\n i = s32[9,1] parameter(1)\n"
                    " u = f32[9] parameter(2)\n ROOT r = f32[0] scatter(x, i, u), "
                    "update_window_dims={}, inserted_window_dims={0}, "
                    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }"));
}

// What of one element or row goes to its own line of the operand, for one or more dims of lines,
// as the gradient of picking along an axis does; some of it out of bounds.
static void batches(void **st) {
  (void)st;
  static const char *const types[] = {"s32", "s64", "u8"};
  for (size_t t = 0; t < HS_COUNT(types); t++) {
    hs_buf b = {0};
    hs_buf_printf(&b,
                  "HloModule t\n" SUM
                  "ENTRY e { x = f32[6,300,40] parameter(0)\n u = f32[6,300,9] parameter(1)\n"
                  " y = f32[8,50,4] parameter(2)\n v = f32[8,20,4] parameter(3)\n"
                  " k = %s[6,300,9] iota(), iota_dimension=1\n"
                  " l = %s[6,300,9] iota(), iota_dimension=2\n"
                  " i = %s[6,300,9] multiply(k, l)\n j = %s[8,20,1] iota(), iota_dimension=1\n"
                  " p = f32[6,300,40] scatter(x, i, u), update_window_dims={}, "
                  "inserted_window_dims={2}, scatter_dims_to_operand_dims={2}, "
                  "input_batching_dims={0,1}, scatter_indices_batching_dims={0,1}, "
                  "index_vector_dim=3, to_apply=f\n"
                  " q = f32[8,50,4] scatter(y, j, v), update_window_dims={2}, "
                  "inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
                  "input_batching_dims={0}, scatter_indices_batching_dims={0}, "
                  "index_vector_dim=2, to_apply=f\n"
                  " ROOT r = (f32[6,300,40], f32[8,50,4]) tuple(p, q) }",
                  types[t], types[t], types[t], types[t]);
    agrees(hs_buf_cstr(&b));
    hs_buf_free(&b);
  }
}

// Rows of several lengths, at indices in bounds and not; two components; batches; a slice that is
// no row.
static void gathers(void **st) {
  (void)st;
  static const int widths[] = {1, 2, 3, 4, 8, 16, 23};
  static const char *const types[] = {"f32", "u8", "c128"};
  for (size_t w = 0; w < HS_COUNT(widths); w++)
    for (size_t t = 0; t < HS_COUNT(types); t++) {
      char text[1024];
      snprintf(text, sizeof text,
               "HloModule t\nENTRY e { x = %s[50,%d] parameter(0)\n"
               " k = s32[700,1] iota(), iota_dimension=0\n o = s32[] constant(300)\n"
               " p = s32[700,1] broadcast(o), dimensions={}\n i = s32[700,1] subtract(k, p)\n"
               " ROOT g = %s[700,%d] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
               "start_index_map={0}, index_vector_dim=1, slice_sizes={1,%d} }",
               types[t], widths[w], types[t], widths[w], widths[w]);
      agrees(text);
    }
  agrees(MODULE("ENTRY e { x = f32[30,40,3] parameter(0)\n i = s64[20,50,2] parameter(1)\n"
                " ROOT g = f32[20,50,3] gather(x, i), offset_dims={2}, collapsed_slice_dims={0,1}, "
                "start_index_map={0,1}, index_vector_dim=2, slice_sizes={1,1,3} }"));
  agrees(MODULE("ENTRY e { x = f32[30,40] parameter(0)\n i = u64[30,50,1] parameter(1)\n"
                " ROOT g = f32[30,50] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, "
                "start_index_map={1}, operand_batching_dims={0}, "
                "start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1} }"));
  agrees(MODULE("ENTRY e { x = f32[30,40] parameter(0)\n i = u32[90] parameter(1)\n"
                " ROOT g = f32[30,90] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, "
                "start_index_map={1}, index_vector_dim=1, slice_sizes={30,1} }"));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operations), cmocka_unit_test(set),     cmocka_unit_test(many),
      cmocka_unit_test(windows),    cmocka_unit_test(gathers), cmocka_unit_test(batches),
  };
  return run_cpu_tests(argc, argv, "cpu_scatter", tests, HS_COUNT(tests));
}
