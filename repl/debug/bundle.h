// bundle.h — the folder that `report` writes and `replay` reads.
//
//   bundle.json      what is here: schema, backend, settings, tolerance, outcome
//   original.hlo     the module as loaded, with every constant
//   module.hlo       the version at hand, with every constant
//   inputs/arg0.npy, arg1.npy, ... (a tuple's leaves: arg0.0.npy, ...)
//   expected/result.npy   the evaluator on the original
//   actual/result.npy     the backend on the module
//   passes.txt  environment.txt  README.md  run.sh
#ifndef REPL_BUNDLE_H
#define REPL_BUNDLE_H

#include "repl/shell/exec.h"

#define BUNDLE_SCHEMA "hlosh-bundle/1"

hs_status bundle_mkdir(const char *path);
void bundle_remove(const char *path);  // recursively
bool bundle_is(const char *path);      // has a bundle.json
// versions and CPU; no user names, host names or paths
void bundle_environment(hs_buf *);
// Runs tar with the given arguments (NULL-terminated), quietly.
hs_status bundle_tar(const char *const *argv);
bool bundle_is_archive(const char *path);  // .tar, .tar.gz, .tar.zst by name

#endif
