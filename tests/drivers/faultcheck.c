// faultcheck.c — every command, with the n-th call into the system failing.
//
//   faultcheck [-j N] [--all] [--json] [--only COMMAND] [--kind KIND] [--n N] [--verbose] SCRIPT
//
// The script is a session, line by line; every command of the table must be in it. At each line the
// session is as the lines before left it. A child of this process runs the line and counts its
// calls of each kind (faults.def); then other children run it with call 1, 2, 3, ... of a kind
// failing: every one with --all, else those that a fraction of a second has room for. After each
// the session must be whole:
//   - the child ends by itself, in time, without a report of a sanitizer or a leak;
//   - the modules and their versions are as before the line or as after it, and every version of
//     before can be gone to, has the text that it had, and verifies as it did;
//   - a line that says it succeeded printed and wrote what it does without the failure;
//   - a file that was there has its old contents or the new ones, and no other file is left.
// Then the line runs here, without failures, and the next one is taken.
//
// A line may begin with a minus, flags and a colon. s: what it prints or writes differs between
// runs, or may differ when a part of the system cannot be asked; p: it stops between its steps, so
// that the versions may be any; k: it is not run here, the session stays as it is (needed for what
// ends it or starts a worker); x: only run here. The name of the command follows the flags where
// it is not the first word of the line. The files old.hlo, old.txt, ... are there to be replaced.
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/ffi.h"
#include "backends/worker.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "repl/debug/bundle.h"
#include "repl/formats/files.h"
#include "repl/registry.h"
#include "repl/shell/command.h"
#include "tests/harness/driver.h"
#include "tests/harness/faults.h"

enum { MOST_FILES = 24, HANG_S = 120, HANG_CPU_S = 10, JOBS = 8 };

// ---- what there is ------------------------------------------------------------------------------
typedef struct file_state {
  char name[60];
  u64 hash;  // of the contents; of a folder 1
} file_state;
// What a line leaves behind, besides the session.
typedef struct outcome {
  int code;
  u64 said, session;
  u32 nfiles;
  file_state files[MOST_FILES];
} outcome;
// Shared with the child that runs without a failure.
typedef struct shared {
  outcome end;
  u32 counts[FAULT_KINDS];
} shared;

typedef HS_VEC(u64) hashes;
static repl_session *session;
static shared *plain, *again;  // of two runs without a failure
static u64 before;
static hashes version_texts;  // of every version of every module, before the line
static char root[80], src[512];
static u32 failures, tried, lines_run, thinned;
static bool verbose;

static u64 text_hash(const hlo_module *m) {
  hlo_print_options o = hlo_print_default();
  hs_buf b = {0};
  if (m->entry && m->entry->root) hlo_print_module(&b, m, &o);
  u64 h = hs_hash_bytes(b.p ? b.p : "", b.n, 7);
  hs_buf_free(&b);
  hs_status s = m->entry && m->entry->root ? hlo_verify(m, NULL) : HS_GOOD;
  h = hs_mix(h, hs_ok(s));
  hs_status_drop(s);
  return h;
}

// The modules, their versions and the current one.
static u64 session_hash(void) {
  u64 h = session->modules.n;
  for (size_t k = 0; k < session->modules.n; k++) {
    const repl_module *m = session->modules.v[k];
    h = hs_mix(hs_mix(h, m->versions.n), m->at->number);
    h = hs_mix(h, text_hash(m->m));
  }
  return hs_mix(h, session->current ? session->current->number : 0);
}

static void hash_versions(hashes *to) {
  to->n = 0;
  for (size_t k = 0; k < session->modules.n; k++) {
    repl_module *m = session->modules.v[k];
    for (size_t j = 0; j < m->versions.n; j++) {
      hlo_module *copy = repl_module_at(m, m->versions.v[j]);
      hs_vec_push(to, hs_mix(text_hash(copy), hs_mix(m->number, j)));
      hlo_module_free(copy);
    }
  }
}

