// tsv.h — reading the tab-separated tables that some drivers work on: header line, then rows; \t
// \n \\ are escaped in cells.
#ifndef TESTS_TSV_H
#define TESTS_TSV_H

#include "core/base/base.h"

#include <stdio.h>
#include <stdlib.h>

enum { TSV_COLUMNS = 48 };
typedef struct tsv {
  FILE *f;
  char *line;
  size_t cap;
  char *head[TSV_COLUMNS];
  char *header;
  u32 ncols;
  char *cell[TSV_COLUMNS];
} tsv;

static inline u32 tsv_split(char *line, char **cell) {
  u32 n = 0;
  line[strcspn(line, "\r\n")] = 0;
  for (char *p = line; p && n < TSV_COLUMNS;) {
    char *tab = strchr(p, '\t');
    if (tab) *tab = 0;
    cell[n++] = p;
    p = tab ? tab + 1 : NULL;
  }
  return n;
}
static inline void tsv_unescape(char *s) {
  char *w = s;
  for (; *s; s++) {
    if (*s == '\\' && (s[1] == 't' || s[1] == 'n' || s[1] == '\\'))
      s++, *w++ = *s == 't' ? '\t' : *s == 'n' ? '\n' : '\\';
    else *w++ = *s;
  }
  *w = 0;
}
static inline bool tsv_open(tsv *t, const char *path) {
  *t = (tsv){.f = fopen(path, "r")};
  if (!t->f) return false;
  if (getline(&t->header, &t->cap, t->f) < 0) return false;
  t->ncols = tsv_split(t->header, t->head);
  t->cap = 0;
  return true;
}
static inline bool tsv_next(tsv *t) {
  if (getline(&t->line, &t->cap, t->f) < 0) return false;
  u32 n = tsv_split(t->line, t->cell);
  for (u32 k = 0; k < n; k++) tsv_unescape(t->cell[k]);
  static char none[1];
  for (u32 k = n; k < TSV_COLUMNS; k++) t->cell[k] = none;
  return true;
}
static inline const char *tsv_get(const tsv *t, const char *column) {
  for (u32 k = 0; k < t->ncols; k++)
    if (strcmp(t->head[k], column) == 0) return t->cell[k];
  return "";
}
static inline void tsv_close(tsv *t) {
  if (t->f) fclose(t->f);
  free(t->line);
  free(t->header);
}

#endif
