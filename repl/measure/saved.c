// saved.c: speedup --save and --against, and ratios that are kept without being asked. See saved.h.
//
// A file has the rounds of every row, not only their median, so that the ratio of then and now has
// an interval (prof_ratio_apart). That interval knows of the noise within each measurement and not
// of what changed between the two; so the machine, the versions and the settings are compared
// first, and every difference is named.
#include "repl/measure/saved.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/base/file.h"
#include "profiler/model/calibration.h"
#include "profiler/units.h"
#include "repl/shell/plugin.h"

#define SCHEMA "hlosh-base/1"

// What a measurement depends on beside the code, as texts that can be compared.
enum { MOST_FACTS = 12 };
typedef struct facts {
  u32 n;
  const char *key[MOST_FACTS];
  char text[MOST_FACTS][96];
} facts;

static void fact(facts *f, const char *key, const char *fmt, ...) HS_PRINTF(3, 4);
static void fact(facts *f, const char *key, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  f->key[f->n] = key;
  (void)vsnprintf(f->text[f->n++], sizeof f->text[0], fmt, ap);
  va_end(ap);
}

static void find_facts(const repl_cmd *c, const hlo_module *loaded, const char *pipeline,
                       facts *f) {
  char processor[96], memory[32];
  struct utsname u;
  *f = (facts){0};
  prof_processor_name(processor);
  fact(f, "processor", "%s", processor);
  fact(f, "cores", "%ld", sysconf(_SC_NPROCESSORS_ONLN));
  fact(f, "memory", "%s",
       prof_bytes_text(memory, (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE)));
  fact(f, "system", "%.64s", uname(&u) == 0 ? u.release : "unknown");
  fact(f, "hlosh", "%s", HLOSH_VERSION);
  fact(f, "backend", "%s", c->s->be->name);
  fact(f, "threads", "%ld",
       c->s->set.threads ? (long)c->s->set.threads : sysconf(_SC_NPROCESSORS_ONLN));
  fact(f, "denormals", "%s", c->s->set.keep_denormals ? "kept" : "flushed");
  fact(f, "pipeline", "%.80s", pipeline);
  fact(f, "module", "%.64s, fingerprint %016llx", loaded->name,
       (unsigned long long)hlo_fingerprint(loaded));
}

// What ran a row; the caller's to free.
static char *device_of(const repl_cmd *c, const subject *x) {
  bool ours = x->be == c->s->be || !x->exe;
  return ours ? hs_strdup(x->be->name) : repl_xla_text(c->s, x->be, x->exe);
}

// ---- writing ------------------------------------------------------------------------------------
static void put_row(const repl_cmd *c, repl_json *rows, const subject *x) {
  repl_json *j = repl_json_object(rows, x->key);
  char *device = device_of(c, x);
  repl_json_str(j, "device", device);
  repl_json_num(j, "time_ms", x->median.value);
  repl_json_int(j, "peak_bytes", x->peak_bytes);
  repl_json_int(j, "kernels", x->kernels);
  repl_json *list = repl_json_array(j, "rounds_ms");
  for (size_t k = 0; k < x->trial.rounds.n; k++) repl_json_num(list, NULL, x->trial.rounds.v[k]);
  hs_free(device);
}

hs_status saved_write(repl_cmd *c, const char *file, const comparison *m, const char *pipeline) {
  if (!repl_json_built()) return hs_fail(HS_E_NOT_BUILT, "--save: this build lacks cJSON");
  facts f;
  find_facts(c, m->x[0].m, pipeline, &f);
  repl_json *root = repl_json_root();
  repl_json_str(root, "schema", SCHEMA);
  repl_json *on = repl_json_object(root, "on"), *rows = repl_json_object(root, "rows");
  for (u32 k = 0; k < f.n; k++) repl_json_str(on, f.key[k], f.text[k]);
  repl_json_bool(root, "loud", prof_noise_loud(&m->noise));
  for (u32 k = 0; k < m->n; k++)
    if (hs_ok(m->x[k].failed) && !m->x[k].estimated) put_row(c, rows, &m->x[k]);
  hs_buf b = {0};
  repl_json_print(root, &b);
  hs_buf_putc(&b, '\n');
  hs_status s = hs_poll();
  if (hs_ok(s)) s = hs_write_file(file, b.p, b.n, false);
  if (hs_ok(s)) {
    if (!c->doc) repl_say(c->out, "\n  saved in %s\n", file);
    repl_json_str(c->doc, "saved", file);
  }
  hs_buf_free(&b);
  repl_json_free(root);
  return s;
}

// ---- reading ------------------------------------------------------------------------------------
struct saved {
  char *file;
  repl_json *root;
};

