// cli.c: the table of options, and completion for `hlosh --complete LINE`. See cli.h.
#include "repl/shell/cli.h"

#include "repl/shell/line.h"
#include "repl/shell/settings.h"

const repl_option repl_options[] = {
    {"-c", "COMMANDS", NULL, "run commands (separated by ;), then exit; may be repeated"},
    {"-f", "SCRIPT", NULL, "run the commands of a file, then exit; - is standard input"},
    {"-i", NULL, NULL, "stay interactive after -c and -f"},
    {"--json", NULL, NULL, "print one JSON document per command"},
    {"--color", "WHEN", "auto|always|never", "use colours: auto, always or never"},
    {"--keep-going", NULL, NULL, "continue a script after a command that failed"},
    {"--elided", "HOW", "ask|random|zeros",
     "values of constants printed as {...}: random or zeros"},
    {"--no-rc", NULL, NULL, "do not read the rc file"},
    {"--help", NULL, NULL, "print the options and exit (also -h)"},
    {"--version", NULL, NULL, "print the version and exit (also -V)"},
};
const u32 repl_option_count = HS_COUNT(repl_options);

const repl_exit_status repl_exit_statuses[] = {
    {0, "ok"},
    {1, "an assertion failed"},
    {2, "usage error"},
    {3, "input not read or not valid"},
    {4, "compilation failed"},
    {5, "execution failed"},
    {6, "results differ"},
    {124, "deadline exceeded"},
    {130, "interrupted (Ctrl-C)"},
};
const u32 repl_exit_status_count = HS_COUNT(repl_exit_statuses);

static void put_option(hs_buf *b, const char *name, const char *arg, const char *summary) {
  size_t from = b->n;
  hs_buf_printf(b, "  %s", name);
  if (arg) hs_buf_printf(b, "%c%s", name[1] == '-' ? '=' : ' ', arg);
  while (b->n - from < 18) hs_buf_putc(b, ' ');
  hs_buf_printf(b, "%s\n", summary);
}

void repl_cli_usage(hs_buf *b) {
  hs_buf_puts(b, "usage: hlosh [FILE...] [-c 'CMD; CMD'] [-f SCRIPT] [--json] "
                 "[--color=auto|always|never]\n\n");
  put_option(b, "FILE", NULL,
             "a module to load: HLO text or proto, also .gz and .zst; - is standard input");
  for (u32 k = 0; k < repl_option_count; k++)
    put_option(b, repl_options[k].name, repl_options[k].arg, repl_options[k].summary);
  put_option(b, "--NAME", "VALUE", "any setting of `set`: --threads=2, --seed=7, --deadline=60");
  hs_buf_puts(b, "\nWithout -c and -f commands are read from the terminal or from standard input; "
                 "`help` lists them.\nExit status:");
  for (u32 k = 0; k < repl_exit_status_count; k++)
    hs_buf_printf(b, "%s %d %s", k ? "," : "", repl_exit_statuses[k].code,
                  repl_exit_statuses[k].meaning);
  hs_buf_puts(b, ".\n");
}

// ---- completion ---------------------------------------------------------------------------------
// The next word of a command line, unquoted as a POSIX shell does it, into *out. False when the
// line ends before another word begins; *open: the line ends within the word or right after it.
static bool next_word(const char **at, hs_buf *out, bool *open) {
  const char *p = *at;
  char quote = 0;
  out->n = 0;
  while (*p == ' ' || *p == '\t') p++;
  if (!*p) return false;
  for (; *p && (quote || (*p != ' ' && *p != '\t')); p++) {
    if (quote ? *p == quote : *p == '\'' || *p == '"') quote = quote ? 0 : *p;
    else if (*p == '\\' && quote != '\'' && p[1]) hs_buf_putc(out, *++p);
    else hs_buf_putc(out, *p);
  }
  *open = *p == 0;
  *at = p;
  return true;
}

static void put_candidate(hs_buf *out, const char *typed, const char *head, const char *tail) {
  char *word = hs_format("%s%s", head, tail);
  if (strncmp(word, typed, strlen(typed)) == 0) hs_buf_printf(out, "%s\n", word);
  hs_free(word);
}

// Commands, as the line editor completes them: a word begins after one of these characters.
static void complete_commands(const repl_session *s, const char *typed, hs_buf *out) {
  hs_arena a = {0};
  size_t n = strlen(typed), start = n;
  while (start > 0 && !strchr(REPL_WORD_BREAKS, typed[start - 1])) start--;
  u32 found;
  const char **v = repl_complete(s, &a, typed, start, n, &found);
  const char *head = hs_arena_strndup(&a, typed, start);
  for (u32 k = 0; k < found; k++) put_candidate(out, typed, head, v[k]);
  hs_arena_free(&a);
}

static void put_words(hs_buf *out, const char *typed, const char *head, const char *words) {
  for (const char *p = words; *p; p += *p == '|') {
    size_t n = strcspn(p, "|");
    char *w = hs_format("%.*s", (int)n, p);
    put_candidate(out, typed, head, w);
    hs_free(w);
    p += n;
  }
}

static void complete_option(const char *typed, hs_buf *out) {
  for (u32 k = 0; k < repl_option_count; k++) {
    const repl_option *o = &repl_options[k];
    char *head = hs_format("%s%s", o->name, o->arg && o->name[1] == '-' ? "=" : "");
    if (o->words && strncmp(typed, head, strlen(head)) == 0) put_words(out, typed, head, o->words);
    else put_candidate(out, typed, head, "");
    hs_free(head);
  }
  for (u32 k = 0; k < repl_setting_count; k++) {
    char *head = hs_format("--%s=", repl_setting_name(k));
    for (char *p = head; *p; p++)
      if (*p == '_') *p = '-';
    bool listed = strcmp(head, "--elided=") == 0 || strcmp(head, "--keep-going=") == 0;
    if (!listed && strncmp(typed, head, strlen(head)) == 0)
      put_words(out, typed, head, repl_setting_words(k));
    else if (!listed) put_candidate(out, typed, head, "");
    hs_free(head);
  }
}

void repl_cli_complete(const repl_session *s, const char *line, hs_buf *out) {
  hs_buf word = {0};
  char before[3] = "";  // the word before, when it is an option of one letter
  bool open = false;
  const char *at = line;
  bool any = next_word(&at, &word, &open);  // the program
  while (any && !open) {
    bool letter = word.n == 2 && word.p[0] == '-';
    memcpy(before, letter ? word.p : "\0", letter ? 2 : 1);
    any = next_word(&at, &word, &open);
  }
  if (!any) word.n = 0;
  const char *typed = hs_buf_cstr(&word);
  if (strcmp(before, "-c") == 0 || strcmp(before, "-e") == 0) complete_commands(s, typed, out);
  else if (typed[0] == '-' && strcmp(before, "-f") != 0) complete_option(typed, out);
  hs_buf_free(&word);
}
