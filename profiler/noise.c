// noise.c: the machine's noise, and what children use of it. See noise.h. Sources: /proc/stat for
// time by kind, in ticks of 10 ms, which is why short measurements know nothing of it; cpufreq of
// core 0 in /sys; /proc/self/task/*/children, their processor clocks and /proc/PID/stat; powercap
// for energy.
#include "profiler/noise.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double own_cpu_seconds(void) {
  struct rusage u;
  if (getrusage(RUSAGE_SELF, &u) != 0) return 0;
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

prof_others prof_others_now(void) {
  prof_others t = {.at = hs_now_ns()};
  FILE *f = fopen("/proc/stat", "re");
  if (!f) return t;
  unsigned long long user, nice, system, idle, wait, irq, soft, steal;
  t.known = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
                   &wait, &irq, &soft, &steal) == 8;
  (void)fclose(f);
  // where children are not listed, what they do would be taken for the work of others
  t.known &= access("/proc/thread-self/children", R_OK) == 0;
  double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
  if (t.known) {
    t.work = (double)(user + nice + system + irq + soft) * tick - own_cpu_seconds() -
             prof_usage_now().cpu_s;
    t.steal = (double)steal * tick;
  }
  return t;
}

void prof_noise_take_others(prof_noise *x, const prof_others *from, const prof_others *to) {
  double wall = (double)(to->at - from->at) * 1e-9;
  if (!from->known || !to->known || wall < 0.1) return;
  x->busy = fmax(x->busy, fmax(to->work - from->work, 0) / wall);
  x->steal = fmax(x->steal, fmax(to->steal - from->steal, 0) / (wall * x->cores));
}

