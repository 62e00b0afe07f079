// rt.h — runtime kernels of the cpu backend: kernels in C and library calls for what is not
// emitted, and what they stand on. Lowest first; each calls only those above it in this list:
//
//   par.c      the parallel loop over chunks
//   layout.c   strides, and copies from one order of elements to another
//   scalar.c   comparators and combiners
//   the rest   the kernels; one row each in rt.def
//   rt.c       their table, relayouts around those that want row-major arrays, what they keep
#ifndef CPU_RT_H
#define CPU_RT_H

#include "backends/block.h"
#include "backends/emit/emit.h"

// Most bytes that one array, or one area of a program (arguments, results, temporaries), may take:
// what a process can address. Larger programs are refused by name; below it no sum overflows.
#define CPU_MAX_BYTES ((size_t)1 << 47)

// Up to the next multiple of 64 bytes, at which every part of a kernel's scratch begins; of sizes
// that are not signed: block_align.
static inline i64 cpu_align(i64 bytes) { return (i64)block_align((size_t)bytes); }

// ---- par.c --------------------------------------------------------------------------------------
// Calls fn(ctx, chunk, thread) for every chunk, each once, on the threads set; returns when all are
// done. The number of chunks must come from shapes, never from the number of threads.
typedef void cpu_par_fn(void *ctx, i64 chunk, u32 thread);
enum { CPU_MOST_THREADS = 256 };
void cpu_par_for(cpu_par_fn *fn, void *ctx, i64 chunks);
// Before a run: sets the number of threads (0 = all); each of them flushes denormals.
void cpu_par_begin(u32 threads);
// Until the next cpu_par_begin: denormals are kept, by the calling thread and all others.
void cpu_par_keep_denormals(void);
bool cpu_par_keeps_denormals(void);
void cpu_par_end(void);     // after a run: the pool sleeps
u32 cpu_par_threads(void);  // as set by cpu_par_begin
// Memory of the calling thread, aligned for vectors, which it keeps for the next caller: at least
// so many bytes with any content. NULL when there is none. One user at a time: what a chunk has put
// there, later chunks of the loop find on the same thread. For what its caches hold.
void *cpu_par_memory(size_t bytes);
// Around calls of a library that brings its own threads (OpenMP's), and around what it prepares for
// them: while the work is `away` the library has all of the threads and the pool sleeps; else it
// has one.
void cpu_par_hand_over(bool away);

// ---- rt.c ---------------------------------------------------------------------------------------
// Memory that a kernel keeps from its first run until it is freed, for what it makes of operands
// that are fixed: weights in the order that its loops read.
typedef struct cpu_kept {
  i64 bytes;     // 0: nothing is kept
  bool filled;   // by a run that came to its end
  char *at;      // aligned for vectors; NULL before the first run
  void *memory;  // what is allocated
} cpu_kept;
// So many bytes more; where they begin.
i64 cpu_keep(cpu_kept *, i64 bytes);
// Whether the kernel has to fill it now; allocates it then. E_NO_MEMORY.
hs_status cpu_kept_open(cpu_kept *, bool *fill);
void cpu_kept_free(cpu_kept *);

// ---- runtime kernels ----------------------------------------------------------------------------
// A prepared runtime kernel. bufs: operand leaves, then result leaves (physical order by each
// shape's layout).
typedef struct cpu_rt {
  const char *kind;  // for the kernel table: "dot (oneDNN)", "sort (radix)"
  void *state;
  hs_status (*run)(void *state, void *const *bufs, void *scratch);
  void (*release)(void *state);  // NULL: hs_free
  i64 scratch_bytes;
  // bit k: operand leaf k holds the same bytes in every run; said before it is prepared
  u32 fixed;
  i64 kept_bytes;  // what it keeps of those, beside its scratch
  // bit k: result leaf k may share the storage of operand leaf k
  u32 inplace;
  bool strided;  // this one reads the layouts of its arrays itself, whatever its row says
  // in the state: a computation that is to be compiled with the program (scalar.h); NULL: none
  struct cpu_lanes *compiled;
} cpu_rt;
typedef hs_status cpu_rt_prepare(const hlo_instr *, cpu_rt *out);
typedef bool cpu_rt_supports(const hlo_instr *);
// any_layout: reads strides itself; otherwise cpu_rt_make puts relayouts around it. first:
// preferred to the emitter.
typedef struct cpu_rt_kind {
  hlo_opcode opcode;
  cpu_rt_supports *supports;
  cpu_rt_prepare *prepare;
  bool any_layout, first;
} cpu_rt_kind;
const cpu_rt_kind *cpu_rt_find(const hlo_instr *);  // NULL: there is no runtime kernel for it
// A prepared kernel, freed by cpu_rt_free, with relayouts around it where it needs row-major
// arrays. fixed: as in cpu_rt. E_UNSUPPORTED when there is none.
hs_status cpu_rt_make(const hlo_instr *, u32 fixed, cpu_rt *out);
void cpu_rt_free(cpu_rt *);
#define RT(OPCODE, name, any_layout, first) \
  cpu_rt_supports cpu_##name##_supports;    \
  cpu_rt_prepare cpu_##name##_prepare;
#include "backends/cpu/rt/rt.def"
#undef RT

