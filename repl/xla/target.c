// target.c — target, devices: which device estimates and XLA's compiler are for. See
// shell/target.h.
//
// A GPU has two sides: the numbers that the estimator computes with, and the description that
// XLA:GPU compiles by. Those of the table have both (devices.def and gpus.def in profiler/model); a
// file in XLA's own format gives both too.
#include <unistd.h>

#include "backends/gpu/target.h"
#include "profiler/model/gpu.h"
#include "repl/cmd/cmd.h"
#include "repl/shell/target.h"

static void device_row(repl_cmd *c, repl_json *list, const prof_device *d) {
  char a[32], b[32], m[32], l[32];
  hs_buf text = {0};
  bool compiles =
      d == &c->s->target_own ? c->s->target_text != NULL : prof_gpu_text(d->name, &text);
  hs_buf_free(&text);
  if (!c->doc)
    repl_say(c->out, "%c %-8s %-28s %12s/s f32  %9s/s  %9s  launch %s%s\n",
             d == c->s->target ? '*' : ' ', d->name, d->summary, repl_flops(a, d->flops_f32),
             repl_bytes(b, d->bandwidth), repl_bytes(m, (double)d->memory_bytes),
             repl_time(l, d->launch_s), compiles ? "  xla" : "");
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", d->name);
  repl_json_str(j, "summary", d->summary);
  repl_json_num(j, "flops_f32", d->flops_f32);
  repl_json_num(j, "flops_bf16", d->flops_bf16);
  repl_json_num(j, "flops_f64", d->flops_f64);
  repl_json_num(j, "bandwidth", d->bandwidth);
  repl_json_str(j, "link", d->link);
  repl_json_num(j, "link_bandwidth", d->link_bandwidth);
  repl_json_bool(j, "calibrated", prof_device_is_calibrated(d));
  repl_json_int(j, "memory_bytes", d->memory_bytes);
  repl_json_bool(j, "xla_compiles_for_it", compiles);
  repl_json_bool(j, "current", d == c->s->target);
}

static void say_devices(repl_cmd *c) {
  repl_json *list = repl_json_array(c->doc, "devices");
  for (u32 k = 0; k < prof_device_count; k++) {
    const prof_device *d = &prof_devices[k];
    device_row(c, list, d->family == PROF_CPU ? repl_here(c->s) : d);
  }
  if (c->s->target == &c->s->target_own) device_row(c, list, c->s->target);
  if (!c->doc)
    repl_say(
        c->out,
        "(xla: target NAME, then xla module, kernels, ptx, memory compile for it; it need not be "
        "installed)\n");
}

hs_status cmd_devices(repl_cmd *c) {
  say_devices(c);
  return HS_GOOD;
}

// The session's description is replaced when all of the new one is known to be good. What `backend
// pjrt --for` named before no longer counts.
static void take_target(repl_session *s, const prof_device *d, hs_buf *text) {
  hs_free(s->plugin_target);
  s->plugin_target = NULL;
  hs_free(s->target_text);
  s->target_text = text->n ? hs_strdup(hs_buf_cstr(text)) : NULL;
  s->target = d;
  s->plugin_epoch++;
}

static hs_status target_from_file(repl_cmd *c, const char *path) {
  hs_buf text = {0};
  hs_arena names = {0};
  prof_device d;
  hs_status s = repl_read_device(path, &names, &text, &d);
  if (hs_ok(s)) {
    hs_arena_free(&c->s->target_names);
    c->s->target_names = names;
    c->s->target_own = d;
    take_target(c->s, &c->s->target_own, &text);
  } else hs_arena_free(&names);
  hs_buf_free(&text);
  return s;
}

static hs_status choose_target(repl_cmd *c, const char *name) {
  if (repl_is_device_file(name)) return target_from_file(c, name);
  const prof_device *d;
  const gpu_target *t = gpu_target_find(name);  // sm_90, too
  HS_TRY(repl_find_device(c, t ? t->name : name, &d));
  hs_buf text = {0};
  prof_gpu_text(d->name, &text);
  take_target(c->s, d, &text);
  hs_buf_free(&text);
  return HS_GOOD;
}

hs_status cmd_target(repl_cmd *c) {
  const char *name = repl_arg(c, 0);
  if (name && strcmp(name, "list") == 0) {
    say_devices(c);
    return HS_GOOD;
  }
  if (name) HS_TRY(choose_target(c, name));
  if (!c->s->target) return hs_fail(HS_E_USAGE, "target: no device is chosen");
  device_row(c, repl_json_array(c->doc, "devices"), c->s->target);
  return HS_GOOD;
}
