// memory.c — the memory of buffers. A training step makes the buffers that the next one drops,
// each time of the same sizes; memory that the system hands out is cleared page by page when it is
// first touched, which costs as much as the arithmetic on it. So what is dropped is kept, by its
// size, up to a limit; when that is reached, all that is kept goes back first. Under ASan nothing
// is kept: it is to see who uses what was dropped.
#include "plugin/plugin.h"

#include <stdlib.h>

enum { ALIGNED = 64, LEAST_KEPT = 4096, KEPT_BUCKETS = 61 };
#ifdef HS_ASAN
static const size_t most_kept = 0;
#else
static const size_t most_kept = (size_t)256 << 20;
#endif

// At the beginning of a block that is kept.
typedef struct kept {
  struct kept *next;
  size_t n;
} kept;
struct plug_memory {
  pthread_mutex_t lock;
  size_t bytes;  // of all that is kept
  kept *of[KEPT_BUCKETS];
};

plug_memory *plug_memory_new(void) {
  plug_memory *m = hs_calloc(1, sizeof *m);
  pthread_mutex_init(&m->lock, NULL);
  return m;
}

// Called with the lock held.
static void give_back(plug_memory *m) {
  for (u32 k = 0; k < KEPT_BUCKETS; k++)
    while (m->of[k]) {
      kept *b = m->of[k];
      m->of[k] = b->next;
      free(b);
    }
  m->bytes = 0;
}

void plug_memory_free(plug_memory *m) {
  give_back(m);
  pthread_mutex_destroy(&m->lock);
  hs_free(m);
}

static size_t whole(size_t n) {
  n = HS_MAX(n, (size_t)ALIGNED);
  return n > SIZE_MAX - ALIGNED ? n : (n + ALIGNED - 1) / ALIGNED * ALIGNED;
}
static kept **bucket_of(plug_memory *m, size_t n) { return &m->of[n / ALIGNED % KEPT_BUCKETS]; }

void *plug_memory_take(plug_memory *m, size_t n) {
  void *p = NULL;
  n = whole(n);
  if (n >= LEAST_KEPT) {
    pthread_mutex_lock(&m->lock);
    kept **at = bucket_of(m, n);
    while (*at && (*at)->n != n) at = &(*at)->next;
    if ((p = *at)) *at = (*at)->next, m->bytes -= n;
    pthread_mutex_unlock(&m->lock);
  }
  return p || posix_memalign(&p, ALIGNED, n) == 0 ? p : NULL;
}

void plug_memory_drop(plug_memory *m, void *p, size_t n) {
  n = whole(n);
  if (n < LEAST_KEPT || n > most_kept / 4) {
    free(p);
    return;
  }
  kept *b = p;
  pthread_mutex_lock(&m->lock);
  if (m->bytes + n > most_kept) give_back(m);
  kept **at = bucket_of(m, n);
  *b = (kept){*at, n};
  *at = b;
  m->bytes += n;
  pthread_mutex_unlock(&m->lock);
}
