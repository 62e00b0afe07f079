// print.c — a module as StableHLO text, in generic form: "op"(values) <{attributes}> ({regions})
// : types. Names are the module's. The entry is @main; computations that calls and custom calls
// name are functions, those of loops, branches and reducers are regions of their operation.
//
// HLO's loops and operations with several results work on tuples, StableHLO's on lists of values: a
// tuple is named by its elements as long as nobody needs it whole (print_value).
#include "core/mlir/print/print.h"

#include "core/mlir/mlir.h"

bool print_fail(mlir_printer *P, const hlo_instr *i, const char *fmt, ...) {
  if (!hs_ok(P->err)) return false;
  hs_buf b = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  P->err = i ? hs_fail(HS_E_NO_STABLEHLO, "%s %s: %s has no form in StableHLO",
                       hlo_op_text(i->opcode), i->name, hs_buf_cstr(&b))
             : hs_fail(HS_E_NO_STABLEHLO, "%s has no form in StableHLO", hs_buf_cstr(&b));
  hs_buf_free(&b);
  if (i && (i->opcode == HLO_FUSION || i->opcode == HLO_COPY))
    P->err = hs_with_note(P->err, "passes made it: StableHLO is written of the module before them");
  return false;
}

void print_indent(mlir_printer *P) {
  for (u32 k = 0; k < P->depth; k++) hs_buf_puts(P->b, "  ");
}

// ---- values -------------------------------------------------------------------------------------
static const char *text(mlir_printer *P, const char *fmt, const char *name, u32 k) {
  hs_buf b = {0};
  hs_buf_printf(&b, fmt, name, k);
  const char *s = hs_arena_strndup(&P->arena, b.p, b.n);
  hs_buf_free(&b);
  return s;
}
static const char *fresh(mlir_printer *P) { return text(P, "%%$%s%u", "", P->fresh++); }

static print_value *value_of(mlir_printer *P, const hlo_instr *i) { return &P->values[i->id]; }

static const char *print_tuple(mlir_printer *P, const hlo_instr *i, const print_value *v,
                               const hlo_shape *shape) {
  const char *name = fresh(P);
  print_indent(P);
  hs_buf_printf(P->b, "%s = \"stablehlo.tuple\"(", name);
  for (u32 k = 0; k < v->n; k++) hs_buf_printf(P->b, "%s%s", k ? ", " : "", v->parts[k]);
  hs_buf_puts(P->b, ") : (");
  for (u32 k = 0; k < v->n; k++) {
    if (k) hs_buf_puts(P->b, ", ");
    (void)print_type(P, i, shape->elems[k]);
  }
  hs_buf_puts(P->b, ") -> ");
  (void)print_type(P, i, shape);
  hs_buf_putc(P->b, '\n');
  return name;
}

const char *print_one(mlir_printer *P, const hlo_instr *i) {
  print_value *v = value_of(P, i);
  if (!v->one) v->one = print_tuple(P, i, v, i->shape);
  return v->one;
}

const char *print_part(mlir_printer *P, const hlo_instr *i, u32 k) {
  print_value *v = value_of(P, i);
  if (v->open) return v->parts[k];
  v->n = i->shape->nelems;
  v->parts = HS_NEW_ARRAY(&P->arena, const char *, v->n + 1);
  v->open = true;
  for (u32 j = 0; j < v->n; j++) {
    v->parts[j] = fresh(P);
    print_indent(P);
    hs_buf_printf(P->b, "%s = \"stablehlo.get_tuple_element\"(%s) <{index = %u : i32}> : (",
                  v->parts[j], v->one, j);
    (void)print_type(P, i, i->shape);
    hs_buf_puts(P->b, ") -> ");
    (void)print_type(P, i, i->shape->elems[j]);
    hs_buf_putc(P->b, '\n');
  }
  return v->parts[k];
}

