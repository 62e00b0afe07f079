// plugin.c — the folder of plug-ins that the tests of the pjrt backend load.
#include "tests/harness/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/hlosh-pjrt-XXXXXX";

bool plugin_folder_make(void) { return mkdtemp(folder) != NULL; }

void plugin_folder_remove(void) {
  char *command = hs_format("rm -rf '%s'", folder);
  if (system(command) != 0) fprintf(stderr, "%s is left\n", folder);
  hs_free(command);
}

const char *plugin_folder(void) { return folder; }

hs_buf plugin_read(const char *path) {
  hs_buf b = {0};
  FILE *f = fopen(path, "rb");
  char chunk[65536];
  for (size_t n; f && (n = fread(chunk, 1, sizeof chunk, f)) > 0;) hs_buf_put(&b, chunk, n);
  if (f) fclose(f);
  return b;
}

bool plugin_write(const char *path, const void *p, size_t n) {
  FILE *f = fopen(path, "wb");
  bool ok = f && fwrite(p, 1, n, f) == n;
  return f && fclose(f) == 0 && ok;
}

static hs_buf built(const char *library) {
  const char *build = getenv("HLOSH_BUILD");
  char *from = hs_format("%s/tests/%s.so", build ? build : "build", library);
  hs_buf b = plugin_read(from);
  hs_free(from);
  return b;
}

// A copy of the library under the name of a mode; in the mode `hides`, without the function.
static const char *as_mode(const char *library, const char *mode, const char *hides,
                           const char *function) {
  static char path[256];
  hs_buf b = built(library);
  char *at = strcmp(mode, hides) == 0 ? memmem(b.p, b.n, function, strlen(function) + 1) : NULL;
  if (at) at[2] = 'X';
  snprintf(path, sizeof path, "%s/%s-%s.so", folder, library, mode);
  if (access(path, R_OK) != 0) plugin_write(path, b.p, b.n);
  hs_buf_free(&b);
  return path;
}

const char *plugin_fake(const char *mode) { return as_mode("libfake_pjrt", mode, "", ""); }
const char *plugin_fake_cuda(const char *mode) {
  return as_mode("libfake_cuda", mode, "missing", "cuLaunchKernel");
}
const char *plugin_fake_cupti(const char *mode) {
  bool older = strcmp(mode, "older") == 0;  // before it had counters
  return as_mode("libfake_cupti", mode, older ? "older" : "short",
                 older ? "cuptiRangeProfilerStart" : "cuptiActivityFlushAll");
}
const char *plugin_fake_nvml(const char *mode) {
  bool old = strcmp(mode, "old") == 0;  // before it had the name of now
  return as_mode("libfake_nvml", mode, old ? "old" : "missing",
                 old ? "nvmlDeviceGetCurrentClocksEventReasons"
                     : "nvmlDeviceGetTotalEnergyConsumption");
}
const char *plugin_fake_cublaslt(const char *mode) {
  return as_mode("libfake_cublaslt", mode, "missing", "cublasLtMatmul");
}
const char *plugin_fake_cusolver(const char *mode) {
  bool early = strcmp(mode, "early") == 0;  // before it had eigenproblems of any matrix
  return as_mode("libfake_cusolver", mode, early ? "early" : "missing",
                 early ? "cusolverDnXgeev" : "cusolverDnSpotrf");
}
const char *plugin_fake_cublas(const char *mode) {
  return as_mode("libfake_cublas", mode, "missing", "cublasStrsm_v2");
}
const char *plugin_fake_cudnn(const char *mode) {
  return as_mode("libfake_cudnn", mode, "missing", "cudnnBackendExecute");
}
const char *plugin_fake_cufft(const char *mode) {
  return as_mode("libfake_cufft", mode, "missing", "cufftSetWorkArea");
}
const char *plugin_fake_nccl(const char *mode) {
  return as_mode("libfake_nccl", mode, "missing", "ncclAllReduce");
}

const char plugin_fused_parts[] =
    "HloModule parts, num_partitions=2\n"
    "f { a = f32[4,6] parameter(0) b = f32[2,12] reshape(a) ROOT t = f32[12,2] transpose(b), "
    "dimensions={1,0} }\n"
    "ENTRY e { p = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]} g = f32[12,2] fusion(p), "
    "kind=kLoop, calls=f\n"
    "  ROOT r = f32[12,2] negate(g), sharding={devices=[1,2]<=[2]} }\n";
