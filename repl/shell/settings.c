// settings.c — the table of settings: name, type, field of repl_settings, bounds, summary. See
// settings.h. A new setting is a field and a row.
#include "repl/shell/settings.h"

#include <math.h>
#include <stdio.h>

#include "core/types/ctx.h"
#include "repl/shell/args.h"

typedef enum setting_kind {
  SET_BOOL,
  SET_U32,
  SET_U64,
  SET_NUMBER,
  SET_TEXT,
  SET_ELIDED,
  SET_VINTAGE,
  SET_MALLOC,
  SET_SANDBOX,
  SET_LIBRARIES
} setting_kind;
typedef struct setting {
  const char *name;
  setting_kind kind;
  size_t at;
  double least, most;
  const char *summary;
} setting;
#define AT(f) offsetof(repl_settings, f)
// The index of a word in its list is the setting's value (a u32 or an enum).
static const char *const elided_words[] = {"ask", "random", "zeros", NULL};
static const char *const vintage_words[] = {
#define VINTAGE(id, name, ...) name,
#include "core/text/vintage.def"
#undef VINTAGE
    NULL};
static const char *const malloc_words[] = {"best", "default", "tuned", NULL};  // backend_malloc
static const char *const sandbox_words[] = {"auto", "on", "off", NULL};        // sandbox_mode
static const char *const libraries_words[] = {"auto", "on", "off", NULL};      // backend_libraries
static const char *const *words_of(setting_kind k) {
  return k == SET_ELIDED      ? elided_words
         : k == SET_VINTAGE   ? vintage_words
         : k == SET_MALLOC    ? malloc_words
         : k == SET_SANDBOX   ? sandbox_words
         : k == SET_LIBRARIES ? libraries_words
                              : NULL;
}
static const setting settings[] = {
    {"threads", SET_U32, AT(threads), 0, 4096, "threads of compiled code; 0: all cores"},
    {"seed", SET_U64, AT(seed), 0, 9e15, "of random inputs and of values for elided constants"},
    {"deadline", SET_NUMBER, AT(deadline), 0, 1e9, "seconds for one command; 0: none"},
    {"abs_error", SET_NUMBER, AT(abs_error), -1, 1e300,
     "tolerance of check: a mismatch exceeds both; -1: the type's"},
    {"rel_error", SET_NUMBER, AT(rel_error), -1, 1e300,
     "tolerance of check: a mismatch exceeds both; -1: the type's"},
    {"elided", SET_ELIDED, AT(elided), 0, 0, "constants printed as {...}: ask, random or zeros"},
    {"vintage", SET_VINTAGE, AT(vintage), 0, 0, "text format of print: current, or an older XLA"},
    {"verify", SET_BOOL, AT(verify), 0, 1, "verify what each pass touched"},
    {"denormals", SET_BOOL, AT(keep_denormals), 0, 1,
     "keep denormals in the evaluator (XLA:CPU flushes them)"},
    {"fallback", SET_BOOL, AT(allow_fallback), 0, 1,
     "measure also where the evaluator does what a backend has no code for"},
    {"contract", SET_BOOL, AT(contract), 0, 1,
     "the cpu backend may fuse a product into the sum that it enters (XLA:CPU does)"},
    {"keep_going", SET_BOOL, AT(keep_going), 0, 1, "a failing command does not end a script"},
    {"metadata", SET_BOOL, AT(metadata), 0, 1, "print and extract with metadata"},
    {"backend_config", SET_BOOL, AT(backend_config), 0, 1, "print and draw with backend configs"},
    {"fusions", SET_BOOL, AT(show_fusions), 0, 1, "draw the bodies of fusions"},
    {"memory_limit", SET_NUMBER, AT(memory_limit), 0, 1e18,
     "bytes that the session or a run may use (8G, 12Gi); 0: what the machine has"},
    {"load_limit", SET_NUMBER, AT(load_limit), 0, 1e18,
     "bytes of a file, unpacked (8G, 12Gi); 0: a quarter of the memory, at most 4 GB"},
    {"sandbox", SET_SANDBOX, AT(sandbox), 0, 0,
     "programs may only compute: auto (as far as the kernel can), on (or not at all), off"},
    {"capture", SET_TEXT, AT(capture), 0, sizeof((repl_settings *)0)->capture,
     "instructions whose values every run keeps: a glob such as dot.*; off: none"},
    {"gpu.driver", SET_TEXT, AT(gpu_driver), 0, sizeof((repl_settings *)0)->gpu_driver,
     "path of the CUDA driver's library for backend gpu; off: the installed one"},
    {"gpu.libraries", SET_LIBRARIES, AT(gpu_libraries), 0, 0,
     "NVIDIA's libraries (cuBLASLt) in backend gpu: auto (where faster than our kernels), on, off"},
    {"jax.malloc", SET_MALLOC, AT(jax_malloc), 0, 0,
     "how the process of backend jax allocates; best: what is faster on the program"},
    {"infer", SET_BOOL, AT(infer), 0, 1,
     "expressions at the prompt: convert and broadcast operands until they fit"},
    {"pager", SET_BOOL, AT(pager), 0, 1, "long output goes through $PAGER or less"},
};
const u32 repl_setting_count = HS_COUNT(settings);
const char *repl_setting_name(u32 k) { return settings[k].name; }
const char *repl_setting_summary(u32 k) { return settings[k].summary; }
const char *repl_setting_words(u32 k) {
  static const char vintages[] = ""
#define VINTAGE(id, name, ...) "|" name
#include "core/text/vintage.def"
#undef VINTAGE
      ;
  switch (settings[k].kind) {
  case SET_BOOL: return "on|off";
  case SET_ELIDED: return "ask|random|zeros";
  case SET_VINTAGE: return vintages + 1;
  case SET_MALLOC: return "best|default|tuned";
  case SET_SANDBOX:
  case SET_LIBRARIES: return "auto|on|off";
  case SET_U32:
  case SET_U64:
  case SET_NUMBER:
  case SET_TEXT: break;
  }
  return "";
}

