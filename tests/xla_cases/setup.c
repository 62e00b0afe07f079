// setup.c — what a pass test sets before the pass runs: options of its passes, by XLA's names for
// them, and edits of the module (layouts of the entry, control dependencies, aliases).
//
// An option or an edit that the tables here do not have is reported by name, and the case counts as
// not checkable.
#include "passes/passes.h"
#include "tests/xla_cases/internal.h"

// One option of XLA's pass: `value` NULL is any value, "~x" any that x occurs in; a lambda is
// compared by its body. `ours`: NULL when our pass does that anyway, "key" to hand the value on,
// "key=value" for fixed text.
typedef struct xla_option {
  const char *pass, *xla, *value, *ours;
} xla_option;
static const xla_option known_options[] = {
    {"algsimp", "", "return false;", "replace_with_bitcast=false"},
    {"all-reduce-reassociate", "reassociate_converted_ar", "false", NULL},
    {"batchnorm_expander", "rewrite_training_op", NULL, "rewrite_training_op"},
    {"batchnorm_expander", "rewrite_inference_op", NULL, "rewrite_inference_op"},
    {"batchnorm_expander", "rewrite_grad_op", NULL, "rewrite_grad_op"},
    {"call-inliner", "single_call_site", NULL, "single_call_site"},
    {"call-inliner", "update_domain", "false", NULL},
    {"constant_folding", "is_layout_sensitive", NULL, NULL},
    {"constant_folding", "level", "HloConstantFolding::Level::kAggressive", "level=aggressive"},
    {"constant_folding", "level", "HloConstantFolding::Level::kDefault", NULL},
    {"constant_folding", "fold_float_arithmetic", NULL, "fold_float_arithmetic"},
    {"constant_folding", "can_fold_shape", "return shape.dimensions().empty();",
     "scalars_only=true"},
    // XLA refuses what the library cannot do, and takes its rounding of 8-bit results
    {"conv-rewriter", "compute_capability", NULL, "narrow_results=true;reject_types=true"},
    {"conv-rewriter", "dnn_version", NULL, NULL},
    {"copy-insertion", "alias_info", NULL, NULL},
    {"cse", "is_layout_sensitive", NULL, "layout_sensitive"},
    // the fixture of its tests rewrites dots of any size
    {"cublas-gemm-rewriter", "gpu_version", NULL, "size_threshold=0"},
    {"cublas-gemm-rewriter", "toolkit_version", NULL, NULL},
    {"cudnn-fused-convolution-rewriter", "cc", NULL, "narrow_results=true;reject_types=true"},
    {"cudnn-fused-convolution-rewriter", "dnn_version", NULL, NULL},
    {"cudnn-fused-convolution-rewriter", "toolkit_version", NULL, NULL},
    {"cse", "ignore_control_dependencies", NULL, "ignore_control_dependencies"},
    {"flatten-call-graph", "skip_cloning_handler", "FlattenCallGraph::SkipCloningForCalls",
     "skip_cloning_for_calls=true"},
    {"flatten-call-graph", "skip_cloning_handler", "FlattenCallGraph::SkipCloningForNonAsync",
     "skip_cloning_for_non_async=true"},
    {"dce", "use_call_analysis", NULL, "use_call_analysis"},
    {"dce", "remove_cross_partition_collective_ops", NULL, "remove_cross_partition_collective_ops"},
    {"dot-merger", "max_size_to_merge", "std::numeric_limits<int64_t>::max()",
     "max_size_to_merge=9223372036854775807"},
    {"dot-merger", "max_size_to_merge", NULL, "max_size_to_merge"},
    {"dynamic_padder", "op_supports_dynamism_handler", "OpHasDynamismSupport", NULL},
    {"dynamic_padder", "custom_call_handler", "CustomCallDynamicDimensionInference", NULL},
    {"dynamic_padder", "shape_check_mode", "~kCompileTime", "require_equal_sizes=true"},
    {"float-normalization-bf16", "float_support", "&TestFloatSupport(BF16, F32)",
     "operands=add subtract reduce tuple get-tuple-element all-to-all dot:0;results=add subtract "
     "reduce dot tuple get-tuple-element all-to-all;mixed=add tuple get-tuple-element"},
    {"fusion", "is_expensive", "InstructionFusion::IsExpensive", NULL},
    {"fusion", "config_collection_mode", NULL, NULL},
    {"fusion", "alias_info", NULL, NULL},
    {"fusion-wrapper", "target_machine_features", NULL, NULL},
    {"fusion-wrapper", "using_new_fusion_emitter", NULL, "using_new_fusion_emitter"},
    {"fusion-wrapper", "use_tiled_emitter", NULL, "use_tiled_emitter"},
    {"fusion-wrapper", "device_description", NULL, NULL},
    {"gather_expander", "m", "GatherExpander::kEliminateSimpleGathers", "mode=simple"},
    {"gather_expander", "m", "GatherExpander::kEliminateAllGathers", "mode=all"},
    {"hlo-memory-scheduler", "size_function", "return ShapeUtil::ByteSizeOf(buffer.shape());",
     NULL},
    {"hlo-memory-scheduler", "size_function",
     "return ShapeUtil::ByteSizeOf(buffer.shape(), pointer_size=8);", NULL},
    {"hlo-memory-scheduler", "alias_info", NULL, NULL},
    {"hlo-memory-scheduler", "algorithm", "~ListMemoryScheduler", "algorithm=list"},
    {"hlo-memory-scheduler", "algorithm", "~DFSMemoryScheduler", "algorithm=dfs"},
    {"hlo-memory-scheduler", "algorithm", "~PostOrderMemoryScheduler", "algorithm=post_order"},
    {"hlo-memory-scheduler", "algorithm", "~PostOrderScheduler", "algorithm=post_order"},
    {"hlo-memory-scheduler", "algorithm", "~ListScheduler", "algorithm=list"},
    {"hlo-memory-scheduler", "algorithm", "~DFSScheduler", "algorithm=dfs"},
    {"layout-assignment", "channel_constraints", NULL, NULL},
    {"layout-assignment", "entry_computation_layout", NULL, NULL},
    {"layout-assignment", "target_machine_features", NULL, NULL},
    {"computation-deduplicator", "mark_fusion_duplications", NULL, "mark_fusion_duplications"},
    {"reduce-decomposer", "custom_layout_allowed", "return true;", "custom_layout_allowed=true"},
    {"reduce-decomposer", "custom_layout_allowed", "return false;", "custom_layout_allowed=false"},
    {"reduce-window-rewriter", "base_length", NULL, "base_length"},
    {"reshape-mover", "reshape_of_1d_broadcast_is_cheap", NULL, "reshape_of_1d_broadcast_is_cheap"},
    {"scatter_expander", "m", "ScatterExpander::kEliminateSimpleScatters", "mode=simple"},
    {"scatter_expander", "m", "ScatterExpander::kEliminateAllScatters", "mode=all"},
    {"scatter_expander", "m", "ScatterExpander::kEliminateIndeterministicScatters",
     "mode=indeterminate"},
    {"simplify-while-loops", "simplify_compare_instrs", NULL, "simplify_compare_instrs"},
    {"transpose-folding", "dot_can_fold_transpose_operand", "return true;", "fold_batch=true"},
    {"transpose-folding", "dot_can_fold_transpose_operand",
     "TransposeFolding::IsRowColumnTransposeDotOperand", NULL},
    {"transpose-folding", "transposable_conv_operands", "TransposeFolding::AlwaysFoldTranspose",
     NULL},
    {"transpose-folding", "transposable_conv_operands", "TransposeFolding::NeverFoldTranspose",
     "fold_convolutions=false"},
    {"tree_reduction_rewriter", "filter", NULL, "reduce_window_size"},
    {"tuple-simplifier", "exclude_entry_computation", NULL, "exclude_entry_computation"},
    {"while-loop-constant-sinking", "sink_broadcast_of_constants", NULL,
     "sink_broadcast_of_constants"},
    {"while-loop-constant-sinking", "sink_only_scalar_constants", NULL,
     "sink_only_scalar_constants"},
    {"while-loop-invariant-code-motion", "hoist_constants", NULL, "hoist_constants"},
    {"while-loop-invariant-code-motion", "hoist_reshapes", NULL, "hoist_reshapes"},
    {"while-loop-invariant-code-motion", "hoist_other", NULL, "hoist_other"},
    {"while-loop-invariant-code-motion", "hoist_size_inflation_ratio", "std::nullopt", NULL},
    {"while-loop-invariant-code-motion", "shape_size_function", NULL, NULL},
};

