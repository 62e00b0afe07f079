// shapes.c — shape inference against XLA's shape_inference_test, given as a table of calls.
//
//   shapes TABLE.tsv     columns: test, call, expect (shape|error), value
//
// A call is C++ with shapes written as in HLO, e.g. InferReduceShape({&f32[8,4], &f32[]}, {1},
// ShapeUtil::MakeProgramShape( {f32[], f32[]}, f32[])). Each function name maps to an opcode and a
// way to read its arguments. Calls that refer to objects which the table does not spell out
// (windows, dot dimensions of ragged dots, fixture helpers) are not checkable. Last line: "shapes:
// P/T, C not checkable".
#include "core/infer/infer.h"
#include "core/infer/build.h"
#include "core/text/text.h"
#include "tests/harness/driver.h"

#include <stdlib.h>

#include <ctype.h>

enum { MAX_ARGS = 16 };
typedef struct call {
  hlo_ctx *ctx;
  hlo_module *m;
  char *args[MAX_ARGS];   // name= and & stripped
  char *names[MAX_ARGS];  // the name before '=', or NULL
  int n;
  hlo_opcode op;
  const hlo_shape *in[64];
  u32 nin;
  const hlo_attrs *attrs;
  const hlo_shape *stated;
  bool unknown;  // something the table does not spell out
} call;

static char *trim(char *s) {
  while (isspace((unsigned char)*s)) s++;
  size_t n = strlen(s);
  while (n && isspace((unsigned char)s[n - 1])) s[--n] = 0;
  return s;
}
// Splits at `sep` outside of brackets; works in place.
static int split(char *s, char sep, char **out, int cap) {
  int n = 0, depth = 0;
  char *start = s;
  for (;; s++) {
    if (strchr("([{", *s) && *s) depth++;
    if (strchr(")]}", *s) && *s) depth--;
    if (*s == 0 || (*s == sep && depth == 0)) {
      bool end = *s == 0;
      *s = 0;
      start = trim(start);
      if (n < cap && (*start || n || !end)) out[n++] = start;
      start = s + 1;
      if (end) return n;
    }
  }
}
static bool starts(const char *s, const char *prefix) {
  return strncmp(s, prefix, strlen(prefix)) == 0;
}

// "{1, 2}" or "{&a, &b}" -> items.
static int list_items(const char *text, char **items, int cap, char **storage) {
  while (*text == '&' || isspace((unsigned char)*text)) text++;
  const char *brace = strchr(text, '{');
  *storage = NULL;
  if (!brace || (*text != '{' && !starts(text, "std::vector") && !starts(text, "s64_tensor(")))
    return -1;
  *storage = hs_strdup(brace + 1);
  char *end = strrchr(*storage, '}');
  if (!end) return -1;
  *end = 0;
  return split(*storage, ',', items, cap);
}
static i64 int_of(call *c, const char *s) {
  if (starts(s, "Shape::kUnboundedSize")) return HLO_UNBOUNDED;
  char *end;
  long long v = strtoll(s, &end, 10);
  if (end == s || *end) c->unknown = true;
  return v;
}
static u32 ints_of(call *c, const char *text, i64 *out, u32 cap) {
  char *items[64], *storage;
  int n = list_items(text, items, 64, &storage);
  if (n < 0) c->unknown = true;
  u32 k = 0;
  for (; (int)k < n && k < cap; k++) out[k] = int_of(c, items[k]);
  hs_free(storage);
  return k;
}

