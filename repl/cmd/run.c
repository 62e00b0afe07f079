// run.c — backends, backend, customcall, compile, run, time, dump. `check` is in
// check.c.
#include "backends/ffi.h"
#include "repl/cmd/cmd.h"
#include "repl/debug/cut.h"
#include "repl/formats/npy.h"
#include "repl/shell/plugin.h"
#include "repl/shell/value.h"

hs_status cmd_backends(repl_cmd *c) {
  repl_json *list = repl_json_array(c->doc, "backends");
  for (u32 k = 0; k < backend_count; k++) {
    const backend *b = backend_table[k];
    hs_status s = b->probe();
    const char *state = hs_ok(s) ? "ok" : s.err->message;
    if (!c->doc)
      repl_say(c->out, "%c %-12s %-56s %s\n", b == c->s->be ? '*' : ' ', b->name, b->summary,
               state);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", b->name);
    repl_json_str(j, "summary", b->summary);
    repl_json_bool(j, "usable", hs_ok(s));
    if (!hs_ok(s)) repl_json_str(j, "reason", state);
    repl_json_bool(j, "current", b == c->s->be);
    hs_status_drop(s);
  }
  repl_say_plugins(c);
  return HS_GOOD;
}

static hs_status find_backend(repl_cmd *c, const char *name, const backend **out) {
  *out = backend_find(name);
  if (*out && backend_has(*out, BACKEND_XLA)) return HS_GOOD;  // a plug-in may be named with it
  if (*out) return repl_backend_usable(c->s, *out);
  const char *names[32];
  u32 n = HS_MIN(backend_count, (u32)HS_COUNT(names));
  for (u32 k = 0; k < n; k++) names[k] = backend_table[k]->name;
  const char *near = hs_nearest(name, names, n);
  hs_status s = hs_fail(HS_E_USAGE, "%s: there is no backend %s", c->command->name, name);
  return near ? hs_with_note(s, "did you mean %s?", near) : hs_with_note(s, "backends lists them");
}

hs_status cmd_backend(repl_cmd *c) {
  if (repl_arg(c, 0)) {
    const backend *b;
    HS_TRY(find_backend(c, repl_arg(c, 0), &b));
    if (repl_arg(c, 1) || backend_has(b, BACKEND_XLA))
      HS_TRY(repl_choose_plugin(c, b, repl_arg(c, 1)));
    c->s->be = b;
  }
  if (!c->doc) repl_say(c->out, "%s: %s\n", c->s->be->name, c->s->be->summary);
  repl_json_str(c->doc, "backend", c->s->be->name);
  return HS_GOOD;
}

// ---- custom calls of the user's own -------------------------------------------------------------
hs_status cmd_customcall(repl_cmd *c) {
  const char *verb = repl_arg(c, 0), *names[32];
  u32 n = 0;
  while (n < HS_COUNT(names) && repl_arg(c, n + 2)) names[n] = repl_arg(c, n + 2), n++;
  if (!verb) {
    hs_buf b = {0};
    ffi_list(&b);
    if (!c->doc) repl_say(c->out, "%s", b.n ? hs_buf_cstr(&b) : "no library is loaded\n");
    repl_json_str(c->doc, "loaded", b.n ? hs_buf_cstr(&b) : "");
    hs_buf_free(&b);
    return HS_GOOD;
  }
  if (strcmp(verb, "unload") == 0) {
    ffi_unload_all();
    return HS_GOOD;
  }
  if (strcmp(verb, "load") != 0) return repl_usage_error(c, "load LIB.so, unload, or no argument");
  if (!repl_arg(c, 1)) return repl_usage_error(c, "which library?");
  HS_TRY(ffi_load(repl_arg(c, 1), n, names));
  if (!c->doc) repl_say(c->out, "loaded %s\n", repl_arg(c, 1));
  repl_json_str(c->doc, "library", repl_arg(c, 1));
  return HS_GOOD;
}

// ---- compile, run, time -------------------------------------------------------------------------
static void json_size(repl_json *j, const char *key, i64 bytes) {
  if (bytes < 0) repl_json_null(j, key);
  else repl_json_int(j, key, bytes);
}

