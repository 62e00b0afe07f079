// noise.c — the machine's noise. See noise.h. Sources: /proc/stat for time by kind, in ticks of
// 10 ms, which is why short measurements know nothing of it; cpufreq of core 0 in /sys.
#include "profiler/noise.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

// Seconds since boot, summed over the cores: at work, and stolen by the hypervisor.
typedef struct cpu_times {
  double work, steal;
  bool known;
} cpu_times;

static cpu_times read_cpu_times(void) {
  cpu_times t = {0};
  FILE *f = fopen("/proc/stat", "re");
  if (!f) return t;
  unsigned long long user, nice, system, idle, wait, irq, soft, steal;
  t.known = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
                   &wait, &irq, &soft, &steal) == 8;
  (void)fclose(f);
  double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
  if (t.known) {
    t.work = (double)(user + nice + system + irq + soft) * tick;
    t.steal = (double)steal * tick;
  }
  return t;
}

static double own_cpu_seconds(void) {
  struct rusage u;
  if (getrusage(RUSAGE_SELF, &u) != 0) return 0;
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
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

prof_noise prof_noise_measure(double seconds) {
  prof_noise x = {.cores = (u32)HS_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L), .busy = -1, .steal = -1};
  cpu_times before = read_cpu_times();
  double own = own_cpu_seconds();
  u64 from = hs_now_ns(), end = from + (u64)(seconds * 1e9), state = 1;
  prof_samples times = {0};
  do hs_vec_push(&times, fixed_kernel(&state));
  while (hs_now_ns() < end && !hs_interrupted());
  double wall = (double)(hs_now_ns() - from) * 1e-9;
  cpu_times after = read_cpu_times();
  if (before.known && after.known && wall >= 0.1) {
    double others = after.work - before.work - (own_cpu_seconds() - own);
    x.busy = HS_MAX(others, 0) / wall;
    x.steal = HS_MAX(after.steal - before.steal, 0) / (wall * x.cores);
  }
  prof_stats st = prof_summarize(times.v, (u32)times.n);
  x.spread = st.median > 0 ? (st.p90 - st.p10) / st.median : 0;
  // the result is used, so that the work is done
  if (state == 0) x.spread = 0;
  x.ghz = read_ghz();
  hs_vec_free(&times);
  return x;
}

bool prof_noise_loud(const prof_noise *x) {
  return x->busy >= 0.5 || x->steal >= 0.01 || x->spread > 0.05;
}

void prof_noise_text(const prof_noise *x, hs_buf *b) {
  hs_buf_printf(b, "%u core%s", x->cores, x->cores == 1 ? "" : "s");
  if (x->ghz > 0) hs_buf_printf(b, " at %.2f GHz", x->ghz);
  if (x->busy >= 0) hs_buf_printf(b, ", %.1f busy with other work", x->busy);
  if (x->steal >= 0) hs_buf_printf(b, ", %.1f %% stolen", 100 * x->steal);
  hs_buf_printf(b, ", a fixed kernel varies by %.1f %%", 100 * x->spread);
}
