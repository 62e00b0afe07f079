// load.c — modules in and out: load, example, modules, use, close, save, a module pasted at
// the prompt.
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mlir/mlir.h"
#include "core/proto/proto.h"
#include "core/verify/verify.h"
#include "repl/cmd/cmd.h"
#include "repl/shell/settings.h"
#include "repl/debug/dump_folder.h"
#include "repl/debug/recorded.h"
#include "repl/shell/exec.h"
#include "repl/shell/gate.h"

static i64 parameter_bytes(const hlo_module *m) {
  i64 n = 0;
  for (u32 k = 0; m->entry && k < m->entry->nparams; k++)
    n = hs_add_sat_i64(n, hlo_shape_bytes(m->entry->params[k]->shape));
  return n;
}

// "(f32[8,128], f32[128]) -> f32[8]", cut after a few parameters.
static void signature_text(hs_buf *b, const hlo_module *m) {
  hs_buf_putc(b, '(');
  for (u32 k = 0; k < m->entry->nparams; k++) {
    if (k == 6 && m->entry->nparams > 8) {
      hs_buf_printf(b, ", %u more", m->entry->nparams - k);
      break;
    }
    if (k) hs_buf_puts(b, ", ");
    hlo_shape_print(b, m->entry->params[k]->shape, false);
  }
  hs_buf_puts(b, ") -> ");
  size_t at = b->n;
  hlo_shape_print(b, m->entry->root->shape, false);
  if (b->n - at > 160) {
    b->n = at;
    if (hlo_shape_is_tuple(m->entry->root->shape))
      hs_buf_printf(b, "(%u results)", m->entry->root->shape->nelems);
    else hs_buf_puts(b, "...");
  }
}

// The line that sums up a module when it is loaded.
// Nothing is costed that the verifier refuses.
static hs_status announce(repl_cmd *c, repl_module *mod) {
  const hlo_module *m = mod->m;
  hlo_cost_table cost = {0};
  HS_TRY(repl_warn_unverified(c, mod));
  bool verified = repl_is_verified(mod);
  if (verified) HS_TRY(hlo_cost_module(m, &cost));
  char bytes[32], flops[32];
  hs_buf sig = {0};
  signature_text(&sig, m);
  u32 n = hlo_instr_count(m);
  repl_say(c->out, "%s: %u instruction%s, parameters %s, %s, %s\n", m->name, n, n == 1 ? "" : "s",
           repl_bytes(bytes, (double)parameter_bytes(m)),
           verified ? repl_flops(flops, cost.total.flops) : "unverified", hs_buf_cstr(&sig));
  if (c->doc) {
    repl_json *j = repl_json_object(c->doc, "loaded");
    repl_json_str(j, "name", m->name);
    repl_json_int(j, "number", mod->number);
    if (mod->path) repl_json_str(j, "file", mod->path);
    repl_json_int(j, "instructions", n);
    repl_json_int(j, "computations", m->ncomputations);
    repl_json_int(j, "parameter_bytes", parameter_bytes(m));
    if (verified) repl_json_num(j, "flops", cost.total.flops);
    repl_json_str(j, "signature", hs_buf_cstr(&sig));
    repl_json_bool(j, "elided", mod->elided);
    repl_json_bool(j, "verified", verified);
    c->out->text.n = 0;
  }
  hs_buf_free(&sig);
  hlo_cost_free(&cost);
  if (mod->elided && c->s->set.elided == REPL_ELIDED_ASK)
    repl_note(
        c->out,
        "%s has constants printed as {...}: time, speedup and estimate use seeded random values, "
        "run, check, report and save require --elided=random|zeros",
        m->name);
  return HS_GOOD;
}

// What is loaded, and where from; NULL: not from a file that can be read again.
typedef struct taker {
  repl_cmd *c;
  const char *path;
} taker;

static hs_status accept(void *to, hlo_module *m) {
  repl_cmd *c = ((taker *)to)->c;
  const char *path = ((taker *)to)->path;
  if (!m->entry || !m->entry->root) {
    hs_status s =
        hs_fail(HS_E_VERIFY, "%s: the module has no entry computation", path ? path : m->name);
    hlo_module_free(m);
    return s;
  }
  if (m->load_note) repl_note(c->out, "%s: %s", path ? path : m->name, m->load_note);
  repl_module *mod = repl_session_add(c->s, m, path);
  mod->unchecked = repl_flag(c, "--unchecked") != NULL;
  return announce(c, mod);
}

