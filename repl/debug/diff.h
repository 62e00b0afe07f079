// diff.h — line differences of two texts, as unified hunks or in two columns.
#ifndef REPL_DIFF_H
#define REPL_DIFF_H

#include "core/base/base.h"

typedef struct repl_diff_stat {
  u32 added, removed;
} repl_diff_stat;
// Writes hunks ("@@ -a,n +b,m @@") with `context` unchanged lines around; nothing when the texts
// are equal.
void repl_diff(const char *a, size_t na, const char *b, size_t nb, u32 context, bool color,
               hs_buf *out, repl_diff_stat *stat);
// The same in two columns, `columns` wide together; lines that do not fit end in '>'.
void repl_diff_columns(const char *a, size_t na, const char *b, size_t nb, u32 columns, bool color,
                       hs_buf *out, repl_diff_stat *stat);

#endif
