// serve.h — worker side: what the handlers of every backend need: shared memory by descriptor,
// the process's clocks and peak memory, and the loop that measures the steady state.
#ifndef BACKEND_SERVE_H
#define BACKEND_SERVE_H

#include "backends/backend.h"

typedef struct serve_map {
  char *p;
  size_t n;
} serve_map;
hs_status serve_map_fd(int fd, bool writable, serve_map *out);
void serve_unmap(serve_map *);  // zeroed ones too

double serve_cpu_ms(void);  // of the process, all threads
// bytes since the last reset, by the kernel's own count; -1 unknown
i64 serve_peak_rss(bool reset);

// Runs once and says how long it took; what it does outside its own clock does not count.
typedef hs_status serve_once(void *arg, double *ms);
// Warm-up, then runs as the options ask; the samples are appended to `samples` (doubles). With one
// run asked for and no warm-up, `first` (already measured) is the sample and nothing runs.
hs_status serve_measure(const backend_run_options *, double first, serve_once *, void *arg,
                        hs_buf *samples);

#endif
