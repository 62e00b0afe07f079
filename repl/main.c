// main.c — options, signals, standard streams, and where commands come from: -c and -f in order,
// else a terminal, else standard input. Results go to stdout, all else to stderr; the exit status
// is that of the first command that failed.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backends/ffi.h"
#include "backends/worker.h"
#include "core/base/visible.h"
#include "repl/compat/compat.h"
#include "repl/registry.h"
#include "repl/shell/cli.h"
#include "repl/shell/line.h"
#include "repl/shell/settings.h"

static struct timespec first_interrupt;

// Sets the flag that every long loop polls. A second Ctrl-C, more than 0.2 s after one that the
// running command has not handled, ends the program. Calls only async-signal-safe functions.
static void on_sigint(int sig) {
  (void)sig;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (repl_interrupt != HS_STOP_INTERRUPT) {
    repl_interrupt = HS_STOP_INTERRUPT;
    first_interrupt = now;
    return;
  }
  double since = (double)(now.tv_sec - first_interrupt.tv_sec) +
                 (double)(now.tv_nsec - first_interrupt.tv_nsec) * 1e-9;
  if (since > 0.2) _exit(130);
}

// Libraries start threads when they are loaded (OpenBLAS does), which is before main, and a signal
// delivered to such a thread does not interrupt the main thread's system calls. So SIGINT is
// blocked before any library is initialized, every thread inherits the mask, and only the main
// thread unblocks it. The system call is made directly: sanitizers wrap the function and are not
// initialized yet either.
static void block_sigint(int argc, char **argv, char **env) {
  (void)argc, (void)argv, (void)env;
  u64 mask = (u64)1 << (SIGINT - 1);
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof mask);
}
__attribute__((section(".preinit_array"),
               used)) static void (*const before_libraries)(int, char **, char **) = block_sigint;

// What the process may hold, and what it keeps back to end in good order.
static void set_memory(void) {
  hs_memory_limit(hs_memory_machine());
  hs_memory_ready(REPL_RESERVE);
}

static void set_signals(void) {
  hs_interrupt_watch(&repl_interrupt);
  struct sigaction sa = {.sa_handler = on_sigint};
  sigemptyset(&sa.sa_mask);
  sigaction(SIGINT, &sa, NULL);
  sigset_t only_int;
  sigemptyset(&only_int);
  sigaddset(&only_int, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &only_int, NULL);
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  sigaction(SIGPIPE, &ignore, NULL);
  sigaction(SIGXFSZ, &ignore, NULL);  // a file beyond the limit is an error of write(2)
}

// If a standard stream is closed, the next file opened would get its descriptor number. So
// /dev/null is opened in its place: reads from standard input see the end, writes to standard
// output fail, standard error is discarded.
static void guard_streams(void) {
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
      int got = open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY);
      (void)got;
    }
}

// 'c' command, 'f' script, 'm' module file
typedef struct job {
  char kind;
  const char *value;
} job;
typedef struct options {
  HS_VEC(job) jobs;
  bool json, keep_going, no_rc, interactive;
  const char *color, *elided;
  const compat_tool *tool;  // the tool of XLA that was called; NULL: hlosh
  compat_args tool_args;
  repl_xla_flags xla;
  HS_VEC(const char *) sets;
} options;

static int print_text(const hs_buf *b) {
  fwrite(b->p, 1, b->n, stdout);
  return fflush(stdout) == 0 ? 0 : 3;
}

static int bad_option(const char *what, const char *arg) {
  repl_complain("hlosh: %s %s", what, arg);
  const char *known[32];
  u32 n = 0;
  for (u32 k = 0; k < repl_option_count && n < 24; k++) known[n++] = repl_options[k].name;
  known[n++] = "--threads", known[n++] = "--seed", known[n++] = "--deadline";
  char *name = hs_strdup(arg);
  char *eq = strchr(name, '=');
  if (eq) *eq = 0;
  const char *near = hs_nearest(name, known, n);
  if (near && strcmp(near, arg) != 0) repl_complain("did you mean %s?", near);
  hs_free(name);
  repl_complain(
      "usage: hlosh [FILE...] [-c 'CMD; CMD'] [-f SCRIPT] [--json] [--color=auto|always|never]; "
      "hlosh --help lists all options");
  return 2;
}

