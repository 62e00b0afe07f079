// mutate.c — a great many changed modules, each of which must give errors or a module, and
// never a crash, a hang, a leak or a report of the sanitizers.
//
// usage: mutate --kind text|mlir|proto|chain [--seed S] [--from CASE] [--count N] [-j N]
//               [--save DIR] [--passes N] [--step-limit SECONDS] [--seconds N] FILE|DIR...
//
// Case k of seed S is the same for ever, given the same files: one of them (a folder stands for all
// .hlo and .pb in it and below that can be read, for mlir all .mlir, .mlirbc and .bc, and have at
// most 16 KB), changed a few times by mutate.h with pieces of another; one case in eight of text
// and chain starts from a random module (tests/random) instead. A file is drawn by its path, so
// that one more changes only the cases that draw it. For the chain, changes are made one by one and
// those are kept that leave a valid module, as long as the verifier is the same; one case in
// sixteen keeps them all.
//   mlir    StableHLO as text or bytecode (.mlir, .mlirbc, .bc): load, convert, verify, print as
//           HLO and as StableHLO, parse both prints
//   text    load, verify, print, parse the print
//   proto   the module as a proto, of which the fields are changed: load, verify, write in both
//           forms and read back, snapshot arguments
//   chain   what chain.h says: passes, evaluator against the cpu backend, estimates, pictures
//
// Cases run in children, some hundreds each; what a child is at stands in shared memory. A child
// that dies, or takes more than the limit (10 s of its own time, or 20 times that on the clock, not
// counting how long it waited for a processor or was stopped) in one step, is one finding; the rest
// of its cases go on in another child. Under ASan a child looks for leaks at its end; when there
// are some, its cases run once more with a look after each, so that the finding is the case. Prints
// "FAIL KIND SEED CASE (FILE): reason" for each, the input goes to DIR/KIND.SEED.CASE, and last the
// totals. Exit 0 when nothing failed. --seconds: starts no more children after that time.
#include "core/mlir/mlir.h"
#include "core/proto/proto.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "backends/worker.h"
#include "tests/harness/chain.h"
#include "tests/harness/checks.h"
#include "tests/harness/driver.h"
#include "tests/harness/mutate.h"
#include "tests/random/gen.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef HS_ASAN
#include <sanitizer/lsan_interface.h>
// Without limits, a module with large shapes would be a test of the machine.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "exitcode=99:malloc_context_size=12:quarantine_size_mb=16:hard_rss_limit_mb=3000:"
         "allocator_may_return_null=1";
}
#endif

enum { SEED_BYTES = 16384, INPUT_BYTES = 1 << 18, MAX_JOBS = 64 };
enum { LEAKS = 98 };                                         // a child's exit status
typedef enum kind { TEXT, PROTO, CHAIN, MLIR, KINDS } kind;  // case numbers go by them
typedef struct source {
  char *path;
  u64 key;       // of the path
  hs_buf bytes;  // as the kind wants them
} source;

// What a child is at and what it has done, for the parent.
typedef struct slot {
  u64 at, cpu_ns, wall_ns;  // the case; the clocks when its step began
  char step[120];
  u64 cases, failures;
  check_counts checks;
  chain_counts chain;
  char file[200];  // that its input was made of
  u32 ninput;
  char input[INPUT_BYTES];
} slot;
typedef struct job {
  pid_t pid;
  int fd;
  u64 from, end;
  bool leaks;
  slot *now;
  u64 step_ns, idle_ns;  // when its step began, and how long it could not run until then
} job;
typedef struct range {
  u64 from, end;
  bool leaks;  // look for leaks after each case
} range;
typedef struct run {
  kind kind;
  const char *kind_name, *save;
  u64 seed;
  u32 passes;
  double limit_s;
  HS_VEC(source) sources;
  HS_VEC(range) todo;  // taken from the end
  slot *totals;
  u64 failures, deaths, hangs;
  u64 stopped_ns;  // how long all of it was stopped, as by Ctrl-Z
} run;

