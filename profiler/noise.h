// noise.h — the machine while something is measured: what others use of the processors, what the
// hypervisor takes, how much fixed pieces of work vary; and what our own child processes, in which
// programs run, use of it: processor time, fresh pages, energy.
#ifndef PROF_NOISE_H
#define PROF_NOISE_H

#include "profiler/stats.h"

typedef struct prof_noise {
  u32 cores;      // online
  double busy;    // cores that other processes kept busy; -1: not known
  double steal;   // part of the machine's time that the hypervisor took; -1: not known
  double spread;  // of a fixed kernel: (p90 - p10) / median of its time
  // of one that streams through memory: its median, ms, and likewise; -1: not known
  double memory_ms, memory_spread;
  double ghz;  // clock frequency of core 0 now; -1: not known
} prof_noise;

// A fixed piece of work on memory. Others on the same host that a guest does not see share its last
// cache and its memory, and come and go by the second: a kernel in registers knows nothing of them.
typedef struct prof_probe {
  u64 *words;       // 16 MiB; NULL before the first time, and where there is no memory for it
  prof_samples ms;  // of each time
} prof_probe;
void prof_probe_once(prof_probe *);  // about a millisecond
void prof_probe_free(prof_probe *);

// What it measured, in place of what is in `noise`; nothing for fewer than three times.
void prof_noise_take_probe(prof_noise *noise, const prof_probe *);

// Seconds that processors have worked for others, and that the hypervisor took, until `at`.
// Differences of two readings are of what was between them.
typedef struct prof_others {
  u64 at;  // ns
  double work, steal;
  bool known;
} prof_others;
prof_others prof_others_now(void);  // of this process and its children nothing is in it
// Between the two, in place of what is in `noise` where that is less: work that began later than
// the noise was measured, or that came and went. Ticks are coarse: nothing below a tenth of a
// second.
void prof_noise_take_others(prof_noise *noise, const prof_others *from, const prof_others *to);

// Runs fixed kernels, of integer operations and on memory, again and again for `seconds` and looks
// at what else the machine did meanwhile.
prof_noise prof_noise_measure(double seconds);
// How far measurements may be off: a fifth of a core busy or 1 % stolen is other work; where none
// is seen, a fixed kernel that varies by more than 5 %, or that on memory by more than 15 %, is an
// uneven machine.
typedef enum prof_level { PROF_QUIET, PROF_UNEVEN, PROF_OTHER_WORK } prof_level;
prof_level prof_noise_level(const prof_noise *);
bool prof_noise_loud(const prof_noise *);  // not PROF_QUIET: a report must mention it
// "2 cores, 0.1 busy with other work, 0.0 % stolen, a fixed kernel varies by 1.2 %, memory by 4 %";
// appended.
void prof_noise_text(const prof_noise *, hs_buf *);

// What the child processes of this one have used since they were started; differences of two
// readings are of what ran between them.
typedef struct prof_usage {
  double cpu_s;   // all threads
  double faults;  // pages that the kernel had to give or map anew, without the disk
  double joules;  // of the processor packages, whoever used them; < 0: not readable
} prof_usage;
prof_usage prof_usage_now(void);
// later - earlier, none below 0; joules < 0 where either is not known, or a counter has gone round.
prof_usage prof_usage_between(const prof_usage *earlier, const prof_usage *later);
// The sum of the packages' counters, Intel's and AMD's RAPL as the kernel's powercap has them in
// `folder`, in joules; < 0: there are none that this user may read.
double prof_energy_in(const char *folder);
#define PROF_POWERCAP "/sys/class/powercap"
// Seconds that the kernel takes to give a process a fresh page of 4 KiB and clear it, the least of
// several tries.
double prof_fault_s(void);

#endif
