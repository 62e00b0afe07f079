// plugins.h — what the tests of the pjrt backend share: a context and a folder of plug-ins, and
// modules that several of them run.
#ifndef TESTS_UNIT_BACKENDS_PLUGINS_H
#define TESTS_UNIT_BACKENDS_PLUGINS_H

#include "tests/harness/plugin.h"
#include "tests/unit/modules.h"

static const char add_one[] =
    "HloModule add_one\n"
    "ENTRY e { p = f32[4] parameter(0) c = f32[] constant(1) b = f32[4] broadcast(c), "
    "dimensions={} ROOT r = f32[4] add(p, b) }\n";

static const char tuples[] =
    "HloModule tuples, entry_computation_layout={((f32[2]{0}, (s32[], f32[3]{0})), "
    "f32[2]{0})->((f32[2]{0}, s32[]), (f32[3]{0}))}\n"
    "ENTRY e { p = (f32[2], (s32[], f32[3])) parameter(0) q = f32[2] parameter(1) a = f32[2] "
    "get-tuple-element(p), index=0\n"
    "  i = (s32[], f32[3]) get-tuple-element(p), index=1 n = s32[] get-tuple-element(i), index=0 f "
    "= f32[3] get-tuple-element(i), index=1\n"
    "  s = f32[2] add(a, q) t = (f32[2], s32[]) tuple(s, n) u = (f32[3]) tuple(f) ROOT r = "
    "((f32[2], s32[]), (f32[3])) tuple(t, u) }\n";

static inline int open_plugins(void **state) {
  open_context(state);
  return plugin_folder_make() ? 0 : 1;
}

static inline int close_plugins(void **state) {
  close_context(state);
  plugin_folder_remove();
  return 0;
}

#endif
