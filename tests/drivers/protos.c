// protos.c — serialized modules against real XLA's.
//
// usage: protos DIR OUT   tests/peers/xla_protos.py wrote OUT/NAME.pb (XLA's proto of DIR/NAME.hlo)
//                         and OUT/NAME.text (its
// text of that proto). Each NAME.pb must read to that very text. For XLA to judge, two protos and
// what must be read from them are left: NAME.again.pb is written from NAME.pb, NAME.ours.pb from
// the HLO text. The last line is `read: P/T`.
#include "core/text/text.h"
#include "core/proto/proto.h"
#include "tests/harness/driver.h"

typedef struct suite {
  const char *dir, *out;
  char **names;
  u32 n, passed;
} suite;

static char *slurp(const char *dir, const char *name, const char *ending, size_t *n) {
  char *path = hs_format("%s/%s%s", dir, name, ending), *text = drv_read(path, n);
  hs_free(path);
  return text;
}

static bool put_file(const suite *s, const char *name, const char *ending, const hs_buf *b) {
  char *path = hs_format("%s/%s%s", s->out, name, ending);
  FILE *f = fopen(path, "wb");
  hs_free(path);
  bool ok = f && fwrite(b->p, 1, b->n, f) == b->n;
  return f && fclose(f) == 0 && ok;
}

static void print(hs_buf *b, const hlo_module *m) {
  hlo_print_options o = hlo_print_default();
  o.print_large_constants = true;
  o.vintage = HLO_VINTAGE_JAXLIB_0_10_2;  // the XLA that make peers fetches
  b->n = 0;
  hlo_print_module(b, m, &o);
  hs_buf_cstr(b);
}

// Writes the module for XLA to read, and what we read from the same bytes; false after a report. A
// constant that its text elides has no value to write.
static bool leave(const suite *s, const char *name, const char *kind, const hlo_module *m,
                  FILE *out) {
  hs_buf b = {0};
  hs_status st = hlo_proto_write(&b, m, false);
  bool ok = hs_ok(st) || st.err->code == HS_E_ELIDED;
  if (hs_ok(st)) {
    hlo_module *back;
    st = hlo_proto_read(m->ctx, b.p, b.n, kind, &back);
    char *ending = hs_format("%s.pb", kind), *text = hs_format("%s.text", kind);
    ok = hs_ok(st) && put_file(s, name, ending, &b);
    if (ok) print(&b, back), ok = put_file(s, name, text, &b);
    hs_free(ending);
    hs_free(text);
    hlo_module_free(back);
  }
  if (!ok) fprintf(out, "%s: %s\n", kind, st.err ? st.err->message : "cannot be written");
  hs_status_drop(st);
  hs_buf_free(&b);
  return ok;
}

static void put_difference(FILE *out, const char *want, const char *got) {
  size_t at = 0;
  while (want[at] && want[at] == got[at]) at++;
  size_t from = at;
  while (from > 0 && want[from - 1] != '\n' && at - from < 80) from--;
  fprintf(out, "text differs\n    XLA:  %.*s\n    ours: %.*s\n",
          (int)HS_MIN(strcspn(want + from, "\n"), 200u), want + from,
          (int)HS_MIN(strcspn(got + from, "\n"), 200u), got + from);
}

static int one(void *arg, u32 k, FILE *out) {
  suite *s = arg;
  const char *name = s->names[k];
  size_t n = 0, unused;
  char *bytes = slurp(s->out, name, ".pb", &n), *want = slurp(s->out, name, ".text", &unused),
       *source = slurp(s->dir, name, ".hlo", &unused);
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL, *ours = NULL;
  bool good = bytes && want && source;
  hs_status st =
      good ? hlo_proto_read(ctx, bytes, n, name, &m) : hs_fail(HS_E_IO, "files are missing");
  if (hs_ok(st)) {
    hs_buf got = {0};
    print(&got, m);
    good = strcmp(hs_buf_cstr(&got), want) == 0;
    if (!good) put_difference(out, want, hs_buf_cstr(&got));
    hs_buf_free(&got);
    good &= leave(s, name, ".again", m, out);
    st = hlo_parse(ctx, source, strlen(source), NULL, &ours);
    if (hs_ok(st)) good &= leave(s, name, ".ours", ours, out);
  }
  if (!hs_ok(st)) {
    fprintf(out, "%s\n", st.err->message);
    hs_status_drop(st);
    good = false;
  }
  hlo_module_free(m);
  hlo_module_free(ours);
  hlo_ctx_free(ctx);
  hs_free(bytes);
  hs_free(want);
  hs_free(source);
  return !good;
}

static void report(void *arg, u32 k, drv_result *result) {
  suite *s = arg;
  if (result->verdict == 0) s->passed++;
  else printf("FAIL %s: %s\n", s->names[k], drv_reason(result));
}

int main(int argc, char **argv) {
  drv_args a;
  static const char *const options[] = {NULL};
  if (!drv_parse(argc, argv, options, &a) || a.n != 2)
    return fprintf(stderr, "usage: %s [-j N] DIR OUT\n", argv[0]), 2;
  suite s = {.dir = a.v[0], .out = a.v[1]};
  drv_names files = {0}, names = {0};
  if (!drv_list(s.out, ".pb", &files)) return perror(s.out), 2;
  for (size_t k = 0; k < files.n; k++)
    if (!drv_ends_in(files.v[k], ".ours.pb") && !drv_ends_in(files.v[k], ".again.pb"))
      hs_vec_push(&names, hs_format("%.*s", (int)strlen(files.v[k]) - 3, files.v[k]));
  drv_names_free(&files);
  s.names = names.v;
  s.n = (u32)names.n;
  drv_run(s.n, a.jobs, 60, one, report, &s);
  printf("read: %u/%u\n", s.passed, s.n);
  drv_names_free(&names);
  return s.passed == s.n ? 0 : 1;
}
