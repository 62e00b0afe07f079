// unit.h — inside of backends/emit: the unit of compilation.
#ifndef EMIT_UNIT_H
#define EMIT_UNIT_H

#include "backends/emit/emit.h"
#include "backends/emit/nest.h"

// serial.c: appends the nest as bytes; equal bytes mean equal functions.
void nest_serialize(const nest *, hs_buf *);

// One distinct function: the kernels that share it point here.
typedef struct emit_body {
  char name[24];
  const char *of;  // the first instruction that it computes, for messages
  u64 hash;
  hs_arena arena;
  nest *n;
  hs_buf key;
  hs_status err;  // of its compilation
  emit_entry *fn, *finish;
} emit_body;

// jit.c: what knows LLVM. Compiles bodies on threads and gives them their entry points.
typedef struct emit_jit emit_jit;
hs_status emit_jit_new(const emit_options *, emit_jit **out);  // keeps a copy of the options
void emit_jit_free(emit_jit *);  // with the code that it compiled; NULL is fine
u32 emit_vector_bytes(void);     // of this machine's widest registers worth using
// Compiles n bodies on `threads` threads and sets their entry points. E_UNSUPPORTED or E_INTERNAL
// of the first body that fails.
hs_status emit_jit_compile(emit_jit *, u32 n, emit_body *const *, u32 threads);
// The text of the bodies as one module: LLVM IR, or assembly of this machine.
hs_status emit_jit_text(const emit_options *, u32 n, emit_body *const *, bool assembly,
                        hs_buf *out);
void emit_jit_warm_up(void);  // runs LLVM once over an empty function

#endif
