// plugin.c — the session's PJRT plug-in. See plugin.h.
//
// Plug-ins do not report the date or commit of their XLA, so its API version and its StableHLO
// version are printed wherever one is named.
#include "repl/shell/plugin.h"

#include <stdlib.h>

#include "backends/pjrt/pjrt.h"
#include "profiler/gpu.h"
#include "repl/shell/exec.h"
#include "repl/shell/target.h"

static void say_plugin(repl_cmd *c, repl_json *list, const pjrt_plugin *p, const char *current) {
  pjrt_about a = {0};
  hs_status s = pjrt_describe(p->path, &a);
  bool now = current && (strcmp(current, p->path) == 0 || strcmp(current, p->name) == 0);
  if (!c->doc && hs_ok(s))
    repl_say(c->out,
             "%c   plug-in %s: PJRT API %d.%d (%u functions), StableHLO %s, from %s\n      %s\n",
             now ? '*' : ' ', p->name, a.major, a.minor, a.functions,
             *a.stablehlo ? a.stablehlo : "not reported", p->from, p->path);
  if (!c->doc && !hs_ok(s))
    repl_say(c->out, "    plug-in %s: %s\n      %s\n", p->name, s.err->message, p->path);
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", p->name);
  repl_json_str(j, "path", p->path);
  repl_json_str(j, "from", p->from);
  repl_json_bool(j, "usable", hs_ok(s));
  if (hs_ok(s)) {
    char *api = hs_format("%d.%d", a.major, a.minor);
    repl_json_str(j, "api", api);
    repl_json_int(j, "functions", a.functions);
    repl_json_str(j, "stablehlo", a.stablehlo);
    repl_json_str(j, "stablehlo_minimum", a.stablehlo_minimum);
    repl_json_str(j, "attributes", a.attributes);
    repl_json_str(j, "extensions", a.extensions);
    hs_free(api);
  } else repl_json_str(j, "reason", s.err->message);
  hs_status_drop(s);
  pjrt_about_free(&a);
}

void repl_say_plugins(repl_cmd *c) {
  pjrt_plugins v;
  pjrt_find_all(&v);
  bool listed = !c->s->plugin || !strchr(c->s->plugin, '/');
  for (size_t k = 0; k < v.n; k++)
    listed |= strcmp(v.v[k].path, c->s->plugin ? c->s->plugin : "") == 0;
  if (!listed) {
    pjrt_plugin own = {.name = hs_strdup("(by path)"),
                       .path = hs_strdup(c->s->plugin),
                       .from = hs_strdup("backend pjrt")};
    hs_vec_push(&v, own);
  }
  repl_json *list = repl_json_array(c->doc, "plugins");
  for (size_t k = 0; k < v.n; k++) say_plugin(c, list, &v.v[k], c->s->plugin);
  pjrt_plugins_free(&v);
}

hs_status repl_backend_usable(const repl_session *s, const backend *b) {
  return s->plugin && backend_has(b, BACKEND_PLUGIN) ? HS_GOOD : b->probe();
}

hs_status repl_choose_plugin(repl_cmd *c, const backend *b, const char *name) {
  if (!backend_has(b, BACKEND_PLUGIN))
    return repl_usage_error(c, "the backend %s takes no plug-in", b->name);
  char *path;
  HS_TRY(pjrt_find(name ? name : c->s->plugin, &path));
  pjrt_about a = {0};
  hs_buf target = {0};
  const char *file = repl_flag(c, "--for");
  hs_status s = file && !prof_gpu_text(file, &target)
                    ? repl_read_file(file, (size_t)1 << 20, &target)
                    : HS_GOOD;
  if (hs_ok(s)) s = pjrt_describe(path, &a);
  if (hs_ok(s)) {
    hs_free(c->s->plugin_target);
    c->s->plugin_target = file ? hs_strdup(hs_buf_cstr(&target)) : NULL;
    c->s->plugin_epoch++;
    if (file)
      repl_note(
          c->out,
          "compiles for %s, which is not installed: fusions, layouts and memory are exact, the "
          "algorithms of products and convolutions are not tuned",
          file);
    if (!c->doc)
      repl_say(c->out, "%s: PJRT API %d.%d, StableHLO %s\n", path, a.major, a.minor,
               *a.stablehlo ? a.stablehlo : "not reported");
    repl_json_str(c->doc, "plugin", path);
    repl_json_str(c->doc, "stablehlo", a.stablehlo);
    if (!c->s->plugin || strcmp(c->s->plugin, path) != 0) {
      hs_free(c->s->plugin);
      c->s->plugin = path;
      path = NULL;
      c->s->plugin_epoch++;
    }
  }
  hs_buf_free(&target);
  pjrt_about_free(&a);
  hs_free(path);
  return s;
}

