// fake_library.h — for fakes of NVIDIA's libraries: rules that a caller must keep, memory and
// streams of the emulated device.
//
// Whoever uses RULE defines FAKE_NAME, for stderr, and FAKE_BROKEN, the library's answer to what
// breaks a rule.
#ifndef FAKE_LIBRARY_H
#define FAKE_LIBRARY_H

#include <stdio.h>

#include "backends/gpu/emu/api_state.h"
#include "tests/plugin/fake_mode.h"

#define RULE(x) \
  if (!(x)) return (void)fprintf(stderr, FAKE_NAME ": %s\n", #x), FAKE_BROKEN

// ---- the device ---------------------------------------------------------------------------------
static inline bool on_device(cuda_ptr at, i64 bytes, u64 alignment) {
  API_CALL_ANY();
  return at % alignment == 0 && api_on_device((const void *)(uintptr_t)at, (size_t)bytes);
}

static inline bool is_captured(cuda_stream *s) {
  int (*ask)(cuda_stream *, int *);
  int status = 0;
  *(void **)(void *)&ask = emu_api_symbol("cuStreamIsCapturing");
  return ask(s, &status) != CUDA_OK || status != 0;
}

// Has fn called when the stream comes to it, as a kernel of the library would be launched; part of
// what is recorded.
static inline bool enqueue(cuda_stream *s, cuda_host_fn *fn, void *arg) {
  API_CALL_ANY();
  api_op op = {.kind = OP_HOST, .host = fn, .arg = arg, .of_library = true};
  return api_submit(s, op) == CUDA_OK;
}

#endif
