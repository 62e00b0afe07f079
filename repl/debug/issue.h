// issue.h — ISSUE.md of a bundle: a report in the shape in which openxla/xla and jax ask for one.
#ifndef REPL_ISSUE_H
#define REPL_ISSUE_H

#include "repl/debug/bundle.h"
#include "repl/shell/command.h"

typedef struct issue {
  const hlo_module *original;  // as it is in original.hlo
  const char *text;            // of original.hlo
  const char *verdict, *details;
  const bundle_outcome *expected, *actual;
  bool snapshot;  // original.hlo.pb is there
} issue;

// Appends the page. Paths in it are cut to file names, unless `paths`.
void issue_write(repl_cmd *, const issue *, bool paths, hs_buf *);
// Cuts absolute paths in a text to their last part.
void issue_hide_paths(hs_buf *);

#endif
