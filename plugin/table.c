// table.c — the table of functions that GetPjrtApi gives. Every slot of version 0.81 has a
// function: a caller trusts the version and looks into no slot first.
#include "plugin/plugin.h"

#define FN(name)                                                                      \
  static pj_error *absent_##name(void *args) {                                        \
    (void)args;                                                                       \
    return plug_fail(PJ_UNIMPLEMENTED, "PJRT_%s is not implemented by hlosh", #name); \
  }
#include "backends/pjrt/functions.def"
#undef FN

static pj_api table = {
    .struct_size = sizeof table,
    .version = {.struct_size = sizeof(pj_version),
                .major = PLUG_API_MAJOR,
                .minor = PLUG_API_MINOR},
};

static void fill(void) {
#define FN(name) table.fn[PJ_##name] = (void *)(uintptr_t)absent_##name;
#include "backends/pjrt/functions.def"
#undef FN
#define PLUG(name) table.fn[PJ_##name] = (void *)(uintptr_t)plug_##name;
#include "plugin/functions.def"
#undef PLUG
}

__attribute__((visibility("default"))) const pj_api *GetPjrtApi(void);
const pj_api *GetPjrtApi(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill);
  return &table;
}
