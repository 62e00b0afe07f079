// diff_kernels.h — the kernels of two modules, matched.
#ifndef REPL_DIFF_KERNELS_H
#define REPL_DIFF_KERNELS_H

#include "core/diff/graph_diff.h"
#include "repl/shell/command.h"

// Says which kernels of d->a do what which kernels of d->b do, and which have no counterpart.
void repl_diff_kernels(repl_cmd *, const hlo_graph_diff *d);

#endif
