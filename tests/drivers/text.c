// text.c — does our text of a module equal real XLA's, byte for byte?
//
// usage: text [--vintage NAME] DIR XLA_DIR    DIR/NAME.hlo is read and printed by us;
//                                             XLA_DIR/NAME.default and NAME.large
// hold what XLA printed for it (tests/peers/xla_text.py), being of that vintage (jaxlib-0.10.2
// unless said). Modules that XLA refused are not counted. Where the text leaves constants out
// ({...}), XLA's reader makes values up, from a counter that runs on from module to module; ours
// does not, so what would print them is not comparable, and is counted as such.

#include "core/text/text.h"
#include "core/types/literal.h"
#include "tests/harness/driver.h"

static bool slurp(const char *dir, const char *name, size_t n, const char *ending, hs_buf *out) {
  char *path = hs_format("%s/%.*s%s", dir, (int)n, name, ending);
  FILE *f = fopen(path, "rb");
  hs_free(path);
  if (!f) return false;
  char block[65536];
  out->n = 0;
  for (size_t k; (k = fread(block, 1, sizeof block, f)) > 0;) hs_buf_put(out, block, k);
  fclose(f);
  hs_buf_cstr(out);
  return true;
}

// The first line in which two texts differ, for the report.
static void report(const char *name, const char *kind, const hs_buf *want, const hs_buf *got) {
  size_t at = 0, line = 0;
  while (at < want->n && at < got->n && want->p[at] == got->p[at]) at++;
  for (size_t k = at; k > 0 && want->p[k - 1] != '\n'; k--) line++;
  size_t from = at - line;
  int lw = (int)strcspn(want->p + from, "\n"),
      lg = (int)strcspn(got->p + HS_MIN(from, got->n), "\n");
  int cut = line > 100 ? (int)line - 60 : 0;
  printf("FAIL %s: %s text differs\n    XLA:  %.*s\n    ours: %.*s\n", name, kind,
         HS_MIN(lw - cut, 200), want->p + from + cut, HS_MIN(HS_MAX(lg - cut, 0), 200),
         got->p + HS_MIN(from + (size_t)cut, got->n));
}

// Would this form print values of a constant that the text leaves out?
static bool prints_elided(const hlo_module *m, bool large) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      const hlo_literal *l = hlo_is(i, HLO_CONSTANT) ? hlo_constant_value(i) : NULL;
      if (l && hlo_literal_has_elided(l) &&
          (large || (hlo_shape_is_array(l->shape) && l->shape->elements <= 10)))
        return true;
    }
  return false;
}

typedef struct counts {
  unsigned same[2], total[2], elided;
} counts;

static void compare(const char *name, size_t len, const char *xla, const hs_buf *source,
                    hlo_vintage vintage, counts *n) {
  static const char *const kinds[] = {"default", "large"};
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_parse(ctx, source->p, source->n, NULL, &m);
  hs_buf want = {0}, got = {0};
  for (int kind = 0; kind < 2; kind++) {
    if (!slurp(xla, name, len - 3, kinds[kind], &want)) continue;
    if (m && prints_elided(m, kind)) {
      n->elided++;
      continue;
    }
    n->total[kind]++;
    if (!m) {
      printf("FAIL %s: not parsed: %s\n", name, s.err->message);
      continue;
    }
    hlo_print_options o = hlo_print_default();
    o.print_large_constants = kind == 1;
    o.vintage = vintage;
    got.n = 0;
    hlo_print_module(&got, m, &o);
    hs_buf_cstr(&got);
    if (got.n == want.n && !memcmp(got.p, want.p, got.n)) n->same[kind]++;
    else report(name, kinds[kind], &want, &got);
  }
  hs_status_drop(s);
  hs_buf_free(&want);
  hs_buf_free(&got);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

int main(int argc, char **argv) {
  drv_args a;
  if (!drv_parse(argc, argv, (const char *const[]){"vintage", NULL}, &a) || a.n != 2)
    return fprintf(stderr, "usage: %s [--vintage NAME] DIR XLA_DIR\n", argv[0]), 2;
  const char *word = drv_option(&a, "vintage");
  u32 vintage = HLO_VINTAGE_JAXLIB_0_10_2;
  for (vintage = word ? 0 : vintage;
       word && vintage < HLO_VINTAGE_COUNT && strcmp(hlo_vintages[vintage].name, word) != 0;)
    vintage++;
  if (vintage == HLO_VINTAGE_COUNT) return fprintf(stderr, "no vintage %s\n", word), 2;
  drv_names names = {0};
  if (!drv_list(a.v[0], ".hlo", &names)) return perror(a.v[0]), 2;
  counts count = {0};
  hs_buf source = {0};
  for (size_t k = 0; k < names.n; k++) {
    const char *name = names.v[k];
    if (slurp(a.v[0], name, strlen(name), "", &source))
      compare(name, strlen(name), a.v[1], &source, (hlo_vintage)vintage, &count);
  }
  drv_names_free(&names);
  hs_buf_free(&source);
  printf("text: %u/%u default, %u/%u large constants, %u not comparable (elided)\n", count.same[0],
         count.total[0], count.same[1], count.total[1], count.elided);
  return count.same[0] == count.total[0] && count.same[1] == count.total[1] ? 0 : 1;
}
