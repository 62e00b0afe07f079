// host.c — the host's side of a run: queues that programs read from and write to.
//
// One list holds what the host gives, in order; every device reads its own entries of it, and those
// for all devices, with a position of its own per channel. What programs write is kept with its
// device and channel. In a file a value is a line:
//     [@DEVICE] [#CHANNEL] SHAPE LITERAL
//     e.g.  f32[2] {1, 2}     @1 #3 (s32[], f32[2]) (5, {1, 2})
// without @ it is for every device, without # it is for infeed. Lines starting with // and empty
// lines are skipped.
#include <stdlib.h>
#include "core/eval/world.h"
#include "core/text/text.h"

typedef struct entry {
  u32 device;
  i64 channel;
  hlo_literal *value;
} entry;
// first entry of `given` not yet looked at
typedef struct cursor {
  u32 device;
  i64 channel;
  size_t next;
} cursor;

struct hlo_host {
  pthread_mutex_t lock;
  HS_VEC(entry) given;
  HS_VEC(entry) taken;
  HS_VEC(cursor) cursors;
};

hlo_host *hlo_host_new(void) {
  hlo_host *h = hs_calloc(1, sizeof *h);
  pthread_mutex_init(&h->lock, NULL);
  return h;
}

static void forget_taken(hlo_host *h) {
  for (size_t k = 0; k < h->taken.n; k++) hlo_literal_unref(h->taken.v[k].value);
  h->taken.n = 0;
  h->cursors.n = 0;
}

void hlo_host_free(hlo_host *h) {
  if (!h) return;
  forget_taken(h);
  for (size_t k = 0; k < h->given.n; k++) hlo_literal_unref(h->given.v[k].value);
  hs_vec_free(&h->given);
  hs_vec_free(&h->taken);
  hs_vec_free(&h->cursors);
  pthread_mutex_destroy(&h->lock);
  hs_free(h);
}

void hlo_host_give(hlo_host *h, u32 device, i64 channel, hlo_literal *take) {
  hs_vec_push(&h->given, ((entry){device, channel, take}));
}
void ev_host_rewind(hlo_host *h) { forget_taken(h); }

static int by_device(const void *a, const void *b) {
  const entry *x = *(const entry *const *)a, *y = *(const entry *const *)b;
  if (x->device != y->device) return x->device < y->device ? -1 : 1;
  return x < y ? -1 : x > y;
}

void hlo_host_write(const hlo_host *h, hs_buf *out) {
  const entry **order = hs_calloc(h->taken.n + 1, sizeof *order);
  for (size_t k = 0; k < h->taken.n; k++) order[k] = &h->taken.v[k];
  qsort(order, h->taken.n, sizeof *order, by_device);
  for (size_t k = 0; k < h->taken.n; k++) {
    hs_buf_printf(out, "@%u ", order[k]->device);
    if (order[k]->channel != HLO_HOST_FEED)
      hs_buf_printf(out, "#%lld ", (long long)order[k]->channel);
    hlo_shape_print(out, order[k]->value->shape, false);
    hs_buf_putc(out, ' ');
    hs_buf line = {0};
    hlo_print_literal(&line, order[k]->value);
    for (size_t c = 0; c < line.n; c++) hs_buf_putc(out, line.p[c] == '\n' ? ' ' : line.p[c]);
    hs_buf_free(&line);
    hs_buf_putc(out, '\n');
  }
  hs_free(order);
}

// A number after `mark`, and the blanks behind it.
static bool marked(const char **p, const char *end, char mark, i64 *out) {
  if (*p >= end || **p != mark) return false;
  i64 v = 0;
  for (++*p; *p < end && **p >= '0' && **p <= '9'; ++*p)
    v = v > INT32_MAX ? v : v * 10 + (**p - '0');
  while (*p < end && (**p == ' ' || **p == '\t')) ++*p;
  *out = v;
  return true;
}

