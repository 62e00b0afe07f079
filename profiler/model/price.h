// price.h: seconds of what a kernel does (work.h) on a device.
#ifndef PROF_PRICE_H
#define PROF_PRICE_H

#include "profiler/model/prof.h"
#include "profiler/model/work.h"

// Bytes of one operand or result, and where they are found: the bytes that were moved since they
// were last touched, which is the least cache that still holds them (LRU stack distance).
// handed: the part of them that has to come from the caches of other threads, or leave them;
// over: that is written where the kernel itself reads.
typedef struct prof_place {
  double bytes, distance;
  bool written;
  double handed, over;
} prof_place;

// Which thread does what of a kernel on a processor: one everything, each a run of consecutive
// elements, or each a part that elsewhere is several threads'.
typedef enum prof_sharing { PROF_BY_ONE = 1, PROF_IN_RUNS = 2, PROF_ACROSS = 4 } prof_sharing;

// The smaller of memory and computation costs that part of its time even so, on a processor.
#define PROF_EXPOSED 0.3

// Products with so few rows or columns load too much for each operation to hide it.
#define PROF_NARROW 16

// The other two extents of the products by which a short one is measured.
#define PROF_LONG 384

// One execution on a machine that was calibrated (d->measured) ...
void prof_price_cpu(const prof_work *, const prof_device *, u32 n, const prof_place *,
                    prof_kernel *out);
// How threads of that machine share the work, by what it is.
prof_sharing prof_cpu_sharing(const prof_work *, const prof_device *);
// ... and on a GPU or TPU from its description: a roofline with the utilization that the sizes
// allow.
void prof_price_accelerator(const prof_work *, const prof_device *, u32 n, const prof_place *,
                            prof_kernel *out);

// The part of the matrix units' time that does useful work: the rest is padding and waiting.
double prof_product_utilization(const prof_product *, const prof_device *);
// Operations per second of products of that type.
double prof_product_peak(const prof_device *, hlo_dtype);

#endif
