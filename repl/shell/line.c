// line.c — line editing through GNU readline or libedit (the same calls), or plain reads from the
// terminal.
//
// The library runs in its callback form: this file owns the wait for a key, so that Ctrl-C during
// editing drops the line without any work in the signal handler. SIGINT is blocked except while
// waiting in ppoll, and in every other thread of the process (main.c), so it cannot be missed.
// A key that ppoll saw may be gone when it is read, since the terminal drops what was typed when
// Ctrl-C comes; so a read never waits (never_wait), and the wait begins anew.
#include "repl/shell/line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/visible.h"
#include "repl/shell/out.h"

#if HAVE_READLINE
#include <readline/history.h>
#include <readline/readline.h>
#elif HAVE_EDIT
#include <editline/readline.h>
#endif

#define HISTORY_MAX 5000

// What the line editor remembers. It is the one variable of the shell outside of a session: the
// library has a single state per process, and its callbacks carry no argument.
static struct {
  const repl_session *session;  // completion asks it
  char *history;                // path; NULL: none
#if HAVE_READLINE || HAVE_EDIT
  char *got;  // the line that was entered, malloc'ed; NULL: end of input
  bool done, cancelled;
  sigset_t waiting;  // the signal mask while a key is waited for
  hs_arena arena;    // of the candidates
  const char **words;
  u32 nwords, next;
#endif
} editor;

// $XDG_STATE_HOME/hlosh/history, made with its folders; NULL when there is no home.
static char *find_history(void) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  char *base = state && *state == '/' ? hs_strdup(state)
               : home && *home        ? hs_format("%s/.local/state", home)
                                      : NULL;
  if (!base) return NULL;
  char *path = hs_format("%s/hlosh/history", base);
  hs_make_folders(path, UINT32_MAX);
  hs_free(base);
  return path;
}

// Not a line that begins with a blank, nor one whose pasted text would reach the terminal as it is
// when the line is recalled.
static bool to_remember(const char *line) {
  return *line && *line != ' ' && hs_is_visible(line, strlen(line), HS_LINES);
}

#if HAVE_READLINE || HAVE_EDIT
const char *repl_line_library(void) { return HAVE_READLINE ? "readline" : "libedit"; }

static void on_line(char *line) {
  editor.got = line;
  editor.done = true;
  rl_callback_handler_remove();
}

