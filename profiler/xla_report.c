// xla_report.c — reads XLA's buffer assignments (BufferAssignment::ToString) and memory usage
// reports. See xla_report.h.
//
// Line by line, one cursor, no copies but of labels and shapes. Every number is checked against
// what 63 bits hold, every offset against the size of its allocation; what is not understood is an
// error with its line, because a report half read would compare as a difference of the programs.
#include "profiler/xla_report.h"

#include <string.h>

typedef struct reader {
  const char *file;
  const char *p, *end;          // of the whole text
  const char *line, *eol, *at;  // the line at hand; where in it
  u32 number;
  xla_report *out;
} reader;

static hs_status bad(const reader *r, const char *what) {
  return hs_with_place(hs_fail(HS_E_XLA_REPORT, "%s", what), r->file, r->number,
                       (u32)(r->at - r->line) + 1, (hs_str){r->line, (size_t)(r->eol - r->line)});
}

static bool next_line(reader *r) {
  if (r->p >= r->end) return false;
  const char *nl = memchr(r->p, '\n', (size_t)(r->end - r->p));
  r->line = r->at = r->p;
  r->eol = nl ? nl : r->end;
  r->p = nl ? nl + 1 : r->end;
  if (r->eol > r->line && r->eol[-1] == '\r') r->eol--;
  r->number++;
  return true;
}

static bool blank(const reader *r) {
  for (const char *q = r->line; q < r->eol; q++)
    if (*q != ' ' && *q != '\t') return false;
  return true;
}

static bool accept(reader *r, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(r->eol - r->at) < n || memcmp(r->at, word, n) != 0) return false;
  r->at += n;
  return true;
}

static bool number(reader *r, i64 *out) {
  const char *begin = r->at;
  i64 v = 0;
  for (; r->at < r->eol && *r->at >= '0' && *r->at <= '9'; r->at++) {
    if (v > (INT64_MAX - 9) / 10) return false;
    v = v * 10 + (*r->at - '0');
  }
  *out = v;
  return r->at > begin;
}

// Moves past the next `c` of the line; what was before it is *text.
static bool until(reader *r, char c, hs_str *text) {
  const char *q = r->at < r->eol ? memchr(r->at, c, (size_t)(r->eol - r->at)) : NULL;
  if (!q) return false;
  *text = (hs_str){r->at, (size_t)(q - r->at)};
  r->at = q + 1;
  return true;
}

static const char *keep(reader *r, hs_str s) { return hs_arena_strndup(&r->out->arena, s.p, s.n); }

// ---- buffer assignment --------------------------------------------------------------------------

// One of the properties behind "allocation 3: size 128", each after a comma.
static hs_status property(reader *r, xla_allocation *a) {
  hs_str skipped;
  if (accept(r, "color ")) return number(r, &a->color) ? HS_GOOD : bad(r, "a color is a number");
  if (accept(r, "parameter ")) {
    if (!number(r, &a->parameter)) return bad(r, "a parameter has a number");
    if (!accept(r, ", shape |") || !until(r, '|', &skipped))
      return bad(r, "expected , shape |...|");
    if (!accept(r, " at ShapeIndex {") || !until(r, '}', &skipped))
      return bad(r, "expected at ShapeIndex {...}");
    return HS_GOOD;
  }
  if (accept(r, "output shape is |")) {
    a->output = true;
    return until(r, '|', &skipped) ? HS_GOOD : bad(r, "the shape has no closing |");
  }
  if (accept(r, "constant")) a->constant = true;
  else if (accept(r, "thread-local")) a->thread_local_ = true;
  else if (accept(r, "maybe-live-out")) a->live_out = true;
  else if (accept(r, "preallocated-temp")) a->temporary = true;
  else return bad(r, "unknown property of an allocation");
  return HS_GOOD;
}

// "allocation 13: size 40960, preallocated-temp:"
static hs_status allocation(reader *r) {
  xla_report *o = r->out;
  xla_allocation a = {.parameter = -1, .first_value = (u32)o->values.n};
  if (!number(r, &a.number)) return bad(r, "an allocation has a number");
  if (!accept(r, ": size ") || !number(r, &a.size)) return bad(r, "expected : size and a number");
  while (accept(r, ", ")) HS_TRY(property(r, &a));
  if (!accept(r, ":") || r->at != r->eol) return bad(r, "expected : at the end of the line");
  if (o->total_bytes > INT64_MAX - a.size) return bad(r, "the sizes add up to more than 2^63");
  o->total_bytes += a.size;
  hs_vec_push(&o->allocations, a);
  return HS_GOOD;
}

// "<72 p_0__0_.1 @0> (size=16384,offset=0): f32[64,64]{1,0}"; labels end in " (phi)" for the state
// of loops, which is left out.
static hs_status value(reader *r) {
  xla_report *o = r->out;
  xla_value v = {0};
  if (!o->allocations.n) return bad(r, "a value before the first allocation");
  xla_allocation *a = &o->allocations.v[o->allocations.n - 1];
  i64 id;
  hs_str label = {0};
  if (!accept(r, "<") || !number(r, &id) || !accept(r, " ") || !until(r, '@', &label))
    return bad(r, "expected <number name @number>");
  while (label.n && label.p[label.n - 1] == ' ') label.n--;
  static const char phi[] = " (phi)";
  if (label.n > sizeof phi - 1 &&
      !memcmp(label.p + label.n - (sizeof phi - 1), phi, sizeof phi - 1))
    label.n -= sizeof phi - 1;
  if (!label.n) return bad(r, "a value has a name");
  if (!number(r, &id) || !accept(r, "> (size=") || !number(r, &v.size) || !accept(r, ",offset=") ||
      !number(r, &v.offset) || !accept(r, "): "))
    return bad(r, "expected @number> (size=number,offset=number): shape");
  if (v.size > a->size || v.offset > a->size - v.size)
    return bad(r, "the value lies outside its allocation");
  v.label = keep(r, label);
  v.shape = keep(r, (hs_str){r->at, (size_t)(r->eol - r->at)});
  hs_vec_push(&o->values, v);
  a->nvalues++;
  return HS_GOOD;
}

