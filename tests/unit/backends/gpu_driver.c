// gpu_driver.c — the emulated CUDA driver, called as the real one is: what it computes, what it
// refuses, and that each way in which a driver can misbehave shows as it does there.
#include "tests/unit/skip.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/plugin.h"

#if HAVE_LLVM
#include "backends/gpu/cuda/driver.h"
#include "backends/gpu/emu/api.h"

static cuda_driver d;

static void *symbol(void *from, const char *name) {
  (void)from;
  return emu_api_symbol(name);
}

#define OK(call) assert_int_equal((call), CUDA_OK)
#define GIVES(call, error) assert_int_equal((call), CUDA_##error)

// tests/gpu/NAME.ll as an image.
static hs_buf image(const char *name) {
  char path[100];
  snprintf(path, sizeof path, "tests/gpu/%s.ll", name);
  hs_buf text = plugin_read(path), all = {0};
  assert_true(text.n > 0);
  u64 n = text.n;
  hs_buf_puts(&all, EMU_IMAGE);
  hs_buf_put(&all, (const char *)&n, sizeof n);
  hs_buf_put(&all, text.p, text.n);
  hs_buf_free(&text);
  return all;
}

typedef struct session {
  cuda_context *context;
  cuda_stream *stream;
  cuda_module *module;
  cuda_function *f;
  cuda_ptr x, y;
  float in[1000], out[1000];
} session;

static void leaked(const char *what) {
  (void)fprintf(stderr, "left: %s\n", what);
  (void)raise(SIGABRT);
}

// A context with the kernel and two buffers of 1000 floats, x filled.
static void begin(session *s, const char *kernel, emu_behaviour b) {
  b.leaked = leaked;
  emu_api_behave(&b);
  *s = (session){0};
  OK(d.init(0));
  OK(d.context_retain(&s->context, 0));
  OK(d.context_set(s->context));
  OK(d.stream_new(&s->stream, CUDA_STREAM_NON_BLOCKING));
  hs_buf i = image(kernel);
  OK(d.module_load(&s->module, i.p, 0, NULL, NULL));
  hs_buf_free(&i);
  OK(d.module_function(&s->f, s->module, "k"));
  OK(d.alloc(&s->x, sizeof s->in));
  OK(d.alloc(&s->y, sizeof s->out));
  for (u32 k = 0; k < 1000; k++) s->in[k] = (float)(k % 91);
  OK(d.copy_in(s->x, s->in, sizeof s->in, s->stream));
}

static void end(session *s) {
  OK(d.module_unload(s->module));
  OK(d.stream_free(s->stream));
  OK(d.free(s->x));
  OK(d.free(s->y));
  OK(d.context_release(0));
}

static cuda_result launch_on(session *s, u32 blocks, u32 threads) {
  void *params[] = {&s->x, &s->y};
  return d.launch(s->f, blocks, 1, 1, threads, 1, 1, 0, s->stream, params, NULL);
}
static cuda_result launch(session *s) { return launch_on(s, 8, 128); }

static void right(const session *s) {
  for (u32 k = 0; k < 1000; k++) assert_true(s->out[k] == s->in[k] * 2 + (float)k);
}

static void computes(void **state) {
  (void)state;
  for (u32 late = 0; late < 2; late++) {
    session s;
    cuda_event *from, *to;
    float ms = -1;
    begin(&s, "scale", (emu_behaviour){.late = late});
    OK(d.event_new(&from, 0));
    OK(d.event_new(&to, 0));
    OK(d.event_record(from, s.stream));
    OK(launch(&s));
    OK(d.event_record(to, s.stream));
    OK(d.copy_out(s.out, s.y, sizeof s.out, s.stream));
    if (late) {
      assert_true(s.out[999] == 0);
      GIVES(d.event_elapsed(&ms, from, to), NOT_READY);
      GIVES(d.stream_query(s.stream), NOT_READY);
    }
    OK(d.event_wait(to));
    assert_true(late == 0 || s.out[999] == 0);
    OK(d.stream_wait(s.stream));
    OK(d.stream_query(s.stream));
    right(&s);
    OK(d.event_elapsed(&ms, from, to));
    assert_true(ms > 0 && ms < 10000);
    OK(d.set32(s.y, 0x40490FDB, 500, s.stream));
    OK(d.set8(s.y + 2000, 0, 2000, s.stream));
    OK(d.copy(s.x, s.y, 4000, s.stream));
    OK(d.copy_out(s.out, s.x, 4000, s.stream));
    OK(d.context_wait());
    assert_true(s.out[499] == 3.14159274f && s.out[500] == 0);
    OK(d.event_free(from));
    OK(d.event_free(to));
    end(&s);
  }
}

