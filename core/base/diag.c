// diag.c — diagnostics: making and chaining them, rendering with a caret, "did you mean". See
// diag.h. A diagnostic is one malloc'ed record with malloc'ed strings. The nearest name is found by
// Damerau-Levenshtein distance in its restricted form (optimal string alignment: a transposed pair
// is not edited again), case ignored. Messages quote what users and files hold, so all of a
// diagnostic but its colours is rendered in visible form (visible.h).
#include "core/base/diag.h"

#include <ctype.h>
#include <errno.h>

#include "core/base/visible.h"

static const struct {
  const char *text, *title, *explain;
  int exit;
} codes[HS_CODE_COUNT] = {
    [HS_OK] = {"E0000", "no error", "", 0},
#define DIAG(id, code, status, title_, text_) [HS_##id] = {code, title_, text_, status},
#include "core/base/diag.def"
#undef DIAG
};

const char *hs_code_text(hs_code c) { return codes[c].text; }
const char *hs_code_title(hs_code c) { return codes[c].title; }
const char *hs_code_explain(hs_code c) { return codes[c].explain; }
int hs_code_exit(hs_code c) { return codes[c].exit; }

hs_code hs_code_find(const char *text) {
  if (*text == 'E' || *text == 'e') text++;
  for (int c = 1; c < HS_CODE_COUNT; c++)
    if (!strcmp(codes[c].text + 1, text)) return (hs_code)c;
  return HS_OK;
}

// What was asked for, what is held, what the limit is, and what to do; said here for all.
static hs_status with_memory(hs_status s) {
  hs_memory m = hs_memory_refused();
  if (m.asked && m.limit)
    return hs_with_note(s,
                        "%zu bytes were asked for, %zu are in use, the limit is %zu; set "
                        "memory_limit N allows N bytes (8G, 12Gi), close MODULE frees a module",
                        m.asked, m.used, m.limit);
  if (m.asked)
    return hs_with_note(s,
                        "the system refused %zu bytes, %zu are in use; close MODULE frees a "
                        "module, other programs may end",
                        m.asked, m.used);
  return s;
}

static hs_status fail_v(hs_code code, const char *subject, const char *fmt, va_list ap) {
  hs_diag *d = hs_calloc(1, sizeof *d);
  hs_buf b = {0};
  hs_buf_vprintf(&b, fmt, ap);
  hs_buf_cstr(&b);
  d->code = code;
  d->message = b.p;
  d->subject = subject ? hs_strdup(subject) : NULL;
  return code == HS_E_NO_MEMORY ? with_memory((hs_status){d}) : (hs_status){d};
}

hs_status hs_fail(hs_code code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  hs_status s = fail_v(code, NULL, fmt, ap);
  va_end(ap);
  return s;
}

hs_status hs_fail_subject(hs_code code, const char *subject, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  hs_status s = fail_v(code, subject, fmt, ap);
  va_end(ap);
  return s;
}

hs_status hs_fail_invariant(const char *statement, const char *file, int line) {
  return hs_fail(HS_E_INTERNAL, "broken invariant: %s (%s:%d)", statement, file, line);
}

hs_status hs_fail_errno(hs_code code, const char *what) {
  int e = errno;
  return hs_fail(code, "%s: %s", what, strerror(e));
}

hs_status hs_with_note(hs_status s, const char *fmt, ...) {
  if (!s.err) return s;
  hs_buf b = {0};
  if (s.err->note) {
    hs_buf_puts(&b, s.err->note);
    hs_buf_putc(&b, '\n');
  }
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  hs_buf_cstr(&b);
  hs_free(s.err->note);
  s.err->note = b.p;
  return s;
}

hs_status hs_with_place(hs_status s, const char *file, u32 line, u32 col, hs_str source_line) {
  if (!s.err) return s;
  hs_free(s.err->file);
  hs_free(s.err->source_line);
  s.err->file = file ? hs_strdup(file) : NULL;
  s.err->line = line;
  s.err->col = col;
  s.err->source_line = NULL;
  if (source_line.p) {
    // A line can have gigabytes; the caret needs what stands around it.
    enum { AROUND = 512 };
    size_t at = HS_MIN(col ? col - 1 : 0, source_line.n), from = at > AROUND ? at - AROUND : 0;
    size_t n = HS_MIN(source_line.n - from, (size_t)2 * AROUND);
    char *copy = hs_alloc(n + 1);
    memcpy(copy, source_line.p + from, n);
    copy[n] = 0;
    s.err->source_line = copy;
    s.err->source_from = from;
  }
  return s;
}

