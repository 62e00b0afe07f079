// plugin.h — a folder of plug-ins for tests: the fake PJRT plug-in (tests/plugin/fake_pjrt.c),
// whose file name says how it misbehaves, and files beside it.
#ifndef TESTS_HARNESS_PLUGIN_H
#define TESTS_HARNESS_PLUGIN_H

#include "core/base/base.h"

// Makes the folder under /tmp, one for the process; false when that fails.
bool plugin_folder_make(void);
void plugin_folder_remove(void);
const char *plugin_folder(void);
// The fake plug-in under the name of a mode; the path is good until the next call.
const char *plugin_fake(const char *mode);
// The fake CUDA driver (tests/plugin/fake_cuda.c), likewise.
const char *plugin_fake_cuda(const char *mode);
const char *plugin_fake_cupti(const char *mode);
const char *plugin_fake_nvml(const char *mode);
const char *plugin_fake_cublaslt(const char *mode);
const char *plugin_fake_cufft(const char *mode);
const char *plugin_fake_cudnn(const char *mode);
const char *plugin_fake_cusolver(const char *mode);
const char *plugin_fake_cublas(const char *mode);
const char *plugin_fake_nccl(const char *mode);
// A whole file, which the caller frees; empty when it cannot be read.
hs_buf plugin_read(const char *path);
bool plugin_write(const char *path, const void *p, size_t n);

// A partitioned program of two devices with a fusion; no layout is stated.
extern const char plugin_fused_parts[];

#endif