static double read_ghz(void) {
  FILE *f = fopen("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "re");
  double khz = -1;
  if (!f) return -1;
  bool known = fscanf(f, "%lf", &khz) == 1;
  (void)fclose(f);
  return known ? khz * 1e-6 : -1;
}

// The fixed kernel: a chain of dependent multiplications, about 0.1 ms, that touches no memory. ms.
static double fixed_kernel(u64 *state) {
  u64 from = hs_now_ns();
  for (u32 k = 0; k < 30000; k++) *state = hs_mix(*state, k);
  return (double)(hs_now_ns() - from) * 1e-6;
}

// ---- memory -------------------------------------------------------------------------------------
enum { PROBE_WORDS = 2 << 20 };

void prof_probe_once(prof_probe *x) {
  if (!x->words) {
    void *p = mmap(NULL, PROBE_WORDS * sizeof(u64), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    x->words = memset(p, 0, PROBE_WORDS * sizeof(u64));  // its pages are there
  }
  u64 from = hs_now_ns();
  for (u32 k = 0; k < PROBE_WORDS; k++) x->words[k] += k;
  hs_vec_push(&x->ms, (double)(hs_now_ns() - from) * 1e-6);
}

// (p90 - p10) / median
static double spread_of(const prof_stats *st) {
  return st->median > 0 ? (st->p90 - st->p10) / st->median : 0;
}

void prof_noise_take_probe(prof_noise *noise, const prof_probe *x) {
  if (x->ms.n < 3) return;
  prof_stats st = prof_summarize(x->ms.v, (u32)x->ms.n);
  noise->memory_ms = st.median;
  noise->memory_spread = spread_of(&st);
}

void prof_probe_free(prof_probe *x) {
  if (x->words) (void)munmap(x->words, PROBE_WORDS * sizeof(u64));
  hs_vec_free(&x->ms);
}

// ---- all of it ----------------------------------------------------------------------------------
prof_noise prof_noise_measure(double seconds) {
  prof_noise x = {.cores = (u32)HS_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L), .busy = -1, .steal = -1};
  x.memory_ms = x.memory_spread = -1;
  prof_others before = prof_others_now();
  u64 end = hs_now_ns() + (u64)(seconds * 1e9), state = 1;
  prof_samples times = {0};
  prof_probe memory = {0};
  do {
    prof_probe_once(&memory);
    for (u32 k = 0; k < 8; k++) hs_vec_push(&times, fixed_kernel(&state));
  } while (hs_now_ns() < end && !hs_interrupted());
  prof_others after = prof_others_now();
  prof_noise_take_others(&x, &before, &after);
  prof_stats st = prof_summarize(times.v, (u32)times.n);
  x.spread = spread_of(&st);
  prof_noise_take_probe(&x, &memory);
  // the result is used, so that the work is done
  if (state == 0) x.spread = 0;
  x.ghz = read_ghz();
  hs_vec_free(&times);
  prof_probe_free(&memory);
  return x;
}

prof_level prof_noise_level(const prof_noise *x) {
  if (x->busy >= 0.2 || x->steal >= 0.01) return PROF_OTHER_WORK;
  return x->spread > 0.05 || x->memory_spread > 0.15 ? PROF_UNEVEN : PROF_QUIET;
}

bool prof_noise_loud(const prof_noise *x) { return prof_noise_level(x) != PROF_QUIET; }

void prof_noise_text(const prof_noise *x, hs_buf *b) {
  hs_buf_printf(b, "%u core%s", x->cores, x->cores == 1 ? "" : "s");
  if (x->ghz > 0) hs_buf_printf(b, " at %.2f GHz", x->ghz);
  if (x->busy >= 0) hs_buf_printf(b, ", %.1f busy with other work", x->busy);
  if (x->steal >= 0) hs_buf_printf(b, ", %.1f %% stolen", 100 * x->steal);
  hs_buf_printf(b, ", a fixed kernel varies by %.1f %%", 100 * x->spread);
  if (x->memory_spread >= 0) hs_buf_printf(b, ", memory by %.0f %%", 100 * x->memory_spread);
}

// ---- what was used ------------------------------------------------------------------------------
static void add_child(prof_usage *u, long pid) {
  char path[64], line[1024];
  clockid_t clock;
  struct timespec t;
  if (clock_getcpuclockid((pid_t)pid, &clock) == 0 && clock_gettime(clock, &t) == 0)
    u->cpu_s += (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
  (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  FILE *f = fopen(path, "re");
  if (!f) return;
  unsigned long long faults;
  // behind the program's name: state, five numbers, flags, minor faults
  const char *end = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
  if (end && sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %llu", &faults) == 1)
    u->faults += (double)faults;
  (void)fclose(f);
}

double prof_energy_in(const char *folder) {
  double sum = -1, uj;
  for (u32 k = 0; k < 16; k++) {
    char *path = hs_format("%s/intel-rapl:%u/energy_uj", folder, k);
    FILE *f = fopen(path, "re");
    bool known = f && fscanf(f, "%lf", &uj) == 1;
    if (f) (void)fclose(f);
    hs_free(path);
    if (!known) break;
    sum = fmax(sum, 0) + uj * 1e-6;
  }
  return sum;
}

prof_usage prof_usage_now(void) {
  prof_usage u = {.joules = prof_energy_in(PROF_POWERCAP)};
  DIR *d = opendir("/proc/self/task");
  if (!d) return u;
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    if (e->d_name[0] == '.') continue;
    char *path = hs_format("/proc/self/task/%s/children", e->d_name);
    FILE *f = fopen(path, "re");
    long pid;
    while (f && fscanf(f, "%ld", &pid) == 1) add_child(&u, pid);
    if (f) (void)fclose(f);
    hs_free(path);
  }
  (void)closedir(d);
  return u;
}

prof_usage prof_usage_between(const prof_usage *a, const prof_usage *b) {
  bool known = a->joules >= 0 && b->joules >= 0;
  return (prof_usage){.cpu_s = fmax(b->cpu_s - a->cpu_s, 0),
                      .faults = fmax(b->faults - a->faults, 0),
                      .joules = known && b->joules >= a->joules ? b->joules - a->joules : -1};
}

double prof_fault_s(void) {
  enum { PAGES = 256, PAGE = 4096, TRIES = 5 };
  double least = INFINITY;
  for (u32 k = 0; k < TRIES; k++) {
    u8 *p = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    if (p == MAP_FAILED) break;
    (void)madvise(p, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
    u64 from = hs_now_ns();
    for (u32 q = 0; q < PAGES; q++) ((volatile u8 *)p)[(size_t)q * PAGE] = 1;
    least = fmin(least, (double)(hs_now_ns() - from) * 1e-9 / PAGES);
    (void)munmap(p, (size_t)PAGES * PAGE);
  }
  return isfinite(least) ? least : 0;
}