static hs_status load_stdin(repl_cmd *c) {
  hlo_parse_options o = {.file = "<stdin>", .sizes = repl_flag(c, "--sizes")};
  return hlo_load_each(c->s->ctx, "-", &o, accept, &(taker){c, NULL});
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static hs_status list_folder(repl_cmd *c, const char *path) {
  DIR *d = opendir(path);
  if (!d) return hs_fail_errno(HS_E_IO, path);
  HS_VEC(char *) names = {0};
  for (struct dirent *e; (e = readdir(d)) != NULL;)
    if (e->d_name[0] != '.' && repl_is_module_name(e->d_name)) {
      char *name = hs_format("%s/%s", path, e->d_name);
      if (repl_is_file(name)) hs_vec_push(&names, name);
      else hs_free(name);
    }
  closedir(d);
  if (names.n) qsort(names.v, names.n, sizeof names.v[0], by_text);
  repl_json *list = repl_json_array(c->doc, "files");
  for (size_t k = 0; k < names.n; k++) {
    struct stat st;
    char bytes[32];
    double size = stat(names.v[k], &st) == 0 ? (double)st.st_size : 0;
    hs_buf b = {0};
    repl_pad(&b, repl_bytes(bytes, size), -9);
    if (!c->doc) repl_say(c->out, "%s  %s\n", hs_buf_cstr(&b), names.v[k]);
    hs_buf_free(&b);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "file", names.v[k]);
    repl_json_num(j, "bytes", size);
    hs_free(names.v[k]);
  }
  size_t n = names.n;
  hs_vec_free(&names);
  if (!n)
    return hs_fail(HS_E_INPUT, "%s: no module files (.hlo .txt .pb .pbtxt .mlir) in this folder",
                   path);
  repl_note(c->out, "%zu file%s; load one of them by its name", n, n == 1 ? "" : "s");
  return HS_GOOD;
}

static hs_status load_file(repl_cmd *c, const char *path) {
  hlo_parse_options o = {.sizes = repl_flag(c, "--sizes")};
  return hlo_load_each(c->s->ctx, path, &o, accept, &(taker){c, path});
}

// ---- XLA's dumps --------------------------------------------------------------------------------
// "after_algsimp in simplification"; freed by the caller.
static char *step_label(const dump_step *step) {
  return hs_format("%s%s%s", step->label, step->pipeline ? " in " : "",
                   step->pipeline ? step->pipeline : "");
}

// Adds the state of one dump file to a module as its next version.
static hs_status add_step(repl_cmd *c, repl_module *mod, const dump_step *step) {
  hlo_module *m;
  hlo_parse_options o = {.file = step->file};
  HS_TRY(hlo_load_file(c->s->ctx, step->file, &o, &m));
  if (!m->entry || !m->entry->root) {
    hlo_module_free(m);
    return hs_fail(HS_E_VERIFY, "%s: the module has no entry computation", step->file);
  }
  // XLA does not say how long it took
  pass_result r = {.pass = hlo_intern_str(c->s->ctx, step->pass ? step->pass : step->label),
                   .pipeline = hlo_intern_str(c->s->ctx, step->pipeline ? step->pipeline : ""),
                   .changed = true,
                   .ms = -1};
  // A state that the verifier refuses is kept, but not measured.
  hs_status s = HS_GOOD;
  if (repl_is_verified(mod)) s = pass_measure(mod->m, NULL, &r.before);
  hlo_module_become(mod->m, m);
  hlo_module_free(m);
  if (!hs_ok(s)) {
    hlo_abort(mod->m);
    return s;
  }
  char *label = step_label(step);
  repl_version *v = repl_commit(mod, label);
  hs_free(label);
  if (!v) return s;
  v->stepped = true;
  s = repl_warn_unverified(c, mod);
  if (hs_ok(s) && repl_is_verified(mod)) s = pass_measure(mod->m, NULL, &r.after);
  hs_vec_push(&v->log, r);
  return s;
}

