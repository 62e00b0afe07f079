// work.h: what one execution of a kernel does, counted from shapes: bytes by operand, operations by
// opcode and type, products, and accesses that are slower than a stream. Seconds come later
// (price.c), so one count serves all devices.
#ifndef PROF_WORK_H
#define PROF_WORK_H

#include "core/analysis/cost.h"

// Types that take equally long.
#define PROF_TYPES(X) \
  X(F32, "f32")       \
  X(F64, "f64") X(F16, "bf16") X(I32, "s32") X(I64, "s64") X(F8, "f8e4m3fn") X(I8, "s8")
#define PROF_TYPE(id, text) PROF_##id,
typedef enum prof_type { PROF_TYPES(PROF_TYPE) PROF_TYPE_COUNT } prof_type;
#undef PROF_TYPE
// Complex types as their parts, predicates as 8-bit integers, 16-bit integers as s32.
prof_type prof_type_of(hlo_dtype);

// The form of a matrix product, or of a convolution seen as one: [batch] m x k times k x n.
typedef struct prof_product {
  double batch, m, n, k;
  hlo_dtype type;    // of the operands
  bool convolution;  // the left matrix is gathered from an image
  bool grouped;      // with more than one group of features
  bool dilated;      // the window has holes
  double packed;     // elements of operands whose contracted dimensions are apart or out of order
  double turned;     // elements of a right operand that lies along what is summed up
  bool by_rows;      // n = 1 or m = 1: the matrix's contracted dimension is its fastest
  double operands;   // elements of both operands
  double taps;       // positions of the window
  bool gradient;     // of a convolution's filter
  double filter;     // elements of a filter that is put in order in each run
  double pieces;     // that the cpu backend cuts a convolution into; 1: none
  bool by_features;  // these are of its features: each thread puts its part of the filter in order
} prof_product;

// What runs as a loop of its own and not as a stream over elements.
typedef enum prof_special {
  PROF_STREAM,  // nothing of the kind
  PROF_PRODUCT,
  PROF_SORT,
  PROF_GATHER,
  PROF_SCATTER,
  PROF_FFT,
  PROF_SOLVE,  // factorizations and triangular solves
  PROF_WINDOW,
  PROF_RANDOM,
  PROF_TOPK,
  PROF_COLLECTIVE,
  PROF_UNKNOWN  // a custom call that nothing is known about
} prof_special;

typedef struct prof_count {
  hlo_opcode op;
  prof_type type;
  double elements;
} prof_count;
enum { PROF_MOST_COUNTS = 48 };

typedef struct prof_work {
  prof_special special;
  prof_product product;      // PRODUCT
  bool fused_product;        // a fusion with one product in it, which is the above; counted as well
  double items, item_bytes;  // GATHER, SCATTER: indices and what each moves; SORT: elements and
                             // bytes of all arrays per element
  double line;               // SORT: elements in a line; FFT: length; SOLVE: extent of a matrix
  double arrays;             // SORT: that are sorted together
  bool comparator;           // SORT: not by the keys' bits
  u32 compares;              // SORT: operations of the comparator
  bool copied;               // a concatenation by itself: parts are copied whole
  bool factors;              // SOLVE: a factorization
  double digits;             // SORT by keys: passes over them
  double slice;              // SCATTER: elements of an update
  double table;              // GATHER, SCATTER: bytes of the array that is looked up or changed
  double points;             // elements that loops run over, the parallelism
  double row;                // elements in the innermost loop; 1: it runs one by one
  double reduced_row, reduced_column;  // elements combined along the fastest dimension, or others
  double rows;  // that are combined along the fastest dimension, each to a value
  // of these elements and rows: with so few elements that lanes go over the rows
  double short_row, short_rows;
  double extremes;       // of the elements combined along rows: by maximum or minimum
  double whole;          // elements combined to one value
  bool single;           // something is: one result for all of the loop
  double against;        // elements combined in another order than they lie
  double against_pitch;  // bytes between these
  // elements that windows slide over along the fastest dimension, and the longest of these windows;
  // by whole rows, times how often they double to the window's length; elements of running totals
  double slid, slid_window, slid_rows, scanned, scanned_rows;
  double narrow;    // elements in loops whose innermost dimension is short and not flat
  double windowed;  // elements combined by windows inside a fused loop
  double combined;  // operations of reducers of more than one, over the elements they combine
  double widened;   // elements converted from 8-bit floating-point types
  double strided;   // elements read or written against their order in memory
  // bytes between these: the greatest distance of elements that are stored, or loaded, one after
  // the other
  double pitch, store_pitch;
  double crossed;        // elements that are stored before one is loaded beside another
  double indexed;        // elements found by an index inside a fused loop
  double divided;        // integers divided by a constant, 32 bits and less
  double divided_long;   // the same of 64 bits
  double gapped;         // elements read or written with steps between them, along a row
  double read, written;  // bytes
  double flops, transcendentals;
  bool free;    // nothing happens at run time: the result is the operand
  u32 ncounts;  // operations by opcode and type; those beyond the room count as the last
  prof_count counts[PROF_MOST_COUNTS];  // the last member: beyond ncounts it is not written
} prof_work;

// Counts an instruction that runs as a kernel of its own; not one of control flow.
void prof_count_work(const hlo_instr *, const hlo_cost *, prof_work *out);

// The form of a convolution of so many operations, seen as a product.
prof_product prof_conv_form(const hlo_instr *, double flops);

// A kernel that changes part of an array: bytes of all of it, which are copied first where the
// array is still needed; 0: it is none. And the operand that the array is; NULL: not a whole one.
double prof_updated_bytes(const hlo_instr *);
const hlo_instr *prof_updated_operand(const hlo_instr *);

#endif
