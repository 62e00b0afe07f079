// unit.h — inside of backends/emit: the unit of compilation.
#ifndef EMIT_UNIT_H
#define EMIT_UNIT_H

#include "backends/emit/emit.h"
#include "backends/emit/nest/nest.h"
#include "backends/emit/region.h"
#include <llvm-c/Types.h>
#include <pthread.h>

// What generated code calls by its name: constant arrays, and functions of this program.
enum { EMIT_SYMBOL_BYTES = 96 };

// serial.c: appends the nest as bytes; equal bytes mean equal functions.
void nest_serialize(const nest *, hs_buf *);

// One distinct function: the kernels that share it point here.
typedef struct emit_body {
  char name[56];   // of its function
  const char *of;  // the first instruction that it computes, for messages
  u64 hash;
  hs_arena arena;
  nest *n;
  hs_buf key;
  hs_status err;  // of its compilation
  emit_entry *fn, *finish;
  size_t fn_bytes, finish_bytes;  // of their code
  u32 users, inlined;    // kernels that are this function; those of them that regions inline
  bool placed;           // the JIT knows where its constant arrays are
  pthread_mutex_t lock;  // of the nest, while code is generated from it
} emit_body;

// serial.c: appends what decides about the code of a body or a region: equal bytes, equal code.
void emit_body_identity(const emit_body *, hs_buf *);
void emit_region_identity(const emit_region *, hs_buf *);
// Constant array k of the body of that name.
void emit_constant_symbol(const char *body, size_t k, char out[EMIT_SYMBOL_BYTES]);
// vmath.c: every function that generated code may call.
void emit_each_helper(void (*with)(void *arg, const char *symbol, u64 address), void *arg);

// region.c: adds the region's function to the module, with the kernels that it inlines.
hs_status emit_region_code(const emit_region *, LLVMContextRef, LLVMModuleRef,
                           const emit_options *);
// emit.c: whether the program makes what the instruction is from arguments that stay as they are,
// and never reads it again.
bool emit_ends_there(const hlo_instr *);
// emit.c: adds a body's function to the module.
hs_status emit_body_code(emit_body *, LLVMContextRef, LLVMModuleRef, const emit_options *);

// Up to so many bytes, what a slot always holds is written into a region's code.
enum { EMIT_KNOWN_BYTES = 256 };
// Constant arrays are copied: the module they come from may be freed before the code.
void emit_own_constants(nest *);
void emit_free_constants(nest *);

// What is compiled together. known: all bodies of the unit, also those that regions inline.
typedef struct emit_work {
  u32 nbodies, nregions, nknown;
  emit_body *const *bodies, *const *known;
  emit_region *const *regions;
} emit_work;

// jit.c: what knows LLVM's passes and its linker. Compiles bodies and regions on threads and gives
// them their entry points.
typedef struct emit_jit emit_jit;
hs_status emit_jit_new(const emit_options *, emit_jit **out);  // keeps a copy of the options
void emit_jit_free(emit_jit *);  // with the code that it compiled; NULL is fine
u32 emit_vector_bytes(void);     // of this machine's widest registers worth using
i64 emit_cache_bytes(void);      // of this machine's last cache; 0: not known
i64 emit_near_bytes(void);       // of its caches where stores are faster than in memory
// Compiles what is to be done on `threads` threads and sets the entry points; takes from `code`
// what fits (NULL: nothing). E_UNSUPPORTED or E_INTERNAL of the first that fails.
hs_status emit_jit_compile(emit_jit *, const emit_work *, u32 threads, emit_code *code);
// Their text: LLVM IR, or assembly of this machine; the bodies as one module, each region as one.
hs_status emit_jit_text(const emit_options *, const emit_work *, bool assembly, hs_buf *out);
void emit_jit_warm_up(void);  // runs LLVM once over an empty function

#endif