// ---- shapes -------------------------------------------------------------------------------------
static const hlo_shape *dims_shape(call *c, hlo_dtype t, const char *list) {
  i64 dims[64];
  u32 n = ints_of(c, list, dims, 64);
  return hlo_shape_array(c->ctx, t, n, dims);
}
// Names like s64_4d_tensor_10_9_8_7_5_ or s32matrix_64_64_: a type, then sizes.
static const hlo_shape *named_shape(call *c, const char *s) {
  static const char *const words[] = {"vector_", "matrix_", "tensor_"};
  for (size_t w = 0; w < HS_COUNT(words); w++) {
    const char *at = strstr(s, words[w]);
    if (!at) continue;
    size_t len = 0;
    while (isalnum((unsigned char)s[len])) len++;
    while (len && hlo_dtype_find((hs_str){s, len}) == HLO_DT_INVALID) len--;
    i64 dims[16];
    u32 n = 0;
    for (const char *p = at + strlen(words[w]); isdigit((unsigned char)*p) && n < 16;) {
      dims[n++] = strtoll(p, (char **)&p, 10);
      if (*p == '_') p++;
    }
    if (len && n) return hlo_shape_array(c->ctx, hlo_dtype_find((hs_str){s, len}), n, dims);
  }
  return NULL;
}
static const hlo_shape *shape_of(call *c, const char *s) {
  while (*s == '&' || isspace((unsigned char)*s)) s++;
  const hlo_shape *r = NULL;
  if (starts(s, "s64_tensor(")) return dims_shape(c, HLO_S64, s);
  if (starts(s, "s64_vector(")) return hlo_shape_array(c->ctx, HLO_S64, 1, (i64[]){atoll(s + 11)});
  if (starts(s, "scalar(S64)")) return hlo_shape_scalar(c->ctx, HLO_S64);
  if (starts(s, "operand_shape_")) return hlo_shape_array(c->ctx, HLO_F32, 2, (i64[]){8, 16});
  if (starts(s, "Collate(")) return dims_shape(c, HLO_F32, strchr(s, '{'));
  const char *text = starts(s, "tuple_shape_") ? "(f32[4],s64[4])" : s;
  hs_status st = hlo_parse_shape(c->ctx, text, strlen(text), &r);
  if (hs_ok(st)) return r->logical;
  hs_status_drop(st);
  r = named_shape(c, s);
  if (!r) c->unknown = true;
  return r ? r : hlo_shape_scalar(c->ctx, HLO_F32);
}
static hlo_dtype type_of(call *c, const char *s) {
  if (starts(s, "PrimitiveType::")) s += 15;
  char low[16];
  size_t n = 0;
  for (; s[n] && n < 15; n++) low[n] = (char)tolower((unsigned char)s[n]);
  hlo_dtype t = hlo_dtype_find((hs_str){low, n});
  if (t == HLO_DT_INVALID) c->unknown = true;
  return t;
}

// ---- attributes ---------------------------------------------------------------------------------
static void put(call *c, hlo_attr a) { c->attrs = hlo_attrs_with(&c->m->arena, c->attrs, &a); }
static void put_int(call *c, hlo_attr_id id, i64 v) { put(c, (hlo_attr){id, {.i = v}}); }
static void put_ints(call *c, hlo_attr_id id, const char *list) {
  i64 v[64];
  u32 n = ints_of(c, list, v, 64);
  put(c, (hlo_attr){id, {.ints = {n, hs_arena_dup(&c->m->arena, v, n * sizeof *v)}}});
}
static void put_dim(call *c, const char *text) {
  i64 d = int_of(c, text);
  put(c, (hlo_attr){HLO_ATTR_DIMENSIONS, {.ints = {1, hs_arena_dup(&c->m->arena, &d, sizeof d)}}});
}
static void put_comp(call *c, hlo_attr_id id, hlo_computation *comp) {
  put(c, (hlo_attr){id, {.comp = comp}});
}

