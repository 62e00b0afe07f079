// recorded.c: loading profiles of other processes and joining them to modules. See recorded.h.
//
// A kernel and an instruction are joined when they have the same name; a program and a module when
// they have the same name, or the file says that it is the program's own module. A loaded module
// must have at least half of the kernels' time, or the file's own copy is taken: two compilations
// of one function have the same name and other kernels.
#include "repl/debug/recorded.h"

#include <stdlib.h>

#include "core/base/compress.h"
#include "core/base/file.h"
#include "core/proto/proto.h"
#include "profiler/units.h"
#include "profiler/xplane.h"

#define ENOUGH 0.5

static hs_status view_profile(repl_cmd *c, const char *path, hs_view *v) {
  size_t limit = hlo_ctx_load_limit(c->s->ctx), n;
  char *p;
  HS_TRY(hs_view_file(path, limit, false, v));
  if (!hlo_is_compressed(v->p, v->n)) return HS_GOOD;
  hs_status s = hlo_decompress(v->p, v->n, &(hlo_unpacking){.limit = limit}, &p, &n);
  hs_view_drop(v);
  if (hs_ok(s)) *v = (hs_view){p, n, false};
  return s;
}

bool recorded_is_profile(repl_cmd *c, const char *path) {
  hs_view v = {0};
  // other files are read once, by their own readers
  if (!repl_ends_in(path, ".pb") && !repl_ends_in(path, ".pb.gz")) return false;
  hs_status s = view_profile(c, path, &v);
  bool is = hs_ok(s) && prof_is_xspace(v.p, v.n);
  hs_view_drop(&v);
  hs_status_drop(s);
  return is;
}

// ---- one program --------------------------------------------------------------------------------
// The part of the kernels' time that is of instructions of the module.
static double share_of(const prof_xprogram *x, const hlo_module *m) {
  const prof_recording *r = x->rec;
  double joined = 0, all = 0;
  for (u32 k = 0; k < r->nkernels; k++) {
    double ms = 0;
    for (u32 t = 0; t < r->nruns; t++) ms += r->ms[(size_t)t * r->nkernels + k];
    all += ms;
    if (hlo_find_instr(m, x->kernels[k])) joined += ms;
  }
  return all > 0 ? joined / all : 0;
}

// The loaded module that has most of the program's kernels; NULL when none has enough.
static repl_module *loaded_module(const repl_session *s, const prof_xprogram *x) {
  repl_module *best = NULL;
  double most = ENOUGH;
  for (size_t k = s->modules.n; k-- > 0;) {
    repl_module *mod = s->modules.v[k];
    if (strcmp(mod->m->name, x->module) != 0) continue;
    double share = share_of(x, mod->m);
    if (share > most || (share >= most && !best)) best = mod, most = share;
  }
  return best;
}

static const prof_xmodule *carried_module(const prof_xspace *f, const prof_xprogram *x) {
  for (u32 k = 0; k < f->nmodules; k++)
    if (x->id && f->modules[k].id == x->id) return &f->modules[k];
  for (u32 k = 0; k < f->nmodules; k++)
    if (!x->id && strcmp(f->modules[k].name, x->module) == 0) return &f->modules[k];
  return NULL;
}

// Takes the recording out of the program.
static void join(repl_module *mod, prof_xprogram *x, const char *path) {
  repl_recorded *r = hs_calloc(1, sizeof *r);
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  r->file = hs_arena_strndup(&r->arena, name, strlen(name));
  r->device = hs_arena_strndup(&r->arena, x->device, strlen(x->device));
  r->program = x->id;
  r->version = mod->at->number;
  r->left_out = x->left_out;
  r->joined = share_of(x, mod->m);
  r->kernels = HS_NEW_ARRAY(&r->arena, backend_kernel, x->rec->nkernels + 1);
  for (u32 k = 0; k < x->rec->nkernels; k++) {
    const hlo_instr *i = hlo_find_instr(mod->m, x->kernels[k]);
    // what a loop or call contains has rows of its own
    bool own = i && !hlo_op_has(i->opcode, HLO_F_CONTROL);
    hlo_cost cost = own ? hlo_cost_instr(i) : (hlo_cost){0};
    r->kernels[k] =
        (backend_kernel){.name = hs_arena_strndup(&r->arena, x->kernels[k], strlen(x->kernels[k])),
                         .kind = i ? hlo_op_text(i->opcode) : "",
                         .instr = i ? i->id : UINT32_MAX,
                         .flops = cost.flops,
                         .bytes = cost.bytes_read + cost.bytes_written};
  }
  r->rec = x->rec;
  x->rec = NULL;
  repl_recorded_free(mod->recorded);
  mod->recorded = r;
}

// What a program's line of the list says.
static void say_program(repl_cmd *c, repl_json *list, u32 number, const prof_xprogram *x) {
  char t[32], all[32];
  double run = prof_recorded_run(x->rec).median * 1e-3;
  if (!c->doc)
    repl_say(c->out, "%7u  %-32.32s %10s %10s %7u %9u  %s\n", number, x->module,
             prof_time_text(all, x->seconds), prof_time_text(t, run), x->rec->nruns,
             x->rec->nkernels, x->device);
  repl_json *j = repl_json_object(list, NULL);
  repl_json_int(j, "number", number);
  repl_json_str(j, "module", x->module);
  repl_json_str(j, "device", x->device);
  repl_json_int(j, "program", (i64)HS_MIN(x->id, (u64)INT64_MAX));
  repl_json_num(j, "kernel_ms", x->seconds * 1e3);
  repl_json_num(j, "run_ms", run * 1e3);
  repl_json_int(j, "runs", x->rec->nruns);
  repl_json_int(j, "kernels", x->rec->nkernels);
}

