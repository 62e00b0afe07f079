// collectives.c — what NCCL is asked for when several devices compute together, by an NCCL and a
// driver of our own: every function, type and reduction, as the evaluator has them, parts of
// groups, drivers that are late; calls that real devices would wait in for ever; libraries that are
// missing, old, new or fail. tests/cuda_headers.sh has the numbers.
#include "tests/unit/skip.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/harness/plugin.h"

#if HAVE_LLVM
#include "backends/gpu/cuda/driver.h"
#include "backends/gpu/emu/api.h"
#include "backends/gpu/nccl/nccl.h"
#include "core/eval/eval.h"
#include "tests/unit/modules.h"

#define OK(call) assert_int_equal((call), 0)
#define REFUSED(call) assert_int_equal((call), NCCL_INVALID_USAGE)

enum { MOST = 4, N = 24, BYTES = N * 8 };

static cuda_driver d;
static nccl_api nccl;

static void *symbol(void *from, const char *name) {
  (void)from;
  return emu_api_symbol(name);
}

static void leaked(const char *what) { fail_msg("left: %s", what); }

// Devices with a stream and two buffers each; an operand of BYTES bytes.
typedef struct machine {
  int n;
  cuda_context *context[MOST];
  cuda_stream *stream[MOST];
  cuda_ptr in[MOST], out[MOST];
  nccl_comm *all[MOST];
} machine;

static machine begin(int n, bool late) {
  machine m = {.n = n};
  emu_api_behave(&(emu_behaviour){.devices = (u32)n, .late = late, .leaked = leaked});
  OK(d.init(0));
  for (int k = 0; k < n; k++) {
    OK(d.context_retain(&m.context[k], k));
    OK(d.context_set(m.context[k]));
    OK(d.stream_new(&m.stream[k], CUDA_STREAM_NON_BLOCKING));
    OK(d.alloc(&m.in[k], BYTES));
    OK(d.alloc(&m.out[k], BYTES));
  }
  OK(nccl.init_all(m.all, n, NULL));
  return m;
}

static void end(machine *m) {
  for (int k = 0; k < m->n; k++) OK(nccl.free(m->all[k]));
  for (int k = 0; k < m->n; k++) {
    OK(d.context_set(m->context[k]));
    OK(d.stream_free(m->stream[k]));
    OK(d.free(m->in[k]));
    OK(d.free(m->out[k]));
  }
  for (int k = 0; k < m->n; k++) OK(d.context_release(k));
}

static void put(machine *m, int device, const void *p) {
  OK(d.context_set(m->context[device]));
  OK(d.copy_in(m->in[device], p, BYTES, m->stream[device]));
}

static void get(machine *m, int device, cuda_ptr from, void *p) {
  OK(d.context_set(m->context[device]));
  OK(d.copy_out(p, from, BYTES, m->stream[device]));
  OK(d.stream_wait(m->stream[device]));
}

// The operand of a device: k + 100 * device, as s32.
static i32 element(int device, int k) { return k + 100 * device; }
static void put_elements(machine *m) {
  static i32 x[MOST][BYTES / 4];  // a late driver reads it later
  for (int r = 0; r < m->n; r++) {
    for (int k = 0; k < BYTES / 4; k++) x[r][k] = element(r, k);
    put(m, r, x[r]);
  }
}

// ---- opening ------------------------------------------------------------------------------------
static void opens(void **st) {
  (void)st;
  static const struct {
    const char *mode, *words;
  } bad[] = {{"missing", "this NCCL has no ncclAllReduce"},
             {"old", "NCCL says version 21706, from 21801"},
             {"new", "NCCL says version 30000"}};
  nccl_api x;
  for (u32 k = 0; k <= HS_COUNT(bad); k++) {
    bool none = k == HS_COUNT(bad);
    hs_status s = nccl_open(none ? "/nowhere/libnccl.so.2" : plugin_fake_nccl(bad[k].mode), &x);
    const char *words = none ? "there is no NCCL here" : bad[k].words;
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_NOT_BUILT);
    if (!strstr(s.err->message, words)) fail_msg("no '%s' in %s", words, s.err->message);
    hs_status_drop(s);
  }
}

