// price.h: seconds of what a kernel does (work.h) on a device.
#ifndef PROF_PRICE_H
#define PROF_PRICE_H

#include "profiler/model/prof.h"
#include "profiler/model/work.h"

// Bytes of one operand or result, and where they are found: the bytes that were moved since they
// were last touched, which is the least cache that still holds them (LRU stack distance).
typedef struct prof_place {
  double bytes, distance;
  bool written;
} prof_place;

// The smaller of memory and computation costs that part of its time even so, on a processor.
#define PROF_EXPOSED 0.3

// Products with so few rows or columns load too much for each operation to hide it.
#define PROF_NARROW 16

// One execution on a machine that was calibrated (d->measured) ...
void prof_price_cpu(const prof_work *, const prof_device *, u32 n, const prof_place *,
                    prof_kernel *out);
// ... and on a GPU or TPU from its description: a roofline with the utilization that the sizes
// allow.
void prof_price_accelerator(const prof_work *, const prof_device *, u32 n, const prof_place *,
                            prof_kernel *out);

// The part of the matrix units' time that does useful work: the rest is padding and waiting.
double prof_product_utilization(const prof_product *, const prof_device *);
// Operations per second of products of that type.
double prof_product_peak(const prof_device *, hlo_dtype);

#endif
