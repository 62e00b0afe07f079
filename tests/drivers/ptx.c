// ptx.c — compiles the kernels of modules for GPUs and assembles the PTX, without a GPU.
// usage: ptx DIR [--pipeline NAME] [--sm 75,80,...] [--only SUBSTRING] [--contract 0|1] [-j N]
//
// For each module of the folder, after the pipeline (`tuned` unless another is named): every
// instruction that would run on the device becomes a kernel, for each compute capability; ptxas,
// from PATH, $CUDA_HOME or /usr/local/cuda, assembles what there is, and a kernel that spills
// registers is a failure. Without ptxas that part is skipped, by name. What does not become a
// kernel is counted by opcode.
#include "core/text/text.h"
#include "passes/passes.h"
#include "tests/harness/driver.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if HAVE_LLVM
#include "backends/emit/gpu.h"

typedef struct run {
  const char *dir, *pipeline, *ptxas;
  drv_names names;
  u32 sm[16], nsm;
  bool contract;
  u32 passed, failed, kernels;
  u64 registers;
  double ms;
  HS_VEC(char *) opcodes;  // of what has no kernel, one entry each
} run;

static hs_status optimize(hlo_module *m, const char *name) {
  const pass_pipeline *p = pipeline_find(&pass_builtin, name);
  pass_log log = {0};
  const pass_run_options o = pass_run_default();
  hs_status s = pipeline_run(m, p ? p->text : name, &o, &log);
  hs_vec_free(&log);
  return s;
}

// ---- kernels ------------------------------------------------------------------------------------
static bool runs_on_device(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_PARAMETER:
  case HLO_CONSTANT:
  case HLO_TUPLE:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_BITCAST:
  case HLO_WHILE:
  case HLO_CONDITIONAL:
  case HLO_CALL:
  case HLO_AFTER_ALL: return false;
  default: return hlo_shape_is_array(i->shape) || hlo_shape_is_tuple(i->shape);
  }
}

typedef struct walk {
  emit_gpu_unit *unit;
  u8 *seen;  // by computation
  FILE *out;
  bool report;
} walk;

static hs_status add_all(walk *w, const hlo_computation *c) {
  if (w->seen[c->id]) return HS_GOOD;
  w->seen[c->id] = 1;
  hlo_for_each_instr(i, c) {
    const emit_gpu_kernel *k;
    for (u32 n = 0; n < hlo_ncalled(i); n++)
      if (i->opcode == HLO_WHILE || i->opcode == HLO_CONDITIONAL || i->opcode == HLO_CALL)
        HS_TRY(add_all(w, hlo_called(i, n)));
    if (!runs_on_device(i)) continue;
    hs_status s = emit_gpu_add(w->unit, i, &k);
    if (hs_ok(s)) continue;
    if (s.err->code != HS_E_UNSUPPORTED) return s;
    if (w->report) fprintf(w->out, "none %s %s\n", hlo_op_text(i->opcode), s.err->message);
    hs_status_drop(s);
  }
  return HS_GOOD;
}

// ---- ptxas --------------------------------------------------------------------------------------
static char *find_ptxas(void) {
  const char *path = getenv("PATH"), *home = getenv("CUDA_HOME");
  char *all = hs_format("%s:%s%s/usr/local/cuda/bin", path ? path : "", home ? home : "",
                        home ? "/bin:" : "");
  for (char *save = NULL, *p = strtok_r(all, ":", &save); p; p = strtok_r(NULL, ":", &save)) {
    char *at = hs_format("%s/ptxas", p);
    if (access(at, X_OK) == 0) {
      hs_free(all);
      return at;
    }
    hs_free(at);
  }
  hs_free(all);
  return NULL;
}