void repl_setting_text(const repl_session *s, u32 k, char out[40]) {
  const setting *t = &settings[k];
  const char *p = (const char *)&s->set + t->at;
  switch (t->kind) {
  case SET_BOOL: snprintf(out, 40, "%s", *(const bool *)p ? "on" : "off"); break;
  case SET_U32: snprintf(out, 40, "%u", *(const u32 *)(const void *)p); break;
  case SET_U64: snprintf(out, 40, "%llu", (unsigned long long)*(const u64 *)(const void *)p); break;
  case SET_NUMBER: snprintf(out, 40, "%g", *(const double *)(const void *)p); break;
  case SET_TEXT: snprintf(out, 40, "%s", *p ? p : "off"); break;
  case SET_ELIDED:
  case SET_VINTAGE:
  case SET_MALLOC:
  case SET_SANDBOX:
  case SET_LIBRARIES:
    snprintf(out, 40, "%s", words_of(t->kind)[*(const u32 *)(const void *)p]);
    break;
  }
}

static bool switch_word(const char *w, bool *out) {
  static const char *const yes[] = {"on", "true", "yes", "1"}, *const no[] = {"off", "false", "no",
                                                                              "0"};
  for (size_t k = 0; k < HS_COUNT(yes); k++) {
    if (strcmp(w, yes[k]) == 0) {
      *out = true;
      return true;
    }
    if (strcmp(w, no[k]) == 0) {
      *out = false;
      return true;
    }
  }
  return false;
}

static hs_status store(repl_session *s, const setting *t, const char *value) {
  char *p = (char *)&s->set + t->at;
  bool b;
  double v;
  if (t->kind == SET_BOOL)
    return switch_word(value, &b)
               ? (*(bool *)p = b, HS_GOOD)
               : hs_fail(HS_E_USAGE, "set %s: on or off, not \"%s\"", t->name, value);
  if (t->kind == SET_TEXT) {
    if (strlen(value) >= (size_t)t->most)
      return hs_fail(HS_E_LIMIT, "set %s: longer than %g bytes", t->name, t->most - 1);
    bool off = strcmp(value, "off") == 0 || strcmp(value, "none") == 0;
    memcpy(p, off ? "" : value, off ? 1 : strlen(value) + 1);
    return HS_GOOD;
  }
  const char *const *words = words_of(t->kind);
  if (words) {
    hs_buf all = {0};
    for (u32 k = 0; words[k]; k++) {
      if (strcmp(value, words[k]) == 0) return *(u32 *)(void *)p = k, hs_buf_free(&all), HS_GOOD;
      hs_buf_printf(&all, "%s%s", k ? ", " : "", words[k]);
    }
    hs_status bad =
        hs_fail(HS_E_USAGE, "set %s: one of %s, not \"%s\"", t->name, hs_buf_cstr(&all), value);
    hs_buf_free(&all);
    return bad;
  }
  if (!repl_number(value, &v) || !(v >= t->least && v <= t->most) ||
      (t->kind != SET_NUMBER && v != floor(v)))
    return hs_fail(HS_E_USAGE, "set %s: a %snumber from %g to %g, not \"%s\"", t->name,
                   t->kind == SET_NUMBER ? "" : "whole ", t->least, t->most, value);
  if (t->kind == SET_U32) *(u32 *)(void *)p = (u32)v;
  else if (t->kind == SET_U64) *(u64 *)(void *)p = (u64)v;
  else *(double *)(void *)p = v;
  return HS_GOOD;
}

bool repl_is_setting(const char *name, size_t n, u32 k) {
  if (strlen(settings[k].name) != n) return false;
  for (size_t j = 0; j < n; j++)
    if (settings[k].name[j] != name[j] && !(settings[k].name[j] == '_' && name[j] == '-'))
      return false;
  return true;
}

hs_status repl_setting_find(const char *name, u32 *out) {
  const char *names[HS_COUNT(settings)];
  for (size_t k = 0; k < HS_COUNT(settings); k++) {
    names[k] = settings[k].name;
    if (repl_is_setting(name, strlen(name), (u32)k)) {
      *out = (u32)k;
      return HS_GOOD;
    }
  }
  hs_status s = hs_fail(HS_E_USAGE, "set: there is no setting %s", name);
  const char *near = hs_nearest(name, names, HS_COUNT(names));
  return near ? hs_with_note(s, "did you mean %s?", near) : hs_with_note(s, "set lists them");
}

hs_status repl_set(repl_session *s, const char *name, const char *value) {
  u32 k;
  HS_TRY(repl_setting_find(name, &k));
  HS_TRY(store(s, &settings[k], value));
  hlo_ctx_set_load_limit(s->ctx, (size_t)s->set.load_limit);
  backend_context_confine(s->backends, s->set.sandbox, s->set.memory_limit);
  if (settings[k].at == AT(memory_limit))
    hs_memory_limit(s->set.memory_limit > 0 ? (size_t)s->set.memory_limit : hs_memory_machine());
  return HS_GOOD;
}
