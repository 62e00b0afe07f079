// rename.c — see rename.h.
#include "core/ir/rename.h"

#include "core/ir/names.h"

void hlo_take_name(hlo_instr *i, const char *name) {
  hlo_module *m = i->parent->module;
  hs_str s = hs_str_of(name);
  const hlo_name_node *k = hlo_name_find_(m->names, s, hlo_name_hash_(s), false);
  if (k && !hlo_find_instr(m, name)) hlo_release_name_(m, k->text);
  hlo_set_name(i, name);
}

void hlo_take_computation_name(hlo_computation *c, const char *name) {
  hs_str s = hs_str_of(name);
  const hlo_name_node *k = hlo_name_find_(c->module->names, s, hlo_name_hash_(s), true);
  if (k && !hlo_find_comp(c->module, name)) hlo_release_name_(c->module, k->text);
  hlo_set_computation_name(c, name);
}
