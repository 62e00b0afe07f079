// queue.c — one thread per client that does what was asked for, in order: programs, and copies
// out of what they make. The virtual devices share the host's cores, and a program uses all of
// them, so one queue serves them all.
//
// The thread is started by the first job. Whoever ends the client closes the queue: what is in it
// is done first, and what comes later is done where it is asked for.
#include "plugin/plugin.h"

typedef struct job {
  void (*run)(void *take);
  void *arg;
  struct job *next;
} job;
struct plug_queue {
  _Atomic u32 refs;  // the client's and the thread's
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  bool started, closed;
  job *first, **end;
  _Atomic u32 waiting;  // jobs that have not ended
};

plug_queue *plug_queue_new(void) {
  plug_queue *q = hs_calloc(1, sizeof *q);
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->changed, NULL);
  q->end = &q->first;
  atomic_init(&q->refs, 1);
  return q;
}

static void *work(void *arg) {
  plug_queue *q = arg;
  for (;;) {
    pthread_mutex_lock(&q->lock);
    while (!q->first && !q->closed) pthread_cond_wait(&q->changed, &q->lock);
    job *j = q->first;
    if (j && !(q->first = j->next)) q->end = &q->first;
    pthread_mutex_unlock(&q->lock);
    if (!j) break;
    j->run(j->arg);
    hs_free(j);
    atomic_fetch_sub(&q->waiting, 1);
  }
  plug_queue_drop(q);
  return NULL;
}

bool plug_queue_is_here(plug_queue *q) {
  pthread_mutex_lock(&q->lock);
  bool here = q->started && pthread_equal(pthread_self(), q->thread);
  pthread_mutex_unlock(&q->lock);
  return here;
}

bool plug_queue_is_idle(plug_queue *q) { return atomic_load(&q->waiting) == 0; }

void plug_queue_add(plug_queue *q, void (*run)(void *take), void *arg) {
  pthread_mutex_lock(&q->lock);
  if (!q->started && !q->closed) {
    atomic_fetch_add(&q->refs, 1);
    q->started = !pthread_create(&q->thread, NULL, work, q);
    if (!q->started) atomic_fetch_sub(&q->refs, 1);
  }
  bool here = !q->started || q->closed;
  if (!here) {
    job *j = hs_calloc(1, sizeof *j);
    *j = (job){run, arg, NULL};
    *q->end = j;
    q->end = &j->next;
    atomic_fetch_add(&q->waiting, 1);
    pthread_cond_signal(&q->changed);
  }
  pthread_mutex_unlock(&q->lock);
  if (here) run(arg);
}

void plug_queue_close(plug_queue *q) {
  pthread_mutex_lock(&q->lock);
  bool join = q->started && !q->closed;
  q->closed = true;
  pthread_cond_signal(&q->changed);
  pthread_mutex_unlock(&q->lock);
  if (!join) return;
  // an event's callback may end the client: the thread cannot wait for itself
  if (pthread_equal(pthread_self(), q->thread)) pthread_detach(q->thread);
  else pthread_join(q->thread, NULL);
}

void plug_queue_drop(plug_queue *q) {
  if (atomic_fetch_sub(&q->refs, 1) > 1) return;
  pthread_cond_destroy(&q->changed);
  pthread_mutex_destroy(&q->lock);
  hs_free(q);
}
