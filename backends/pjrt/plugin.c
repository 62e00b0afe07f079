// plugin.c — loads a plug-in and calls it. See plugin.h.
//
// Everything about a plug-in that can be checked is checked: a table that is too short for its
// first functions, another major version and missing functions are each an error, not a crash. What
// cannot be checked (an invalid pointer) crashes this process, which is why it is not the shell.
#include "backends/pjrt/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>

#include "core/types/dtype.h"
#include "core/proto/wire.h"

static const char *const fn_names[] = {
#define FN(name) "PJRT_" #name,
#include "backends/pjrt/functions.def"
#undef FN
};

static const char *fn_name(pj_fn f) { return f < PJ_FN_COUNT ? fn_names[f] : "?"; }

const char *pj_extension_name(int type) {
  static const char *const names[PJ_EXT_COUNT] = {"Gpu_Custom_Call",
                                                  "Profiler",
                                                  "Custom_Partitioner",
                                                  "Stream",
                                                  "Layouts",
                                                  "FFI",
                                                  "MemoryDescriptions",
                                                  "Triton",
                                                  "RawBuffer",
                                                  "PhaseCompile",
                                                  "Example",
                                                  "Unknown",
                                                  "CrossHostTransfers",
                                                  "ExecutableMetadata",
                                                  "Callback",
                                                  "HostAllocator",
                                                  "TpuTopology",
                                                  "TpuExecutable",
                                                  "Megascale",
                                                  "Shardings",
                                                  "AbiVersion",
                                                  "Collectives",
                                                  "MultiSlice",
                                                  "HostMemoryAllocator",
                                                  "XlaTransform"};
  return type >= 0 && type < PJ_EXT_COUNT ? names[type] : "?";
}

const pj_extension *pj_find_extension(const pj_plugin *p, int type) {
  for (const pj_extension *e = p->api->ext; e; e = e->next)
    if (e->type == type) return e;
  return NULL;
}

// "hlo_with_config" holds the module in field 1; "hlo" is the module.
hs_str pj_module_bytes(hs_str format, hs_str code) {
  pb all = {(const u8 *)code.p, (const u8 *)code.p + code.n, false};
  if (hs_str_eq(format, HS_STR("hlo_with_config"))) return pb_str(all, 1);
  return hs_str_eq(format, HS_STR("hlo")) ? code : (hs_str){0};
}

int pj_type(int t) { return t >= 0 && t < HLO_DTYPE_COUNT ? hlo_dtypes[t].pjrt : 0; }

// ---- errors -------------------------------------------------------------------------------------

static const char *code_name(int code) {
  static const char *const names[] = {"ok",
                                      "cancelled",
                                      "unknown",
                                      "invalid argument",
                                      "deadline exceeded",
                                      "not found",
                                      "already exists",
                                      "permission denied",
                                      "resource exhausted",
                                      "failed precondition",
                                      "aborted",
                                      "out of range",
                                      "unimplemented",
                                      "internal",
                                      "unavailable",
                                      "data loss",
                                      "unauthenticated"};
  return code >= 0 && code < (int)HS_COUNT(names) ? names[code] : "code out of range";
}

hs_status pj_take_error(const pj_plugin *p, hs_code code, pj_fn f, pj_error *e) {
  if (!e) return HS_GOOD;
  pj_error_message m = PJ_ARGS(pj_error_message, n, .error = e);
  pj_error_code c = PJ_ARGS(pj_error_code, code, .error = e, .code = PJ_UNKNOWN);
  ((void (*)(void *))(uintptr_t)p->api->fn[PJ_Error_Message])(&m);
  pj_call *get = pj_find(p, PJ_Error_GetCode);
  if (get && get(&c)) c.code = PJ_UNKNOWN;
  size_t n = m.text ? HS_MIN(m.n, (size_t)4000) : 0;
  hs_code as = c.code == PJ_UNIMPLEMENTED        ? HS_E_UNSUPPORTED
               : c.code == PJ_RESOURCE_EXHAUSTED ? HS_E_NO_MEMORY
                                                 : code;
  hs_status s = hs_fail(as, "%.*s", (int)n, n ? m.text : "");
  s = hs_with_note(s, "%s answered code %d (%s)", fn_name(f), c.code, code_name(c.code));
  pj_error_destroy d = PJ_ARGS(pj_error_destroy, error, .error = e);
  ((void (*)(void *))(uintptr_t)p->api->fn[PJ_Error_Destroy])(&d);
  return s;
}

