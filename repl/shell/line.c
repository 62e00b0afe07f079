// line.c — line editing through GNU readline or libedit (the same calls), or plain reads from the
// terminal.
//
// The library runs in its callback form: this file owns the wait for a key, so that Ctrl-C during
// editing drops the line without any work in the signal handler. SIGINT is blocked except while
// waiting in ppoll, and in every other thread of the process (main.c), so it cannot be missed.
#include "repl/shell/line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "repl/shell/out.h"

#if HAVE_READLINE
#include <readline/history.h>
#include <readline/readline.h>
#elif HAVE_EDIT
#include <editline/readline.h>
#endif

#define HISTORY_MAX 5000

static repl_session *session;
static char *history_path;

// $XDG_STATE_HOME/hlosh/history, made with its folders; NULL when there is no home.
static char *find_history(void) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  char *base = state && *state == '/' ? hs_strdup(state)
               : home && *home        ? hs_format("%s/.local/state", home)
                                      : NULL;
  if (!base) return NULL;
  char *dir = hs_format("%s/hlosh", base);
  for (char *p = dir + 1; *p; p++)
    if (*p == '/') {
      *p = 0;
      (void)mkdir(dir, 0700);
      *p = '/';
    }
  (void)mkdir(dir, 0700);
  char *path = hs_format("%s/history", dir);
  hs_free(dir);
  hs_free(base);
  return path;
}

#if HAVE_READLINE || HAVE_EDIT
const char *repl_line_library(void) { return HAVE_READLINE ? "readline" : "libedit"; }

static char *line_got;
static bool line_done;
static hs_arena words_arena;
static const char **words;
static u32 nwords, next_word;

static void on_line(char *line) {
  line_got = line;
  line_done = true;
  rl_callback_handler_remove();
}

static char *next_completion(const char *text, int state) {
  (void)text;
  if (state == 0) next_word = 0;
  return next_word < nwords ? strdup(words[next_word++]) : NULL;
}

static char **complete(const char *text, int start, int end) {
  (void)text;
  hs_arena_free(&words_arena);
  words_arena = (hs_arena){0};
  words = repl_complete(session, &words_arena, rl_line_buffer, (size_t)start, (size_t)end, &nwords);
  rl_attempted_completion_over = 1;
#if HAVE_READLINE
  rl_completion_append_character =
      nwords == 1 && words[0][0] && words[0][strlen(words[0]) - 1] == '/' ? '\0' : ' ';
#endif
  return nwords ? rl_completion_matches(text, next_completion) : NULL;
}

void repl_line_open(repl_session *s) {
  session = s;
  rl_readline_name = "hlosh";
  rl_attempted_completion_function = complete;
#if HAVE_READLINE
  rl_catch_signals = 0;
  rl_catch_sigwinch = 1;
  rl_basic_word_break_characters = " \t\n\"'|;,(";
  rl_variable_bind("enable-bracketed-paste", "on");
#endif
  using_history();
  stifle_history(HISTORY_MAX);
  history_path = find_history();
  if (history_path) read_history(history_path);
}

void repl_line_remember(const char *line) {
  if (!*line || *line == ' ') return;
#if HAVE_READLINE
  HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;
  if (last && strcmp(last->line, line) == 0) return;
#endif
  add_history(line);
}

void repl_line_close(void) {
  if (history_path) {
    char *tmp = hs_format("%s.%ld", history_path, (long)getpid());
    if (write_history(tmp) == 0 && chmod(tmp, 0600) == 0) (void)!rename(tmp, history_path);
    else (void)unlink(tmp);
    hs_free(tmp);
  }
  hs_free(history_path);
  history_path = NULL;
  hs_arena_free(&words_arena);
}

repl_line_end repl_line_read(const char *prompt, hs_buf *out) {
  sigset_t only_int, before;
  sigemptyset(&only_int);
  sigaddset(&only_int, SIGINT);
  sigprocmask(SIG_BLOCK, &only_int, &before);
  line_done = false;
  line_got = NULL;
  hs_interrupted = 0;
  rl_callback_handler_install(prompt, on_line);
  bool cancelled = false;
  while (!line_done) {
    struct pollfd pfd = {.fd = STDIN_FILENO, .events = POLLIN};
    int rc = ppoll(&pfd, 1, NULL, &before);
    if (hs_interrupted) {
      cancelled = true;
      break;
    }
    if (rc > 0) rl_callback_read_char();
    else if (rc < 0 && errno != EINTR) break;
  }
  if (!line_done) {
    rl_callback_handler_remove();
    fputs(cancelled ? "^C\n" : "\n", stdout);
    fflush(stdout);
  }
  hs_interrupted = 0;
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (cancelled) return REPL_LINE_CANCELLED;
  if (!line_got) {
#if !HAVE_READLINE  // readline has ended the line itself
    fputc('\n', stdout);
    fflush(stdout);
#endif
    return REPL_LINE_EOF;
  }
  hs_buf_puts(out, line_got);
  free(line_got);
  return REPL_LINE_OK;
}

#else
const char *repl_line_library(void) { return "plain"; }
void repl_line_open(repl_session *s) {
  session = s;
  history_path = find_history();
}
void repl_line_remember(const char *line) {
  if (!history_path || !*line || *line == ' ') return;
  hs_buf b = {0};
  hs_buf_printf(&b, "%s\n", line);
  hs_status_drop(repl_write_file(history_path, b.p, b.n, true));
  hs_buf_free(&b);
}
void repl_line_close(void) {
  hs_free(history_path);
  history_path = NULL;
}
repl_line_end repl_line_read(const char *prompt, hs_buf *out) {
  fputs(prompt, stdout);
  fflush(stdout);
  hs_interrupted = 0;
  for (;;) {
    char c;
    ssize_t k = read(STDIN_FILENO, &c, 1);
    if (k < 0 && errno == EINTR) {
      if (hs_interrupted) {
        hs_interrupted = 0;
        fputc('\n', stdout);
        return REPL_LINE_CANCELLED;
      }
      continue;
    }
    if (k <= 0) return out->n ? REPL_LINE_OK : REPL_LINE_EOF;
    if (c == '\n') return REPL_LINE_OK;
    hs_buf_putc(out, c);
  }
}
#endif
