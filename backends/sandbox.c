// sandbox.c — limits of every worker; what confines one: Landlock rules, capabilities, memory.
// The filter of system calls is in sandbox_filter.c.
//
// Landlock is spoken to through raw system calls, with the structures spelled out here: a newer
// kernel than the one whose headers were at hand gives more rights to handle, and each is used from
// the version on that has it. A right that is handled and that no rule grants is refused, so the
// rules only grant reading. Landlock looks at opening, not at stat: that a file exists can be seen.
//
// Numbers of processes are not limited (RLIMIT_NPROC counts all processes of the user, and would
// fail threads of ours because of others); the filter refuses processes instead. Memory is limited
// by RLIMIT_DATA and not RLIMIT_AS: malloc and LLVM reserve far more addresses than they use.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/sandbox.h"
#include "backends/serve.h"

// ---- Landlock -----------------------------------------------------------------------------------
// As the kernel has them (linux/landlock.h), by the version that brought them.
typedef struct landlock_ruleset {
  u64 files, network, scopes;  // rights that are handled; versions 1, 4, 6
} landlock_ruleset;
typedef struct __attribute__((packed)) landlock_path {
  u64 allowed;
  i32 parent;
} landlock_path;
enum {
  LANDLOCK_READ_FILE = 1 << 2,
  LANDLOCK_READ_DIR = 1 << 3,
  LANDLOCK_PATH_RULE = 1,   // a kind of rule
  LANDLOCK_ASK_VERSION = 1  // a flag of landlock_create_ruleset
};

static const struct {
  int version;
  landlock_ruleset adds;
} landlock_versions[] = {
    {1, {.files = (1 << 13) - 1}},  // execute, write, read, folders; removing and making files
    {2, {.files = 1 << 13}},        // linking and moving between folders
    {3, {.files = 1 << 14}},        // truncating
    {4, {.network = 3}},            // TCP: bind, connect
    {5, {.files = 1 << 15}},        // ioctl of devices
    {6, {.scopes = 3}},             // abstract UNIX sockets and signals that leave the worker
};

static int landlock_version(void) {
  long v = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_ASK_VERSION);
  return v > 0 ? (int)v : 0;
}

// A file that is not there, or that this user may not open anyway, needs no rule.
static hs_status grant(int ruleset, const char *path) {
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return HS_GOOD;
  landlock_path r = {.allowed = LANDLOCK_READ_FILE | LANDLOCK_READ_DIR, .parent = fd};
  long failed = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_PATH_RULE, &r, 0);
  if (failed && errno == EINVAL) {  // rights of folders, for a file
    r.allowed = LANDLOCK_READ_FILE;
    failed = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_PATH_RULE, &r, 0);
  }
  hs_status s =
      failed ? hs_with_note(hs_fail_errno(HS_E_WORKER, "a rule of Landlock"), "%s", path) : HS_GOOD;
  close(fd);
  return s;
}

static hs_status restrict_files(const sandbox_policy *p, int version) {
  static const char *const paths[] = {
#define CALL(...)
#define CALL_IF(...)
#define CALL_SELF(...)
#define READ(path, reason) path,
#include "backends/sandbox.def"
#undef CALL
#undef CALL_IF
#undef CALL_SELF
#undef READ
  };
  landlock_ruleset all = {0};
  for (size_t k = 0; k < HS_COUNT(landlock_versions); k++) {
    if (landlock_versions[k].version > version) break;
    all.files |= landlock_versions[k].adds.files;
    all.network |= landlock_versions[k].adds.network;
    all.scopes |= landlock_versions[k].adds.scopes;
  }
  // older kernels know a shorter structure, and take a longer one whose rest is zero
  int fd = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
  if (fd < 0) return hs_fail_errno(HS_E_WORKER, "Landlock");
  hs_status s = HS_GOOD;
  for (size_t k = 0; k < HS_COUNT(paths) && hs_ok(s); k++) s = grant(fd, paths[k]);
  for (u32 k = 0; k < p->nfiles && hs_ok(s); k++) s = grant(fd, p->files[k]);
  if (hs_ok(s) && syscall(SYS_landlock_restrict_self, fd, 0) != 0)
    s = hs_fail_errno(HS_E_WORKER, "Landlock");
  close(fd);
  return s;
}

// ---- what there is ------------------------------------------------------------------------------
sandbox_support sandbox_probe(void) {
  static const char *const sanitized = "a build with a sanitizer is not confined";
  if (SANDBOX_SANITIZED)
    return (sandbox_support){.no_seccomp = sanitized, .no_landlock = sanitized};
  sandbox_support s = {.no_seccomp = sandbox_filter_missing()};
  s.landlock = landlock_version();
  if (!s.landlock) s.no_landlock = "the kernel has no Landlock, or it is not turned on";
  return s;
}

bool sandbox_lacks(hs_buf *b) {
  sandbox_support s = sandbox_probe();
  if (s.no_seccomp) hs_buf_printf(b, "no system call is refused (%s)", s.no_seccomp);
  if (s.no_landlock)
    hs_buf_printf(b, "%severy file can be read (%s)", s.no_seccomp ? "; " : "", s.no_landlock);
  return s.no_seccomp || s.no_landlock;
}

// ---- entering -----------------------------------------------------------------------------------
static void lower(__rlimit_resource_t what, rlim_t to, bool for_ever) {
  struct rlimit r;
  if (getrlimit(what, &r) != 0) return;
  r.rlim_cur = HS_MIN(r.rlim_max, to);
  if (for_ever) r.rlim_max = r.rlim_cur;
  (void)setrlimit(what, &r);
}

void sandbox_limit(void) {
  lower(RLIMIT_CORE, 0, true);
  lower(RLIMIT_NOFILE, 4096, false);
  (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!write(fd, "500", 3);  // may only be refused where it is higher already
  close(fd);
}

static long threads(void) {
  FILE *f = fopen("/proc/self/status", "r");
  long n = -1;
  char line[256];
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "Threads: %ld", &n) == 1) break;
  if (f) fclose(f);
  return n;
}

static bool entered;  // the worker's own state
bool sandbox_confined(void) { return entered; }

hs_status sandbox_enter(const sandbox_policy *p, sandbox_counts *refused) {
  if (entered || SANDBOX_SANITIZED) return HS_GOOD;
  const sandbox_support has = sandbox_probe();
  long n = threads();
  if (n > 1) return hs_fail(HS_E_WORKER, "the worker has %ld threads before it is confined", n);
  serve_peak_rss_keep_open();
  lower(RLIMIT_NOFILE, 256, true);
  lower(RLIMIT_FSIZE, 0, true);
  lower(RLIMIT_MSGQUEUE, 0, true);
  if (p->memory) lower(RLIMIT_DATA, p->memory, true);
  // the files of a process that cannot be dumped belong to root: no process of this user opens them
  (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2] = {0};
  if (syscall(SYS_capset, &head, none) != 0) return hs_fail_errno(HS_E_WORKER, "capabilities");
  if (has.landlock) HS_TRY(restrict_files(p, has.landlock));
  if (!has.no_seccomp) HS_TRY(sandbox_filter(refused));
  entered = true;
  return HS_GOOD;
}
