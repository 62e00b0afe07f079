// plugin.c — the session's real XLA. See plugin.h.
//
// Plug-ins do not report the date or commit of their XLA, so its API version and its StableHLO
// version are printed wherever one is named.
#include "repl/shell/plugin.h"

#include <stdlib.h>

#include "backends/jax/jax.h"
#include "profiler/model/gpu.h"
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

static void json_about(repl_json *, const char *about);
// What `backend jax` found.
static void say_about(repl_cmd *c, const char *path, const char *about) {
  hs_str jaxlib = jax_about(about, "jaxlib"), jax = jax_about(about, "jax"),
         platform = jax_about(about, "platform"), n = jax_about(about, "devices"),
         device = jax_about(about, "device");
  if (!c->doc)
    repl_say(c->out, "%s: jaxlib %.*s, jax %.*s, %.*s (%.*s of %.*s)\n", path, (int)jaxlib.n,
             jaxlib.p, (int)jax.n, jax.p, (int)platform.n, platform.p, (int)n.n, n.p, (int)device.n,
             device.p);
  repl_json_str(c->doc, "path", path);
  json_about(c->doc, about);
}

static void say_pythons(repl_cmd *c) {
  jax_pythons v;
  jax_find_all(&v);
  repl_json *list = repl_json_array(c->doc, "pythons");
  for (size_t k = 0; k < v.n; k++) {
    const jax_python *p = &v.v[k];
    bool now = c->s->python && strcmp(c->s->python, p->path) == 0;
    if (!c->doc)
      repl_say(c->out, "%c   python with jaxlib %s, from %s\n      %s\n", now ? '*' : ' ',
               p->jaxlib ? p->jaxlib : "(not found)", p->from, p->path);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "path", p->path);
    repl_json_str(j, "from", p->from);
    if (p->jaxlib) repl_json_str(j, "jaxlib", p->jaxlib);
    else repl_json_null(j, "jaxlib");
    repl_json_bool(j, "current", now);
  }
  jax_pythons_free(&v);
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
  say_pythons(c);
}

hs_status repl_backend_usable(const repl_session *s, const backend *b) {
  bool chosen = (s->plugin && backend_has(b, BACKEND_PLUGIN)) ||
                (s->python && backend_has(b, BACKEND_PYTHON));
  // compiling for a device that is not here needs its name only; a driver may be named too
  chosen |= backend_has(b, BACKEND_DEVICE) && (s->target->family == PROF_GPU || *s->set.gpu_driver);
  return chosen ? HS_GOOD : b->probe();
}

const backend *repl_xla_backend(const repl_session *s) {
  if (repl_xla_for_gpu(s)) return backend_with(BACKEND_PLUGIN);
  if (s->be && backend_has(s->be, BACKEND_XLA)) return s->be;
  return s->xla ? s->xla : backend_with(BACKEND_PLUGIN);
}

const backend *repl_xla_peer(const repl_session *s) {
  if (s->xla) return s->xla;
  const backend *jax = backend_with(BACKEND_PYTHON);
  hs_status found = jax->probe();
  bool there = hs_ok(found);
  hs_status_drop(found);
  return there ? jax : backend_with(BACKEND_PLUGIN);
}

static hs_status choose_python(repl_cmd *c, const char *name) {
  char *path;
  const char *about;
  HS_TRY(jax_find(name ? name : c->s->python, &path));
  hs_status s = jax_describe(c->s->backends, path, c->s->set.jax_malloc, c->s->set.threads, &about);
  if (hs_ok(s)) {
    say_about(c, path, about);
    if (!c->s->python || strcmp(c->s->python, path) != 0) {
      hs_free(c->s->python);
      c->s->python = path;
      path = NULL;
      c->s->plugin_epoch++;
    }
  }
  hs_free(path);
  return s;
}