static u64 file_hash(const char *path) {
  struct stat st;
  if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return 1;
  size_t n = 0;
  char *p = drv_read(path, &n);
  u64 h = p ? hs_hash_bytes(p, n, 1) : 0;
  hs_free(p);
  return h;
}

// How long the unit after a number is if that is a length of time, which differs from run to run.
static size_t time_unit(const char *p) {
  static const char *const units[] = {"ns", "µs", "ms", "s"};
  size_t blank = *p == ' ';
  for (size_t k = 0; k < HS_COUNT(units); k++) {
    size_t n = strlen(units[k]);
    if (strncmp(p + blank, units[k], n) == 0 && !isalnum((unsigned char)p[blank + n]))
      return blank + n;
  }
  return 0;
}

// Of what was printed, without lengths of time and the blanks that pad them.
static u64 said_hash(void) {
  char *text = drv_read(".said", NULL);
  u64 h = 1;
  for (const char *p = text; p && *p;) {
    size_t n = strspn(p, "0123456789."), unit = n ? time_unit(p + n) : 0;
    h = hs_mix(h, unit ? 0 : hs_hash_bytes(p, n ? n : 1, 1));
    p += n ? n + unit : HS_MAX(strspn(p, " "), (size_t)1);
  }
  hs_free(text);
  return h;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const file_state *)a)->name, ((const file_state *)b)->name);
}

static void list_files(outcome *o) {
  DIR *d = opendir(".");
  o->nfiles = 0;
  for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
    if (e->d_name[0] == '.' || o->nfiles == MOST_FILES) continue;
    file_state *f = &o->files[o->nfiles++];
    snprintf(f->name, sizeof f->name, "%.50s", e->d_name);
    f->hash = file_hash(e->d_name);
  }
  if (d) closedir(d);
  qsort(o->files, o->nfiles, sizeof *o->files, by_name);
}

static u64 hash_of(const outcome *o, const char *name) {
  for (u32 k = 0; k < o->nfiles; k++)
    if (strcmp(o->files[k].name, name) == 0) return o->files[k].hash;
  return 0;
}

// ---- in the child -------------------------------------------------------------------------------
static const char *const old_files[] = {"old.hlo", "old.txt", "old.dot",
                                        "old.svg", "old.npy", "old.json"};
#define OLD "old\n"

