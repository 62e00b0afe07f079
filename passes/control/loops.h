// loops.h — editing the state of a while loop: reading its shape, adding elements that pass
// through, dropping elements.
#ifndef PASS_LOOPS_H
#define PASS_LOOPS_H

#include "passes/run/rewrite.h"

typedef struct pass_loop {
  hlo_instr *w;  // the while
  hlo_computation *body, *cond;
  // the tuple that it starts from; NULL when that is not a tuple instruction
  hlo_instr *in;
  u32 n;  // state elements
  // control edges tie the instruction to others: another may not take its place
  bool held;
} pass_loop;

// False (with a note) when the loop's state is not a tuple.
bool pass_loop_of(pass_ctx *, hlo_instr *w, pass_loop *out);
// Makes body and condition this loop's own (cloned when another instruction calls them).
void pass_loop_own(pass_loop *, u32 *counts);
// Whether the body passes element k through unchanged.
bool pass_loop_invariant(const pass_loop *, u32 k);
// Whether i is the body's reader of element k.
bool pass_loop_reads_element(const pass_loop *, const hlo_instr *i, u32 k);
// Makes parameter and root uses element-wise: the parameter is read through get-tuple-element only,
// and the body's root is a tuple instruction. Returns that tuple.
hlo_instr *pass_loop_normalize(pass_loop *, hs_arena *);
// Adds n values of the loop's computation to the state; in[k] receives the body's reader of
// values[k].
void pass_loop_widen(pass_loop *, u32 n, hlo_instr *const *values, hlo_instr **in, hs_arena *);
// The while under a new name, with the state that it has now, where the old one was. `index` says
// which element of the old state each of the `n` new ones stands for (-1: none), for the origins of
// the loop and its initial tuple.
void pass_loop_renew(pass_loop *, u32 n, const i64 *index, const hlo_attr *init_origin);
// Gives it another state by hand: the shape of `in`, which becomes its operand, on the parameters
// of body and condition, too.
void pass_loop_set_state(pass_loop *, hlo_instr *in);
// The while's operand as a tuple instruction.
hlo_instr *pass_loop_initial(pass_loop *, hs_arena *);
// Keeps the elements with keep[k], in a while of a new name; readers of dropped ones must be gone
// from body and condition (other than the body's own passing through), and from the users of the
// loop.
void pass_loop_narrow(pass_loop *, const bool *keep, hs_arena *);

// Users of a tuple (or its place as root) read a tuple rebuilt of its elements, so that its shape
// may change.
void pass_read_by_element(hlo_instr *tuple, hs_arena *);
// The constant, or broadcast of one, that element k starts as; NULL when it is something else.
hlo_instr *pass_loop_constant(const pass_loop *, u32 k);
// How many readers element k has inside, apart from being passed on; and giving them a copy of the
// constant instead.
u32 pass_loop_reads(const pass_loop *, u32 k);
// Returns in which of the two there were readers.
enum { PASS_LOOP_BODY = 1, PASS_LOOP_COND = 2 };
u32 pass_loop_sink(pass_loop *, u32 k, const hlo_instr *constant);
// Names of body and condition, as XLA's passes mark what they changed.
void pass_loop_rename(pass_loop *, u32 which, const char *prefix, const char *suffix);

// ---- loops that count ---------------------------------------------------------------------------
// for (index = 0; index < trips; index++) state = body(index, state), as a while whose state is
// (index, state...). Open it, build the next state from index and state[k] in `body`, and close it
// with that: the while, whose elements 1.. are the results.
typedef struct pass_counted {
  hlo_instr *init, *index, *next_index, **state;
  hlo_computation *body, *cond;
  u32 n;
} pass_counted;
void pass_counted_open(pass_counted *, hlo_computation *, i32 trips, u32 n, hlo_instr *const *init,
                       hs_arena *);
hlo_instr *pass_counted_close(pass_counted *, hlo_instr *const *next, hs_arena *);

#endif
