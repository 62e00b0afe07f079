// while_state.h — shared by passes/control/while_*.c: rewrites of simplify-while-loops that
// change the type of the loop state, and trip counts.
#ifndef PASS_WHILE_STATE_H
#define PASS_WHILE_STATE_H

#include "passes/control/loops.h"

// Whether it is an asynchronous operation, a send or a receive: its done needs its result
// unchanged, and it needs a user.
bool pass_is_unfinished(const hlo_instr *);

// Each returns whether it changed the loop; l->w is the new loop.
// Replaces nested tuples in the state by their elements.
bool pass_loop_flatten(pass_ctx *, pass_loop *l);
// Computes all elements that each iteration increments by a constant from one counter.
bool pass_loop_merge_counters(pass_ctx *, pass_loop *l);

// The induction variable: index of the state element that the condition depends on alone and whose
// next value depends on nothing else; -1 when there is none.
i64 pass_loop_counter(const hlo_instr *w, hs_arena *);
// The trip count, from the pattern of a counted loop or by evaluating at most `most` iterations;
// -1: unknown.
i64 pass_loop_trips(const hlo_instr *w, i64 most, hs_arena *);
// Whether the first iteration makes the condition false.
bool pass_loop_runs_once(const pass_loop *);

#endif
