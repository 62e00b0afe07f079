// print.c — modules, computations and instructions as XLA prints them (HloModule::ToString and
// HloPrintOptions).
//
// Order: computations callees first (XLA's MakeComputationPostOrder); instructions operands first
// as in XLA's MakeInstructionPostOrder, or the schedule; attributes as listed in ops.def and then
// the common ones.
#include "core/ir/async.h"
#include "core/text/print.h"

#include "core/base/visible.h"

// ---- options ------------------------------------------------------------------------------------
const struct hlo_vintage_row hlo_vintages[HLO_VINTAGE_COUNT] = {
#define VINTAGE(id, name, root, idx, stable, summary) {name, root, idx, stable, summary},
#include "core/text/vintage.def"
#undef VINTAGE
};

static const struct {
  const char *name;
  size_t at;
} switches[] = {
#define PRINT_OPTION(name, ...) {#name, offsetof(hlo_print_options, name)},
#include "core/text/print_options.def"
#undef PRINT_OPTION
};

const char *hlo_print_option_name(size_t k) {
  return k < HS_COUNT(switches) ? switches[k].name : NULL;
}

bool *hlo_print_option(hlo_print_options *o, const char *name) {
  for (size_t k = 0; k < HS_COUNT(switches); k++)
    if (strcmp(switches[k].name, name) == 0) return (bool *)((char *)o + switches[k].at);
  return NULL;
}

hlo_print_options hlo_print_default(void) {
  return (hlo_print_options){
#define PRINT_OPTION(name, usual, brief, canon, summary) .name = usual,
#include "core/text/print_options.def"
#undef PRINT_OPTION
      .index_interval = 5};
}

hlo_print_options hlo_print_short_parsable(void) {
  return (hlo_print_options){
#define PRINT_OPTION(name, usual, brief, canon, summary) .name = brief,
#include "core/text/print_options.def"
#undef PRINT_OPTION
  };
}

hlo_print_options hlo_print_canonical(void) {
  return (hlo_print_options){
#define PRINT_OPTION(name, usual, brief, canon, summary) .name = canon,
#include "core/text/print_options.def"
#undef PRINT_OPTION
      .subcomputations = 1};
}

hlo_print_options hlo_print_compact(void) {
  hlo_print_options o = hlo_print_short_parsable();
  o.print_large_constants = o.include_layout_in_shapes = o.print_backend_config =
      o.print_frontend_attributes = o.print_original_value = false;
  o.print_control_dependencies = o.compact_gte = o.aligned = true;
  return o;
}

hlo_print_options hlo_print_full(void) {
  hlo_print_options o = hlo_print_default();
  o.print_large_constants = true;
  o.syntax_sugar_async_ops = false;  // as HloModule::ToString: what was read comes back as it was
  o.own_order = true;
  return o;
}

// ---- names --------------------------------------------------------------------------------------
static void put_name(hlo_printer *p, const char *name) {
  if (p->o->print_percent) hs_buf_putc(p->b, '%');
  size_t n = strlen(name);
  if (!p->o->print_ids) n = strcspn(name, ".");
  hs_buf_put(p->b, name, n);
}

void hlo_put_comp_name(hlo_printer *p, const hlo_computation *c) {
  const char *other = p->o->comp_names ? p->o->comp_names[c->id] : NULL;
  put_name(p, other ? other : c->name);
}

void hlo_put_instr_name(hlo_printer *p, const hlo_instr *i) {
  const char *other = p->o->instr_names ? p->o->instr_names[i->id] : NULL;
  put_name(p, other ? other : i->name);
}

// The name, or its number in the canonical form.
static void put_instr_name(hlo_printer *p, const hlo_instr *i) {
  u32 k = p->canonical ? p->canonical[i->id] : 0;
  if (!k) {
    hlo_put_instr_name(p, i);
    return;
  }
  hs_buf_puts(p->b, p->o->print_percent ? "%tmp_" : "tmp_");
  hs_buf_i64(p->b, k - 1);
}