// Assembles; the kernels that spill, and what ptxas complains of, go to `out`. False: either.
// how: further options of ptxas.
static bool assemble(const run *r, u32 sm, const char *how, const hs_buf *ptx, FILE *out,
                     u64 *registers) {
  char file[] = "/tmp/hlosh-ptx-XXXXXX", line[2000], entry[300] = "";
  int fd = mkstemp(file);
  bool ok = fd >= 0;
  for (size_t at = 0; ok && at < ptx->n;) {
    ssize_t n = write(fd, ptx->p + at, ptx->n - at);
    ok = n > 0;
    if (ok) at += (size_t)n;
  }
  if (fd >= 0) (void)close(fd);
  if (!ok) {
    fprintf(out, "cannot write %s\n", file);
    return false;
  }
  char *command = hs_format("'%s' -v %s -arch=sm_%u -o /dev/null %s 2>&1", r->ptxas, how, sm, file);
  FILE *p = popen(command, "r");
  hs_free(command);
  while (p && fgets(line, sizeof line, p)) {
    char *q;
    unsigned n = 0, stores = 0, loads = 0;
    if ((q = strstr(line, "Compiling entry function '"))) (void)sscanf(q + 26, "%299[^']", entry);
    if ((q = strstr(line, "bytes stack frame, ")))
      (void)sscanf(q + 19, "%u bytes spill stores, %u", &stores, &loads);
    if ((q = strstr(line, "Used "))) (void)sscanf(q + 5, "%u", &n);
    *registers += n;
    if (stores + loads) fprintf(out, "sm_%u: %s spills %u bytes\n", sm, entry, stores), ok = false;
    if (strstr(line, "error") || strstr(line, "fatal")) fprintf(out, "sm_%u: %s", sm, line);
  }
  int rc = p ? pclose(p) : -1;
  if (rc) fprintf(out, "sm_%u: ptxas ended with %d\n", sm, rc), ok = false;
  (void)unlink(file);
  return ok;
}

// ---- cases --------------------------------------------------------------------------------------
static hs_status compile(const run *r, hlo_module *m, u32 k, FILE *out, u32 *kernels, double *ms,
                         hs_buf *ptx) {
  emit_gpu_unit *u = NULL;
  double took = 0;
  hs_buf text = {0};
  HS_TRY(emit_gpu_unit_new(
      &(emit_gpu_options){.sm = r->sm[k], .contract = r->contract, .verify = true}, &u));
  walk w = {u, hs_calloc(m->next_comp_id + 1, 1), out, k == 0};
  hs_status s = add_all(&w, m->entry);
  hs_free(w.seen);
  if (hs_ok(s)) s = emit_gpu_finish(u, 1, &took);
  if (hs_ok(s)) s = emit_gpu_ptx(u, ptx);
  for (const char *p = hs_buf_cstr(ptx); k == 0 && (p = strstr(p, ".entry ")); p++) ++*kernels;
  if (k == 0) *ms = took;
  hs_buf_free(&text);
  emit_gpu_unit_free(u);
  return s;
}

static int one(void *arg, u32 k, FILE *out) {
  run *r = arg;
  char *path = hs_format("%s/%s.hlo", r->dir, r->names.v[k]);
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  u32 kernels = 0;
  u64 registers = 0;
  double ms = 0;
  bool ok = true;
  hs_status s = hlo_load_file(ctx, path, NULL, &m);
  if (hs_ok(s)) s = optimize(m, r->pipeline);
  for (u32 n = 0; n < r->nsm && hs_ok(s); n++) {
    hs_buf ptx = {0};
    u64 used = 0;
    s = compile(r, m, n, out, &kernels, &ms, &ptx);
    if (hs_ok(s) && r->ptxas) ok = assemble(r, r->sm[n], "", &ptx, out, &used) && ok;
    if (n == 0) registers = used;
    hs_buf_free(&ptx);
  }
  if (!hs_ok(s)) {
    drv_status(out, "not compiled", s);
    return 1;
  }
  fprintf(out, "kernels %u registers %llu ms %.1f\n", kernels, (unsigned long long)registers, ms);
  return !ok;
}