void saved_free(saved *x) {
  if (!x) return;
  hs_free(x->file);
  repl_json_free(x->root);
  hs_free(x);
}

hs_status saved_read(const char *file, saved **out) {
  enum { MOST = 64 << 20 };
  hs_buf b = {0};
  if (!repl_json_built()) return hs_fail(HS_E_NOT_BUILT, "--against: this build lacks cJSON");
  HS_TRY(repl_read_file(file, MOST, &b));
  repl_json *root = repl_json_parse(b.p, b.n);
  hs_buf_free(&b);
  const char *schema = repl_json_get_str(root, "schema");
  if (!schema || strcmp(schema, SCHEMA) != 0 || !repl_json_get(root, "rows") ||
      !repl_json_get(root, "on")) {
    repl_json_free(root);
    return hs_with_note(hs_fail(HS_E_INPUT, "%s is no measurement of `speedup --save`", file),
                        "a file of schema \"" SCHEMA "\" is wanted");
  }
  *out = hs_calloc(1, sizeof **out);
  **out = (saved){hs_strdup(file), root};
  return HS_GOOD;
}

// ---- comparing ----------------------------------------------------------------------------------
static void say_difference(repl_cmd *c, repl_json *list, const char *what, const char *then,
                           const char *now) {
  if (!then) then = "not said";
  if (strcmp(then, now) == 0) return;
  if (!c->doc) repl_say(c->out, "    differs: %s: %s then, %s now\n", what, then, now);
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "what", what);
  repl_json_str(j, "then", then);
  repl_json_str(j, "now", now);
}

static prof_interval ratio_to(const repl_json *row, const subject *x) {
  const repl_json *list = repl_json_get(row, "rounds_ms");
  u32 n = 0, count = repl_json_count(list);
  double *then = hs_alloc((count + 1) * sizeof *then);
  const repl_json *j = repl_json_at(list, 0);
  for (u32 k = 0; k < count && j; k++, j = repl_json_next(j)) {
    double ms = repl_json_number(j, -1);
    if (ms > 0) then[n++] = ms;
  }
  prof_interval r = prof_ratio_apart(then, n, x->trial.rounds.v, (u32)x->trial.rounds.n);
  hs_free(then);
  return r;
}

static void say_row(repl_cmd *c, repl_json *list, const repl_json *row, const subject *x) {
  prof_interval r = ratio_to(row, x);
  double then = repl_json_get_num(row, "time_ms", 0),
         peak = repl_json_get_num(row, "peak_bytes", -1);
  prof_verdict v = prof_judge(r);
  char a[32], b[32], d[32], e[32], now[32], lo[32], hi[32], noisy[128];
  if (!c->doc) {
    repl_say(c->out, "    %-20s %10s -> %-10s ", x->label, prof_time_text(a, then * 1e-3),
             prof_time_text(b, x->median.value * 1e-3));
    if (v == PROF_TOO_NOISY) repl_say(c->out, "%s", prof_noisy_text(noisy, r));
    else
      repl_say(c->out, "%s%sas fast as then (between %s and %s)",
               v == PROF_SAME ? "" : prof_ratio_text(now, r.value), v == PROF_SAME ? "" : " ",
               prof_ratio_text(lo, r.low), prof_ratio_text(hi, r.high));
    if (peak >= 0 && peak != (double)x->peak_bytes)
      repl_say(c->out, ", peak %s -> %s", prof_bytes_text(d, peak),
               prof_bytes_text(e, (double)x->peak_bytes));
    repl_say(c->out, "\n");
  }
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "row", x->key);
  repl_json_num(j, "then_ms", then);
  repl_json_num(j, "now_ms", x->median.value);
  repl_json_num(j, "speedup", r.value);
  repl_json_num(j, "speedup_low", r.low);
  repl_json_num(j, "speedup_high", r.high);
  repl_json_str(j, "verdict", prof_verdict_text(v));
  repl_json_num(j, "peak_bytes_then", peak >= 0 ? peak : NAN);
  repl_json_int(j, "peak_bytes", x->peak_bytes);
}

void saved_compare(repl_cmd *c, const saved *x, const comparison *m, const char *pipeline) {
  facts f;
  find_facts(c, m->x[0].m, pipeline, &f);
  const repl_json *on = repl_json_get(x->root, "on"), *rows = repl_json_get(x->root, "rows");
  repl_json *doc = repl_json_object(c->doc, "against");
  repl_json_str(doc, "file", x->file);
  if (!c->doc) repl_say(c->out, "\n  against %s\n", x->file);
  repl_json *list = repl_json_array(doc, "differs");
  for (u32 k = 0; k < f.n; k++)
    say_difference(c, list, f.key[k], repl_json_get_str(on, f.key[k]), f.text[k]);
  for (u32 k = 0; k < m->n; k++) {
    const repl_json *row = repl_json_get(rows, m->x[k].key);
    if (!row || !hs_ok(m->x[k].failed)) continue;
    char *device = device_of(c, &m->x[k]);
    say_difference(c, list, m->x[k].label, repl_json_get_str(row, "device"), device);
    hs_free(device);
  }
  list = repl_json_array(doc, "rows");
  for (u32 k = 0; k < m->n; k++) {
    const repl_json *row = repl_json_get(rows, m->x[k].key);
    if (row && hs_ok(m->x[k].failed)) say_row(c, list, row, &m->x[k]);
  }
}