// What is called by name only: libraries, launches with a structure, transfers that wait.
#define CALL(type, name) ((cuda_result(*) type)(uintptr_t)emu_api_symbol(name))
static void further_functions(void **state) {
  (void)state;
  session s;
  cuda_module *m;
  cuda_function *kernel, *f;
  const char *name;
  size_t at, bytes;
  begin(&s, "scale", (emu_behaviour){.late = true});
  hs_buf i = image("scale");
  OK(CALL((cuda_module **, const void *, int *, void **, unsigned, int *, void **, unsigned),
          "cuLibraryLoadData")(&m, i.p, NULL, NULL, 0, NULL, NULL, 0));
  hs_buf_free(&i);
  OK(CALL((cuda_function **, cuda_module *, const char *), "cuLibraryGetKernel")(&kernel, m, "k"));
  OK(CALL((cuda_function **, cuda_function *), "cuKernelGetFunction")(&f, kernel));
  OK(CALL((const char **, cuda_function *), "cuFuncGetName")(&name, f));
  assert_string_equal(name, "k");
  OK(CALL((cuda_function *, size_t, size_t *, size_t *), "cuFuncGetParamInfo")(f, 1, &at, &bytes));
  assert_true(at == 8 && bytes == 8);
  struct {
    unsigned grid[3], block[3], shared;
    cuda_stream *stream;
    void *attributes;
    unsigned n;
  } config = {{8, 1, 1}, {128, 1, 1}, 0, s.stream, NULL, 0};
  void *params[] = {&s.x, &s.y};
  OK(CALL((const void *, cuda_function *, void **, void **), "cuLaunchKernelEx")(&config, f, params,
                                                                                 NULL));
  // The default stream does not wait for this one: there is still what new memory holds.
  cuda_result (*fetch)(void *, cuda_ptr, size_t) =
      CALL((void *, cuda_ptr, size_t), "cuMemcpyDtoH_v2");
  OK(fetch(s.out, s.y, sizeof s.out));
  assert_int_equal(hs_load32(&s.out[999]), UINT32_MAX);
  OK(d.stream_wait(s.stream));
  OK(fetch(s.out, s.y, sizeof s.out));
  right(&s);
  OK(CALL((cuda_ptr, unsigned, size_t), "cuMemsetD32_v2")(s.y, 7, 1000));
  OK(CALL((cuda_ptr, cuda_ptr, size_t), "cuMemcpy")((cuda_ptr)(uintptr_t)s.out, s.y, 16));
  assert_int_equal(hs_load32(&s.out[3]), 7);
  OK(CALL((cuda_module *), "cuLibraryUnload")(m));
  end(&s);
}

// One stream waits for what another has done, by an event.
static void streams(void **state) {
  (void)state;
  session s;
  cuda_stream *other;
  cuda_event *e;
  begin(&s, "scale", (emu_behaviour){.late = true});
  OK(d.stream_new(&other, CUDA_STREAM_NON_BLOCKING));
  OK(d.event_new(&e, CUDA_EVENT_NO_TIMING));
  OK(launch(&s));
  OK(d.event_record(e, s.stream));
  OK(d.stream_after(other, e, 0));
  OK(d.copy_out(s.out, s.y, sizeof s.out, other));
  OK(d.stream_wait(other));
  right(&s);
  float ms;
  GIVES(d.event_elapsed(&ms, e, e), INVALID_HANDLE);
  OK(d.event_free(e));
  GIVES(d.event_wait(e), INVALID_HANDLE);
  OK(d.stream_free(other));
  GIVES(d.stream_wait(other), INVALID_HANDLE);
  end(&s);
}

