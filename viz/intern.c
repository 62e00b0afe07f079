// intern.c: byte strings by number. See explore_model.h.
#include "viz/explore_model.h"

static void enlarge(viz_intern *t) {
  u32 n = t->nslots ? t->nslots * 2 : 1024;
  hs_free(t->slots);
  t->slots = hs_calloc(n, sizeof *t->slots);
  t->nslots = n;
  for (u32 k = 0; k < t->at.n; k++) {
    u32 s = (u32)hs_hash_bytes(viz_intern_get(t, k), t->len.v[k], 0) & (n - 1);
    while (t->slots[s]) s = (s + 1) & (n - 1);
    t->slots[s] = k + 1;
  }
}

u32 viz_intern_put(viz_intern *t, const void *p, size_t n) {
  if (2 * (t->at.n + 1) > t->nslots) enlarge(t);
  u32 s = (u32)hs_hash_bytes(p, n, 0) & (t->nslots - 1);
  for (; t->slots[s]; s = (s + 1) & (t->nslots - 1)) {
    u32 k = t->slots[s] - 1;
    if (t->len.v[k] == n && memcmp(viz_intern_get(t, k), p, n) == 0) return k;
  }
  u32 k = (u32)t->at.n;
  t->slots[s] = k + 1;
  hs_vec_push(&t->at, t->bytes.n);
  hs_vec_push(&t->len, (u32)n);
  hs_buf_put(&t->bytes, p, n);
  hs_buf_put(&t->bytes, "\0\0\0\0\0\0\0", 8 - n % 8);  // never nothing: an empty one has a place
  return k;
}

void viz_intern_free(viz_intern *t) {
  hs_buf_free(&t->bytes);
  hs_vec_free(&t->at);
  hs_vec_free(&t->len);
  hs_free(t->slots);
  *t = (viz_intern){0};
}
