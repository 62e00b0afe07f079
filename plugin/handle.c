// handle.c — what a caller holds: every handle begins with its kind, so that a NULL, a handle of
// another kind and one that was destroyed are refused instead of followed.
//
// A destroyed handle keeps its memory, marked, until as many others of its kind have been destroyed
// after it as a ring holds: a library cannot know whether a pointer is one, but a handle that is
// used or destroyed once more soon after its end is the common mistake. Pointers that never were
// handles cannot be told.
#include "plugin/plugin.h"

enum { ALIVE = 0x686c7300, DEAD = 0x64656164, RING = 64 };

static struct {
  pthread_mutex_t lock;
  struct {
    plug_handle *v[RING];
    u32 next;
  } of[PLUG_KINDS];
} ended = {.lock = PTHREAD_MUTEX_INITIALIZER};

void plug_handle_init(plug_handle *h, plug_kind kind) { atomic_init(&h->mark, ALIVE + (u32)kind); }

void *plug_handle_new(plug_kind kind, size_t size) {
  plug_handle *h = hs_calloc(1, size);
  plug_handle_init(h, kind);
  return h;
}

void plug_handle_end(plug_handle *h) { atomic_store(&h->mark, DEAD); }

void plug_handle_free(plug_kind kind, void *handle) {
  plug_handle *h = handle, *oldest;
  plug_handle_end(h);
  pthread_mutex_lock(&ended.lock);
  u32 at = ended.of[kind].next++ % RING;
  oldest = ended.of[kind].v[at];
  ended.of[kind].v[at] = h;
  pthread_mutex_unlock(&ended.lock);
  hs_free(oldest);
}

bool plug_is(const void *handle, plug_kind kind) {
  const plug_handle *h = handle;
  return h && (uintptr_t)h % _Alignof(plug_handle) == 0 &&
         atomic_load(&h->mark) == (u32)ALIVE + (u32)kind;
}

// ---- the gate -----------------------------------------------------------------------------------
static const char *const names[PLUG_KINDS] = {
#define KIND(id, text) [PLUG_##id] = text,
    PLUG_KIND_LIST(KIND)
#undef KIND
};

pj_error *plug_not_a(const char *function, const void *handle, plug_kind kind) {
  return plug_fail(PJ_INVALID_ARGUMENT, "%s: the %s is %s", function, names[kind],
                   !handle ? "NULL" : "none, or was destroyed");
}

// The kind alone, of a column of functions.def.
static plug_kind kind_of(u32 column) { return (plug_kind)(column & (PLUG_OR_NULL - 1)); }

bool plug_sound(const void *args, size_t size, u32 kind) {
  const plug_first *a = args;
  if (!a || a->struct_size < size) return false;
  if (kind == PLUG_NONE) return true;
  return plug_is(a->handle, kind_of(kind)) || (!a->handle && (kind & PLUG_OR_NULL));
}

pj_error *plug_unsound(const char *function, const void *args, size_t size, u32 kind) {
  const plug_first *a = args;
  if (!a) return plug_fail(PJ_INVALID_ARGUMENT, "%s: no arguments", function);
  if (a->struct_size < size)
    return plug_fail(PJ_INVALID_ARGUMENT,
                     "%s: the arguments have %zu bytes, %zu are needed (API version %d.%d)",
                     function, a->struct_size, size, PLUG_API_MAJOR, PLUG_API_MINOR);
  return plug_not_a(function, a->handle, kind_of(kind));
}