// ---- asynchronous short form --------------------------------------------------------------------
// The one operation that a computation holds besides its parameters; NULL when there is more, or
// when the short form would not say all: which operand is which parameter, what the root waits for,
// opcodes whose -start is an opcode of its own.
static const hlo_instr *wrapped_of(const hlo_computation *c) {
  if (!c || !c->root || hlo_is(c->root, HLO_PARAMETER) || c->ninstrs != c->nparams + 1 ||
      hlo_has_own_async(c->root->opcode))
    return NULL;
  if (c->root->ctrl_preds && c->root->ctrl_preds->n) return NULL;
  for (u32 k = 0; k < c->root->noperands; k++)  // in order, each once
    if (hlo_operand(c->root, k) != (k < c->nparams ? c->params[k] : NULL)) return NULL;
  return c->root;
}

// What an async instruction is printed as; NULL when in the long form.
static const hlo_instr *sugar_of(const hlo_printer *p, const hlo_instr *i) {
  if (!p->o->syntax_sugar_async_ops || p->o->subcomputations == 1) return NULL;
  if (!hlo_is(i, HLO_ASYNC_START) && !hlo_is(i, HLO_ASYNC_UPDATE) && !hlo_is(i, HLO_ASYNC_DONE))
    return NULL;
  const hlo_computation *c = hlo_async_wrapped(i);
  return c && p->called && p->called[c->id] ? NULL : wrapped_of(c);
}

// Computations that somebody names, who therefore have to be printed: no short form stands for
// them.
static const bool *called_by_name(const hlo_module *m, hs_arena *a) {
  bool *called = HS_NEW_ARRAY(a, bool, m->next_comp_id + 1);
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      for (u32 k = 0; !hlo_op_has(i->opcode, HLO_F_ASYNC_WRAPPER) && k < hlo_ncalled(i); k++)
        called[hlo_called(i, k)->id] = true;
  return called;
}

// A computation that the short form stands for is not printed itself.
static void mark_hidden(const hlo_printer *p, const hlo_module *m, u8 *hidden) {
  if (!p->o->syntax_sugar_async_ops) return;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (hlo_is(i, HLO_ASYNC_START) && sugar_of(p, i))
        hidden[hlo_attr_comp(i, HLO_ATTR_CALLS)->id] = 1;
}

// ---- operands -----------------------------------------------------------------------------------
static bool folded_gte(const hlo_printer *p, const hlo_instr *i) {
  return p->o->compact_gte && hlo_is(i, HLO_GET_TUPLE_ELEMENT) && !hlo_is_root(i);
}

static void put_operand(hlo_printer *p, const hlo_instr *o) {
  const hlo_print_options *opt = p->o;
  bool names = opt->print_operand_names || p->canonical;
  if (opt->print_operand_shape) {
    hlo_shape_print(p->b, o->shape, opt->include_layout_in_shapes);
    if (names) hs_buf_putc(p->b, ' ');
  }
  if (!names) return;
  i64 path[64];
  u32 n = 0;
  while (folded_gte(p, o) && n < HS_COUNT(path)) {
    path[n++] = hlo_attr_int(o, HLO_ATTR_INDEX, 0);
    o = hlo_operand(o, 0);
  }
  put_instr_name(p, o);
  while (n) hs_buf_printf(p->b, "#%lld", (long long)path[--n]);
}

