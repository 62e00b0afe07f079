// fake_passes.h — the fake plug-in's own pipeline: three of hlosh's passes and two planted ones,
// logged and dumped as XLA does it, with its flags (xla_disable_hlo_passes, xla_dump_to, and
// --xla_fuel in XLA_FLAGS). Part of fake_pjrt.c.
//
//   pipeline cleanup: dce, simplification (a pipeline itself: algsimp, cse) pipeline optimization:
//   commuter, fattener, fusion commuter swaps the operands of additions and counts them as fuel; in
//   mode `wrong` the third one becomes a subtraction, in
//             mode `passabort` the process ends there
//   fattener in mode `heavy`: takes each addition through an array of four times the size, which
//   also takes its time
#ifndef FAKE_PASSES_H
#define FAKE_PASSES_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/proto/wire.h"
#include "core/text/text.h"
#include "passes/passes.h"

// Absent from programs that have no passes in them; the fake then has none of these.
#pragma weak pass_builtin
#pragma weak pass_find
#pragma weak pass_run
#pragma weak pass_run_default

static bool is(const char *mode);
static void stop(const char *what);

typedef struct fake_compile {
  hlo_module *m;
  hs_str disabled, dump_to;  // from the options
  bool all_disabled, backend_only;
  u32 dumps;
  u64 us;  // "time" so far: one millisecond a run
} fake_compile;

static bool fake_named(hs_str list, const char *name) {
  for (size_t at = 0; at < list.n;) {
    size_t n = 0;
    while (at + n < list.n && list.p[at + n] != ',') n++;
    if (n == strlen(name) && !memcmp(list.p + at, name, n)) return true;
    at += n + 1;
  }
  return false;
}

// The name of the first flag that is none of XLA's, or "".
static hs_str fake_read_flags(fake_compile *f, pb options) {
  for (pb_field e; pb_next(&options, &e);) {
    if (e.num == 3) f->backend_only = pb_int(e.sub, 11, 0) != 0;
    if (e.num != 7) continue;
    hs_str key = pb_str(e.sub, 1), value = pb_str(pb_sub(e.sub, 2), 1);
    if (hs_str_eq(key, HS_STR("xla_disable_hlo_passes"))) f->disabled = value;
    else if (hs_str_eq(key, HS_STR("xla_disable_all_hlo_passes"))) f->all_disabled = true;
    else if (hs_str_eq(key, HS_STR("xla_dump_to"))) f->dump_to = value;
    else if (key.n < 9 || memcmp(key.p, "xla_dump_", 9) != 0) return key;
  }
  return (hs_str){"", 0};
}

// ---- what XLA writes ----------------------------------------------------------------------------
static void fake_log(const char *format, const char *a, unsigned long long n) {
  const char *v = getenv("TF_CPP_VMODULE");
  if (!v || !strstr(v, "hlo_pass_pipeline")) return;
  fprintf(stderr, "I0000 00:00:1.0    1234 hlo_pass_pipeline.cc:1] ");
  fprintf(stderr, format, a, n);
  fputc('\n', stderr);
}

static void fake_dump(const fake_compile *f, const char *what) {
  if (!f->dump_to.n) return;
  hlo_print_options o = hlo_print_default();
  hs_buf text = {0};
  hlo_print_module(&text, f->m, &o);
  char *path =
      hs_format("%.*s/module_0000.%s.%s.txt", (int)f->dump_to.n, f->dump_to.p, f->m->name, what);
  FILE *file = fopen(path, "w");
  if (file) {
    fwrite(text.p, 1, text.n, file);
    fclose(file);
  }
  hs_free(path);
  hs_buf_free(&text);
}

static void fake_dump_step(fake_compile *f, const char *pipeline, const char *after) {
  char *what = hs_format("%04u.%s.after_%s.before_next", f->dumps++, pipeline, after);
  fake_dump(f, what);
  hs_free(what);
}

// What fattened programs spend, beside computing.
static void fake_waste(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (i->opcode == HLO_CONCATENATE) usleep(2000);
}

// ---- the planted passes -------------------------------------------------------------------------
static i64 fake_fuel(const char *pass) {
  const char *flags = getenv("XLA_FLAGS"), *at = flags ? strstr(flags, "--xla_fuel=") : NULL;
  size_t n = strlen(pass);
  if (!at || strncmp(at + 11, pass, n) != 0 || at[11 + n] != '=') return INT64_MAX;
  return strtoll(at + 12 + n, NULL, 10);
}

static void fake_commute(hlo_module *m) {
  i64 fuel = fake_fuel("commuter"), n = 0;
  hlo_for_each_comp(c, m) {
    hs_arena a = {0};
    u32 count = c->ninstrs;
    hlo_instr **order = hlo_post_order(c, &a);
    for (u32 k = 0; k < count; k++) {
      hlo_instr *i = order[k];
      if (i->opcode != HLO_ADD || n >= fuel) continue;
      hlo_instr *swapped[2] = {hlo_operand(i, 1), hlo_operand(i, 0)};
      n++;
      if (n == 3 && is("passabort")) stop("operands commute");
      hlo_replace(i, hlo_add(c, n == 3 && is("wrong") ? HLO_SUBTRACT : HLO_ADD, i->shape, 2,
                             swapped, "commuted"));
    }
    hs_arena_free(&a);
  }
}

