// noise.h — how quiet the machine is while something is measured: what others use of the
// processors, what the hypervisor takes, and how much a fixed piece of work varies.
#ifndef PROF_NOISE_H
#define PROF_NOISE_H

#include "profiler/stats.h"

typedef struct prof_noise {
  u32 cores;      // online
  double busy;    // cores that other processes kept busy; -1: not known
  double steal;   // part of the machine's time that the hypervisor took; -1: not known
  double spread;  // of a fixed kernel: (p90 - p10) / median of its time
  double ghz;     // clock frequency of core 0 now; -1: not known
} prof_noise;

// Runs a fixed kernel of integer operations again and again for `seconds` and looks at what else
// the machine did meanwhile. Processes of our own must be idle.
prof_noise prof_noise_measure(double seconds);
// True when a report must mention it: half a core busy, 1 % stolen, or a fixed kernel that varies
// by more than 5 %.
bool prof_noise_loud(const prof_noise *);
// "2 cores, 0.1 busy with other work, 0.0 % stolen, a fixed kernel varies by 1.2 %"; appended.
void prof_noise_text(const prof_noise *, hs_buf *);

#endif