static void put_operands(hlo_printer *p, const hlo_instr *i) {
  hs_buf *b = p->b;
  if (hlo_is(i, HLO_CONSTANT)) {
    const hlo_literal *l = hlo_constant_value(i);
    bool small = l && hlo_shape_is_array(l->shape) && l->shape->elements <= 10;
    if (!l || (l->elided && hlo_shape_is_array(l->shape)) ||
        !(small || p->o->print_large_constants))
      hs_buf_puts(b, "{...}");
    else hlo_put_literal(b, l);
    return;
  }
  if (hlo_is(i, HLO_PARAMETER)) {
    if (p->o->print_parameter_number) hs_buf_i64(b, hlo_param_number(i));
    return;
  }
  u32 shown = p->o->compact_operands && i->noperands > 4 ? 4 : i->noperands;
  for (u32 k = 0; k < shown; k++) {
    if (k) hs_buf_puts(b, ", ");
    if (k && p->o->index_interval > 0 && k % (u32)p->o->index_interval == 0)
      hs_buf_printf(b, "/*index=%u*/", k);
    put_operand(p, hlo_operand(i, k));
  }
  if (shown < i->noperands) hs_buf_printf(b, ", ...(+%u)", i->noperands - shown);
}

// ---- attributes ---------------------------------------------------------------------------------
static void put_key(hlo_printer *p, hlo_attr_id id) {
  hs_buf_puts(p->b, ", ");
  hs_buf_puts(p->b, hlo_attr_text(id));
  hs_buf_putc(p->b, '=');
}

static void put_iota_dims(hlo_printer *p, const hlo_instr *i) {
  hs_buf_putc(p->b, '{');
  for (u32 k = 0; k < i->shape->rank; k++) hs_buf_printf(p->b, "%s%u", k ? "," : "", k);
  hs_buf_putc(p->b, '}');
}

// What XLA prints even when the attribute is not set.
static const char *absent_text(hlo_attr_id id) {
  switch (id) {
  case HLO_ATTR_REPLICA_GROUPS: return "{}";
  case HLO_ATTR_HAS_DYNAMIC_ROOT:
  case HLO_ATTR_IS_ASSOCIATIVE: return "false";
  case HLO_ATTR_LARGEST: return "true";
  case HLO_ATTR_LHS_CONTRACTING_DIMS:
  case HLO_ATTR_RHS_CONTRACTING_DIMS: return "{}";
  default: return NULL;
  }
}

static void put_common(hlo_printer *p, const hlo_instr *i, hlo_attr_id id, bool on) {
  const hlo_attr *a = on ? hlo_attr_get(i, id) : NULL;
  if (!a) return;
  put_key(p, id);
  hlo_put_attr(p, i, a);
}

// `inner`: the operation that an async-start is printed as; its attributes follow the thread.
static void put_own_attrs(hlo_printer *p, const hlo_instr *i, const hlo_instr *inner) {
  for (const hlo_op_attr *a = hlo_ops[i->opcode].attrs; a->id; a++) {
    const hlo_attr *v = hlo_attr_get(i, a->id);
    hlo_attr_kind kind = hlo_attr_kind_of(a->id);
    bool comps = kind == HLO_AK_COMP || kind == HLO_AK_COMPS;
    if (inner && comps) continue;
    if (inner && a->id == HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING) continue;
    if (comps && p->o->subcomputations == 2) continue;
    if ((a->id == HLO_ATTR_INFEED_CONFIG || a->id == HLO_ATTR_OUTFEED_CONFIG) &&
        !p->o->print_infeed_outfeed_config)
      continue;
    if (hlo_is(i, HLO_MAP) && a->id == HLO_ATTR_DIMENSIONS) {
      put_key(p, a->id);
      put_iota_dims(p, i);
    } else if (v && a->id == HLO_ATTR_CHANNEL_ID && !p->o->print_channel_id) {
      put_key(p, a->id);
      hs_buf_putc(p->b, '_');
    } else if (a->id == HLO_ATTR_HAS_DYNAMIC_ROOT &&
               !hlo_vintages[p->o->vintage].has_dynamic_root && !hlo_attr_int(i, a->id, 0)) {
      continue;
    } else if (hlo_is(i, HLO_TOPK) && a->id == HLO_ATTR_IS_STABLE &&
               !hlo_vintages[p->o->vintage].topk_is_stable) {
      continue;
    } else if (v) {
      put_key(p, a->id);
      hlo_put_attr(p, i, v);
    } else {
      const char *text = absent_text(a->id);
      if (!text) continue;
      put_key(p, a->id);
      hs_buf_puts(p->b, text);
    }
  }
}

