// parse_memo.c — a cache from text to value for what was parsed recently. Keys point into the
// text being parsed; `kind` distinguishes values of different kinds with the same text.
//
// Direct-mapped: each text has one slot, and a newer one with the same slot replaces it; a value
// that was replaced is parsed once more. So the table never grows, fits the cache however long the
// text is, and costs the same for the last line as for the first.
#include "core/text/parse.h"

struct hlo_memo_entry {
  const char *p;
  const void *value;
  u32 n, hash, kind;
};

void hlo_memo_init(hlo_memo *m, size_t lines) {
  enum { FEWEST = 64, MOST = 1 << 12 };
  for (m->cap = FEWEST; m->cap < lines && m->cap < MOST;) m->cap *= 2;
  m->v = hs_calloc(m->cap, sizeof *m->v);
}

const void *hlo_memo_get(const hlo_memo *m, u32 hash, u32 kind, const char *p, size_t n) {
  const struct hlo_memo_entry *e = &m->v[hash & (m->cap - 1)];
  return e->hash == hash && e->n == n && e->kind == kind && hs_same_bytes(e->p, p, n) ? e->value
                                                                                      : NULL;
}

void hlo_memo_put(hlo_memo *m, u32 hash, u32 kind, const char *p, size_t n, const void *value) {
  if (n <= UINT32_MAX)
    m->v[hash & (m->cap - 1)] = (struct hlo_memo_entry){p, value, (u32)n, hash, kind};
}