// "ShapeUtil::MakeProgramShape({params}, result)", "to_apply(types())" -> a computation of that
// signature.
static hlo_computation *program_of(call *c, const char *s) {
  hlo_computation *r = hlo_add_computation(c->m, "program");
  const hlo_shape *result = hlo_shape_scalar(c->ctx, HLO_F32);
  if (starts(s, "to_apply(types())")) {
    hlo_add_parameter(r, 0, result, "x");
    hlo_add_parameter(r, 1, result, "y");
  } else if (starts(s, "ShapeUtil::MakeProgramShape(")) {
    char *copy = hs_strdup(s + strlen("ShapeUtil::MakeProgramShape(")), *parts[2], *items[32],
         *storage;
    *strrchr(copy, ')') = 0;
    if (split(copy, ',', parts, 2) == 2) {
      int n = list_items(parts[0], items, 32, &storage);
      for (int k = 0; k < n; k++) hlo_add_parameter(r, k, shape_of(c, items[k]), NULL);
      hs_free(storage);
      result = shape_of(c, parts[1]);
    } else {
      c->unknown = true;
    }
    hs_free(copy);
  } else {
    c->unknown = true;
  }
  hlo_set_root(r, hlo_add(r, HLO_CUSTOM_CALL, result, 0, NULL, "result"));
  return r;
}
static void operands(call *c, const char *list) {
  char *items[64], *storage;
  int n = list_items(list, items, 64, &storage);
  if (n < 0) c->unknown = true;
  for (int k = 0; k < n; k++) c->in[c->nin++] = shape_of(c, items[k]);
  hs_free(storage);
}
static void operand(call *c, int k) { c->in[c->nin++] = shape_of(c, c->args[k]); }

// "Name(field=value; field=value)" of a protocol message, repeated fields as lists.
static void message_ints(call *c, const char *text, const char *field, hlo_attr_id id) {
  i64 v[32];
  u32 n = 0;
  size_t len = strlen(field);
  for (const char *p = text; (p = strstr(p, field)); p += len)
    if (p[len] == '=' && n < 32) v[n++] = strtoll(p + len + 1, NULL, 10);
  if (n) put(c, (hlo_attr){id, {.ints = {n, hs_arena_dup(&c->m->arena, v, n * sizeof *v)}}});
}
static void named_list(call *c, const char *text, const char *field, hlo_attr_id id) {
  const char *p = strstr(text, field);
  while (p && p > text && (isalnum((unsigned char)p[-1]) || p[-1] == '_')) p = strstr(p + 1, field);
  if (!p || p[strlen(field)] != '=') return;
  char *copy = hs_strdup(p + strlen(field) + 1);
  if (strchr(copy, '}')) strchr(copy, '}')[1] = 0;
  put_ints(c, id, copy);
  hs_free(copy);
}

