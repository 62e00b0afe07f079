// serve.h — worker side: what the handlers of all backends share: mapped descriptors, the
// process's CPU time and peak memory, and the loop that measures the steady state.
#ifndef BACKEND_SERVE_H
#define BACKEND_SERVE_H

#include "backends/backend.h"

typedef struct serve_map {
  char *p;
  size_t n;
} serve_map;
// Maps all of the file behind a descriptor, shared with the shell; E_IO or E_NO_MEMORY. The
// descriptor stays the caller's.
hs_status serve_map_fd(int fd, bool writable, serve_map *out);
void serve_unmap(serve_map *);  // zeroed ones too

double serve_cpu_ms(void);  // CPU time of the process, all threads
// Peak resident bytes of the process since the last reset, as the kernel counts them; -1: unknown.
// reset: starts anew.
i64 serve_peak_rss(bool reset);
// Opens the files it reads, for a process that will not be allowed to.
void serve_peak_rss_keep_open(void);

// Runs once and stores how long it took; what it does outside of its own clock does not count.
typedef hs_status serve_once(void *arg, double *ms);
// Warm-up, then runs as the options ask; the samples are appended to `samples` (doubles). With one
// run asked for and no warm-up, `first` (already measured) is the sample and nothing runs.
hs_status serve_measure(const backend_run_options *, double first, serve_once *, void *arg,
                        hs_buf *samples);

// The number of the program that a request to release it names: its first field.
u64 serve_program_id(const void *payload, size_t n);

#endif
