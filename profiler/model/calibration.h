// calibration.h: what one machine takes for elementary work, as its backend does it: a file per
// processor model, backend and version, which `calibrate` writes and estimates read.
//
// Figures are of kernels that the backend compiled, not of its hardware, so that what a code
// generator loses is in them. The form is text, one figure or curve a line; a reader checks every
// value, and a file that does not fit entirely is not used.
#ifndef PROF_CALIBRATION_H
#define PROF_CALIBRATION_H

#include "profiler/model/prof.h"
#include "profiler/model/work.h"

// A function of a size by points, x rising: between them log-log interpolation, outside constant.
enum { PROF_CURVE_POINTS = 20 };
typedef struct prof_curve {
  u32 n;
  double x[PROF_CURVE_POINTS], y[PROF_CURVE_POINTS];
} prof_curve;
double prof_curve_at(const prof_curve *, double x);     // 0 for a curve without points
void prof_curve_add(prof_curve *, double x, double y);  // x above the last one's
// The next point of c[1], whose x c[0] has: all threads together are no slower than one, and one no
// slower than its part of what they do, whatever else ran. bytes: of memory, where the caches of
// all hold what that of one does not.
void prof_curve_add_all(prof_curve c[2], double x, double y, u32 threads, bool bytes);

// XLA:CPU hands a run to another thread, but for those of fewer operations, by its own count, in
// which a loop counts once (PjRtCpuClient, "cheap computation").
#define PROF_XLA_CHEAP 1000

// FIGURE(name, what it is): seconds, or seconds per what is named.
#define PROF_FIGURES(FIGURE)                                                        \
  FIGURE(run_s, "a run of a program with nothing in it")                            \
  FIGURE(cheap_run_s, "the same where XLA does not hand it to another thread")      \
  FIGURE(kernel_s, "a kernel with nothing to do")                                   \
  FIGURE(parallel_s, "a loop that the threads share, with nothing to do")           \
  FIGURE(loop_s, "an iteration of a while loop, its kernels aside")                 \
  FIGURE(narrow_s, "element of a loop over short rows that are not in sequence")    \
  FIGURE(widen_s, "element converted from an 8-bit float")                          \
  FIGURE(row_s, "element that is combined along its row")                           \
  FIGURE(row_end_s, "a row that is combined, beside its elements")                  \
  FIGURE(extreme_s, "element of a row of which the greatest is wanted, above that") \
  FIGURE(column_s, "element that is combined across rows")                          \
  FIGURE(against_s, "element that is combined against the order of memory")         \
  FIGURE(slide_rows_s, "element of windows over whole rows, for each doubling")     \
  FIGURE(scan_s, "element of a running total")                                      \
  FIGURE(scan_rows_s, "the same by whole rows")                                     \
  FIGURE(scalar_s, "operation on a single value that waits for the one before")     \
  FIGURE(divide_s, "integer divided by a constant")                                 \
  FIGURE(divide_long_s, "64-bit integer divided by a constant")                     \
  FIGURE(gapped_s, "element of a slice with steps inside a loop")                   \
  FIGURE(meeting_s, "a device at an operation between devices")                     \
  FIGURE(reshard_s, "a device where arrays of all become its part, or the reverse") \
  FIGURE(strided_s, "element moved across the order of memory")                     \
  FIGURE(indexed_s, "element read at an index inside a loop")                       \
  FIGURE(scatter_element_s, "element of a scattered slice")                         \
  FIGURE(comparator_s, "comparison of a sort with a comparator")                    \
  FIGURE(topk_s, "element that is looked at for the largest")                       \
  FIGURE(fft_s, "operation of a Fourier transform")                                 \
  FIGURE(window_s, "position that select-and-scatter looks at")                     \
  FIGURE(random_s, "word of random bits")                                           \
  FIGURE(product_s, "a matrix product with almost nothing to do")                   \
  FIGURE(convolution_s, "a convolution with almost nothing to do")                  \
  FIGURE(filter_s, "element of a convolution's filter that is put in order")        \
  FIGURE(pack_s, "element of a product's operand that is put in order")             \
  FIGURE(turn_s, "element of a product's right operand that is turned")             \
  FIGURE(pack_bf16_s, "element of a product's 16-bit operand")                      \
  FIGURE(vector_product_s, "operation of a vector times a matrix")                  \
  FIGURE(vector_few_s, "operation of a vector times a matrix of three columns")     \
  FIGURE(vector_rows_s, "operation of a matrix times a vector, by rows")            \
  FIGURE(vector_row_s, "row of that")                                               \
  FIGURE(windowed_s, "element combined by a window inside a loop")                  \
  FIGURE(combined_s, "operation of a reducer of several, on an element")