// The instruction's results get names: one, or as many as the tuple has elements.
static void name_results(mlir_printer *P, const hlo_instr *i, bool open, u32 n) {
  print_value *v = value_of(P, i);
  *v = (print_value){.open = open, .n = open ? n : 0};
  if (!open) {
    v->one = text(P, "%%%s", i->name, 0);
    return;
  }
  v->parts = HS_NEW_ARRAY(&P->arena, const char *, n + 1);
  for (u32 k = 0; k < n; k++) v->parts[k] = text(P, n == 1 ? "%%%s" : "%%%s#%u", i->name, k);
}

// What an infeed takes is a tuple beside a token.
static void pack_results(mlir_printer *P, const hlo_instr *i) {
  print_value *v = value_of(P, i), data = {.open = true, .n = v->n - 1, .parts = v->parts};
  const char **pair = HS_NEW_ARRAY(&P->arena, const char *, 2);
  pair[0] = print_tuple(P, i, &data, i->shape->elems[0]);
  pair[1] = v->parts[v->n - 1];
  *v = (print_value){.open = true, .n = 2, .parts = pair};
}

// ---- regions ------------------------------------------------------------------------------------
static bool print_body(mlir_printer *P, const hlo_computation *c);

static bool print_return(mlir_printer *P, const char *name, const hlo_instr *root, bool apart) {
  apart = apart && hlo_shape_is_tuple(root->shape);
  u32 n = apart ? root->shape->nelems : 1;
  const char **v = HS_NEW_ARRAY(&P->arena, const char *, n + 1);
  for (u32 k = 0; k < n; k++) v[k] = apart ? print_part(P, root, k) : print_one(P, root);
  print_indent(P);
  hs_buf_printf(P->b, "\"%s\"(", name);
  for (u32 k = 0; k < n; k++) hs_buf_printf(P->b, "%s%s", k ? ", " : "", v[k]);
  hs_buf_puts(P->b, ") : (");
  for (u32 k = 0; k < n; k++) {
    if (k) hs_buf_puts(P->b, ", ");
    if (!print_type(P, root, apart ? root->shape->elems[k] : root->shape)) return false;
  }
  hs_buf_puts(P->b, ") -> ()\n");
  return true;
}

// Parameters are the region's arguments, a tuple's elements one each (a loop's state), or the
// operand of the branch.
static bool print_region(mlir_printer *P, const hlo_computation *c, const hlo_instr *captured,
                         bool apart) {
  enum { DEEPEST = 200 };
  if (P->depth > DEEPEST) return print_fail(P, c->root, "a call so deep");
  hs_buf_puts(P->b, "{\n");
  if (captured && c->nparams == 1) {
    // one value, as HLO has it
    P->values[c->params[0]->id] = (print_value){.one = P->values[captured->id].one};
  } else if (c->nparams) {
    print_indent(P);
    hs_buf_puts(P->b, "^bb0(");
    bool first = true;
    for (u32 k = 0; k < c->nparams; k++) {
      const hlo_instr *p = c->params[k];
      bool open = apart && hlo_shape_is_tuple(p->shape);
      u32 n = open ? p->shape->nelems : 1;
      name_results(P, p, false, 0);
      print_value *v = value_of(P, p);
      if (open) {
        *v = (print_value){.open = true, .n = n};
        v->parts = HS_NEW_ARRAY(&P->arena, const char *, n + 1);
        for (u32 j = 0; j < n; j++) v->parts[j] = text(P, "%%%s.$%u", p->name, j);
      }
      for (u32 j = 0; j < n; j++, first = false) {
        hs_buf_printf(P->b, "%s%s: ", first ? "" : ", ", open ? v->parts[j] : v->one);
        if (!print_type(P, p, open ? p->shape->elems[j] : p->shape)) return false;
      }
    }
    hs_buf_puts(P->b, "):\n");
  }
  P->depth++;
  bool ok = print_body(P, c) && print_return(P, "stablehlo.return", c->root, true);
  P->depth--;
  print_indent(P);
  hs_buf_putc(P->b, '}');
  return ok;
}