// ---- inputs -------------------------------------------------------------------------------------
// Does it parse, and verify? Most of what does not is cut off at its first error, also when it is
// changed.
static bool parses(const hs_buf *text, bool verifies) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_parse(ctx, text->p, text->n, NULL, &m);
  if (hs_ok(s) && verifies) s = hlo_verify(m, NULL);
  bool ok = hs_ok(s);
  hs_status_drop(s);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return ok;
}

static bool to_proto(hs_buf *text, u64 *state) {
  static const hlo_proto_form forms[] = {HLO_PROTO_HLO, HLO_PROTO_MODULE, HLO_PROTO_SNAPSHOT,
                                         HLO_PROTO_UNOPTIMIZED, HLO_PROTO_WITH_CONFIG};
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_buf b = {0};
  u32 lost;
  hs_status s = hlo_parse(ctx, text->p, text->n, NULL, &m);
  if (hs_ok(s))
    s = hlo_proto_save(&b, m, forms[mutate_below(state, HS_COUNT(forms))], false, &lost);
  bool ok = hs_ok(s);
  hs_status_drop(s);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  hs_buf_free(text);
  *text = b;
  return ok && b.n > 0;
}

static void add_file(run *r, const char *path) {
  size_t n;
  char *p = drv_read(path, &n);
  source s = {0};
  if (p && n <= SEED_BYTES) hs_buf_put(&s.bytes, p, n);
  hs_free(p);
  s.key = hs_hash_bytes(path, strlen(path), 0);
  u64 state = s.key;
  bool proto = s.bytes.n && hlo_is_proto(s.bytes.p, s.bytes.n),
       good = s.bytes.n == 0     ? false
              : r->kind == MLIR  ? hlo_is_mlir(s.bytes.p, s.bytes.n)
              : r->kind == PROTO ? proto || to_proto(&s.bytes, &state)
                                 : !proto && parses(&s.bytes, false);
  if (s.bytes.n == 0 || s.bytes.n > SEED_BYTES || !good) {
    hs_buf_free(&s.bytes);
    return;
  }
  s.path = hs_strdup(path);
  hs_vec_push(&r->sources, s);
}

static bool has_ending(kind k, const char *name) {
  if (k == MLIR)
    return drv_ends_in(name, ".mlir") || drv_ends_in(name, ".mlirbc") || drv_ends_in(name, ".bc");
  return drv_ends_in(name, ".hlo") || drv_ends_in(name, ".pb");
}

static void add_path(run *r, const char *path) {
  struct stat st;
  if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return add_file(r, path);
  drv_names names = {0};
  drv_list(path, "", &names);
  for (size_t k = 0; k < names.n; k++) {
    const char *name = names.v[k];
    char *inside = hs_format("%s/%s", path, name);
    if (name[0] != '.' && stat(inside, &st) == 0 &&
        (S_ISDIR(st.st_mode) || has_ending(r->kind, name)))
      add_path(r, inside);
    hs_free(inside);
  }
  drv_names_free(&names);
}

// What the child works on, for the parent: it would die of the same.
static void note_input(slot *s, hs_buf *b) {
  b->n = HS_MIN(b->n, (size_t)INPUT_BYTES);
  s->ninput = (u32)b->n;
  if (b->n) memcpy(s->input, b->p, b->n);
}

// Changes of which each leaves a valid module, that many if they are found.
static void change_valid(u64 *state, hs_buf *text, const source *other, u32 edits, slot *s) {
  hs_buf next = {0};
  for (u32 tries = 0, n = 0; tries < 12 * edits && n < edits; tries++) {
    next.n = 0;
    hs_buf_put(&next, text->p, text->n);
    mutate_text(state, &next, other->bytes.p, other->bytes.n, 1);
    note_input(s, &next);
    bool changed = next.n != text->n || memcmp(next.p, text->p, next.n) != 0;
    if (!changed || !parses(&next, true)) continue;
    text->n = 0;
    hs_buf_put(text, next.p, next.n);
    n++;
  }
  hs_buf_free(&next);
}

