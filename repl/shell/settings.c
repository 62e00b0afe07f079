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
  SET_WORD,  // one of a list: its index is the value, a u32 or an enum
} setting_kind;
typedef struct setting {
  const char *name;
  setting_kind kind;
  size_t at;
  double least, most;
  const char *words;  // of SET_WORD, joined by |
  const char *summary;
} setting;
#define AT(f) offsetof(repl_settings, f)
static const char vintages[] = ""
#define VINTAGE(id, name, ...) "|" name
#include "core/text/vintage.def"
#undef VINTAGE
    ;
#define SWITCH(name, field, summary) \
  { name, SET_BOOL, AT(field), 0, 1, NULL, summary }
#define NUMBER(name, kind, field, least, most, summary) \
  { name, kind, AT(field), least, most, NULL, summary }
#define TEXT(name, field, summary) \
  { name, SET_TEXT, AT(field), 0, sizeof((repl_settings *)0)->field, NULL, summary }
#define WORD(name, field, words, summary) \
  { name, SET_WORD, AT(field), 0, 0, words, summary }
static const setting settings[] = {
    NUMBER("threads", SET_U32, threads, 0, 4096, "threads of compiled code; 0: all cores"),
    NUMBER("seed", SET_U64, seed, 0, 9e15, "of random inputs and of values for elided constants"),
    NUMBER("deadline", SET_NUMBER, deadline, 0, 1e9, "seconds for one command; 0: none"),
    NUMBER("abs_error", SET_NUMBER, abs_error, -1, 1e300,
           "tolerance of check: a mismatch exceeds both; -1: the type's"),
    NUMBER("rel_error", SET_NUMBER, rel_error, -1, 1e300,
           "tolerance of check: a mismatch exceeds both; -1: the type's"),
    WORD("elided", elided, "ask|random|zeros", "constants printed as {...}: ask, random or zeros"),
    WORD("vintage", vintage, vintages + 1, "text format of print: current, or an older XLA"),
    SWITCH("verify", verify, "verify what each pass touched"),
    SWITCH("denormals", keep_denormals,
           "keep denormals in the evaluator and the cpu backend (XLA:CPU flushes them)"),
    SWITCH("fallback", allow_fallback,
           "measure also where the evaluator does what a backend has no code for"),
    SWITCH("contract", contract,
           "the cpu backend may fuse a product into the sum that it enters (XLA:CPU does)"),
    SWITCH("perf_map", perf_map,
           "write /tmp/perf-PID.map of the cpu backend's worker: kernels' names for perf report"),
    SWITCH("keep_going", keep_going, "a failing command does not end a script"),
    SWITCH("metadata", metadata, "print and extract with metadata"),
    SWITCH("backend_config", backend_config, "print and draw with backend configs"),
    SWITCH("fusions", show_fusions, "draw the bodies of fusions"),
    NUMBER("memory_limit", SET_NUMBER, memory_limit, 0, 1e18,
           "bytes that the session or a run may use (8G, 12Gi); 0: what the machine has"),
    NUMBER("load_limit", SET_NUMBER, load_limit, 0, 1e18,
           "bytes of a file, unpacked (8G, 12Gi); 0: a quarter of the memory, at most 4 GB"),
    SWITCH("cache", cache,
           "compiled code is kept on disk for the next time (not where compiling is measured)"),
    NUMBER("cache_size", SET_NUMBER, cache_size, 0, 1e15,
           "bytes of code that is kept on disk (256Mi); what was used longest ago goes first"),
    WORD("sandbox", sandbox, "auto|on|off",
         "programs may only compute: auto (as far as the kernel can), on (or not at all), off"),
    TEXT("capture", capture,
         "instructions whose values every run keeps: a glob such as dot.*; off: none"),
    TEXT("gpu.driver", gpu_driver,
         "path of the CUDA driver's library for backend gpu; off: the installed one"),
    WORD("gpu.libraries", gpu_libraries, "auto|on|off",
         "NVIDIA's cuBLASLt and cuFFT in backend gpu; auto: where faster than our kernels"),
    WORD("jax.malloc", jax_malloc, "best|default|tuned",
         "how the process of backend jax allocates; best: what is faster on the program"),
    SWITCH("infer", infer,
           "expressions at the prompt: convert and broadcast operands until they fit"),
    SWITCH("pager", pager, "long output goes through $PAGER or less"),
};
const u32 repl_setting_count = HS_COUNT(settings);
const char *repl_setting_name(u32 k) { return settings[k].name; }
const char *repl_setting_summary(u32 k) { return settings[k].summary; }
const char *repl_setting_words(u32 k) {
  return settings[k].kind == SET_BOOL ? "on|off" : settings[k].words ? settings[k].words : "";
}

void repl_setting_text(const repl_session *s, u32 k, char out[40]) {
  const setting *t = &settings[k];
  const char *p = (const char *)&s->set + t->at;
  switch (t->kind) {
  case SET_BOOL: snprintf(out, 40, "%s", *(const bool *)p ? "on" : "off"); break;
  case SET_U32: snprintf(out, 40, "%u", *(const u32 *)(const void *)p); break;
  case SET_U64: snprintf(out, 40, "%llu", (unsigned long long)*(const u64 *)(const void *)p); break;
  case SET_NUMBER: snprintf(out, 40, "%.15g", *(const double *)(const void *)p); break;
  case SET_TEXT: snprintf(out, 40, "%s", *p ? p : "off"); break;
  case SET_WORD: {
    const char *w = t->words;
    for (u32 n = *(const u32 *)(const void *)p; n; n--) w += strcspn(w, "|") + 1;
    snprintf(out, 40, "%.*s", (int)strcspn(w, "|"), w);
    break;
  }
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
  if (t->kind == SET_WORD) {
    size_t n = strlen(value);
    u32 k = 0;
    for (const char *w = t->words;; w++, k++) {
      size_t length = strcspn(w, "|");
      if (n == length && memcmp(w, value, n) == 0) return *(u32 *)(void *)p = k, HS_GOOD;
      if (!*(w += length)) break;
    }
    return hs_fail(HS_E_USAGE, "set %s: one of %s, not \"%s\"", t->name, t->words, value);
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

void repl_apply_cache(repl_session *s) {
  code_cache *code = backend_context_code(s->backends);
  code->on = s->set.cache;
  code->limit = s->set.cache_size;
}

hs_status repl_set(repl_session *s, const char *name, const char *value) {
  u32 k;
  HS_TRY(repl_setting_find(name, &k));
  HS_TRY(store(s, &settings[k], value));
  hlo_ctx_set_load_limit(s->ctx, (size_t)s->set.load_limit);
  backend_context_confine(s->backends, s->set.sandbox, s->set.memory_limit);
  repl_apply_cache(s);
  if (settings[k].at == AT(memory_limit))
    hs_memory_limit(s->set.memory_limit > 0 ? (size_t)s->set.memory_limit : hs_memory_machine());
  return HS_GOOD;
}
