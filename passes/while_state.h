// while_state.h — steps of simplify-while-loops that give a loop another state. Private to passes/while_*.c.
#ifndef PASS_WHILE_STATE_H
#define PASS_WHILE_STATE_H

#include "passes/loops.h"

// Each returns whether it changed the loop; l->w is the loop as it is now.
bool pass_loop_flatten(pass_ctx *, pass_loop *l);          // tuples inside the state become its elements
bool pass_loop_merge_counters(pass_ctx *, pass_loop *l);   // what a trip adds a constant to is computed from one counter

#endif
