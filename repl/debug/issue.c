// issue.c — see issue.h.
#include "repl/debug/issue.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/units.h"
#include "repl/shell/plugin.h"

enum { INLINE_BYTES = 12000, MOST_PASSES = 60 };

void issue_hide_paths(hs_buf *b) {
  hs_buf out = {0};
  for (size_t k = 0; k < b->n;) {
    bool begins = b->p[k] == '/' && (k == 0 || strchr(" \t\n\"'=:(,`", b->p[k - 1]));
    size_t end = k, last = k;
    for (; begins && end < b->n && !strchr(" \t\n\"',:;)`", b->p[end]); end++)
      if (b->p[end] == '/') last = end;
    if (begins && last > k) {
      hs_buf_put(&out, b->p + last + 1, end - last - 1);
      k = end;
    } else {
      hs_buf_putc(&out, b->p[k++]);
    }
  }
  b->n = 0;
  hs_buf_put(b, out.p ? out.p : "", out.n);
  hs_buf_free(&out);
}

// The instruction sets that code generators ask for.
static void put_cpu_flags(hs_buf *b) {
  static const char *const wanted[] = {"sse4_2",  "avx",      "avx2",        "fma",        "f16c",
                                       "avx512f", "amx_tile", "avx512_bf16", "avx512_fp16"};
  hs_buf text = {0};
  hs_status s = repl_read_file("/proc/cpuinfo", 1 << 20, &text);
  const char *p = hs_ok(s) ? strstr(hs_buf_cstr(&text), "\nflags") : NULL;
  hs_status_drop(s);
  if (p) {
    char *line = hs_format("%.*s ", (int)strcspn(p + 1, "\n"), p + 1);
    hs_buf_puts(b, "cpu flags:");
    for (size_t k = 0; k < HS_COUNT(wanted); k++) {
      const char *at = strstr(line, wanted[k]);
      if (at && at[-1] == ' ') hs_buf_printf(b, " %s", wanted[k]);
    }
    hs_buf_putc(b, '\n');
    hs_free(line);
  }
  hs_buf_free(&text);
}

static void put_versions(repl_cmd *c, hs_buf *b) {
  bundle_environment(b);
  put_cpu_flags(b);
  const char *env = getenv("XLA_FLAGS");
  if (env && *env) hs_buf_printf(b, "XLA_FLAGS: %s\n", env);
  for (size_t k = 0; k < c->s->flags.n; k++)
    hs_buf_printf(b, "xla flag: %s=%s\n", c->s->flags.v[k].name, c->s->flags.v[k].value);
  if (!backend_has(c->s->be, BACKEND_XLA)) return;
  char *xla = repl_xla_text(c->s, c->s->be, NULL);
  if (*xla) hs_buf_printf(b, "xla: %s\n", xla);
  hs_free(xla);
}

// The passes of this version's way that changed the module, as a list for --passes=.
static u32 put_passes(const repl_module *mod, hs_buf *b) {
  const repl_version *way[256];
  u32 n = 0, passes = 0;
  for (const repl_version *v = mod->at; v && n < HS_COUNT(way); v = v->parent) way[n++] = v;
  while (n-- > 0)
    for (size_t k = 0; k < way[n]->log.n; k++)
      if (way[n]->log.v[k].changed && passes < MOST_PASSES)
        hs_buf_printf(b, "%s%s", passes++ ? "," : "", way[n]->log.v[k].pass);
  return passes;
}

static void put_commands(repl_cmd *c, const issue *i, hs_buf *b) {
  hs_buf passes = {0};
  u32 n = put_passes(c->mod, &passes);
  hs_buf_puts(b,
              "## To reproduce\n\nRun here, with the outcome below:\n\n    hlosh -c 'replay .'\n\n"
              "With XLA's tools (not run here):\n\n");
  hs_buf_puts(b,
              "    run_hlo_module --platform=CPU --reference_platform=Interpreter original.hlo\n");
  if (i->snapshot)
    hs_buf_puts(b, "    run_hlo_module --platform=CPU --reference_platform=Interpreter "
                   "--input_format=pb original.hlo.pb   # with the arguments of inputs.npz\n");
  hs_buf_puts(b, "    hlo-opt --platform=cpu --stage=hlo original.hlo\n");
  if (n) hs_buf_printf(b, "    hlo-opt --passes=%s original.hlo\n", hs_buf_cstr(&passes));
  hs_buf_putc(b, '\n');
  hs_buf_free(&passes);
}

static void put_outcome(const char *who, const bundle_outcome *o, const char *where, hs_buf *b) {
  if (o->value) hs_buf_printf(b, "- %s: a result (%s)\n", who, where);
  else hs_buf_printf(b, "- %s: %s %s\n", who, hs_code_text(o->code), o->error);
}

static void put_timing(const repl_module *mod, hs_buf *b) {
  const repl_measurement *m = &mod->measured;
  if (!m->known) return;
  char x[32], y[32];
  hs_buf_printf(
      b, "## Speed\n\n%s, %s on %s: %s -> %s, %.3g times (95 %% interval %.3g to %.3g)\n\n",
      m->what, m->estimated ? "estimated" : "measured", m->device, repl_time(x, m->ms / 1e3),
      repl_time(y, m->opt_ms / 1e3), m->ratio.value, m->ratio.low, m->ratio.high);
}

void issue_write(repl_cmd *c, const issue *i, bool paths, hs_buf *b) {
  hs_buf_printf(b, "# %s: %s\n\n## What happens\n\n%s\n\n", i->original->name, i->verdict,
                i->verdict);
  if (i->details && *i->details) hs_buf_printf(b, "```\n%s```\n\n", i->details);
  hs_buf_puts(b, "## HLO\n\n");
  if (strlen(i->text) <= INLINE_BYTES) hs_buf_printf(b, "```\n%s```\n\n", i->text);
  else
    hs_buf_printf(b,
                  "original.hlo has %u instructions; `hlosh original.hlo -c 'shrink -o small'` "
                  "looks for fewer.\n\n",
                  hlo_instr_count(i->original));
  put_commands(c, i, b);
  if (c->mod->findings.n)
    hs_buf_printf(b, "## What was found out\n\n%s\n", hs_buf_cstr(&c->mod->findings));
  hs_buf_puts(b, "## Expected and actual\n\n");
  put_outcome("expected, by the evaluator on original.hlo", i->expected, "expected/result.npy", b);
  char *who = hs_format("actual, on %s", c->s->be->name);
  put_outcome(who, i->actual, "actual/result.npy", b);
  hs_free(who);
  hs_buf_puts(b, "\n");
  put_timing(c->mod, b);
  hs_buf_puts(b, "## Versions\n\n```\n");
  put_versions(c, b);
  hs_buf_puts(b, "```\n");
  if (!paths) issue_hide_paths(b);
}
