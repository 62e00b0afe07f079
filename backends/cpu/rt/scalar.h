// scalar.h — scalar computations (comparators, combiners) inside runtime kernels: recognized ones
// have a fast path, the others run in a small register interpreter. Private to backends/cpu.
#ifndef CPU_SCALAR_H
#define CPU_SCALAR_H

#include "backends/cpu/rt/rt.h"

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
  CPU_COMB_AND,
  CPU_COMB_OR,
  CPU_COMB_XOR,
  CPU_COMB_SECOND
} cpu_combine;
// The kind of a combiner (a, b) -> op(a, b) on one scalar type; SECOND returns b.
cpu_combine cpu_combine_of(const hlo_computation *);

// A scalar computation on `lanes` elements side by side, compiled with the program that holds it.
typedef struct cpu_lanes {
  hlo_module *m;              // of its own, with one kernel in it
  const hlo_instr *instr;     // to be given to the emitter
  const emit_kernel *kernel;  // set by then
} cpu_lanes;
// Of a computation from scalars to one or to a tuple of them. False when the emitter cannot. The
// context of its shapes must outlive it.
bool cpu_lanes_make(const hlo_computation *, i64 lanes, cpu_lanes *out);
void cpu_lanes_free(cpu_lanes *);  // of zeros is fine
// bufs: an array for each argument, then for each result; aligned to 64 bytes. A result may be in
// the place of an argument of its type.
void cpu_lanes_run(const cpu_lanes *, void *const *bufs);

// ---- monoid.c: associative operations on n arrays at once ------------------------------------
enum { CPU_MONOID_MOST = 8 };
typedef struct cpu_monoid {
  u32 n;
  hlo_dtype type[CPU_MONOID_MOST];
  size_t size[CPU_MONOID_MOST];        // bytes of an element
  const struct cpu_monoid_code *code;  // of one of the machine's types; NULL: compiled
  cpu_lanes lanes;
} cpu_monoid;
// False when there are too many arrays, or an operation that neither C nor the emitter has. `types`
// may be wider than the computation's where it is one of cpu_combine. Freed by cpu_monoid_free.
bool cpu_monoid_make(const hlo_computation *, u32 n, const hlo_dtype *types, cpu_monoid *out);
void cpu_monoid_free(cpu_monoid *);
// In all of these, pointers are to arrays of n elements (c: one), one for each array of the monoid;
// out may be the same as an operand.
// out = a op b, element by element.
void cpu_monoid_combine(const cpu_monoid *, void *const *out, void *const *a, void *const *b,
                        i64 n);
// out = c op a, or a op c with the same c for all; for sums and the like that is one.
void cpu_monoid_offset(const cpu_monoid *, void *const *out, void *const *c, void *const *a,
                       bool c_last, i64 n);
// out[k] = start op in[0] op ... op in[k]; reverse: start op in[n - 1], with those before it, down
// to in[k]. start NULL: without it.
void cpu_monoid_scan(const cpu_monoid *, void *const *out, void *const *in, void *const *start,
                     i64 n, bool reverse);
// Whether the value is known to change nothing.
bool cpu_monoid_is_identity(const cpu_monoid *, void *const *value);

// Order-preserving unsigned key of an element; floats in total order, or with -0 = +0 and every NaN
// alike, last.
// canonical: the second of these.
u64 cpu_order_key(hlo_dtype, const void *p, bool canonical);
bool cpu_has_order_key(hlo_dtype);  // whether cpu_order_key knows the type

// ---- order.c ---------------------------------------------------------------------------------
// cpu_order_key of n elements, `step` bytes apart, xor flip; types of at most 32 bits.
void cpu_narrow_keys(hlo_dtype, bool canonical, u32 flip, const char *p, size_t step, i64 n,
                     u32 *out);
typedef struct cpu_item {
  u64 key;
  u32 index;
} cpu_item;
enum { CPU_RADIX_BINS = 2048, CPU_RADIX_PARTS = 64 };
// Sort n records by bits [low, low + bits), of items those of their keys, stably, on `parts`
// threads (at most CPU_RADIX_PARTS). t has room for n as well; count for CPU_RADIX_BINS a thread.
void cpu_radix_u32(u32 *a, u32 *t, i64 n, int low, int bits, u32 *count, i64 parts);
void cpu_radix_u64(u64 *a, u64 *t, i64 n, int low, int bits, u32 *count, i64 parts);
void cpu_radix_item(cpu_item *a, cpu_item *t, i64 n, int low, int bits, u32 *count, i64 parts);
// The same of numbers on one thread.
void cpu_sort_u64(u64 *a, u64 *t, i64 n, int low, int bits);
// The k least keys of elements [lo, hi) of a line, as cpu_narrow_keys has them, in order: key << 32
// | index. Returns how many there are. `best` has room for 2 * k + CPU_LEAST_ROOM.
enum { CPU_LEAST_ROOM = 256 };
i64 cpu_least(hlo_dtype, bool canonical, u32 flip, const char *line, size_t step, i64 lo, i64 hi,
              i64 k, u64 *best);

#endif
