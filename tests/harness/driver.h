// driver.h — what the test drivers share: files and tables, options, and a runner that handles
// each case in a child process, so that a crash or a hang is that case's failure and nothing
// else's.
#ifndef TESTS_HARNESS_DRIVER_H
#define TESTS_HARNESS_DRIVER_H

#include "core/base/diag.h"

#include <stdio.h>

// The whole file, NUL-terminated, *n bytes (n may be NULL); NULL when it cannot be read (errno).
// The caller frees it with hs_free.
char *drv_read(const char *path, size_t *n);
// The description of a GPU that need not be present: one known by name, or a file. NULL: no such
// file (errno).
char *drv_gpu(const char *word);
// Prints a status as one line, "what: message[: cause]", and drops it.
void drv_status(FILE *out, const char *what, hs_status s);

// ---- tables -------------------------------------------------------------------------------------
// A tab-separated file with one header line; \t, \n and \\ are escaped in cells. Cells point into
// text; short rows are filled with empty cells.
typedef struct drv_table {
  u32 ncols, nrows;
  char **head, **cells;
  char *text;
} drv_table;
bool drv_table_read(const char *path, drv_table *t);
void drv_table_free(drv_table *t);
// "" where the table has no such column.
const char *drv_cell(const drv_table *t, u32 row, const char *column);

// ---- cases --------------------------------------------------------------------------------------
// A case writes its report to `out` and returns its verdict, 0..99; by convention 0 is a pass.
typedef int drv_case(void *arg, u32 k, FILE *out);
enum { DRV_DIED = 100, DRV_TIMEOUT = 101 };
typedef struct drv_result {
  int verdict;      // the case's, DRV_DIED or DRV_TIMEOUT
  char *text;       // what it wrote, also before it died
  char ending[64];  // "" or "died by signal 11", "timed out after 60 s"
} drv_result;
typedef void drv_done(void *arg, u32 k, drv_result *r);
// Runs cases 0..n-1, `jobs` at a time, each for at most timeout_s seconds; done() is called in the
// order of k. Results belong to the runner.
void drv_run(u32 n, u32 jobs, double timeout_s, drv_case *run, drv_done *done, void *arg);
// Why a case failed, for its FAIL line: how it ended, else what it wrote, without the last newline.
const char *drv_reason(const drv_result *r);

// ---- folders ------------------------------------------------------------------------------------
typedef HS_VEC(char *) drv_names;
bool drv_ends_in(const char *name, const char *ending);
// Appends the names in dir that end so, sorted; false: dir cannot be read (errno).
bool drv_list(const char *dir, const char *ending, drv_names *names);
// Appends the names of the modules in dir, sorted, without ".hlo": those that contain `only` (NULL:
// all), but no NAME.after_optimizations.hlo.
bool drv_modules(const char *dir, const char *only, drv_names *names);
void drv_names_free(drv_names *names);

// ---- arguments ----------------------------------------------------------------------------------
// "-j N", "--name VALUE" and "--flag"; operands move to the front of argv.
typedef struct drv_args {
  u32 jobs, n;
  char **v;
  const char *key[16], *value[16];
  u32 nopts;
} drv_args;
// options: names, NULL at the end; one that starts with '!' is a flag, without a value. False,
// after a message, for one that is not listed.
bool drv_parse(int argc, char **argv, const char *const *options, drv_args *a);
// The value of an option ("" of a flag), NULL when it was not given.
const char *drv_option(const drv_args *a, const char *key);
// For drivers over a folder with index.tsv: DIR [--pass NAME] [-j N]. False after printing the
// usage.
bool drv_open_cases(int argc, char **argv, const char *name, drv_args *a, drv_table *t);

#endif