// Reports a file that cannot be read and skips it; false: the work is to stop.
static bool leave_out(repl_cmd *c, const dump_step *step, repl_json *list, hs_status *s, u32 *out) {
  if (hs_interrupted()) return false;
  repl_print_status(c->out, *s);
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "file", step->file);
  repl_json_str(j, "error", (*s).err->message);
  hs_status_drop(*s);
  *s = HS_GOOD;
  ++*out;
  return true;
}

// The module's states become versions of one module; the current one is the first.
static hs_status load_history(repl_cmd *c, const dump_module *d) {
  repl_module *mod = NULL;
  repl_json *left_out = repl_json_array(c->doc, "left_out");
  hs_status s = HS_GOOD;
  u32 bad = 0;
  for (size_t k = 0; k < d->steps.n && hs_ok(s); k++) {
    s = hs_poll();
    if (hs_ok(s)) s = mod ? add_step(c, mod, &d->steps.v[k]) : load_file(c, d->steps.v[k].file);
    if (hs_ok(s) && !mod) {
      mod = c->s->current;
      hs_free(mod->versions.v[0]->label);
      mod->versions.v[0]->label = step_label(&d->steps.v[k]);
    }
    if (!hs_ok(s) && !leave_out(c, &d->steps.v[k], left_out, &s, &bad)) break;
    repl_progress(c->out, d->name, (double)(k + 1), (double)d->steps.n);
  }
  repl_progress_end(c->out);
  if (!mod) return hs_ok(s) ? hs_fail(HS_E_INPUT, "no state of %s could be read", d->key) : s;
  mod->imported = mod->versions.n > 1;
  repl_goto(mod, mod->versions.v[0]);
  if (bad) repl_note(c->out, "%u of %zu files of %s left out", bad, d->steps.n, d->key);
  if (hs_ok(s) && mod->imported)
    repl_note(
        c->out,
        "%zu versions from %zu states: next, back, until and goto step through them, history lists "
        "them",
        mod->versions.n, d->steps.n - bad);
  return hs_ok(s) ? s
                  : hs_with_note(s, "%zu of %zu states of %s were read", mod->versions.n,
                                 d->steps.n, d->key);
}

static hs_status say_dump(repl_cmd *c, const dump_folder *d) {
  repl_json *list = repl_json_array(c->doc, "modules");
  if (!c->doc) repl_say(c->out, "module  states  first .. last\n");
  for (size_t k = 0; k < d->modules.n; k++) {
    const dump_module *m = &d->modules.v[k];
    if (!c->doc)
      repl_say(c->out, "%6u %7zu  %s: %s .. %s\n", m->number, m->steps.n, m->name,
               m->steps.v[0].label, m->steps.v[m->steps.n - 1].label);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_int(j, "number", m->number);
    repl_json_str(j, "name", m->name);
    repl_json_int(j, "states", (i64)m->steps.n);
    repl_json_str(j, "first", m->steps.v[0].label);
    repl_json_str(j, "last", m->steps.v[m->steps.n - 1].label);
  }
  return HS_GOOD;
}

// Which of a dump's modules: the one there is, or --module=NUMBER|NAME|all.
static hs_status load_dump(repl_cmd *c, const char *path, const dump_folder *d) {
  const char *which = repl_flag(c, "--module");
  HS_TRY(say_dump(c, d));
  repl_flush(c->out);
  if (!which && d->modules.n > 1) {
    repl_note(c->out, "none is loaded yet; load %s --module=NUMBER, NAME or all does", path);
    return HS_GOOD;
  }
  bool any = false;
  for (size_t k = 0; k < d->modules.n; k++) {
    const dump_module *m = &d->modules.v[k];
    char *end = NULL;
    bool numbered = which && strtoul(which, &end, 10) == m->number && end != which && !*end;
    if (which && !numbered && strcmp(which, "all") != 0 && strcmp(which, m->name) != 0 &&
        strcmp(which, m->key) != 0)
      continue;
    any = true;
    HS_TRY(load_history(c, m));
  }
  return any ? HS_GOOD
             : hs_with_note(hs_fail(HS_E_NO_OBJECT, "%s: no module %s", path, which),
                            "the table above lists their numbers and names");
}