// The file that a draw takes: highest random weight (Thaler and Ravishankar, 1998).
static const source *draw(const run *r, u64 *state) {
  u64 number = mutate_next(state), best = 0;
  const source *found = &r->sources.v[0];
  for (size_t k = 0; k < r->sources.n; k++) {
    u64 weight = hs_mix(number, r->sources.v[k].key);
    if (weight > best) best = weight, found = &r->sources.v[k];
  }
  return found;
}

// The input of a case.
static void make_input(const run *r, u64 k, hs_buf *out, slot *s) {
  u64 state = hs_mix(hs_mix(r->seed, (u64)r->kind), k);
  const source *a = draw(r, &state), *b = draw(r, &state);
  snprintf(s->file, sizeof s->file, "%s", a->path);
  out->n = 0;
  if ((r->kind == TEXT || r->kind == CHAIN) && mutate_below(&state, 8) == 0) {
    gen_module g;
    u64 number = mutate_next(&state);
    if (number & 1) gen_make(number, NULL, &g);
    else gen_make_for_passes(number, &g);
    hs_buf_puts(out, g.text);
    gen_free(&g);
    snprintf(s->file, sizeof s->file, "a random module");
  } else {
    hs_buf_put(out, a->bytes.p, a->bytes.n);
  }
  note_input(s, out);
  u32 edits = (u32)mutate_below(&state, 4);
  bool bytecode = r->kind == MLIR && out->n > 4 && !memcmp(out->p, "ML\xefR", 4),
       keep_valid = r->kind == CHAIN && mutate_below(&state, 16);
  for (u32 n = 0; bytecode && n <= edits; n++) mutate_bytes(&state, out);
  if (keep_valid) change_valid(&state, out, b, 1 + (u32)mutate_below(&state, 6), s);
  else if (r->kind == PROTO) mutate_proto(&state, out, b->bytes.p, b->bytes.n, edits + 1);
  else if (!bytecode) mutate_text(&state, out, b->bytes.p, b->bytes.n, edits + (r->kind != CHAIN));
  note_input(s, out);
}

// ---- the child ----------------------------------------------------------------------------------
static u64 cpu_of(clockid_t clock) {
  struct timespec t = {0};
  clock_gettime(clock, &t);
  return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}
static void begin_step(void *arg, const char *step) {
  slot *s = arg;
  snprintf(s->step, sizeof s->step, "%s", step);
  __atomic_store_n(&s->cpu_ns, cpu_of(CLOCK_PROCESS_CPUTIME_ID), __ATOMIC_RELAXED);
  __atomic_store_n(&s->wall_ns, hs_now_ns(), __ATOMIC_RELAXED);
}

static void fail(const run *r, u64 k, const slot *s, const char *why) {
  printf("FAIL %s %llu %llu (%s): ", r->kind_name, (unsigned long long)r->seed,
         (unsigned long long)k, s->file);
  for (size_t n = 0; why[n] && n < 600; n++) putchar(why[n] == '\n' ? ' ' : why[n]);
  putchar('\n');
  if (!r->save) return;
  char *path = hs_format("%s/%s.%llu.%llu.%s", r->save, r->kind_name, (unsigned long long)r->seed,
                         (unsigned long long)k,
                         r->kind == PROTO  ? "pb"
                         : r->kind == MLIR ? "mlir"
                                           : "hlo");
  FILE *f = fopen(path, "w");
  if (f) fwrite(s->input, 1, HS_MIN(s->ninput, (u32)INPUT_BYTES), f), fclose(f);
  hs_free(path);
}

// Ends the child when something was lost.
static void look_for_leaks(void) {
#ifdef HS_ASAN
  if (__lsan_do_recoverable_leak_check()) fflush(stdout), _exit(LEAKS);
#endif
}

