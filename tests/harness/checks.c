// checks.c — see checks.h. Nothing here computes: a module may be as invalid as its reader lets
// it be.
#include "core/mlir/mlir.h"
#include "core/proto/proto.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "tests/harness/checks.h"

static void drop(hs_status s, hs_buf *why, bool *ok) {
  if (!hs_ok(s)) {
    hs_buf b = {0};
    hs_status_render(s, &b, false);
    if (b.n == 0) hs_buf_puts(why, "an error without a text"), *ok = false;
    hs_buf_free(&b);
  }
  hs_status_drop(s);
}

static void print(hs_buf *b, const hlo_module *m) {
  hlo_print_options o = hlo_print_full();
  b->n = 0;
  hlo_print_module(b, m, &o);
}

// Equal, or `why` shows the first lines that differ.
static bool same(hs_buf *want, hs_buf *got, const char *what, hs_buf *why) {
  if (want->n == got->n && memcmp(want->p, got->p, got->n) == 0) return true;
  const char *a = hs_buf_cstr(want), *b = hs_buf_cstr(got);
  while (*a && strncmp(a, b, strcspn(a, "\n") + 1) == 0)
    a += strcspn(a, "\n") + 1, b += strcspn(b, "\n") + 1;
  hs_buf_printf(why, "%s: printed \"%.*s\", then \"%.*s\"", what,
                (int)HS_MIN(strcspn(a, "\n"), (size_t)250), a,
                (int)HS_MIN(strcspn(b, "\n"), (size_t)250), b);
  return false;
}

// Printing takes as long as the values are many, which is no fault: modules with more than this in
// their constants are not printed.
enum { PRINTED_BYTES = 1 << 22 };
static bool printable(const hlo_module *m) {
  i64 bytes = 0;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      if (i->opcode == HLO_CONSTANT) bytes = hs_add_sat_i64(bytes, hlo_shape_bytes(i->shape));
    }
  return bytes <= PRINTED_BYTES;
}

// Does this print stay as it is?
static bool settles(hlo_ctx *ctx, hs_buf *text, hs_buf *why) {
  hlo_module *m = NULL;
  hs_buf next = {0};
  hs_status s = hlo_parse(ctx, text->p, text->n, NULL, &m);
  bool ok = hs_ok(s);
  if (ok) print(&next, m), ok = same(text, &next, "read back twice", why);
  else hs_buf_printf(why, "its second print does not parse: %s", s.err->message);
  hs_status_drop(s);
  hlo_module_free(m);
  hs_buf_free(&next);
  return ok;
}

static bool verify(const hlo_module *m, check_counts *n, hs_buf *why) {
  bool ok = true;
  hs_status v = hlo_verify(m, NULL);
  n->read++;
  n->valid += hs_ok(v);
  drop(v, why, &ok);
  return ok;
}

bool check_text(const char *text, size_t n, check_counts *counts, hs_buf *why) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL, *again = NULL;
  hs_buf first = {0}, second = {0};
  bool ok = true;
  hs_status s = hlo_parse(ctx, text, n, NULL, &m);
  if (hs_ok(s) && !printable(m)) {
    ok = verify(m, counts, why);
  } else if (hs_ok(s)) {
    print(&first, m);
    s = hlo_parse(ctx, first.p, first.n, NULL, &again);
    if (!hs_ok(s)) {
      hs_buf_printf(why, "its print does not parse: %s\n%s", s.err->message, hs_buf_cstr(&first));
      ok = false;
    } else {
      print(&second, again);
      // Stack frames are numbered in the order of the text, as XLA numbers them: where that is not
      // the order of the print, the second print is the first that stays.
      ok = m->frames ? settles(ctx, &second, why) : same(&first, &second, "read back", why);
    }
    if (ok) ok = verify(m, counts, why);
  } else if (m) {
    hs_buf_puts(why, "an error and a module"), ok = false;
  }
  drop(s, why, &ok);
  hs_buf_free(&first);
  hs_buf_free(&second);
  hlo_module_free(again);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return ok;
}

// A module as a portable artifact, for versions that differ in the form of the file.
static bool check_as_artifact(hlo_ctx *ctx, const hlo_module *m, hs_buf *why) {
  static const u32 versions[] = {HLO_STABLEHLO_OLDEST, 12, 14, HLO_STABLEHLO_USUAL};
  bool ok = true;
  for (size_t k = 0; ok && k < HS_COUNT(versions); k++) {
    hs_buf b = {0};
    hs_status s = hlo_mlir_write(m, versions[k], &b);
    bool written = hs_ok(s);
    if (!written && s.err->code != HS_E_NO_STABLEHLO)
      hs_buf_printf(why, "it is not written as an artifact: %s", s.err->message), ok = false;
    hs_status_drop(s);
    if (written) s = hlo_mlir_check(ctx, b.p, b.n, NULL);
    if (written && !hs_ok(s))
      hs_buf_printf(why, "its artifact is not read: %s", s.err->message), ok = false;
    if (written) hs_status_drop(s);
    hs_buf_free(&b);
  }
  return ok;
}