hs_status cmd_load_history(repl_cmd *c, const char *dir, const char *name, repl_module **out) {
  dump_folder d;
  HS_TRY(dump_folder_read(dir, &d));
  const dump_module *found = NULL;
  for (size_t k = 0; k < d.modules.n; k++)
    if (!found || (strcmp(d.modules.v[k].name, name) == 0 && strcmp(found->name, name) != 0))
      found = &d.modules.v[k];
  hs_status s = found ? load_history(c, found) : hs_fail(HS_E_RUN, "no dumps were written");
  *out = c->s->current;
  dump_folder_free(&d);
  return s;
}

static hs_status load_folder(repl_cmd *c, const char *path) {
  dump_folder d;
  HS_TRY(dump_folder_read(path, &d));
  hs_status s = d.modules.n ? load_dump(c, path, &d) : list_folder(c, path);
  dump_folder_free(&d);
  return s;
}

static hs_status load_one(repl_cmd *c, const char *path) {
  struct stat st;
  if (strcmp(path, "-") == 0) return load_stdin(c);
  if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return load_folder(c, path);
  if (recorded_is_profile(c, path))
    return recorded_load(c, path, repl_flag(c, "--module"), accept, &(taker){c, path});
  return load_file(c, path);
}

hs_status cmd_load(repl_cmd *c) {
  const char *how = repl_flag(c, "--elided");
  if (how) HS_TRY(repl_set(c->s, "elided", how));
  // All of the files or none: a module that was loaded before another one failed goes again.
  size_t had = c->s->modules.n;
  repl_module *current = c->s->current;
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < c->args.npos && hs_ok(s); k++) s = load_one(c, c->args.pos[k]);
  if (hs_ok(s) || c->s->modules.n == had) return s;
  while (c->s->modules.n > had) repl_session_remove(c->s, c->s->modules.v[c->s->modules.n - 1]);
  c->s->current = current;
  return c->args.npos > 1 ? hs_with_note(s, "none of the files was loaded") : s;
}

hs_status cmd_paste(repl_cmd *c) {
  hlo_module *m;
  hlo_parse_options o = {.file = "<paste>"};
  HS_TRY(hlo_parse(c->s->ctx, c->args.raw, strlen(c->args.raw), &o, &m));
  return accept(&(taker){c, NULL}, m);
}

hs_status cmd_example(repl_cmd *c) {
  const char *name = repl_arg(c, 0);
  repl_json *list = name ? NULL : repl_json_array(c->doc, "examples");
  const char *names[32];
  for (u32 k = 0; k < repl_example_count; k++) {
    const repl_example *e = &repl_examples[k];
    names[k] = e->name;
    if (name && strcmp(e->name, name) == 0) {
      hlo_module *m;
      hlo_parse_options o = {.file = e->name};
      HS_TRY(hlo_parse(c->s->ctx, e->text, strlen(e->text), &o, &m));
      return accept(&(taker){c, NULL}, m);
    }
    if (name) continue;
    if (!c->doc) repl_say(c->out, "%-10s %s\n", e->name, e->summary);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", e->name);
    repl_json_str(j, "summary", e->summary);
  }
  if (!name) return HS_GOOD;
  hs_status s = hs_fail(HS_E_USAGE, "example: no example is called %s", name);
  const char *near = hs_nearest(name, names, repl_example_count);
  return near ? hs_with_note(s, "did you mean %s?", near) : hs_with_note(s, "example lists them");
}