static void child(const run *r, slot *s, u64 from, u64 end, bool leaks) {
  hs_buf input = {0}, why = {0};
  chain whole = {.passes = r->passes, .step = begin_step, .arg = s};
  if (r->kind == CHAIN) chain_open(&whole);
  for (u64 k = from; k < end; k++) {
    __atomic_store_n(&s->at, k, __ATOMIC_RELAXED);
    begin_step(s, "changing");
    make_input(r, k, &input, s);
    begin_step(s, "loading");
    // exactly as long as it is, so that ASan sees reads past the end
    char *exact = hs_alloc(input.n ? input.n : 1);
    if (input.n) memcpy(exact, input.p, input.n);
    why.n = 0;
    bool ok = r->kind == TEXT    ? check_text(exact, input.n, &s->checks, &why)
              : r->kind == MLIR  ? check_mlir(exact, input.n, &s->checks, &why)
              : r->kind == PROTO ? check_proto(exact, input.n, &s->checks, &why)
                                 : chain_check(&whole, exact, input.n, k, &s->chain, &why);
    if (!ok) fail(r, k, s, hs_buf_cstr(&why)), s->failures++;
    hs_free(exact);
    if (leaks) begin_step(s, "leaking"), look_for_leaks();
    s->cases++;
  }
  begin_step(s, "ending");
  if (r->kind == CHAIN) chain_close(&whole);
  hs_buf_free(&input);
  hs_buf_free(&why);
  look_for_leaks();
  fflush(stdout);
  _exit(0);
}

// ---- the parent ---------------------------------------------------------------------------------
static void start(run *r, job *j, u64 batch) {
  range *last = &r->todo.v[r->todo.n - 1];
  u64 from = last->from, end = HS_MIN(from + batch, last->end);
  last->from = end;
  j->from = from, j->end = end, j->leaks = last->leaks;
  if (end == last->end) r->todo.n--;
  memset(j->now, 0, sizeof *j->now);
  j->now->at = from, j->now->wall_ns = hs_now_ns();
  j->fd = memfd_create("stderr", 0);
  fflush(stdout);
  j->pid = fork();
  if (j->pid == 0) {
    dup2(j->fd, 2);
    setvbuf(stdout, NULL, _IOLBF, 0);
    child(r, j->now, from, end, j->leaks);
  }
}

// What a sanitizer wrote: its headline and the places, one line.
static char *report_of(int fd) {
  hs_buf all = {0}, out = {0};
  char piece[4096];
  for (ssize_t n, at = 0; (n = pread(fd, piece, sizeof piece, at)) > 0 && at < (1 << 20); at += n)
    hs_buf_put(&all, piece, (size_t)n);
  u32 frames = 0;
  bool on = false;
  for (const char *p = hs_buf_cstr(&all); *p && frames < 14;
       p += strcspn(p, "\n"), p += *p == '\n') {
    int n = (int)strcspn(p, "\n");
    const char *in = memmem(p, (size_t)n, " in ", 4);
    if (memmem(p, (size_t)n, "ERROR: ", 7) || memmem(p, (size_t)n, "runtime error", 13))
      hs_buf_printf(&out, " %.*s", HS_MIN(n, 220), p), on = true;
    else if (on && in && memmem(p, (size_t)n, "    #", 5))
      hs_buf_printf(&out, " <%.*s", HS_MIN((int)(n - (in - p)), 90), in), frames++;
  }
  hs_buf_free(&all);
  char *s = hs_strdup(out.n ? hs_buf_cstr(&out) : "");
  hs_buf_free(&out);
  return s;
}