static void fake_fatten(hlo_module *m) {
  hlo_computation *c = m->entry;
  hs_arena a = {0};
  u32 count = c->ninstrs;
  hlo_instr **order = hlo_post_order(c, &a);
  for (u32 k = 0; k < count; k++) {
    hlo_instr *i = order[k];
    if (i->opcode != HLO_ADD || !i->shape->rank) continue;
    i64 dims[HLO_MAX_RANK];
    hlo_slice_dim *range = HS_NEW_ARRAY(&m->arena, hlo_slice_dim, i->shape->rank);
    for (u32 d = 0; d < i->shape->rank; d++)
      dims[d] = i->shape->dims[d] * (d ? 1 : 4),
      range[d] = (hlo_slice_dim){0, i->shape->dims[d], 1};
    hlo_instr *ops[2] = {hlo_operand(i, 0), hlo_operand(i, 1)},
              *copy = hlo_add(c, HLO_ADD, i->shape, 2, ops, "again"),
              *four[4] = {copy, copy, copy, copy};
    hlo_instr *fat =
        hlo_add(c, HLO_CONCATENATE, hlo_shape_array(m->ctx, i->shape->dtype, i->shape->rank, dims),
                4, four, "fat");
    i64 zero = 0;
    hlo_set_attr_ints(fat, HLO_ATTR_DIMENSIONS, 1, &zero);
    hlo_instr *slice = hlo_add(c, HLO_SLICE, i->shape, 1, &fat, "slim");
    hlo_slices *ranges = HS_NEW(&m->arena, hlo_slices);
    *ranges = (hlo_slices){i->shape->rank, range};
    hlo_set_attr_ptr(slice, HLO_ATTR_SLICE, ranges);
    hlo_replace(i, slice);
  }
  hs_arena_free(&a);
}

// ---- the pipeline -------------------------------------------------------------------------------
static void fake_run(fake_compile *f, const char *pipeline, const char *name);

static void fake_pipeline(fake_compile *f, const char *name, u32 n, const char *const *passes) {
  hs_buf b = {0};
  hs_buf_printf(&b, "%s: %s", f->m->name, name);
  fake_log("Running HLO pass pipeline on module %s", hs_buf_cstr(&b), 0);
  hs_buf_free(&b);
  fake_dump_step(f, name, "pipeline-start");
  for (u32 k = 0; k < n; k++)
    if (!f->all_disabled && !fake_named(f->disabled, passes[k])) fake_run(f, name, passes[k]);
}

static void fake_ours(hlo_module *m, const char *name) {
  const pass_info *p =
      pass_find && pass_run && pass_run_default ? pass_find(&pass_builtin, name) : NULL;
  pass_run_options o = p ? pass_run_default() : (pass_run_options){0};
  o.verify = o.measure = false;
  pass_options none = {0};
  pass_result result;
  if (p) hs_status_drop(pass_run(m, p, &none, &o, &result));
}

static void fake_run(fake_compile *f, const char *pipeline, const char *name) {
  static const char *const simplification[] = {"algsimp", "cse"};
  u64 before = hlo_fingerprint(f->m);
  fake_log("  HLO pass %s", name, 0);
  fake_log("  Module hash%s %llu", "", before);
  fake_log("  Number of instructions:%s %llu", "", hlo_instr_count(f->m));
  if (!strcmp(name, "simplification")) fake_pipeline(f, name, 2, simplification);
  else if (!strcmp(name, "commuter")) fake_commute(f->m);
  else if (!strcmp(name, "fattener")) fake_fatten(f->m);
  else fake_ours(f->m, name);
  if (hlo_fingerprint(f->m) != before) fake_dump_step(f, pipeline, name);
  f->us += 1000;
  hs_buf b = {0};
  hs_buf_printf(&b, "%s time: 1.00 ms (1000 us)", name);
  fake_log("HLO pass: %s (cumulative: %llu us, max: 1 ms, #called: 1)", hs_buf_cstr(&b), f->us);
  hs_buf_free(&b);
}

static void fake_optimize(fake_compile *f) {
  static const char *const cleanup[] = {"dce", "simplification"};
  const char *optimization[3];
  u32 n = 0;
  if (is("wrong") || is("passabort") || is("codegen") || is("refuse"))
    optimization[n++] = "commuter";
  if (is("heavy")) optimization[n++] = "fattener";
  optimization[n++] = "fusion";
  fake_dump(f, "before_optimizations");
  fake_pipeline(f, "cleanup", 2, cleanup);
  fake_pipeline(f, "optimization", n, optimization);
  fake_dump(f, "cpu_after_optimizations");
}

#endif