// hlosh --complete LINE: for the completion scripts of bash and zsh.
static int complete_line(const char *line) {
  set_memory();
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  hs_buf b = {0};
  repl_cli_complete(s, line, &b);
  int status = print_text(&b);
  hs_buf_free(&b);
  repl_session_free(s);
  ffi_unload_all();
  return status;
}

static int print_usage(void) {
  hs_buf b = {0};
  repl_cli_usage(&b);
  int status = print_text(&b);
  hs_buf_free(&b);
  return status;
}

static bool is_setting(const char *name, size_t n) {
  for (u32 k = 0; k < repl_setting_count; k++)
    if (repl_is_setting(name, n, k)) return true;
  return false;
}

// Returns -1 to continue, otherwise the exit status.
static int parse_options(int argc, char **argv, options *o) {
  bool only_files = false;
  for (int k = 1; k < argc; k++) {
    const char *a = argv[k];
    const char *eq = strchr(a, '=');
    if (only_files || a[0] != '-' || !a[1]) {
      job j = {'m', a};
      hs_vec_push(&o->jobs, j);
    } else if (strcmp(a, "--") == 0) {
      only_files = true;
    } else if (strcmp(a, "-h") == 0 || strcmp(a, "--help") == 0) {
      return print_usage();
    } else if (strcmp(a, "-V") == 0 || strcmp(a, "--version") == 0) {
      puts("hlosh " HLOSH_VERSION);
      return fflush(stdout) == 0 ? 0 : 3;
    } else if (strcmp(a, "-c") == 0 || strcmp(a, "-e") == 0 || strcmp(a, "-f") == 0) {
      if (k + 1 >= argc) return bad_option("nothing after", a);
      job j = {a[1] == 'f' ? 'f' : 'c', argv[++k]};
      hs_vec_push(&o->jobs, j);
    } else if (strcmp(a, "-i") == 0) {
      o->interactive = true;
    } else if (strcmp(a, "--json") == 0) {
      o->json = true;
    } else if (strcmp(a, "--keep-going") == 0) {
      o->keep_going = true;
    } else if (strcmp(a, "--no-rc") == 0) {
      o->no_rc = true;
    } else if (strncmp(a, "--color=", 8) == 0) {
      o->color = a + 8;
    } else if (strncmp(a, "--xla_", 6) == 0) {
      hs_status st = xla_flags_take(&o->xla, a);
      if (hs_ok(st)) continue;
      hs_status_drop(st);
      return bad_option("not a value of this flag:", a);
    } else if (a[1] == '-' && eq && is_setting(a + 2, (size_t)(eq - a) - 2)) {
      hs_vec_push(&o->sets, a + 2);
    } else if (a[1] == '-' && !eq && is_setting(a + 2, strlen(a) - 2)) {
      if (k + 1 >= argc) return bad_option("nothing after", a);
      hs_vec_push(&o->sets, hs_format("%s=%s", a + 2, argv[k + 1]));
      k++;
    } else {
      return bad_option("unknown option", a);
    }
  }
  return -1;
}

// The environment's flags of XLA come first, those of --debug_options_file before them.
static hs_status read_xla_flags(repl_session *s, options *o, const char *file) {
  repl_xla_flags typed = o->xla;
  const char *env = getenv("XLA_FLAGS");
  o->xla = (repl_xla_flags){.as_tool = o->tool && strcmp(o->tool->name, "hlo-opt") == 0};
  hs_status st = file && *file ? xla_flags_read_options(&o->xla, file) : HS_GOOD;
  if (hs_ok(st) && env) st = xla_flags_read(&o->xla, env);
  for (size_t k = 0; hs_ok(st) && k < typed.all.n; k++) {
    char *flag = hs_format("--xla_%s=%s", typed.all.v[k].name,
                           *typed.all.v[k].value ? typed.all.v[k].value : "true");
    st = xla_flags_take(&o->xla, flag);
    if (typed.all.v[k].id < 0) {  // real XLA reads its flags from the environment
      const char *had = getenv("XLA_FLAGS");
      char *both = hs_format("%s%s%s", had ? had : "", had && *had ? " " : "", flag);
      setenv("XLA_FLAGS", both, 1);
      hs_free(both);
    }
    hs_free(flag);
  }
  xla_flags_free(&typed);
  repl_out out = {.color_err = s->color_err};
  if (hs_ok(st)) xla_flags_apply(&o->xla, s, &out);
  return st;
}

