// tools.c — each tool as commands of the shell. See compat.h.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/analysis/cost.h"
#include "core/proto/proto.h"
#include "repl/compat/compat.h"
#include "repl/shell/gate.h"
#include "repl/shell/target.h"

// ---- commands -----------------------------------------------------------------------------------
static void put_quoted(hs_buf *b, const char *text) {
  hs_buf_putc(b, '"');
  for (const char *p = text; *p; p++) {
    if (*p == '"' || *p == '\\') hs_buf_putc(b, '\\');
    hs_buf_putc(b, *p);
  }
  hs_buf_putc(b, '"');
}

// Runs a line of the shell; {} stands for `word`, quoted. Returns its exit status.
static int sh(repl_session *s, const char *line, const char *word) {
  hs_buf b = {0};
  const char *hole = strstr(line, "{}");
  hs_buf_put(&b, line, hole ? (size_t)(hole - line) : strlen(line));
  if (hole) {
    put_quoted(&b, word);
    hs_buf_puts(&b, hole + 2);
  }
  fflush(stdout);  // the shell writes to the descriptor
  int code = repl_run_line(s, b.p, b.n);
  hs_buf_free(&b);
  return code;
}

static int complain(const compat_tool *t, const char *what, const char *note) {
  repl_complain("%s: %s", t->name, what);
  if (note) repl_complain("  note: %s", note);
  return 1;
}

static int one_file(const compat_tool *t, const compat_args *a, const char **out) {
  *out = a->files.n ? a->files.v[0] : "-";
  return a->files.n > 1 ? complain(t, "more than one file", NULL) : -1;
}

// Loads a file without a word; -1 when it is there.
static int load(repl_session *s, const char *file) {
  return sh(s, "load -- {} > /dev/null", file) ? 1 : -1;
}

// The names that XLA's tools give platforms; NULL when it is none.
static const char *backend_of(const char *platform) {
  static const char *const names[][2] = {
      {"cpu", "cpu"},        {"host", "cpu"},  {"interpreter", "interp"},
      {"default", "interp"}, {"pjrt", "pjrt"}, {"jax", "jax"},
      {"gpu", "gpu"},        {"cuda", "gpu"},  {"interp", "interp"},
  };
  for (size_t k = 0; k < HS_COUNT(names); k++)
    if (strcasecmp(platform, names[k][0]) == 0) return names[k][1];
  return NULL;
}

// ---- hlo-opt ------------------------------------------------------------------------------------
static const char *const stages[][2] = {
    // by platform: transforms, cpu, gpu
    {"transforms", "hlo"},
    {"cpu", "hlo\nhtml\nhlo-backend\nllvm-before-optimizations\nllvm\nbuffer-assignment"},
    {"gpu", "hlo\nhtml\nhlo-backend\nptx\nbuffer-assignment"},
};

