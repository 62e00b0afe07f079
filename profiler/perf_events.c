// perf_events.c: perf_event_open(2) on each thread of a process, and its ring buffers. See
// perf_events.h; the layout of the rings is that of linux/perf_event.h.
//
// The calling process needs the right to look at the other one: the same user, and
// /proc/sys/kernel/perf_event_paranoid of at most 2, or CAP_PERFMON.
#include "profiler/perf_events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RING_PAGES = 64 };  // a power of two; a sample takes 16 bytes

typedef struct ring {
  int fd;
  struct perf_event_mmap_page *page;
} ring;

struct prof_sampler {
  HS_VEC(ring) rings;
  const char *event;
  size_t page_bytes, bytes;  // bytes: of a mapping
};

static const struct kind {
  const char *name;
  u32 type;
  u64 config;
} kinds[] = {
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK},
};

static int open_event(const struct kind *k, pid_t tid, u32 hz) {
  struct perf_event_attr a;
  memset(&a, 0, sizeof a);
  a.size = sizeof a;
  a.type = k->type;
  a.config = k->config;
  a.freq = 1;
  a.sample_freq = hz;
  a.sample_type = PERF_SAMPLE_IP;
  a.exclude_kernel = 1;
  a.exclude_hv = 1;
  return (int)syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static hs_status forbidden(int why) {
  char text[16] = "";
  int fd = open("/proc/sys/kernel/perf_event_paranoid", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) (void)close(fd);
  text[n > 0 ? n : 0] = 0;
  text[strcspn(text, "\n")] = 0;
  if (n < 0)
    return hs_with_note(hs_fail(HS_E_UNSUPPORTED, "this kernel has no perf events"),
                        "without --sample the kernels are timed by probes");
  return hs_with_note(
      hs_fail(HS_E_UNSUPPORTED, "the kernel does not let perf events sample the worker: %s (%s %s)",
              strerror(why), "perf_event_paranoid is", text),
      "as root: sysctl kernel.perf_event_paranoid=2, or give hlosh CAP_PERFMON; in a container "
      "its seccomp profile must allow perf_event_open");
}

static hs_status add_thread(prof_sampler *s, const struct kind *k, pid_t tid, u32 hz) {
  ring r = {.fd = open_event(k, tid, hz)};
  if (r.fd < 0) return errno == ESRCH ? HS_GOOD : forbidden(errno);  // ended meanwhile
  r.page = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r.fd, 0);
  if (r.page == MAP_FAILED) {
    int why = errno;
    (void)close(r.fd);
    return forbidden(why);
  }
  hs_vec_push(&s->rings, r);
  return HS_GOOD;
}

static hs_status add_threads(prof_sampler *s, const struct kind *k, pid_t pid, u32 hz) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
  DIR *d = opendir(path);
  if (!d) return hs_fail_errno(HS_E_IO, path);
  hs_status st = HS_GOOD;
  for (struct dirent *e = readdir(d); e && hs_ok(st); e = readdir(d))
    if (e->d_name[0] != '.') st = add_thread(s, k, (pid_t)strtol(e->d_name, NULL, 10), hz);
  (void)closedir(d);
  if (hs_ok(st) && !s->rings.n) st = hs_fail(HS_E_RUN, "the process has no threads to sample");
  return st;
}

hs_status prof_sampler_open(pid_t pid, u32 hz, prof_sampler **out) {
  *out = NULL;
  const struct kind *k = kinds;
  // a machine without counters says so by ENOENT, EOPNOTSUPP or ENODEV
  int fd = open_event(k, pid, hz);
  if (fd < 0 && errno != EACCES && errno != EPERM) k++;
  if (fd >= 0) (void)close(fd);
  prof_sampler *s = hs_calloc(1, sizeof *s);
  s->event = k->name;
  s->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  s->bytes = (1 + RING_PAGES) * s->page_bytes;
  hs_status st = add_threads(s, k, pid, hz);
  if (hs_ok(st)) *out = s;
  else prof_sampler_close(s);
  return st;
}

void prof_sampler_close(prof_sampler *s) {
  if (!s) return;
  for (size_t k = 0; k < s->rings.n; k++) {
    (void)munmap(s->rings.v[k].page, s->bytes);
    (void)close(s->rings.v[k].fd);
  }
  hs_vec_free(&s->rings);
  hs_free(s);
}

const char *prof_sampler_event(const prof_sampler *s) { return s->event; }
u32 prof_sampler_threads(const prof_sampler *s) { return (u32)s->rings.n; }

// n bytes of the ring from a position that only grows.
static void copy_out(const char *data, size_t size, u64 at, void *to, size_t n) {
  for (size_t k = 0; k < n; k++) ((char *)to)[k] = data[(at + k) % size];
}

static void read_ring(const ring *r, size_t page_bytes, prof_addresses *out, u64 *lost) {
  const char *data = (const char *)r->page + page_bytes;
  const size_t size = RING_PAGES * page_bytes;
  u64 head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE), tail = r->page->data_tail;
  while (tail < head) {
    struct perf_event_header h;
    u64 v[2] = {0};  // a sample: its address; records lost: an id, how many
    copy_out(data, size, tail, &h, sizeof h);
    if (h.size < sizeof h) break;
    copy_out(data, size, tail + sizeof h, v, HS_MIN(h.size - sizeof h, sizeof v));
    if (h.type == PERF_RECORD_SAMPLE) hs_vec_push(out, v[0]);
    if (h.type == PERF_RECORD_LOST) *lost += v[1];
    tail += h.size;
  }
  __atomic_store_n(&r->page->data_tail, head, __ATOMIC_RELEASE);
}

void prof_sampler_read(prof_sampler *s, prof_addresses *out, u64 *lost) {
  for (size_t k = 0; k < s->rings.n; k++) read_ring(&s->rings.v[k], s->page_bytes, out, lost);
}