static hs_status assignment(reader *r) {
  while (next_line(r)) {
    if (blank(r)) continue;
    if (accept(r, "Total bytes used:") || accept(r, "Used values:")) return HS_GOOD;
    if (accept(r, "allocation ")) HS_TRY(allocation(r));
    else if (accept(r, " value: ")) HS_TRY(value(r));
    else return bad(r, "not a line of a buffer assignment");
  }
  if (!r->out->allocations.n) return bad(r, "the buffer assignment ends before an allocation");
  return HS_GOOD;
}

// ---- memory usage report ------------------------------------------------------------------------

// "16.0KiB", "256B": rounded by XLA.
static bool rounded(reader *r, i64 *out) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  while (r->at < r->eol && *r->at == ' ') r->at++;
  i64 whole, tenths = 0;
  if (!number(r, &whole)) return false;
  if (accept(r, ".")) {
    const char *begin = r->at;
    if (!number(r, &tenths)) return false;
    for (const char *q = begin; q < r->at; q++) tenths = q == begin ? *q - '0' : tenths;
  }
  double v = (double)whole + (double)tenths / 10;
  for (size_t k = HS_COUNT(units); k-- > 0;)
    if (accept(r, units[k])) {
      for (size_t j = 0; j < k; j++) v *= 1024;
      if (v >= 9e18) return false;
      *out = (i64)v;
      return true;
    }
  return false;
}

// "  24.0KiB( 60%);  8.0KiB;  32768;  1; f32[32,64]"
static hs_status usage_row(reader *r) {
  xla_report *o = r->out;
  i64 sum, count;
  hs_str skipped;
  xla_value v = {0};
  if (!rounded(r, &sum) || !accept(r, "(") || !until(r, ';', &skipped))
    return bad(r, "expected a cumulative size and its share");
  if (!rounded(r, &v.size) || !accept(r, ";")) return bad(r, "expected a size");
  while (accept(r, " ")) {}
  if (!number(r, &v.offset) || !accept(r, ";")) return bad(r, "expected an offset");
  while (accept(r, " ")) {}
  if (!number(r, &count) || !accept(r, ";")) return bad(r, "expected a number of values");
  while (accept(r, " ")) {}
  if (!o->allocations.n) return bad(r, "a row before the first table");
  xla_allocation *a = &o->allocations.v[o->allocations.n - 1];
  v.label = v.shape = keep(r, (hs_str){r->at, (size_t)(r->eol - r->at)});
  hs_vec_push(&o->values, v);
  a->nvalues++;
  a->size = HS_MAX(a->size, hs_add_sat_i64(v.offset, v.size));
  return HS_GOOD;
}

static hs_status usage(reader *r) {
  xla_report *o = r->out;
  o->usage = true;
  bool any = false;
  i64 color = 0;
  do {
    r->at = r->line;
    hs_str name;
    if (blank(r)) continue;
    if (accept(r, "Memory Space: ")) {
      if (!until(r, '=', &name) || !number(r, &color)) return bad(r, "expected (color=number)");
    } else if (accept(r, "Total bytes: ")) {
      i64 total;
      if (!number(r, &total)) return bad(r, "expected a number of bytes");
      o->total_bytes = hs_add_sat_i64(o->total_bytes, total);
      any = true;
    } else if (accept(r, "  cumulative_size;")) {
      xla_allocation a = {.number = (i64)o->allocations.n, .parameter = -1, .color = color};
      a.first_value = (u32)o->values.n;
      hs_vec_push(&o->allocations, a);
    } else if (accept(r, "  ---")) {
      continue;
    } else if (accept(r, "  ")) {
      HS_TRY(usage_row(r));
    } else return bad(r, "not a line of a memory usage report");
  } while (next_line(r));
  return any ? HS_GOOD : bad(r, "the memory usage report has no total");
}

// ---- either -------------------------------------------------------------------------------------

void xla_report_free(xla_report *o) {
  hs_vec_free(&o->allocations);
  hs_vec_free(&o->values);
  hs_arena_free(&o->arena);
  *o = (xla_report){0};
}

static hs_status read_either(reader *r) {
  const char *nul = r->p < r->end ? memchr(r->p, 0, (size_t)(r->end - r->p)) : NULL;
  while (next_line(r))
    if (nul && nul < r->p) {
      r->at = nul;
      return bad(r, "a NUL byte: this is no text");
    } else if (!nul && !blank(r)) break;
  if (!r->line || blank(r)) {
    return hs_with_place(hs_fail(HS_E_XLA_REPORT, "the file is empty"), r->file, 1, 1, (hs_str){0});
  }
  if (accept(r, "BufferAssignment:")) return assignment(r);
  if (accept(r, "Memory Space: ")) return usage(r);
  return hs_with_note(bad(r, "neither a buffer assignment nor a memory usage report"),
                      "XLA writes them as *-buffer-assignment.txt and *-memory-usage-report.txt "
                      "with --xla_dump_to");
}

hs_status xla_report_read(const char *file, const char *text, size_t n, xla_report *out) {
  *out = (xla_report){0};
  reader r = {.file = file, .p = text, .end = text + n, .out = out};
  hs_status s = read_either(&r);
  if (!hs_ok(s)) xla_report_free(out);
  return s;
}
