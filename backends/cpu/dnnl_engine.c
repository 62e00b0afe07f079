// dnnl_engine.c — the engine and the stream of oneDNN, shared by all primitives of the worker.
//
// They are made on first use and live until the process ends. Requests are handled by one thread,
// so nothing is locked.
#include "backends/cpu/cpu.h"

#if HAVE_DNNL
#include <dnnl.h>

static dnnl_engine_t engine;
static dnnl_stream_t stream;

dnnl_engine_t cpu_dnnl_engine(void) {
  if (!engine && dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) engine = NULL;
  if (engine && !stream &&
      dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success)
    engine = NULL;
  return engine;
}

dnnl_stream_t cpu_dnnl_stream(void) { return stream; }
#endif
