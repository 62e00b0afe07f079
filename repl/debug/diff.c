// diff.c — patience diff: lines that occur once in both texts are anchors (longest increasing
// sequence of them); the gaps between anchors go through Myers' greedy O(ND) algorithm ("An O(ND)
// Difference Algorithm", 1986), and a gap with too many differences is shown as replaced whole. HLO
// lines are mostly unique, so the gaps stay small.
#include "repl/debug/diff.h"

#include "core/base/visible.h"
#include "repl/shell/out.h"

#define MOST_D 1200

typedef struct line {
  const char *p;
  u32 n;
  u64 hash;
} line;
typedef struct text {
  line *v;
  u32 n;
  bool *changed;
} text;

static text split(hs_arena *a, const char *p, size_t n) {
  u32 lines = 0;
  for (size_t k = 0; k < n; k++) lines += p[k] == '\n';
  text t = {.v = HS_NEW_ARRAY(a, line, lines + 1), .changed = HS_NEW_ARRAY(a, bool, lines + 1)};
  for (size_t at = 0; at < n;) {
    const char *nl = memchr(p + at, '\n', n - at);
    size_t end = nl ? (size_t)(nl - p) : n;
    t.v[t.n++] = (line){p + at, (u32)(end - at), hs_hash_bytes(p + at, end - at, 7)};
    at = end + 1;
  }
  return t;
}

static bool same(const line *x, const line *y) {
  return x->hash == y->hash && x->n == y->n && memcmp(x->p, y->p, x->n) == 0;
}

// Marks the differing lines of a[a0,a1) and b[b0,b1). False when there are more than MOST_D
// differences.
static bool myers(text *a, u32 a0, u32 a1, text *b, u32 b0, u32 b1) {
  i64 n = a1 - a0, m = b1 - b0, most = HS_MIN(n + m, (i64)MOST_D);
  // row d holds V[-d..d] before step d
  i32 *trace = hs_alloc(sizeof(i32) * (size_t)((most + 1) * (most + 2)));
  i32 *v = hs_calloc((size_t)(2 * most + 3), sizeof *v);
  i64 off = most + 1, d, k = 0;
  bool found = false;
  for (d = 0; d <= most && !found; d++) {
    memcpy(trace + d * (d + 1), v + off - d, sizeof(i32) * (size_t)(2 * d + 1));
    for (k = -d; k <= d; k += 2) {
      i64 x = k == -d || (k != d && v[off + k - 1] < v[off + k + 1]) ? v[off + k + 1]
                                                                     : v[off + k - 1] + 1,
          y = x - k;
      while (x < n && y < m && same(&a->v[a0 + x], &b->v[b0 + y])) x++, y++;
      v[off + k] = (i32)x;
      if (x >= n && y >= m) {
        found = true;
        break;
      }
    }
  }
  if (found) {
    i64 x = n, y = m;
    for (d--; d > 0; d--) {
      const i32 *row = trace + d * (d + 1) + d;  // row[k] for k in -d..d; entries of step d-1
      k = x - y;
      bool down = k == -d || (k != d && row[k - 1] < row[k + 1]);
      i64 pk = down ? k + 1 : k - 1, px = row[pk], py = px - pk;
      if (down) b->changed[b0 + py] = true;
      else a->changed[a0 + px] = true;
      x = px;
      y = py;
    }
  }
  hs_free(trace);
  hs_free(v);
  return found;
}

static void gap(text *a, u32 a0, u32 a1, text *b, u32 b0, u32 b1) {
  while (a0 < a1 && b0 < b1 && same(&a->v[a0], &b->v[b0])) a0++, b0++;
  while (a0 < a1 && b0 < b1 && same(&a->v[a1 - 1], &b->v[b1 - 1])) a1--, b1--;
  if (a0 < a1 && b0 < b1 && myers(a, a0, a1, b, b0, b1)) return;
  for (u32 k = a0; k < a1; k++) a->changed[k] = true;
  for (u32 k = b0; k < b1; k++) b->changed[k] = true;
}

typedef struct slot {
  u64 hash;
  u32 na, nb, ia, ib;
} slot;

