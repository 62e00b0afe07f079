// event.c — errors, what is not ready yet, and events, which are handles to that.
//
// A plug_ready is set once, by who makes the value, and is shared by the bytes that are waited for
// and by every event about them. NULL stands for what is ready from the start.
#include "plugin/plugin.h"

// ---- errors -------------------------------------------------------------------------------------
pj_error *plug_fail(int code, const char *fmt, ...) {
  pj_error *e = plug_handle_new(PLUG_ERROR, sizeof *e);
  hs_buf b = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  e->code = code;
  e->text = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return e;
}

static int code_of(hs_code c) {
  switch (c) {
  case HS_E_UNSUPPORTED:
  case HS_E_NO_HLO:
  case HS_E_NOT_BUILT: return PJ_UNIMPLEMENTED;
  case HS_E_NO_MEMORY:
  case HS_E_LIMIT: return PJ_RESOURCE_EXHAUSTED;
  case HS_E_INTERNAL:
  case HS_E_WORKER:
  case HS_E_RUN: return PJ_INTERNAL;
  default: return PJ_INVALID_ARGUMENT;
  }
}

pj_error *plug_status(hs_status s) {
  if (hs_ok(s)) return NULL;
  hs_buf b = {0};
  hs_status_render(s, &b, false);
  while (b.n && b.p[b.n - 1] == '\n') b.n--;
  pj_error *e = plug_fail(code_of(s.err->code), "hlosh: %s", hs_buf_cstr(&b));
  hs_buf_free(&b);
  hs_status_drop(s);
  return e;
}

void plug_error_free(pj_error *e) {
  if (!e) return;
  hs_free(e->text);
  e->text = NULL;
  plug_handle_free(PLUG_ERROR, e);
}

static pj_error *copy_of(const pj_error *e) { return e ? plug_fail(e->code, "%s", e->text) : NULL; }

void plug_Error_Destroy(pj_error_destroy *a) { plug_error_free(a->error); }
void plug_Error_Message(pj_error_message *a) {
  a->text = a->error->text;
  a->n = strlen(a->text);
}
ANSWER(Error_GetCode, pj_error_code, a->code = a->error->code)

// ---- what is not ready yet ----------------------------------------------------------------------
typedef struct waiter {
  void (*call)(pj_error *take, void *arg);
  void *arg;
} waiter;
struct plug_ready {
  _Atomic u32 refs;
  _Atomic bool done;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pj_error *error;
  HS_VEC(waiter) waiters;
};

plug_ready *plug_ready_new(void) {
  plug_ready *r = hs_calloc(1, sizeof *r);
  atomic_init(&r->refs, 1);
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->changed, NULL);
  return r;
}
plug_ready *plug_ready_share(plug_ready *r) {
  if (r) atomic_fetch_add(&r->refs, 1);
  return r;
}
void plug_ready_drop(plug_ready *r) {
  if (!r || atomic_fetch_sub(&r->refs, 1) > 1) return;
  plug_error_free(r->error);
  hs_vec_free(&r->waiters);
  pthread_cond_destroy(&r->changed);
  pthread_mutex_destroy(&r->lock);
  hs_free(r);
}
bool plug_ready_is(const plug_ready *r) { return !r || atomic_load(&r->done); }

void plug_ready_set(plug_ready *r, const pj_error *error) {
  pthread_mutex_lock(&r->lock);
  r->error = copy_of(error);
  atomic_store(&r->done, true);
  pthread_cond_broadcast(&r->changed);
  pthread_mutex_unlock(&r->lock);
  // nobody is added any more
  for (size_t k = 0; k < r->waiters.n; k++)
    r->waiters.v[k].call(copy_of(r->error), r->waiters.v[k].arg);
}

pj_error *plug_ready_wait(plug_ready *r) {
  if (!r) return NULL;
  pthread_mutex_lock(&r->lock);
  while (!atomic_load(&r->done)) pthread_cond_wait(&r->changed, &r->lock);
  pthread_mutex_unlock(&r->lock);
  return copy_of(r->error);
}

static void call_when_ready(plug_ready *r, waiter w) {
  if (!plug_ready_is(r)) {
    pthread_mutex_lock(&r->lock);
    bool later = !atomic_load(&r->done);
    if (later) hs_vec_push(&r->waiters, w);
    pthread_mutex_unlock(&r->lock);
    if (later) return;
  }
  w.call(r ? copy_of(r->error) : NULL, w.arg);
}

// ---- events -------------------------------------------------------------------------------------
pj_event *plug_event(plug_ready *r) {
  pj_event *e = plug_handle_new(PLUG_EVENT, sizeof *e);
  e->ready = plug_ready_share(r);
  return e;
}

pj_error *plug_Event_Destroy(pj_event_arg *a) {
  if (!a->event) return NULL;
  plug_ready_drop(a->event->ready);
  a->event->ready = NULL;
  plug_handle_free(PLUG_EVENT, a->event);
  return NULL;
}
ANSWER(Event_IsReady, pj_event_ready, a->ready = plug_ready_is(a->event->ready))
pj_error *plug_Event_Error(pj_event_arg *a) {
  if (!plug_ready_is(a->event->ready))
    return plug_fail(PJ_FAILED_PRECONDITION, "hlosh: the event is not ready");
  return plug_ready_wait(a->event->ready);
}
pj_error *plug_Event_Await(pj_event_arg *a) { return plug_ready_wait(a->event->ready); }
pj_error *plug_Event_OnReady(pj_event_on_ready *a) {
  if (!a->call) return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: nothing to call");
  // the event may be destroyed by what is called, or by another thread meanwhile
  plug_ready *r = plug_ready_share(a->event->ready);
  call_when_ready(r, (waiter){a->call, a->arg});
  plug_ready_drop(r);
  return NULL;
}
