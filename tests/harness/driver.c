// driver.c — the runner of the test drivers: every case in a child process, results in order.
//
// A case reports through a memory file that its child inherits; the parent polls the children,
// kills those that run past the limit, and hands results to the driver in the order of the cases,
// whatever order they end in. stderr of a child is dropped.
#include "tests/harness/driver.h"

#include "profiler/model/gpu.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char *drv_read(const char *path, size_t *n) {
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

char *drv_gpu(const char *word) {
  hs_buf known = {0};
  if (prof_gpu_text(word, &known)) return (void)hs_buf_cstr(&known), known.p;
  hs_buf_free(&known);
  return drv_read(word, NULL);
}

// ---- tables -------------------------------------------------------------------------------------

static void drv_unescape(char *s) {
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

bool drv_table_read(const char *path, drv_table *t) {
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

void drv_table_free(drv_table *t) {
  hs_free(t->head);
  hs_free(t->text);
  *t = (drv_table){0};
}

const char *drv_cell(const drv_table *t, u32 row, const char *column) {
  for (u32 c = 0; c < t->ncols; c++)
    if (strcmp(t->head[c], column) == 0) return t->cells[(size_t)row * t->ncols + c];
  return "";
}

// ---- children -----------------------------------------------------------------------------------
typedef struct drv_job {
  pid_t pid;
  int fd;
  u32 k;
  u64 started;
} drv_job;

static void drv_child(drv_case *run, void *arg, u32 k, int fd) {
  FILE *out = fdopen(fd, "w");
  setvbuf(out, NULL, _IOLBF, 0);  // what was said before a crash counts
  int null = open("/dev/null", O_WRONLY);
  dup2(null, 2);
  int v = run(arg, k, out);
  fflush(out);
  _exit(v);
}

// Takes what case `job` wrote and how it ended.
static drv_result take_result(const drv_job *job, int status, bool late, double timeout_s) {
  drv_result r = {.verdict = late                ? DRV_TIMEOUT
                             : WIFEXITED(status) ? WEXITSTATUS(status)
                                                 : DRV_DIED};
  off_t len = lseek(job->fd, 0, SEEK_END);
  r.text = hs_calloc((size_t)HS_MAX(len, 0) + 1, 1);
  if (len > 0 && pread(job->fd, r.text, (size_t)len, 0) < 0) r.text[0] = '\0';
  close(job->fd);
  if (r.verdict == DRV_DIED)
    snprintf(r.ending, sizeof r.ending, "died by signal %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  if (late) snprintf(r.ending, sizeof r.ending, "timed out after %.0f s", timeout_s);
  return r;
}

static drv_job start_case(drv_case *run, void *arg, u32 k) {
  int fd = memfd_create("case", 0);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) drv_child(run, arg, k, fd);
  return (drv_job){pid, fd, k, hs_now_ns()};
}

void drv_run(u32 n, u32 jobs, double timeout_s, drv_case *run, drv_done *done, void *arg) {
  if (jobs == 0) jobs = 1;
  drv_job *live = hs_calloc(jobs, sizeof *live);
  drv_result *results = hs_calloc(n + 1u, sizeof *results);
  u32 started = 0, reported = 0, running = 0;
  while (reported < n) {
    while (running < jobs && started < n) live[running++] = start_case(run, arg, started++);
    bool any = false;
    for (u32 j = 0; j < running;) {
      int status = 0;
      pid_t r = waitpid(live[j].pid, &status, WNOHANG);
      bool late = r == 0 && (double)(hs_now_ns() - live[j].started) * 1e-9 > timeout_s;
      if (late) kill(live[j].pid, SIGKILL), r = waitpid(live[j].pid, &status, 0);
      if (r == 0) {
        j++;
        continue;
      }
      any = true;
      results[live[j].k] = take_result(&live[j], status, late, timeout_s);
      live[j] = live[--running];
    }
    for (; reported < n && results[reported].text; reported++) {
      done(arg, reported, &results[reported]);
      hs_free(results[reported].text);
      results[reported].text = NULL;
    }
    fflush(stdout);
    if (!any) nanosleep(&(struct timespec){0, 500000}, NULL);
  }
  hs_free(live);
  hs_free(results);
}

const char *drv_reason(const drv_result *r) {
  size_t n = strlen(r->text);
  if (n && r->text[n - 1] == '\n') r->text[n - 1] = '\0';
  return *r->ending ? r->ending : r->text;
}

// ---- folders ------------------------------------------------------------------------------------
bool drv_ends_in(const char *name, const char *ending) {
  size_t n = strlen(name), e = strlen(ending);
  return n > e && strcmp(name + n - e, ending) == 0;
}

bool drv_list(const char *dir, const char *ending, drv_names *names) {
  struct dirent **entries;
  int n = scandir(dir, &entries, NULL, alphasort);
  for (int k = 0; k < n; k++) {
    if (drv_ends_in(entries[k]->d_name, ending)) hs_vec_push(names, hs_strdup(entries[k]->d_name));
    free(entries[k]);
  }
  if (n >= 0) free(entries);
  return n >= 0;
}

bool drv_modules(const char *dir, const char *only, drv_names *names) {
  drv_names files = {0};
  bool ok = drv_list(dir, ".hlo", &files);
  for (size_t k = 0; k < files.n; k++)
    if (!drv_ends_in(files.v[k], ".after_optimizations.hlo") && (!only || strstr(files.v[k], only)))
      hs_vec_push(names, hs_format("%.*s", (int)strlen(files.v[k]) - 4, files.v[k]));
  drv_names_free(&files);
  return ok;
}

void drv_names_free(drv_names *names) {
  for (size_t k = 0; k < names->n; k++) hs_free(names->v[k]);
  hs_vec_free(names);
}

// ---- arguments ----------------------------------------------------------------------------------
bool drv_parse(int argc, char **argv, const char *const *options, drv_args *a) {
  *a = (drv_args){.jobs = 2, .v = argv};
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "-j", 2) == 0) {
      const char *v = argv[i][2] ? argv[i] + 2 : i + 1 < argc ? argv[++i] : "1";
      a->jobs = (u32)HS_MAX(1, atoi(v));
      continue;
    }
    if (argv[i][0] == '-' && argv[i][1] == '-') {
      bool known = false, flag = false;
      for (const char *const *o = options; *o; o++) {
        bool is_flag = **o == '!';
        if (strcmp(argv[i] + 2, *o + is_flag) == 0) known = true, flag = is_flag;
      }
      if (!known || (!flag && i + 1 >= argc) || a->nopts == HS_COUNT(a->key)) {
        fprintf(stderr, "unknown option %s\n", argv[i]);
        return false;
      }
      a->key[a->nopts] = argv[i] + 2;
      a->value[a->nopts++] = flag ? "" : argv[++i];
      continue;
    }
    a->v[a->n++] = argv[i];
  }
  return true;
}
const char *drv_option(const drv_args *a, const char *key) {
  for (u32 k = 0; k < a->nopts; k++)
    if (strcmp(a->key[k], key) == 0) return a->value[k];
  return NULL;
}

bool drv_open_cases(int argc, char **argv, const char *name, drv_args *a, drv_table *t) {
  static const char *const options[] = {"pass", NULL};
  char path[4096];
  if (drv_parse(argc, argv, options, a) && a->n == 1 &&
      (size_t)snprintf(path, sizeof path, "%s/index.tsv", a->v[0]) < sizeof path &&
      drv_table_read(path, t))
    return true;
  fprintf(stderr, "usage: %s DIR [--pass NAME] [-j N]   (DIR holds index.tsv)\n", name);
  return false;
}

void drv_status(FILE *out, const char *what, hs_status s) {
  fprintf(out, "%s: %s", what, s.err ? s.err->message : "ok");
  if (s.err && s.err->next) fprintf(out, ": %s", s.err->next->message);
  fputc('\n', out);
  hs_status_drop(s);
}