static int apply_options(repl_session *s, const options *o) {
  const char *when = o->color ? o->color : "auto";
  bool plain = (getenv("NO_COLOR") && *getenv("NO_COLOR")) ||
               (getenv("TERM") && strcmp(getenv("TERM"), "dumb") == 0);
  bool force = getenv("CLICOLOR_FORCE") && *getenv("CLICOLOR_FORCE") &&
               strcmp(getenv("CLICOLOR_FORCE"), "0") != 0;
  if (strcmp(when, "always") == 0) s->color = s->color_err = true;
  else if (strcmp(when, "auto") == 0) {
    s->color = (isatty(STDOUT_FILENO) && !plain) || force;
    s->color_err = (isatty(STDERR_FILENO) && !plain) || force;
  } else if (strcmp(when, "never") != 0)
    return bad_option("--color is auto, always or never, not", when);
  if (o->json && !repl_json_built()) {
    repl_complain(
        "hlosh: --json: this build lacks cJSON (apt-get install libcjson-dev, then make)");
    return hs_code_exit(HS_E_NOT_BUILT);
  }
  s->json = o->json;
  s->set.keep_going = o->keep_going;
  for (size_t k = 0; k < o->sets.n; k++) {
    char *name = hs_strdup(o->sets.v[k]), *eq = strchr(name, '=');
    *eq = 0;
    hs_status st = repl_set(s, name, eq + 1);
    repl_out out = {.color_err = s->color_err};
    int code = hs_ok(st) ? 0 : hs_code_exit(st.err->code);
    if (code) repl_print_status(&out, st);
    hs_status_drop(st);
    hs_free(name);
    if (code) return code;
  }
  return 0;
}

static int load_module(repl_session *s, const char *path) {
  hs_buf line = {0};
  hs_buf_puts(&line, "load -- \"");
  for (const char *p = path; *p; p++) {
    if (*p == '"' || *p == '\\') hs_buf_putc(&line, '\\');
    hs_buf_putc(&line, *p);
  }
  hs_buf_putc(&line, '"');
  int code = repl_run_line(s, line.p, line.n);
  hs_buf_free(&line);
  return code;
}

static int report_status(repl_session *s, hs_status st) {
  if (hs_ok(st)) return 0;
  repl_out out = {.color_err = s->color_err};
  int code = hs_code_exit(st.err->code);
  repl_print_status(&out, st);
  hs_status_drop(st);
  if (!s->exit_code) s->exit_code = code;
  return code;
}

