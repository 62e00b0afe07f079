// devices.c — programs for several devices on the emulation, where the host computes what is
// between them: the same as on the cpu backend. lanes.c has them on drivers, with NCCL.
#define UNDER_TEST "gpu-emulated"
#include "tests/unit/devices.h"

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TESTS_OF_DEVICES};
  return run_cpu_tests(argc, argv, "gpu_devices", tests, HS_COUNT(tests));
}