hs_status cmd_modules(repl_cmd *c) {
  repl_json *list = repl_json_array(c->doc, "modules");
  if (!c->s->modules.n && !c->doc) repl_say(c->out, "no module is loaded\n");
  for (size_t k = 0; k < c->s->modules.n; k++) {
    const repl_module *m = c->s->modules.v[k];
    u32 n = hlo_instr_count(m->m);
    if (!c->doc)
      repl_say(c->out, "%c %2u  %s@%u  %u instructions, %zu version%s%s%s\n",
               m == c->s->current ? '*' : ' ', m->number, m->m->name, m->at->number, n,
               m->versions.n, m->versions.n == 1 ? "" : "s", m->path ? "  " : "",
               m->path ? m->path : "");
    repl_json *j = repl_json_object(list, NULL);
    repl_json_int(j, "number", m->number);
    repl_json_str(j, "name", m->m->name);
    repl_json_int(j, "version", m->at->number);
    repl_json_int(j, "versions", (i64)m->versions.n);
    repl_json_int(j, "instructions", n);
    repl_json_bool(j, "current", m == c->s->current);
    if (m->path) repl_json_str(j, "file", m->path);
  }
  return HS_GOOD;
}

static hs_status module_arg(repl_cmd *c, const char *text, repl_module **out) {
  *out = repl_session_find(c->s, text);
  return *out ? HS_GOOD
              : hs_with_note(hs_fail(HS_E_NO_MODULE, "%s: no module %s", c->command->name, text),
                             "modules lists them");
}

hs_status cmd_use(repl_cmd *c) {
  repl_module *mod;
  HS_TRY(module_arg(c, repl_arg(c, 0), &mod));
  c->s->current = mod;
  repl_json_str(c->doc, "name", mod->m->name);
  if (!c->doc) repl_say(c->out, "%s@%u\n", mod->m->name, mod->at->number);
  return HS_GOOD;
}

hs_status cmd_close(repl_cmd *c) {
  repl_module *mod = c->mod;
  if (repl_arg(c, 0)) HS_TRY(module_arg(c, repl_arg(c, 0), &mod));
  if (mod == c->mod) c->mod = NULL, c->m = NULL;
  repl_session_remove(c->s, mod);
  return HS_GOOD;
}

static hs_status put_artifact(repl_cmd *c, const hlo_module *m, bool exported, hs_buf *b) {
  const char *version = repl_flag(c, "--stablehlo");
  u32 v = HLO_STABLEHLO_USUAL;
  if (version) HS_TRY(hlo_mlir_version(hs_str_of(version), &v));
  return exported ? hlo_jax_export_write(m, v, b) : hlo_mlir_write(m, v, b);
}

// Protos and StableHLO by the ending of the name, anything else as HLO text.
static hs_status put_saved(repl_cmd *c, const char *path, const hlo_module *m, hs_buf *b) {
  bool text = repl_ends_in(path, ".pbtxt") || repl_ends_in(path, ".textproto") ||
              repl_ends_in(path, ".txtpb");
  if (text || repl_ends_in(path, ".pb")) {
    u32 lost = 0;
    HS_TRY(hlo_proto_save(b, m, HLO_PROTO_AS_READ, text, &lost));
    if (lost)
      repl_note(
          c->out,
          "left out %u field%s of the proto that was read: the instructions they belong to have "
          "changed",
          lost, lost == 1 ? "" : "s");
    return HS_GOOD;
  }
  if (repl_ends_in(path, ".mlir")) return hlo_mlir_print(m, b);
  if (repl_ends_in(path, ".mlirbc")) return put_artifact(c, m, false, b);
  if (repl_ends_in(path, ".exported")) return put_artifact(c, m, true, b);
  hlo_print_options o = repl_flag(c, "--short") ? hlo_print_short_parsable() : hlo_print_full();
  o.print_large_constants = true;
  hlo_print_module(b, m, &o);
  if (b->n && b->p[b->n - 1] != '\n') hs_buf_putc(b, '\n');
  return HS_GOOD;
}

hs_status cmd_save(repl_cmd *c) {
  hlo_module *m;
  HS_TRY(repl_filled(c, NULL, true, &m));
  hs_buf b = {0};
  hs_status s = put_saved(c, repl_arg(c, 0), m, &b);
  hlo_module_free(m);
  if (hs_ok(s)) s = hs_write_file(repl_arg(c, 0), b.p, b.n, false);
  if (hs_ok(s)) {
    repl_json_str(c->doc, "file", repl_arg(c, 0));
    repl_json_int(c->doc, "bytes", (i64)b.n);
    repl_note(c->out, "wrote %s", repl_arg(c, 0));
  }
  hs_buf_free(&b);
  return s;
}
