// sweep.c: sweep. Compiles every module of a folder with the plug-in, unattended. A module may be
// refused, exceed the deadline, or end the plug-in's process; the table at the end has a line for
// each reason with the number of modules.
#include <dirent.h>
#include <stdlib.h>

#include "core/verify/verify.h"
#include "repl/cmd/cmd.h"
#include "repl/shell/exec.h"
#include "repl/shell/plugin.h"

typedef struct tally {
  char *what;
  u32 n;
  char *first;
} tally;
typedef struct sweep {
  repl_cmd *c;
  HS_VEC(tally) rows;
  u32 ok, refused, died, late, unread;
} sweep;

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Two reasons are the same when they differ in numbers only.
static void count(sweep *s, const char *kind, const char *reason, const char *file) {
  hs_buf b = {0};
  hs_buf_printf(&b, "%s: ", kind);
  for (const char *p = reason; *p && *p != '\n' && b.n < 110; p++)
    if (*p < '0' || *p > '9') hs_buf_putc(&b, *p);
  for (size_t k = 0; k < s->rows.n; k++)
    if (strcmp(s->rows.v[k].what, hs_buf_cstr(&b)) == 0) {
      s->rows.v[k].n++;
      hs_buf_free(&b);
      return;
    }
  tally t = {hs_strdup(hs_buf_cstr(&b)), 1, hs_strdup(file)};
  hs_vec_push(&s->rows, t);
  hs_buf_free(&b);
}

static hs_status compile_file(sweep *s, const char *path) {
  hlo_ctx *ctx = hlo_ctx_new();  // the session's would grow with every file
  hlo_ctx_set_load_limit(ctx, hlo_ctx_load_limit(s->c->s->ctx));
  hlo_module *m = NULL;
  backend_exe *exe = NULL;
  hs_status st = hlo_load_file(ctx, path, NULL, &m);
  if (hs_ok(st)) st = hlo_verify(m, NULL);
  const char *kind = "not read";
  if (!hs_ok(st)) s->unread++;
  else {
    backend_options o = repl_backend_options(s->c->s);
    if (!(o.deadline_s > 0)) o.deadline_s = 60;
    st = repl_xla_backend(s->c->s)->compile(m, &o, &exe);
    if (hs_ok(st)) s->ok++;
    else if (hs_is_stop(st)) kind = "stopped";
    else if (st.err->code == HS_E_WORKER) s->died++, kind = "died";
    else if (st.err->code == HS_E_DEADLINE) s->late++, kind = "too slow";
    else s->refused++, kind = "refused";
  }
  if (exe) repl_xla_backend(s->c->s)->release(exe);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  if (hs_ok(st) || hs_is_stop(st)) return st;
  count(s, kind, st.err->message, path);
  hs_status_drop(st);
  return HS_GOOD;
}

static int most_first(const void *a, const void *b) {
  const tally *x = a, *y = b;
  return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->what, y->what);
}

static void say_table(sweep *s, size_t files) {
  repl_cmd *c = s->c;
  if (s->rows.n) qsort(s->rows.v, s->rows.n, sizeof *s->rows.v, most_first);
  repl_json *list = repl_json_array(c->doc, "reasons");
  for (size_t k = 0; k < s->rows.n; k++) {
    tally *t = &s->rows.v[k];
    const char *slash = strrchr(t->first, '/');
    if (!c->doc) repl_say(c->out, "%6u  %s  (%s)\n", t->n, t->what, slash ? slash + 1 : t->first);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "reason", t->what);
    repl_json_int(j, "count", t->n);
    repl_json_str(j, "first", t->first);
    hs_free(t->what);
    hs_free(t->first);
  }
  if (!c->doc)
    repl_say(
        c->out,
        "%zu modules: %u compiled, %u refused, %u ended the plug-in's process, %u too slow, %u not "
        "read\n",
        files, s->ok, s->refused, s->died, s->late, s->unread);
  repl_json_int(c->doc, "modules", (i64)files);
  repl_json_int(c->doc, "compiled", s->ok);
  repl_json_int(c->doc, "refused", s->refused);
  repl_json_int(c->doc, "died", s->died);
  repl_json_int(c->doc, "too_slow", s->late);
  repl_json_int(c->doc, "not_read", s->unread);
  repl_say_plugin_line(c, repl_xla_backend(c->s), NULL);
}

hs_status cmd_sweep(repl_cmd *c) {
  const char *dir = repl_arg(c, 0);
  i64 limit = INT64_MAX;
  if (repl_flag(c, "-n")) HS_TRY(repl_arg_int(c, "-n", repl_flag(c, "-n"), 1, 1000000, &limit));
  DIR *d = opendir(dir);
  if (!d) return hs_fail_errno(HS_E_IO, dir);
  HS_VEC(char *) names = {0};
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    if (!repl_is_module_name(e->d_name)) continue;
    char *name = hs_format("%s/%s", dir, e->d_name);
    if (repl_is_file(name)) hs_vec_push(&names, name);
    else hs_free(name);
  }
  closedir(d);
  if (names.n) qsort(names.v, names.n, sizeof names.v[0], by_text);
  sweep s = {.c = c};
  hs_status st = HS_GOOD;
  size_t done = 0;
  for (; done < names.n && (i64)done < limit && hs_ok(st); done++) {
    st = hs_poll();
    if (hs_ok(st)) st = compile_file(&s, names.v[done]);
    if (done % 100 == 99) repl_note(c->out, "%zu of %zu ...", done + 1, names.n);
  }
  for (size_t k = 0; k < names.n; k++) hs_free(names.v[k]);
  hs_vec_free(&names);
  say_table(&s, done);
  hs_vec_free(&s.rows);
  return hs_ok(st) && !done ? hs_fail(HS_E_INPUT, "%s: no module files in this folder", dir) : st;
}
