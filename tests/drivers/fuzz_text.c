// fuzz_text.c — damaged HLO text (or serialized modules) must give errors, never a crash: each file is cut at many places and has bytes changed,
// lines swapped and pieces repeated; what still parses is printed and parsed again.
//
//   fuzz_text [--rounds N] [--seed S] [--step BYTES] FILE...
//
// Run it from the ASan build. Exit 0 when nothing broke (a crash ends the process by its signal), 1 when a print of a
// parsed module does not parse.
#include "core/proto.h"
#include "core/text.h"
#include "core/verify.h"

#include <stdio.h>
#include <stdlib.h>

static u64 state = 1;
static u64 next(void) {
  state += 0x9E3779B97F4A7C15ull;
  u64 z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ull;
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
  hs_status s = proto ? hlo_proto_read(ctx, exact, n, file, &m) : hlo_parse(ctx, exact, n, NULL, &m);
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
    if (!hs_ok(s) && !proto) {   // names in a proto may be no names of the text
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
    case 2: {   // delete a piece
      size_t len = 1 + below(12);   // HS_MIN would draw twice
      len = HS_MIN(len, *n - at);
      memmove(p + at, p + at + len, *n - at - len);
      *n -= len;
      break;
    }
    case 3: {   // repeat a piece
      size_t len = 1 + below(40);
      len = HS_MIN(len, HS_MIN(*n - at, cap - *n));
      memmove(p + at + len, p + at, *n - at);
      *n += len;
      break;
    }
    case 4: {   // move a piece elsewhere
      size_t len = 1 + below(30);
      len = HS_MIN(len, *n - at);
      size_t to = below(*n - len + 1);
      char tmp[32];
      memcpy(tmp, p + at, len);
      memmove(p + to, tmp, len);
      break;
    }
    default: {   // a number becomes another
      while (at < *n && (p[at] < '0' || p[at] > '9')) at++;
      if (at < *n) p[at] = (char)('0' + below(10));
    }
    }
  }
}

int main(int argc, char **argv) {
  long rounds = 100, step = 50;
  for (int k = 1; k < argc; k++) {
    if (strcmp(argv[k], "--rounds") == 0 && k + 1 < argc) { rounds = atol(argv[++k]); continue; }
    if (strcmp(argv[k], "--seed") == 0 && k + 1 < argc) { state = strtoull(argv[++k], NULL, 10); continue; }
    if (strcmp(argv[k], "--step") == 0 && k + 1 < argc) { step = atol(argv[++k]); continue; }
    FILE *f = fopen(argv[k], "rb");
    if (!f) { perror(argv[k]); return 2; }
    static char text[1 << 20], work[1 << 21];
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    bool proto = hlo_is_proto(text, n);
    if (step > 0) for (size_t cut = 0; cut < n; cut += (size_t)step) try_text(text, cut, argv[k], proto);
    for (long r = 0; r < rounds; r++) {
      size_t len = n;
      memcpy(work, text, n);
      mutate(work, &len, sizeof work);
      try_text(work, len, argv[k], proto);
    }
  }
  printf("fuzz_text: %ld rejected, %ld parsed, %ld broken\n", rejected, parsed, broken);
  return broken != 0;
}
