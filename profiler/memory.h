// memory.h — a memory plan: the buffers of a program, where each lies, when it is live, and which
// values lie in it. One form for all who make one (a backend's buffer assignment, the model of
// core/analysis, XLA's report) and all who show one (table, timeline, picture, JSON).
#ifndef PROF_MEMORY_H
#define PROF_MEMORY_H

#include "core/ir/ir.h"

// In the order of XLA's words for them; prof_buffer_kind_text gives the word.
typedef enum prof_buffer_kind {
  PROF_BUFFER_PARAMETER,
  PROF_BUFFER_OUTPUT,
  PROF_BUFFER_TEMPORARY,
  PROF_BUFFER_CONSTANT,
  PROF_BUFFER_THREAD_LOCAL,
  PROF_BUFFER_KINDS
} prof_buffer_kind;
const char *prof_buffer_kind_text(prof_buffer_kind);

// Bytes that one or several values share. Each kind has an area of its own; offsets are in it.
typedef struct prof_buffer {
  prof_buffer_kind kind;
  i64 bytes, offset;
  i32 first, last;  // steps at which it is needed, both included
  // holds a result: with kind PARAMETER, a donated argument; with kind OUTPUT it is false of a
  // temporary in the memory of a result that is made later
  bool output;
} prof_buffer;

// A leaf array of an instruction's value, or (scratch) memory that its kernel works in.
typedef struct prof_buffer_value {
  u32 buffer;
  const char *instr;  // without '%'
  u32 leaf;           // of the instruction's shape
  i64 bytes;
  i32 first, last;  // first: the step that makes it, -1 before all; last: its last reader
  bool scratch;
} prof_buffer_value;

// A step of the program, in the order of execution, loop bodies once; or the end of one.
typedef struct prof_memory_step {
  const char *instr;
  bool end;
} prof_memory_step;

// Freed by prof_memory_free; all zero is an empty one. temp_bytes is the size of the area of
// temporaries; live_bytes, what of it is live at once at most: the difference is fragmentation.
// mapped_bytes: what a process that runs it holds, whole pages (0: not known); resident_bytes: how
// much of that has memory behind it now (of a plan without areas: 0; not known: -1).
typedef struct prof_memory {
  hs_arena arena;
  u32 nsteps, nbuffers, nvalues;
  prof_memory_step *steps;
  prof_buffer *buffers;
  prof_buffer_value *values;
  i64 argument_bytes, output_bytes, alias_bytes, temp_bytes, live_bytes, mapped_bytes,
      resident_bytes;
} prof_memory;
void prof_memory_free(prof_memory *);
// arguments + outputs - alias + temporaries.
i64 prof_memory_peak(const prof_memory *);

// The plan of a module by the rules of core/analysis/live.h: for a device whose backend is not
// here. What a loop or call needs inside is one buffer at its step. per_instruction: nothing is
// shared, as in the baseline. E_LIMIT for sizes beyond 2^62; poll errors.
hs_status prof_memory_model(const hlo_module *, bool per_instruction, prof_memory *out);

// Bytes of temporaries live at every step: nsteps numbers, the caller's array.
void prof_memory_live(const prof_memory *, i64 *bytes);
// The first step at which most temporaries are live; 0 in a plan without steps.
u32 prof_memory_peak_step(const prof_memory *);

// Appends the table of buffers as text: a line per buffer, with its values behind it.
void prof_memory_print(const prof_memory *, hs_buf *);
// Appends a bar chart of `live` (n numbers, at most `columns` bars, each the largest of its steps),
// `rows` lines high, in UTF-8 block characters, or '#' with ascii.
void prof_memory_chart(const i64 *live, u32 n, u32 columns, u32 rows, bool ascii, hs_buf *);
// The column of a step in the chart of n steps.
u32 prof_memory_column_of(u32 n, u32 columns, u32 step);

#endif