static void errors(void **st) {
  (void)st;
  static const struct {
    int number;
    hs_code code;
    const char *words;
  } all[] = {{NCCL_UNHANDLED_CUDA, HS_E_DEVICE, "summing: NCCL error 1 (UNHANDLED_CUDA)"},
             {NCCL_INVALID_USAGE, HS_E_INTERNAL, "summing: NCCL error 5 (INVALID_USAGE)"},
             {77, HS_E_DEVICE, "summing: NCCL error 77 (UNKNOWN)"}};
  assert_true(hs_ok(nccl_check(NCCL_OK, "summing")));
  for (u32 k = 0; k < HS_COUNT(all); k++) {
    hs_status s = nccl_check(all[k].number, "summing");
    assert_int_equal(s.err->code, all[k].code);
    assert_string_equal(s.err->message, all[k].words);
    assert_non_null(s.err->note);
    hs_status_drop(s);
  }
}

// ---- what is computed ---------------------------------------------------------------------------
static nccl_result reduce_all(machine *m, int type, int op, size_t count) {
  OK(nccl.group_start());
  for (int r = 0; r < m->n; r++)
    OK(nccl.all_reduce(m->in[r], m->out[r], count, type, op, m->all[r], m->stream[r]));
  return nccl.group_end();
}

static void reduces(void **st) {
  (void)st;
  for (int n = 1; n <= MOST; n++) {
    machine m = begin(n, n & 1);
    i32 x[BYTES / 4];
    put_elements(&m);
    OK(reduce_all(&m, NCCL_NUMBER_INT32, NCCL_NUMBER_SUM, N));
    for (int r = 0; r < n; r++) {
      get(&m, r, m.out[r], x);
      for (int k = 0; k < N; k++) assert_int_equal(x[k], n * k + 100 * (n * (n - 1) / 2));
    }
    end(&m);
  }
}

// Of the elements 3 and, on the second device, -2 (or 2 where there is no sign): each type's bytes.
static const struct {
  int type, bytes;
  u64 three, other, sum, product, most, least;
} types[] = {
    {NCCL_NUMBER_INT8, 1, 3, 0xfe, 1, 0xfa, 3, 0xfe},
    {NCCL_NUMBER_UINT8, 1, 3, 0xfe, 1, 0xfa, 0xfe, 3},
    {NCCL_NUMBER_INT32, 4, 3, 0xfffffffe, 1, 0xfffffffa, 3, 0xfffffffe},
    {NCCL_NUMBER_UINT32, 4, 3, 0xfffffffe, 1, 0xfffffffa, 0xfffffffe, 3},
    {NCCL_NUMBER_INT64, 8, 3, (u64)-2, 1, (u64)-6, 3, (u64)-2},
    {NCCL_NUMBER_UINT64, 8, 3, (u64)-2, 1, (u64)-6, (u64)-2, 3},
    {NCCL_NUMBER_FLOAT16, 2, 0x4200, 0xc000, 0x3c00, 0xc600, 0x4200, 0xc000},
    {NCCL_NUMBER_BFLOAT16, 2, 0x4040, 0xc000, 0x3f80, 0xc0c0, 0x4040, 0xc000},
    {NCCL_NUMBER_FLOAT32, 4, 0x40400000, 0xc0000000, 0x3f800000, 0xc0c00000, 0x40400000,
     0xc0000000},
    {NCCL_NUMBER_FLOAT64, 8, 0x4008000000000000, 0xc000000000000000, 0x3ff0000000000000,
     0xc018000000000000, 0x4008000000000000, 0xc000000000000000},
};

static void every_type(void **st) {
  (void)st;
  machine m = begin(2, false);
  for (u32 t = 0; t < HS_COUNT(types); t++) {
    u64 want[] = {[NCCL_NUMBER_SUM] = types[t].sum,
                  [NCCL_NUMBER_PROD] = types[t].product,
                  [NCCL_NUMBER_MAX] = types[t].most,
                  [NCCL_NUMBER_MIN] = types[t].least};
    u8 x[BYTES] = {0};
    memcpy(x, &types[t].three, (size_t)types[t].bytes);
    put(&m, 0, x);
    memcpy(x, &types[t].other, (size_t)types[t].bytes);
    put(&m, 1, x);
    for (u32 op = 0; op < HS_COUNT(want); op++) {
      OK(reduce_all(&m, types[t].type, (int)op, 1));
      for (int r = 0; r < 2; r++) {
        get(&m, r, m.out[r], x);
        assert_memory_equal(x, &want[op], (size_t)types[t].bytes);
      }
    }
  }
  end(&m);
}