// Anchor pairs in order of a: lines that are unique in both texts.
static u32 unique_pairs(hs_arena *ar, const text *a, const text *b, u32 **pa, u32 **pb) {
  u32 cap = 64;
  while (cap < 2 * (a->n + b->n)) cap *= 2;
  slot *tab = HS_NEW_ARRAY(ar, slot, cap);
  for (int side = 0; side < 2; side++) {
    const text *t = side ? b : a;
    for (u32 k = 0; k < t->n; k++) {
      u64 h = t->v[k].hash | 1;
      u32 s = (u32)(h >> 7) & (cap - 1);
      while (tab[s].hash && tab[s].hash != h) s = (s + 1) & (cap - 1);
      tab[s].hash = h;
      if (side) tab[s].nb++, tab[s].ib = k;
      else tab[s].na++, tab[s].ia = k;
    }
  }
  *pa = HS_NEW_ARRAY(ar, u32, a->n + 1);
  *pb = HS_NEW_ARRAY(ar, u32, a->n + 1);
  u32 n = 0;
  for (u32 k = 0; k < a->n; k++) {
    u64 h = a->v[k].hash | 1;
    u32 s = (u32)(h >> 7) & (cap - 1);
    while (tab[s].hash != h) s = (s + 1) & (cap - 1);
    if (tab[s].na == 1 && tab[s].nb == 1 && same(&a->v[k], &b->v[tab[s].ib]))
      (*pa)[n] = k, (*pb)[n++] = tab[s].ib;
  }
  return n;
}

static void mark_changes(hs_arena *ar, text *a, text *b) {
  u32 *pa, *pb, n = unique_pairs(ar, a, b, &pa, &pb);
  // Longest increasing subsequence of pb by patience sorting.
  u32 *tails = HS_NEW_ARRAY(ar, u32, n + 1), *prev = HS_NEW_ARRAY(ar, u32, n + 1), piles = 0;
  for (u32 k = 0; k < n; k++) {
    u32 lo = 0, hi = piles;
    while (lo < hi) {
      u32 mid = (lo + hi) / 2;
      if (pb[tails[mid]] < pb[k]) lo = mid + 1;
      else hi = mid;
    }
    prev[k] = lo ? tails[lo - 1] : UINT32_MAX;
    tails[lo] = k;
    if (lo == piles) piles++;
  }
  u32 *chain = HS_NEW_ARRAY(ar, u32, piles + 1);
  for (u32 k = piles ? tails[piles - 1] : UINT32_MAX, i = piles; i-- > 0; k = prev[k]) chain[i] = k;
  u32 a0 = 0, b0 = 0;
  for (u32 i = 0; i < piles; i++) {
    gap(a, a0, pa[chain[i]], b, b0, pb[chain[i]]);
    a0 = pa[chain[i]] + 1;
    b0 = pb[chain[i]] + 1;
  }
  gap(a, a0, a->n, b, b0, b->n);
}

// ---- hunks --------------------------------------------------------------------------------------
typedef struct hunk {
  u32 i, ie, j, je;
} hunk;  // lines [i, ie) of a and [j, je) of b

// The next hunk at or after (*i, *j): from `context` lines before the first change until 2 *
// context unchanged lines follow.
static bool next_hunk(const text *a, const text *b, u32 context, u32 *i, u32 *j, hunk *h) {
  while (*i < a->n && *j < b->n && !a->changed[*i] && !b->changed[*j]) ++*i, ++*j;
  if (*i >= a->n && *j >= b->n) return false;
  u32 back = HS_MIN(context, HS_MIN(*i, *j)), quiet = 0;
  *h = (hunk){*i - back, *i, *j - back, *j};
  while ((h->ie < a->n || h->je < b->n) && quiet <= 2 * context) {
    if (h->ie < a->n && a->changed[h->ie]) h->ie++, quiet = 0;
    else if (h->je < b->n && b->changed[h->je]) h->je++, quiet = 0;
    else h->ie++, h->je++, quiet++;
  }
  u32 drop = quiet > context ? quiet - context : 0;
  *i = h->ie -= drop;
  *j = h->je -= drop;
  return true;
}

static const char *paint(bool color, char sign) {
  return !color || sign == ' ' ? ""
         : sign == '-'         ? "\033[31m"
         : sign == '+'         ? "\033[32m"
                               : "\033[36m";
}
static const char *unpaint(bool color, char sign) { return !color || sign == ' ' ? "" : "\033[0m"; }

