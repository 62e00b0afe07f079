// table.c — the table of functions that GetPjrtApi gives. Every slot of version 0.81 has a
// function: a caller trusts the version and looks into no slot first. What functions.def says of
// the arguments is looked at here, before the function sees them.
#include "plugin/plugin.h"

#define FN(name)                                                                      \
  static pj_error *absent_##name(void *args) {                                        \
    (void)args;                                                                       \
    return plug_fail(PJ_UNIMPLEMENTED, "PJRT_%s is not implemented by hlosh", #name); \
  }
#include "backends/pjrt/functions.def"
#undef FN

#define PLUG(name, type, last, kind)                                       \
  static pj_error *enter_##name(void *args) {                              \
    if (!plug_sound(args, PJ_SIZE(type, last), kind))                      \
      return plug_unsound("PJRT_" #name, args, PJ_SIZE(type, last), kind); \
    return plug_##name(args);                                              \
  }
#define PLUG_VOID(name, type, last, kind)                               \
  static void enter_##name(void *args) {                                \
    if (plug_sound(args, PJ_SIZE(type, last), kind)) plug_##name(args); \
  }
#include "plugin/functions.def"
#undef PLUG
#undef PLUG_VOID

static pj_api table = {
    .struct_size = sizeof table,
    .version = {.struct_size = sizeof(pj_version),
                .major = PLUG_API_MAJOR,
                .minor = PLUG_API_MINOR},
};

static void fill(void) {
  pj_extension *const ext[] = {plug_ffi_extension(), plug_layouts_extension(),
                               plug_profiler_extension()};
  for (size_t k = 0; k + 1 < HS_COUNT(ext); k++) ext[k]->next = ext[k + 1];
  table.ext = ext[0];
#define FN(name) table.fn[PJ_##name] = (void *)(uintptr_t)absent_##name;
#include "backends/pjrt/functions.def"
#undef FN
#define PLUG(name, type, last, kind) table.fn[PJ_##name] = (void *)(uintptr_t)enter_##name;
#define PLUG_VOID PLUG
#include "plugin/functions.def"
#undef PLUG
#undef PLUG_VOID
}

__attribute__((visibility("default"))) const pj_api *GetPjrtApi(void);
const pj_api *GetPjrtApi(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill);
  return &table;
}