// ---- ratios measured here before ----------------------------------------------------------------
// The file is NAME.runs beside NAME.txt, the calibration of this processor, so that figures of
// another machine, number of threads or version are never mixed in.
// NULL: there is no place for it. A folder that XDG_CACHE_HOME names is not made.
static char *history_path(const repl_cmd *c) {
  const char *cache = getenv("XDG_CACHE_HOME");
  if (cache && *cache && access(cache, W_OK) != 0) return NULL;
  char key[192];
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  prof_calibration_key(key, c->s->be->name, HLOSH_VERSION,
                       c->s->set.threads ? c->s->set.threads : (u32)HS_MAX(cores, 1L));
  char *path = prof_calibration_path(key), *dot = path ? strrchr(path, '.') : NULL;
  if (!dot) return path;
  char *runs = hs_format("%.*s.runs", (int)(dot - path), path);
  hs_free(path);
  return runs;
}

static hs_status read_history(const char *path, prof_history *out) {
  hs_view v;
  if (access(path, R_OK) != 0) return HS_GOOD;  // the first time
  HS_TRY(hs_view_file(path, 1 << 20, false, &v));
  prof_history_parse(v.p, v.n, out);
  hs_view_drop(&v);
  return HS_GOOD;
}

static hs_status write_history(const char *path, const prof_history *h) {
  hs_buf text = {0};
  hs_make_folders(path, 3);  // two of ours and ~/.cache
  prof_history_print(h, &text);
  hs_status s = hs_write_file(path, hs_buf_cstr(&text), text.n, false);
  hs_buf_free(&text);
  return s;
}

// Equal programs on equal backends; settings of the backend are in the file's name.
static u64 key_of(const subject *base, const subject *x) {
  u64 h = hs_mix(hlo_fingerprint(base->m), hlo_fingerprint(x->m));
  h = hs_mix(h, base->per_instruction * 4u + x->per_instruction * 2u + x->backend_only);
  return hs_hash_bytes(x->be->name, strlen(x->be->name), h);
}

static double width_of(prof_interval i) { return i.low > 0 ? log(i.high / i.low) / 2 : HUGE_VAL; }

void between_take(repl_cmd *c, comparison *m, u32 n, double until) {
  char *path = history_path(c);
  prof_history h = {0};
  u32 level = prof_noise_level(&m->noise);
  if (!path) return;
  hs_status s = read_history(path, &h);
  m->between = prof_between_of(&h, level);
  for (u32 k = 1; k < n; k++) {
    subject *x = &m->x[k];
    if (!(x->ratio.value > 0) || !isfinite(width_of(x->ratio))) continue;
    prof_measured now = {key_of(&m->x[0], x), x->ratio.value, width_of(x->ratio), level};
    hs_vec_push(&h, now);
    x->ratio = prof_interval_with(x->ratio, m->between.width);
  }
  m->trial.width = hypot(m->trial.width, m->between.width);
  m->trial.reached = !(until > 0) || m->trial.width <= until;
  if (hs_ok(s) && h.n) s = write_history(path, &h);
  if (!hs_ok(s)) repl_note(c->out, "this measurement is not kept: %s", s.err->message);
  hs_status_drop(s);
  hs_vec_free(&h);
  hs_free(path);
}

void between_say(repl_cmd *c, const comparison *m) {
  const prof_between *b = &m->between;
  if (b->pairs < PROF_PAIRS)
    repl_say(
        c->out,
        "  how much one run of speedup differs from the next on this machine is not known yet: "
        "intervals are of this one (%u of %u programs were measured twice)\n",
        b->pairs, PROF_PAIRS);
  else
    repl_say(c->out,
             "  one run of speedup differs from the next by up to %.1f %% more than it knows "
             "(%u pairs measured here): that is in the intervals\n",
             100 * b->width, b->pairs);
}

void between_json(repl_json *noise, const comparison *m) {
  bool known = m->between.pairs >= PROF_PAIRS;
  repl_json_num(noise, "between_runs", known ? m->between.width : NAN);
  repl_json_int(noise, "between_pairs", m->between.pairs);
}
