// say_diff.h — the differences of two modules as text and JSON: a summary, a list by computation,
// unified text or two columns. The matching is core/diff/graph_diff.h's.
#ifndef REPL_SAY_DIFF_H
#define REPL_SAY_DIFF_H

#include "core/diff/graph_diff.h"
#include "repl/shell/command.h"

// One matching and where it is reported. Lives as long as the command's scratch arena and the two
// modules.
typedef struct repl_diff_view {
  repl_cmd *c;
  repl_json *doc;  // NULL in text mode
  hlo_graph_diff d;
  hlo_print_options o;  // of one instruction
  repl_json *list;
  u32 ops_a[HLO_OPCODE_COUNT], ops_b[HLO_OPCODE_COUNT];
} repl_diff_view;

// Matches `a` with `b`, both of one context; reports go to the command's output, or to `doc` in
// JSON mode (NULL in text mode). Fails when the work is to stop.
hs_status repl_diff_open(repl_cmd *, repl_json *doc, const hlo_module *a, const hlo_module *b,
                         repl_diff_view *out);
// One line: how many instructions are the same, moved, changed, removed, added; opcode counts.
void repl_diff_say_head(repl_diff_view *, const char *from, const char *to);
// The differing instructions by computation.
void repl_diff_say_list(repl_diff_view *);
// The two texts compared line by line, unified or in two columns; instructions of `a` that have a
// counterpart bear its name.
void repl_diff_say_texts(repl_diff_view *, bool columns);

// Summary and list in one call, as `diff` shows them; nothing when the work is to stop. most: the
// list is left out when more instructions than that differ.
void repl_say_graph_diff(repl_cmd *, repl_json *doc, const char *from, const hlo_module *a,
                         const char *to, const hlo_module *b, u32 most);

#endif