static bool same_text(const char *a, const char *b) {  // blanks apart
  for (;; a++, b++) {
    while (isspace((unsigned char)*a)) a++;
    while (isspace((unsigned char)*b)) b++;
    if (*a != *b || !*a) return *a == *b;
  }
}

// Splits text at a separator outside of brackets and quotes; NULL when there is none.
char *xc_split(char *p, const char *sep) {
  for (; *p; p++) {
    if (*p == '"' || strchr("([{", *p)) {
      if (*p == '"') {
        for (p++; *p && *p != '"'; p++)
          if (*p == '\\' && p[1]) p++;
        if (!*p) return NULL;
        continue;
      }
      const char *end = xc_closing(p);
      if (!end) return NULL;
      p += end - p - 1;
      continue;
    }
    if (strncmp(p, sep, strlen(sep)) == 0) {
      *p = '\0';
      return p + strlen(sep);
    }
  }
  return NULL;
}

static char *trim(char *s) {
  while (isspace((unsigned char)*s)) s++;
  for (char *end = s + strlen(s); end > s && isspace((unsigned char)end[-1]);) *--end = '\0';
  return s;
}

// Whether our pass has an option of this name.
static bool own_option(const char *pass, const char *name) {
  const pass_info *p = *name ? pass_find(&pass_builtin, pass) : NULL;
  bool found = false;
  for (u32 k = 0; p && k < p->noptions; k++) found |= strcmp(p->options[k].name, name) == 0;
  return found;
}