hs_status pj_do(const pj_plugin *p, hs_code code, pj_fn f, void *args) {
  pj_call *call = pj_find(p, f);
  if (!call)
    return hs_fail(HS_E_UNSUPPORTED, "this plug-in has no %s (PJRT API %d.%d, %zu functions)",
                   fn_name(f), p->api->version.major, p->api->version.minor, p->slots);
  return pj_take_error(p, code, f, call(args));
}

hs_status pj_await(const pj_plugin *p, hs_code code, pj_event *e) {
  if (!e) return HS_GOOD;
  pj_event_arg a = PJ_ARGS(pj_event_arg, event, .event = e), d = a;
  hs_status s = pj_do(p, code, PJ_Event_Await, &a), gone = pj_do(p, code, PJ_Event_Destroy, &d);
  if (hs_ok(s)) return gone;
  hs_status_drop(gone);
  return s;
}

// ---- loading ------------------------------------------------------------------------------------

static const pj_fn needed[] = {PJ_Error_Destroy, PJ_Error_Message, PJ_Event_Destroy,
                               PJ_Event_Await};

static hs_status check_table(pj_plugin *p) {
  const pj_api *a = p->api;
  if (a->struct_size < offsetof(pj_api, fn))
    return hs_fail(HS_E_WORKER,
                   "%s: its function table says it is %zu bytes long, less than the header of one",
                   p->path, a->struct_size);
  if (a->version.major != PJ_MAJOR || a->version.minor < PJ_OLDEST_MINOR)
    return hs_fail(HS_E_WORKER,
                   "%s speaks PJRT API %d.%d; hlosh speaks %d.%d and newer minor versions", p->path,
                   a->version.major, a->version.minor, PJ_MAJOR, PJ_OLDEST_MINOR);
  p->slots = (a->struct_size - offsetof(pj_api, fn)) / sizeof(void *);
  p->functions = HS_MIN(p->slots, (size_t)PJ_FN_COUNT);
  for (size_t k = 0; k < HS_COUNT(needed); k++)
    if (!pj_find(p, needed[k]))
      return hs_fail(HS_E_WORKER, "%s has no function %s, which is required", p->path,
                     fn_name(needed[k]));
  return HS_GOOD;
}

// dlopen maps a file that is shorter than its headers say, and the process gets SIGBUS at the first
// missing page. Incomplete downloads are common enough for a message. The loader itself refuses
// what is no 64-bit ELF file.
static hs_status check_length(const char *path) {
  FILE *f = fopen(path, "rb");
  Elf64_Ehdr h;
  if (!f) return hs_fail_errno(HS_E_IO, path);
  u64 have = fseek(f, 0, SEEK_END) == 0 ? (u64)ftell(f) : 0, want = 0;
  rewind(f);
  if (fread(&h, sizeof h, 1, f) == 1 && memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 &&
      h.e_ident[EI_CLASS] == ELFCLASS64) {
    want = h.e_shoff + (u64)h.e_shnum * h.e_shentsize;
    Elf64_Phdr p;
    for (u32 k = 0;
         k < h.e_phnum && fseek(f, (long)(h.e_phoff + (u64)k * h.e_phentsize), SEEK_SET) == 0 &&
         fread(&p, sizeof p, 1, f) == 1;
         k++)
      want = HS_MAX(want, p.p_offset + p.p_filesz);
  }
  fclose(f);
  if (want > have)
    return hs_fail(HS_E_WORKER, "%s is cut short: %llu of %llu bytes are there", path,
                   (unsigned long long)have, (unsigned long long)want);
  return HS_GOOD;
}

hs_status pj_load(const char *path, pj_plugin *out) {
  *out = (pj_plugin){.path = path};
  HS_TRY(check_length(path));
  out->so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!out->so) return hs_fail(HS_E_WORKER, "the plug-in cannot be loaded: %s", dlerror());
  void *entry = dlsym(out->so, "GetPjrtApi");
  if (!entry) return hs_fail(HS_E_WORKER, "%s is no PJRT plug-in: it has no GetPjrtApi", path);
  out->api = ((pj_get_api *)(uintptr_t)entry)();
  if (!out->api) return hs_fail(HS_E_WORKER, "%s: GetPjrtApi gives no function table", path);
  HS_TRY(check_table(out));
  pj_initialize init = PJ_ARGS(pj_initialize, ext);
  return pj_find(out, PJ_Plugin_Initialize) ? pj_do(out, HS_E_WORKER, PJ_Plugin_Initialize, &init)
                                            : HS_GOOD;
}
