// loops.h — editing the state of a while loop: inspecting it, adding loop-invariant elements,
// removing elements; and building counted loops.
#ifndef PASS_LOOPS_H
#define PASS_LOOPS_H

#include "passes/run/rewrite.h"

typedef struct pass_loop {
  hlo_instr *w;  // the while
  hlo_computation *body, *cond;
  // the tuple instruction of the initial state; NULL when that is no tuple instruction
  hlo_instr *in;
  u32 n;  // state elements
  // has control dependencies, so it may not be replaced by another instruction
  bool held;
} pass_loop;

// False (with a note) when the loop's state is not a tuple.
bool pass_loop_of(pass_ctx *, hlo_instr *w, pass_loop *out);
// Unshares body and condition: clones them when another instruction calls them.
void pass_loop_own(pass_loop *, u32 *counts);
// Whether the body passes element k through unchanged.
bool pass_loop_invariant(const pass_loop *, u32 k);
// Whether i is a get-tuple-element of element k in the body.
bool pass_loop_reads_element(const pass_loop *, const hlo_instr *i, u32 k);
// Rewrites body and condition so that their parameters are used by get-tuple-element only and the
// body's root is a tuple instruction, which it returns.
hlo_instr *pass_loop_normalize(pass_loop *, hs_arena *);
// Appends n values of the computation that contains the loop to the state, as invariant elements;
// in[k] receives the get-tuple-element of values[k] in the body.
void pass_loop_widen(pass_loop *, u32 n, hlo_instr *const *values, hlo_instr **in, hs_arena *);
// Replaces the while by a new one (with a new name) of the current state. index[k]: the element of
// the old state that element k of `n` corresponds to (-1: none), for the origins of the loop and
// its initial tuple.
void pass_loop_renew(pass_loop *, u32 n, const i64 *index, const hlo_attr *init_origin);
// Makes `in` the operand, and its shape that of the loop and of the parameters of body and
// condition. The caller adapts their users.
void pass_loop_set_state(pass_loop *, hlo_instr *in);
// The while's operand as a tuple instruction.
hlo_instr *pass_loop_initial(pass_loop *, hs_arena *);
// Keeps the elements with keep[k], in a new while. Removed elements must have no users in body and
// condition (except where the body passes them through), nor after the loop.
void pass_loop_narrow(pass_loop *, const bool *keep, hs_arena *);

// Makes all users of a tuple other than get-tuple-element, and the root, use a tuple rebuilt from
// its elements, so that its shape may change.
void pass_read_by_element(hlo_instr *tuple, hs_arena *);
// The initial value of element k when it is a constant or a broadcast of one, else NULL.
hlo_instr *pass_loop_constant(const pass_loop *, u32 k);
// The number of users of element k in body and condition, not counting where it is passed through.
u32 pass_loop_reads(const pass_loop *, u32 k);
enum { PASS_LOOP_BODY = 1, PASS_LOOP_COND = 2 };
// Makes these users use a copy of the constant; returns which computations changed.
u32 pass_loop_sink(pass_loop *, u32 k, const hlo_instr *constant);
// Adds a prefix or suffix to the names of body and condition, as XLA's passes do ("wide.body").
void pass_loop_rename(pass_loop *, u32 which, const char *prefix, const char *suffix);
// Replaces the while by so many iterations, one after another; 0: by its initial state.
void pass_loop_unroll(const pass_loop *, i64 trips, hs_arena *);

// ---- counted loops ------------------------------------------------------------------------------
// for (index = 0; index < trips; index++) state = body(index, state), as a while whose state is
// (index, state...). Open it, build the next state from index and state[k] in `body`, and close it
// with that; the result is the while, whose elements 1.. are the final state.
typedef struct pass_counted {
  hlo_instr *init, *index, *next_index, **state;
  hlo_computation *body, *cond;
  u32 n;
} pass_counted;
void pass_counted_open(pass_counted *, hlo_computation *, i32 trips, u32 n, hlo_instr *const *init,
                       hs_arena *);
hlo_instr *pass_counted_close(pass_counted *, hlo_instr *const *next, hs_arena *);

#endif
