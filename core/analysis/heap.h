// heap.h — where buffers lie in one area of memory, given their sizes and live ranges.
#ifndef HLO_HEAP_H
#define HLO_HEAP_H

#include "core/base/base.h"

// A buffer: needed at steps first..last, both included, of a schedule: there is memory for a number
// for each step between the first and the last of all. `offset` is the result.
typedef struct hlo_heap_buffer {
  size_t bytes, offset;
  i32 first, last;
} hlo_heap_buffer;

// Every offset and size is a multiple of this many bytes.
#define HLO_HEAP_ALIGN ((size_t)64)
static inline size_t hlo_heap_align(size_t n) {
  return (n + HLO_HEAP_ALIGN - 1) & ~(HLO_HEAP_ALIGN - 1);
}

// Gives offsets to n buffers, each in the smallest gap that fits among those live at the same time:
// largest first (XLA's GlobalDecreasingSizeBestFitHeap), and where that leaves holes in another
// order if it leaves less of them. *total: the end of the last one; the sizes must be at most
// `most`, and placing stops with false when the area would grow beyond it, or when the user
// interrupts. Time is quadratic in n.
bool hlo_heap_place(u32 n, hlo_heap_buffer *buffers, size_t most, size_t *total);
// The largest sum of aligned sizes live at one step, and that step (the first; NULL: not asked
// for): what an allocator without fragmentation needs. steps: all of first and last are below.
size_t hlo_heap_live_peak(u32 n, const hlo_heap_buffer *buffers, u32 steps, u32 *at);

#endif
