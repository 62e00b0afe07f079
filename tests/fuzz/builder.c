// builder.c — modules built at the prompt: new, param, NAME = op(...), root, undo, redo, verify
// and print, a line each, in a session of the shell. Lines with other commands, or with characters
// or options that reach outside the shell (-o writes files), are passed over.
#include <string.h>

#include "core/verify/verify.h"
#include "repl/registry.h"
#include "tests/fuzz/target.h"

static bool allowed(const char *line, size_t n) {
  static const char *const words[] = {"new",   "param", "root",      "undo", "redo", "verify",
                                      "print", "stats", "signature", "info", "list"};
  if (n == 0 || n > 2000 || memchr(line, 0, n)) return false;
  for (size_t k = 0; k < n; k++)
    if (strchr("|>;!`&$\\~@", line[k])) return false;
  // an option
  for (size_t k = 1; k < n; k++)
    if (line[k] == '-' && strchr(" \t\f\v\r", line[k - 1]) && !strchr("0123456789=_x", line[k + 1]))
      return false;
  if (memchr(line, '=', n)) return true;
  size_t w = strcspn(line, " \n");
  for (size_t k = 0; k < HS_COUNT(words); k++)
    if (w <= n && strlen(words[k]) == w && memcmp(words[k], line, w) == 0) return true;
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  char *text = hs_alloc(n + 1);
  memcpy(text, data, n);
  text[n] = '\0';
  repl_run_line(s, "new fuzz", 8);
  for (size_t at = 0, lines = 0; at < n && lines < 40; lines++) {
    size_t len = strcspn(text + at, "\n");
    if (allowed(text + at, len)) repl_run_line(s, text + at, len);
    at += len + 1;
  }
  repl_session_free(s);
  hs_free(text);
  return 0;
}