static void say_line(repl_cmd *c, const char *plugin) {
  pjrt_about a = {0};
  char *path = NULL;
  hs_status s = pjrt_find(plugin, &path);
  if (hs_ok(s)) s = pjrt_describe(path, &a);
  const char *without = repl_disabled_passes(c->s);
  if (hs_ok(s) && !c->doc)
    repl_say(c->out, "  xla: %s, PJRT API %d.%d, StableHLO %s%s%s\n", path, a.major, a.minor,
             *a.stablehlo ? a.stablehlo : "not reported", *without ? ", without " : "", without);
  if (hs_ok(s)) {
    char *api = hs_format("%d.%d", a.major, a.minor);
    repl_json *j = repl_json_object(c->doc, "plugin");
    repl_json_str(j, "path", path);
    repl_json_str(j, "api", api);
    repl_json_str(j, "stablehlo", a.stablehlo);
    if (*without) repl_json_str(j, "disabled_passes", without);
    hs_free(api);
  }
  hs_status_drop(s);
  pjrt_about_free(&a);
  hs_free(path);
}

void repl_say_plugin_line(repl_cmd *c) { say_line(c, c->s->plugin); }

void repl_say_xla_line(repl_cmd *c) {
  backend_options o;
  char *plugin = NULL;
  hs_status s = repl_xla_options(c->s, &o, &plugin);
  if (hs_ok(s)) say_line(c, o.plugin);
  hs_status_drop(s);
  hs_free(plugin);
}

// ---- flags --------------------------------------------------------------------------------------

// Compiles next to nothing with the flag: the plug-in refuses unknown names and bad values by name.
static hs_status probe_flag(repl_cmd *c, const backend_flag *flag) {
  static const char text[] = "HloModule flag_probe\nENTRY e { ROOT x = f32[] parameter(0) }\n";
  hlo_module *m;
  HS_TRY(hlo_parse(c->s->ctx, text, sizeof text - 1, NULL, &m));
  backend_options o = repl_backend_options(c->s);
  // Flags about dumps write files as soon as they are set, so they are set with a temporary folder.
  char dir[] = "/tmp/hlosh-probe-XXXXXX";
  bool dumps = strncmp(flag->name, "xla_dump_", 9) == 0,
       folder = strcmp(flag->name, "xla_dump_to") == 0;
  if (dumps && !mkdtemp(dir)) {
    hlo_module_free(m);
    return hs_fail_errno(HS_E_IO, dir);
  }
  const backend_flag flags[2] = {folder ? (backend_flag){flag->name, dir} : *flag,
                                 {"xla_dump_to", dir}};
  o.nflags = dumps && !folder ? 2 : 1;
  o.flags = flags;
  backend_exe *exe = NULL;
  const backend *be = backend_with(BACKEND_PLUGIN);
  hs_status s = be->compile(m, &o, &exe);
  if (exe) be->release(exe);
  hlo_module_free(m);
  if (dumps) pjrt_remove_dumps(hs_strdup(dir));
  if (hs_ok(s) || s.err->code != HS_E_COMPILE) return s;
  hs_status told = hs_fail(HS_E_USAGE, "set xla.%s: %s", flag->name, s.err->message);
  hs_status_drop(s);
  return told;
}

static void drop_flag(repl_session *s, const char *name) {
  for (size_t k = 0; k < s->flags.n; k++) {
    if (strcmp(s->flags.v[k].name, name) != 0) continue;
    hs_free((void *)(uintptr_t)s->flags.v[k].name);
    hs_free((void *)(uintptr_t)s->flags.v[k].value);
    memmove(&s->flags.v[k], &s->flags.v[k + 1], (s->flags.n - k - 1) * sizeof s->flags.v[0]);
    s->flags.n--;
    s->plugin_epoch++;
    return;
  }
}

const char *repl_disabled_passes(const repl_session *s) {
  for (size_t k = 0; k < s->flags.n; k++)
    if (strcmp(s->flags.v[k].name, "xla_disable_hlo_passes") == 0) return s->flags.v[k].value;
  return "";
}

void repl_say_flags(repl_cmd *c, repl_json *j) {
  for (size_t k = 0; k < c->s->flags.n; k++) {
    const backend_flag *f = &c->s->flags.v[k];
    char *name = hs_format("xla.%s", f->name);
    if (!c->doc) repl_say(c->out, "%s = %s\n", name, f->value);
    repl_json_str(j, name, f->value);
    hs_free(name);
  }
}

hs_status repl_set_flag(repl_cmd *c, repl_json *j, const char *name, const char *value) {
  if (!*name) {
    repl_say_flags(c, j);
    return HS_GOOD;
  }
  if (value && strcmp(value, "default") == 0) {
    drop_flag(c->s, name);
    return HS_GOOD;
  }
  if (value) {
    HS_TRY(probe_flag(c, &(backend_flag){name, value}));
    drop_flag(c->s, name);
    hs_vec_push(&c->s->flags, ((backend_flag){hs_strdup(name), hs_strdup(value)}));
    c->s->plugin_epoch++;
    return HS_GOOD;
  }
  for (size_t k = 0; k < c->s->flags.n; k++)
    if (strcmp(c->s->flags.v[k].name, name) == 0) {
      if (!c->doc) repl_say(c->out, "xla.%s = %s\n", name, c->s->flags.v[k].value);
      repl_json_str(j, name, c->s->flags.v[k].value);
      return HS_GOOD;
    }
  if (!c->doc) repl_say(c->out, "xla.%s is the plug-in's default\n", name);
  return HS_GOOD;
}