// A value as our options have it: numbers without C++'s suffix, strings without quotes, a list of
// strings, {"a", "b"} of whatever type, as words.
static char *plain_text(const char *value) {
  size_t digits = strspn(value, "-.0123456789");
  if (digits && strcmp(value + digits, "f") == 0) return hs_format("%.*s", (int)digits, value);
  const char *list = strchr(value, '{'), *p = list ? list + 1 : *value == '"' ? value : NULL;
  if (!p || (list && !strchr(list, '"') && list[1] != '}')) return hs_strdup(value);
  hs_buf b = {0};
  for (; *p; p++) {
    if (*p != '"') continue;
    const char *end = strchr(p + 1, '"');
    if (!end) break;
    hs_buf_printf(&b, "%s%.*s", b.n ? " " : "", (int)(end - p - 1), p + 1);
    p = end;
  }
  char *text = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return text;
}

// Appends one option to "{a=b;c=d"; false when it has no counterpart here.
static bool option_add(hs_buf *b, const char *pass, char *o) {
  hs_arena a = {0};
  char *eq = NULL;
  for (char *p = o; xc_is_word(*p) || *p == '='; p++)
    if (*p == '=') {
      eq = p;
      break;
    }
  const char *name = eq ? o : "", *value = eq ? eq + 1 : o;
  if (eq) *eq = '\0';
  // f=f=[](...)
  for (size_t again = strlen(name);
       *name && strncmp(value, name, again) == 0 && value[again] == '=';)
    value += again + 1;
  const xc_expr *e = xc_parse(&a, value);
  if (e->kind == E_LAMBDA) value = e->name;
  bool known = false;
  for (size_t k = 0; k < HS_COUNT(known_options) && !known; k++) {
    const xla_option *x = &known_options[k];
    if (strcmp(x->pass, pass) != 0 || strcmp(x->xla, name) != 0 ||
        (x->value &&
         (*x->value == '~' ? !strstr(value, x->value + 1) : !same_text(x->value, value))))
      continue;
    known = true;
    if (x->ours)
      hs_buf_printf(b, strchr(x->ours, '=') ? "%s%s" : "%s%s=%s", b->n ? ";" : "{", x->ours, value);
  }
  if (!known && own_option(pass, name)) {  // ours under XLA's name
    char *text = plain_text(value);
    hs_buf_printf(b, "%s%s=%s", b->n ? ";" : "{", name, text);
    hs_free(text);
    known = true;
  }
  hs_arena_free(&a);
  return known;
}