// What stands inside an async-start in its short form: all that the operation says, unless the
// start says it too.
static void put_inner_attrs(hlo_printer *p, const hlo_instr *i, const hlo_instr *inner) {
  static const hlo_attr_id common[] = {HLO_ATTR_SHARDING, HLO_ATTR_FRONTEND_ATTRIBUTES,
                                       HLO_ATTR_STATISTICS, HLO_ATTR_RESULT_ACCURACY};
  put_own_attrs(p, inner, NULL);
  put_common(p, i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING, true);
  for (size_t k = 0; k < HS_COUNT(common); k++)
    put_common(p, inner, common[k],
               !hlo_attr_get(i, common[k]) &&
                   (common[k] != HLO_ATTR_FRONTEND_ATTRIBUTES || p->o->print_frontend_attributes));
}

static void put_attrs(hlo_printer *p, const hlo_instr *i) {
  const hlo_print_options *o = p->o;
  if (o->print_extra_attributes) {
    const hlo_instr *inner = sugar_of(p, i);
    put_own_attrs(p, i, inner);
    if (inner && hlo_is(i, HLO_ASYNC_START)) put_inner_attrs(p, i, inner);
    put_common(p, i, HLO_ATTR_SHARDING, true);
    put_common(p, i, HLO_ATTR_FRONTEND_ATTRIBUTES, o->print_frontend_attributes);
    if (o->print_control_dependencies && i->ctrl_preds && i->ctrl_preds->n) {
      put_key(p, HLO_ATTR_CONTROL_PREDECESSORS);
      hlo_put_attr(p, i, &(hlo_attr){.id = HLO_ATTR_CONTROL_PREDECESSORS});
    }
    put_common(p, i, HLO_ATTR_STATISTICS, true);
    put_common(p, i, HLO_ATTR_RESULT_ACCURACY, true);
  }
  put_common(p, i, HLO_ATTR_ORIGIN, o->print_original_value);
  const hlo_metadata *m = hlo_metadata_of(i);
  put_common(p, i, HLO_ATTR_METADATA, o->print_metadata && m && hlo_metadata_prints(m));
  put_common(p, i, HLO_ATTR_BACKEND_CONFIG, o->print_backend_config);
}

// Colours of the parts of a line; nothing when not asked for. A text with colours is for a
// terminal: what lies between two of them is in visible form.
enum { COLOR_NONE = 0, COLOR_OPCODE = 1, COLOR_ATTRS = 2, COLOR_SHAPE = 36 };
static void finish_visible(hlo_printer *p) {
  if (p->o->color) hs_buf_make_visible(p->b, p->visible, HS_LINES);
}
static void paint(hlo_printer *p, int code) {
  if (!p->o->color) return;
  finish_visible(p);
  hs_buf_printf(p->b, "\x1b[%dm", code);
  p->visible = p->b->n;
}

static void pad_to(hlo_printer *p, size_t start, size_t width) {
  for (size_t n = p->b->n - start; n < width; n++) hs_buf_putc(p->b, ' ');
}

