// bundle.h — the folder that `report` writes and `replay` reads.
//
//   bundle.json      what is here: schema, backend, settings, tolerance, outcome
//   original.hlo     the module as loaded, with every constant
//   module.hlo       the current version, with every constant
//   inputs/arg0.npy, arg1.npy, ... (a tuple's leaves: arg0.0.npy, ...)
//   expected/result.npy   the evaluator on the original
//   actual/result.npy     the backend on the module
//   inputs.npz, original.hlo.pb   the arguments, and an HloSnapshot with them, for other tools
//   passes.txt  environment.txt  README.md  run.sh  ISSUE.md (issue.h)
//   SHA256SUMS      of all the others, as sha256sum writes it
#ifndef REPL_BUNDLE_H
#define REPL_BUNDLE_H

#include "repl/formats/folder.h"
#include "repl/shell/exec.h"

#define BUNDLE_SCHEMA "hlosh-bundle/1"

// How a run ended: with a value, or with an error.
typedef struct bundle_outcome {
  hlo_literal *value;
  hs_code code;
  char *error;
} bundle_outcome;
void bundle_outcome_free(bundle_outcome *);
// Records an error as the outcome; a stop is passed on.
hs_status bundle_settle(bundle_outcome *, hs_status);
// Compiles and runs a module with the session's settings; *out is the caller's.
hs_status bundle_run(const repl_session *, const backend *, const hlo_module *, u32 n,
                     hlo_literal *const *args, hlo_literal **out);

// A fault of passes, which `shrink` has found: what they do to original.hlo is wrong by a condition
// of `bisect`, with a backend and a reference (NULL: the evaluator).
typedef struct bundle_fault {
  const char *condition, *pipeline, *backend, *reference, *wrong;
  i64 limit;  // rewrites of each pass; -1: no limit
  hlo_tolerance tol;
} bundle_fault;

// Creates a folder; E_IO when that fails.
hs_status bundle_mkdir(const char *path);
// Removes a folder with all that is in it.
void bundle_remove(const char *path);
// Whether a folder is a bundle: it has a bundle.json.
bool bundle_is(const char *path);
// Appends the environment page: versions and CPU; no user names, host names or paths.
void bundle_environment(hs_buf *);
// Runs tar with the given arguments (NULL-terminated), quietly.
hs_status bundle_tar(const char *const *argv);
// Writes SHA256SUMS: of every file in the folder and its folders.
hs_status bundle_write_sums(const char *dir);
// Whether the files that SHA256SUMS names are as they were written. E_BUNDLE names the first that
// is not; a bundle without the list is taken as it is.
hs_status bundle_check_sums(repl_folder *);
// Whether a path names an archive: .tar, .tar.gz, .tar.zst.
bool bundle_is_archive(const char *path);

#endif
