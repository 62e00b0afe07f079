// view.h — which instructions a picture shows; private to viz/.
#ifndef VIZ_VIEW_H
#define VIZ_VIEW_H

#include "viz/viz.h"

enum { VIZ_DEFAULT_NODES = 300, VIZ_MAX_USERS = 16 };

typedef enum view_mark { VIEW_ABSENT, VIEW_SHOWN, VIEW_CENTER } view_mark;

typedef struct viz_view {
  const hlo_computation *comp;
  const hlo_instr **nodes;
  u32 n;     // in post-order of the computation
  u8 *mark;  // view_mark by instruction id
  // by computation id: the fusion that draws this body (the first one shown), or NULL
  const hlo_instr **drawer;
  bool expand_fusions;
  bool whole;  // the whole computation, nothing left out
  char *note;  // what was left out; malloc'ed, NULL
} viz_view;

// Follows the options: a neighbourhood, or a computation (collapsed to what is near its root when
// it is too large).
hs_status viz_view_make(const hlo_module *, const viz_options *, viz_view *out);
void viz_view_free(viz_view *);
// Whether an instruction of the view's computation, or of a body drawn in it, is shown.
static inline bool viz_shown(const viz_view *v, const hlo_instr *i) {
  return v->mark[i->id] != VIEW_ABSENT;
}
// Constants, and broadcasts of them within a fusion, stand in their users' labels, unless one is
// the root or the centre.
bool viz_is_inlined(const viz_view *, const hlo_instr *);
// Some operand or user is not drawn.
bool viz_is_cut(const viz_view *, const hlo_instr *);

// "3.5", "{1,2,3}", or its shape when long
void viz_value_text(hs_buf *, const hlo_instr *inlined);
// "to_apply add", "body region_1.2"; empty when none
void viz_called_text(hs_buf *, const hlo_instr *);
// A name in at most that many columns: a longer one is cut in the middle, where names differ least.
enum { VIZ_NAME_COLUMNS = 44 };
void viz_name_text(hs_buf *, const char *name, u32 columns);
// Text with bytes that are not printable UTF-8 replaced, cut to `max` bytes.
void viz_clean(hs_buf *, const char *s, size_t n, size_t max);

#endif