// Runs commands from a stream that is not a terminal, line by line as they arrive.
static int run_stream(repl_session *s, FILE *f) {
  int first = 0;
  hs_buf text = {0};
  char *line = NULL;
  size_t cap = 0;
  while (!s->quit) {
    errno = 0;
    ssize_t n = getline(&line, &cap, f);
    if (n < 0 && errno == EINTR && !hs_interrupted()) {
      clearerr(f);
      continue;
    }
    if (n < 0) break;
    hs_buf_put(&text, line, (size_t)n);
    while (text.n && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r')) text.n--;
    if (repl_wants_more(text.p ? text.p : "", text.n)) {
      hs_buf_putc(&text, '\n');
      continue;
    }
    int code = repl_run_line(s, text.p ? text.p : "", text.n);
    text.n = 0;
    if (code && !first) first = code;
    if (first && (!s->set.keep_going || hs_interrupted())) break;
  }
  if (text.n && !s->quit && (!first || s->set.keep_going)) {
    int code = repl_run_line(s, text.p, text.n);
    if (code && !first) first = code;
  }
  if (hs_interrupted() && !s->exit_code) s->exit_code = hs_code_exit(HS_E_INTERRUPTED);
  free(line);
  hs_buf_free(&text);
  return first;
}

static void prompt_text(const repl_session *s, hs_buf *b, bool more) {
  b->n = 0;
  if (more) {
    hs_buf_puts(b, "... ");
    return;
  }
  if (!s->current) {
    hs_buf_puts(b, "hlosh> ");
    return;
  }
  // No bytes of a name may be taken for commands to the terminal or, by readline, for its marks.
  hs_buf name = {0};
  hs_buf_put_visible(&name, s->current->m->name, strlen(s->current->m->name), HS_ONE_LINE);
  hs_buf_printf(b, name.n > 40 ? "%.37s...@%u> " : "%s@%u> ", hs_buf_cstr(&name),
                s->current->at->number);
  hs_buf_make_visible(b, 0, HS_ONE_LINE);  // the cut may have split a character
  hs_buf_free(&name);
}

static void run_terminal(repl_session *s) {
  s->interactive = true;
  s->set.keep_going = false;
  repl_line_open(s);
  hs_buf prompt = {0}, text = {0};
  while (!s->quit) {
    bool more = text.n > 0;
    prompt_text(s, &prompt, more);
    repl_line_end end = repl_line_read(hs_buf_cstr(&prompt), &text);
    if (end == REPL_LINE_EOF) break;
    if (end == REPL_LINE_CANCELLED) {
      text.n = 0;
      continue;
    }
    if (repl_wants_more(hs_buf_cstr(&text), text.n)) {
      hs_buf_putc(&text, '\n');
      continue;
    }
    repl_line_remember(hs_buf_cstr(&text));
    repl_run_line(s, hs_buf_cstr(&text), text.n);
    text.n = 0;
    s->exit_code = 0;  // an interactive session exits with 0, whatever failed in it
  }
  repl_line_close();
  hs_buf_free(&prompt);
  hs_buf_free(&text);
}

static void run_rc(repl_session *s) {
  const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
  char *path = config && *config == '/' ? hs_format("%s/hlosh/rc", config)
               : home && *home          ? hs_format("%s/.config/hlosh/rc", home)
                                        : NULL;
  if (path && access(path, R_OK) == 0) (void)report_status(s, repl_source_file(s, path));
  hs_free(path);
  s->exit_code = 0;
}

// Files and commands as they stand on the command line; but files behind all commands come before
// them, unless a prompt follows that could ask for them.
static void run_jobs(repl_session *s, const options *o, bool *scripted) {
  size_t n = o->jobs.n, last = n;
  while (!o->interactive && last && o->jobs.v[last - 1].kind == 'm') last--;
  for (size_t k = 0; k < n && !s->quit; k++) {
    job j = o->jobs.v[(last + k) % n];
    int code = 0;
    if (j.kind == 'm') code = load_module(s, j.value);
    else if (j.kind == 'c') code = repl_run_text(s, j.value, strlen(j.value));
    else if (strcmp(j.value, "-") == 0) code = run_stream(s, stdin);
    else {
      code = report_status(s, repl_source_file(s, j.value));
      if (!code) code = s->exit_code;
    }
    if (j.kind != 'm') *scripted = true;
    if (code && !s->set.keep_going) {
      *scripted = true;
      return;
    }
  }
}

// Without the libraries' own end: where memory is short, OpenBLAS waits there for threads that
// could not start. (AddressSanitizer looks for leaks in an ordinary end.)
static int leave(int status) {
#ifndef HS_ASAN
  fflush(NULL);
  _exit(status);
#endif
  return status;
}

int main(int argc, char **argv) {
  int status;
  guard_streams();
  if (worker_entry(argc, argv, &status)) return status;
  options o = {0};
  if (argc == 3 && strcmp(argv[1], "--complete") == 0) return complete_line(argv[2]);
  int skip, early;
  o.tool = compat_find(argc, argv, &skip);
  early = o.tool ? compat_parse(o.tool, argc - skip, argv + skip, &o.tool_args, &o.xla)
                 : parse_options(argc, argv, &o);
  if (early >= 0) return early;
  set_signals();
  set_memory();
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  status = apply_options(s, &o);
  const char *file = o.tool ? compat_value(o.tool, &o.tool_args, "debug_options_file") : NULL;
  if (!status) status = report_status(s, read_xla_flags(s, &o, file));
  int done = !status && o.tool ? o.tool->run(o.tool, &o.tool_args, s) : -1;
  if (done >= 0) {
    status = done;
  } else if (!status) {
    bool scripted = false;
    bool tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (!o.no_rc && tty) run_rc(s);
    run_jobs(s, &o, &scripted);
    if ((!scripted || o.interactive) && !s->quit) {
      if (tty) run_terminal(s);
      else if (!scripted) run_stream(s, stdin);
    }
    status = s->exit_code;
  }
  hs_vec_free(&o.jobs);
  hs_vec_free(&o.sets);
  compat_args_free(&o.tool_args);
  repl_session_free(s);
  xla_flags_free(&o.xla);
  ffi_unload_all();
  return leave(status);
}
