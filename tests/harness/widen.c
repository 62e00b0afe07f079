// widen.c — a module in wide arithmetic: every f16, bf16 and 8- or 4-bit float of it an f32.
//
// Two modules that compute the same real numbers may differ by far more than a unit in the last
// place of a narrow type: sums that round at every step, products that round before they are added,
// and whatever cancels after. With every value in f32 (and sums in f64, as the evaluator keeps
// them) those roundings are gone, and what differs then is not rounding.
#include "tests/harness/widen.h"

#include "core/text/text.h"
#include "core/verify/verify.h"

#include <ctype.h>

static bool widen_is_narrow(hlo_dtype t) { return hlo_dtype_is_float(t) && hlo_dtype_bits(t) < 32; }

bool widen_has_narrow(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (hlo_shape_is_array(i->shape) && widen_is_narrow(i->shape->dtype)) return true;
  return false;
}

// The module; NULL where bits of a narrow type are looked at (bitcasts), or it is not valid in wide
// types. Types are written in front of "[" and nowhere else in the text.
hlo_module *widen_module(const hlo_module *m) {
  hs_buf text = {0}, wide = {0};
  hlo_print_options o = hlo_print_full();
  hlo_print_module(&text, m, &o);
  for (const char *p = hs_buf_cstr(&text); *p;) {
    const char *q = p;
    while (isalnum((unsigned char)*q) || *q == '_') q++;
    bool narrow =
        *q == '[' && q > p && widen_is_narrow(hlo_dtype_find((hs_str){p, (size_t)(q - p)}));
    if (narrow) hs_buf_puts(&wide, "f32");
    else hs_buf_put(&wide, p, (size_t)(q - p));
    if (*q) hs_buf_putc(&wide, *q++);
    p = q;
  }
  hlo_module *w = NULL;
  hs_status s = hlo_parse(m->ctx, hs_buf_cstr(&wide), wide.n, NULL, &w);
  if (hs_ok(s)) s = hlo_verify(w, NULL);
  hs_buf_free(&text);
  hs_buf_free(&wide);
  if (hs_ok(s)) return w;
  hs_status_drop(s);
  hlo_module_free(w);
  return NULL;
}

// A value with the shape that it has in the wide module.
hs_status widen_literal(const hlo_literal *l, const hlo_shape *s, hlo_literal **out) {
  if (l->shape->dtype == s->dtype && !hlo_shape_is_tuple(s))
    return *out = hlo_literal_ref(l), HS_GOOD;
  HS_TRY(hlo_literal_new(s, out));
  for (i64 k = 0; hlo_shape_is_array(s) && k < s->elements; k++)
    hlo_literal_set_f64(*out, k, hlo_literal_f64(l, k));
  if (l->dynamic_sizes && (*out)->dynamic_sizes)
    memcpy((*out)->dynamic_sizes, l->dynamic_sizes, s->rank * sizeof *l->dynamic_sizes);
  hs_status st = HS_GOOD;
  for (u32 k = 0; hs_ok(st) && k < l->nchildren; k++) {
    hlo_literal_unref((*out)->children[k]);
    (*out)->children[k] = NULL;
    st = widen_literal(l->children[k], s->elems[k], &(*out)->children[k]);
  }
  return st;
}
