// scalar.h — scalar computations (comparators, combiners) inside runtime kernels: recognized ones
// have a fast path, the others run in a small register interpreter. Private to backends/cpu.
#ifndef CPU_SCALAR_H
#define CPU_SCALAR_H

#include "backends/cpu/cpu.h"

typedef struct cpu_scalar cpu_scalar;
// Whether the computation works on scalars only, with operations and types that are known here.
bool cpu_scalar_ok(const hlo_computation *);
// NULL when not cpu_scalar_ok. It keeps no pointer into the module.
cpu_scalar *cpu_scalar_compile(const hlo_computation *);
void cpu_scalar_free(cpu_scalar *);  // NULL is fine
// One evaluation: params and results point to elements of the types in the computation's signature.
// Thread-safe.
void cpu_scalar_run(const cpu_scalar *, const void *const *params, void *const *results);

typedef enum cpu_combine {
  CPU_COMB_OTHER,
  CPU_COMB_ADD,
  CPU_COMB_MUL,
  CPU_COMB_MIN,
  CPU_COMB_MAX,
  CPU_COMB_SECOND
} cpu_combine;
// The kind of a combiner (a, b) -> op(a, b) on one scalar type; SECOND returns b.
cpu_combine cpu_combine_of(const hlo_computation *);

// Order-preserving unsigned key of an element; floats in total order, or with -0 = +0 and every NaN
// alike, last.
// canonical: the second of these.
u64 cpu_order_key(hlo_dtype, const void *p, bool canonical);
bool cpu_has_order_key(hlo_dtype);  // whether cpu_order_key knows the type

#endif