static void graphs(void **state) {
  (void)state;
  for (u32 late = 0; late < 2; late++) {
    session s;
    cuda_graph *g;
    cuda_graph_exec *x;
    size_t n = 0;
    begin(&s, "scale", (emu_behaviour){.late = late});
    OK(d.capture_begin(s.stream, CUDA_CAPTURE_THREAD_LOCAL));
    OK(launch(&s));
    OK(d.copy_out(s.out, s.y, sizeof s.out, s.stream));
    OK(d.capture_end(s.stream, &g));
    assert_true(s.out[999] == 0);
    OK(d.graph_nodes(g, NULL, &n));
    assert_int_equal(n, 2);
    OK(d.graph_make(&x, g, 0));
    OK(d.graph_free(g));
    for (u32 k = 0; k < 3; k++) {
      memset(s.out, 0, sizeof s.out);
      OK(d.graph_launch(x, s.stream));
      OK(d.stream_wait(s.stream));
      right(&s);
    }
    OK(d.graph_exec_free(x));
    GIVES(d.graph_launch(x, s.stream), INVALID_HANDLE);
    // waiting breaks a capture
    OK(d.capture_begin(s.stream, CUDA_CAPTURE_THREAD_LOCAL));
    OK(launch(&s));
    GIVES(d.stream_wait(s.stream), STREAM_CAPTURE_UNSUPPORTED);
    GIVES(d.capture_end(s.stream, &g), STREAM_CAPTURE_INVALIDATED);
    assert_null(g);
    GIVES(d.capture_end(s.stream, &g), ILLEGAL_STATE);
    end(&s);
  }
}

static void refuses(void **state) {
  (void)state;
  session s;
  cuda_ptr p;
  cuda_module *m;
  cuda_function *f;
  int value;
  char log[200] = "";
  int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)sizeof log};
  GIVES(d.alloc(&p, 16), NOT_INITIALIZED);
  begin(&s, "scale", (emu_behaviour){0});
  void *params[] = {&s.x, &s.y};
  GIVES(d.launch(s.f, 0, 1, 1, 128, 1, 1, 0, s.stream, params, NULL), INVALID_VALUE);
  GIVES(d.launch(s.f, 1, 1, 1, 1025, 1, 1, 0, s.stream, params, NULL), INVALID_VALUE);
  GIVES(d.launch(s.f, 1, 1, 1, 32, 1, 1, 50 << 10, s.stream, params, NULL), INVALID_VALUE);
  GIVES(d.launch(s.f, 1, 1, 1, 32, 1, 1, 0, s.stream, NULL, NULL), INVALID_VALUE);
  OK(d.function_set(s.f, CUDA_FUNCTION_MAX_DYNAMIC_SHARED, 50 << 10));
  OK(d.launch(s.f, 1, 1, 1, 32, 1, 1, 50 << 10, s.stream, params, NULL));
  GIVES(d.function_set(s.f, CUDA_FUNCTION_MAX_DYNAMIC_SHARED, 300 << 10), INVALID_VALUE);
  GIVES(d.copy_in(s.x + 8, s.in, sizeof s.in, s.stream), INVALID_VALUE);
  GIVES(d.copy_out(s.out, 4096, 4, s.stream), INVALID_VALUE);
  GIVES(d.set32(s.x + 2, 0, 1, s.stream), INVALID_VALUE);
  GIVES(d.free(s.x + 8), INVALID_VALUE);
  GIVES(d.module_function(&f, s.module, "none"), NOT_FOUND);
  GIVES(d.module_load(&m, "\177ELF", 0, NULL, NULL), NO_BINARY_FOR_GPU);
  GIVES(d.module_load(&m, ".version 8.0", 0, NULL, NULL), INVALID_PTX);
  hs_buf i = image("scale");
  i.p[sizeof EMU_IMAGE - 1 + 8] = '@';
  GIVES(d.module_load(&m, i.p, 2, options, values), INVALID_IMAGE);
  assert_non_null(strstr(log, "not a module of LLVM"));
  hs_buf_free(&i);
  OK(d.function_attribute(&value, CUDA_FUNCTION_MAX_THREADS, s.f));
  assert_int_equal(value, 1024);
  OK(d.occupancy(&value, s.f, 256, 0));
  assert_int_equal(value, 8);
  GIVES(d.alloc(&p, (size_t)1 << 60), OUT_OF_MEMORY);
  OK(d.module_unload(s.module));
  GIVES(launch(&s), INVALID_HANDLE);
  GIVES(d.module_unload(s.module), INVALID_HANDLE);
  OK(d.stream_free(s.stream));
  OK(d.free(s.x));
  GIVES(d.free(s.x), INVALID_VALUE);
  OK(d.free(s.y));
  OK(d.context_release(0));
  GIVES(d.context_release(0), INVALID_CONTEXT);
}