static int list_passes(repl_session *s) {
  hs_buf b = {0};
  for (const pass_registry *r = s->passes; r; r = r->next)
    for (u32 k = 0; k < r->npasses; k++)
      hs_buf_printf(&b, "%s%s", b.n ? "," : "", r->passes[k]->name);
  puts(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return fflush(stdout) == 0 ? 0 : 1;
}

static int emit_proto(const compat_tool *t, repl_session *s, FILE *to) {
  hs_buf b = {0};
  u32 lost;
  hs_status st = hlo_proto_save(&b, s->current->m, HLO_PROTO_OF_TOOL, true, &lost);
  int code = hs_ok(st) ? 0 : complain(t, st.err->message, NULL);
  hs_status_drop(st);
  if (!code) fwrite(b.p, 1, b.n, to);
  hs_buf_free(&b);
  return code;
}

// What a stage prints, as a line of the shell; NULL when there is no such stage.
static const char *stage_line(const char *platform, const char *stage) {
  bool gpu = strcmp(platform, "gpu") == 0;
  if (!strcmp(stage, "hlo") || !strcmp(stage, "hlo-backend"))
    return gpu ? "xla module > /dev/null; print --with=compact_gte" : "print --with=compact_gte";
  if (!strcmp(stage, "html")) return "explore -o /dev/stdout";
  if (!strcmp(stage, "buffer-assignment")) return gpu ? "xla memory" : "dump buffers";
  if (!strcmp(stage, "ptx")) return gpu ? "xla ptx" : NULL;
  if (!strncmp(stage, "llvm", 4)) return gpu ? NULL : "dump llvm";
  return NULL;
}

// What XLA registers these passes with where hlosh does not by itself.
static const struct {
  const char *pass, *options;
} registered[] = {{"rng-bit-generator-expander", "three_fry=true,any_state=true"}};

// A list of passes with those options where it gives none; hs_alloc'ed.
static char *as_registered(const char *passes) {
  hs_buf b = {0};
  for (const char *p = passes; *p;) {
    size_t n = strcspn(p, ",{}()");
    hs_buf_put(&b, p, n);
    for (size_t k = 0; k < HS_COUNT(registered); k++)
      if (p[n] != '{' && strlen(registered[k].pass) == n && !memcmp(p, registered[k].pass, n))
        hs_buf_printf(&b, "{%s}", registered[k].options);
    p += n;
    if (*p) hs_buf_putc(&b, *p++);
  }
  char *out = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return out;
}

static void warn_if_invalid(const compat_tool *t, repl_module *mod) {
  hs_status v = repl_verified(mod);
  if (!hs_ok(v))
    repl_complain("%s: warning: the passes made it invalid: %s", t->name, v.err->message);
  hs_status_drop(v);
}

// Whether real XLA would compile for a GPU, and not for this processor: a plug-in that the user
// chose is taken to.
static bool knows_gpu(const repl_session *s, const char *stage) {
  if (repl_xla_for_gpu(s) || strcmp(stage, "html") == 0) return true;
  return strcmp(stage, "ptx") != 0 && getenv("PJRT_NAMES_AND_LIBRARY_PATHS") != NULL;
}

static int opt_module(const compat_tool *t, const compat_args *a, repl_session *s,
                      const char *platform, const char *out, bool valid) {
  const char *passes = compat_value(t, a, "passes"), *stage = compat_value(t, a, "stage");
  if (!stage) stage = "hlo";
  const char *line = stage_line(platform, passes ? "hlo" : stage);
  if (!line || (passes && strcmp(platform, "gpu") == 0)) {
    char *what = hs_format("platform %s has no %s %s here", platform, passes ? "passes" : "stage",
                           passes ? passes : stage);
    int code = complain(t, what,
                        "--list-stages lists them; xla module, xla ptx and steps xla show "
                        "what real XLA makes for a GPU");
    hs_free(what);
    return code;
  }
  if (strcmp(platform, "gpu") == 0 && !knows_gpu(s, stage))
    return complain(t, "platform gpu compiles for a GPU that is named, and none is",
                    "--xla_gpu_target_config_filename=FILE names it; in hlosh: target h200");
  if (passes && *passes) {
    char *list = as_registered(passes);
    int code = sh(s, "set verify off > /dev/null", NULL);
    if (!code) code = sh(s, "pass {} --quiet > /dev/null", list);
    hs_free(list);
    if (code) return 1;
  }
  if (passes && valid) warn_if_invalid(t, s->current);
  bool pipeline = !passes && strcmp(platform, "cpu") == 0;
  if (pipeline && sh(s, "pipeline cpu --quiet > /dev/null", NULL)) return 1;
  if (strcmp(line, "dump llvm") == 0 && sh(s, "backend cpu > /dev/null", NULL)) return 1;
  char *whole = out ? hs_format("%s >> {}", line) : hs_strdup(line);
  int code = sh(s, whole, out) ? 1 : 0;
  hs_free(whole);
  return code;
}

// XLA's hlo-opt runs passes on whatever it can read. Here a module that is not valid goes to a
// process of its own, which may die of what the passes take for granted; it ends with the result.
static int opt_invalid(const compat_tool *t, const compat_args *a, repl_session *s,
                       const char *platform, const char *out) {
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) return complain(t, "no process for a module that is not valid", strerror(errno));
  if (child == 0) {
    s->current->at->verdict = REPL_VALID;
    hlo_mark_invalid(s->current->m, false);
    int code = opt_module(t, a, s, platform, out, false);
    _exit(fflush(stdout) == 0 ? code : 1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return complain(t, "the passes died of a module that is not valid HLO",
                  strsignal(WTERMSIG(status)));
}

int compat_hlo_opt(const compat_tool *t, const compat_args *a, repl_session *s) {
  const char *platform = compat_value(t, a, "platform"), *file;
  const char *out = compat_value(t, a, "o"),
             *target = compat_value(t, a, "xla_gpu_target_config_filename");
  if (!platform || !*platform) platform = "transforms";
  if (!strcasecmp(platform, "cuda")) platform = "gpu";
  if (out && strcmp(out, "-") == 0) out = NULL;
  const char *known = NULL;
  for (size_t k = 0; k < HS_COUNT(stages); k++)
    if (strcasecmp(stages[k][0], platform) == 0) platform = stages[k][0], known = stages[k][1];
  if (!known) return complain(t, "platform is transforms, cpu or gpu", NULL);
  if (compat_on(t, a, "list-stages", false)) return puts(known) < 0;
  if (compat_on(t, a, "list-passes", false)) return list_passes(s);
  int code = one_file(t, a, &file);
  if (code >= 0) return code;
  s->next_number = 0;  // XLA's dumps count modules from 0
  if (target && *target && sh(s, "target {} > /dev/null", target)) return 1;
  if (load(s, file) >= 0) return 1;
  if (s->modules.n > 1 && !compat_on(t, a, "split-input-file", false))
    return complain(t, "the file holds several modules", "--split-input-file takes each");
  if (out && access(out, F_OK) == 0 && truncate(out, 0) != 0) return complain(t, out, NULL);
  const size_t of_file = s->modules.n;  // `xla module` adds what it shows
  for (size_t k = 0; k < of_file; k++) {
    s->current = s->modules.v[k];
    if (k && !out && puts("// -----") < 0) return 1;
    bool passes = compat_value(t, a, "passes") != NULL;
    if (compat_on(t, a, "emit-proto", false)) code = emit_proto(t, s, stdout);
    else if (passes && !repl_is_verified(s->current)) code = opt_invalid(t, a, s, platform, out);
    else code = opt_module(t, a, s, platform, out, true);
    if (code) return code;
  }
  return 0;
}

// ---- run_hlo_module -----------------------------------------------------------------------------
typedef struct run {
  const compat_tool *t;
  const compat_args *a;
  repl_session *s;
  const char *backend, *reference;
  bool passes;
} run;

static int run_once(const run *r, i64 iteration) {
  const compat_tool *t = r->t;
  const compat_args *a = r->a;
  const char *abs = compat_value(t, a, "abs_error_bound"),
             *rel = compat_value(t, a, "rel_error_bound");
  bool random = compat_on(t, a, "random_init_input_literals", true),
       large = compat_on(t, a, "use_large_float_range", false);
  char *inputs = random ? hs_format("inputs --random --seed=%lld%s > /dev/null",
                                    42 + (long long)iteration, large ? " --large-range" : "")
                        : hs_strdup("inputs zeros > /dev/null");
  // arguments that the file has are used, in the first iteration
  int code = iteration || !r->s->current->ninputs ? sh(r->s, inputs, NULL) : 0;
  hs_free(inputs);
  bool literals = compat_on(t, a, "print_literals", false);
  if (!code && literals) code = sh(r->s, "inputs", NULL);
  if (!code && (literals || !r->reference))
    code = sh(r->s, literals ? "run --elided=random" : "run --elided=random > /dev/null", NULL);
  if (code || !r->reference) return code;
  char *line = hs_format("check --reference=%s --abs=%s --rel=%s --elided=random", r->reference,
                         abs && *abs ? abs : "1e-3", rel && *rel ? rel : "1e-3");
  code = sh(r->s, line, NULL);
  hs_free(line);
  return code;
}

static int run_file(const run *r, const char *file, i64 iterations) {
  u64 start = hs_now_ns();
  if (load(r->s, file) >= 0) return 1;
  if (sh(r->s, "backend {} > /dev/null", r->backend)) return 1;
  if (r->passes && sh(r->s, "pipeline tuned --quiet > /dev/null", NULL)) return 1;
  int failed = 0;
  for (i64 k = 0; k < iterations; k++) failed += run_once(r, k) != 0;
  if (xla_flags_on(r->s->xla_flags, XLA_FLAG_hlo_profile))
    failed += sh(r->s, "profile --seconds=0.1 --elided=random", NULL) != 0;
  printf("%s compiled and ran in %.3fs.\n", file, (double)(hs_now_ns() - start) * 1e-9);
  if (failed) printf("%d/%lld runs of %s failed.\n", failed, (long long)iterations, file);
  (void)sh(r->s, "close > /dev/null", NULL);
  return failed ? 1 : 0;
}

int compat_run_hlo_module(const compat_tool *t, const compat_args *a, repl_session *s) {
  const char *platform = compat_value(t, a, "platform"),
             *reference = compat_value(t, a, "reference_platform"),
             *iterations = compat_value(t, a, "iterations");
  run r = {t, a, s, NULL, NULL, false};
  if (!platform || !*platform) return complain(t, "--platform is required", "cpu or interpreter");
  r.backend = backend_of(platform);
  if (!r.backend || (reference && *reference && !backend_of(reference)))
    return complain(t, "a platform is cpu, interpreter, pjrt, jax or gpu", NULL);
  if (!reference || *reference) r.reference = backend_of(reference ? reference : "default");
  r.passes = compat_on(t, a, "run_test_hlo_passes", true) && strcmp(r.backend, "cpu") == 0;
  double n = 1;
  if (iterations && (!repl_number(iterations, &n) || !(n >= 1 && n <= 1e9)))
    return complain(t, "--iterations is a number from 1 on", NULL);
  if (!a->files.n) return complain(t, "no file", "run_hlo_module --platform=cpu FILE...");
  int failed = 0;
  for (size_t k = 0; k < a->files.n; k++) failed |= run_file(&r, a->files.v[k], (i64)n);
  return failed ? 255 : 0;
}

// ---- interactive_graphviz -----------------------------------------------------------------------
int compat_interactive_graphviz(const compat_tool *t, const compat_args *a, repl_session *s) {
  static const char *const sources[] = {"hlo_text", "hlo_snapshot", "hlo_proto",
                                        "hlo_module_proto"};
  const char *file = NULL, *platform = compat_value(t, a, "platform"),
             *browser = compat_value(t, a, "browser");
  u32 given = 0;
  for (size_t k = 0; k < HS_COUNT(sources); k++)
    if (compat_value(t, a, sources[k])) file = compat_value(t, a, sources[k]), given++;
  if (given != 1 || a->files.n)
    return complain(t, "exactly one of --hlo_text, --hlo_snapshot, --hlo_proto, --hlo_module_proto",
                    NULL);
  if (platform && *platform && strcasecmp(platform, "cpu") != 0)
    return complain(t, "the platform is CPU", "xla module shows what real XLA makes for a GPU");
  if (browser && *browser) setenv("BROWSER", browser, 1);
  if (sh(s, "load -- {}", file)) return 1;
  return platform && *platform && sh(s, "pipeline cpu --quiet", NULL) ? 1 : -1;
}

// ---- compute_cost -------------------------------------------------------------------------------
static bool counted(const hlo_instr *i) {
  return !hlo_is(i, HLO_PARAMETER) && !hlo_is(i, HLO_CONSTANT) && !hlo_is(i, HLO_TUPLE) &&
         !hlo_is(i, HLO_GET_TUPLE_ELEMENT) && !hlo_is(i, HLO_BITCAST);
}

int compat_compute_cost(const compat_tool *t, const compat_args *a, repl_session *s) {
  const char *file = compat_value(t, a, "input");
  if (!file || !*file) return complain(t, "--input=FILE is required", NULL);
  if (load(s, file) >= 0) return 1;
  const hlo_module *m = s->current->m;
  hlo_xla_cost total = hlo_cost_xla(m);
  printf("Total: %.4g GFLOPS. %.4g MB.\n", total.flops / 1e9, total.bytes / 1e6);
  if (!compat_on(t, a, "all", false)) return fflush(stdout) == 0 ? 0 : 1;
  printf("HLO name, deduplicated name, bytes accessed, flops\n");
  hlo_for_each_comp(c, m) {
    if (c != m->entry) continue;
    hlo_for_each_instr(i, c) {
      if (!counted(i)) continue;
      hlo_cost cost = hlo_cost_instr(i);
      const hlo_metadata *meta = hlo_metadata_of(i);
      hs_str twin = meta && meta->rest ? meta->rest->deduplicated_name : (hs_str){0};
      if (!twin.n) twin = hs_str_of(i->name);
      printf("%s, %.*s, %.0f, %.0f\n", i->name, (int)twin.n, twin.p,
             cost.bytes_read + cost.bytes_written, cost.flops);
    }
  }
  return fflush(stdout) == 0 ? 0 : 1;
}

// ---- hlo-translate ------------------------------------------------------------------------------
int compat_hlo_translate(const compat_tool *t, const compat_args *a, repl_session *s) {
  const char *file, *out = compat_value(t, a, "o");
  int code = one_file(t, a, &file);
  if (code >= 0) return code;
  if (load(s, file) >= 0) return 1;
  if (s->modules.n > 1 && !compat_on(t, a, "split-input-file", false))
    return complain(t, "the file holds several modules", "--split-input-file takes each");
  if (out && strcmp(out, "-") == 0) out = NULL;
  if (out && access(out, F_OK) == 0 && truncate(out, 0) != 0) return complain(t, out, NULL);
  bool to_mlir = compat_on(t, a, "hlo-to-mlir", false);
  char *line = hs_format(
      "print%s%s%s%s%s", to_mlir ? " --stablehlo" : "",
      compat_on(t, a, "print-layouts", true) ? "" : " --without=include_layout_in_shapes",
      compat_on(t, a, "print-large-constants", false) ? " --with=print_large_constants" : "",
      compat_on(t, a, "print-sugar", true) ? "" : " --without=syntax_sugar_async_ops",
      out ? " >> {}" : "");
  code = 0;
  for (size_t k = 0; !code && k < s->modules.n; k++) {
    s->current = s->modules.v[k];
    if (k && !out) puts("// -----");
    code = compat_on(t, a, "emit-proto", false) ? emit_proto(t, s, stdout) : sh(s, line, out);
  }
  hs_free(line);
  return code ? 1 : 0;
}

// ---- hlo_bisect ---------------------------------------------------------------------------------
static char *shrink_line(const compat_tool *t, const compat_args *a) {
  const char *script = compat_value(t, a, "script"), *test = compat_value(t, a, "test_platform"),
             *reference = compat_value(t, a, "reference_platform"),
             *abs = compat_value(t, a, "abs_error"), *rel = compat_value(t, a, "rel_error");
  if (script && *script)
    return hs_format(strchr(script, '/') ? "shrink '%s'" : "shrink './%s'", script);
  const char *on = test && *test ? backend_of(test) : "cpu",
             *with = reference && *reference ? backend_of(reference) : "interp";
  return on && with ? hs_format("shrink mismatch --backend=%s --reference=%s --abs=%s --rel=%s", on,
                                with, abs && *abs ? abs : "0.01", rel && *rel ? rel : "0.1")
                    : NULL;
}

int compat_hlo_bisect(const compat_tool *t, const compat_args *a, repl_session *s) {
  const char *file = compat_value(t, a, "input"), *dir = compat_value(t, a, "dump_path"),
             *format = compat_value(t, a, "output_format");
  if (!file || !*file) file = a->files.n == 1 ? a->files.v[0] : NULL;
  if (!file) return complain(t, "--input=FILE, or one file", NULL);
  if (!dir || !*dir) dir = "/tmp/hlo_bisect";
  bool proto = format && strcmp(format, "pb") == 0;
  if (format && *format && !proto && strcmp(format, "hlo") != 0)
    return complain(t, "--output_format is hlo or pb", NULL);
  char *line = shrink_line(t, a);
  if (!line) return complain(t, "a platform is cpu, interpreter, pjrt, jax or gpu", NULL);
  int code = load(s, file) >= 0 ? 1 : 0;
  char *name = code ? NULL : repl_file_name(s->current->m->name);
  if (!code) code = sh(s, line, NULL) ? 1 : 0;
  hs_status made = code ? HS_GOOD : repl_make_folder(dir);
  if (!hs_ok(made)) code = complain(t, made.err->message, NULL);
  hs_status_drop(made);
  if (!code) {
    char *path = hs_format("%s/%s_trimmed.%s", dir, name, proto ? "pb" : "hlo");
    code = sh(s, "save {}", path) ? 1 : 0;
    hs_free(path);
  }
  hs_free(name);
  hs_free(line);
  return code;
}
