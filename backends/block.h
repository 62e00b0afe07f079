// block.h — arguments and results as they cross between shell and worker: the leaves of a value
// one after the other in one block of shared memory, dense and row-major, each at a multiple of 64
// bytes. Arguments are copied once, results not at all: their literals point into the block.
#ifndef BACKEND_BLOCK_H
#define BACKEND_BLOCK_H

#include "backends/backend.h"
#include "backends/wire.h"
#include "backends/worker.h"

// Sizes beyond any address space saturate at BLOCK_TOO_LARGE, also in sums made by block_add;
// allocating that much fails like any other request that is too large.
#define BLOCK_TOO_LARGE ((size_t)1 << 62)
static inline size_t block_align(size_t n) { return (n + 63) & ~(size_t)63; }
// Sum of two sizes, each at most BLOCK_TOO_LARGE.
static inline size_t block_add(size_t a, size_t b) { return HS_MIN(a + b, BLOCK_TOO_LARGE); }
// Bytes of one leaf, dense in its storage type; 0 for tokens.
size_t block_leaf_bytes(const hlo_shape *leaf);
// Bytes of all leaves of a shape, each at a multiple of 64.
size_t block_bytes(const hlo_shape *);
// The arguments' leaves in order, tokens left out; E_INPUT or E_ELIDED names the argument that does
// not fit its parameter. `leaf` has room for all of them, zeroed.
hs_status block_leaves(u32 n, const hlo_shape *const *params, u32 nargs, hlo_literal *const *args,
                       const hlo_literal **leaf);
// Their bytes in one new shared block, the caller's to free; errors as above, or E_NO_MEMORY.
hs_status block_pack(u32 n, const hlo_shape *const *params, u32 nargs, hlo_literal *const *args,
                     worker_shm *out);

// Packed arguments that are kept, so that they need not be packed again. All zero: none.
typedef struct block_kept {
  u64 number;  // of the contents: grows with every packing
  worker_shm shm;
  u32 n;
  const hlo_literal **leaf;  // what lies in it, a reference to each
} block_kept;
// As block_pack, into *kept, unless these very literals are what it holds.
hs_status block_keep(u32 n, const hlo_shape *const *params, u32 nargs, hlo_literal *const *args,
                     block_kept *kept);
void block_forget(block_kept *);  // number stays

// A block for results, counted by references: each literal made of it holds one, and its maker one,
// which it gives up with block_drop.
typedef struct block {
  worker_shm shm;
  int refs;
} block;
hs_status block_new(size_t bytes, block **out);  // *out: NULL after an error
// A literal of that shape whose leaves begin at *at; advances *at past them.
hlo_literal *block_literal(const hlo_shape *, block *, size_t *at);
// Copies what is in it to memory of its own, where the worker that wrote it cannot change it any
// more, between a check and a use of it, say. For the results of workers that are not trusted.
hs_status block_own(block *);
void block_drop(block *);  // NULL is fine

// What of the run options a process has to know: three numbers, two times, one flag (host is not
// sent).
void block_put_options(hs_buf *, const backend_run_options *);
backend_run_options block_get_options(wire_reader *);
// The timing that a run's reply begins with: first, transfer, dispatch (ms), power, samples,
// kernels.
void block_put_timing(hs_buf *, const backend_timing *);
// Reads it; the arrays are the caller's to free (backend_result_free). A reply that is cut short,
// holds times or energies that are not finite or negative, or times of another number of kernels
// than `nkernels` (or 0) is E_WORKER, and *out is empty: what a worker sends is checked like any
// input.
hs_status block_get_timing(wire_reader *, u32 nkernels, backend_timing *out);

#endif