// With colours the text is for a terminal, without it is to be as it was.
static void put_text(hs_buf *out, const char *p, size_t n, bool color) {
  if (color) hs_buf_put_visible(out, p, n, HS_LINES);
  else hs_buf_put(out, p, n);
}

static void put_hunk(hs_buf *out, const text *a, const text *b, const hunk *h, bool color) {
  hs_buf_printf(out, "%s@@ -%u,%u +%u,%u @@%s\n", paint(color, '@'), h->ie > h->i ? h->i + 1 : h->i,
                h->ie - h->i, h->je > h->j ? h->j + 1 : h->j, h->je - h->j, unpaint(color, '@'));
  for (u32 x = h->i, y = h->j; x < h->ie || y < h->je;) {
    char sign = x < h->ie && a->changed[x] ? '-' : y < h->je && b->changed[y] ? '+' : ' ';
    const line *l = sign == '+' ? &b->v[y] : &a->v[x];
    hs_buf_printf(out, "%s%c", paint(color, sign), sign);
    put_text(out, l->p, l->n, color);
    hs_buf_printf(out, "%s\n", unpaint(color, sign));
    x += sign != '+';
    y += sign != '-';
  }
}

// One cell: the line cut or padded to `width` columns.
static void put_cell(hs_buf *out, const line *l, u32 width, char sign, bool color, bool pad) {
  hs_buf b = {0};
  if (l) put_text(&b, l->p, l->n, color);
  if (b.n > width) {
    b.n = width - 1;
    while (b.n && ((u8)b.p[b.n] & 0xC0) == 0x80) b.n--;
    hs_buf_putc(&b, '>');
  }
  hs_buf_puts(out, paint(color, sign));
  if (pad) repl_pad(out, hs_buf_cstr(&b), (int)width);
  else hs_buf_puts(out, hs_buf_cstr(&b));
  hs_buf_puts(out, unpaint(color, sign));
  hs_buf_free(&b);
}

static void put_columns(hs_buf *out, const text *a, const text *b, const hunk *h, u32 width,
                        bool color) {
  hs_buf_printf(out, "%s@@ -%u +%u @@%s\n", paint(color, '@'), h->i + 1, h->j + 1,
                unpaint(color, '@'));
  for (u32 x = h->i, y = h->j; x < h->ie || y < h->je;) {
    bool left = x < h->ie && a->changed[x], right = y < h->je && b->changed[y],
         both = !left && !right;
    put_cell(out, left || both ? &a->v[x] : NULL, width, left ? '-' : ' ', color, true);
    hs_buf_puts(out, both ? "   " : left && right ? " | " : left ? " < " : " > ");
    put_cell(out, right || both ? &b->v[y] : NULL, width, right ? '+' : ' ', color, false);
    hs_buf_putc(out, '\n');
    x += left || both;
    y += right || both;
  }
}

static void compare(hs_arena *ar, const char *pa, size_t na, const char *pb, size_t nb, text *a,
                    text *b, repl_diff_stat *stat) {
  *a = split(ar, pa, na);
  *b = split(ar, pb, nb);
  *stat = (repl_diff_stat){0};
  mark_changes(ar, a, b);
  for (u32 k = 0; k < a->n; k++) stat->removed += a->changed[k];
  for (u32 k = 0; k < b->n; k++) stat->added += b->changed[k];
}

void repl_diff(const char *pa, size_t na, const char *pb, size_t nb, u32 context, bool color,
               hs_buf *out, repl_diff_stat *stat) {
  hs_arena ar = {0};
  text a, b;
  compare(&ar, pa, na, pb, nb, &a, &b, stat);
  hunk h;
  for (u32 i = 0, j = 0; next_hunk(&a, &b, context, &i, &j, &h);) put_hunk(out, &a, &b, &h, color);
  hs_arena_free(&ar);
}

void repl_diff_columns(const char *pa, size_t na, const char *pb, size_t nb, u32 columns,
                       bool color, hs_buf *out, repl_diff_stat *stat) {
  hs_arena ar = {0};
  text a, b;
  compare(&ar, pa, na, pb, nb, &a, &b, stat);
  hunk h;
  for (u32 i = 0, j = 0; next_hunk(&a, &b, 2, &i, &j, &h);)
    put_columns(out, &a, &b, &h, columns > 43 ? (columns - 3) / 2 : 20, color);
  hs_arena_free(&ar);
}
