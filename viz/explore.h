// explore.h: the graph explorer, one HTML file that shows every version of a module and needs
// nothing else: no network, no other file.
//
// A module of 100,000 instructions is no picture. So the page holds a tree of groups: computations,
// within them the scopes that op_name tells of (jit(f)/transformer/layer_3/attn), and parts of what
// is still too much. Each group is a small graph, laid out when the page is written; the page opens
// groups in place or goes down into them. Versions of the module share what is the same in them:
// instructions, groups and layouts are stored once, under what they are made of.
//
// The shell knows what this room does not: history, times, reasons. It hands them over version by
// version.
#ifndef VIZ_EXPLORE_H
#define VIZ_EXPLORE_H

#include "core/ir/ir.h"

// What an instruction may be coloured by. Times in seconds, of all executions in one of the module.
typedef enum viz_metric {
  VIZ_FLOPS,
  VIZ_BYTES,
  VIZ_ESTIMATED,
  VIZ_MEASURED,
  VIZ_PEAK,  // bytes that it holds when most memory is in use
  VIZ_METRICS
} viz_metric;

// What a pass said about an instruction, by ids of the module (UINT32_MAX: none).
typedef struct viz_remark {
  u32 instr, other;
  bool done;
  const char *pass, *text;
} viz_remark;

// A version as the shell knows it. Read while it is added, not kept.
typedef struct viz_version {
  u32 number;
  const char *label;                  // the command that made it
  bool current;                       // the one that the page opens with
  u32 nids;                           // the length of the arrays below
  const double *metric[VIZ_METRICS];  // by instruction id; NULL: not known
  u32 nremarks;
  const viz_remark *remarks;
} viz_version;

// Called between pieces of long work. total <= 0: unknown.
typedef void viz_progress(void *arg, const char *what, double done, double total);

typedef struct viz_explorer viz_explorer;
// An explorer without versions. title and device are copied; device: that estimates are for, NULL
// without estimates. progress may be NULL.
viz_explorer *viz_explorer_new(const char *title, const char *device, viz_progress *progress,
                               void *arg);
void viz_explorer_free(viz_explorer *);
// The page opens at that instruction of the current version.
void viz_explorer_focus(viz_explorer *, u32 instr);
// Adds the module as it is now: a later version of the one added before, ids kept. The module must
// stay until the page is written, but may change. Polls for stops.
hs_status viz_explorer_add(viz_explorer *, const hlo_module *, const viz_version *);
// Lays the groups out and appends the page. Groups are given to Graphviz, many to a process; where
// it is missing, fails, takes longer than deadline_s in all, or a group has too many edges for it,
// a layout of our own takes its place, and *note (malloc'ed, may be NULL) says so. The same
// versions give the same bytes. Polls for stops.
hs_status viz_explorer_page(viz_explorer *, double deadline_s, hs_buf *out, char **note);

// ---- model_explorer.c ---------------------------------------------------------------------------
// Appends the module as the JSON of Model Explorer (ai-edge-model-explorer): a graph for every
// computation that is more than a plain reducer, op_name scopes as namespaces. Polls for stops.
hs_status viz_model_explorer(const hlo_module *, hs_buf *out);

#endif