// Memory that is freed while work on it waits.
static void freed_too_early(void **state) {
  (void)state;
  session s;
  begin(&s, "scale", (emu_behaviour){.late = true});
  void *free_later = emu_api_symbol("cuMemFreeAsync");
  cuda_result (*free_async)(cuda_ptr, cuda_stream *) =
      (cuda_result(*)(cuda_ptr, cuda_stream *))(uintptr_t)free_later;
  OK(d.stream_wait(s.stream));
  OK(free_async(s.x, s.stream));
  OK(d.copy(s.y, s.x, 16, s.stream));
  GIVES(d.stream_wait(s.stream), ILLEGAL_ADDRESS);
  assert_non_null(strstr(emu_api_why(), "memory that is freed by now"));
  OK(d.context_release(0));
}

// A fault of a kernel fails every later call, with its text.
static void faults(void **state) {
  (void)state;
  const char *text;
  for (u32 asynchronous = 0; asynchronous < 2; asynchronous++) {
    session s;
    begin(&s, "race", (emu_behaviour){.asynchronous = asynchronous});
    assert_string_equal(emu_api_why(), "");
    assert_int_equal(launch_on(&s, 1, 64), asynchronous ? CUDA_OK : CUDA_ILLEGAL_ADDRESS);
    GIVES(d.stream_wait(s.stream), ILLEGAL_ADDRESS);
    GIVES(launch(&s), ILLEGAL_ADDRESS);
    GIVES(d.free(s.x), ILLEGAL_ADDRESS);
    OK(d.error_string(CUDA_ILLEGAL_ADDRESS, &text));
    assert_non_null(strstr(text, "without a barrier between"));
    assert_string_equal(text, emu_api_why());
    OK(d.error_name(CUDA_ILLEGAL_ADDRESS, &text));
    assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    OK(d.context_release(0));
    begin(&s, "scale", (emu_behaviour){0});  // a new context is good again
    OK(launch(&s));
    end(&s);
  }
}

// A kernel that is stopped from outside fails, and the next one runs.
static void stops(void **state) {
  (void)state;
  static const struct {
    hs_stop why;
    cuda_result gives;
  } cases[] = {{HS_STOP_MEMORY, CUDA_OUT_OF_MEMORY}, {HS_STOP_INTERRUPT, CUDA_LAUNCH_TIMEOUT}};
  session s;
  begin(&s, "scale", (emu_behaviour){0});
  for (u32 k = 0; k < HS_COUNT(cases); k++) {
    hs_interrupt flag = (int)cases[k].why;
    hs_interrupt_watch(&flag);
    assert_int_equal(launch(&s), cases[k].gives);
    hs_interrupt_watch(NULL);
    OK(launch(&s));
  }
  end(&s);
}

// Modules that do not look at each access.
static void unchecked(void **state) {
  (void)state;
  session s;
  assert_int_equal(setenv("HLOSH_GPU_UNCHECKED", "1", 1), 0);
  begin(&s, "race", (emu_behaviour){0});
  assert_int_equal(unsetenv("HLOSH_GPU_UNCHECKED"), 0);
  OK(launch_on(&s, 1, 64));
  OK(d.stream_wait(s.stream));
  end(&s);
  OK(d.init(0));
  begin(&s, "race", (emu_behaviour){0});
  GIVES(launch_on(&s, 1, 64), ILLEGAL_ADDRESS);
  OK(d.context_release(0));
}

static void memory_ends(void **state) {
  (void)state;
  session s;
  cuda_ptr p[3];
  size_t left, all;
  begin(&s, "scale", (emu_behaviour){.memory_bytes = 1 << 20});
  OK(d.memory_info(&left, &all));
  assert_int_equal(all, 1 << 20);
  assert_int_equal(left, (1 << 20) - 8000);
  GIVES(d.alloc(&p[0], 1 << 20), OUT_OF_MEMORY);
  emu_api_behave(&(emu_behaviour){.allocations = 2, .leaked = leaked});
  OK(d.alloc(&p[0], 16));
  OK(d.alloc(&p[1], 16));
  GIVES(d.alloc(&p[2], 16), OUT_OF_MEMORY);
  OK(d.free(p[0]));
  OK(d.free(p[1]));
  end(&s);
}