// A shape ends at the first blank outside of all brackets.
static const char *shape_end(const char *p, const char *end) {
  int depth = 0;
  for (; p < end; p++) {
    if (*p == '(' || *p == '[' || *p == '{') depth++;
    else if (*p == ')' || *p == ']' || *p == '}') depth--;
    else if ((*p == ' ' || *p == '\t') && depth == 0) return p;
  }
  return end;
}

hs_status hlo_host_read(hlo_host *h, hlo_ctx *ctx, const char *text, size_t n) {
  const char *p = text, *end = text + n;
  for (u32 line = 1; p < end; line++) {
    const char *eol = memchr(p, '\n', (size_t)(end - p)), *stop = eol ? eol : end;
    const char *next = eol ? eol + 1 : end;
    while (p < stop && (*p == ' ' || *p == '\t')) p++;
    while (stop > p && (stop[-1] == ' ' || stop[-1] == '\r')) stop--;
    bool comment = stop - p >= 2 && p[0] == '/' && p[1] == '/';
    if (p == stop || comment) {
      p = next;
      continue;
    }
    i64 device = HLO_HOST_ALL, channel = HLO_HOST_FEED;
    marked(&p, stop, '@', &device);
    marked(&p, stop, '#', &channel);
    const char *value = shape_end(p, stop);
    const hlo_shape *s;
    hlo_literal *l = NULL;
    hs_status st = hlo_parse_shape(ctx, p, (size_t)(value - p), &s);
    if (hs_ok(st)) st = hlo_parse_literal(ctx, s, value, (size_t)(stop - value), &l);
    if (!hs_ok(st)) return hs_with_note(st, "line %u of the host's values", line);
    hlo_host_give(h, (u32)device, channel, l);
    p = next;
  }
  return HS_GOOD;
}

// ---- the evaluator's side -----------------------------------------------------------------------
static cursor *cursor_of(hlo_host *h, u32 device, i64 channel) {
  for (size_t k = 0; k < h->cursors.n; k++)
    if (h->cursors.v[k].device == device && h->cursors.v[k].channel == channel)
      return &h->cursors.v[k];
  hs_vec_push(&h->cursors, ((cursor){device, channel, 0}));
  return &h->cursors.v[h->cursors.n - 1];
}

hs_status ev_host_get(ev *e, const hlo_instr *i, i64 channel, const hlo_shape *s,
                      hlo_literal **out) {
  hlo_host *h = e->opt.host;
  u32 device = ev_device(e);
  *out = NULL;
  if (h) {
    pthread_mutex_lock(&h->lock);
    cursor *at = cursor_of(h, device, channel);
    for (; at->next < h->given.n && !*out; at->next++) {
      const entry *g = &h->given.v[at->next];
      if (g->channel == channel && (g->device == device || g->device == HLO_HOST_ALL))
        *out = hlo_literal_ref(g->value);
    }
    pthread_mutex_unlock(&h->lock);
  }
  if (!*out && channel == HLO_HOST_FEED)
    return hs_fail(HS_E_RUN, "%s waits for the host: nothing is left to feed to device %u", i->name,
                   device);
  if (!*out)
    return hs_fail(HS_E_RUN, "%s waits for the host: nothing is left on channel %lld for device %u",
                   i->name, (long long)channel, device);
  if (hlo_shape_compatible((*out)->shape, s)) return HS_GOOD;
  hlo_literal_unref(*out);
  *out = NULL;
  return hs_fail(HS_E_INPUT, "%s: the next value from the host has another shape than is asked for",
                 i->name);
}

hs_status ev_host_put(ev *e, const hlo_instr *i, i64 channel, const hlo_literal *value) {
  hlo_host *h = e->opt.host;
  if (!h) return hs_fail(HS_E_RUN, "%s has no host to write to", i->name);
  pthread_mutex_lock(&h->lock);
  hs_vec_push(&h->taken, ((entry){ev_device(e), channel, hlo_literal_ref(value)}));
  pthread_mutex_unlock(&h->lock);
  return HS_GOOD;
}
