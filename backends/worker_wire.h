// worker_wire.h — the frames between shell and worker: a fixed header, then the body; descriptors
// are sent along with the header. Private to worker.c (shell side) and worker_loop.c (worker side).
#ifndef BACKEND_WORKER_WIRE_H
#define BACKEND_WORKER_WIRE_H

#include "backends/worker.h"

#define WORKER_MAGIC 0x6b72774fu
#define WORKER_MAX_FDS 16

// Memory that a worker shares with the shell for as long as it lives: what it would otherwise take
// to its grave. A damaged or hostile worker writes what it likes there; the shell reads it as such.
typedef struct worker_report {
  sandbox_counts refused;
  _Atomic u32 told;  // `doing` is complete
  char doing[480];   // ends with a NUL when it is complete
} worker_report;

typedef struct worker_frame {
  u32 magic, kind;    // request: WORKER_REQ_*; reply: hs_code
  u32 nfds, text[3];  // reply: lengths of message, note and subject at the start of the body
  u64 bytes;          // of the body
} worker_frame;

#endif