hs_status hs_chain(hs_status first, hs_status more) {
  if (!first.err) return more;
  hs_diag *d = first.err;
  while (d->next) d = d->next;
  d->next = more.err;
  return first;
}

void hs_status_drop(hs_status s) {
  for (hs_diag *d = s.err, *next; d; d = next) {
    next = d->next;
    hs_free(d->message);
    hs_free(d->file);
    hs_free(d->source_line);
    hs_free(d->note);
    hs_free(d->subject);
    hs_free(d);
  }
}

size_t hs_status_count(hs_status s) {
  size_t n = 0;
  for (hs_diag *d = s.err; d; d = d->next) n++;
  return n;
}

static bool within_char(const char *p) { return ((u8)*p & 0xC0) == 0x80; }

// The source line, cut to a window around the column, and the caret under it.
static void render_caret(const hs_diag *d, hs_buf *out, const char *on, const char *off) {
  const char *line = d->source_line;
  size_t n = strlen(line), at = d->col ? d->col - 1 : 0, from = 0;
  const size_t window = 110;
  at = at > d->source_from ? HS_MIN(at - d->source_from, n) : 0;
  if (n > window && at > window / 2) from = at - window / 2;
  while (from && within_char(line + from)) from--;
  size_t to = HS_MIN(n, from + window);
  while (to < n && within_char(line + to)) to++;
  hs_buf shown = {0};
  size_t caret = 0;
  for (size_t k = from, end; k < to; k = end) {
    for (end = k + 1; end < to && within_char(line + end);) end++;
    if (k <= at) caret = shown.n;
    if (line[k] == '\t') hs_buf_putc(&shown, ' ');
    else hs_buf_put_visible(&shown, line + k, end - k, HS_ONE_LINE);
  }
  if (at == to) caret = shown.n;
  bool cut = from || d->source_from;
  hs_buf_printf(out, "  %s", cut ? "..." : "");
  hs_buf_put(out, shown.p, shown.n);
  hs_buf_printf(out, "%s\n  %s", to < n ? "..." : "", cut ? "   " : "");
  for (size_t k = 0; k < caret; k++)
    if (!within_char(shown.p + k)) hs_buf_putc(out, ' ');
  hs_buf_printf(out, "%s^%s\n", on, off);
  hs_buf_free(&shown);
}

static void render_place(const hs_diag *d, hs_buf *out, const char *on, const char *off) {
  hs_buf_puts(out, on);
  hs_buf_put_visible(out, d->file, strlen(d->file), HS_ONE_LINE);
  if (d->line) hs_buf_printf(out, ":%u:%u", d->line, d->col);
  hs_buf_printf(out, ":%s ", off);
}

void hs_status_render(hs_status s, hs_buf *out, bool color) {
  const char *red = color ? "\033[1;31m" : "", *bold = color ? "\033[1m" : "",
             *off = color ? "\033[0m" : "";
  for (const hs_diag *d = s.err; d; d = d->next) {
    if (d->file) render_place(d, out, bold, off);
    hs_buf_printf(out, "%serror[%s]:%s ", red, hs_code_text(d->code), off);
    hs_buf_put_visible(out, d->message, strlen(d->message), HS_LINES);
    hs_buf_putc(out, '\n');
    if (d->source_line) render_caret(d, out, red, off);
    for (const char *p = d->note; p && *p;) {
      size_t n = strcspn(p, "\n");
      hs_buf_puts(out, "  note: ");
      hs_buf_put_visible(out, p, n, HS_LINES);
      hs_buf_putc(out, '\n');
      p += n + (p[n] == '\n');
    }
  }
}