// CURVE(name, what it is): [0] one thread, [1] all.
#define PROF_CURVES(CURVE)                                                         \
  CURVE(stream, "bytes/s by bytes moved over and over, half written")              \
  CURVE(transposes, "elements/s of another order by the bytes between them")       \
  CURVE(slides, "elements/s of a sliding window by its length")                    \
  CURVE(fresh, "bytes/s by bytes that a run takes anew from the system")           \
  CURVE(fill, "bytes/s by bytes written over and over")                            \
  CURVE(load, "bytes/s by bytes read over and over")                               \
  CURVE(product_f32, "flop/s by flops of a cubic product")                         \
  CURVE(product_f64, "flop/s by flops of a cubic product")                         \
  CURVE(product_bf16, "flop/s by flops of a cubic product")                        \
  CURVE(product_s8, "flop/s by flops of a cubic product")                          \
  CURVE(narrow_m, "part of the cube's rate by the rows of the left matrix")        \
  CURVE(narrow_n, "part of the cube's rate by the columns of the right matrix")    \
  CURVE(narrow_k, "part of the cube's rate by what is summed up")                  \
  CURVE(convolution, "flop/s by flops of a 3x3 convolution")                       \
  CURVE(convolution_weights, "flop/s by flops, gradient of weights")               \
  CURVE(convolution_bf16, "flop/s by flops of a 3x3 convolution")                  \
  CURVE(convolution_dilated, "flop/s by flops, a window with holes")               \
  CURVE(convolution_groups, "flop/s by flops, groups of 8 features")               \
  CURVE(convolution_grouped, "flop/s by flops, a group per feature")               \
  CURVE(gathers, "slices/s by bytes of the array, a gather of single elements")    \
  CURVE(scatters, "updates/s by bytes of the array, a scatter of single elements") \
  CURVE(keys, "elements and digits/s by length, a sort of keys")                   \
  CURVE(pairs, "elements and digits/s by length, a sort by keys of two arrays")    \
  CURVE(solves, "operations/s by operations of a triangular solve")                \
  CURVE(factors, "operations/s by operations of a Cholesky factorization")

// The bytes between the elements that against_s is of.
#define PROF_AGAINST_BYTES 1024.0

struct prof_calibration {
  char key[192];  // processor, backend and version
  u32 threads;
  double seconds;  // that it took
  bool xla;        // of XLA's kernels: sorts call their comparators, concatenations are copies
#define FIGURE(name, what) double name;
  PROF_FIGURES(FIGURE)
#undef FIGURE
#define CURVE(name, what) prof_curve name[2];
  PROF_CURVES(CURVE)
#undef CURVE
  double op_s[HLO_OPCODE_COUNT][PROF_TYPE_COUNT];  // an element of an operation in a vector loop
};

// Takes over what `other`, of the same machine, did better: what runs beside a measurement only
// makes it worse.
void prof_calibration_improve(prof_calibration *, const prof_calibration *other);

// What a two-core share of a server with AVX2 takes: used where nothing was measured.
extern const prof_calibration prof_generic;

// "AMD EPYC 7R13", as the system names the processor; "unknown processor".
void prof_processor_name(char out[96]);
// "AMD EPYC 7R13, 2 threads, backend cpu, hlosh 0.1": what a calibration belongs to.
void prof_calibration_key(char out[192], const char *backend, const char *version, u32 threads);
// The file of that key under XDG_CACHE_HOME (or ~/.cache); malloc'ed, NULL when there is no home.
char *prof_calibration_path(const char *key);

// What depends on other figures where it was not measured apart.
void prof_calibration_complete(prof_calibration *);
void prof_calibration_print(const prof_calibration *, hs_buf *out);
// E_INPUT names the first line that is not valid, or the figure or curve that is missing.
// Operations that the text does not name keep what prof_generic says of them.
hs_status prof_calibration_parse(const char *text, prof_calibration *out);

// Bytes per second of `fresh` where a program keeps its memory from run to run.
#define PROF_NOTHING_FRESH 1e17

// Reads the file of that key. *found: there is one; false is no error.
hs_status prof_calibration_load(const char *key, prof_calibration *out, bool *found);

// The device "cpu" as that calibration describes it; borrows it.
prof_device prof_device_calibrated(const prof_calibration *);

#endif