// A module as StableHLO, read as it is written.
static bool check_as_stablehlo(hlo_ctx *ctx, const hlo_module *m, hs_buf *why) {
  const hlo_parse_options o = {.as_written = true};
  hs_buf text = {0};
  hlo_module *again = NULL;
  hs_status s = hlo_mlir_print(m, &text);
  bool printed = hs_ok(s), ok = true;
  hs_status_drop(s);
  if (printed) {
    s = hlo_mlir_check(ctx, text.p, text.n, &o);
    if (!hs_ok(s))
      hs_buf_printf(why, "its print as StableHLO is not read: %s", s.err->message), ok = false;
    hs_status_drop(s);
    // what is written may be more than HLO's rules of shapes allow
    hs_status_drop(hlo_mlir_read(ctx, text.p, text.n, &o, &again));
    ok = ok && check_as_artifact(ctx, m, why);
  }
  hlo_module_free(again);
  hs_buf_free(&text);
  return ok;
}

static bool check_mlir_of(const char *bytes, size_t n, const char *sizes, check_counts *counts,
                          hs_buf *why) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL, *again = NULL;
  bool ok = true;
  const hlo_parse_options o = {.sizes = sizes};
  hs_status s = hlo_mlir_read(ctx, bytes, n, &o, &m);
  if (hs_ok(s) && printable(m)) {
    hs_buf text = {0};
    u64 valid = counts->valid;
    print(&text, m);
    s = hlo_parse(ctx, text.p, text.n, NULL, &again);
    if (!hs_ok(s)) hs_buf_printf(why, "its print does not parse: %s", s.err->message), ok = false;
    hs_buf_free(&text);
    if (ok) ok = verify(m, counts, why);
    if (ok && counts->valid > valid) ok = check_as_stablehlo(ctx, m, why);
  }
  drop(s, why, &ok);
  hlo_module_free(again);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return ok;
}

bool check_mlir(const char *bytes, size_t n, check_counts *counts, hs_buf *why) {
  return check_mlir_of(bytes, n, NULL, counts, why) && check_mlir_of(bytes, n, "4", counts, why);
}

static bool check_back(hlo_ctx *ctx, const hlo_module *m, hs_buf *want, bool text, hs_buf *why) {
  hs_buf bytes = {0}, got = {0};
  u32 lost;
  bool ok = true;
  const char *form = text ? "the text form" : "the binary form";
  hlo_module *back = NULL;
  hs_status s = hlo_proto_save(&bytes, m, HLO_PROTO_AS_READ, text, &lost);
  if (hs_ok(s)) {
    // Fields may be lost here: unknown ones inside messages that the opcode has no use for.
    s = text ? hlo_proto_read_text(ctx, bytes.p, bytes.n, "back", &back)
             : hlo_proto_read(ctx, bytes.p, bytes.n, "back", &back);
    if (!hs_ok(s)) {
      hs_buf_printf(why, "%s is not read: %s", form, s.err->message), ok = false;
    } else {
      print(&got, back);
      // the text form knows one NaN only
      bool payload = text && want->n && memmem(want->p, want->n, "nan", 3);
      ok = payload || same(want, &got, form, why);
    }
  }
  hs_status_drop(s);
  hlo_module_free(back);
  hs_buf_free(&bytes);
  hs_buf_free(&got);
  return ok;
}

bool check_proto(const char *bytes, size_t n, check_counts *counts, hs_buf *why) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  bool text = hlo_is_proto_text(bytes, n), ok = true;
  hs_status s = text ? hlo_proto_read_text(ctx, bytes, n, "fuzz", &m)
                     : hlo_proto_read(ctx, bytes, n, "fuzz", &m);
  if (m) {
    hs_buf want = {0};
    bool whole = printable(m);
    if (whole) print(&want, m);
    ok = verify(m, counts, why);
    if (ok && whole)
      ok = check_back(ctx, m, &want, false, why) && check_back(ctx, m, &want, true, why);
    hs_buf_free(&want);
  } else if (hs_ok(s)) {
    hs_buf_puts(why, "neither a module nor an error"), ok = false;
  }
  drop(s, why, &ok);
  hlo_literal **args, *result = NULL;
  u32 count;
  s = hlo_proto_read_arguments(ctx, bytes, n, "fuzz", 0, &args, &count, &result);
  if (hs_ok(s)) {
    for (u32 k = 0; k < count; k++) hlo_literal_unref(args[k]);
    hs_free(args);
  }
  drop(s, why, &ok);
  hlo_literal_unref(result);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return ok;
}
