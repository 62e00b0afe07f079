// memory.c — the heap: counted, limited, and with a reserve for the time when there is none left.
// See base.h.
//
// Two kinds of requests. What the program needs to hold things that are in memory already (a name,
// a node, a table with a slot per instruction) never fails: hs_alloc. When the system refuses, the
// reserve serves it and HS_STOP_MEMORY is raised, so that the work ends at its next poll. What a
// file, a shape or a user chose the size of (a literal, a text, an array of results) may be
// refused: hs_try_alloc returns NULL, and that becomes E_NO_MEMORY at once.
//
// The limit is counted in the same place, over everything that is held, mappings of arenas too. It
// refuses hs_try_alloc, and of hs_alloc it raises the stop only: the system still has the memory.
// Each piece of work gets a few megabytes beyond what was held at its start, or no command could
// mend a session that is above its limit.
//
// The reserve is address space that nobody has touched: it costs no memory until it is used. It
// grows with what is held, since the tables of a module grow with the module.
//
// Pieces are taken by moving an offset and never used twice. A piece is freed by counting down; the
// mapping goes when it is no longer the present one and the count is 0. A mutex guards it: what
// comes here has failed once already and need not be fast. The list holds at most a few mappings.
#include "core/base/base.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

// ---- counting -----------------------------------------------------------------------------------
static i64 used;                     // bytes held, atomic
static size_t limit_asked;           // of hs_memory_limit; 0: none
static size_t limit_now = SIZE_MAX;  // of this piece of work: at least a bit more than was held
static hs_memory refused;            // the latest refusal
#define GRACE ((size_t)8 << 20)  // bytes that a piece of work may add to a session above its limit

static void count(size_t n) { __atomic_fetch_add(&used, (i64)n, __ATOMIC_RELAXED); }
static void uncount(size_t n) { __atomic_fetch_sub(&used, (i64)n, __ATOMIC_RELAXED); }

size_t hs_memory_used(void) {
  i64 n = __atomic_load_n(&used, __ATOMIC_RELAXED);
  return n > 0 ? (size_t)n : 0;
}

void hs_memory_limit(size_t bytes) {
  limit_asked = bytes;
  size_t least = hs_memory_used() + GRACE;
  __atomic_store_n(&limit_now, !bytes ? SIZE_MAX : HS_MAX(bytes, least), __ATOMIC_RELAXED);
}

hs_memory hs_memory_refused(void) { return refused; }

static bool over(size_t n) {
  size_t most = __atomic_load_n(&limit_now, __ATOMIC_RELAXED), now = hs_memory_used();
  return HS_UNLIKELY(n > most || now > most - n);
}

bool hs_memory_tight(void) { return limit_asked && hs_memory_used() > limit_asked / 2; }

// Two threads that are refused at once may mix their figures, which are for a message.
static void note_refusal(size_t n, bool by_limit) {
  refused = (hs_memory){n, hs_memory_used(), by_limit ? limit_asked : 0};
}

bool hs_memory_take(size_t n) {
  if (over(n)) return note_refusal(n, true), false;
  count(n);
  return true;
}

void hs_memory_give(size_t n) { uncount(n); }

// ---- the reserve --------------------------------------------------------------------------------
typedef struct reserve {
  struct reserve *older;
  size_t bytes, at;  // of the mapping, this head included; where the next piece begins
  size_t live;       // pieces that are not freed
} reserve;
static reserve *reserves;  // the present one first
static pthread_mutex_t reserve_lock = PTHREAD_MUTEX_INITIALIZER;
static int reserve_was_used;  // atomic; until then no pointer has to be looked up
enum { PIECE_HEAD = 128 };    // its size; keeps pieces aligned for arena blocks

static size_t piece_size(const void *piece) {
  size_t n;
  return memcpy(&n, (const u8 *)piece - PIECE_HEAD, sizeof n), n;
}

static void fill(size_t bytes) {
  pthread_mutex_lock(&reserve_lock);
  if (!reserves || reserves->at > PIECE_HEAD || reserves->bytes < bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) {
      reserve *r = p;
      *r = (reserve){.older = reserves, .bytes = bytes, .at = PIECE_HEAD};
      reserves = r;
    }
  }
  for (reserve **at = reserves ? &reserves->older : &reserves; *at;) {
    reserve *r = *at;
    if (r->live) at = &r->older;
    else *at = r->older, munmap(r, r->bytes);
  }
  pthread_mutex_unlock(&reserve_lock);
}

