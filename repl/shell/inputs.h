// inputs.h: the sources of a module's arguments, and writing them to files.
#ifndef REPL_INPUTS_H
#define REPL_INPUTS_H

#include "repl/formats/arrays.h"
#include "repl/shell/command.h"

// The parameter of the entry that `name` (n bytes) means: its name, with or without %, or without
// XLA's number behind it where no other parameter has that name; or its number as N, argN, arg_N,
// Arg_N, arr_N.
bool repl_find_param(const hlo_computation *entry, const char *name, size_t n, u32 *k);
// The error for a name that means none, under the code given.
hs_status repl_no_param(hs_code, const hlo_computation *entry, const char *given);

// The module's arguments (mod->inputs), made on first use: those of the snapshot it was loaded
// from, else FILE.args beside its file, else random ones by seed. --inputs and --seed of the
// command say otherwise.
hs_status repl_inputs(repl_cmd *);
// Replaces the arguments by random ones made from `seed`; large_range: floats over their whole
// range instead of near 0.
hs_status repl_inputs_seed(repl_cmd *, u64 seed, bool large_range);

// Sources, in order (see `help arguments`): files for all parameters (.npz, .safetensors, .args, a
// snapshot), files and values for one parameter after another, words for all (random, zeros,
// snapshot), and PARAMETER=SOURCE. Parameters that no source names keep the value they have.
// Nothing changes when one of them fails.
typedef struct inputs_options {
  array_options array;
  u32 partition;
  u64 seed;
} inputs_options;
hs_status repl_inputs_from(repl_cmd *, u32 n, const char *const *sources, const inputs_options *);
// Saves the arguments to a .npz or .safetensors file by parameter name, or to a folder as arg0.npy,
// arg1.npy, ...
hs_status repl_inputs_save(repl_cmd *, const char *path);

#endif
