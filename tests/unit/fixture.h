// fixture.h — a module in a context of its own, for tests that change it: opened before each
// test and freed after it.
#ifndef TESTS_UNIT_FIXTURE_H
#define TESTS_UNIT_FIXTURE_H

#include <stdio.h>
#include <string.h>

#include "core/text/text.h"

typedef struct fixture {
  hlo_ctx *ctx;
  hlo_module *m;
} fixture;

// For the setup function of a test: 0, or -1 when the text is refused.
static inline int fixture_open(void **state, const char *text) {
  fixture *f = hs_calloc(1, sizeof *f);
  f->ctx = hlo_ctx_new();
  hs_status s = hlo_parse(f->ctx, text, strlen(text), NULL, &f->m);
  if (s.err) fprintf(stderr, "%s\n", s.err->message);
  *state = f;
  return s.err ? -1 : 0;
}

static inline int fixture_close(void **state) {
  fixture *f = *state;
  hlo_module_free(f->m);
  hlo_ctx_free(f->ctx);
  hs_free(f);
  return 0;
}

#endif