// ---- one reader per group of functions ----------------------------------------------------------
static hlo_opcode opcode_of(call *c, const char *s) {  // HloOpcode::kAtan2 -> atan2
  static const struct {
    const char *k;
    hlo_opcode op;
  } special[] = {{"kSelect", HLO_SELECT},   {"kClamp", HLO_CLAMP}, {"kAtan2", HLO_ATAN2},
                 {"kComplex", HLO_COMPLEX}, {"kAdd", HLO_ADD},     {"kPower", HLO_POWER},
                 {"kCompare", HLO_COMPARE}, {"kCbrt", HLO_CBRT},   {"kSort", HLO_SORT},
                 {"kTuple", HLO_TUPLE}};
  for (size_t k = 0; k < HS_COUNT(special); k++)
    if (strcmp(s + strlen("HloOpcode::"), special[k].k) == 0) return special[k].op;
  c->unknown = true;
  return HLO_ADD;
}
static void read_op(call *c) {
  c->op = opcode_of(c, c->args[0]);
  for (int k = 1; k < c->n; k++) {
    if (c->args[k][0] != '{' && !starts(c->args[k], "std::vector")) operand(c, k);
    else if (hlo_ops[c->op].arity == 2) put_ints(c, HLO_ATTR_DIMENSIONS, c->args[k]);
    else operands(c, c->args[k]);
  }
  if (c->op == HLO_SORT) put_dim(c, "0");
}
static void read_dims(call *c) { operand(c, 0), put_ints(c, HLO_ATTR_DIMENSIONS, c->args[1]); }
static void read_broadcast(call *c) {
  operand(c, 0);
  if (c->n == 3) c->stated = shape_of(c, c->args[1]), put_ints(c, HLO_ATTR_DIMENSIONS, c->args[2]);
  else put_ints(c, HLO_ATTR_DIMENSIONS, c->args[1]);
}
static void read_dot(call *c) {
  operand(c, 0), operand(c, 1);
  int k = 2;
  if (c->op == HLO_RAGGED_DOT) {
    operand(c, k++);
    message_ints(c, c->args[k], "add_lhs_ragged_dimensions", HLO_ATTR_LHS_RAGGED_DIMS);
    message_ints(c, c->args[k], "add_rhs_group_dimensions", HLO_ATTR_RHS_GROUP_DIMS);
    if (!strstr(c->args[k], "contracting")) c->unknown = true;
  }
  message_ints(c, c->args[k], "add_lhs_contracting_dimensions", HLO_ATTR_LHS_CONTRACTING_DIMS);
  message_ints(c, c->args[k], "add_rhs_contracting_dimensions", HLO_ATTR_RHS_CONTRACTING_DIMS);
  message_ints(c, c->args[k], "add_lhs_batch_dimensions", HLO_ATTR_LHS_BATCH_DIMS);
  message_ints(c, c->args[k], "add_rhs_batch_dimensions", HLO_ATTR_RHS_BATCH_DIMS);
  const char *t = c->n > k + 1 ? c->args[k + 1] : "std::nullopt";
  if (!starts(t, "std::nullopt")) c->stated = hlo_shape_scalar(c->ctx, type_of(c, t));
}
static void read_slice(call *c) {
  i64 v[3][64];
  u32 n = 0;
  operand(c, 0);
  for (int k = 0; k < 3; k++) n = ints_of(c, c->args[k + 1], v[k], 64);
  hlo_slices *s = HS_NEW(&c->m->arena, hlo_slices);
  hlo_slice_dim *d = HS_NEW_ARRAY(&c->m->arena, hlo_slice_dim, n);
  for (u32 i = 0; i < n; i++) d[i] = (hlo_slice_dim){v[0][i], v[1][i], v[2][i]};
  *s = (hlo_slices){n, d};
  put(c, (hlo_attr){HLO_ATTR_SLICE, {.p = s}});
}
static void read_gather(call *c) {
  operand(c, 0), operand(c, 1);
  static const struct {
    const char *field;
    hlo_attr_id id;
  } lists[] = {{"offset_dims", HLO_ATTR_OFFSET_DIMS},
               {"collapsed_slice_dims", HLO_ATTR_COLLAPSED_SLICE_DIMS},
               {"start_index_map", HLO_ATTR_START_INDEX_MAP},
               {"operand_batching_dims", HLO_ATTR_OPERAND_BATCHING_DIMS},
               {"start_indices_batching_dims", HLO_ATTR_START_INDICES_BATCHING_DIMS}};
  for (size_t k = 0; k < HS_COUNT(lists); k++)
    named_list(c, c->args[2], lists[k].field, lists[k].id);
  const char *ivd = strstr(c->args[2], "index_vector_dim=");
  put_int(c, HLO_ATTR_INDEX_VECTOR_DIM, ivd ? atoll(ivd + 17) : -1);
  put_ints(c, HLO_ATTR_SLICE_SIZES, c->args[3]);
}
static void read_scatter(call *c) {
  const char *ops = c->args[0];
  if (starts(ops, "CreateShapes(")) {
    char *copy = hs_strdup(ops + 13), *parts[4];
    *strrchr(copy, ')') = 0;
    if (split(copy, ',', parts, 4) == 4) {
      c->in[0] = dims_shape(c, HLO_F32, parts[0]);
      c->in[1] = shape_of(c, parts[1]);
      c->in[2] = dims_shape(c, HLO_F32, parts[2]);
      c->nin = 3;
    } else {
      c->unknown = true;
    }
    hs_free(copy);
  } else {
    operands(c, ops);
  }
  put_comp(c, HLO_ATTR_TO_APPLY, program_of(c, c->args[1]));
  static const struct {
    const char *field;
    hlo_attr_id id;
  } lists[] = {{"update_window_dims", HLO_ATTR_UPDATE_WINDOW_DIMS},
               {"inserted_window_dims", HLO_ATTR_INSERTED_WINDOW_DIMS},
               {"scatter_dims_to_operand_dims", HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS},
               {"input_batching_dims", HLO_ATTR_INPUT_BATCHING_DIMS},
               {"scatter_indices_batching_dims", HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS}};
  for (size_t k = 0; k < HS_COUNT(lists); k++)
    named_list(c, c->args[2], lists[k].field, lists[k].id);
  const char *ivd = strstr(c->args[2], "index_vector_dim=");
  put_int(c, HLO_ATTR_INDEX_VECTOR_DIM, ivd ? atoll(ivd + 17) : -1);
}
static void read_map(call *c) {
  operands(c, c->args[0]), put_comp(c, HLO_ATTR_TO_APPLY, program_of(c, c->args[1])),
      put_ints(c, HLO_ATTR_DIMENSIONS, c->args[2]);
}
static void read_reduce(call *c) {
  operands(c, c->args[0]), put_ints(c, HLO_ATTR_DIMENSIONS, c->args[1]),
      put_comp(c, HLO_ATTR_TO_APPLY, program_of(c, c->args[2]));
}
static void read_call(call *c) {
  operands(c, c->args[0]), put_comp(c, HLO_ATTR_TO_APPLY, program_of(c, c->args[1]));
}
static void read_while(call *c) {
  put_comp(c, HLO_ATTR_CONDITION, program_of(c, c->args[0])),
      put_comp(c, HLO_ATTR_BODY, program_of(c, c->args[1])), operand(c, 2);
}
static void read_conditional(call *c) {
  operand(c, 0);
  char *items[16], *storage;
  int n = list_items(c->args[1], items, 16, &storage);
  hlo_computation **v = HS_NEW_ARRAY(&c->m->arena, hlo_computation *, 16);
  for (int k = 0; k < n; k++) v[k] = program_of(c, items[k]);
  hs_free(storage);
  put(c, (hlo_attr){HLO_ATTR_BRANCH_COMPUTATIONS, {.comps = {(u32)HS_MAX(n, 0), v}}});
  operands(c, c->args[2]);
}
static void read_reshape(call *c) {
  operand(c, 0), c->stated = dims_shape(c, c->in[0]->dtype, c->args[1]);
}
static void read_gte(call *c) { operand(c, 0), put_int(c, HLO_ATTR_INDEX, int_of(c, c->args[1])); }
static void read_concat(call *c) { operands(c, c->args[0]), put_dim(c, c->args[1]); }
static void read_fft(call *c) {
  operand(c, 0);
  const char *t = strrchr(c->args[1], ':');
  i64 type = hlo_enum_find(HLO_AK_ENUM_FFT_TYPE, hs_str_of(t ? t + 1 : c->args[1]), false);
  if (type < 0) c->unknown = true;
  put_int(c, HLO_ATTR_FFT_TYPE, type), put_ints(c, HLO_ATTR_FFT_LENGTH, c->args[2]);
}
static void read_triangular(call *c) {
  operand(c, 0);
  operand(c, 1);
  put_int(c, HLO_ATTR_LEFT_SIDE, strstr(c->args[2], "left_side=true") != NULL);
}
static void read_topk(call *c) { operand(c, 0), put_int(c, HLO_ATTR_K, int_of(c, c->args[1])); }
static void read_convert(call *c) {
  operand(c, 0);
  if (c->op == HLO_STOCHASTIC_CONVERT) operand(c, 1);
  c->stated = hlo_shape_scalar(c->ctx, type_of(c, c->args[c->n - 1]));
}
static void read_dus(call *c) { operand(c, 0), operand(c, 1), operands(c, c->args[2]); }
static void read_batch_norm_grad(call *c) {
  for (int k = 0; k < 5; k++) operand(c, k);
  put_int(c, HLO_ATTR_FEATURE_INDEX, int_of(c, c->args[5]));
}
static void read_all_to_all(call *c) { operand(c, 0), put_dim(c, c->args[1]); }
static void read_list(call *c) {
  operands(c, c->args[0]);
  for (int k = 1; k < c->n; k++)
    if (c->names[k] && strcmp(c->names[k], "has_dynamic_root") == 0)
      put_int(c, HLO_ATTR_HAS_DYNAMIC_ROOT, strcmp(c->args[k], "true") == 0);
}
// The test's fixture: f32[8,16] under windows of 2x2 with stride 2, unless a shape is spelled out
// in the call.
static void read_select_and_scatter(call *c) {
  if (!starts(c->args[0], "operand_shape_")) {
    c->unknown = true;
    return;
  }
  c->in[0] = hlo_shape_array(c->ctx, HLO_F32, 2, (i64[]){8, 16});
  c->in[1] = starts(c->args[3], "source_shape_")
                 ? hlo_shape_array(c->ctx, HLO_F32, 2, (i64[]){4, 8})
                 : shape_of(c, c->args[3]);
  c->in[2] = hlo_shape_scalar(c->ctx, HLO_F32), c->nin = 3;
  put_comp(c, HLO_ATTR_SELECT,
           program_of(c, starts(c->args[1], "select_")
                             ? "ShapeUtil::MakeProgramShape({f32[], f32[]}, pred[])"
                             : c->args[1]));
  put_comp(c, HLO_ATTR_SCATTER, program_of(c, "to_apply(types())"));
  hlo_window_dim d = {.size = 2, .stride = 2, .lhs_dilate = 1, .rhs_dilate = 1}, two[2] = {d, d};
  hlo_window *w = HS_NEW(&c->m->arena, hlo_window);
  *w = (hlo_window){2, hs_arena_dup(&c->m->arena, two, sizeof two)};
  put(c, (hlo_attr){HLO_ATTR_WINDOW, {.p = w}});
}
static void read_unknown(call *c) { c->unknown = true; }