hs_status cmd_compile(repl_cmd *c) {
  repl_exe *x;
  HS_TRY(repl_compiled(c, c->s->be, repl_flag(c, "--per-instruction") != NULL, false, &x));
  const backend_compiled *k = x->be->compiled(x->exe);
  char a[32], o[32], t[32], p[32], n[32];
  repl_json_str(c->doc, "backend", x->be->name);
  repl_json_num(c->doc, "compile_ms", k->compile_ms);
  repl_json_num(c->doc, "compile_cpu_ms", k->compile_cpu_ms);
  repl_json_bool(c->doc, "kept_code", k->kept_code);
  repl_json_int(c->doc, "kernels", k->nkernels);
  repl_json_int(c->doc, "fallbacks", k->fallbacks);
  json_size(c->doc, "argument_bytes", k->argument_bytes);
  json_size(c->doc, "output_bytes", k->output_bytes);
  json_size(c->doc, "alias_bytes", k->alias_bytes);
  json_size(c->doc, "temp_bytes", k->temp_bytes);
  json_size(c->doc, "peak_bytes", k->peak_bytes);
  repl_json *list = repl_json_array(c->doc, "kernel_list");
  for (u32 j = 0; c->doc && j < k->nkernels; j++) {
    repl_json *e = repl_json_object(list, NULL);
    repl_json_str(e, "name", k->kernels[j].name);
    repl_json_str(e, "kind", k->kernels[j].kind);
    if (k->kernels[j].launches) repl_json_int(e, "launches", k->kernels[j].launches);
    repl_json_int(e, "scratch_bytes", k->kernels[j].scratch_bytes);
  }
  if (c->doc) return HS_GOOD;
  if (k->peak_bytes < 0)
    repl_say(c->out, "%s: %s in %.1f ms; memory not known\n", x->be->name,
             repl_plural(n, k->nkernels, "kernel"), k->compile_ms);
  else
    repl_say(c->out, "%s: %s in %.1f ms; arguments %s, outputs %s, temporaries %s, peak %s\n",
             x->be->name, repl_plural(n, k->nkernels, "kernel"), k->compile_ms,
             repl_bytes(a, (double)k->argument_bytes), repl_bytes(o, (double)k->output_bytes),
             repl_bytes(t, (double)k->temp_bytes), repl_bytes(p, (double)k->peak_bytes));
  if (k->kept_code) repl_say(c->out, "its code was kept on disk (cache)\n");
  if (k->fallbacks)
    repl_say(c->out, "%u instruction%s run %s\n", k->fallbacks, k->fallbacks == 1 ? " is" : "s are",
             repl_falls_back_to(x->be));
  for (u32 j = 0; j < k->nkernels && j < 40; j++)
    repl_say(c->out, "  %-24s %s\n", k->kernels[j].kind, k->kernels[j].name);
  if (k->nkernels > 40) repl_say(c->out, "  ... %u more\n", k->nkernels - 40);
  return HS_GOOD;
}

static hs_status save_outputs(repl_cmd *c, const hlo_literal *v, const char *path) {
  size_t n = strlen(path);
  bool npy = n > 4 && strcmp(path + n - 4, ".npy") == 0;
  char *prefix = npy ? hs_format("%.*s", (int)n - 4, path) : hs_strdup(path);
  hs_status s = arrays_is_file_name(path) && !npy
                    ? arrays_write(path, 1, &(array_item){"result", v})
                    : repl_npy_write_tree(prefix, v);
  hs_free(prefix);
  if (hs_ok(s)) repl_note(c->out, "wrote %s", path);
  return s;
}

static hs_status read_watch(repl_cmd *c, watch_options *w) {
  *w = (watch_options){.capture = repl_flag(c, "--capture"), .iteration = -1};
  if (!w->capture && *c->s->set.capture) w->capture = c->s->set.capture;
  if (repl_flag(c, "--iteration"))
    HS_TRY(
        repl_arg_int(c, "--iteration", repl_flag(c, "--iteration"), 0, INT64_MAX, &w->iteration));
  return repl_flag(c, "--trap") ? watch_trap_kinds(c, repl_flag(c, "--trap"), &w->trap) : HS_GOOD;
}

// The host of a run: --infeed says what it gives (lines "[@DEVICE] [#CHANNEL] SHAPE LITERAL",
// core/eval/host.c).
static hs_status open_host(repl_cmd *c, hlo_host **out) {
  const char *file = repl_flag(c, "--infeed");
  *out = hlo_host_new();
  if (!file) return HS_GOOD;
  hs_buf text = {0};
  hs_status s = repl_read_file(file, 0, &text);
  if (hs_ok(s)) s = hlo_host_read(*out, c->m->ctx, text.p ? text.p : "", text.n);
  hs_buf_free(&text);
  if (hs_ok(s)) return s;
  hlo_host_free(*out);
  *out = NULL;
  return hs_with_note(s, "%s", file);
}

