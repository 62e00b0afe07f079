// plot.c — pictures of any module that verifies: DOT in which every brace and quote is closed,
// the drawing for the terminal, estimates. Nothing of the module reaches either raw.
#include "tests/fuzz/target.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "tests/harness/mutate.h"
#include "viz/explore_model.h"
#include "viz/viz.h"

// Quotes are closed, braces outside of them balance, and there are no control characters.
static bool well_formed(const hs_buf *b) {
  i64 depth = 0;
  bool quoted = false;
  for (size_t k = 0; k < b->n; k++) {
    char c = b->p[k];
    if ((unsigned char)c < 32 && c != '\n' && c != '\t') return false;
    if (quoted && c == '\\') k++;
    else if (c == '"') quoted = !quoted;
    else if (!quoted) depth += c == '{' ? 1 : c == '}' ? -1 : 0;
  }
  return depth == 0 && !quoted;
}

// Groups of the explorer hold what is drawn once each; JSON has nothing that HTML knows.
static hs_status explorer(const hlo_module *m) {
  viz_explorer *x = viz_explorer_new(m->name, NULL, NULL, NULL);
  hs_status s = viz_explorer_add(x, m, &(viz_version){.label = "load", .current = true});
  u32 *held = hs_calloc(m->next_instr_id + 1, sizeof *held);
  for (u32 g = 0; hs_ok(s) && g < viz_intern_count(&x->groups); g++) {
    const u32 *v = viz_intern_get(&x->groups, g);
    for (u32 k = 0; k < v[4]; k++)
      if (!(v[5 + k] & VIZ_GROUP_BIT)) held[v[5 + k]]++;
  }
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      FUZZ_CHECK(!hs_ok(s) || held[i->id] == !viz_is_folded(i), "%s is in %u groups\n", i->name,
                 held[i->id]);
  hs_free(held);
  viz_explorer_free(x);
  hs_buf b = {0};
  if (hs_ok(s)) s = viz_model_explorer(m, &b);
  FUZZ_CHECK(!strpbrk(hs_buf_cstr(&b), "<>&"), "%s\n", hs_buf_cstr(&b));
  hs_buf_free(&b);
  return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_parse(ctx, (const char *)data, n, NULL, &m);
  if (hs_ok(s)) s = hlo_verify(m, NULL);
  for (u32 k = 0; hs_ok(s) && k < 4; k++) {
    hs_buf b = {0};
    char *note = NULL;
    const viz_options o = {.center = k & 1 ? m->entry->root : NULL,
                           .width = 2,
                           .show_fusions = k & 2,
                           .show_layouts = k & 2,
                           .show_metadata = true};
    s = viz_dot(m, &o, &b, &note);
    FUZZ_CHECK(!hs_ok(s) || well_formed(&b), "%s\n", hs_buf_cstr(&b));
    hs_free(note);
    b.n = 0;
    if (hs_ok(s) && o.center) s = viz_terminal(m, &o, k & 2, &b);
    hs_buf_free(&b);
  }
  if (hs_ok(s)) s = explorer(m);
  hs_status_drop(s);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return 0;
}

static void by_tokens(u64 *state, hs_buf *b) { mutate_text(state, b, NULL, 0, 1); }
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed) {
  return fuzz_mutate(data, n, most, seed, by_tokens);
}