static hs_status choose_plugin(repl_cmd *c, const char *name) {
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

hs_status repl_choose_plugin(repl_cmd *c, const backend *b, const char *name) {
  if (!backend_has(b, BACKEND_XLA))
    return repl_usage_error(c, "the backend %s takes no plug-in", b->name);
  if (backend_has(b, BACKEND_PYTHON) && repl_flag(c, "--for"))
    return repl_usage_error(c, "--for is for plug-ins: jaxlib compiles for what is here");
  HS_TRY(backend_has(b, BACKEND_PYTHON) ? choose_python(c, name) : choose_plugin(c, name));
  c->s->xla = b;
  return HS_GOOD;
}

// ---- what it says of itself ---------------------------------------------------------------------
static char *python_text(const repl_session *s, const backend_exe *exe, const char **about) {
  char *path = NULL;
  *about = NULL;
  hs_status st = jax_find(s->python, &path);
  const pjrt_child *child = exe ? pjrt_compiled_child(exe) : NULL;
  backend_malloc how = child == jax_child(BACKEND_MALLOC_TUNED) ? BACKEND_MALLOC_TUNED
                       : child                                  ? BACKEND_MALLOC_DEFAULT
                                                                : s->set.jax_malloc;
  if (hs_ok(st)) st = jax_describe(s->backends, path, how, s->set.threads, about);
  char *text = NULL;
  if (hs_ok(st)) {
    hs_str jaxlib = jax_about(*about, "jaxlib"), jax = jax_about(*about, "jax"),
           platform = jax_about(*about, "platform");
    text = hs_format("jaxlib %.*s, jax %.*s, %.*s%s%s, %s", (int)jaxlib.n, jaxlib.p, (int)jax.n,
                     jax.p, (int)platform.n, platform.p, child ? ", " : "",
                     child ? child->setting : "", path);
  }
  hs_status_drop(st);
  hs_free(path);
  return text ? text : hs_strdup("");
}

char *repl_python_text(const repl_session *s) {
  jax_pythons v;
  jax_find_all(&v);
  const char *path = s->python ? s->python : v.n ? v.v[0].path : NULL, *version = NULL;
  for (size_t k = 0; k < v.n; k++)
    if (strcmp(v.v[k].path, path) == 0) version = v.v[k].jaxlib;
  char *text =
      path ? hs_format("jaxlib%s%s, %s", version ? " " : "", version ? version : "", path) : NULL;
  jax_pythons_free(&v);
  return text;
}

static void json_about(repl_json *j, const char *about) {
  static const char *const keys[] = {"jaxlib", "jax",     "platform", "python",
                                     "numpy",  "devices", "device"};
  for (size_t k = 0; k < HS_COUNT(keys); k++) {
    hs_str v = jax_about(about, keys[k]);
    char *text = hs_format("%.*s", (int)v.n, v.p);
    repl_json_str(j, keys[k], text);
    hs_free(text);
  }
}

static void say_python_line(repl_cmd *c, const backend_exe *exe) {
  const char *about, *without = repl_disabled_passes(c->s);
  char *text = python_text(c->s, exe, &about);
  const pjrt_child *child = exe ? pjrt_compiled_child(exe) : NULL;
  if (*text && !c->doc)
    repl_say(c->out, "  xla: %s%s%s\n", text, *without ? ", without " : "", without);
  if (*text) {
    repl_json *j = repl_json_object(c->doc, "jax");
    json_about(j, about);
    if (child) repl_json_str(j, "setting", child->setting);
    if (*without) repl_json_str(j, "disabled_passes", without);
  }
  hs_free(text);
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

void repl_say_plugin_line(repl_cmd *c, const backend *be, const backend_exe *exe) {
  if (backend_has(be, BACKEND_PYTHON)) say_python_line(c, exe);
  else say_line(c, c->s->plugin);
}

char *repl_xla_text(const repl_session *s, const backend *be, const backend_exe *exe) {
  const char *about;
  if (backend_has(be, BACKEND_PYTHON)) return python_text(s, exe, &about);
  return hs_strdup(s->plugin ? s->plugin : "");
}

void repl_say_xla_line(repl_cmd *c) {
  const backend *be = repl_xla_backend(c->s);
  if (backend_has(be, BACKEND_PYTHON)) {
    say_python_line(c, c->mod->xla.be == be ? c->mod->xla.exe : NULL);
    return;
  }
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
  const backend *be = repl_xla_backend(c->s);
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