// What must end the process is tried in a child. Returns how it ended.
static int in_child(void (*what)(void)) {
  (void)fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)freopen("/dev/null", "w", stderr);
    (void)alarm(2);
    what();
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void leave_memory(void) {
  session s;
  begin(&s, "scale", (emu_behaviour){0});
  (void)d.free(s.x);
  (void)d.context_release(0);
}
static void wait_for_ever(void) {
  session s;
  begin(&s, "scale", (emu_behaviour){.hangs = true});
  (void)d.stream_wait(s.stream);
}
static void in_order(void) {
  session s;
  begin(&s, "scale", (emu_behaviour){0});
  end(&s);
}

static void processes_end(void **state) {
  (void)state;
  assert_int_equal(in_child(in_order), 0);
  assert_int_equal(in_child(leave_memory), SIGABRT);
  assert_int_equal(in_child(wait_for_ever), SIGALRM);
}

// A second device: its context, streams and memory are its own; copies go from one to the other.
static void several_devices(void **state) {
  (void)state;
  session s;
  cuda_context *second;
  cuda_stream *there;
  cuda_event *e;
  cuda_ptr y;
  int n;
  begin(&s, "scale", (emu_behaviour){.devices = 2, .late = true});
  OK(d.device_count(&n));
  assert_int_equal(n, 2);
  GIVES(d.context_retain(&second, 2), INVALID_DEVICE);
  OK(d.context_retain(&second, 1));
  OK(d.context_set(second));
  OK(d.stream_new(&there, CUDA_STREAM_NON_BLOCKING));
  OK(d.alloc(&y, sizeof s.out));
  GIVES(launch(&s), INVALID_CONTEXT);  // of the first one's kernel, while the second is current
  OK(d.context_set(s.context));
  OK(launch(&s));
  OK(d.event_new(&e, CUDA_EVENT_NO_TIMING));
  GIVES(d.event_record(e, there), INVALID_HANDLE);
  OK(d.event_record(e, s.stream));
  OK(d.stream_after(there, e, 0));
  OK(d.copy(y, s.y, sizeof s.out, there));
  OK(d.copy_out(s.out, y, sizeof s.out, there));
  OK(d.stream_wait(there));
  right(&s);
  OK(d.event_free(e));
  OK(d.context_set(second));
  OK(d.free(y));
  OK(d.stream_free(there));
  OK(d.context_release(1));
  GIVES(d.context_set(second), INVALID_CONTEXT);
  OK(d.context_set(s.context));
  end(&s);
  // a kernel may not use the memory of another device
  begin(&s, "scale", (emu_behaviour){.devices = 2});
  cuda_ptr own = s.y;
  OK(d.context_retain(&second, 1));
  OK(d.context_set(second));
  OK(d.alloc(&s.y, sizeof s.out));
  OK(d.context_set(s.context));
  GIVES(launch(&s), ILLEGAL_ADDRESS);
  s.y = own;
  emu_api_behave(&(emu_behaviour){.devices = 2});
  OK(d.context_release(1));
  OK(d.context_release(0));
}

// ---- the library --------------------------------------------------------------------------------
static void library(void **state) {
  (void)state;
  cuda_driver good = d;
  hs_status opened = cuda_driver_open(plugin_fake_cuda("ok"), &d);
  if (!hs_ok(opened)) print_error("%s\n%s\n", opened.err->message, opened.err->note);
  assert_true(hs_ok(opened));
  session s;
  begin(&s, "reduce", (emu_behaviour){0});
  OK(d.launch(s.f, 2, 1, 1, 256, 1, 1, 0, s.stream, (void *[]){&s.x, &s.y}, NULL));
  OK(d.copy_out(s.out, s.y, 8, s.stream));
  OK(d.stream_wait(s.stream));
  float want = 0;
  for (u32 k = 256; k < 512; k++) want += s.in[k];
  assert_true(s.out[1] == want);
  end(&s);
  d = good;
}