// A folder of its own, with files to be replaced; standard output and error go to files.
static bool move_in(u32 slot, const char *said, const char *complained) {
  char dir[120];
  snprintf(dir, sizeof dir, "%s/%u", root, slot);
  bundle_remove(dir);
  if (mkdir(dir, 0777) != 0 || chdir(dir) != 0 || setenv("TMPDIR", dir, 1) != 0) return false;
  for (size_t k = 0; k < HS_COUNT(old_files); k++) {
    FILE *f = fopen(old_files[k], "we");
    if (!f || fputs(OLD, f) < 0 || fclose(f) != 0) return false;
  }
  int out = open(said, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  int err = open(complained, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  return out >= 0 && err >= 0 && in >= 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2 &&
         dup2(in, 0) == 0;
}

static void run_line(const char *line, fault_kind kind, u32 n, outcome *o) {
  fault_arm(kind, n);
  o->code = repl_run_line(session, line, strlen(line));
  fflush(stdout);
  (void)fault_disarm();
  clearerr(stdout);
  o->session = session_hash();
  o->said = said_hash();
  list_files(o);
}

static int leave(void) {
  repl_session_free(session);
  ffi_unload_all();
  hs_vec_free(&version_texts);
  return 0;
}

// Whether all is as it must be after a run in which a call failed; says what is not.
static bool whole(const outcome *o, const char *flags, bool fired) {
  bool good = true;
#define EXPECT(x, ...) \
  if (!(x)) good = false, printf("  " __VA_ARGS__), putchar('\n')
  bool steps = strchr(flags, 'p'), loose = strchr(flags, 's');
  EXPECT(steps || o->session == before || o->session == plain->end.session,
         "the session is neither as before nor as after");
  EXPECT(o->code || !fired || steps || o->session == plain->end.session,
         "it says that it succeeded, but the session is not as after");
  hashes now = {0};
  hash_versions(&now);
  bool closes = now.n < version_texts.n && o->session == plain->end.session;
  for (size_t k = 0; k < version_texts.n && !closes; k++) {
    bool there = false;
    for (size_t j = 0; j < now.n && !there; j++) there = now.v[j] == version_texts.v[k];
    EXPECT(there, "version %zu of before is not there or has another text", k);
  }
  hs_vec_free(&now);
  bool same = !loose && plain->end.said == again->end.said;
  EXPECT(o->code || !same || o->said == plain->end.said,
         "it says that it succeeded, but printed something else");
  for (u32 k = 0; k < o->nfiles; k++) {
    const file_state *f = &o->files[k];
    u64 new = hash_of(&plain->end, f->name), old = hs_hash_bytes(OLD, strlen(OLD), 1);
    EXPECT(new, "%s is left behind", f->name);
    bool differs = loose || new != hash_of(&again->end, f->name);
    EXPECT(!new || differs || f->hash == new || f->hash == old, "%s is neither old nor new",
           f->name);
    EXPECT(!new || f->hash != hs_hash_bytes("", 0, 1) || new == f->hash, "%s is empty", f->name);
  }
#undef EXPECT
  return good;
}

// 0: as it must be; 1: not, and standard output says why.
static int child(const char *line, const char *flags, fault_kind kind, u32 n, u32 slot,
                 shared *out) {
  struct rlimit cpu = {HANG_CPU_S, HANG_CPU_S + 5};
  setrlimit(RLIMIT_CPU, &cpu);
  int report = dup(1);
  if (!move_in(slot, ".said", ".complained")) return 3;
  outcome o = {0};
  run_line(line, kind, n, &o);
  if (out) {
    out->end = o;
    for (int k = 0; k < FAULT_KINDS; k++) out->counts[k] = fault_count((fault_kind)k);
    return leave();
  }
  bool fired = *fault_function() != 0;
  fflush(stdout);
  dup2(report, 1);
  if (fired && verbose) printf("  %s failed, code %d\n", fault_function(), o.code);
  bool good = whole(&o, flags, fired);
  fflush(stdout);
  return leave(), good ? 0 : 1;
}

// ---- in the parent ------------------------------------------------------------------------------
typedef struct job {
  pid_t pid;
  fault_kind kind;
  u32 n;
  u64 since;
} job;
static job jobs[JOBS];
static u32 njobs = 2;

static void fail(const char *line, const job *j, const char *why) {
  failures++;
  printf("FAIL %s: %s:%u: %s\n", line, fault_name(j->kind), j->n, why);
  fflush(stdout);
}

static void judge(const char *line, u32 slot, int status) {
  job *j = &jobs[slot];
  char why[120] = "";
  if (WIFSIGNALED(status))
    snprintf(why, sizeof why, "died by signal %d (%s)", WTERMSIG(status),
             WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL ? "it hangs"
                                                                        : "it crashes");
  else if (WEXITSTATUS(status) == 1) snprintf(why, sizeof why, "the session is not whole");
  else if (WEXITSTATUS(status))
    snprintf(why, sizeof why, "ended with status %d", WEXITSTATUS(status));
  if (*why) {
    fail(line, j, why);
    char path[160];
    snprintf(path, sizeof path, "%s/%u/.complained", root, slot);
    char *text = drv_read(path, NULL);
    if (text) printf("%.3000s", text);
    hs_free(text);
  } else if (verbose) {
    printf("ok %s: %s:%u\n", line, fault_name(j->kind), j->n);
  }
  tried++;
  j->pid = 0;
}

// Waits until one of the children ends; returns its slot.
static u32 reap(const char *line) {
  for (;;) {
    for (u32 k = 0; k < njobs; k++) {
      int status;
      if (!jobs[k].pid) return k;
      if (hs_now_ns() - jobs[k].since > (u64)HANG_S * 1000000000) kill(jobs[k].pid, SIGKILL);
      if (waitpid(jobs[k].pid, &status, WNOHANG) != jobs[k].pid) continue;
      judge(line, k, status);
      return k;
    }
    usleep(300);
  }
}

static void start(const char *line, const char *flags, fault_kind kind, u32 n) {
  u32 slot = reap(line);
  fflush(NULL);
  jobs[slot] = (job){fork(), kind, n, hs_now_ns()};
  if (jobs[slot].pid == 0) exit(child(line, flags, kind, n, slot, NULL));
}

static void finish(const char *line) {
  for (u32 k = 0; k < njobs; k++) {
    int status;
    while (jobs[k].pid && waitpid(jobs[k].pid, &status, WNOHANG) == 0) {
      if (hs_now_ns() - jobs[k].since > (u64)HANG_S * 1000000000) kill(jobs[k].pid, SIGKILL);
      usleep(300);
    }
    if (jobs[k].pid) judge(line, k, status);
  }
}

static bool without_failure(const char *line, const char *flags, shared *out) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) exit(child(line, flags, FAULT_SMALL, 0, JOBS, out));
  int status;
  if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  job j = {0};
  fail(line, &j, "fails without a failure too");
  return false;
}

