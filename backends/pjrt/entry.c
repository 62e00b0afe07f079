// entry.c — plug-ins named by a .json file, as JAX reads them: {"library_path": "...",
// "create_options": {"name": value, ...}}.
//
// The options go to the plug-in's client: whole numbers, other numbers, truth values, strings and
// lists of whole numbers, each as the type that the file writes, because a known option of another
// type ends some plug-ins' processes. Other keys are of no interest here. The reader takes JSON
// without \u in the few strings that there are.
#include "backends/pjrt/pjrt.h"
#include "backends/pjrt/api.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct reader {
  const char *p;
  bool bad;
} reader;

static void blanks(reader *r) {
  while (isspace((unsigned char)*r->p)) r->p++;
}
static bool take(reader *r, char c) {
  blanks(r);
  if (*r->p != c) return false;
  r->p++;
  return true;
}

// A string without its quotes; malloc'ed.
static char *text(reader *r) {
  hs_buf b = {0};
  if (!take(r, '"')) r->bad = true;
  for (; !r->bad && *r->p && *r->p != '"'; r->p++) {
    if (*r->p == '\\' && r->p[1]) r->p++;
    hs_buf_put(&b, r->p, 1);
  }
  r->bad |= *r->p != '"';
  if (!r->bad) r->p++;
  char *s = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return s;
}

static bool word(reader *r, const char *w) {
  blanks(r);
  size_t n = strlen(w);
  if (strncmp(r->p, w, n) != 0) return false;
  r->p += n;
  return true;
}

static bool whole(const char *p) {
  p += *p == '-';
  while (isdigit((unsigned char)*p)) p++;
  return *p != '.' && *p != 'e' && *p != 'E';
}

// One value: its type and then itself to `out`; NULL: skipped.
static void value(reader *r, hs_buf *out, u32 depth) {
  hs_buf none = {0}, *b = out ? out : &none;
  blanks(r);
  if (*r->p == '"') {
    char *s = text(r);
    wire_put_u32(b, PJ_STRING);
    wire_put_str(b, s);
    hs_free(s);
  } else if (word(r, "true") || word(r, "false")) {
    wire_put_u32(b, PJ_BOOL);
    wire_put_i64(b, r->p[-2] == 'u');  // tr-u-e, fal-s-e
  } else if (*r->p == '-' || isdigit((unsigned char)*r->p)) {
    char *end;
    if (whole(r->p)) {
      wire_put_u32(b, PJ_INT64);
      wire_put_i64(b, strtoll(r->p, &end, 10));
    } else {
      wire_put_u32(b, PJ_FLOAT);
      wire_put_f64(b, strtod(r->p, &end));
    }
    r->p = end;
  } else if (take(r, '[')) {
    HS_VEC(i64) list = {0};
    while (!r->bad && !take(r, ']')) {
      blanks(r);
      if (out && *r->p != '-' && !isdigit((unsigned char)*r->p)) {
        r->bad = true;
        break;
      }
      if (!out) {
        value(r, NULL, depth + 1);
        take(r, ',');
        continue;
      }
      char *end;
      hs_vec_push(&list, strtoll(r->p, &end, 10));
      r->p = end;
      take(r, ',');
    }
    wire_put_u32(b, PJ_INT64_LIST);
    wire_put_u32(b, (u32)list.n);
    wire_put(b, list.v, list.n * sizeof *list.v);
    hs_vec_free(&list);
  } else if (!out && depth < 64 && take(r, '{')) {
    while (!r->bad && !take(r, '}')) {
      hs_free(text(r));
      r->bad |= !take(r, ':');
      value(r, NULL, depth + 1);
      take(r, ',');
    }
  } else if (out || !word(r, "null")) r->bad = true;
  hs_buf_free(&none);
}

static void options(reader *r, pjrt_entry *out) {
  r->bad |= !take(r, '{');
  while (!r->bad && !take(r, '}')) {
    char *name = text(r);
    r->bad |= !take(r, ':');
    wire_put_str(&out->options, name);
    if (!r->bad) value(r, &out->options, 0);
    out->noptions++;
    hs_free(name);
    take(r, ',');
  }
}

static void members(reader *r, pjrt_entry *out) {
  r->bad |= !take(r, '{');
  while (!r->bad && !take(r, '}')) {
    char *key = text(r);
    r->bad |= !take(r, ':');
    if (r->bad) {
    } else if (!strcmp(key, "library_path") && !out->library) out->library = text(r);
    else if (!strcmp(key, "create_options")) options(r, out);
    else value(r, NULL, 0);
    hs_free(key);
    take(r, ',');
  }
}

static hs_status read_json(const char *path, pjrt_entry *out) {
  FILE *f = fopen(path, "re");
  if (!f) return hs_fail_errno(HS_E_IO, path);
  hs_buf b = {0};
  char chunk[4096];
  for (size_t n; b.n < (1u << 20) && (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
    hs_buf_put(&b, chunk, n);
  fclose(f);
  reader r = {hs_buf_cstr(&b), false};
  members(&r, out);
  blanks(&r);
  bool bad = r.bad || *r.p;
  hs_buf_free(&b);
  if (bad)
    return hs_fail(
        HS_E_INPUT,
        "%s is not the JSON that names a plug-in: {\"library_path\": ..., \"create_options\": "
        "{...}}",
        path);
  return out->library ? HS_GOOD : hs_fail(HS_E_INPUT, "%s names no library_path", path);
}

hs_status pjrt_entry_read(const char *path, pjrt_entry *out) {
  *out = (pjrt_entry){0};
  size_t n = strlen(path);
  if (n < 5 || strcmp(path + n - 5, ".json") != 0) {
    out->library = hs_strdup(path);
    return HS_GOOD;
  }
  hs_status s = read_json(path, out);
  if (!hs_ok(s)) pjrt_entry_free(out);
  return s;
}

void pjrt_entry_free(pjrt_entry *e) {
  hs_free(e->library);
  hs_buf_free(&e->options);
  *e = (pjrt_entry){0};
}