static void library_modes(void **state) {
  (void)state;
  cuda_driver x;
  static const struct {
    const char *mode, *words;
  } bad[] = {{"old", "11.2"}, {"missing", "cuLaunchKernel"}};
  for (u32 k = 0; k < HS_COUNT(bad); k++) {
    hs_status s = cuda_driver_open(plugin_fake_cuda(bad[k].mode), &x);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_DEVICE);
    if (!strstr(s.err->message, bad[k].words)) print_error("%s\n", s.err->message);
    assert_non_null(strstr(s.err->message, bad[k].words));
    hs_status_drop(s);
  }
  cuda_context *c;
  cuda_ptr p;
  cuda_stream *stream;
  assert_true(hs_ok(cuda_driver_open(plugin_fake_cuda("nodevice"), &x)));
  GIVES(x.init(0), NO_DEVICE);
  assert_true(hs_ok(cuda_driver_open(plugin_fake_cuda("oom1"), &x)));
  OK(x.init(0));
  OK(x.context_retain(&c, 0));
  OK(x.alloc(&p, 16));
  cuda_ptr q;
  GIVES(x.alloc(&q, 16), OUT_OF_MEMORY);
  OK(x.free(p));
  assert_true(hs_ok(cuda_driver_open(plugin_fake_cuda("nograph"), &x)));
  OK(x.stream_new(&stream, 0));
  GIVES(x.capture_begin(stream, 0), NOT_SUPPORTED);
  OK(x.stream_free(stream));
  OK(x.context_release(0));
  assert_true(hs_ok(cuda_driver_open(plugin_fake_cuda("sticky1"), &x)));
  session s;
  begin(&s, "scale", (emu_behaviour){.launches = 1, .asynchronous = true});
  OK(launch(&s));
  OK(d.stream_wait(s.stream));
  OK(launch(&s));
  GIVES(d.stream_wait(s.stream), ILLEGAL_ADDRESS);
  OK(d.context_release(0));
}

// ---- a profiler ---------------------------------------------------------------------------------
typedef struct profiler {
  int (*callbacks)(void (*)(u8 **, size_t *, size_t *),
                   void (*)(void *, u32, u8 *, size_t, size_t));
  int (*enable)(int);
  int (*disable)(int);
  int (*flush)(u32);
  int (*next)(u8 *, size_t, void **);
  int (*dropped)(void *, u32, size_t *);
  int (*push)(int, u64);
  int (*pop)(int, u64 *);
} profiler;
static profiler p;
enum { COPY = 1, CALL = 4, KERNEL = 10, EXTERNAL = 39, GRAPH = 51, MOST_RECORDS = 64 };
static struct {
  u32 n, buffers, kind[MOST_RECORDS], correlation[MOST_RECORDS];
  u64 begin[MOST_RECORDS], end[MOST_RECORDS], id[MOST_RECORDS];
  char name[MOST_RECORDS][20];
} seen;

static void requested(u8 **buffer, size_t *size, size_t *most) {
  *size = 4096;
  *buffer = malloc(*size);
  *most = 0;
}
static void completed(void *context, u32 stream, u8 *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  seen.buffers++;
  for (void *r = NULL; p.next(buffer, valid, &r) == 0 && seen.n < MOST_RECORDS;) {
    const u8 *at = r;
    if (hs_load32(at) == CALL) continue;  // is there for our numbers, which go with it
    u32 n = seen.n++;
    seen.kind[n] = hs_load32(at);
    bool graph = seen.kind[n] == GRAPH, other = seen.kind[n] == EXTERNAL;
    seen.begin[n] = hs_load64(at + (graph ? 8 : 16));
    seen.end[n] = hs_load64(at + (graph ? 16 : 24));
    if (other) seen.id[n] = hs_load64(at + 8);
    seen.correlation[n] = hs_load32(at + (graph                    ? 4
                                          : other                  ? 16
                                          : seen.kind[n] == KERNEL ? 92
                                                                   : 44));
    if (seen.kind[n] == KERNEL)
      snprintf(seen.name[n], sizeof seen.name[n], "%s",
               (const char *)(uintptr_t)hs_load64(at + 104));
  }
  free(buffer);
}