// The batch dims of gather and scatter, outermost first: along each, the steps in the array of
// indices, in the operand, and in the third array (a gather's result, a scatter's updates).
typedef struct cpu_batch {
  u32 n;
  i64 dims[HLO_MAX_RANK], index[HLO_MAX_RANK], operand[HLO_MAX_RANK], third[HLO_MAX_RANK];
} cpu_batch;

// Offsets of the k-th batch element, in the units of the steps.
static inline void cpu_batch_at(const cpu_batch *b, i64 k, i64 *index, i64 *operand, i64 *third) {
  *index = *operand = *third = 0;
  for (u32 d = b->n; d-- > 0;) {
    i64 c = k % b->dims[d];
    k /= b->dims[d];
    *index += c * b->index[d];
    *operand += c * b->operand[d];
    *third += c * b->third[d];
  }
}

// One dim more, inside of those before it; merged where all three arrays allow it.
static inline void cpu_batch_add(cpu_batch *b, i64 dim, i64 index, i64 operand, i64 third) {
  if (dim == 1) return;
  u32 k = b->n;
  if (k && b->index[k - 1] == index * dim && b->operand[k - 1] == operand * dim &&
      b->third[k - 1] == third * dim)
    b->dims[--k] *= dim;
  else b->dims[k] = dim;
  b->index[k] = index, b->operand[k] = operand, b->third[k] = third;
  b->n = k + 1;
}

// ---- narrow.c --------------------------------------------------------------------------------
// The instruction sets that kernels are written for, and the widest that this machine has.
typedef enum cpu_vector_set { CPU_BASE, CPU_AVX2, CPU_AVX512 } cpu_vector_set;
cpu_vector_set cpu_vectors(void);
// n elements of a floating-point type of 32 bits or less to f32, exactly, and back, rounded to
// nearest even.
void cpu_to_f32(float *to, const void *from, hlo_dtype, i64 n);
// Rows of n, `step` and `stride` elements apart.
void cpu_to_f32_rows(float *to, i64 step, const void *from, i64 stride, hlo_dtype, i64 n, i64 rows);
void cpu_from_f32(void *to, hlo_dtype, const float *from, i64 n);

#if HAVE_DNNL
// dot_dnnl.c: the process's engine and stream; NULL when they cannot be made.
struct dnnl_engine *cpu_dnnl_engine(void);
struct dnnl_stream *cpu_dnnl_stream(void);
#endif
// Whether oneDNN's products of bf16 are faster than those of f32 on this machine.
bool cpu_dnnl_fast_bf16(void);

// ---- chain.c ------------------------------------------------------------------------------------
// A product, a kernel along the rows of its result, and a product of what that makes, as in
// attention: first, rows, last. in: the leaf of the kernel's operands (of `nin`) that first
// computes. False when they cannot be, or need not be, computed in pieces of rows that stay in the
// cache. Else *out computes the last one's result. Its bufs: first's two operands, the kernel's
// operand leaves (that at `in` is not looked at), last's right operand, the result.
bool cpu_chain_make(const hlo_instr *first, const emit_kernel *rows, u32 nin, u32 in,
                    const hlo_instr *last, cpu_rt *out);

// ---- layout.c -----------------------------------------------------------------------------------
// strides[d]: elements between neighbours along logical dimension d; room for leaf->rank of them.
void cpu_strides(const hlo_shape *leaf, i64 *strides);
// Whether two arrays have the same dims and the same strides along those longer than 1.
bool cpu_same_order(const hlo_shape *, const hlo_shape *);
// Whether the value of one is that of the other byte for byte, where both hold the same elements in
// logical row-major order (as across a reshape or a copy).
bool cpu_same_bytes(const hlo_shape *, const hlo_shape *);
// Copies one array to another element order: both described by strides (in elements) over the same
// `rank` dims; elem: bytes of an element (1, 2, 4, 8 or 16). The arrays do not overlap. Runs on all
// threads when it is large.
void cpu_relayout(void *dst, const i64 *dst_strides, const void *src, const i64 *src_strides,
                  u32 rank, const i64 *dims, size_t elem);
// to[k * step + l] = from[l][k] for `count` lanes l, which lie `lane` bytes apart, and n units k of
// 4 or 8 bytes; step: units.
void cpu_turn(char *to, i64 step, const char *from, i64 lane, i64 count, i64 n, size_t unit);

// ---- linalg.c -----------------------------------------------------------------------------------
// Factors of matrices and triangular systems, of operations and LAPACK calls.
typedef struct cpu_linalg {
  enum {
    CPU_LINALG_CHOLESKY,
    CPU_LINALG_TRIANGULAR,
    CPU_LINALG_LU,
    CPU_LINALG_QR,
    CPU_LINALG_QR_PRODUCT
  } kind;
  hlo_dtype type;
  i64 batch, n, m, k;  // triangular: A is n x n; X is m x k. LU, QR: of m x n, k reflectors
  // keep_other: the other triangle keeps the input (LAPACK)
  bool lower, left, unit, trans, conj, keep_other;
  bool info;                  // a second result per matrix: 0, or the order of the failing minor
  bool as_they_lie;           // else all arrays are row-major
  bool a_columns, x_columns;  // A and X lie by columns
  bool turns;                 // of a factor and A one lies by columns, the other by rows
} cpu_linalg;
// What the instruction is; false: no Cholesky factor and no system.
bool cpu_linalg_of(const hlo_instr *, cpu_linalg *out);
// Whether matrices lie by columns, one after the other.
bool cpu_by_columns(const hlo_shape *);

#endif
