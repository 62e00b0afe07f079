// target.c — the session's target: finding a device, and compiling with XLA for it. See target.h.
#include "repl/shell/target.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/jax/jax.h"
#include "profiler/model/calibration.h"
#include "profiler/model/gpu.h"
#include "repl/formats/files.h"
#include "repl/shell/exec.h"

static hs_status python_name(const char *python, char out[48]) {
  char *path;
  HS_TRY(jax_find(python, &path));
  jax_pythons v;
  jax_find_all(&v);
  snprintf(out, 48, "jax");
  for (size_t k = 0; k < v.n; k++)
    if (v.v[k].jaxlib && strcmp(v.v[k].path, path) == 0)
      snprintf(out, 48, "jax %.20s", v.v[k].jaxlib);
  jax_pythons_free(&v);
  hs_free(path);
  return HS_GOOD;
}

hs_status repl_calibration_name(const backend *be, const char *plugin, const char *python,
                                char out[48]) {
  snprintf(out, 48, "cpu");
  if (!be || !backend_has(be, BACKEND_XLA)) return HS_GOOD;
  if (backend_has(be, BACKEND_PYTHON)) return python_name(python, out);
  char *path;
  HS_TRY(pjrt_find(plugin, &path));
  struct stat st = {0};
  hs_status s = stat(path, &st) == 0 ? HS_GOOD : hs_fail_errno(HS_E_IO, path);
  u64 which = hs_mix((u64)st.st_size, (u64)st.st_mtime);
  const char *slash = strrchr(path, '/');
  snprintf(out, 48, "%.4s %.18s %08x", be->name, slash ? slash + 1 : path, (u32)which);
  hs_free(path);
  return s;
}

static hs_status load(const char *of, prof_calibration *c, bool *found) {
  char key[192];
  prof_calibration_key(key, of, HLOSH_VERSION, (u32)HS_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1));
  return prof_calibration_load(key, c, found);
}

void repl_load_calibration(repl_session *s) {
  bool found = false;
  prof_calibration *c = hs_calloc(1, sizeof *c);
  s->calibration_be = s->be;
  s->calibration_epoch = s->plugin_epoch;
  hs_status named = repl_calibration_name(s->be, s->plugin, s->python, s->calibration_of);
  bool own = hs_ok(named) && strcmp(s->calibration_of, "cpu") != 0;
  hs_status_drop(named);
  hs_status st = own ? load(s->calibration_of, c, &found) : HS_GOOD;
  if (hs_ok(st) && !found) st = load("cpu", c, &found);
  hs_free(s->calibration_problem);
  s->calibration_problem = NULL;
  if (hs_ok(st) && found) {
    hs_free(s->calibration);
    s->calibration = c;
    s->here = prof_device_calibrated(c);
    return;
  }
  if (!hs_ok(st)) s->calibration_problem = hs_strdup(st.err->message);
  hs_status_drop(st);
  hs_free(c);
  if (!s->calibration) s->here = *prof_device_find("cpu");
}

const prof_device *repl_here(repl_session *s) {
  if (s->calibration_be != s->be || s->calibration_epoch != s->plugin_epoch)
    repl_load_calibration(s);
  u32 most = s->here.measured->threads;
  s->here.threads = s->set.threads ? HS_MIN(s->set.threads, most) : most;
  return &s->here;
}

const char *repl_device_origin(const prof_device *d) {
  return prof_device_is_calibrated(d) ? "calibrated"
         : d->measured                ? "typical, not measured"
                                      : "data sheet";
}

const char *repl_device_label(const prof_device *d) {
  return d->measured && !prof_device_is_calibrated(d) ? "a typical cpu" : d->name;
}

bool repl_is_device_file(const char *name) {
  return strchr(name, '/') || (!prof_device_find(name) && access(name, R_OK) == 0);
}

hs_status repl_read_device(const char *path, hs_arena *names, hs_buf *text, prof_device *out) {
  HS_TRY(repl_read_file(path, (size_t)1 << 20, text));
  HS_TRY(hs_with_note(prof_gpu_device(hs_buf_cstr(text), names, out), "in %s", path));
  const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  out->name = hs_arena_strndup(names, base, strcspn(base, "."));
  return HS_GOOD;
}

hs_status repl_find_device(const repl_cmd *c, const char *name, const prof_device **out) {
  if (repl_is_device_file(name)) {
    prof_device *d = HS_NEW(c->scratch, prof_device);
    hs_buf text = {0};
    hs_status s = repl_read_device(name, c->scratch, &text, d);
    hs_buf_free(&text);
    *out = d;
    return s;
  }
  *out = prof_device_find(name);
  if (*out && (*out)->family == PROF_CPU) *out = repl_here(c->s);
  if (*out) return HS_GOOD;
  const char *names[64];
  u32 n = HS_MIN(prof_device_count, (u32)HS_COUNT(names));
  for (u32 k = 0; k < n; k++) names[k] = prof_devices[k].name;
  const char *near = hs_nearest(name, names, n);
  hs_status s = hs_fail(HS_E_USAGE, "%s: there is no device %s", c->command->name, name);
  return near ? hs_with_note(s, "did you mean %s?", near) : hs_with_note(s, "devices lists them");
}

bool repl_xla_for_gpu(const repl_session *s) { return s->plugin_target || s->target_text; }

// A plug-in for GPUs that the user has chosen comes first, then any for GPUs.
hs_status repl_xla_options(repl_session *s, backend_options *out, char **plugin) {
  *out = repl_backend_options(s);
  *plugin = NULL;
  if (s->plugin_target || !s->target_text) return HS_GOOD;
  HS_TRY(pjrt_find_gpu(s->plugin, plugin));
  out->plugin = *plugin;
  out->target = s->target_text;
  return HS_GOOD;
}

void repl_say_gpu_target(repl_cmd *c, const pjrt_result *r) {
  if (!repl_xla_for_gpu(c->s)) return;
  const char *name = c->s->plugin_target ? "the GPU of --for" : c->s->target->summary;
  if (!c->doc)
    repl_say(
        c->out,
        "for %s, which is not installed: fusions, layouts and memory are exact, the algorithms of "
        "products and convolutions are not tuned\n",
        name);
  repl_json *j = repl_json_object(c->doc, "target");
  repl_json_str(j, "name", name);
  repl_json_bool(j, "present", false);
  repl_json_bool(j, "tuned", false);
  if (r->dropped) {
    if (!c->doc)
      repl_say(c->out, "  (fields of its description that the plug-in does not know: %s)\n",
               r->dropped);
    repl_json_str(j, "dropped", r->dropped);
  }
  if (*r->refused) {
    if (!c->doc)
      repl_say(c->out, "  (implemented on the host only; the program would fail on the GPU: %s)\n",
               r->refused);
    repl_json_str(j, "host_only", r->refused);
  }
}
