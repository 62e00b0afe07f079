// plugin.h — worker side: one loaded plug-in, its version, its functions by name, its errors as
// statuses.
#ifndef PJRT_PLUGIN_H
#define PJRT_PLUGIN_H

#include "backends/pjrt/api.h"
#include "core/base/diag.h"

// Older tables lack calls that hlosh needs, or take structs of other layouts.
enum { PJ_MAJOR = 0, PJ_OLDEST_MINOR = 40 };

typedef struct pj_plugin {
  const char *path;  // borrowed
  void *so;
  const pj_api *api;
  size_t functions, slots;  // entries of its table: those named in functions.def, all of them
} pj_plugin;

// Loads the file, checks version, table and the functions that nothing works without, and
// initializes it. Errors name the file and what is wrong with it.
hs_status pj_load(const char *path, pj_plugin *out);
// The function, or NULL when this plug-in lacks it.
static inline pj_call *pj_find(const pj_plugin *p, pj_fn f) {
  return f < p->functions ? (pj_call *)(uintptr_t)p->api->fn[f] : NULL;
}
// Calls it. E_UNSUPPORTED when the plug-in lacks it or says that it is not implemented; otherwise
// its error as `code`.
hs_status pj_do(const pj_plugin *, hs_code code, pj_fn, void *args);
// An error that a call returned (NULL: ok), destroyed here.
hs_status pj_take_error(const pj_plugin *, hs_code code, pj_fn, pj_error *);
// Waits for an event and destroys it; NULL is done.
hs_status pj_await(const pj_plugin *, hs_code code, pj_event *);
const pj_extension *pj_find_extension(const pj_plugin *, int type);  // NULL when it has none
const char *pj_extension_name(int type);
// The HloModuleProto in the reply of OptimizedProgram; empty for formats without one. Borrowed.
hs_str pj_module_bytes(hs_str format, hs_str code);

#endif
