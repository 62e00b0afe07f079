// lookup.c — passes and pipelines by name, in a registry that the caller gives.
//
// A pass is found by hlo-opt's exact spelling first; failing that, '-' and '_' count as the same
// character, so that `pass constant-folding` and `pass constant_folding` both work. Registries are
// chained by `next`; an exact match in any of them precedes an inexact one.
#include "passes/run/pass.h"

bool pass_same_name(const char *a, const char *b) {
  for (; *a && *b; a++, b++) {
    char x = *a == '_' ? '-' : *a, y = *b == '_' ? '-' : *b;
    if (x != y) return false;
  }
  return *a == *b;
}

const pass_info *pass_find(const pass_registry *registry, const char *name) {
  for (const pass_registry *r = registry; r; r = r->next)
    for (u32 k = 0; k < r->npasses; k++)
      if (strcmp(r->passes[k]->name, name) == 0) return r->passes[k];
  for (const pass_registry *r = registry; r; r = r->next)
    for (u32 k = 0; k < r->npasses; k++)
      if (pass_same_name(r->passes[k]->name, name)) return r->passes[k];
  return NULL;
}

const pass_pipeline *pipeline_find(const pass_registry *registry, const char *name) {
  for (const pass_registry *r = registry; r; r = r->next)
    for (u32 k = 0; k < r->npipelines; k++)
      if (strcmp(r->pipelines[k].name, name) == 0) return &r->pipelines[k];
  return NULL;
}

hs_status pass_unknown(const pass_registry *registry, const pass_pipelines *own, const char *name) {
  hs_status s = hs_fail_subject(HS_E_NO_PASS, name, "no pass or pipeline is named '%s'", name);
  HS_VEC(const char *) names = {0};
  for (const pass_registry *r = registry; r; r = r->next) {
    for (u32 k = 0; k < r->npasses; k++) hs_vec_push(&names, r->passes[k]->name);
    for (u32 k = 0; k < r->npipelines; k++) hs_vec_push(&names, r->pipelines[k].name);
  }
  for (size_t k = 0; own && k < own->n; k++) hs_vec_push(&names, own->v[k].name);
  const char *near[4];
  size_t n = hs_nearest_some(name, names.v, names.n, near, HS_COUNT(near));
  hs_buf b = {0};
  for (size_t k = 0; k < n; k++)
    hs_buf_printf(&b, "%s'%s'", !k ? "" : k + 1 < n ? ", " : " or ", near[k]);
  s = n ? hs_with_note(s, "did you mean %s?", hs_buf_cstr(&b))
        : hs_with_note(s, "passes lists them all");
  hs_buf_free(&b);
  hs_vec_free(&names);
  return s;
}