// ---- instructions -------------------------------------------------------------------------------
static bool print_types(mlir_printer *P, const hlo_instr *i, u32 n, const hlo_shape *const *v) {
  hs_buf_putc(P->b, '(');
  for (u32 k = 0; k < n; k++) {
    if (k) hs_buf_puts(P->b, ", ");
    if (!print_type(P, i, v[k])) return false;
  }
  hs_buf_putc(P->b, ')');
  return true;
}

static void print_location(mlir_printer *P, const hlo_instr *i) {
  const hlo_metadata *m = hlo_metadata_of(i);
  if (!m || !m->op_name.n) return;
  hs_buf_puts(P->b, " loc(");
  print_string(P->b, m->op_name);
  if (m->source_file.n) {
    hs_buf_putc(P->b, '(');
    print_string(P->b, m->source_file);
    hs_buf_printf(P->b, ":%d:%d)", m->source_line, HS_MAX(m->source_column, 0));
  }
  hs_buf_putc(P->b, ')');
}

static bool print_assembled(mlir_printer *P, const hlo_instr *i, print_op *o) {
  const char *result = o->nresults ? text(P, "%%%s", i->name, 0) : NULL;
  print_indent(P);
  if (result) hs_buf_puts(P->b, result);
  if (o->nresults > 1) hs_buf_printf(P->b, ":%u", o->nresults);
  hs_buf_printf(P->b, "%s\"%s\"(", result ? " = " : "", o->name);
  for (u32 k = 0; k < o->noperands; k++) hs_buf_printf(P->b, "%s%s", k ? ", " : "", o->operands[k]);
  hs_buf_putc(P->b, ')');
  if (o->props.n) hs_buf_printf(P->b, " <{%s}>", hs_buf_cstr(&o->props));
  bool loop = i->opcode == HLO_WHILE;
  for (u32 k = 0; k < o->nregions; k++) {
    const hlo_computation *c = o->branches ? o->branches[k] : o->regions[k];
    const hlo_instr *in = o->captured ? hlo_operand(o->captured, k + 1) : NULL;
    hs_buf_puts(P->b, k ? ", " : " (");
    if (!print_region(P, c, in, loop)) return false;
  }
  if (o->nregions) hs_buf_putc(P->b, ')');
  hs_buf common = {0};
  bool ok = o->composite || print_common(P, i, &common);
  if (common.n) hs_buf_printf(P->b, " {%s}", hs_buf_cstr(&common));
  hs_buf_free(&common);
  hs_buf_puts(P->b, " : ");
  ok = ok && print_types(P, i, o->noperands, o->operand_shapes);
  hs_buf_puts(P->b, " -> ");
  ok = ok && print_types(P, i, o->nresults, o->results);
  print_location(P, i);
  hs_buf_putc(P->b, '\n');
  return ok;
}

static bool same_types(mlir_printer *P, const hlo_instr *i, const hlo_shape *a,
                       const hlo_shape *b) {
  return a->dtype == b->dtype || print_fail(P, i, "a mixture of element types");
}

