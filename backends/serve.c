// serve.c — the parts that all request handlers share. See serve.h.
//
// Peak memory is the kernel's VmHWM, reset through /proc/self/clear_refs. The measuring loop has no
// statistics: it returns all samples, and the shell summarizes them (profiler/stats.c).
#include "backends/serve.h"
#include "backends/wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

hs_status serve_map_fd(int fd, bool writable, serve_map *out) {
  struct stat st;
  if (fstat(fd, &st) != 0) return hs_fail_errno(HS_E_IO, "shared memory");
  void *p = mmap(NULL, (size_t)st.st_size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                 MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return hs_fail_errno(HS_E_NO_MEMORY, "shared memory");
  *out = (serve_map){p, (size_t)st.st_size};
  return HS_GOOD;
}

void serve_unmap(serve_map *m) {
  if (m->p) munmap(m->p, m->n);
  *m = (serve_map){0};
}

double serve_cpu_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int status_fd = -1, clear_fd = -1;

void serve_peak_rss_keep_open(void) {
  if (status_fd < 0) status_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (clear_fd < 0) clear_fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
}

i64 serve_peak_rss(bool reset) {
  serve_peak_rss_keep_open();
  if (reset && clear_fd >= 0) (void)!pwrite(clear_fd, "5", 1, 0);
  char text[4096];
  ssize_t n = status_fd >= 0 ? pread(status_fd, text, sizeof text - 1, 0) : -1;
  text[n > 0 ? n : 0] = 0;
  const char *line = strstr(text, "\nVmHWM:");
  long kb;
  return line && sscanf(line, " VmHWM: %ld", &kb) == 1 ? (i64)kb * 1024 : -1;
}

hs_status serve_measure(const backend_run_options *o, double first, serve_once *once, void *arg,
                        hs_buf *samples) {
  double ms = first;
  u32 max = HS_MAX(o->max_runs, 1u), min = HS_MIN(HS_MAX(o->min_runs, 1u), max);
  if (o->warmup == 0 && max <= 1 && !o->want_kernel_times) {
    hs_buf_put(samples, (const char *)&ms, sizeof ms);
    return HS_GOOD;
  }
  for (u32 k = 0; k < o->warmup; k++) HS_TRY(once(arg, &ms));
  // wall time: what once() does around the measured run, copies of donated arguments, say, counts
  u64 from = hs_now_ns();
  for (u32 n = 0; n < max;) {
    HS_TRY(once(arg, &ms));
    hs_buf_put(samples, (const char *)&ms, sizeof ms);
    n++;
    double total = (double)(hs_now_ns() - from) * 1e-9;
    if (n >= min && total >= o->min_seconds) break;
    if (o->max_seconds > 0 && total >= o->max_seconds) break;
  }
  return HS_GOOD;
}

u64 serve_program_id(const void *payload, size_t n) {
  wire_reader r = {payload, n, false};
  return (u64)wire_get_i64(&r);
}