// call-inliner's override_policy, a function of the call, as the list of computations whose calls
// it lets go; false when it is not understood, or depends on more than what is called.
static bool inline_policy(hs_buf *b, const hlo_module *m, const char *option) {
  xc_env v = {.m = m};
  const char *text = option;
  while (strncmp(text, "override_policy=", 16) == 0) text += 16;
  const xc_expr *e = xc_parse(&v.a, text);
  bool known = text > option && e->kind == E_LAMBDA;
  hs_buf names = {0};
  if (known)
    hlo_for_each_comp(c, m) {
      int allowed = -1;  // for the calls of c
      hlo_for_each_comp(from, m)
        hlo_for_each_instr(i, from) {
          if (i->opcode != HLO_CALL || hlo_attr_comp(i, HLO_ATTR_TO_APPLY) != c) continue;
          xc_value x = xc_call_lambda(&v, e, xc_instr(i));
          known &= x.kind == V_NUMBER && (allowed < 0 || allowed == (int)x.number);
          allowed = (int)x.number;
        }
      if (allowed == 1) hs_buf_printf(&names, "%s%s", names.n ? " " : "", c->name);
    }
  if (known)
    hs_buf_printf(b, "%sonly=%s", b->n ? ";" : "{", names.n ? hs_buf_cstr(&names) : "(none)");
  hs_buf_free(&names);
  hs_arena_free(&v.a);
  return known;
}

// What a test suite's own helper runs a pass with, where the index names the helper of the suite
// that it derives from.
static const char *by_suite(const char *pass, const char *test, const char *option) {
  static const struct {
    const char *pass, *suite, *option, *ours;
  } suites[] = {
      {"float-normalization-bf16", "FloatNormalizationNoComputeSupportTest.", "float_support=",
       "operands=tuple get-tuple-element all-to-all all-reduce reduce-scatter;results=tuple "
       "get-tuple-element all-to-all all-reduce reduce-scatter;"
       "mixed=tuple get-tuple-element call conditional custom-call while opt-barrier"},
  };
  for (size_t k = 0; k < HS_COUNT(suites); k++)
    if (strcmp(suites[k].pass, pass) == 0 &&
        strncmp(test, suites[k].suite, strlen(suites[k].suite)) == 0 &&
        strncmp(option, suites[k].option, strlen(suites[k].option)) == 0)
      return suites[k].ours;
  return NULL;
}

// A setter that is called again counts for nothing: whether the rest of the list, still with its
// separators, sets the same option.
static bool set_again(const char *option, const char *rest) {
  size_t n = strcspn(option, "=");
  for (const char *p = rest; p && option[n]; p = strchr(p, ';'), p += p != NULL) {
    p += strspn(p, " ");
    if (strncmp(p, option, n + 1) == 0) return true;
  }
  return false;
}

// The text of one pass for the pipeline language, from XLA's options and the name of the test,
// "Suite.Case"; false, with the option in `why`, when one is unknown.
bool xc_pass_text(hs_buf *out, const hlo_module *m, const char *pass, const char *classname,
                  const char *test, const char *options, const char *config, hs_buf *why) {
  hs_buf b = {0};
  bool fix = false, known = true;
  char *copy = hs_strdup(options);
  for (char *o = copy, *next; o; o = next) {
    next = xc_split(o, ";");
    o = trim(o);
    if (!*o || set_again(o, next)) continue;
    if (strcmp(o, "fixpoint") == 0) {
      fix = true;
      continue;
    }
    const char *own = by_suite(pass, test, o);
    if (own) {
      hs_buf_printf(&b, "%s%s", b.n ? ";" : "{", own);
      continue;
    }
    if (strcmp(pass, "call-inliner") == 0 && strncmp(o, "override_policy=", 16) == 0 &&
        inline_policy(&b, m, o))
      continue;
    char *whole = hs_strdup(o);
    if (!option_add(&b, pass, o)) {
      if (known) hs_buf_printf(why, "option %.120s", whole);
      known = false;
    }
    hs_free(whole);
  }
  // The class of the test decides between passes of one name.
  static const struct {
    const char *classname, *ours;
  } classes[] = {{"InstructionFusion", "mode=greedy"},
                 {"CpuInstructionFusion", "mode=greedy_cpu"},
                 {"CpuLayoutAssignment", "cpu=true;reject_bitcasts=true"},
                 {"LayoutAssignment", "cpu=false;reject_bitcasts=true"}};
  for (size_t k = 0; k < HS_COUNT(classes); k++)
    if (strcmp(classes[k].classname, classname) == 0)
      hs_buf_printf(&b, "%s%s", b.n ? ";" : "{", classes[k].ours);
  // Module configuration that a pass looks at.
  static const struct {
    const char *pass, *config, *ours;
  } configs[] = {{"call-inliner", "use_shardy_partitioner=true", "use_shardy_partitioner=true"},
                 {"cudnn-fused-convolution-rewriter", "set_xla_gpu_use_runtime_fusion(true",
                  "runtime_fusion=true"}};
  for (size_t k = 0; k < HS_COUNT(configs); k++)
    if (strcmp(configs[k].pass, pass) == 0 && strstr(config, configs[k].config))
      hs_buf_printf(&b, "%s%s", b.n ? ";" : "{", configs[k].ours);
  if (b.n) hs_buf_putc(&b, '}');
  hs_buf_printf(out, fix ? "fix(%s%s)" : "%s%s", pass, hs_buf_cstr(&b));
  hs_buf_free(&b);
  hs_free(copy);
  return known;
}