static void others(void **st) {
  (void)st;
  for (int late = 0; late < 2; late++) {
    machine m = begin(3, late);
    i32 x[BYTES / 4];
    put_elements(&m);
    OK(nccl.group_start());
    for (int r = 0; r < 3; r++)
      OK(nccl.all_gather(m.in[r], m.out[r], 5, NCCL_NUMBER_INT32, m.all[r], m.stream[r]));
    OK(nccl.group_end());
    for (int r = 0; r < 3; r++) {
      get(&m, r, m.out[r], x);
      for (int k = 0; k < 15; k++) assert_int_equal(x[k], element(k / 5, k % 5));
    }
    OK(nccl.group_start());
    for (int r = 0; r < 3; r++)
      OK(nccl.reduce_scatter(m.in[r], m.out[r], 4, NCCL_NUMBER_INT32, NCCL_NUMBER_MAX, m.all[r],
                             m.stream[r]));
    OK(nccl.group_end());
    for (int r = 0; r < 3; r++) {
      get(&m, r, m.out[r], x);
      for (int k = 0; k < 4; k++) assert_int_equal(x[k], element(2, 4 * r + k));
    }
    OK(nccl.group_start());
    for (int r = 0; r < 3; r++)
      OK(nccl.broadcast(m.in[r], m.out[r], N, NCCL_NUMBER_INT32, 1, m.all[r], m.stream[r]));
    OK(nccl.group_end());
    for (int r = 0; r < 3; r++) {
      get(&m, r, m.out[r], x);
      for (int k = 0; k < N; k++) assert_int_equal(x[k], element(1, k));
    }
    OK(nccl.group_start());  // around, as a permute does
    for (int r = 0; r < 3; r++) {
      OK(nccl.send(m.in[r], N, NCCL_NUMBER_INT32, (r + 1) % 3, m.all[r], m.stream[r]));
      OK(nccl.recv(m.out[r], N, NCCL_NUMBER_INT32, (r + 2) % 3, m.all[r], m.stream[r]));
    }
    OK(nccl.group_end());
    for (int r = 0; r < 3; r++) {
      get(&m, r, m.out[r], x);
      for (int k = 0; k < N; k++) assert_int_equal(x[k], element((r + 2) % 3, k));
    }
    end(&m);
  }
}

// Devices 0 and 2, 1 and 3; a device that is in no group.
static void groups(void **st) {
  (void)st;
  machine m = begin(4, true);
  nccl_comm *part[4];
  i32 x[BYTES / 4];
  put_elements(&m);
  OK(nccl.group_start());
  for (int r = 0; r < 4; r++) OK(nccl.split(m.all[r], r & 1, r, &part[r], NULL));
  OK(nccl.group_end());
  OK(nccl.group_start());
  for (int r = 0; r < 4; r++)
    OK(nccl.all_reduce(m.in[r], m.out[r], N, NCCL_NUMBER_INT32, NCCL_NUMBER_SUM, part[r],
                       m.stream[r]));
  OK(nccl.group_end());
  for (int r = 0; r < 4; r++) {
    get(&m, r, m.out[r], x);
    for (int k = 0; k < N; k++) assert_int_equal(x[k], element(r & 1, k) + element(2 + (r & 1), k));
    OK(nccl.free(part[r]));
  }
  OK(nccl.group_start());
  for (int r = 0; r < 4; r++) OK(nccl.split(m.all[r], r == 3 ? -1 : 0, r, &part[r], NULL));
  OK(nccl.group_end());
  assert_null(part[3]);
  for (int r = 0; r < 3; r++) OK(nccl.free(part[r]));
  end(&m);
}

// ---- what the evaluator says --------------------------------------------------------------------
enum { F32 = NCCL_NUMBER_FLOAT32, X = 8 };  // X: elements of a device's operand