static void say_join(repl_cmd *c, repl_json *j, const repl_module *mod) {
  const repl_recorded *r = mod->recorded;
  char t[32];
  if (!c->doc)
    repl_say(c->out,
             "%s: %u kernels of %u run%s on %s, %s a run; %.1f %% of their time is of instructions "
             "of the module\n",
             mod->m->name, r->rec->nkernels, r->rec->nruns, r->rec->nruns == 1 ? "" : "s",
             r->device, prof_time_text(t, prof_recorded_run(r->rec).median * 1e-3),
             100 * r->joined);
  repl_json_int(j, "number", mod->number);
  repl_json_str(j, "module", mod->m->name);
  repl_json_str(j, "device", r->device);
  repl_json_int(j, "runs", r->rec->nruns);
  repl_json_int(j, "kernels", r->rec->nkernels);
  repl_json_num(j, "joined", r->joined);
}

// ---- a file -------------------------------------------------------------------------------------
typedef struct loading {
  repl_cmd *c;
  const char *path, *which;
  prof_xspace *f;
  hlo_module_sink *sink;
  void *to;
  repl_json *joined;
  u32 done;
} loading;

static bool is_wanted(const loading *l, u32 k) {
  const char *which = l->which;
  char *end;
  if (!which) return true;
  unsigned long number = strtoul(which, &end, 10);
  return strcmp(which, "all") == 0 || (end != which && !*end && number == k + 1) ||
         strcmp(which, l->f->programs[k].module) == 0;
}

// The same program ran on several devices: the one on which it took longest stands for all.
static bool ran_before(const prof_xspace *f, u32 k) {
  const prof_xprogram *x = &f->programs[k];
  for (u32 j = 0; j < k; j++)
    if (x->id && f->programs[j].id == x->id) return true;
  return false;
}

static hs_status take(loading *l, u32 k, repl_module *mod) {
  prof_xprogram *x = &l->f->programs[k];
  if (!mod) {
    const prof_xmodule *m = carried_module(l->f, x);
    hlo_module *read;
    if (!m) return HS_GOOD;
    HS_TRY(hlo_proto_read(l->c->s->ctx, m->proto, m->n, l->path, &read));
    HS_TRY(l->sink(l->to, read));
    mod = l->c->s->current;
  }
  join(mod, x, l->path);
  say_join(l->c, repl_json_object(l->joined, NULL), mod);
  l->done++;
  return HS_GOOD;
}

// Modules that are loaded come first; then, unless they were asked for, only the longest of the
// others.
static hs_status take_programs(loading *l) {
  for (u32 k = 0; k < l->f->nprograms; k++) {
    prof_xprogram *x = &l->f->programs[k];
    repl_module *mod = is_wanted(l, k) && !ran_before(l->f, k) ? loaded_module(l->c->s, x) : NULL;
    if (mod && mod->recorded && mod->recorded->rec && l->done) continue;  // a longer one has it
    if (mod) HS_TRY(take(l, k, mod));
  }
  for (u32 k = 0; k < l->f->nprograms; k++) {
    if (!l->f->programs[k].rec || !is_wanted(l, k) || ran_before(l->f, k)) continue;
    if (!l->which && l->done) break;
    HS_TRY(take(l, k, NULL));
  }
  return HS_GOOD;
}

static hs_status nothing_joined(const loading *l) {
  const prof_xspace *f = l->f;
  if (!f->nprograms)
    return hs_with_note(hs_fail(HS_E_INPUT,
                                "%s: no event of this profile says which operation of HLO it is",
                                l->path),
                        "jax.profiler records them while a jitted function runs");
  bool any = false;
  for (u32 k = 0; k < f->nprograms; k++) any |= is_wanted(l, k);
  if (!any)
    return hs_with_note(hs_fail(HS_E_NO_OBJECT, "%s: no program %s", l->path, l->which),
                        "the table above lists their numbers and names");
  return hs_with_note(hs_fail(HS_E_INPUT,
                              "%s carries no modules, and none that is loaded has the "
                              "kernels of its programs",
                              l->path),
                      "load the module %s first, as it is after XLA's passes",
                      f->programs[0].module);
}

hs_status recorded_load(repl_cmd *c, const char *path, const char *which, hlo_module_sink *sink,
                        void *to) {
  hs_view v;
  prof_xspace f = {0};
  HS_TRY(view_profile(c, path, &v));
  loading l = {.c = c, .path = path, .which = which, .f = &f, .sink = sink, .to = to};
  hs_status s = prof_xspace_read(v.p, v.n, path, &f);
  if (hs_ok(s)) {
    repl_json *list = repl_json_array(c->doc, "programs");
    if (!c->doc && f.nprograms)
      repl_say(c->out, "program  %-32s %10s %10s %7s %9s  %s\n", "module", "kernels'", "a run",
               "runs", "kernels", "device");
    for (u32 k = 0; k < f.nprograms; k++) say_program(c, list, k + 1, &f.programs[k]);
    l.joined = repl_json_array(c->doc, "joined");
    s = take_programs(&l);
    if (hs_ok(s) && !l.done) s = nothing_joined(&l);
    if (hs_ok(s) && !which && l.done < f.nprograms)
      repl_note(c->out, "--module=NUMBER, NAME or all loads the others");
  }
  prof_xspace_free(&f);
  hs_view_drop(&v);
  return s;
}
