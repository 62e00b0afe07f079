// module.h — inside of backends/emit/gpu: what knows LLVM's passes and code generators.
#ifndef EMIT_GPU_MODULE_H
#define EMIT_GPU_MODULE_H

#include "backends/emit/gpu.h"
#include "backends/emit/gpu/plan.h"
#include "backends/emit/llvm/modules.h"
#include "backends/emit/unit.h"

// One distinct function; kernels that share it point here.
typedef struct gpu_body {
  const char *name, *of;  // of the first instruction that it computes, for messages
  u64 hash;
  hs_arena arena;
  nest *n;
  gpu_phase phases[2];
  u32 buffers, shared_bytes;
  hs_buf key;
} gpu_body;

// The target machine of emit_gpu_options.
hs_status gpu_module_target(const void *options, LLVMTargetMachineRef *out);
// Whether this LLVM generates code for the compute capability.
hs_status gpu_module_check(const emit_gpu_options *);
// The PTX of all bodies, made on up to `threads` threads, as one file; sets their shared_bytes.
hs_status gpu_module_ptx(const emit_gpu_options *, u32 n, gpu_body *const *, u32 threads,
                         hs_buf *out);
// All bodies as one module before code generation: LLVM's text or bitcode.
hs_status gpu_module_ir(const emit_gpu_options *, u32 n, gpu_body *const *, bool bitcode,
                        hs_buf *out);

#endif