static const struct {
  const char *name;
  hlo_opcode op;
  void (*read)(call *);
} functions[] = {
    {"InferUnaryOpShape", HLO_ADD, read_op},
    {"InferBinaryOpShape", HLO_ADD, read_op},
    {"InferTernaryOpShape", HLO_ADD, read_op},
    {"InferVariadicOpShape", HLO_ADD, read_op},
    {"InferScatterShape", HLO_SCATTER, read_scatter},
    {"InferBroadcastShape", HLO_BROADCAST, read_broadcast},
    {"InferDotOpShape", HLO_DOT, read_dot},
    {"InferRaggedDotOpShape", HLO_RAGGED_DOT, read_dot},
    {"InferGatherShape", HLO_GATHER, read_gather},
    {"InferMapShape", HLO_MAP, read_map},
    {"InferReduceShape", HLO_REDUCE, read_reduce},
    {"InferSliceShape", HLO_SLICE, read_slice},
    {"InferConditionalShape", HLO_CONDITIONAL, read_conditional},
    {"InferReshapeShape", HLO_RESHAPE, read_reshape},
    {"InferCallShape", HLO_CALL, read_call},
    {"InferWhileShape", HLO_WHILE, read_while},
    {"InferGetTupleElementShape", HLO_GET_TUPLE_ELEMENT, read_gte},
    {"InferFftShape", HLO_FFT, read_fft},
    {"InferConcatOpShape", HLO_CONCATENATE, read_concat},
    {"InferTriangularSolveShape", HLO_TRIANGULAR_SOLVE, read_triangular},
    {"InferTransposeShape", HLO_TRANSPOSE, read_dims},
    {"InferReverseShape", HLO_REVERSE, read_dims},
    {"InferTopKShape", HLO_TOPK, read_topk},
    {"InferStochasticConvertShape", HLO_STOCHASTIC_CONVERT, read_convert},
    {"InferConvertShape", HLO_CONVERT, read_convert},
    {"InferBitcastConvertShape", HLO_BITCAST_CONVERT, read_convert},
    {"InferDynamicUpdateSliceShape", HLO_DYNAMIC_UPDATE_SLICE, read_dus},
    {"InferBatchNormGradShape", HLO_BATCH_NORM_GRAD, read_batch_norm_grad},
    {"InferAllToAllShape", HLO_ALL_TO_ALL, read_all_to_all},
    {"InferAllReduceShape", HLO_ALL_REDUCE, read_list},
    {"InferCollectiveBroadcastShape", HLO_COLLECTIVE_BROADCAST, read_list},
    {"InferCollectivePermuteShape", HLO_COLLECTIVE_PERMUTE, read_list},
    {"InferConvolveShape", HLO_CONVOLUTION, read_unknown},
    {"InferSelectAndScatterShape", HLO_SELECT_AND_SCATTER, read_select_and_scatter},
};

