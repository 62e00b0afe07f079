// measure_scope.c — instruction and module quantities by name. See measure_scope.h.
#include "repl/shell/measure_scope.h"

static const char *const instr_names[] = {
    "name",   "opcode",  "type",  "shape",    "rank",        "elements", "bytes",
    "flops",  "traffic", "users", "operands", "computation", "op_name",  "op_type",
    "source", "line",    "id",    "root",     "us",          "kind",     "trips"};

static const char *copy_str(hs_arena *a, hs_str s) {
  return s.n ? hs_arena_strndup(a, s.p, s.n) : "";
}

static const char *shape_text(hs_arena *a, const hlo_shape *s) {
  hs_buf b = {0};
  hlo_shape_print(&b, s, false);
  char *t = hs_arena_strndup(a, b.p, b.n);
  hs_buf_free(&b);
  return t;
}

static u32 users(const hlo_instr *i) {
  u32 n = 0;
  const hlo_instr *last = NULL;
  hlo_for_each_use(u, i) n += u->user != last, last = u->user;
  return n;
}

static const char *fusion_kind(const hlo_instr *i) {
  i64 k = hlo_attr_int(i, HLO_ATTR_KIND, -1);
  const char *t = k >= 0 ? hlo_enum_text(hlo_attr_kind_of(HLO_ATTR_KIND), k) : NULL;
  return t ? t : "";
}

static bool instr_lookup(void *arg, const char *name, const char *call, repl_value *out) {
  repl_instr_scope *s = arg;
  const hlo_instr *i = s->i;
  const hlo_metadata *md = hlo_metadata_of(i);
  if (call) return false;
  *out = (repl_value){0};
#define IS(x) (strcmp(name, x) == 0)
  if (IS("name")) out->text = i->name;
  else if (IS("opcode")) out->text = hlo_op_text(i->opcode);
  else if (IS("type"))
    out->text = hlo_shape_is_tuple(i->shape) ? "tuple" : hlo_dtype_text(i->shape->dtype);
  else if (IS("shape")) out->text = shape_text(s->scratch, i->shape);
  else if (IS("rank")) out->number = i->shape->rank;
  else if (IS("elements")) out->number = (double)i->shape->elements;
  else if (IS("bytes")) out->number = (double)hlo_shape_bytes(i->shape);
  else if (!s->cost && (IS("flops") || IS("traffic") || IS("us") || IS("trips")))
    s->lacked_cost = true;
  else if (IS("flops"))
    out->number = i->id < s->cost->n
                      ? s->cost->by_id[i->id].flops + s->cost->by_id[i->id].transcendentals
                      : 0;
  else if (IS("traffic"))
    out->number = i->id < s->cost->n
                      ? s->cost->by_id[i->id].bytes_read + s->cost->by_id[i->id].bytes_written
                      : 0;
  else if (IS("users")) out->number = users(i);
  else if (IS("operands")) out->number = i->noperands;
  else if (IS("computation")) out->text = i->parent->name;
  else if (IS("op_name")) out->text = md ? copy_str(s->scratch, md->op_name) : "";
  else if (IS("op_type")) out->text = md ? copy_str(s->scratch, md->op_type) : "";
  else if (IS("source")) out->text = md ? copy_str(s->scratch, md->source_file) : "";
  else if (IS("line")) out->number = md ? md->source_line : 0;
  else if (IS("id")) out->number = i->id;
  else if (IS("root")) out->number = hlo_is_root(i);
  else if (IS("us")) out->number = s->device ? prof_estimate_instr(i, s->device) * 1e6 : 0;
  else if (IS("kind")) out->text = fusion_kind(i);
  else if (IS("trips")) out->number = i->opcode == HLO_WHILE ? hlo_expected_trips(i) : 0;
  else return false;
  return true;
}

repl_scope repl_scope_of_instr(repl_instr_scope *s) {
  return (repl_scope){
      .lookup = instr_lookup, .arg = s, .names = instr_names, .nnames = HS_COUNT(instr_names)};
}

static const char *const module_names[] = {
    "instructions", "computations", "kernels", "fusions",     "flops",       "bytes", "peak",
    "temp",         "arguments",    "outputs", "parameters",  "version",     "us",    "ops",
    "exists",       "valid",        "speedup", "speedup_low", "speedup_high"};

static double count_ops(const hlo_module *m, hlo_opcode op) {
  double n = 0;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) n += i->opcode == op;
  return n;
}

static bool module_lookup(void *arg, const char *name, const char *call, repl_value *out) {
  repl_module_scope *s = arg;
  *out = (repl_value){0};
  if (call) {
    if (IS("ops")) {
      hlo_opcode op = hlo_op_find(hs_str_of(call));
      out->number = op ? count_ops(s->m, op) : 0;
      return op != HLO_OP_INVALID;
    }
    if (IS("exists")) {
      out->number = repl_find_instr(s->m, call) || repl_find_comp(s->m, call);
      return true;
    }
    return false;
  }
  if (IS("instructions") || IS("ops")) out->number = s->totals.instructions;
  else if (IS("computations")) out->number = s->totals.computations;
  else if (IS("kernels")) out->number = s->totals.kernels;
  else if (IS("fusions")) out->number = count_ops(s->m, HLO_FUSION);
  else if (IS("flops")) out->number = s->totals.flops;
  else if (IS("bytes")) out->number = s->totals.bytes;
  else if (IS("peak")) out->number = (double)s->memory.peak_bytes;
  else if (IS("temp")) out->number = (double)s->memory.temp_bytes;
  else if (IS("arguments")) out->number = (double)s->memory.argument_bytes;
  else if (IS("outputs")) out->number = (double)s->memory.output_bytes;
  else if (IS("parameters")) out->number = s->m->entry->nparams;
  else if (IS("version")) out->number = s->version;
  else if (IS("us")) {
    prof_estimate e;
    hs_status st = s->device ? prof_estimate_module(s->m, s->device, false, &e)
                             : hs_fail(HS_E_USAGE, "no target");
    out->number = hs_ok(st) ? e.time_s * 1e6 : -1;
    hs_status_drop(st);
  } else if (IS("valid")) {
    hs_status st = hlo_verify(s->m, NULL);
    out->number = hs_ok(st);
    hs_status_drop(st);
  } else if (IS("speedup") || IS("speedup_low") || IS("speedup_high")) {
    const prof_interval none = {0}, *r = s->measured ? s->measured : &none;
    s->lacked_measurement |= !s->measured;
    out->number = name[7] == 0 ? r->value : name[8] == 'l' ? r->low : r->high;
  } else return false;
#undef IS
  return true;
}

hs_status repl_module_scope_open(repl_module_scope *s, const hlo_module *m,
                                 const prof_device *device, u32 version) {
  *s = (repl_module_scope){.m = m, .device = device, .version = version};
  HS_TRY(pass_measure(m, NULL, &s->totals));
  return hlo_memory_estimate(m, false, &s->memory);
}

repl_scope repl_scope_of_module(repl_module_scope *s) {
  return (repl_scope){
      .lookup = module_lookup, .arg = s, .names = module_names, .nnames = HS_COUNT(module_names)};
}