static void put_instr(hlo_printer *p, const hlo_instr *i, bool anonymous) {
  hs_buf *b = p->b;
  size_t start = b->n;
  if (!anonymous) {
    put_instr_name(p, i);
    pad_to(p, start, p->name_column);
    hs_buf_puts(b, " = ");
  }
  if (p->o->print_result_shape) {
    paint(p, COLOR_SHAPE);
    start = b->n;
    hlo_shape_print(b, i->shape, p->o->include_layout_in_shapes);
    pad_to(p, start, p->shape_column);
    paint(p, COLOR_NONE);
    hs_buf_putc(b, ' ');
  }
  const hlo_instr *inner = sugar_of(p, i);
  paint(p, COLOR_OPCODE);
  hs_buf_puts(b, hlo_op_text(inner ? inner->opcode : i->opcode));
  if (inner) hs_buf_puts(b, hlo_op_text(i->opcode) + strlen("async"));
  paint(p, COLOR_NONE);
  hs_buf_putc(b, '(');
  put_operands(p, i);
  hs_buf_putc(b, ')');
  paint(p, COLOR_ATTRS);
  put_attrs(p, i);
  paint(p, COLOR_NONE);
}

// Columns wide enough for what is usual: long names and tuple shapes stick out instead of pushing
// all else to the right.
static void measure_columns(hlo_printer *p, u32 n, hlo_instr *const *order) {
  enum { NAME_MOST = 40, SHAPE_MOST = 32 };
  hs_buf b = {0};
  hlo_printer q = *p;
  q.b = &b;
  p->name_column = p->shape_column = 0;
  for (u32 k = 0; k < n && !hs_interrupted(); k++) {
    if (folded_gte(p, order[k])) continue;
    b.n = 0;
    if (hlo_is_root(order[k])) hs_buf_puts(&b, "ROOT ");
    put_instr_name(&q, order[k]);
    if (b.n <= NAME_MOST) p->name_column = HS_MAX(p->name_column, b.n);
    b.n = 0;
    hlo_shape_print(&b, order[k]->shape, p->o->include_layout_in_shapes);
    if (b.n <= SHAPE_MOST) p->shape_column = HS_MAX(p->shape_column, b.n);
  }
  hs_buf_free(&b);
}

// ---- computations -------------------------------------------------------------------------------
static void put_pad(hlo_printer *p, int n) {
  for (int k = 0; k < n; k++) hs_buf_puts(p->b, "  ");
}

static void put_body(hlo_printer *p, const hlo_computation *c) {
  hs_arena scratch = {0};
  u32 n = c->ninstrs;
  hlo_instr **order = NULL;
  if (!hlo_is_scheduled(c->module) || hlo_is_fusion_comp(c)) {
    order = hlo_post_order(c, &scratch);
  } else {
    order = HS_NEW_ARRAY(&scratch, hlo_instr *, n);
    u32 k = 0;
    hlo_for_each_instr(i, c) order[k++] = i;
  }
  u32 *outer = p->canonical;
  if (p->o->canonicalize_instruction_names) {
    if (!outer) p->canonical = HS_NEW_ARRAY(&scratch, u32, c->module->next_instr_id);
    for (u32 k = 0; k < n; k++) p->canonical[order[k]->id] = k + 1;
  }
  hs_buf_puts(p->b, "{\n");
  if (p->o->aligned) measure_columns(p, n, order);
  size_t column = p->name_column;
  for (u32 k = 0; k < n && !hs_interrupted(); k++) {
    if (folded_gte(p, order[k])) continue;
    put_pad(p, p->indent + 1);
    bool root = hlo_is_root(order[k]);
    if (root) hs_buf_puts(p->b, "ROOT ");
    p->name_column = root && column > strlen("ROOT ") ? column - strlen("ROOT ") : column;
    p->indent++;
    put_instr(p, order[k], false);
    p->indent--;
    hs_buf_putc(p->b, '\n');
  }
  put_pad(p, p->indent);
  hs_buf_putc(p->b, '}');
  p->canonical = outer;
  hs_arena_free(&scratch);
}

void hlo_print_comp_body(hlo_printer *p, const hlo_computation *c) {
  put_pad(p, p->indent);
  put_body(p, c);
}