static bool parse_call(call *c, char *text) {
  if (!starts(text, "ShapeInference::")) return false;
  char *name = text + strlen("ShapeInference::"), *open = strchr(name, '('),
       *close = strrchr(text, ')');
  if (!open || !close || close[1]) return false;
  *open = *close = 0;
  c->n = split(open + 1, ',', c->args, MAX_ARGS);
  for (int k = 0; k < c->n; k++) {
    char *a = c->args[k];
    size_t len = 0;
    while (isalnum((unsigned char)a[len]) || a[len] == '_') len++;
    if (len && a[len] == '=' && a[len + 1] != '=')
      a[len] = 0, c->names[k] = a, c->args[k] = trim(a + len + 1);
  }
  for (size_t k = 0; k < HS_COUNT(functions); k++)
    if (strcmp(name, functions[k].name) == 0) {
      c->op = functions[k].op;
      functions[k].read(c);
      return !c->unknown;
    }
  return false;
}

typedef struct suite {
  drv_table calls;
  u32 passed, total, skipped;
} suite;

enum { PASSED, FAILED, NOT_CHECKABLE };
static int one(void *arg, u32 k, FILE *out) {
  const drv_table *t = &((suite *)arg)->calls;
  char *text = hs_strdup(drv_cell(t, k, "call"));
  const char *want = drv_cell(t, k, "value");
  bool error = strcmp(drv_cell(t, k, "expect"), "error") == 0;
  // only the status code is looked at: any error will do
  if (starts(want, "tsl::error::")) {
    error = true, want = "";
    char *suffix = strstr(text, ".status()");
    if (suffix) *suffix = 0;
  }
  call c = {.ctx = hlo_ctx_new()};
  c.m = hlo_module_new(c.ctx, "calls");
  if (!parse_call(&c, text)) return NOT_CHECKABLE;
  const hlo_shape *got = NULL, *expect = error ? NULL : shape_of(&c, want);
  hs_status s = hlo_infer_shape(c.ctx, c.op, c.nin, c.in, c.attrs, c.stated, &got);
  bool ok = error ? !hs_ok(s) && strstr(s.err->message, want) : hs_ok(s) && got == expect->logical;
  hs_buf b = {0};
  if (got) hlo_shape_print(&b, got, false);
  if (!ok)
    fprintf(out, "%s\n  %s\n  wanted %s %s, got %s\n", hs_ok(s) ? "" : s.err->message,
            drv_cell(t, k, "call"), drv_cell(t, k, "expect"), want,
            got ? hs_buf_cstr(&b) : "an error");
  hs_status_drop(s);
  return ok ? PASSED : FAILED;  // the process ends: nothing else is freed
}

static void done(void *arg, u32 k, drv_result *r) {
  suite *s = arg;
  s->skipped += r->verdict == NOT_CHECKABLE;
  s->total += r->verdict != NOT_CHECKABLE;
  s->passed += r->verdict == PASSED;
  if (r->verdict != PASSED && r->verdict != NOT_CHECKABLE)
    printf("FAIL %s: %s\n", drv_cell(&s->calls, k, "test"), drv_reason(r));
}

int main(int argc, char **argv) {
  static const char *const options[] = {NULL};
  drv_args a;
  suite s = {0};
  if (!drv_parse(argc, argv, options, &a) || a.n != 1 || !drv_table_read(a.v[0], &s.calls))
    return fprintf(stderr, "usage: shapes TABLE.tsv [-j N]\n"), 2;
  drv_run(s.calls.nrows, a.jobs, 20, one, done, &s);
  drv_table_free(&s.calls);
  printf("shapes: %u/%u, %u not checkable\n", s.passed, s.total, s.skipped);
  return s.passed != s.total;
}