// The call after n that fails, of `count`: all up to half of what is allowed, the rest at even
// distances.
static u32 next_call(u32 n, u32 count, u32 most) {
  if (count <= most || n < most / 2) return n + 1;
  u32 step = (count - most / 2) / (most - most / 2) + 1;
  return n + step;
}

// How many calls the line makes, of all kinds.
static double all_calls(void) {
  double n = 0;
  for (int k = 0; k < FAULT_KINDS; k++) n += plain->counts[k];
  return n;
}

static void run_faults(const char *line, const char *flags, const drv_args *a) {
  bool all = drv_option(a, "all");
  const char *kind = drv_option(a, "kind"), *one = drv_option(a, "n");
  if (!without_failure(line, flags, plain) || !without_failure(line, flags, again)) return;
  before = session_hash();
  hash_versions(&version_texts);
  // What a run costs, by what it calls: the choice of calls must not depend on the machine's load.
  double ms = 4 + all_calls() / 1500 + 100.0 * plain->counts[FAULT_FORK];
  u32 most = all ? UINT32_MAX : (u32)(120 / ms) + 3;
  for (fault_kind k = 0; k < FAULT_KINDS; k++) {
    if (kind && fault_find(kind) != k) continue;
    u32 count = plain->counts[k];
    if (one) {
      start(line, flags, k, (u32)strtoul(one, NULL, 10));
      continue;
    }
    if (count > most) thinned++;
    for (u32 n = 1; n <= count; n = next_call(n, count, most)) start(line, flags, k, n);
  }
  finish(line);
}

// The command of a line: of the name that stands with its flags, else its first word.
static const repl_command *command_of(const char *name, const char *line) {
  char word[64];
  if (!*name) snprintf(word, sizeof word, "%.*s", (int)strcspn(line, " "), line);
  return repl_command_find(session, *name ? name : word);
}