void hs_memory_ready(size_t least) {
  enum { STEP = 64 << 20 };  // so that a growing session does not map a new one each time
  hs_memory_limit(limit_asked);
  refused = (hs_memory){0};
  size_t share = hs_memory_used() / 2;
  fill(HS_MAX(least, (share + STEP - 1) / STEP * STEP));
}

static void *reserve_take(size_t n) {
  u8 *piece = NULL;
  pthread_mutex_lock(&reserve_lock);
  size_t room = (n + PIECE_HEAD + 127) & ~(size_t)127;
  if (reserves && n < room && room <= reserves->bytes - reserves->at) {
    piece = (u8 *)reserves + reserves->at + PIECE_HEAD;
    memcpy(piece - PIECE_HEAD, &n, sizeof n);
    reserves->at += room;
    reserves->live++;
    __atomic_store_n(&reserve_was_used, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&reserve_lock);
  return piece;
}

// Whether p is a piece of a reserve; with `ends`, it is freed.
static bool reserve_holds(const void *p, bool ends) {
  bool mine = false;
  pthread_mutex_lock(&reserve_lock);
  for (reserve *r = reserves; r && !mine; r = r->older) {
    mine = (const u8 *)p > (const u8 *)r && (const u8 *)p < (const u8 *)r + r->bytes;
    if (mine && ends) r->live--;
  }
  pthread_mutex_unlock(&reserve_lock);
  return mine;
}

// The system has refused n bytes. What is still missing then has no place to be said: the reserve
// is half as large as all that is held, so that no table of what is held is larger.
static void *without_memory(size_t n) {
  note_refusal(n, false);
  hs_stop_raise(HS_STOP_MEMORY);
  void *p = reserve_take(n);
  if (p) return p;
  fprintf(stderr, "hlosh: out of memory (%zu bytes)\n", n);
  _Exit(5);
}

static bool reserve_used(void) { return __atomic_load_n(&reserve_was_used, __ATOMIC_RELAXED); }

// ---- the heap -----------------------------------------------------------------------------------
// Counts what the system gave.
static void *counted(void *p) {
  count(malloc_usable_size(p));
  return p;
}

// Of hs_alloc: in the builds for finding faults, a size that came from a shape or a file is found
// here. Beyond the limit the work is to stop.
static void check_chosen(size_t n) {
  HS_ASSERT(n <= HS_CHOSEN || n / 2 <= hs_memory_used());
  if (over(n)) note_refusal(n, true), hs_stop_raise(HS_STOP_MEMORY);
}

void *hs_try_alloc(size_t n) {
  if (over(n)) return note_refusal(n, true), NULL;
  void *p = malloc(n ? n : 1);
  return p ? counted(p) : (note_refusal(n, false), NULL);
}

void *hs_alloc_or_stop(size_t n) {
  void *p = hs_try_alloc(n);
  if (!p) hs_stop_raise(HS_STOP_MEMORY);
  return p;
}

void *hs_alloc(size_t n) {
  check_chosen(n);
  void *p = malloc(n ? n : 1);
  return p ? counted(p) : without_memory(n);
}

void *hs_calloc(size_t n, size_t size) {
  size_t all;
  if (__builtin_mul_overflow(n, size, &all)) all = SIZE_MAX;
  check_chosen(all);
  void *p = calloc(n ? n : 1, size ? size : 1);
  return p ? counted(p) : memset(without_memory(all), 0, all);
}

void *hs_try_calloc(size_t n, size_t size) {
  size_t all;
  if (__builtin_mul_overflow(n, size, &all)) all = SIZE_MAX;
  if (over(all)) return note_refusal(all, true), NULL;
  void *p = calloc(n ? n : 1, size ? size : 1);
  return p ? counted(p) : (note_refusal(all, false), NULL);
}

static bool is_piece(const void *p) { return reserve_used() && p && reserve_holds(p, false); }

// As realloc, where p may be a piece of the reserve; NULL: p stays as it was.
static void *resize(void *p, size_t n) {
  if (HS_UNLIKELY(is_piece(p))) {
    void *q = malloc(n ? n : 1);
    if (!q) return NULL;
    memcpy(q, p, HS_MIN(piece_size(p), n));
    hs_free(p);
    return counted(q);
  }
  size_t had = p ? malloc_usable_size(p) : 0;
  void *q = realloc(p, n ? n : 1);
  if (!q) return NULL;
  uncount(had);
  return counted(q);
}

void *hs_try_realloc(void *p, size_t n) {
  size_t had = !p ? 0 : is_piece(p) ? piece_size(p) : malloc_usable_size(p);
  if (n > had && over(n - had)) return note_refusal(n, true), NULL;
  void *q = resize(p, n);
  if (!q) note_refusal(n, false);
  return q;
}

void *hs_realloc(void *p, size_t n) {
  check_chosen(n);
  void *q = resize(p, n);
  if (q) return q;
  q = without_memory(n);
  if (!p) return q;
  memcpy(q, p, HS_MIN(is_piece(p) ? piece_size(p) : malloc_usable_size(p), n));
  hs_free(p);
  return q;
}

// Without huge pages, each read at random would cost a walk through the page tables too.
void *hs_calloc_table(size_t n, size_t size) {
  void *p = NULL;
  if (n * size < 2 * HUGE_PAGE || over(n * size) || posix_memalign(&p, HUGE_PAGE, n * size) != 0)
    return hs_calloc(n, size);
  (void)madvise(p, n * size, MADV_HUGEPAGE);
  return memset(counted(p), 0, n * size);
}

void hs_free(void *p) {
  if (!p || (HS_UNLIKELY(reserve_used()) && reserve_holds(p, true))) return;
  uncount(malloc_usable_size(p));
  free(p);
}

// For an arena: a block of n bytes that is aligned to 128; it never fails.
void *hs_alloc_block_(size_t n) {
  check_chosen(n);
  void *p = aligned_alloc(128, (n + 127) & ~(size_t)127);
  return p ? counted(p) : without_memory(n);
}

// ---- what the machine has -----------------------------------------------------------------------
// The number in a small file of the system after `key`; 0 when there is none ("max" is none).
static size_t number_in(const char *path, const char *key, size_t unit) {
  char text[4096], *p = text;
  FILE *f = fopen(path, "re");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  if (key) p = strstr(text, key);
  unsigned long long v = p ? strtoull(p + (key ? strlen(key) : 0), NULL, 10) : 0;
  size_t all;
  return __builtin_mul_overflow((size_t)v, unit, &all) ? 0 : all;
}

// The least limit of this process's control group (version 2, then 1) and of those above it.
static size_t group_limit(void) {
  size_t least = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", NULL, 1);
  char path[1024], text[1024], *at;
  FILE *f = fopen("/proc/self/cgroup", "re");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  if (!(at = strstr(text, "0::/"))) return least;
  at += 3;
  at[strcspn(at, "\n")] = 0;
  for (;;) {
    int k = snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", strcmp(at, "/") ? at : "");
    size_t m = k > 0 && (size_t)k < sizeof path ? number_in(path, NULL, 1) : 0;
    if (m && (!least || m < least)) least = m;
    char *slash = strrchr(at, '/');
    if (!slash || !at[1]) return least;
    slash[slash == at] = 0;
  }
}

size_t hs_memory_machine(void) {
  size_t least = SIZE_MAX, group = group_limit();
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) least = (size_t)pages * (size_t)page;
  if (group) least = HS_MIN(least, group - group / 16);
  struct rlimit r;
  // Libraries and the stack are in the address space already, and the reserve is to be.
  size_t mapped = number_in("/proc/self/statm", "", page > 0 ? (size_t)page : 4096);
  if (getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY) {
    size_t left = (size_t)r.rlim_cur > mapped ? (size_t)r.rlim_cur - mapped : 0;
    least = HS_MIN(least, left - left / 4);
  }
  return least;
}

size_t hs_memory_free(void) {
  size_t all = number_in("/proc/meminfo", "MemAvailable:", 1024), group = group_limit();
  size_t in_group = number_in("/sys/fs/cgroup/memory.current", NULL, 1);
  if (group && in_group && group > in_group) group -= in_group;
  if (!all) all = hs_memory_machine();
  return group ? HS_MIN(all, group) : all;
}
