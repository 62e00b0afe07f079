// cupti.c — records of CUPTI (tests/data/cupti_records.bin, made by tests/gpu/cupti_fixture.c
// with NVIDIA's headers) replayed through a library in this file: decoded, joined to the steps that
// caused them, what is missing counted; errors named.
#include <stdio.h>
#include <stdlib.h>

#include "backends/gpu/cupti/cupti.h"
#include "tests/unit/modules.h"

// ---- the library: gives the file's records, once ------------------------------------------------

static hs_buf file;
static cupti_requested *request;
static cupti_completed *complete;
static u64 began = 1700000000000000000u;
static size_t lose;  // records that it says it dropped
static int refuse;   // the error of enabling kernels; 0: none
static u32 enabled;

static cupti_result timestamp(u64 *ns) { return *ns = began, CUPTI_OK; }
static cupti_result callbacks(cupti_requested *r, cupti_completed *c) {
  request = r, complete = c;
  return CUPTI_OK;
}
static cupti_result enable(int kind) {
  if (kind == CUPTI_KERNEL && refuse) return refuse;
  enabled++;
  return CUPTI_OK;
}
static cupti_result disable(int kind) { return enabled -= enabled > 0, (void)kind, CUPTI_OK; }
static cupti_result dropped(void *context, u32 stream, size_t *n) {
  (void)context, (void)stream;
  *n = lose;
  return CUPTI_OK;
}
static cupti_result push(int kind, u64 id) { return (void)kind, (void)id, CUPTI_OK; }
static cupti_result pop(int kind, u64 *id) { return (void)kind, *id = 0, CUPTI_OK; }

// A buffer holds records one after the other, each with its size before it.
static cupti_result next(u8 *buffer, size_t valid, void **record) {
  u8 *at = buffer;
  if (*record) {
    u32 n;
    memcpy(&n, (u8 *)*record - sizeof n, sizeof n);
    at = (u8 *)*record + n;
  }
  if (at + sizeof(u32) >= buffer + valid) return CUPTI_MAX_LIMIT;
  *record = at + sizeof(u32);
  return CUPTI_OK;
}

static bool ready;
static cupti_result flush(u32 flags) {
  assert_int_equal(flags, CUPTI_FLUSH_FORCED);
  if (!ready) return CUPTI_OK;
  ready = false;
  u8 *buffer;
  size_t size, most, at = 0;
  u32 count;
  request(&buffer, &size, &most);
  memcpy(&count, file.p, sizeof count);
  const char *from = file.p + sizeof count;
  for (u32 k = 0; k < count; k++) {
    u32 n;
    memcpy(&n, from + at, sizeof n);
    at += sizeof n + n;
  }
  assert_true(at <= size);
  memcpy(buffer, from, at);
  for (size_t k = 0; k < at;) {  // names: offsets become pointers
    u32 n, kind;
    u64 name;
    memcpy(&n, buffer + k, sizeof n);
    memcpy(&kind, buffer + k + 4, sizeof kind);
    if (kind == CUPTI_KERNEL) {
      memcpy(&name, buffer + k + 4 + 104, sizeof name);
      const char *text = from + at + name - 1;
      memcpy(buffer + k + 4 + 104, &text, sizeof text);
    }
    k += sizeof n + n;
  }
  complete(NULL, 0, buffer, size, at);
  return CUPTI_OK;
}

static const cupti_api api = {.timestamp = timestamp,
                              .callbacks = callbacks,
                              .enable = enable,
                              .disable = disable,
                              .flush = flush,
                              .next = next,
                              .dropped = dropped,
                              .push = push,
                              .pop = pop};

// ---- tests --------------------------------------------------------------------------------------

static void replay(void **st) {
  (void)st;
  cupti_trace t;
  cupti_span span[2];
  expect_good(cupti_trace_begin(&api, &t), "begin");
  expect_good(cupti_trace_mark(&t), "mark");
  assert_int_equal(t.began, began);
  ready = true, lose = 3;
  expect_good(cupti_trace_take(&t), "take");
  assert_int_equal(t.dropped, 3);
  assert_int_equal(t.overhead, 100);
  assert_int_equal(t.all.n, 11);  // of 13: neither CUPTI's own time nor the call of the driver
  const cupti_activity *k = &t.all.v[1];
  assert_int_equal(k->kind, CUPTI_KERNEL);
  assert_string_equal(k->name, "k0");
  assert_int_equal(k->correlation, 101);
  assert_int_equal(k->end - k->begin, 5000);
  assert_int_equal(k->grid, 132);
  assert_int_equal(k->block, 256);
  assert_int_equal(k->registers, 24);
  assert_int_equal(k->shared, 4608);
  const cupti_activity *c = &t.all.v[4];
  assert_int_equal(c->kind, CUPTI_COPY);
  assert_int_equal(c->bytes, 4096);
  assert_int_equal(cupti_join(&t, false, 2, span), 1);  // somebody else's
  assert_int_equal(span[0].begin_ns, 1000);
  assert_int_equal(span[0].busy_ns, 5500);
  assert_int_equal(span[0].records, 2);
  assert_int_equal(span[1].begin_ns, 7300);
  assert_int_equal(span[1].busy_ns, 2000);
  cupti_join(&t, true, 2, span);  // with the memset
  assert_int_equal(span[1].begin_ns, 7100);
  assert_int_equal(span[1].busy_ns, 2100);
  // a clock that was read late: nothing lies before the run
  t.began += 2000;
  cupti_join(&t, false, 2, span);
  assert_int_equal(span[0].begin_ns, 0);
  expect_good(cupti_trace_mark(&t), "mark");
  assert_int_equal(t.all.n, 0);
  assert_int_equal(t.dropped, 0);
  cupti_trace_end(&t);
  lose = 0;
}

static void refused(void **st) {
  (void)st;
  static const struct {
    int error;
    const char *message, *advice;
  } cases[] = {
      {35, "CUPTI error 35 (INSUFFICIENT_PRIVILEGES)", "NVreg_RestrictProfilingToAdminUsers=0"},
      {39, "CUPTI error 39 (MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)",
       "another profiler is in this process"},
      {4711, "CUPTI error 4711 (UNKNOWN)", "no reason"},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    cupti_trace t;
    refuse = cases[k].error;
    hs_status s = cupti_trace_begin(&api, &t);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_DEVICE);
    assert_non_null(strstr(s.err->message, cases[k].message));
    assert_non_null(strstr(s.err->note, cases[k].advice));
    hs_status_drop(s);
  }
  refuse = 0;
  cupti_api none;
  hs_status s = cupti_open("/nowhere/libcupti.so", &none);
  assert_int_equal(s.err->code, HS_E_NOT_BUILT);
  assert_non_null(strstr(s.err->note, "/nowhere/libcupti.so"));
  hs_status_drop(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(replay), cmocka_unit_test(refused)};
  FILE *f = fopen("tests/data/cupti_records.bin", "rb");
  char part[4096];
  for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;) hs_buf_put(&file, part, n);
  if (!f || fclose(f) != 0 || file.n < sizeof(u32)) return 1;
  int failed = cmocka_run_group_tests_name("gpu_cupti", tests, NULL, NULL);
  hs_buf_free(&file);
  return failed;
}
