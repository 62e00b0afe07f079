// sizes.c — programs with open sizes (tensor<?x8xf32>), as exporters with symbolic sizes write
// them, become programs of the sizes that the reader of the file states.
//
// Stated are those of the entry's arguments. From there they spread while operations are converted:
// an open type of a result is the one that is inferred (emit.c), a value is of its instruction's
// shape, a function's arguments and a loop's state are of the shapes of what they are called with,
// and arithmetic on sizes is computed where an operation asks for it (known.c). Numbers are
// taken into a function only for the arguments that its exporter marks as sizes, since a function
// becomes one computation for all of its calls.
#include "core/mlir/rules.h"

#include <stdio.h>
#include <stdlib.h>

// The sizes as the user wrote them: "PARAM.DIM=N,..."; N alone: all that are open.
typedef struct stated {
  hs_str param;
  i64 dim, size;
} stated;

static bool bad(mlir_reader *R, const char *at, const char *why) {
  return mlir_fail(R, HS_E_USAGE, "sizes are PARAM.DIM=N,... or N for all that are open: %s %.60s",
                   why, *at ? at : "the end");
}

static bool read_stated(mlir_reader *R, const char **p, stated *out) {
  const char *from = *p, *dot = strpbrk(from, ".,=");
  char *end;
  *out = (stated){.param = {from, 0}, .dim = -1};
  if (dot && *dot == '.') {
    out->param.n = (size_t)(dot - from);
    out->dim = strtoll(dot + 1, &end, 10);
    if (end == dot + 1 || *end != '=' || out->dim < 0) return bad(R, dot, "no DIM= at");
    from = end + 1;
  }
  out->size = strtoll(from, &end, 10);
  if (end == from || out->size < 0 || (*end && *end != ',')) return bad(R, from, "no size at");
  *p = end + (*end == ',');
  return true;
}

// By its number, or by the name that it gets.
static bool is_called(mlir_reader *R, const mlir_value *arg, hs_str name) {
  char number[16];
  int n = snprintf(number, sizeof number, "%u", arg->index);
  const hlo_metadata *m = mlir_metadata(R, arg->loc);
  hs_str own = mlir_plain_name(R, m ? m->op_name : (hs_str){0}, (hs_str){0});
  bool numbered = hs_str_eq(name, (hs_str){number, (size_t)n}) ||
                  (name.n > 3 && !memcmp(name.p, "arg", 3) &&
                   hs_str_eq((hs_str){name.p + 3, name.n - 3}, (hs_str){number, (size_t)n}));
  return numbered || (own.n && hs_str_eq(name, own));
}

static bool set_size(mlir_reader *R, mlir_value *arg, i64 dim, i64 size) {
  i64 dims[HLO_MAX_RANK];
  bool dynamic[HLO_MAX_RANK];
  const hlo_shape *s = arg->shape;
  for (u32 d = 0; d < s->rank; d++) {
    dims[d] = d == dim ? size : s->dims[d];
    dynamic[d] = d != dim && hlo_dim_is_dynamic(s, d);
  }
  arg->shape = hlo_shape_dynamic(R->ctx, s->dtype, s->rank, dims, dynamic, NULL)->logical;
  return hlo_shape_is_unbounded(arg->shape) ||
         hlo_lex_status(RX, hlo_shape_check_limits(s->dtype, s->rank, arg->shape->dims), R->op->at);
}

static bool open_at(const mlir_value *arg, i64 dim) {
  const hlo_shape *s = arg->shape;
  return s && hlo_shape_is_array(s) && dim < s->rank && s->dims[dim] == HLO_UNBOUNDED;
}

static bool set_stated(mlir_reader *R, mlir_region *r, const stated *v) {
  bool any = false;
  for (u32 k = 0; k < r->nargs; k++) {
    mlir_value *arg = &r->args[k];
    if (v->param.n && !is_called(R, arg, v->param)) continue;
    for (i64 d = HS_MAX(v->dim, 0); d < (v->dim < 0 ? HLO_MAX_RANK : v->dim + 1); d++) {
      if (!open_at(arg, d)) continue;
      any = true;
      if (!set_size(R, arg, d, v->size)) return false;
    }
  }
  if (any) return true;
  if (!v->param.n) return mlir_fail(R, HS_E_USAGE, "no argument has an open size");
  return mlir_fail(R, HS_E_USAGE, "no argument %.*s has an open dimension %lld",
                   (int)HS_MIN(v->param.n, 60u), v->param.p, (long long)v->dim);
}

bool mlir_state_sizes(mlir_reader *R, mlir_func *f) {
  mlir_region *r = f->op->regions[0];
  if (!R->opt.sizes) return true;
  R->op = f->op;
  for (const char *p = R->opt.sizes; *p;) {
    stated v;
    if (!read_stated(R, &p, &v) || !set_stated(R, r, &v)) return false;
  }
  for (u32 k = 0; k < r->nargs; k++)
    for (u32 d = 0; r->args[k].shape && d < r->args[k].shape->rank; d++)
      if (open_at(&r->args[k], d))
        return mlir_fail(R, HS_E_USAGE, "dimension %u of argument %u is open too", d, k);
  return true;
}

bool mlir_is_of_type(const hlo_shape *s, const hlo_shape *written) {
  if (s == written) return true;
  if (!s || !written || !hlo_shape_is_array(s) || s->dtype != written->dtype ||
      s->rank != written->rank || !hlo_shape_is_unbounded(written))
    return false;
  for (u32 d = 0; d < s->rank; d++)
    if (written->dims[d] != HLO_UNBOUNDED && written->dims[d] != s->dims[d]) return false;
  return true;
}

void mlir_take_shape(mlir_value *v, const hlo_shape *s) {
  if (v->shape && s && v->shape != s->logical && mlir_is_of_type(s->logical, v->shape))
    v->shape = s->logical;
}

// The number that an argument gets in a call, where it is one of the program's sizes: its exporter
// says so by the size's name (none: what sizes are computed by, called for several), or the caller
// hands a size on.
static bool size_for(mlir_reader *R, const mlir_value *arg, mlir_value *operand, i64 *out) {
  static const char mark[] = "jax.global_constant";
  hs_str symbol = {0};
  if (!mlir_get_string(R, &arg->attrs, mark, &symbol)) return false;
  bool is_size = mlir_has(R, &arg->attrs, mark) ? symbol.n > 0 : mlir_real(operand)->sized;
  return is_size && mlir_known_size(R, operand, out);
}

bool mlir_take_arguments(mlir_reader *R, mlir_func *f, const mlir_op *call) {
  mlir_region *r = f->op->regions[0];
  for (u32 k = 0; k < r->nargs && R->opt.sizes; k++) {
    mlir_value *arg = &r->args[k];
    const hlo_shape *shape = mlir_real(call->ops[k])->shape;
    i64 size = 0;
    bool sized = size_for(R, arg, call->ops[k], &size);
    if (!f->comp) {
      mlir_take_shape(arg, shape);
      arg->sized = sized, arg->size = size;
    }
    if (arg->shape != shape || arg->sized != sized || arg->size != size)
      return mlir_fail(R, HS_E_NO_HLO, "'@%.*s' is called with arguments of different sizes",
                       (int)HS_MIN(f->name.n, 80u), f->name.p);
  }
  return true;
}
