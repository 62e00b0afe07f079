// cupti_fixture.c — writes tests/data/cupti_records.bin: records as NVIDIA's headers lay them
// out, so that the reader, which does not have those headers, is held against them. Not part of
// the build; where a CUDA toolkit is (13.0 made the file that is here):
//
//   cc -I/usr/local/cuda/include tests/gpu/cupti_fixture.c -o /tmp/fixture
//   /tmp/fixture > tests/data/cupti_records.bin
//
// Two kernels of one step (a reduction and its end), one of another step, a copy and a memset
// made by the driver, a kernel that nobody numbered, a recorded sequence, time that CUPTI took
// itself, and a record of a kind that is not read. The file: u32 number of records; for each u32
// bytes, then the record; a kernel's name is a u64 offset from the end of the records, plus one.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cupti.h>

static char records[4096], names[256];
static size_t n, nnames;
static uint32_t count;

static void put(const void *r, uint32_t bytes) {
  memcpy(records + n, &bytes, sizeof bytes);
  memcpy(records + n + sizeof bytes, r, bytes);
  n += sizeof bytes + bytes;
  count++;
}

static void number(uint32_t correlation, uint64_t id) {
  CUpti_ActivityExternalCorrelation e = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                         .externalId = id,
                                         .correlationId = correlation};
  put(&e, sizeof e);
}

static void kernel(const char *name, uint32_t correlation, uint64_t start, uint64_t end, int grid) {
  CUpti_ActivityKernel10 k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                              .registersPerThread = 24,
                              .start = start,
                              .end = end,
                              .gridX = grid,
                              .gridY = 1,
                              .gridZ = 1,
                              .blockX = 256,
                              .blockY = 1,
                              .blockZ = 1,
                              .staticSharedMemory = 4096,
                              .dynamicSharedMemory = 512,
                              .correlationId = correlation};
  uint64_t at = nnames + 1;
  memcpy(&k.name, &at, sizeof at);
  strcpy(names + nnames, name);
  nnames += strlen(name) + 1;
  put(&k, sizeof k);
}

int main(void) {
  const uint64_t t = 1700000000000000000u;
  number(101, 0);
  kernel("k0", 101, t + 1000, t + 6000, 132);
  number(102, 0);
  kernel("k0_finish", 102, t + 6500, t + 7000, 1);
  CUpti_ActivityMemcpy6 c = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
                             .copyKind = 1,
                             .bytes = 4096,
                             .start = t + 200,
                             .end = t + 900,
                             .correlationId = 100};
  put(&c, sizeof c);
  CUpti_ActivityMemset4 s = {.kind = CUPTI_ACTIVITY_KIND_MEMSET,
                             .bytes = 64,
                             .start = t + 7100,
                             .end = t + 7200,
                             .correlationId = 103};
  number(103, 1);
  put(&s, sizeof s);
  CUpti_ActivityAPI other = {.kind = CUPTI_ACTIVITY_KIND_DRIVER, .start = t, .end = t + 10};
  put(&other, sizeof other);
  kernel("k1", 104, t + 7300, t + 9300, 64);
  number(104, 1);
  kernel("somebody_else", 200, t + 9400, t + 9500, 8);
  CUpti_ActivityGraphTrace2 g = {.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
                                 .correlationId = 105,
                                 .start = t + 10000,
                                 .end = t + 12000,
                                 .graphId = 7};
  put(&g, sizeof g);
  CUpti_ActivityOverhead3 o = {.kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
                               .overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH,
                               .start = t + 50,
                               .end = t + 150};
  put(&o, sizeof o);
  fwrite(&count, sizeof count, 1, stdout);
  fwrite(records, n, 1, stdout);
  fwrite(names, nnames, 1, stdout);
  return 0;
}
