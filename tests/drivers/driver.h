// driver.h — what the test drivers share: reading files and tables, and running each case in a
// child process, so that a crash or a hang of one file is that file's failure and nothing else's.
#ifndef TESTS_DRIVER_H
#define TESTS_DRIVER_H

#include "core/text/text.h"
#include "profiler/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline char *drv_read(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  hs_buf b = {0};
  char chunk[65536];
  for (size_t k; (k = fread(chunk, 1, sizeof chunk, f)) > 0;) hs_buf_put(&b, chunk, k);
  fclose(f);
  (void)hs_buf_cstr(&b);
  if (n) *n = b.n;
  return b.p ? b.p : hs_strdup("");
}

// The description of a GPU that is not here: one that we know by name, or a file. NULL: no such
// file (errno).
static inline char *drv_gpu(const char *word) {
  hs_buf known = {0};
  if (prof_gpu_text(word, &known)) return (void)hs_buf_cstr(&known), known.p;
  hs_buf_free(&known);
  return drv_read(word, NULL);
}

// ---- tables -------------------------------------------------------------------------------------
typedef struct drv_table {
  u32 ncols, nrows;
  char **head, **cells;
  char *text;
} drv_table;

static inline void drv_unescape(char *s) {
  char *o = s;
  for (; *s; s++) {
    if (*s == '\\' && (s[1] == 't' || s[1] == 'n' || s[1] == '\\')) {
      s++;
      *o++ = *s == 't' ? '\t' : *s == 'n' ? '\n' : '\\';
    } else {
      *o++ = *s;
    }
  }
  *o = '\0';
}

// A tab-separated file with one header line; short rows are filled with empty cells.
static inline bool drv_table_read(const char *path, drv_table *t) {
  *t = (drv_table){0};
  t->text = drv_read(path, NULL);
  if (!t->text) return false;
  HS_VEC(char *) cells = {0};
  u32 col = 0;
  bool head = true;
  for (char *p = t->text; *p;) {
    char *end = p + strcspn(p, "\t\n"), sep = *end;
    *end = '\0';
    drv_unescape(p);
    if (head || col < t->ncols) hs_vec_push(&cells, p);
    col++;
    p = sep ? end + 1 : end;
    if (sep == '\n' || !sep) {
      if (head) t->ncols = col, head = false;
      else
        for (; col < t->ncols; col++) hs_vec_push(&cells, end);
      col = 0;
    }
  }
  t->head = cells.v;
  t->cells = cells.v + t->ncols;
  t->nrows = t->ncols ? (u32)(cells.n / t->ncols) - 1 : 0;
  return true;
}

static inline const char *drv_cell(const drv_table *t, u32 row, const char *column) {
  for (u32 c = 0; c < t->ncols; c++)
    if (strcmp(t->head[c], column) == 0) return t->cells[(size_t)row * t->ncols + c];
  return "";
}

// ---- children -----------------------------------------------------------------------------------
// A case writes its report to `out` and returns its verdict (0..99). DRV_DIED and DRV_TIMEOUT are
// given by the parent.
enum { DRV_DIED = 100, DRV_TIMEOUT = 101 };
typedef int drv_case(void *arg, u32 k, FILE *out);
typedef void drv_done(void *arg, u32 k, int verdict, const char *text);

typedef struct drv_job {
  pid_t pid;
  int fd;
  u32 k;
  u64 started;
} drv_job;

static inline void drv_child(drv_case *run, void *arg, u32 k, int fd) {
  FILE *out = fdopen(fd, "w");
  int null = open("/dev/null", O_WRONLY);
  dup2(null, 2);
  int v = run(arg, k, out);
  fflush(out);
  _exit(v);
}

