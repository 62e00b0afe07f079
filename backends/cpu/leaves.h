// leaves.h — lowering a module to a program: the values that leaves of instructions become.
// Private to program.c and leaves.c.
#ifndef CPU_LEAVES_H
#define CPU_LEAVES_H

#include "backends/cpu/cpu.h"

// A value is read at a step, within a loop (index + 1; 0: none).
typedef struct cpu_use {
  u32 value;
  i32 pos;
  u32 loop;
} cpu_use;

typedef struct cpu_lowering {
  cpu_program *p;
  const cpu_maker *maker;  // NULL: the program runs here
  u32 **leaves;            // per instruction id: its leaf values
  u32 loop;                // innermost loop, index + 1
  const hlo_instr *at;     // the instruction being lowered
  u32 depth;               // of the computation being lowered, from the entry
  const bool *heavy;       // cpu_heavy_bodies
  const hlo_shape **laid;  // per instruction id: cpu_lay_out's answer, else NULL
  u32 lowered;             // instructions, once for every call that reaches them
  HS_VEC(cpu_use) uses;
} cpu_lowering;

// A new value of a leaf's shape, written at step `def`: leaf `leaf` of the instruction being
// lowered.
u32 cpu_new_value(cpu_lowering *, cpu_value_kind, const hlo_shape *, i32 def, u32 leaf);
void cpu_use_value(cpu_lowering *, u32 value, i32 pos);
i32 cpu_new_pos(cpu_lowering *);  // the number of the next step
// The values of a constant's leaves; advances *out past them.
void cpu_constant_leaves(cpu_lowering *, const hlo_shape *, const hlo_literal *, u32 **out);
// Which of a step's operand leaves, of the first 32, are constants: bit k, leaf k.
u32 cpu_constants_of(const cpu_lowering *, const cpu_step *);
// Brings leaves laid out as those of `from` into the layouts of `to`, with copies in block b where
// they differ.
void cpu_adapt_leaves(cpu_lowering *, const hlo_instr *, cpu_block *b, u32 *vals,
                      const hlo_shape *from, const hlo_shape *to);
// The same of leaf k alone: vals[k].
void cpu_adapt_leaf(cpu_lowering *, const hlo_instr *, cpu_block *b, u32 *vals, u32 k,
                    const hlo_shape *from, const hlo_shape *to);
// The leaves of a loop's parameter need not have the layouts of its shape where all that reads it
// are get-tuple-elements: then they get those of `want`, or, where that is NULL, those that the
// readers of each element have in common. The shape that says what they have.
const hlo_shape *cpu_lay_out(cpu_lowering *, const hlo_instr *param, const hlo_shape *want);
u32 *cpu_copy_leaves(cpu_lowering *, const u32 *vals, u32 n);  // in the program's arena
// The leaves of a computation's result, in the layouts of `shape`.
u32 *cpu_root_leaves(cpu_lowering *, const hlo_instr *, cpu_block *b, const hlo_computation *,
                     const hlo_shape *shape);
// The leaves of an instruction that only renames data (cpu_instr_is_alias).
void cpu_alias_leaves(cpu_lowering *, const hlo_instr *, cpu_block *b, u32 *out, u32 n);
// Follows leaf `leaf` back through instructions that only rename data; true when it is leaf *pleaf
// of the parameter of a loop body.
bool cpu_traces_to_parameter(const hlo_instr *, u32 leaf, u32 *pleaf);

#endif
