// block.h — arguments and results as they cross between shell and worker: the leaves of a value
// one after the other in one piece of shared memory, dense and row-major, each at a multiple of 64
// bytes. One copy in, none out: result literals point into the block.
#ifndef BACKEND_BLOCK_H
#define BACKEND_BLOCK_H

#include "backends/backend.h"
#include "backends/wire.h"
#include "backends/worker.h"

static inline size_t block_align(size_t n) { return (n + 63) & ~(size_t)63; }
size_t block_leaf_bytes(const hlo_shape *leaf);  // storage of one leaf; 0 for tokens
size_t block_bytes(const hlo_shape *);           // all leaves of a shape
// The arguments' leaves in order, tokens left out; E_INPUT or E_ELIDED names the argument that does
// not fit its parameter. `leaf` has room for all of them, zeroed.
hs_status block_leaves(u32 n, const hlo_shape *const *params, u32 nargs, hlo_literal *const *args,
                       const hlo_literal **leaf);
// Their bytes in one block; errors as above.
hs_status block_pack(u32 n, const hlo_shape *const *params, u32 nargs, hlo_literal *const *args,
                     worker_shm *out);

// A block for results; literals made of it keep it alive. The maker drops its own hold with
// block_drop.
typedef struct block {
  worker_shm shm;
  int refs;
} block;
hs_status block_new(size_t bytes, block **out);
// of the leaves from *at on; moves *at past them
hlo_literal *block_literal(const hlo_shape *, block *, size_t *at);
void block_drop(block *);  // NULL is fine

// The timing that a run's reply begins with: first, transfer, dispatch (ms), samples, kernels.
void block_put_timing(hs_buf *, const backend_timing *);
void block_get_timing(wire_reader *, backend_timing *);

#endif