// Runs cases 0..n-1, `jobs` at a time; done() is called in order of k.
static inline void drv_run(u32 n, u32 jobs, double timeout_s, drv_case *run, drv_done *done,
                           void *arg) {
  drv_job *live = hs_calloc(jobs ? jobs : 1, sizeof *live);
  int *verdict = hs_calloc(n + 1u, sizeof *verdict);
  char **text = hs_calloc(n + 1u, sizeof *text);
  u32 started = 0, reported = 0, running = 0;
  if (jobs == 0) jobs = 1;
  while (reported < n) {
    while (running < jobs && started < n) {
      int fd = memfd_create("case", 0);
      fflush(stdout);
      pid_t pid = fork();
      if (pid == 0) drv_child(run, arg, started, fd);
      live[running++] = (drv_job){pid, fd, started++, hs_now_ns()};
    }
    bool any = false;
    for (u32 j = 0; j < running;) {
      int st = 0;
      pid_t r = waitpid(live[j].pid, &st, WNOHANG);
      bool late = r == 0 && (double)(hs_now_ns() - live[j].started) * 1e-9 > timeout_s;
      if (late) kill(live[j].pid, SIGKILL), r = waitpid(live[j].pid, &st, 0);
      if (r == 0) {
        j++;
        continue;
      }
      any = true;
      u32 k = live[j].k;
      off_t len = lseek(live[j].fd, 0, SEEK_END);
      text[k] = hs_calloc((size_t)(len > 0 ? len : 0) + 64, 1);
      if (len > 0 && pread(live[j].fd, text[k], (size_t)len, 0) < 0) text[k][0] = '\0';
      close(live[j].fd);
      verdict[k] = late ? DRV_TIMEOUT : WIFEXITED(st) ? WEXITSTATUS(st) : DRV_DIED;
      if (verdict[k] == DRV_DIED)
        snprintf(text[k], 64, "died by signal %d\n", WIFSIGNALED(st) ? WTERMSIG(st) : 0);
      if (late) snprintf(text[k], 64, "timed out after %.0f s\n", timeout_s);
      live[j] = live[--running];
    }
    while (reported < n && text[reported]) {
      done(arg, reported, verdict[reported], text[reported]);
      hs_free(text[reported]);
      text[reported++] = NULL;
    }
    if (!any) nanosleep(&(struct timespec){0, 500000}, NULL);
  }
  hs_free(live);
  hs_free(verdict);
  hs_free(text);
}

// "-j N" and "--name VALUE" options; what is left are the operands, which move to the front of
// argv.
typedef struct drv_args {
  u32 jobs, n;
  char **v;
  const char *key[16], *value[16];
  u32 nopts;
} drv_args;
static inline bool drv_parse(int argc, char **argv, const char *const *options, drv_args *a) {
  *a = (drv_args){.jobs = 2, .v = argv};
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "-j", 2) == 0) {
      const char *v = argv[i][2] ? argv[i] + 2 : i + 1 < argc ? argv[++i] : "1";
      a->jobs = (u32)HS_MAX(1, atoi(v));
      continue;
    }
    if (argv[i][0] == '-' && argv[i][1] == '-') {
      bool known = false;
      for (const char *const *o = options; *o; o++) known |= strcmp(argv[i] + 2, *o) == 0;
      if (!known || i + 1 >= argc || a->nopts == 16) {
        fprintf(stderr, "unknown option %s\n", argv[i]);
        return false;
      }
      a->key[a->nopts] = argv[i] + 2;
      a->value[a->nopts++] = argv[++i];
      continue;
    }
    a->v[a->n++] = argv[i];
  }
  return true;
}
static inline const char *drv_option(const drv_args *a, const char *key) {
  for (u32 k = 0; k < a->nopts; k++)
    if (strcmp(a->key[k], key) == 0) return a->value[k];
  return NULL;
}

// What drivers over a folder with index.tsv begin with: DIR [--pass NAME] [-j N]. False: the usage
// was told.
static inline bool drv_open_cases(int argc, char **argv, const char *name, drv_args *a,
                                  drv_table *t) {
  static const char *const options[] = {"pass", NULL};
  char path[4096];
  if (drv_parse(argc, argv, options, a) && a->n == 1 &&
      (size_t)snprintf(path, sizeof path, "%s/index.tsv", a->v[0]) < sizeof path &&
      drv_table_read(path, t))
    return true;
  fprintf(stderr, "usage: %s DIR [--pass NAME] [-j N]   (DIR holds index.tsv)\n", name);
  return false;
}

// One line of a status for a FAIL report.
static inline void drv_status(FILE *out, const char *what, hs_status s) {
  fprintf(out, "%s: %s", what, s.err ? s.err->message : "ok");
  if (s.err && s.err->next) fprintf(out, ": %s", s.err->next->message);
  fputc('\n', out);
  hs_status_drop(s);
}

#endif
