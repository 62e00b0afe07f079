// modules.h — what unit tests of modules and passes share: the context all tests of a program
// work in, modules from text, and a pipeline run with everything verified.
#ifndef TESTS_UNIT_MODULES_H
#define TESTS_UNIT_MODULES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/text/text.h"
#include "passes/passes.h"

static hlo_ctx *ctx;

static inline int open_context(void **state) {
  (void)state;
  ctx = hlo_ctx_new();
  return 0;
}

static inline int close_context(void **state) {
  (void)state;
  hlo_ctx_free(ctx);
  return 0;
}

static inline void expect_good(hs_status s, const char *of) {
  if (hs_ok(s)) return;
  hs_buf b = {0};
  hs_status_render(s, &b, false);
  fail_msg("%s: %s", of, hs_buf_cstr(&b));
}

static inline hlo_module *parse(const char *text) {
  hlo_module *m = NULL;
  expect_good(hlo_parse(ctx, text, strlen(text), NULL, &m), "module");
  return m;
}

// Whether the module's text has a part; says what is missing when it has not.
static inline bool says(const hlo_module *m, const char *part) {
  hs_buf b = {0};
  const hlo_print_options o = hlo_print_default();
  hlo_print_module(&b, m, &o);
  bool yes = strstr(hs_buf_cstr(&b), part) != NULL;
  if (!yes) print_error("no %s in\n%s\n", part, hs_buf_cstr(&b));
  hs_buf_free(&b);
  return yes;
}

// Whether it changed the text.
static inline bool run_verified(hlo_module *m, const char *pipeline) {
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  u64 before = hlo_text_hash(m);
  expect_good(pipeline_run(m, pipeline, &o, NULL), pipeline);
  return before != hlo_text_hash(m);
}

#endif