// Three rows of the table suffice; words longer than MAX are near nothing.
static unsigned distance(const char *a, const char *b) {
  enum { MAX = 48 };
  size_t n = strlen(a), m = strlen(b);
  if (n > MAX || m > MAX) return 1000;
  unsigned row[3][MAX + 1];
  for (size_t j = 0; j <= m; j++) row[0][j] = (unsigned)j;
  for (size_t i = 1; i <= n; i++) {
    unsigned *cur = row[i % 3], *prev = row[(i - 1) % 3], *prev2 = row[(i + 1) % 3];
    cur[0] = (unsigned)i;
    for (size_t j = 1; j <= m; j++) {
      bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
      unsigned best = prev[j - 1] + !same;
      best = HS_MIN(best, prev[j] + 1);
      best = HS_MIN(best, cur[j - 1] + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = HS_MIN(best, prev2[j - 2] + 1);
      cur[j] = best;
    }
  }
  return row[n % 3][m];
}

// Whether the candidate is the word with a number behind it, as XLA makes names unique.
static bool is_numbered(const char *word, const char *candidate) {
  size_t n = strlen(word);
  return n && strncmp(word, candidate, n) == 0 && candidate[n] == '.' &&
         strspn(candidate + n + 1, "0123456789") == strlen(candidate + n + 1);
}

const char *hs_nearest(const char *word, const char *const *candidates, size_t n) {
  const char *best = NULL;
  // nothing is near a single letter, and foo is not cos
  unsigned length = (unsigned)strlen(word),
           best_d = length > 3 ? length / 3 + 2 : HS_MIN(length, 2);
  for (size_t k = 0; k < n; k++) {
    unsigned d = is_numbered(word, candidates[k]) ? 0 : distance(word, candidates[k]);
    if (d >= best_d) continue;
    best_d = d;
    best = candidates[k];
  }
  return best;
}

// How many letters of the parts of `word` the candidate has as well; the end of a part (-s, -er,
// -ing) may differ. 0: nothing in common.
static unsigned shared_letters(const char *word, const char *candidate) {
  unsigned sum = 0;
  for (const char *p = word; *p; p += strcspn(p, "-_"), p += *p != 0) {
    char part[48];
    size_t n = strcspn(p, "-_");
    if (n < 4 || n >= sizeof part) continue;
    memcpy(part, p, n);
    for (size_t len = n, least = HS_MAX((size_t)4, n - HS_MIN(n, (size_t)3)); len >= least; len--) {
      part[len] = 0;
      if (!strcasestr(candidate, part)) continue;
      sum += (unsigned)len;
      break;
    }
  }
  return sum;
}

size_t hs_nearest_some(const char *word, const char *const *candidates, size_t n, const char **out,
                       size_t most) {
  unsigned cost[16] = {0}, length = (unsigned)strlen(word);
  unsigned limit = HS_MIN(length / 3 + 2, length), best = limit;
  size_t found = 0;
  most = HS_MIN(most, HS_COUNT(cost));
  for (size_t k = 0; k < n; k++) best = HS_MIN(best, distance(word, candidates[k]));
  for (size_t k = 0; k < n; k++) {
    unsigned d = distance(word, candidates[k]), shared = shared_letters(word, candidates[k]);
    // with a name so near, the farther ones are not meant
    bool typo = best <= 2 && best < limit;
    if (typo ? d > best : d >= limit && !shared) continue;
    unsigned c = d < limit ? d : 1000 - HS_MIN(shared, 500u);
    size_t at = found;
    while (at > 0 && cost[at - 1] > c) at--;
    if (at == most) continue;
    if (found < most) found++;
    for (size_t j = found - 1; j > at; j--) {
      out[j] = out[j - 1];
      cost[j] = cost[j - 1];
    }
    out[at] = candidates[k];
    cost[at] = c;
  }
  return found;
}

hs_status hs_stopped(void) {
  switch (hs_stop_reason()) {
  case HS_STOP_DEADLINE: return hs_fail(HS_E_DEADLINE, "the deadline has passed");
  case HS_STOP_MEMORY: return hs_fail(HS_E_NO_MEMORY, "out of memory");
  default: return hs_fail(HS_E_INTERRUPTED, "interrupted");
  }
}

hs_status hs_copy(void *to, const void *from, size_t n) {
  enum { PIECE = 4 << 20 };
  for (size_t at = 0; at < n; at += PIECE) {
    HS_TRY(hs_poll());
    memcpy((char *)to + at, (const char *)from + at, HS_MIN(n - at, PIECE));
  }
  return HS_GOOD;
}