// StableHLO's operations do not mix element types, nor nest tuples in a state.
static bool unmixed(mlir_printer *P, const hlo_instr *i) {
  const hlo_shape *to = i->shape;
  bool tuple = hlo_shape_is_tuple(to), elementwise = hlo_op_has(i->opcode, HLO_F_ELEMENTWISE);
  bool several = false, nested = false;
  for (u32 k = 0; tuple && k < to->nelems; k++) nested |= hlo_shape_is_tuple(to->elems[k]);
  switch (i->opcode) {
  case HLO_WHILE:
  case HLO_CONDITIONAL: return !nested || print_fail(P, i, "a tuple in a tuple");
  case HLO_AFTER_ALL:
    for (u32 k = 0; k < i->noperands; k++) several |= hlo_operand(i, k)->shape->dtype != HLO_TOKEN;
    return !several || print_fail(P, i, "an operand that is no token");
  case HLO_COLLECTIVE_BROADCAST:
    return i->noperands == 1 || print_fail(P, i, "a broadcast of several values");
  case HLO_DYNAMIC_SLICE:
  case HLO_DYNAMIC_UPDATE_SLICE: {
    u32 first = i->opcode == HLO_DYNAMIC_SLICE ? 1 : 2;
    bool vector = i->noperands > first && hlo_operand(i, first)->shape->rank;
    return !vector || print_fail(P, i, "a vector of starts");
  }
  case HLO_BITCAST_CONVERT: {
    hlo_dtype from = hlo_operand(i, 0)->shape->dtype;
    bool bits = (from == HLO_PRED || to->dtype == HLO_PRED) && from != to->dtype;
    return !bits || print_fail(P, i, "bits of pred");
  }
  case HLO_COMPARE: return same_types(P, i, hlo_operand(i, 0)->shape, hlo_operand(i, 1)->shape);
  case HLO_SELECT:
    return same_types(P, i, hlo_operand(i, 1)->shape, to) &&
           same_types(P, i, hlo_operand(i, 2)->shape, to);
  case HLO_MAP:
  case HLO_REDUCE:
  case HLO_REDUCE_WINDOW:
  case HLO_SCATTER:
  case HLO_REDUCE_SCATTER:
  case HLO_ALL_REDUCE: {
    // what the computation takes and gives, as many times as there are values
    const hlo_computation *c = hlo_called(i, 0);
    const hlo_shape *made = c->root->shape;
    u32 n = tuple ? to->nelems : 1, given = hlo_shape_is_tuple(made) ? made->nelems : 1;
    for (u32 k = 0; k < n && k < i->noperands; k++) {
      const hlo_shape *one = given == 1 && made->nelems <= 1 ? made : made->elems[k % given];
      if (!same_types(P, i, tuple ? to->elems[k] : to,
                      hlo_shape_is_tuple(one) ? one->elems[0] : one))
        return false;
      if (k < c->nparams && !same_types(P, i, hlo_operand(i, k)->shape, c->params[k]->shape))
        return false;
    }
    return true;
  }
  case HLO_RNG_BIT_GENERATOR: return tuple || print_fail(P, i, "bits without a state");
  case HLO_CUSTOM_CALL:
    for (u32 k = 0; k < i->noperands; k++) several |= hlo_shape_is_tuple(hlo_operand(i, k)->shape);
    return !several || !hlo_attr_get(i, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS) ||
           print_fail(P, i, "the layouts of a tuple");
  case HLO_CONVERT:
  case HLO_COMPLEX:
  case HLO_REAL:
  case HLO_IMAG:
  case HLO_IS_FINITE: return true;
  default: break;
  }
  if (i->opcode == HLO_ABS && hlo_dtype_is_complex(hlo_operand(i, 0)->shape->dtype)) return true;
  bool alike = elementwise || i->opcode == HLO_BROADCAST || i->opcode == HLO_RESHAPE ||
               i->opcode == HLO_TRANSPOSE;
  for (u32 k = 0; alike && k < i->noperands; k++)
    if (!same_types(P, i, hlo_operand(i, k)->shape, to)) return false;
  return true;
}

// Attributes that StableHLO has no place for, and what its operations do not take.
static bool sayable(mlir_printer *P, const hlo_instr *i) {
  static const hlo_attr_id without[] = {HLO_ATTR_INFERRED_DIMENSION, HLO_ATTR_SPARSITY_CONFIG,
                                        HLO_ATTR_SCHEDULE, HLO_ATTR_RESULT_ACCURACY,
                                        HLO_ATTR_HAS_DYNAMIC_ROOT};
  for (size_t k = 0; k < HS_COUNT(without); k++) {
    const hlo_attr *a = hlo_attr_get(i, without[k]);
    if (a && !hlo_attr_droppable(i->opcode, a) && (a->id != HLO_ATTR_HAS_DYNAMIC_ROOT || a->v.i))
      return print_fail(P, i, "%s", hlo_attr_text(without[k]));
  }
  return unmixed(P, i);
}