static void finish(run *r, job *j, int status, bool late) {
  slot *s = j->now;
  bool ended = strcmp(s->step, "ending") == 0,
       leaks = WIFEXITED(status) && WEXITSTATUS(status) == LEAKS && !late;
  if (leaks && ended && !j->leaks) {  // which case was it?
    hs_vec_push(&r->todo, ((range){j->from, j->end, true}));
    close(j->fd);
    j->pid = 0;
    return;
  }
  r->totals->cases += s->cases;
  r->failures += s->failures;
  r->totals->checks.read += s->checks.read, r->totals->checks.valid += s->checks.valid;
  chain_add(&r->totals->chain, &s->chain);
  bool died =
      late || !WIFEXITED(status) || WEXITSTATUS(status) != 0 || s->at + 1 != j->end || !ended;
  if (!died && j->leaks) {
    printf("FAIL %s %llu %llu: something leaks in cases %llu to %llu, none does so each time\n",
           r->kind_name, (unsigned long long)r->seed, (unsigned long long)j->from,
           (unsigned long long)j->from, (unsigned long long)j->end - 1);
    r->failures++;
  }
  if (died) {
    char *report = report_of(j->fd), *why;
    if (late) why = hs_format("hangs in [%s]", s->step), r->hangs++;
    else if (leaks) why = hs_format("leaks:%s", report);
    else
      why =
          hs_format("died by %s %d in [%s]%s", WIFSIGNALED(status) ? "signal" : "exit",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), s->step, report),
      r->deaths++;
    fail(r, s->at, s, why);
    r->failures++, r->totals->cases++;
    if (s->at + 1 < j->end) hs_vec_push(&r->todo, ((range){s->at + 1, j->end, false}));
    hs_free(why);
    hs_free(report);
  }
  close(j->fd);
  j->pid = 0;
}

// How long a process has waited for a processor; 0 where the kernel does not say.
static u64 queued_ns(pid_t pid) {
  char path[32], text[96] = "";
  snprintf(path, sizeof path, "/proc/%d/schedstat", (int)pid);
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  bool read = fgets(text, sizeof text, f) != NULL;
  fclose(f);
  char *end = text;
  if (read) strtoull(text, &end, 10);  // how long it ran
  return strtoull(end, NULL, 10);
}

static u64 idle_ns(const run *r, const job *j) { return queued_ns(j->pid) + r->stopped_ns; }

static bool late(const run *r, job *j) {
  clockid_t clock;
  u64 wall = __atomic_load_n(&j->now->wall_ns, __ATOMIC_RELAXED),
      cpu = __atomic_load_n(&j->now->cpu_ns, __ATOMIC_RELAXED), now = hs_now_ns();
  if (wall != j->step_ns) j->step_ns = wall, j->idle_ns = idle_ns(r, j);
  if (now > wall && (double)(now - wall) * 1e-9 > 20 * r->limit_s) {
    u64 idle = idle_ns(r, j);
    u64 kept_waiting = idle > j->idle_ns ? idle - j->idle_ns : 0;
    if ((double)(now - wall) - (double)kept_waiting > 20e9 * r->limit_s) return true;
  }
  if (clock_getcpuclockid(j->pid, &clock) != 0) return false;
  u64 used = cpu_of(clock);
  return used > cpu && (double)(used - cpu) * 1e-9 > r->limit_s;
}