static void run_script(char *text, const drv_args *a) {
  const char *only = drv_option(a, "only");
  bool *met = hs_calloc(repl_command_count, sizeof *met);
  for (char *p = text, *end; *p; p = end) {
    end = p + strcspn(p, "\n");
    if (*end) *end++ = 0;
    if (!*p || *p == '#') continue;
    char *colon = strstr(p, ": "), flags[8] = "", name[40] = "";
    if (colon && p[0] == '-') {
      *colon = 0;
      (void)sscanf(p, "-%7[a-z] %39s", flags, name);
      if (!*flags) (void)sscanf(p, "- %39s", name);
      p = colon + 2;
    }
    hs_buf line = {0};
    for (const char *at; (at = strstr(p, "@SRC@")) != NULL; p = (char *)(uintptr_t)at + 5) {
      hs_buf_put(&line, p, (size_t)(at - p));
      hs_buf_puts(&line, src);
    }
    hs_buf_puts(&line, p);
    const char *typed = hs_buf_cstr(&line);
    const repl_command *c = command_of(name, typed);
    if (!c) printf("FAIL %s: no such command\n", typed), failures++;
    else if (!strchr(flags, 'x')) met[c - session->commands] = true;
    if (c && !strchr(flags, 'x') && (!only || strcmp(only, c->name) == 0)) {
      u64 begin = hs_now_ns();
      u32 had = tried;
      lines_run++;
      run_faults(typed, flags, a);
      if (verbose)
        printf("%-50s %5u of %.0f calls, %.1f s\n", typed, tried - had, all_calls(),
               (double)(hs_now_ns() - begin) * 1e-9);
    }
    if (c && !strchr(flags, 'k')) {
      int out = dup(1), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
      fflush(stdout);
      dup2(null, 1);
      int code = repl_run_line(session, typed, strlen(typed));
      dup2(out, 1);
      close(out), close(null);
      if (code) printf("FAIL %s: %d without a failure\n", typed, code), failures++;
    }
    hs_buf_free(&line);
  }
  for (u32 k = 0; k < repl_command_count && !only; k++)
    if (!met[k] && strcmp(repl_commands[k].name, "calibrate") != 0)  // takes a minute
      printf("FAIL %s: the script does not use it\n", repl_commands[k].name), failures++;
  hs_free(met);
}

int main(int argc, char **argv) {
  int status;
  if (!fault_from_environment()) return 2;
  if (worker_entry(argc, argv, &status)) return status;
  static const char *const known[] = {"!all", "!verbose", "!json", "only", "kind", "n", NULL};
  drv_args a;
  if (!drv_parse(argc, argv, known, &a) || a.n != 1 ||
      (drv_option(&a, "kind") && fault_find(drv_option(&a, "kind")) == FAULT_KINDS)) {
    fprintf(stderr,
            "usage: faultcheck [-j N] [--all] [--json] [--only COMMAND] [--kind KIND] [--n N] "
            "[--verbose] SCRIPT\n");
    return 2;
  }
  verbose = drv_option(&a, "verbose");
  njobs = HS_MIN(HS_MAX(a.jobs, 1u), (u32)JOBS);
  char *text = drv_read(a.v[0], NULL);
  if (!text || !getcwd(src, sizeof src)) return perror(a.v[0]), 2;
  // in memory where that can be: each child makes and removes a folder of files
  bool shm = access("/dev/shm", W_OK) == 0;
  snprintf(root, sizeof root, "%s/hlosh-faults-XXXXXX", shm ? "/dev/shm" : "/tmp");
  if (!mkdtemp(root) || chdir(root) != 0) return perror(root), 2;
  plain = mmap(NULL, 2 * sizeof *plain, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (plain == MAP_FAILED) return perror("mmap"), 2;
  again = plain + 1;
  signal(SIGPIPE, SIG_IGN);
  setenv("HOME", root, 1);
  hs_interrupt_watch(&repl_interrupt);
  hs_memory_ready(REPL_RESERVE);
  session = repl_session_new(repl_commands, repl_command_count);
  session->json = drv_option(&a, "json");
  run_script(text, &a);
  hs_free(text);
  (void)leave();
  if (chdir("/") == 0) bundle_remove(root);
  printf(
      "faultcheck: %u commands lines, %u runs with a failing call, %u thinned out, %u failures\n",
      lines_run, tried, thinned, failures);
  return failures ? 1 : 0;
}