// What the program handed out, to the file of --outfeed or to the output.
static hs_status close_host(repl_cmd *c, hlo_host *h) {
  const char *file = repl_flag(c, "--outfeed");
  hs_buf b = {0};
  hs_status s = HS_GOOD;
  hlo_host_write(h, &b);
  hlo_host_free(h);
  if (file) {
    s = hs_write_file(file, b.p ? b.p : "", b.n, false);
    if (hs_ok(s)) repl_note(c->out, "wrote %s", file);
  } else if (b.n && !c->doc) {
    repl_say(c->out, "outfeed:\n%s", hs_buf_cstr(&b));
  }
  if (b.n) repl_json_str(c->doc, "handed_out", hs_buf_cstr(&b));
  hs_buf_free(&b);
  return s;
}

// One run, by the evaluator under watch or by compiled code.
static hs_status run_once(repl_cmd *c, repl_exe *x, const watch_options *w, repl_values *kept,
                          backend_result *r) {
  if (backend_has(x->be, BACKEND_EVALUATOR)) {
    u64 t0 = hs_now_ns();
    HS_TRY(watch_run(c, x->m, w, kept, &r->outputs));
    r->timing.first_ms = (double)(hs_now_ns() - t0) / 1e6;
    return HS_GOOD;
  }
  backend_run_options o = {.min_runs = 1, .max_runs = 1, .want_outputs = true};
  HS_TRY(x->be->run(x->exe, c->mod->ninputs, c->mod->inputs, &o, r));
  return w->capture ? cut_capture(c, x, w, kept) : HS_GOOD;
}

hs_status cmd_run(repl_cmd *c) {
  i64 n = 1, limit = 16;
  watch_options w;
  if (repl_flag(c, "-n")) HS_TRY(repl_arg_int(c, "-n", repl_flag(c, "-n"), 1, 1000000, &n));
  if (repl_flag(c, "--limit"))
    HS_TRY(repl_arg_int(c, "--limit", repl_flag(c, "--limit"), 0, INT32_MAX, &limit));
  HS_TRY(read_watch(c, &w));
  HS_TRY(repl_inputs(c));
  const backend *be = w.trap ? backend_with(BACKEND_EVALUATOR) : c->s->be;
  if (be != c->s->be)
    repl_note(c->out, "the evaluator runs it: %s does not show every value", c->s->be->name);
  repl_exe *x;
  HS_TRY(repl_compiled(c, be, false, true, &x));
  hs_status s = open_host(c, &w.host);
  u64 first_hash = 0;
  for (i64 k = 0; k < n && hs_ok(s); k++) {
    backend_result r = {0};
    repl_values kept = {0};
    s = run_once(c, x, &w, &kept, &r);
    if (!hs_ok(s)) {
      backend_result_free(&r);
      repl_values_free(&kept);
      break;
    }
    u64 h = hlo_literal_hash(r.outputs);
    if (k == 0) {
      first_hash = h;
      size_t captured = kept.n;
      if (!repl_values_find(&kept, c->m->entry->root->name))
        repl_values_keep(&kept, c->m->entry->root->name, r.outputs, "");
      repl_keep_values(c->mod, &kept);
      repl_json_str(c->doc, "backend", x->be->name);
      repl_json_str(c->doc, "inputs", c->mod->inputs_from);
      repl_json_num(c->doc, "first_run_ms", r.timing.first_ms);
      repl_json_literal(c->doc, c->s->ctx, "result", r.outputs, limit);
      if (w.capture) repl_json_int(c->doc, "captured", (i64)captured);
      if (!c->doc) repl_say_literal(c->out, c->s->ctx, "result", r.outputs, limit);
      if (!c->doc && w.capture)
        repl_say(c->out, "%zu value%s captured; values lists them\n", captured,
                 captured == 1 ? "" : "s");
      s = hs_poll();
      if (hs_ok(s) && repl_flag(c, "-o")) s = save_outputs(c, r.outputs, repl_flag(c, "-o"));
    } else if (h != first_hash) {
      s = hs_fail(HS_E_DIFFER, "run %lld of %lld differs in its bits from the first one",
                  (long long)k + 1, (long long)n);
    }
    repl_values_free(&kept);
    backend_result_free(&r);
    if (hs_ok(s)) s = hs_poll();  // small programs end before they look
  }
  if (hs_ok(s)) s = close_host(c, w.host);
  else hlo_host_free(w.host);
  if (hs_ok(s) && n > 1) {
    repl_json_int(c->doc, "identical_runs", n);
    if (!c->doc) repl_say(c->out, "%lld runs, all identical\n", (long long)n);
  }
  return s;
}

