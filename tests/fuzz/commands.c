// commands.c — lines as they are typed, in a session with a module, and what Tab offers for them.
// The first word is one of those that stay inside the shell; lines with characters or options that
// reach outside of it are passed over.
#include "tests/fuzz/target.h"
#include "repl/registry.h"
#include "repl/shell/line.h"

static bool allowed(const char *line, size_t n) {
  static const char *const words[] = {
      "print",  "info",     "list",    "find",     "stats",   "src",     "cost",     "signature",
      "verify", "passes",   "pass",    "pipeline", "next",    "back",    "until",    "continue",
      "undo",   "redo",     "mark",    "goto",     "history", "diff",    "why",      "blame",
      "delete", "replace",  "rename",  "resize",   "show",    "example", "estimate", "roofline",
      "memory", "schedule", "target",  "devices",  "help",    "explain", "assert",   "savings",
      "alias",  "unalias",  "modules", "use",      "support", "break",   "watch",    "new",
      "param",  "root",     "close",   "set",      "commands"};
  if (n == 0 || n > 500 || memchr(line, 0, n)) return false;
  for (size_t k = 0; k < n; k++)
    if (strchr("|>;!`&$\\~", line[k])) return false;
  for (size_t k = 1; k + 1 < n; k++)  // -o FILE, and options that name files
    if (line[k] == '-' && (line[k + 1] == 'o' || line[k + 1] == '-') && line[k - 1] == ' ')
      return false;
  size_t w = strcspn(line, " \t\n");
  for (size_t k = 0; k < HS_COUNT(words); k++)
    if (w <= n && strlen(words[k]) == w && memcmp(words[k], line, w) == 0) return true;
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  char *text = hs_alloc(n + 1);
  if (n) memcpy(text, data, n);
  text[n] = '\0';
  repl_run_line(s, "example mlp", 11);
  for (size_t at = 0, lines = 0; at < n && lines < 20; lines++) {
    size_t len = strcspn(text + at, "\n");
    char *line = hs_format("%.*s", (int)len, text + at);
    hs_arena arena = {0};
    size_t from = strlen(line);
    u32 count = 0;
    while (from && line[from - 1] != ' ') from--;
    if (!strchr(line, '/')) (void)repl_complete(s, &arena, line, from, strlen(line), &count);
    hs_arena_free(&arena);
    if (allowed(line, strlen(line))) repl_run_line(s, line, strlen(line));
    hs_free(line);
    at += len + 1;
  }
  repl_session_free(s);
  hs_free(text);
  return 0;
}
