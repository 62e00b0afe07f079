// fuzz_text.c — damaged HLO text (or serialized modules) must give errors, never a crash: each
// file is cut at many places and has bytes changed, lines swapped and pieces repeated; what still
// parses is printed and parsed again.
//
//   fuzz_text [--step BYTES] [--flips N] [--rounds N] [--proto] [--seed S] [--limit MB] FILE...
//
// --step cuts at every so manieth byte (50; 0 never), --flips changes one random byte to another
// value N times, --rounds makes N other changes. --proto does it to the module as a serialized
// proto. Deterministic: the seed and the files decide. Run it from the ASan build. Exit 0 when
// nothing broke (a crash, or a case of more than 10 s, ends the process by its signal), 1 when a
// print of a parsed module does not parse or the process came to need more than --limit (512 MB).
#include "core/proto/proto.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "tests/harness/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static long state = 1;
static u64 next(void) {
  u64 x = (u64)state + 0x9E3779B97F4A7C15ull, z = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  state = (long)x;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
static size_t below(size_t n) { return n ? (size_t)(next() % n) : 0; }

static long parsed, rejected, broken;

// A heap copy of exactly n bytes, so that ASan sees any read past the end.
static void try_text(const char *text, size_t n, const char *file, bool proto) {
  char *exact = hs_alloc(n ? n : 1);
  memcpy(exact, text, n);
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL, *again = NULL;
  alarm(10);  // a hang is a finding
  hs_status s =
      proto ? hlo_proto_read(ctx, exact, n, file, &m) : hlo_parse(ctx, exact, n, NULL, &m);
  hs_free(exact);
  if (!hs_ok(s)) {
    hs_buf b = {0};
    hs_status_render(s, &b, false);
    hs_buf_free(&b);
    hs_status_drop(s);
    rejected++;
  } else {
    parsed++;
    hs_buf b = {0};
    hlo_print_options o = hlo_print_full();
    hlo_print_module(&b, m, &o);
    s = hlo_parse(ctx, b.p, b.n, NULL, &again);
    if (!hs_ok(s) && !proto) {  // names in a proto may be no names of the text
      if (broken++ < 5) {
        hs_buf e = {0};
        hs_status_render(s, &e, false);
        printf("FAIL %s: what is printed does not parse: %.400s\n", file, hs_buf_cstr(&e));
        hs_buf_free(&e);
      }
    }
    hs_status_drop(s);
    hs_buf_free(&b);
    hs_status_drop(hlo_verify(m, NULL));
  }
  hlo_module_free(again);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

static void mutate(char *p, size_t *n, size_t cap) {
  static const char interesting[] = "{}()[],=%:\"'#<>?*-_.x0123456789\\\n/";
  for (size_t k = 1 + below(3); k-- > 0 && *n > 8;) {
    size_t at = below(*n);
    switch (below(6)) {
    case 0: p[at] = (char)(p[at] ^ (1 << below(8))); break;
    case 1: p[at] = interesting[below(sizeof interesting - 1)]; break;
    case 2: {                      // delete a piece
      size_t len = 1 + below(12);  // HS_MIN would draw twice
      len = HS_MIN(len, *n - at);
      memmove(p + at, p + at + len, *n - at - len);
      *n -= len;
      break;
    }
    case 3: {  // repeat a piece
      size_t len = 1 + below(40);
      len = HS_MIN(len, HS_MIN(*n - at, cap - *n));
      memmove(p + at + len, p + at, *n - at);
      *n += len;
      break;
    }
    case 4: {  // move a piece elsewhere
      size_t len = 1 + below(30);
      len = HS_MIN(len, *n - at);
      size_t to = below(*n - len + 1);
      char tmp[32];
      memcpy(tmp, p + at, len);
      memmove(p + to, tmp, len);
      break;
    }
    default: {  // a number becomes another
      while (at < *n && (p[at] < '0' || p[at] > '9')) at++;
      if (at < *n) p[at] = (char)('0' + below(10));
    }
    }
  }
}

// The module as a proto; false when it has no value to write or does not parse.
static bool to_proto(const char *text, size_t n, hs_buf *out) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_parse(ctx, text, n, NULL, &m);
  if (hs_ok(s)) s = hlo_proto_write(out, m, true);
  bool ok = hs_ok(s);
  hs_status_drop(s);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return ok;
}

static void damage(const char *path, const char *text, size_t n, bool proto, long step, long flips,
                   long rounds) {
  size_t cap = n * 2 + 64;
  char *work = hs_alloc(cap);
  if (step > 0)
    for (size_t cut = 0; cut < n; cut += (size_t)step) try_text(text, cut, path, proto);
  memcpy(work, text, n);
  for (long k = 0; k < flips && n; k++) {
    size_t at = below(n);
    work[at] = (char)(work[at] ^ (char)(1 + below(255)));
    try_text(work, n, path, proto);
    work[at] = text[at];
  }
  for (long r = 0; r < rounds; r++) {
    size_t len = n;
    memcpy(work, text, n);
    mutate(work, &len, cap);
    try_text(work, len, path, proto);
  }
  hs_free(work);
}

int main(int argc, char **argv) {
  long rounds = 0, flips = 0, step = 50, limit = 512;
  bool as_proto = false;
  unsigned files = 0;
  const struct {
    const char *name;
    long *value;
  } options[] = {{"--rounds", &rounds},
                 {"--flips", &flips},
                 {"--step", &step},
                 {"--limit", &limit},
                 {"--seed", &state}};
  for (int k = 1; k < argc; k++) {
    bool option = false;
    for (size_t o = 0; o < HS_COUNT(options) && k + 1 < argc && !option; o++)
      if ((option = strcmp(argv[k], options[o].name) == 0)) *options[o].value = atol(argv[++k]);
    if (option) continue;
    if (strcmp(argv[k], "--proto") == 0) {
      as_proto = true;
      continue;
    }
    size_t n;
    char *text = drv_read(argv[k], &n);
    if (!text) {
      perror(argv[k]);
      return 2;
    }
    hs_buf proto = {0};
    if (as_proto && !hlo_is_proto(text, n)) {
      if (to_proto(text, n, &proto))
        damage(argv[k], proto.p, proto.n, true, step, flips, rounds), files++;
    } else {
      damage(argv[k], text, n, hlo_is_proto(text, n), step, flips, rounds);
      files++;
    }
    hs_buf_free(&proto);
    hs_free(text);
  }
  alarm(0);
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  long peak = use.ru_maxrss / 1024;
  printf("fuzz_text: %u files, %ld rejected, %ld parsed, %ld broken, peak %ld MB\n", files,
         rejected, parsed, broken, peak);
  if (peak > limit) printf("FAIL more than %ld MB\n", limit);
  return broken != 0 || peak > limit || files == 0;
}