hs_status cmd_time(repl_cmd *c) {
  i64 runs = 10;
  double seconds = 1;
  if (repl_flag(c, "--runs"))
    HS_TRY(repl_arg_int(c, "--runs", repl_flag(c, "--runs"), 1, 10000000, &runs));
  HS_TRY(repl_arg_seconds(c, &seconds));
  if (!(seconds > 0 && seconds <= 86400))
    return repl_usage_error(c, "--seconds is more than 0 and at most 86400");
  HS_TRY(repl_inputs(c));
  repl_exe *x;
  HS_TRY(repl_compiled(c, c->s->be, false, false, &x));
  HS_TRY(repl_refuse_fallback(c, x->be, x->be->compiled(x->exe)));
  bool fixed = repl_flag(c, "--runs") != NULL, asked = repl_flag(c, "--seconds") != NULL;
  u32 most = asked ? 1000000 : 100000;
  double least = asked ? seconds : 0.3;
  backend_run_options o = {.warmup = 2,
                           .min_runs = (u32)runs,
                           .max_runs = fixed ? (u32)runs : most,
                           .min_seconds = fixed ? 0 : least,
                           .max_seconds = fixed ? 86400 : seconds};
  backend_result r = {0};
  hs_status s = x->be->run(x->exe, c->mod->ninputs, c->mod->inputs, &o, &r);
  if (!hs_ok(s)) {
    backend_result_free(&r);
    return s;
  }
  prof_stats st = prof_summarize(r.timing.samples_ms, r.timing.runs);
  const backend_compiled *k = x->be->compiled(x->exe);
  char a[32], b[32], d[32], e[32];
  if (!c->doc) {
    repl_say(c->out, "measured on %s: median %s +- %s  p10 %s  p90 %s  %u runs\n", x->be->name,
             repl_time(a, st.median * 1e-3), repl_time(b, st.interval * 1e-3),
             repl_time(d, st.p10 * 1e-3), repl_time(e, st.p90 * 1e-3), st.n);
    repl_say(c->out, "compile %.1f ms%s, first run %s\n", k->compile_ms,
             k->kept_code ? " (its code was kept on disk)" : "",
             repl_time(a, r.timing.first_ms * 1e-3));
  }
  if (backend_has(x->be, BACKEND_XLA)) repl_say_plugin_line(c, x->be, x->exe);
  repl_json_str(c->doc, "source", "measured");
  repl_json_str(c->doc, "backend", x->be->name);
  repl_json_num(c->doc, "time_ms", st.median);
  repl_json_num(c->doc, "time_p10_ms", st.p10);
  repl_json_num(c->doc, "time_p90_ms", st.p90);
  repl_json_num(c->doc, "time_p99_ms", st.p99);
  repl_json_num(c->doc, "time_max_ms", st.max);
  repl_json_num(c->doc, "interval_ms", st.interval);
  repl_json_int(c->doc, "runs", st.n);
  repl_json_num(c->doc, "compile_ms", k->compile_ms);
  repl_json_bool(c->doc, "kept_code", k->kept_code);
  repl_json_num(c->doc, "first_run_ms", r.timing.first_ms);
  if (r.timing.dispatch_ms >= 0) repl_json_num(c->doc, "dispatch_ms", r.timing.dispatch_ms);
  else repl_json_null(c->doc, "dispatch_ms");
  backend_result_free(&r);
  return HS_GOOD;
}

hs_status cmd_dump(repl_cmd *c) {
  const char *what = repl_arg(c, 0);
  static const char of_cpu[] = "backend cpu has some",
                    of_gpu[] = "`target h200; backend gpu` compiles for a GPU that need not be "
                               "here";
  static const struct {
    const char *name, *who;  // has it
  } kinds[] = {{"llvm", of_cpu},      {"asm", of_cpu},     {"ptx", of_gpu},     {"sass", of_gpu},
               {"resources", of_gpu}, {"buffers", of_cpu}, {"schedule", of_cpu}};
  const char *who = NULL;
  for (size_t k = 0; k < HS_COUNT(kinds); k++)
    if (strcmp(kinds[k].name, what) == 0) who = kinds[k].who;
  if (!who)
    return repl_usage_error(
        c, "dumps llvm, asm, ptx, sass, resources, buffers or schedule, not \"%s\"", what);
  repl_exe *x;
  HS_TRY(repl_compiled(c, c->s->be, false, false, &x));
  if (!x->be->dump)
    return hs_with_note(
        hs_fail(HS_E_UNSUPPORTED, "the backend %s has no compiler output", x->be->name), "%s", who);
  hs_buf b = {0};
  hs_status s = x->be->dump(x->exe, what, &b);
  if (!hs_ok(s) && s.err->code == HS_E_USAGE && !s.err->note && who == of_gpu)
    s = hs_with_note(s, "%s", who);
  if (hs_ok(s) && repl_flag(c, "-o"))
    s = hs_write_file(repl_flag(c, "-o"), b.p ? b.p : "", b.n, false);
  else if (hs_ok(s)) hs_buf_put(&c->out->text, b.p ? b.p : "", b.n);
  hs_buf_free(&b);
  return s;
}
