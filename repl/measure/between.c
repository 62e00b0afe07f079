// between.c: ratios measured here before. See between.h.
//
// The file is NAME.runs beside NAME.txt, the calibration of this processor, so that figures of
// another machine, number of threads or version are never mixed in.
#include "repl/measure/between.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "profiler/calibration.h"

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

// The two folders above it, and ~/.cache; writing the file says what is wrong with them.
static void make_folders(const char *path) {
  char *s = hs_strdup(path), *end[3] = {0};
  for (u32 k = 0; k < HS_COUNT(end) && (end[k] = strrchr(s, '/')) != NULL; k++) *end[k] = 0;
  for (u32 k = HS_COUNT(end); k-- > 0;) {
    if (!end[k]) continue;
    (void)mkdir(s, 0700);
    *end[k] = '/';
  }
  hs_free(s);
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
  make_folders(path);
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
  bool loud = prof_noise_loud(&m->noise);
  if (!path) return;
  hs_status s = read_history(path, &h);
  m->between = prof_between_of(&h, loud);
  for (u32 k = 1; k < n; k++) {
    subject *x = &m->x[k];
    if (!(x->ratio.value > 0) || !isfinite(width_of(x->ratio))) continue;
    prof_measured now = {key_of(&m->x[0], x), x->ratio.value, width_of(x->ratio), loud};
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
