// print.c — what a test prints for its FileCheck texts: m->ToString(HloPrintOptions...), with
// XLA's names of the options.
#include "core/text/print.h"
#include "tests/xla_cases/internal.h"

// One of HloPrintOptions, by XLA's name for it; false when it is not known.
static bool print_option(hlo_print_options *o, const char *key, const xc_expr *value) {
  if (strcmp(key, "print_operand_index_annotation_interval") == 0 && value->kind == E_NUMBER)
    return o->index_interval = (int)value->number, true;
  bool *b = hlo_print_option(o, key),
       yes = value->kind == E_NAME && strcmp(value->name, "true") == 0,
       no = value->kind == E_NAME && strcmp(value->name, "false") == 0;
  return b && (yes || no) && (*b = yes, true);
}

// What is printed for the FileCheck texts: HloPrintOptions(key=value; ...).set_key(value)...
static bool print_options(const xc_expr *e, hlo_print_options *o) {
  static const struct {
    const char *name;
    hlo_print_options (*made)(void);
  } bases[] = {{"HloPrintOptions", hlo_print_default},
               {"HloPrintOptions::Default", hlo_print_default},
               {"HloPrintOptions::ShortParsable", hlo_print_short_parsable},
               {"HloPrintOptions::Canonical", hlo_print_canonical}};
  if (e->on)
    return print_options(e->on, o) && e->kind == E_CALL && e->n == 1 &&
           strncmp(e->name, "set_", 4) == 0 && print_option(o, e->name + 4, e->args[0]);
  size_t k = 0;
  while (k < HS_COUNT(bases) &&
         !((e->kind == E_CALL || e->kind == E_NAME) && strcmp(bases[k].name, e->name) == 0))
    k++;
  if (k == HS_COUNT(bases)) return false;
  *o = bases[k].made();
  for (u32 a = 0; a < e->n; a++)
    if (!e->args[a]->key || !print_option(o, e->args[a]->key, e->args[a])) return false;
  return true;
}

bool xc_print(xc_env *v, const char *how, hs_buf *text) {
  hlo_print_options o = hlo_print_default();
  const xc_expr *e = xc_parse(&v->a, *how ? how : "m->ToString()");
  if (e->kind != E_CALL || !e->on || strcmp(e->name, "ToString") != 0 || e->n > 1) return false;
  if (e->n && e->args[0]->kind != E_LIST && !print_options(e->args[0], &o)) return false;
  xc_value x = xc_eval(v, e->on);
  if (x.kind == V_MODULE) hlo_print_module(text, x.m, &o);
  else if (x.kind == V_COMP) hlo_print_computation(text, x.c, &o);
  else if (x.kind == V_INSTR) hlo_print_instr(text, x.i, &o);
  return x.kind == V_MODULE || x.kind == V_COMP || x.kind == V_INSTR;
}
