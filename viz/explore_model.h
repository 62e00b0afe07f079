// explore_model.h: what an explorer holds until its page is written; private to viz/.
#ifndef VIZ_EXPLORE_MODEL_H
#define VIZ_EXPLORE_MODEL_H

#include "viz/explore.h"

// ---- intern.c -----------------------------------------------------------------------------------
// Byte strings by number: equal ones have the same, and numbers count up from 0 in the order of
// first coming. Zero-initialised is valid and empty.
typedef struct viz_intern {
  hs_buf bytes;
  HS_VEC(size_t) at;  // where string k begins; its length is in `len`
  HS_VEC(u32) len;
  u32 *slots, nslots;  // 1 + number; 0: free
} viz_intern;
u32 viz_intern_put(viz_intern *, const void *p, size_t n);
static inline u32 viz_intern_count(const viz_intern *t) { return (u32)t->at.n; }
// Until the next put; begins at a multiple of 8.
static inline const void *viz_intern_get(const viz_intern *t, u32 k) {
  return t->bytes.p + t->at.v[k];
}
void viz_intern_free(viz_intern *);

// ---- explore.c ----------------------------------------------------------------------------------
enum { VIZ_MOST_SOURCES = 256 };  // of an instruction: what CSE joined stems from thousands

// An instruction over the versions [from, to) in which nothing of it changed. Texts are numbers of
// strings, in visible form.
typedef struct viz_record {
  u32 id, comp, from, to;
  u32 name, shape, text, op_name, place;
  hlo_opcode opcode;
  u32 operands, called, preds, sources;  // numbers in `lists`
  double metric[VIZ_METRICS];
  // what tells that it changed: pointers to what is immutable
  const hlo_shape *shape_of;
  const hlo_attrs *attrs_of;
  const hlo_instr_list *preds_of;
  const hlo_provenance *provenance_of;
  u64 names;  // a hash of the names that its text holds
} viz_record;

// A computation likewise. group: its tree of groups in the last of these versions.
typedef struct viz_comp_record {
  u32 id, from, to, name, root, group;
  u32 reducer;  // 1 + the string of its operation when it is nothing but that; else 0
} viz_comp_record;

// How the instructions of a version differ from those of the one before, by id.
typedef struct viz_step {
  u32 number, label, entry;  // entry: id of the computation
  bool current, measured;
  HS_VEC(u32) added, changed, moved, removed;
  HS_VEC(u32) pairs;   // id before, id now: where they are not the same
  HS_VEC(u32) groups;  // computation, group: of those that are new or have another tree now
} viz_step;

typedef struct viz_said {
  u32 step, instr, other, pass, text;
  bool done;
} viz_said;

struct viz_explorer {
  u32 title, device;  // 1 + string; 0: none
  u32 focus;          // 1 + the id of an instruction
  viz_progress *progress;
  void *arg;
  viz_intern strings, lists;  // lists: u32s
  viz_intern groups;          // u32s: see viz_groups_of
  viz_intern specs;           // u32s: graphs to lay out (viz_layouts_make)
  HS_VEC(viz_record) records;
  HS_VEC(viz_comp_record) comps;
  HS_VEC(u32) open, open_comp;  // by id: 1 + the record that goes on; 0: none
  HS_VEC(viz_step) steps;
  HS_VEC(viz_said) said;
  hlo_module *before;  // a copy of the version added last, and its ids
  HS_VEC(u32) before_ids;
  bool has[VIZ_METRICS];
};
// A string in visible form, at most `max` bytes of it.
u32 viz_explorer_string(viz_explorer *, const char *s, size_t n, size_t max);
static inline void viz_explorer_tell(const viz_explorer *x, const char *what, double done,
                                     double total) {
  if (x->progress) x->progress(x->arg, what, done, total);
}

// ---- explore_groups.c ---------------------------------------------------------------------------
typedef enum viz_group_kind {
  VIZ_GROUP_COMPUTATION,
  VIZ_GROUP_SCOPE,
  VIZ_GROUP_PART,
  VIZ_GROUP_PARAMETERS
} viz_group_kind;
// The tree of groups of a computation: the number of its top. A group is u32s: kind, label (a
// string), instructions in it, layout (a number in specs), how many children, the children, how
// many hubs, the hubs. A child is the id of an instruction, or GROUP + the number of a group. A hub
// is the position of a child whose edges are too many to be drawn.
#define VIZ_GROUP_BIT 0x80000000u
u32 viz_groups_of(viz_explorer *, const hlo_computation *);
// Whether an instruction stands in its users' labels instead of being drawn.
bool viz_is_folded(const hlo_instr *);
// "file:line" of an instruction; nothing when it has none.
void viz_place_text(hs_buf *, const hlo_instr *);
// "add" of a computation that applies that one operation to its two parameters; NULL otherwise.
const char *viz_reducer_text(const hlo_computation *);

// ---- explore_layout.c ---------------------------------------------------------------------------
// A graph to lay out, a spec, is u32s: nodes, their widths and heights in pixels, edges, and of
// each from, to, flags. There is one edge at most between two nodes, and those that leave a node
// follow each other.
enum { VIZ_EDGE_CONTROL = 1 };
typedef struct viz_layout {
  u32 w, h, n;
  const i32 *boxes;  // x, y, w, h of each node, from the upper left corner
  // per edge of the spec: how many points, and those: a Bezier spline of 1 + 3k points
  u32 nwords;
  const i32 *edges;
} viz_layout;
// One for each spec, in the arena.
hs_status viz_layouts_make(viz_explorer *, double deadline_s, hs_arena *, viz_layout **out,
                           char **note);

// ---- layered.c ----------------------------------------------------------------------------------
// A layered layout of a spec (Sugiyama, Tagawa and Toda, 1981), for graphs that Graphviz does not
// lay out: layers by longest paths, in each the order of the neighbours' barycentres.
void viz_layered(const u32 *spec, hs_arena *, viz_layout *out);

// ---- render.c -----------------------------------------------------------------------------------
// Runs `dot -Tformat` over a text of one or several graphs; see viz_render for the errors.
hs_status viz_run_dot(const char *dot, size_t n, const char *format, double deadline_s,
                      hs_buf *out);

// ---- dot.c --------------------------------------------------------------------------------------
// Fill, border and font of a class of operations, as XLA's hlo_graph_dumper has them.
void viz_paint_of(hlo_color, const char *out[3]);

// ---- svg.c --------------------------------------------------------------------------------------
// A JSON string, quotes included, that may stand inside of a <script> element: < > & and all that
// is not printable ASCII or plain UTF-8 are escaped; hidden characters are spelled out.
void viz_json_text(hs_buf *, const char *s, size_t n);

#endif