static nccl_result sum_it(machine *m, int r, nccl_comm *c) {
  return nccl.all_reduce(m->in[r], m->out[r], X, F32, NCCL_NUMBER_SUM, c, m->stream[r]);
}
static nccl_result most_of_it(machine *m, int r, nccl_comm *c) {
  return nccl.all_reduce(m->in[r], m->out[r], X, F32, NCCL_NUMBER_MAX, c, m->stream[r]);
}
static nccl_result gather_it(machine *m, int r, nccl_comm *c) {
  return nccl.all_gather(m->in[r], m->out[r], X, F32, c, m->stream[r]);
}
static nccl_result scatter_it(machine *m, int r, nccl_comm *c) {
  return nccl.reduce_scatter(m->in[r], m->out[r], X / 2, F32, NCCL_NUMBER_SUM, c, m->stream[r]);
}
static nccl_result broadcast_it(machine *m, int r, nccl_comm *c) {
  return nccl.broadcast(m->in[r], m->out[r], X, F32, 0, c, m->stream[r]);
}
static nccl_result exchange_it(machine *m, int r, nccl_comm *c) {
  nccl_result said = NCCL_OK;
  for (int peer = 0; peer < 2 && said == NCCL_OK; peer++) {
    u64 at = (u64)peer * X / 2 * 4;
    said = nccl.send(m->in[r] + at, X / 2, F32, peer, c, m->stream[r]);
    if (said == NCCL_OK) said = nccl.recv(m->out[r] + at, X / 2, F32, peer, c, m->stream[r]);
  }
  return said;
}

#define PAIRS ", replica_groups={{0,2},{1,3}}"
static const struct {
  const char *hlo;
  nccl_result (*call)(machine *, int device, nccl_comm *);
} collectives[] = {
    {"f32[8] all-reduce(x), to_apply=add" PAIRS, sum_it},
    {"f32[8] all-reduce(x), to_apply=max" PAIRS, most_of_it},
    {"f32[16] all-gather(x), dimensions={0}" PAIRS, gather_it},
    {"f32[4] reduce-scatter(x), dimensions={0}, to_apply=add" PAIRS, scatter_it},
    {"f32[8] collective-broadcast(x)" PAIRS, broadcast_it},
    {"f32[8] all-to-all(x), dimensions={0}" PAIRS, exchange_it},
};

static void agree(machine *m, u32 row, nccl_comm *const *part) {
  char *text = hs_format(
      "HloModule m, replica_count=4\n"
      "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
      "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }\n"
      "ENTRY e { x = f32[8] parameter(0) ROOT r = %s }\n",
      collectives[row].hlo);
  hlo_module *h = parse(text);
  hlo_literal *x[MOST], *const *ops[MOST], *want[MOST];
  float in[MOST][BYTES / 4] = {0}, got[BYTES / 4];
  for (int r = 0; r < MOST; r++) {
    expect_good(hlo_literal_new(h->entry->params[0]->shape, &x[r]), "operand");
    for (int k = 0; k < X; k++) in[r][k] = (float)((k * 7 + r * 5) % 11) + 0.1f * (float)r;
    for (int k = 0; k < X; k++) hlo_literal_set_f64(x[r], k, (double)in[r][k]);
    ops[r] = &x[r];
    put(m, r, in[r]);
  }
  expect_good(hlo_eval_together(h->entry->root, MOST, 1, NULL, ops, NULL, want), text);
  OK(nccl.group_start());
  for (int r = 0; r < MOST; r++) OK(collectives[row].call(m, r, part[r]));
  OK(nccl.group_end());
  i64 n = h->entry->root->shape->elements;
  for (int r = 0; r < MOST; r++) {
    get(m, r, m->out[r], got);
    for (i64 k = 0; k < n; k++)
      if ((double)got[k] != hlo_literal_f64(want[r], k))
        fail_msg("%s: device %d, element %d: %g, not %g", collectives[row].hlo, r, (int)k,
                 (double)got[k], hlo_literal_f64(want[r], k));
    hlo_literal_unref(want[r]);
    hlo_literal_unref(x[r]);
  }
  hlo_module_free(h);
  hs_free(text);
}

static void evaluator(void **st) {
  for (int late = 0; late < 2; late++) {
    machine m = begin(MOST, late);
    nccl_comm *part[MOST];
    open_context(st);
    OK(nccl.group_start());
    for (int r = 0; r < MOST; r++) OK(nccl.split(m.all[r], r & 1, r, &part[r], NULL));
    OK(nccl.group_end());
    for (u32 k = 0; k < HS_COUNT(collectives); k++) agree(&m, k, part);
    for (int r = 0; r < MOST; r++) OK(nccl.free(part[r]));
    close_context(st);
    end(&m);
  }
}

// ---- what is refused ----------------------------------------------------------------------------
typedef struct wrong {
  size_t count;
  int type, op;
} wrong;

static void disagrees(machine *m, wrong second) {
  OK(nccl.group_start());
  OK(nccl.all_reduce(m->in[0], m->out[0], N, NCCL_NUMBER_INT32, NCCL_NUMBER_SUM, m->all[0],
                     m->stream[0]));
  OK(nccl.all_reduce(m->in[1], m->out[1], second.count, second.type, second.op, m->all[1],
                     m->stream[1]));
  REFUSED(nccl.group_end());
}