// The library has the terminal in its own mode by now: a read that finds nothing returns at once.
static void never_wait(void) {
  struct termios t;
  if (tcgetattr(STDIN_FILENO, &t) != 0 || (t.c_lflag & ICANON)) return;
  t.c_cc[VMIN] = t.c_cc[VTIME] = 0;
  (void)tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

// The library's way to read a key. EOF: the end of input, or Ctrl-C (editor.cancelled).
static int get_key(FILE *in) {
  (void)in;
  for (;;) {
    struct pollfd pfd = {.fd = STDIN_FILENO, .events = POLLIN};
    int rc = ppoll(&pfd, 1, NULL, &editor.waiting);
    if ((editor.cancelled = hs_interrupted())) return EOF;
    if (rc < 0 && errno != EINTR) return EOF;
    unsigned char key;
    ssize_t n = rc > 0 ? read(STDIN_FILENO, &key, 1) : 0;
    if (n > 0) return key;
    if (n < 0 && errno != EINTR) return EOF;
    if (rc > 0 && ((pfd.revents & POLLHUP) || !isatty(STDIN_FILENO))) return EOF;
  }
}

static char *next_completion(const char *text, int state) {
  (void)text;
  if (state == 0) editor.next = 0;
  return editor.next < editor.nwords ? strdup(editor.words[editor.next++]) : NULL;
}

static char **complete(const char *text, int start, int end) {
  (void)text;
  hs_arena_free(&editor.arena);
  editor.arena = (hs_arena){0};
  editor.words = repl_complete(editor.session, &editor.arena, rl_line_buffer, (size_t)start,
                               (size_t)end, &editor.nwords);
  rl_attempted_completion_over = 1;
#if HAVE_READLINE
  // a folder, an option with a value: the word goes on
  const char *word = editor.nwords == 1 ? editor.words[0] : "";
  bool goes_on = *word && strchr("/={(", word[strlen(word) - 1]);
  rl_completion_append_character = goes_on ? '\0' : ' ';
  rl_completion_suppress_quote = goes_on;
#endif
  return editor.nwords ? rl_completion_matches(text, next_completion) : NULL;
}

#if HAVE_READLINE
// Whether a backslash keeps the character from ending a word.
static int is_escaped(char *line, int at) {
  int n = 0;
  while (n < at && line[at - 1 - n] == '\\') n++;
  return n % 2;
}
#endif

void repl_line_open(repl_session *s) {
  editor.session = s;
  rl_readline_name = "hlosh";
  rl_attempted_completion_function = complete;
  rl_getc_function = get_key;
#if HAVE_READLINE
  rl_catch_signals = 0;
  rl_catch_sigwinch = 1;
  rl_basic_word_break_characters = REPL_WORD_BREAKS;
  rl_completer_quote_characters = "\"'";
  rl_char_is_quoted_p = is_escaped;
  rl_variable_bind("enable-bracketed-paste", "on");
#endif
  using_history();
  stifle_history(HISTORY_MAX);
  editor.history = find_history();
  if (editor.history) read_history(editor.history);
}

void repl_line_remember(const char *line) {
  if (!to_remember(line)) return;
#if HAVE_READLINE
  HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;
  if (last && strcmp(last->line, line) == 0) return;
#endif
  add_history(line);
}

void repl_line_close(void) {
  if (editor.history) {
    char *tmp = hs_format("%s.%ld", editor.history, (long)getpid());
    if (write_history(tmp) == 0 && chmod(tmp, 0600) == 0) (void)!rename(tmp, editor.history);
    else (void)unlink(tmp);
    hs_free(tmp);
  }
  hs_free(editor.history);
  editor.history = NULL;
  hs_arena_free(&editor.arena);
}

repl_line_end repl_line_read(const char *prompt, hs_buf *out) {
  sigset_t only_int;
  sigemptyset(&only_int);
  sigaddset(&only_int, SIGINT);
  sigprocmask(SIG_BLOCK, &only_int, &editor.waiting);
  editor.done = editor.cancelled = false;
  editor.got = NULL;
  repl_interrupt = 0;
  rl_callback_handler_install(prompt, on_line);
  never_wait();
  while (!editor.done && !editor.cancelled) {
    struct pollfd pfd = {.fd = STDIN_FILENO, .events = POLLIN};
    int rc = ppoll(&pfd, 1, NULL, &editor.waiting);
    if ((editor.cancelled = hs_interrupted())) break;
    if (rc > 0) rl_callback_read_char();
    else if (rc < 0 && errno != EINTR) break;
  }
  if (!editor.done) {
    // Before the library resets the terminal, which moves the cursor to the start of the line.
    fputs(editor.cancelled ? "^C\n" : "\n", stdout);
    fflush(stdout);
    rl_callback_handler_remove();
  }
  repl_interrupt = 0;
  sigprocmask(SIG_SETMASK, &editor.waiting, NULL);
  if (editor.cancelled) {
    free(editor.got);
    return REPL_LINE_CANCELLED;
  }
  if (!editor.got) {
#if !HAVE_READLINE  // readline has ended the line itself
    fputc('\n', stdout);
    fflush(stdout);
#endif
    return REPL_LINE_EOF;
  }
  hs_buf_puts(out, editor.got);
  free(editor.got);
  return REPL_LINE_OK;
}

#else
const char *repl_line_library(void) { return "plain"; }
void repl_line_open(repl_session *s) {
  editor.session = s;
  editor.history = find_history();
}
void repl_line_remember(const char *line) {
  if (!editor.history || !to_remember(line)) return;
  hs_buf b = {0};
  hs_buf_printf(&b, "%s\n", line);
  hs_status_drop(hs_write_file(editor.history, b.p, b.n, true));
  hs_buf_free(&b);
}
void repl_line_close(void) {
  hs_free(editor.history);
  editor.history = NULL;
}
repl_line_end repl_line_read(const char *prompt, hs_buf *out) {
  fputs(prompt, stdout);
  fflush(stdout);
  repl_interrupt = 0;
  for (;;) {
    char c;
    ssize_t k = read(STDIN_FILENO, &c, 1);
    if (k < 0 && errno == EINTR) {
      if (hs_interrupted()) {
        repl_interrupt = 0;
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