static bool print_instr(mlir_printer *P, const hlo_instr *i) {
  print_value *v = value_of(P, i);
  const mlir_row *row = mlir_printed_row(i->opcode);
  if (i->opcode == HLO_TUPLE) {
    *v = (print_value){.open = true, .n = i->noperands};
    v->parts = HS_NEW_ARRAY(&P->arena, const char *, i->noperands + 1);
    for (u32 k = 0; k < i->noperands; k++) v->parts[k] = print_one(P, hlo_operand(i, k));
    return true;
  }
  if (i->opcode == HLO_GET_TUPLE_ELEMENT) {
    i64 k = hlo_attr_int(i, HLO_ATTR_INDEX, 0);
    *v = (print_value){.one = print_part(P, hlo_operand(i, 0), (u32)k)};
    return true;
  }
  if (!row) return print_fail(P, i, "%s", hlo_op_text(i->opcode));
  bool tuple = hlo_shape_is_tuple(i->shape), done = false;
  print_op o = {.name = row->name, .noperands = i->noperands};
  bool open =
      tuple && !((i->opcode == HLO_CUSTOM_CALL || i->opcode == HLO_CALL) && i->shape->nelems == 1);
  // a call gives what its function returns
  if (i->opcode == HLO_CALL) {
    const hlo_instr *root = hlo_called(i, 0)->root;
    open = tuple && root->opcode == HLO_TUPLE && root->noperands != 1;
  }
  o.nresults = open ? i->shape->nelems : 1;
  o.results = HS_NEW_ARRAY(&P->arena, const hlo_shape *, o.nresults + 1);
  for (u32 k = 0; k < o.nresults; k++) o.results[k] = open ? i->shape->elems[k] : i->shape;
  bool ok = print_special(P, i, row, &o, &done);
  if (ok && !o.operands) {
    o.operands = HS_NEW_ARRAY(&P->arena, const char *, o.noperands + 1);
    o.operand_shapes = HS_NEW_ARRAY(&P->arena, const hlo_shape *, o.noperands + 1);
    for (u32 k = 0; k < o.noperands; k++) {
      o.operands[k] = print_one(P, hlo_operand(i, k));
      o.operand_shapes[k] = hlo_operand(i, k)->shape;
    }
  }
  for (u32 k = 1; ok && o.captured && k < i->noperands; k++) (void)print_one(P, hlo_operand(i, k));
  ok = ok && sayable(P, i);
  ok = ok && (done || print_row_attrs(P, i, row, &o.props));
  ok = ok && print_assembled(P, i, &o);
  hs_buf_free(&o.props);
  name_results(P, i, open, o.nresults);
  if (ok && i->opcode == HLO_INFEED) pack_results(P, i);
  return ok && hs_ok(P->err);
}

static bool print_body(mlir_printer *P, const hlo_computation *c) {
  hlo_instr **order = hlo_post_order(c, &P->arena);
  for (u32 k = 0; order[k]; k++) {
    if (hs_interrupted()) return P->err = hs_stopped(), false;
    if (order[k]->opcode != HLO_PARAMETER && !print_instr(P, order[k])) return false;
  }
  return true;
}

// ---- functions ----------------------------------------------------------------------------------
// tf.aliasing_output of the parameter, as far as it can be said: a whole argument and a result.
static void print_alias(mlir_printer *P, i64 param, bool apart, hs_buf *b) {
  const hlo_attr *alias = hlo_attrs_find(P->m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS),
                 *donor = hlo_attrs_find(P->m->attrs, HLO_ATTR_BUFFER_DONOR);
  const hlo_aliases *a = alias ? alias->v.p : NULL, *d = donor ? donor->v.p : NULL;
  for (u32 k = 0; a && k < a->n; k++) {
    if (a->v[k].param != param || a->v[k].param_index.n || a->v[k].out_index.n != apart) continue;
    print_comma(b);
    hs_buf_printf(b, "tf.aliasing_output = %lld : i32",
                  a->v[k].out_index.n ? (long long)a->v[k].out_index.v[0] : 0);
  }
  for (u32 k = 0; d && k < d->n; k++) {
    if (d->v[k].param != param || d->v[k].param_index.n) continue;
    print_comma(b);
    hs_buf_puts(b, "jax.buffer_donor = true");
  }
}