static void put_computation(hlo_printer *p, const hlo_computation *c) {
  hs_buf *b = p->b;
  if (c == c->module->entry) hs_buf_puts(b, "ENTRY ");
  if (p->o->print_ids || p->o->subcomputations != 1) {
    hlo_put_comp_name(p, c);
    hs_buf_putc(b, ' ');
  }
  if (p->o->print_program_shape) {
    hs_buf_putc(b, '(');
    for (u32 k = 0; k < c->nparams; k++) {
      hs_buf_printf(b, "%s%s: ", k ? ", " : "", c->params[k]->name);
      hlo_shape_print(b, c->params[k]->shape, false);
    }
    hs_buf_puts(b, ") -> ");
    hlo_shape_print(b, c->root->shape, false);
    hs_buf_putc(b, ' ');
  }
  put_body(p, c);
  if (p->o->print_name_after_closing_brace && c->ninstrs > 5) hs_buf_printf(b, " // %s", c->name);
  if (c->execution_thread.n && !hs_str_eq(c->execution_thread, HS_STR("main")))
    hs_buf_printf(b, ", execution_thread=\"%.*s\"", (int)c->execution_thread.n,
                  c->execution_thread.p);
}

// ---- the module ---------------------------------------------------------------------------------
static void put_module_attrs(hlo_printer *p, const hlo_module *m) {
  static const hlo_attr_id order[] = {HLO_ATTR_IS_SCHEDULED,
                                      HLO_ATTR_INPUT_OUTPUT_ALIAS,
                                      HLO_ATTR_BUFFER_DONOR,
                                      HLO_ATTR_ALIAS_PASSTHROUGH_PARAMS,
                                      HLO_ATTR_ENTRY_COMPUTATION_LAYOUT,
                                      HLO_ATTR_ALLOW_SPMD_PARAMETERS,
                                      HLO_ATTR_ALLOW_SPMD_OUTPUT,
                                      HLO_ATTR_REPLICA_COUNT,
                                      HLO_ATTR_NUM_PARTITIONS,
                                      HLO_ATTR_FRONTEND_ATTRIBUTES,
                                      HLO_ATTR_ORIGIN_RECOVERY_TABLE,
                                      HLO_ATTR_DEBUG_ATTRIBUTES};
  for (size_t k = 0; k < HS_COUNT(order); k++) {
    const hlo_attr *a = hlo_attrs_find(m->attrs, order[k]);
    // columns are for reading: no layouts
    if (!a || (p->o->aligned && a->id == HLO_ATTR_ENTRY_COMPUTATION_LAYOUT)) continue;
    if (hlo_attr_kind_of(a->id) == HLO_AK_BOOLS && a->v.ints.n == 1 && !a->v.ints.v[0]) continue;
    if (a->id == HLO_ATTR_DEBUG_ATTRIBUTES) hs_buf_puts(p->b, ",\ndebug_attributes=");
    else put_key(p, a->id);
    hlo_put_attr(p, NULL, a);
    if (a->id == HLO_ATTR_ORIGIN_RECOVERY_TABLE) hs_buf_putc(p->b, '\n');
  }
}

static void put_frames(hs_buf *b, const hlo_stack_frames *f) {
  hs_buf_puts(b, "\n\nFileNames\n");
  for (u32 k = 0; k < f->nfiles; k++) {
    hs_buf_printf(b, "%u \"", k + 1);
    hlo_put_escaped(b, f->files[k]);
    hs_buf_puts(b, "\"\n");
  }
  hs_buf_puts(b, "\nFunctionNames\n");
  for (u32 k = 0; k < f->nfunctions; k++) {
    hs_buf_printf(b, "%u \"", k + 1);
    hlo_put_escaped(b, f->functions[k]);
    hs_buf_puts(b, "\"\n");
  }
  hs_buf_puts(b, "\nFileLocations\n");
  for (u32 k = 0; k < f->nlocations; k++)
    hs_buf_printf(
        b, "%u {file_name_id=%d function_name_id=%d line=%d end_line=%d column=%d end_column=%d}\n",
        k + 1, f->locations[k].file, f->locations[k].function, f->locations[k].line,
        f->locations[k].end_line, f->locations[k].column, f->locations[k].end_column);
  hs_buf_puts(b, "\nStackFrames\n");
  for (u32 k = 0; k < f->nframes; k++)
    hs_buf_printf(b, "%u {file_location_id=%d parent_frame_id=%lld}\n", k + 1,
                  f->frames[k].location, (long long)f->frames[k].parent + 1);
}