static void open_profiler(const char *mode) {
  static const char *const names[] = {"ActivityRegisterCallbacks",
                                      "ActivityEnable",
                                      "ActivityDisable",
                                      "ActivityFlushAll",
                                      "ActivityGetNextRecord",
                                      "ActivityGetNumDroppedRecords",
                                      "ActivityPushExternalCorrelationId",
                                      "ActivityPopExternalCorrelationId"};
  void *library = dlopen(plugin_fake_cupti(mode), RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  void **slots = (void **)(void *)&p;
  for (u32 k = 0; k < HS_COUNT(names); k++) {
    char name[60];
    snprintf(name, sizeof name, "cupti%s", names[k]);
    slots[k] = dlsym(library, name);
    assert_int_equal(!slots[k], strcmp(mode, "short") == 0 && k == 3);
  }
  memset(&seen, 0, sizeof seen);
}

// A launch and a copy under a number of ours, then a recorded sequence of both.
static void profiled(void) {
  session s;
  cuda_graph *g;
  cuda_graph_exec *x;
  u64 id = 0;
  begin(&s, "scale", (emu_behaviour){0});
  assert_int_equal(p.callbacks(requested, completed), 0);
  static const int kinds[] = { CALL, KERNEL, COPY, EXTERNAL, GRAPH };
  for (u32 k = 0; k < HS_COUNT(kinds); k++) assert_int_equal(p.enable(kinds[k]), 0);
  assert_int_equal(p.push(3, 77), 0);
  OK(launch(&s));
  OK(d.copy_out(s.out, s.y, sizeof s.out, s.stream));
  assert_int_equal(p.pop(3, &id), 0);
  assert_int_equal(id, 77);
  assert_int_equal(p.pop(3, &id), 18);
  OK(d.capture_begin(s.stream, CUDA_CAPTURE_THREAD_LOCAL));
  OK(launch(&s));
  OK(d.copy_out(s.out, s.y, sizeof s.out, s.stream));
  OK(d.capture_end(s.stream, &g));
  OK(d.graph_make(&x, g, 0));
  OK(d.graph_free(g));
  OK(d.graph_launch(x, s.stream));
  OK(d.stream_wait(s.stream));
  assert_int_equal(p.flush(1), 0);
  for (u32 k = 0; k < HS_COUNT(kinds); k++) assert_int_equal(p.disable(kinds[k]), 0);
  OK(d.graph_exec_free(x));
  end(&s);
  emu_api_observe(NULL);
}

static void profiles(void **state) {
  (void)state;
  size_t dropped;
  open_profiler("ok");
  profiled();
  static const u32 want[] = { EXTERNAL, KERNEL, EXTERNAL, COPY, GRAPH };
  assert_int_equal(seen.n, HS_COUNT(want));
  assert_memory_equal(seen.kind, want, sizeof want);
  assert_string_equal(seen.name[1], "k");
  assert_int_equal(seen.id[0], 77);
  assert_int_equal(seen.correlation[0], seen.correlation[1]);
  assert_int_equal(seen.correlation[2], seen.correlation[3]);
  assert_true(seen.correlation[3] < seen.correlation[4]);
  for (u32 k = 1; k < 5; k += k == 1 ? 2 : 1) assert_true(seen.begin[k] < seen.end[k]);
  assert_true(seen.end[1] <= seen.begin[3] && seen.end[3] <= seen.begin[4]);
  open_profiler("small");
  profiled();
  assert_int_equal(seen.n, 5);
  assert_int_equal(seen.buffers, 4);
  open_profiler("drops");
  profiled();
  assert_int_equal(seen.n, 3);  // the kernel and the copy are lost
  assert_int_equal(p.dropped(NULL, 0, &dropped), 0);
  assert_int_equal(dropped, 2);
  open_profiler("busy");
  assert_int_equal(p.callbacks(requested, completed), 39);
  open_profiler("denied");
  assert_int_equal(p.enable(KERNEL), 35);
  open_profiler("short");
}

static int set_up(void **state) {
  (void)state;
  if (!plugin_folder_make()) return -1;
  return hs_ok(cuda_driver_fill(&d, symbol, NULL, "the emulator")) ? 0 : -1;
}
static int tear_down(void **state) {
  (void)state;
  plugin_folder_remove();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses),
      cmocka_unit_test(computes),
      cmocka_unit_test(further_functions),
      cmocka_unit_test(streams),
      cmocka_unit_test(graphs),
      cmocka_unit_test(freed_too_early),
      cmocka_unit_test(faults),
      cmocka_unit_test(memory_ends),
      cmocka_unit_test(stops),
      cmocka_unit_test(unchecked),
      cmocka_unit_test(several_devices),
      cmocka_unit_test(processes_end),
      cmocka_unit_test(library),
      cmocka_unit_test(library_modes),
      cmocka_unit_test(profiles),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
#else
int main(void) { return skip_all("built without LLVM"); }
#endif
