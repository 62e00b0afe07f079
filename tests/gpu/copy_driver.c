// copy_driver.c — what check-gpu itself calls of the CUDA driver, on memory of the host: a copy
// of N bytes takes N nanoseconds, so that its bandwidth is 2 GB/s. The device is called "Stub".
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct event {
  double ns;
} event;

static double now_ns;
static int live;  // allocations, events and contexts that are not given back

int cuInit(unsigned flags) { return (int)flags; }
int cuDriverGetVersion(int *v) { return *v = 12040, 0; }
int cuDeviceGet(int *d, int ordinal) { return *d = ordinal, 0; }
int cuDeviceGetName(char *name, int n, int d) {
  (void)d;
  strncpy(name, "Stub", (size_t)n);
  return 0;
}
int cuDeviceTotalMem_v2(size_t *n, int d) { return *n = (size_t)1 << 36, d; }
int cuDevicePrimaryCtxRetain(void **c, int d) { return *c = &live, live++, d; }
int cuDevicePrimaryCtxRelease_v2(int d) {
  if (--live) abort();  // something was left
  return d;
}
int cuCtxSetCurrent(void *c) { return c == &live ? 0 : 201; }
int cuMemAlloc_v2(uint64_t *p, size_t n) {
  void *m = malloc(n);
  *p = (uint64_t)(uintptr_t)m;
  return m ? live++, 0 : 2;
}
int cuMemFree_v2(uint64_t p) { return free((void *)(uintptr_t)p), live--, 0; }
int cuEventCreate(event **e, unsigned flags) {
  *e = calloc(1, sizeof **e);
  return *e ? live++, (int)flags : 2;
}
int cuEventDestroy_v2(event *e) { return free(e), live--, 0; }
int cuEventRecord(event *e, void *stream) { return e->ns = now_ns, stream != NULL; }
int cuEventSynchronize(event *e) { return !e; }
int cuEventElapsedTime(float *ms, event *a, event *b) {
  return *ms = (float)((b->ns - a->ns) / 1e6), 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *stream) {
  memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
  now_ns += (double)n;
  return stream != NULL;
}