static hlo_printer printer(hs_buf *b, const hlo_print_options *o) {
  return (hlo_printer){.b = b, .o = o, .visible = b->n};
}

static bool callees_precede(const hlo_module *m, u32 n, hlo_computation *const *order,
                            hs_arena *a) {
  u32 *at = HS_NEW_ARRAY(a, u32, m->next_comp_id + 1);
  for (u32 k = 0; k < n; k++) at[order[k]->id] = k;
  for (u32 k = 0; k < n; k++)
    hlo_for_each_instr(i, order[k])
      for (u32 j = 0; j < hlo_ncalled(i); j++)
        if (at[hlo_called(i, j)->id] > k) return false;
  return true;
}

// XLA's order, unless a computation would stand in front of one that it calls: XLA then prints a
// text that nobody can read.
static hlo_computation **printing_order(const hlo_module *m, bool own, hs_arena *a, u32 *n) {
  if (own) return hlo_comp_callees_first(m, a, n);
  hlo_computation **order = hlo_comp_post_order(m, a, n);
  return callees_precede(m, *n, order, a) ? order : hlo_comp_callees_first(m, a, n);
}

void hlo_print_module(hs_buf *b, const hlo_module *m, const hlo_print_options *o) {
  hlo_print_options def = hlo_print_default();
  if (!o) o = &def;
  hlo_printer p = printer(b, o);
  hs_buf_puts(b, "HloModule ");
  if (o->print_ids) hs_buf_puts(b, m->name);
  put_module_attrs(&p, m);
  if (m->frames && o->print_metadata) put_frames(b, m->frames);
  hs_buf_puts(b, "\n\n");
  hs_arena scratch = {0};
  u32 n = 0;
  hlo_computation **order = printing_order(m, o->own_order, &scratch, &n);
  u8 *hidden = HS_NEW_ARRAY(&scratch, u8, m->next_comp_id + 1);
  p.called = called_by_name(m, &scratch);
  mark_hidden(&p, m, hidden);
  for (u32 k = 0; k < n; k++) {
    if (hidden[order[k]->id] || (o->subcomputations == 1 && order[k] != m->entry)) continue;
    put_computation(&p, order[k]);
    hs_buf_puts(b, "\n\n");
  }
  finish_visible(&p);
  hs_arena_free(&scratch);
}

void hlo_print_computation(hs_buf *b, const hlo_computation *c, const hlo_print_options *o) {
  hlo_print_options def = hlo_print_default();
  hlo_printer p = printer(b, o ? o : &def);
  put_computation(&p, c);
  hs_buf_putc(b, '\n');
  finish_visible(&p);
}

void hlo_print_instr(hs_buf *b, const hlo_instr *i, const hlo_print_options *o) {
  hlo_print_options def = hlo_print_default();
  hlo_printer p = printer(b, o ? o : &def);
  put_instr(&p, i, p.o->canonicalize_instruction_names);
}

u64 hlo_text_hash(const hlo_module *m) {
  hs_buf b = {0};
  hlo_print_options o = hlo_print_full();
  // these by their bytes: a megabyte of numbers takes a second to write
  o.print_large_constants = false;
  hlo_print_module(&b, m, &o);
  u64 h = hs_hash_bytes(b.p, b.n, 5);
  hs_buf_free(&b);
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      const hlo_literal *l = hlo_constant_value(i);
      if (l) h = hs_mix(h, hlo_literal_hash(l));
    }
  return h;
}