// ---- edits --------------------------------------------------------------------------------------
static void set_program(hlo_module *m, hlo_program_shape s) {
  hlo_program_shape *p = HS_NEW(&m->arena, hlo_program_shape);
  *p = s;
  p->params = hs_arena_dup(&m->arena, s.params, s.n * sizeof *s.params);
  hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_ENTRY_COMPUTATION_LAYOUT, .v.p = p});
}

// The entry's program shape with row-major layouts, as ComputationLayout(shape) makes it.
static void default_layouts(xc_env *v, hlo_module *m) {
  hlo_program_shape s = xc_program(v, m);
  const hlo_shape **p = HS_NEW_ARRAY(&m->arena, const hlo_shape *, s.n + 1);
  for (u32 k = 0; k < s.n; k++) p[k] = hlo_shape_with_default_layout(m->ctx, s.params[k]);
  set_program(m, (hlo_program_shape){s.n, p, hlo_shape_with_default_layout(m->ctx, s.result)});
}

static const hlo_shape *put_subshape(hlo_ctx *ctx, hs_arena *a, const hlo_shape *s,
                                     const xc_value *at, u32 n, const hlo_shape *put) {
  if (!n) return put;
  u32 k = (u32)at->number;
  if (!hlo_shape_is_tuple(s) || k >= s->nelems) return NULL;
  const hlo_shape **e = HS_NEW_ARRAY(a, const hlo_shape *, s->nelems),
                  *inner = put_subshape(ctx, a, s->elems[k], at + 1, n - 1, put);
  memcpy(e, s->elems, s->nelems * sizeof *e);
  e[k] = inner;
  return inner ? hlo_shape_tuple(ctx, s->nelems, e) : NULL;
}