static void refuses(void **st) {
  (void)st;
  enum { S32 = NCCL_NUMBER_INT32, SUM = NCCL_NUMBER_SUM };
  machine m = begin(2, false);
  // a device alone would wait for ever
  REFUSED(nccl.all_reduce(m.in[0], m.out[0], N, S32, SUM, m.all[0], m.stream[0]));
  disagrees(&m, (wrong){N - 1, S32, SUM});
  disagrees(&m, (wrong){N, NCCL_NUMBER_UINT32, SUM});
  disagrees(&m, (wrong){N, S32, NCCL_NUMBER_MAX});
  OK(nccl.group_start());  // in another order
  OK(nccl.all_reduce(m.in[0], m.out[0], 4, S32, SUM, m.all[0], m.stream[0]));
  OK(nccl.broadcast(m.in[1], m.out[1], 4, S32, 0, m.all[1], m.stream[1]));
  REFUSED(nccl.group_end());
  OK(nccl.group_start());
  OK(nccl.send(m.in[0], 4, S32, 1, m.all[0], m.stream[0]));
  REFUSED(nccl.group_end());
  // memory and streams of another device, freed and overlapping memory, unknown types
  REFUSED(nccl.all_reduce(m.in[1], m.out[0], N, S32, SUM, m.all[0], m.stream[0]));
  REFUSED(nccl.all_reduce(m.in[0], m.out[0], N, S32, SUM, m.all[0], m.stream[1]));
  REFUSED(nccl.all_reduce(m.in[0], m.out[0], BYTES, S32, SUM, m.all[0], m.stream[0]));
  REFUSED(nccl.all_reduce(m.in[0], m.in[0] + 4, 4, S32, SUM, m.all[0], m.stream[0]));
  REFUSED(nccl.all_reduce(m.in[0], m.out[0], N, 10, SUM, m.all[0], m.stream[0]));
  REFUSED(nccl.all_reduce(m.in[0], m.out[0], N, S32, 4, m.all[0], m.stream[0]));
  REFUSED(nccl.group_end());
  // and nothing of that stays
  i32 x[BYTES / 4];
  put_elements(&m);
  OK(reduce_all(&m, S32, SUM, N));
  get(&m, 1, m.out[1], x);
  assert_int_equal(x[1], element(0, 1) + element(1, 1));
  end(&m);
}

static void faults(void **st) {
  (void)st;
  nccl_api good = nccl;
  machine m = begin(2, false);
  nccl_comm *other[2];
  assert_true(hs_ok(nccl_open(plugin_fake_nccl("noinit"), &nccl)));
  assert_int_equal(nccl.init_all(other, 2, NULL), NCCL_UNHANDLED_CUDA);
  assert_true(hs_ok(nccl_open(plugin_fake_nccl("failing"), &nccl)));
  OK(nccl.init_all(other, 2, NULL));
  nccl_comm *kept[2] = {m.all[0], m.all[1]};
  memcpy(m.all, other, sizeof other);
  assert_int_equal(reduce_all(&m, NCCL_NUMBER_INT32, NCCL_NUMBER_SUM, N), NCCL_INTERNAL);
  for (int r = 0; r < 2; r++) OK(nccl.free(other[r]));
  memcpy(m.all, kept, sizeof kept);
  nccl = good;
  end(&m);
}

static int set_up(void **st) {
  (void)st;
  if (!plugin_folder_make() || !hs_ok(cuda_driver_fill(&d, symbol, NULL, "the emulated driver")))
    return -1;
  hs_status s = nccl_open(plugin_fake_nccl("ok"), &nccl);
  if (!hs_ok(s)) print_error("%s\n%s\n", s.err->message, s.err->note);
  return hs_ok(s) ? 0 : -1;
}
static int tear_down(void **st) { return (void)st, plugin_folder_remove(), 0; }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opens),      cmocka_unit_test(errors),  cmocka_unit_test(reduces),
      cmocka_unit_test(every_type), cmocka_unit_test(others),  cmocka_unit_test(groups),
      cmocka_unit_test(evaluator),  cmocka_unit_test(refuses), cmocka_unit_test(faults),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
#else
int main(void) { return skip_all("built without LLVM"); }
#endif