static void run_all(run *r, u32 jobs, double seconds) {
  job live[MAX_JOBS] = {0};
  slot *slots =
      mmap(NULL, sizeof *slots * jobs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (slots == MAP_FAILED) return;
  u64 begun = hs_now_ns(), said = begun, awake = begun;
  for (bool running = true; running;) {
    u64 now = hs_now_ns(), gap = now - awake;
    if (gap > 1000000000u) r->stopped_ns += gap;  // a round takes some milliseconds
    awake = now;
    bool open = seconds <= 0 || (double)(hs_now_ns() - begun) * 1e-9 < seconds;
    running = false;
    for (u32 k = 0; k < jobs; k++) {
      job *j = &live[k];
      j->now = &slots[k];
      int status = 0;
      if (j->pid) {
        pid_t p = waitpid(j->pid, &status, WNOHANG);
        bool hangs = p == 0 && late(r, j);
        if (hangs) kill(j->pid, SIGKILL), p = waitpid(j->pid, &status, 0);
        if (p) finish(r, j, status, hangs);
      }
      bool more = r->todo.n && (open || r->todo.v[r->todo.n - 1].leaks);
      if (!j->pid && more) start(r, j, r->kind == CHAIN ? 100 : 2000);
      running |= j->pid != 0 || more;
    }
    if (hs_now_ns() - said > 60000000000u) {
      said = hs_now_ns();
      printf("%llu cases, %llu failures\n", (unsigned long long)r->totals->cases,
             (unsigned long long)r->failures);
      fflush(stdout);
    }
    nanosleep(&(struct timespec){0, 5000000}, NULL);
  }
  munmap(slots, sizeof *slots * jobs);
}

int main(int argc, char **argv) {
  int worker_status;
  if (worker_entry(argc, argv, &worker_status)) return worker_status;
  static const char *const options[] = {"kind",   "seed",       "from",    "count", "save",
                                        "passes", "step-limit", "seconds", NULL},
                           *const kinds[] = {"text", "proto", "chain", "mlir"};
  drv_args a;
  run r = {.kind_name = "", .kind = KINDS, .totals = hs_calloc(1, sizeof *r.totals)};
  bool good = drv_parse(argc, argv, options, &a);
  for (u32 k = 0; good && drv_option(&a, "kind") && k < HS_COUNT(kinds); k++)
    if (strcmp(drv_option(&a, "kind"), kinds[k]) == 0) r.kind = (kind)k, r.kind_name = kinds[k];
  if (!good || r.kind == KINDS || a.n == 0) {
    fprintf(stderr,
            "usage: mutate --kind text|mlir|proto|chain [--seed S] [--from CASE] [--count N] "
            "[-j N] [--save DIR] [--passes N] [--step-limit SECONDS] [--seconds N] "
            "FILE|DIR...\n");
    return 2;
  }
  const char *seed = drv_option(&a, "seed"), *from = drv_option(&a, "from"),
             *count = drv_option(&a, "count"), *passes = drv_option(&a, "passes"),
             *limit = drv_option(&a, "step-limit"), *seconds = drv_option(&a, "seconds");
  r.save = drv_option(&a, "save");
  r.seed = seed ? strtoull(seed, NULL, 10) : 1;
  r.passes = passes ? (u32)strtoul(passes, NULL, 10) : 0;
  r.limit_s = limit ? strtod(limit, NULL) : 10;
  u64 first = from ? strtoull(from, NULL, 10) : 0, n = count ? strtoull(count, NULL, 10) : 1000;
  if (r.save) (void)mkdir(r.save, 0777);
  for (u32 k = 0; k < a.n; k++) add_path(&r, a.v[k]);
  if (r.sources.n == 0) return fprintf(stderr, "mutate: no modules\n"), 2;
  hs_vec_push(&r.todo, ((range){first, first + n, false}));
  u64 begun = hs_now_ns();
  // enough for what may be loaded, so that running out is a finding and not the machine's end
#ifdef HS_ASAN
  hs_memory_limit((size_t)4 << 30);  // ASan itself takes more address space than there is
#else
  setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)4 << 30, (rlim_t)4 << 30});
#endif
  run_all(&r, HS_MIN(a.jobs, (u32)MAX_JOBS), seconds ? strtod(seconds, NULL) : 0);
  struct rusage use;
  getrusage(RUSAGE_CHILDREN, &use);
  if (r.kind == CHAIN) chain_say(&r.totals->chain);
  else
    printf("%llu read, %llu of them valid\n", (unsigned long long)r.totals->checks.read,
           (unsigned long long)r.totals->checks.valid);
  printf("mutate: %s, seed %llu: %llu cases of %zu files, %llu failures, %llu deaths, %llu hangs; "
         "%.0f s, %.0f s of processors\n",
         r.kind_name, (unsigned long long)r.seed, (unsigned long long)r.totals->cases, r.sources.n,
         (unsigned long long)r.failures, (unsigned long long)r.deaths, (unsigned long long)r.hangs,
         (double)(hs_now_ns() - begun) * 1e-9, (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec));
  for (size_t k = 0; k < r.sources.n; k++)
    hs_free(r.sources.v[k].path), hs_buf_free(&r.sources.v[k].bytes);
  hs_vec_free(&r.sources);
  hs_vec_free(&r.todo);
  hs_free(r.totals);
  return r.failures != 0;
}
