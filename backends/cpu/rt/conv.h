// conv.h — a convolution by strides, shared by the files of its kernel:
//
//   conv_dnnl.c     oneDNN's primitives, cut into pieces for the pool
//   conv_patches.c  as a product of matrices, by our own kernels
//   conv.c          describes a convolution, chooses, and has plain loops for the rest
#ifndef CPU_RT_CONV_H
#define CPU_RT_CONV_H

#include "backends/cpu/rt/rt.h"

enum { CONV_MOST_SPATIAL = 6, CONV_IN_RESULT = -2, CONV_BY_THREAD = -3 };

typedef enum conv_mode { CONV_FORWARD, CONV_BACK_DATA, CONV_BACK_WEIGHTS, CONV_PLAIN } conv_mode;

typedef struct conv_dnnl conv_dnnl;        // prepared primitives, see conv_dnnl.c
typedef struct conv_patches conv_patches;  // how it is cut, see conv_patches.c

typedef struct conv {
  u32 ns;  // spatial dims
  // batch of the output, input features per group, output features, groups
  i64 N, IC, OC, G, BG;
  i64 in[CONV_MOST_SPATIAL], k[CONV_MOST_SPATIAL], out[CONV_MOST_SPATIAL];
  i64 stride[CONV_MOST_SPATIAL], pad[CONV_MOST_SPATIAL], ld[CONV_MOST_SPATIAL],
      rd[CONV_MOST_SPATIAL];
  bool rev[CONV_MOST_SPATIAL];
  // strides in elements
  i64 lb, lf, ls[CONV_MOST_SPATIAL], ri, ro, rs[CONV_MOST_SPATIAL], ob, of, os[CONV_MOST_SPATIAL];
  i64 lhs_batch;
  hlo_dtype tl, tr, to;
  i64 nl, nr, no;  // elements
  conv_mode mode;
  // scratch offsets: operands and result widened, the filter; -1: none; of the filter also
  // CONV_IN_RESULT: in the memory of the result, which is written later, and CONV_BY_THREAD: in
  // that of each thread
  i64 at_l, at_r, at_o, at_w;
  i64 filter_bytes;  // of the packed filter
  // The rhs is the same in every run: what is made of it is kept. kept_rhs: it is read widened or
  // mirrored by more than its reorders, so that this is kept, too, and at_r and at_w are there.
  bool fixed_rhs, kept_rhs;
  cpu_kept kept;
  // at most one of these; else plain loops compute it
  conv_dnnl *dnnl;
  conv_patches *patches;
} conv;

// Narrow floats to f32 and back in the order they lie in; on all threads.
void cpu_conv_widen(float *to, const void *from, hlo_dtype, i64 n);
void cpu_conv_narrow(void *to, const float *from, hlo_dtype, i64 n);

// Prepares oneDNN for a convolution of floats of at most 32 bits in c->mode: fills c->dnnl and the
// scratch offsets. False, with c as it was, when it has no fast primitive or is not built in.
bool cpu_conv_dnnl_prepare(conv *c, i64 *scratch_bytes);
hs_status cpu_conv_dnnl_run(conv *, void *const *bufs, char *scratch);
void cpu_conv_dnnl_free(conv_dnnl *);  // NULL is fine

// Prepares products of patches and filter, both of the given type: fills c->patches and the rows
// that the filter has in its packed form, [window, then input feature][output feature], of which
// those past the last are zero. False, with c as it was, when there is no kernel or plain loops are
// as fast.
bool cpu_conv_patches_prepare(conv *c, hlo_dtype, i64 *filter_rows);
hs_status cpu_conv_patches_run(const conv *, const void *image, const void *filter, void *out);
void cpu_conv_patches_free(conv_patches *);  // NULL is fine

#endif