static bool print_function(mlir_printer *P, const hlo_computation *c) {
  bool entry = c == P->m->entry, apart = c->root->opcode == HLO_TUPLE && c->root->noperands != 1;
  print_indent(P);
  hs_buf_printf(P->b, "func.func %s ", entry ? "public" : "private");
  print_symbol(P->b, P->functions[c->id]);
  hs_buf_putc(P->b, '(');
  bool ok = true;
  for (u32 k = 0; ok && k < c->nparams; k++) {
    const hlo_instr *p = c->params[k];
    hs_buf attrs = {0};
    name_results(P, p, false, 0);
    hs_buf_printf(P->b, "%s%s: ", k ? ", " : "", value_of(P, p)->one);
    ok = print_type(P, p, p->shape) && print_common(P, p, &attrs);
    if (entry) print_alias(P, k, apart, &attrs);
    if (attrs.n) hs_buf_printf(P->b, " {%s}", hs_buf_cstr(&attrs));
    hs_buf_free(&attrs);
    print_location(P, p);
  }
  hs_buf_puts(P->b, ") -> (");
  u32 n = apart ? c->root->noperands : 1;
  for (u32 k = 0; ok && k < n; k++) {
    if (k) hs_buf_puts(P->b, ", ");
    ok = print_type(P, c->root, apart ? c->root->shape->elems[k] : c->root->shape);
  }
  hs_buf_puts(P->b, ") {\n");
  P->depth++;
  ok = ok && print_body(P, c) && print_return(P, "func.return", c->root, apart);
  P->depth--;
  print_indent(P);
  hs_buf_puts(P->b, "}\n");
  return ok;
}

// Who calls a computation decides what it is.
static bool find_functions(mlir_printer *P) {
  P->functions[P->m->entry->id] = "main";
  hlo_for_each_comp(c, P->m) {
    hlo_for_each_instr(i, c) {
      bool called = i->opcode == HLO_CALL || i->opcode == HLO_CUSTOM_CALL;
      for (u32 k = 0; called && k < hlo_ncalled(i); k++) {
        const hlo_computation *f = hlo_called(i, k);
        bool taken = !strcmp(f->name, "main");
        if (!P->functions[f->id])
          P->functions[f->id] = taken ? text(P, "%s.%u", f->name, f->id) : f->name;
      }
    }
  }
  return true;
}

static void print_count(mlir_printer *P, hlo_attr_id id, const char *name, bool *first) {
  const hlo_attr *a = hlo_attrs_find(P->m->attrs, id);
  hs_buf_printf(P->b, "%s%s = %lld : i32", *first ? "" : ", ", name, a ? (long long)a->v.i : 1);
  *first = false;
}

hs_status hlo_mlir_print(const hlo_module *m, hs_buf *b) {
  mlir_printer printer = {.b = b, .m = m}, *P = &printer;
  size_t from = b->n;
  bool first = true;
  P->values = HS_NEW_ARRAY(&P->arena, print_value, m->next_instr_id + 1);
  P->functions = HS_NEW_ARRAY(&P->arena, const char *, m->next_comp_id + 1);
  hs_buf_puts(b, "module ");
  print_symbol(b, m->name);
  hs_buf_puts(b, " attributes {");
  print_count(P, HLO_ATTR_NUM_PARTITIONS, "mhlo.num_partitions", &first);
  print_count(P, HLO_ATTR_REPLICA_COUNT, "mhlo.num_replicas", &first);
  const hlo_attr *frontend = hlo_attrs_find(m->attrs, HLO_ATTR_FRONTEND_ATTRIBUTES);
  print_frontend(frontend ? frontend->v.p : NULL, true, b);
  hs_buf_puts(b, "} {\n");
  P->depth = 1;
  bool ok = find_functions(P) && print_function(P, m->entry);
  hlo_for_each_comp(c, m)
    if (ok && c != m->entry && P->functions[c->id]) ok = print_function(P, c);
  hs_buf_puts(b, "}\n");
  hs_arena_free(&P->arena);
  if (!ok) b->n = from;
  return ok ? HS_GOOD : P->err;
}