// The kernels that set the conditions of loops; what they call is the driver's, and stays open.
static bool control_assembles(const run *r) {
  bool ok = true;
  for (u32 n = 0; n < r->nsm; n++) {
    hs_buf ptx = {0};
    u64 registers = 0;
    hs_status s = emit_gpu_control(&(emit_gpu_options){.sm = r->sm[n]}, false, &ptx);
    if (!hs_ok(s)) drv_status(stdout, "FAIL control", s), ok = false;
    else if (r->ptxas) ok = assemble(r, r->sm[n], "-c", &ptx, stdout, &registers) && ok;
    hs_buf_free(&ptx);
  }
  return ok;
}

static void done(void *arg, u32 k, drv_result *result) {
  run *r = arg;
  hs_buf reason = {0};
  for (char *save = NULL, *line = strtok_r(result->text, "\n", &save); line;
       line = strtok_r(NULL, "\n", &save)) {
    u32 kernels;
    unsigned long long registers;
    double ms;
    if (sscanf(line, "kernels %u registers %llu ms %lf", &kernels, &registers, &ms) == 3)
      r->kernels += kernels, r->registers += registers, r->ms += ms;
    else if (!strncmp(line, "none ", 5)) hs_vec_push(&r->opcodes, hs_strdup(line + 5));
    else hs_buf_printf(&reason, "%s%s", reason.n ? "; " : "", line);
  }
  if (result->verdict)
    printf("FAIL %s: %s%s%s\n", r->names.v[k], result->ending, *result->ending ? " " : "",
           hs_buf_cstr(&reason));
  *(result->verdict ? &r->failed : &r->passed) += 1;
  hs_buf_free(&reason);
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

// "N OPCODE reason" for what has no kernel.
static void print_missing(run *r) {
  if (r->opcodes.n) qsort(r->opcodes.v, r->opcodes.n, sizeof *r->opcodes.v, by_text);
  for (size_t k = 0, n; k < r->opcodes.n; k += n) {
    for (n = 1; k + n < r->opcodes.n && !strcmp(r->opcodes.v[k], r->opcodes.v[k + n]);) n++;
    printf("no kernel: %zu x %s\n", n, r->opcodes.v[k]);
  }
}

int main(int argc, char **argv) {
  static const char *const options[] = {"pipeline", "sm", "only", "contract", NULL};
  drv_args a;
  run r = {.ptxas = find_ptxas()};
  if (!drv_parse(argc, argv, options, &a) || a.n != 1) {
    fprintf(stderr, "usage: ptx DIR [--pipeline NAME] [--sm 75,80,...] [--only SUBSTRING]"
                    " [--contract 0|1] [-j N]\n");
    return 2;
  }
  r.dir = a.v[0];
  r.pipeline = drv_option(&a, "pipeline") ? drv_option(&a, "pipeline") : "tuned";
  r.contract = drv_option(&a, "contract") && drv_option(&a, "contract")[0] == '1';
  const char *sm = drv_option(&a, "sm") ? drv_option(&a, "sm") : "75,80,90,100,120";
  for (char *end; r.nsm < 16 && *sm; sm = *end ? end + 1 : end)
    r.sm[r.nsm++] = (u32)strtoul(sm, &end, 10);
  if (!drv_modules(r.dir, drv_option(&a, "only"), &r.names)) {
    fprintf(stderr, "cannot read %s\n", r.dir);
    return 2;
  }
  if (!r.ptxas)
    printf("SKIP assembling: no ptxas on PATH, in $CUDA_HOME/bin or /usr/local/cuda/bin\n");
  bool control = control_assembles(&r);
  drv_run((u32)r.names.n, a.jobs, 600, one, done, &r);
  print_missing(&r);
  printf("%u kernels, %.1f registers each, %.1f ms each to PTX\n", r.kernels,
         r.kernels ? (double)r.registers / r.kernels : 0, r.kernels ? r.ms / r.kernels : 0);
  printf("ptx: %u/%u\n", r.passed, r.passed + r.failed);
  return r.failed != 0 || !control;
}
#else
int main(void) {
  printf("SKIP ptx: built without LLVM\nptx: 0/0\n");
  return 0;
}
#endif
