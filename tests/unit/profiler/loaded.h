// loaded.h: what unit tests of the estimator share: a module from text with its costs, and the work
// of an instruction of it.
#ifndef TESTS_UNIT_PROFILER_LOADED_H
#define TESTS_UNIT_PROFILER_LOADED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/text/text.h"
#include "profiler/model/price.h"

typedef struct loaded {
  hlo_ctx *ctx;
  hlo_module *m;
  hlo_cost_table cost;
} loaded;

static inline loaded load(const char *text) {
  loaded x = {.ctx = hlo_ctx_new()};
  assert_true(hs_ok(hlo_parse(x.ctx, text, strlen(text), NULL, &x.m)));
  assert_true(hs_ok(hlo_cost_module(x.m, &x.cost)));
  return x;
}

static inline void unload(loaded *x) {
  hlo_cost_free(&x->cost);
  hlo_module_free(x->m);
  hlo_ctx_free(x->ctx);
}

static inline prof_work work_of(const loaded *x, const char *name) {
  const hlo_instr *i = hlo_find_instr(x->m, name);
  assert_non_null(i);
  prof_work w;
  prof_count_work(i, &x->cost.by_id[i->id], &w);
  return w;
}

#endif