// *TARGET = VALUE
static bool assign(xc_env *v, hlo_module *m, const xc_expr *to, xc_value x) {
  if (to->kind != E_CALL) return false;
  if (to->on && strcmp(to->name, "mutable_layout") == 0 && to->on->kind == E_CALL &&
      strcmp(to->on->name, "Shape") == 0 && to->on->n == 1) {
    xc_value s = xc_eval(v, to->on->args[0]);
    if (s.kind != V_SHAPE || x.kind != V_LAYOUT || v->nshapes == HS_COUNT(v->shapes)) return false;
    const hlo_shape *key = ((const hlo_shape *)s.p)->logical;
    for (u32 k = 0; k < v->nshapes; k++)
      // two variables of one shape: which is meant is lost
      if (v->shapes[k].shape == key && v->shapes[k].layout != x.p) return false;
    v->shapes[v->nshapes].shape = key, v->shapes[v->nshapes++].layout = x.p;
    return true;
  }
  if (to->on && strcmp(to->name, "mutable_layout") == 0 && to->on->on &&
      strcmp(to->on->name, "mutable_shape") == 0 && x.kind == V_LAYOUT) {
    xc_value i = xc_eval(v, to->on->on);
    return i.kind == V_INSTR && hlo_shape_is_array(i.i->shape) &&
           (hlo_set_shape(i.i, hlo_shape_with_layout(m->ctx, i.i->shape, x.p)), true);
  }
  if (x.kind != V_SHAPE) return false;
  // *x->mutable_shape()->mutable_tuple_shapes(1) = s
  bool tuple = to->on && strcmp(to->name, "mutable_tuple_shapes") == 0 && to->n == 1;
  const xc_expr *whole = tuple ? to->on : to;
  if (whole->on && strcmp(whole->name, "mutable_shape") == 0) {
    xc_value i = xc_eval(v, whole->on), at = xc_number((double)(tuple ? xc_arg(v, to, 0, -1) : 0));
    const hlo_shape *s = i.kind == V_INSTR && at.number >= 0
                             ? put_subshape(m->ctx, &v->a, i.i->shape, &at, tuple, x.p)
                             : NULL;
    return s && (hlo_set_shape(i.i, s), true);
  }
  if (to->on && (strcmp(to->name, "mutable_parameter_layout") == 0 ||
                 strcmp(to->name, "mutable_result_layout") == 0)) {
    hlo_program_shape s = xc_program(v, m);
    const hlo_shape **p = HS_NEW_ARRAY(&v->a, const hlo_shape *, s.n + 1);
    memcpy(p, s.params, s.n * sizeof *p);
    s.params = p;
    if (strcmp(to->name, "mutable_result_layout") == 0) {
      if (s.result->logical != ((const hlo_shape *)x.p)->logical) return false;
      s.result = x.p;
    } else {
      i64 k = xc_arg(v, to, 0, -1);
      if (k < 0 || k >= (i64)s.n || p[k]->logical != ((const hlo_shape *)x.p)->logical)
        return false;
      p[k] = x.p;
    }
    return set_program(m, s), true;
  }
  if (!to->on && strcmp(to->name, "ShapeUtil::GetMutableSubshape") == 0 && to->n == 2 &&
      to->args[0]->on && strcmp(to->args[0]->name, "shape") == 0) {
    xc_value i = xc_eval(v, to->args[0]->on), at = xc_eval(v, to->args[1]);
    if (i.kind != V_INSTR || at.kind != V_LIST) return false;
    const hlo_shape *s = put_subshape(m->ctx, &v->a, i.i->shape, at.v, at.n, x.p);
    if (!s) return false;
    hlo_set_shape(i.i, s);
    // ComputeProgramShape() of the edited root has its layouts
    hlo_program_shape program = xc_program(v, m);
    if (i.i == m->entry->root) program.result = s, set_program(m, program);
    return true;
  }
  return false;
}

static hlo_ints index_of(xc_env *v, hlo_module *m, const xc_expr *e) {
  xc_value l = xc_eval(v, e);
  i64 *x = HS_NEW_ARRAY(&m->arena, i64, l.n + 1);
  for (u32 k = 0; k < l.n; k++) x[k] = (i64)l.v[k].number;
  return (hlo_ints){l.n, x};
}

