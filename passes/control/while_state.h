// while_state.h — shared by passes/control/while_*.c: steps of simplify-while-loops that replace
// the state of a loop, and how often a loop runs.
#ifndef PASS_WHILE_STATE_H
#define PASS_WHILE_STATE_H

#include "passes/control/loops.h"

// Each returns whether it changed the loop; l->w is the loop as it is now.
// tuples inside the state become its elements
bool pass_loop_flatten(pass_ctx *, pass_loop *l);
// what a trip adds a constant to is computed from one counter
bool pass_loop_merge_counters(pass_ctx *, pass_loop *l);

// The element of the state that alone decides whether the loop goes on and that goes its way by
// itself; -1 when there is none.
i64 pass_loop_counter(const hlo_instr *w, hs_arena *);
// How often the loop runs, by its pattern or by trying `most` iterations at most; -1 when that does
// not tell.
i64 pass_loop_trips(const hlo_instr *w, i64 most, hs_arena *);
// if at all: the first iteration makes its condition false
bool pass_loop_runs_once(const pass_loop *);

#endif
