// dump_folder.c — file names of XLA's dumps (xla/service/dump.cc):
//   module_NNNN.NAME.before_optimizations.txt,
//   module_NNNN.NAME.NNNN.PIPELINE.after_PASS.before_NEXT.txt,
//   module_NNNN.NAME.cpu_after_optimizations.txt (sm_9.0a_gpu_after_optimizations.txt for a GPU);
//   .hlo.pb and .gz too.
// NAME and PIPELINE may hold dots. With --xla_dump_include_timestamp all of a module's names begin
// with "MICROSECONDS.".
#include "repl/debug/dump_folder.h"

#include "repl/formats/files.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>

static bool strip(char *s, const char *end) {
  size_t n = strlen(s), k = strlen(end);
  if (n <= k || strcmp(s + n - k, end) != 0) return false;
  s[n - k] = '\0';
  return true;
}

// Length of a component of at least four digits followed by '.', at p.
static size_t digits(const char *p) {
  size_t n = 0;
  while (isdigit((unsigned char)p[n])) n++;
  return n >= 4 && p[n] == '.' ? n : 0;
}

// Cuts "before_optimizations" or "DEVICE_after_optimizations" off; the device's name may hold a
// dot: sm_9.0a_gpu.
static bool split_end(char *s, dump_step *step) {
  if (strip(s, ".before_optimizations")) return step->label = "before_optimizations", true;
  if (!strip(s, "after_optimizations")) return false;
  size_t n = strlen(s);
  if (strip(s, "_gpu_")) {
    char *sm = NULL;
    for (char *p = s; (p = strstr(p, ".sm_")) != NULL; p++) sm = p;
    if (!sm) sm = strrchr(s, '.');
    if (!sm) return false;
    *sm = '\0';
  } else if (s[n - 1] == '.') {
    s[n - 1] = '\0';
  } else {
    char *device = strrchr(s, '.');
    if (!device) return false;
    *device = '\0';
  }
  step->label = "after_optimizations";
  step->order = UINT32_MAX;
  return true;
}

// Where "module_NNNN." begins, at once or after a time stamp; NULL when it is not a dump of a
// module.
static char *module_part(char *s) {
  char *p = s;
  while (isdigit((unsigned char)*p)) p++;
  if (p > s && *p == '.') s = p + 1;
  return strncmp(s, "module_", 7) == 0 && digits(s + 7) ? s : NULL;
}

// Splits "module_0001.jit_f.0007.simplify.after_dce.before_cse" (suffix gone) in place. False: no
// module dump.
static bool split(char *s, char **key, dump_step *step) {
  char *module = module_part(s);
  if (!module) return false;
  char *rest = strchr(module, '.');
  *step = (dump_step){0};
  *key = s;
  for (char *p = rest; p; p = strchr(p + 1, '.')) {
    char *after = strstr(p, ".after_"), *before = after ? strstr(after, ".before_") : NULL;
    // A pipeline may itself be called "after layout assignment": the last one names the pass.
    for (char *next = after;
         next && (next = strstr(next + 1, ".after_")) != NULL && (!before || next < before);)
      after = next;
    size_t n = digits(p + 1);
    if (!n || !after || p == rest || after <= p + n) continue;
    *p = *after = '\0';
    if (before) *before = '\0';  // the stages of copy-insertion have none
    step->order = (u32)strtoul(p + 1, NULL, 10) + 1;
    step->pipeline = after > p + 1 + n ? p + 2 + n : "";
    step->pass = after + strlen(".after_");
    return true;
  }
  return split_end(rest + 1, step) && rest[1];
}

static dump_module *module_of(dump_folder *d, char *key) {
  for (size_t k = 0; k < d->modules.n; k++)
    if (strcmp(d->modules.v[k].key, key) == 0) return &d->modules.v[k];
  const char *module = module_part(key);
  dump_module m = {
      .key = key, .name = strchr(module, '.') + 1, .number = (u32)strtoul(module + 7, NULL, 10)};
  hs_vec_push(&d->modules, m);
  return &d->modules.v[d->modules.n - 1];
}

static void add_file(dump_folder *d, const char *folder, const char *name) {
  char *s = hs_arena_strndup(&d->arena, name, strlen(name)), *key;
  dump_step step;
  (void)(strip(s, ".gz") || strip(s, ".zst"));
  bool text = strip(s, ".txt") || strip(s, ".hlo");
  if (!text && !strip(s, ".hlo.pb") && !strip(s, ".pb")) return;
  if (!split(s, &key, &step)) return;
  char *path = hs_format("%s/%s", folder, name);
  bool is_file = repl_is_file(path);
  step.file = hs_arena_strndup(&d->arena, path, strlen(path));
  hs_free(path);
  if (!is_file) return;
  if (step.pass) {
    char *label = hs_format("after_%s", step.pass);
    step.label = hs_arena_strndup(&d->arena, label, strlen(label));
    hs_free(label);
  }
  dump_module *m = module_of(d, key);
  for (size_t k = 0; k < m->steps.n; k++)
    if (m->steps.v[k].order == step.order) {  // the same state in another format
      hs_vec_push(&d->twins, text ? m->steps.v[k].file : step.file);
      if (text) m->steps.v[k] = step;
      return;
    }
  hs_vec_push(&m->steps, step);
}

static int by_order(const void *a, const void *b) {
  u32 x = ((const dump_step *)a)->order, y = ((const dump_step *)b)->order;
  return x < y ? -1 : x > y;
}
static int by_number(const void *a, const void *b) {
  const dump_module *x = a, *y = b;
  return x->number != y->number ? (x->number < y->number ? -1 : 1) : strcmp(x->key, y->key);
}

hs_status dump_folder_read(const char *path, dump_folder *out) {
  *out = (dump_folder){0};
  DIR *d = opendir(path);
  if (!d) return hs_fail_errno(HS_E_IO, path);
  for (struct dirent *e; (e = readdir(d)) != NULL;) add_file(out, path, e->d_name);
  closedir(d);
  if (out->modules.n) qsort(out->modules.v, out->modules.n, sizeof *out->modules.v, by_number);
  for (size_t k = 0; k < out->modules.n; k++)
    qsort(out->modules.v[k].steps.v, out->modules.v[k].steps.n, sizeof(dump_step), by_order);
  return HS_GOOD;
}

void dump_folder_free(dump_folder *d) {
  for (size_t k = 0; k < d->modules.n; k++) hs_vec_free(&d->modules.v[k].steps);
  hs_vec_free(&d->modules);
  hs_vec_free(&d->twins);
  hs_arena_free(&d->arena);
}
