// cache.c: cache. Compiled code that is kept on disk (backends/code_cache.h): what is there, and
// its removal.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "repl/cmd/cmd.h"

static double total(const code_cache_entries *all) {
  double sum = 0;
  for (size_t k = 0; k < all->n; k++) sum += (double)all->v[k].bytes;
  return sum;
}

// "3 minutes ago"
static void age_text(i64 seconds, char out[32]) {
  static const struct {
    i64 least;
    const char *name;
  } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
  size_t k = 0;
  while (k + 1 < HS_COUNT(units) && seconds < units[k].least) k++;
  i64 n = HS_MAX(seconds / units[k].least, 0);
  (void)snprintf(out, 32, "%lld %s%s ago", (long long)n, units[k].name, n == 1 ? "" : "s");
}

static void show(repl_cmd *c, const char *folder, const code_cache_entries *all, i64 limit) {
  const code_cache *code = backend_context_code(c->s->backends);
  char a[32], b[32], d[32];
  repl_json_str(c->doc, "folder", folder);
  repl_json_bool(c->doc, "on", code->on);
  repl_json_int(c->doc, "entries", (i64)all->n);
  repl_json_num(c->doc, "bytes", total(all));
  repl_json_num(c->doc, "limit_bytes", code->limit);
  repl_json_int(c->doc, "hits", code->hits);
  repl_json_int(c->doc, "misses", code->misses);
  repl_json_int(c->doc, "damaged", code->damaged);
  if (!c->doc) {
    repl_say(c->out, "%s: %zu programs, %s of %s%s\n", folder, all->n, repl_bytes(a, total(all)),
             repl_bytes(b, code->limit), code->on ? "" : "; not used (set cache on)");
    repl_say(c->out, "this session: found %u times, not found %u times, %s written\n", code->hits,
             code->misses, repl_bytes(d, (double)code->stored));
  }
  repl_json *list = repl_json_array(c->doc, "list");
  i64 now = (i64)time(NULL);
  for (size_t k = 0; k < all->n && (i64)k < limit; k++) {
    const code_cache_entry *e = &all->v[k];
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "module", e->what);
    repl_json_str(j, "file", e->file);
    repl_json_int(j, "bytes", e->bytes);
    repl_json_int(j, "used", e->used);
    age_text(now - e->used, d);
    if (!c->doc)
      repl_say(c->out, "  %10s  %-20s %s\n", repl_bytes(a, (double)e->bytes), d, e->what);
  }
  if (!c->doc && (i64)all->n > limit) repl_say(c->out, "  ... %zu more\n", all->n - (size_t)limit);
}

static hs_status clear(repl_cmd *c, const char *folder) {
  u32 removed;
  i64 bytes;
  char a[32];
  HS_TRY(code_cache_clear(folder, &removed, &bytes));
  repl_json_int(c->doc, "removed", removed);
  repl_json_int(c->doc, "bytes", bytes);
  if (!c->doc) repl_say(c->out, "removed %u files, %s\n", removed, repl_bytes(a, (double)bytes));
  return HS_GOOD;
}

// Which of the two variables has no folder to write to, and what helps.
static void no_folder(repl_cmd *c) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  bool named = cache && *cache;
  const char *name = named ? "XDG_CACHE_HOME" : "HOME", *in = named ? cache : home;
  repl_json_null(c->doc, "folder");
  if (c->doc) return;
  repl_say(c->out, "code is not kept: %s%s%s\n", name,
           in && *in ? " is not a folder to write to: " : "", in && *in ? in : " is not set");
  repl_note(c->out, "note: export XDG_CACHE_HOME=DIR names another, which must be there");
}

hs_status cmd_cache(repl_cmd *c) {
  const char *verb = repl_arg(c, 0);
  i64 limit = 20;
  if (verb && strcmp(verb, "clear") != 0) return repl_usage_error(c, "clear, or no argument");
  if (repl_flag(c, "--limit"))
    HS_TRY(repl_arg_int(c, "--limit", repl_flag(c, "--limit"), 0, 1 << 30, &limit));
  char *folder = code_cache_folder();
  if (!folder) {
    no_folder(c);
    return HS_GOOD;
  }
  code_cache_entries all = {0};
  hs_status s = HS_GOOD;
  if (verb) {
    s = clear(c, folder);
  } else {
    code_cache_list(folder, &all);
    show(c, folder, &all, limit);
  }
  hs_vec_free(&all);
  hs_free(folder);
  return s;
}
