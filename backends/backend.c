// backend.c — the table of backends and the questions that are the same for all of them.
//
// A backend is a `const backend backend_<symbol>` in its own folder; backends.def lists them and
// this file collects them. Nothing here knows what a particular backend does.
#include "backends/backend.h"

#include <math.h>

#define BACKEND(symbol) extern const backend backend_##symbol;
#include "backends/backends.def"
#undef BACKEND

const backend *const backend_table[] = {
#define BACKEND(symbol) &backend_##symbol,
#include "backends/backends.def"
#undef BACKEND
};
const u32 backend_count = (u32)HS_COUNT(backend_table);
const backend_run_options backend_once = {.min_runs = 1, .max_runs = 1, .want_outputs = true};

double backend_power_error(const backend_power *p) {
  return p->seconds > 0 ? BACKEND_POWER_LATE / p->seconds : INFINITY;
}

double backend_power_of_run(const backend_power *p) {
  bool known = p->runs && p->joules > 0 && backend_power_error(p) <= 0.25;
  return known ? p->joules / p->runs : -1;
}

const backend *backend_find(const char *name) {
  for (u32 k = 0; k < backend_count; k++)
    if (strcmp(backend_table[k]->name, name) == 0) return backend_table[k];
  return NULL;
}

const backend *backend_with(u32 caps) {
  for (u32 k = 0; k < backend_count; k++)
    if (backend_has(backend_table[k], caps)) return backend_table[k];
  return NULL;
}

hs_status backend_too_nested(void) {
  return hs_fail(HS_E_LIMIT, "computations are nested more than %d deep", BACKEND_MOST_NESTED);
}

// Checks a computation and those that it executes instruction by instruction (loop bodies,
// branches, calls). Computations that belong to one instruction (a fusion's body, a comparator) are
// checked by supports(). `visited` is indexed by computation id.
static hs_status check_computation(const backend *b, const hlo_computation *c, u32 depth,
                                   u8 *visited) {
  if (visited[c->id]) return HS_GOOD;
  if (depth > BACKEND_MOST_NESTED) return backend_too_nested();
  visited[c->id] = 1;
  hlo_for_each_instr(i, c) {
    HS_TRY(hs_poll());
    hs_buf why = {0};
    if (!b->supports(i, &why)) {
      hs_status s = hs_fail_subject(
          HS_E_UNSUPPORTED, hlo_op_text(i->opcode), "%s",
          why.n ? hs_buf_cstr(&why)
                : hs_buf_cstr(
                      (hs_buf_printf(&why, "unsupported: %s", hlo_op_text(i->opcode)), &why)));
      s = hs_with_note(s, "instruction %%%s, backend %s", i->name, b->name);
      if (i->opcode == HLO_CUSTOM_CALL)
        s = hs_with_note(s, "`customcall load LIB.so` opens a library with its handler; one of "
                            "Python runs in JAX's own process (JAX_PLATFORMS=hlosh,cpu)");
      if (i->opcode == HLO_CUSTOM_CALL && !i->first_use && i != i->parent->root)
        s = hs_with_note(s, "nothing uses it: `delete %s` leaves it out", i->name);
      hs_buf_free(&why);
      return s;
    }
    hs_buf_free(&why);
    if (!hlo_op_has(i->opcode, HLO_F_CONTROL)) continue;
    for (u32 k = 0; k < hlo_ncalled(i); k++)
      HS_TRY(check_computation(b, hlo_called(i, k), depth + 1, visited));
  }
  return HS_GOOD;
}

hs_status backend_check_module(const backend *b, const hlo_module *m) {
  if (!m->entry) return hs_fail(HS_E_VERIFY, "the module has no entry computation");
  u8 *visited = hs_calloc(m->next_comp_id + 1, 1);
  hs_status s = check_computation(b, m->entry, 0, visited);
  hs_free(visited);
  return s;
}

void backend_result_free(backend_result *r) {
  if (!r) return;
  hlo_literal_unref(r->outputs);
  hs_free(r->timing.samples_ms);
  prof_recording_free(r->timing.kernels);
  *r = (backend_result){0};
}

hs_status backend_run_once(const backend *be, const hlo_module *m, const backend_options *o,
                           u32 nargs, hlo_literal *const *args, hlo_literal **out) {
  backend_exe *exe;
  *out = NULL;
  HS_TRY(be->compile(m, o, &exe));
  backend_result r = {0};
  hs_status s = be->run(exe, nargs, args, &backend_once, &r);
  if (hs_ok(s)) *out = hlo_literal_ref(r.outputs);
  backend_result_free(&r);
  be->release(exe);
  return s;
}

const char *backend_confined(const backend *b, sandbox_mode mode) {
  if (backend_has(b, BACKEND_EVALUATOR)) return NULL;
  if (backend_has(b, BACKEND_PLUGIN)) return "not in a sandbox: drivers of plug-ins need devices";
  if (backend_has(b, BACKEND_DEVICE))
    return "not in a sandbox: the driver opens /dev/nvidia* and works in the same process";
  if (mode == SANDBOX_OFF) return "not in a sandbox: set sandbox off";
  const sandbox_support has = sandbox_probe();
  if (SANDBOX_SANITIZED) return "not in a sandbox: a build with a sanitizer";
  if (has.no_seccomp && has.no_landlock) return "not in a sandbox: the kernel has none";
  if (has.no_seccomp) return "in a sandbox that refuses files, but no system calls";
  if (has.no_landlock) return "in a sandbox that refuses system calls, but not to read files";
  return "in the sandbox";
}