// TARGET->Method(...)
static bool call(xc_env *v, hlo_module *m, const xc_expr *e) {
  if (e->kind != E_CALL || !e->on) return false;
  xc_value self = xc_eval(v, e->on), x = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  if (strcmp(e->name, "SetToDefaultLayout") == 0 && self.kind == V_MODULE)
    return default_layouts(v, m), true;
  if (strcmp(e->name, "AddControlDependencyTo") == 0 && self.kind == V_INSTR && x.kind == V_INSTR) {
    const hlo_instr_list *have = x.i->ctrl_preds;
    u32 n = have ? have->n : 0;
    hlo_instr **p = HS_NEW_ARRAY(&v->a, hlo_instr *, n + 1);
    for (u32 k = 0; k < n; k++) p[k] = have->v[k];
    p[n] = self.i;
    return hlo_set_ctrl_preds(x.i, n + 1, p), true;
  }
  if (strcmp(e->name, "ReplaceOperandWith") == 0 && self.kind == V_INSTR && e->n == 2 &&
      x.kind == V_NUMBER) {
    xc_value by = xc_eval(v, e->args[1]);
    return by.kind == V_INSTR && x.number >= 0 && x.number < self.i->noperands &&
           (hlo_set_operand(self.i, (u32)x.number, by.i), true);
  }
  static const struct {
    const char *setter;
    size_t at;
  } dims[] = {{"set_window_dilation", offsetof(hlo_window_dim, rhs_dilate)},
              {"set_base_dilation", offsetof(hlo_window_dim, lhs_dilate)},
              {"set_size", offsetof(hlo_window_dim, size)},
              {"set_stride", offsetof(hlo_window_dim, stride)},
              {"set_padding_low", offsetof(hlo_window_dim, pad_low)},
              {"set_padding_high", offsetof(hlo_window_dim, pad_high)}};
  // the module is this case's own
  for (size_t k = 0; k < HS_COUNT(dims) && self.kind == V_WINDOW_DIM && x.kind == V_NUMBER; k++)
    if (strcmp(dims[k].setter, e->name) == 0)
      return *(i64 *)(void *)((char *)(uintptr_t)self.p + dims[k].at) = (i64)x.number, true;
  if (strcmp(e->name, "set_window") == 0 && self.kind == V_INSTR && e->args[0]->on &&
      strcmp(e->args[0]->name, "window") == 0)
    return xc_eval(v, e->args[0]->on).i == self.i;
  // what was set is in `config`
  if (strcmp(e->name, "set_config") == 0 && e->n == 1 && e->args[0]->on &&
      strcmp(e->args[0]->name, "config") == 0)
    return true;
  if (strcmp(e->name, "ReplaceAllUsesWith") == 0 && self.kind == V_INSTR && x.kind == V_INSTR)
    return hlo_replace_uses(self.i, x.i), true;
  if (strcmp(e->name, "set_op_name") == 0 && self.kind == V_META && x.kind == V_STRING) {
    const hlo_metadata *old = hlo_metadata_of(self.i);
    hlo_metadata *d = HS_NEW(&m->arena, hlo_metadata);
    if (old) *d = *old;
    d->op_name = hs_str_of(hs_arena_strndup(&m->arena, x.s, strlen(x.s)));
    return hlo_set_attr_ptr(self.i, HLO_ATTR_METADATA, d), true;
  }
  // often of the instruction itself
  if (strcmp(e->name, "set_metadata") == 0 && self.kind == V_INSTR && x.kind == V_META) {
    const hlo_metadata *d = hlo_metadata_of(x.i);
    return hlo_set_attr_ptr(self.i, HLO_ATTR_METADATA, (void *)(uintptr_t)d), true;
  }
  if (strcmp(e->name, "set_metadata") == 0 && self.kind == V_INSTR && e->n == 1 &&
      strcmp(e->args[0]->name ? e->args[0]->name : "", "opts") == 0) {
    hlo_metadata *d = HS_NEW(&m->arena, hlo_metadata);
    for (u32 k = 1; k < e->args[0]->n; k++) {
      const xc_expr *f = e->args[0]->args[k];
      if (!f->key || strcmp(f->key, "op_name") != 0 || f->kind != E_STRING) return false;
      d->op_name = hs_str_of(hs_arena_strndup(&m->arena, f->name, strlen(f->name)));
    }
    return hlo_set_attr_ptr(self.i, HLO_ATTR_METADATA, d), true;
  }
  if (strcmp(e->name, "SetUpAlias") == 0 && self.kind == V_MODULE && e->n == 3) {
    const hlo_attr *a = hlo_attrs_find(m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
    const hlo_aliases *have = a ? a->v.p : NULL;
    u32 n = have ? have->n : 0;
    hlo_alias_entry *l = HS_NEW_ARRAY(&m->arena, hlo_alias_entry, n + 1);
    if (n) memcpy(l, have->v, n * sizeof *l);
    hlo_ints out = index_of(v, m, e->args[0]), in = index_of(v, m, e->args[2]);
    l[n] = (hlo_alias_entry){out, xc_arg(v, e, 1, 0), in, false};
    hlo_aliases *now = HS_NEW(&m->arena, hlo_aliases);
    *now = (hlo_aliases){n + 1, l};
    return hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_INPUT_OUTPUT_ALIAS, .v.p = now}), true;
  }
  return false;
}

void xc_set_default_layouts(hlo_module *m) {
  xc_env v = {.m = m};
  default_layouts(&v, m);
  hs_arena_free(&v.a);
}

// Applies a case's edits, statement by statement; false, with the statement in `why`, at the first
// that is not data.
bool xc_apply_edits(hlo_module *m, const char *edits, hs_buf *why) {
  xc_env v = {.m = m};
  char *copy = hs_strdup(edits);
  bool known = true;
  for (char *p = copy, *next; p && known; p = next) {
    next = xc_split(p, " ; ");
    char *whole = hs_strdup(p), *to = trim(p), *eq = *to == '*' ? xc_split(to, " = ") : NULL;
    known = eq ? assign(&v, m, xc_parse(&v.a, to), xc_eval(&v, xc_parse(&v.a, eq)))
               : call(&v, m, xc_parse(&v.a, to));
    if (!known) hs_buf_printf(why, "edit %.160s", whole);
    hs_free(whole);
  }
  hs_free(copy);
  hs_arena_free(&v.a);
  return known;
}
