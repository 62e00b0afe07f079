// hostile.c — a library of custom calls that attacks the machine it runs on, for the test of the
// sandbox. `attack` tries everything in attacks.def and reports in its result, element by element,
// what succeeded: each attack undoes what it did and harms nobody. The other handlers crash, hang,
// flood or exhaust.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/ffi_abi.h"

#define EXPORT __attribute__((visibility("default")))
ffi_handler attack, crash, flood, hog, linger, other_calls;
static int port;

static bool close_if(int fd) {
  if (fd >= 0) close(fd);
  return fd >= 0;
}

// ---- network ------------------------------------------------------------------------------------
static bool try_SOCKET(void) { return close_if(socket(AF_INET, SOCK_STREAM, 0)); }
static bool try_UNIX_SOCKET(void) { return close_if(socket(AF_UNIX, SOCK_STREAM, 0)); }
static bool try_CONNECT(void) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t)port),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  bool ok = connect(s, (struct sockaddr *)&to, sizeof to) == 0;
  close_if(s);
  return ok;
}

// ---- processes ----------------------------------------------------------------------------------
static bool ended_well(pid_t child) {
  int st = -1;
  return child > 0 && waitpid(child, &st, 0) == child && WIFEXITED(st) && WEXITSTATUS(st) == 0;
}
static char *const true_args[] = {(char *)"/bin/true", NULL};
static char *const no_env[] = {NULL};
static bool try_FORK(void) {
  pid_t child = fork();
  if (child == 0) _exit(0);
  return ended_well(child);
}
static bool try_EXEC(void) {
  pid_t child = fork();
  if (child == 0) {
    execve(true_args[0], true_args, no_env);
    _exit(1);
  }
  return ended_well(child);
}
// In a child when there can be one: success would be the end of the worker.
static bool try_EXEC_HERE(void) {
  pid_t child = fork();
  if (child <= 0) {
    execve(true_args[0], true_args, no_env);
    if (child == 0) _exit(1);
    return false;
  }
  return ended_well(child);
}
static bool try_SPAWN(void) {
  pid_t child = 0;
  return posix_spawn(&child, true_args[0], NULL, NULL, true_args, no_env) == 0 && ended_well(child);
}

// ---- files --------------------------------------------------------------------------------------
static bool can_write(const char *folder) {
  char path[512];
  snprintf(path, sizeof path, "%s/hlosh-hostile-%d", folder, (int)getpid());
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd >= 0) unlink(path);
  return close_if(fd);
}
static bool can_read(const char *path) {
  char c;
  int fd = open(path, O_RDONLY);
  bool ok = fd >= 0 && read(fd, &c, 1) == 1;
  close_if(fd);
  return ok;
}
static const char *in_home(const char *name) {
  static char path[512];
  const char *home = getenv("HOME");
  snprintf(path, sizeof path, "%s/%s", home ? home : "/root", name);
  return path;
}
static bool try_WRITE_HOME(void) { return can_write(in_home("")); }
static bool try_WRITE_TMP(void) { return can_write("/tmp"); }
static bool try_REMOVE(void) { return unlink(in_home("precious")) == 0; }
static bool try_READ_PASSWD(void) { return can_read("/etc/passwd"); }
static bool try_BY_ROOT(void) { return can_read("/proc/self/root/etc/passwd"); }
static bool try_READ_KEY(void) { return can_read(in_home(".ssh/id_test")); }

// ---- the shell ----------------------------------------------------------------------------------
static bool try_READ_SHELL(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", (int)getppid());
  return close_if(open(path, O_RDWR));
}
static bool try_PTRACE(void) {
  pid_t shell = getppid();
  if (ptrace(PTRACE_SEIZE, shell, NULL, NULL) != 0) return false;
  ptrace(PTRACE_INTERRUPT, shell, NULL, NULL);
  waitpid(shell, NULL, __WALL);
  ptrace(PTRACE_DETACH, shell, NULL, NULL);
  return true;
}
// Address 0 is not mapped: EFAULT says that the memory may be read.
static bool try_READ_MEMORY(void) {
  char c;
  struct iovec here = {&c, 1}, there = {NULL, 1};
  return process_vm_readv(getppid(), &here, 1, &there, 1, 0) >= 0 || errno == EFAULT;
}
static bool try_SIGNAL(void) { return kill(getppid(), SIGWINCH) == 0; }
static bool try_QUEUE(void) { return sigqueue(getppid(), SIGWINCH, (union sigval){0}) == 0; }
static bool try_PIDFD(void) { return close_if((int)syscall(SYS_pidfd_open, getppid(), 0)); }
static bool try_LIMITS(void) {
  struct rlimit r;
  return prlimit(getppid(), RLIMIT_CORE, NULL, &r) == 0;
}
static bool try_PRIORITY(void) {
  errno = 0;
  int now = getpriority(PRIO_PROCESS, (id_t)getppid());
  return errno == 0 && setpriority(PRIO_PROCESS, (id_t)getppid(), now) == 0;
}
static bool try_OUTLIVE(void) {
  if (prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) != 0) return false;
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  return true;
}

// ---- the kernel ---------------------------------------------------------------------------------
static bool try_MEMFD(void) { return close_if(memfd_create("hostile", 0)); }
static bool try_SHARED(void) {
  void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, 4096);
  return true;
}
static bool try_NAMESPACE(void) {  // in a child, as it cannot be undone
  enum { NEW_USER = 0x10000000 };
  pid_t child = fork();
  if (child < 0) return syscall(SYS_unshare, NEW_USER) == 0;
  if (child == 0) _exit(syscall(SYS_unshare, NEW_USER) == 0 ? 0 : 1);
  return ended_well(child);
}
static bool try_RING(void) {
  char params[120] = {0};
  return close_if((int)syscall(SYS_io_uring_setup, 1, params));
}

// ---- generated code that makes system calls -----------------------------------------------------
// Calls the kernel with up to three arguments by machine code written to a fresh page.
static long raw(uint32_t number, long a, long b, long c) {
#if defined(__x86_64__)
  unsigned char code[] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};  // mov eax, number; syscall; ret
  memcpy(code + 1, &number, 4);
#else
  uint32_t code[] = {0xd2800008u | number << 5, 0xd4000001u, 0xd65f03c0u};  // mov x8; svc; ret
#endif
  char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return -1;
  memcpy(page, code, sizeof code);
  __builtin___clear_cache(page, page + sizeof code);
  if (mprotect(page, 4096, PROT_READ | PROT_EXEC) != 0) return -1;
  long (*f)(long, long, long);
  memcpy(&f, &page, sizeof f);
  long r = f(a, b, c);
  munmap(page, 4096);
  return r;
}
static bool try_RAW_SOCKET(void) { return close_if((int)raw(SYS_socket, AF_INET, SOCK_STREAM, 0)); }
static bool try_RAW_OPEN(void) {
  return close_if((int)raw(SYS_openat, AT_FDCWD, (long)(intptr_t) "/etc/passwd", O_RDONLY));
}
static bool try_RAW_SIGNAL(void) { return raw(SYS_kill, getppid(), SIGWINCH, 0) == 0; }

// ---- handlers -----------------------------------------------------------------------------------
EXPORT ffi_error *attack(ffi_frame *f) {
  static bool (*const attempts[])(void) = {
#define ATTACK(id, sure, what) try_##id,
#include "tests/plugin/attacks.def"
#undef ATTACK
  };
  port = *(const int32_t *)((const ffi_buffer *)f->args.values[0])->data;
  int32_t *result = ((ffi_buffer *)f->rets.values[0])->data;
  for (size_t k = 0; k < sizeof attempts / sizeof *attempts; k++) result[k] = attempts[k]() ? 1 : 0;
  return NULL;
}

EXPORT ffi_error *crash(ffi_frame *f) {
  (void)f;
  volatile uintptr_t nowhere = 16;
  *(volatile int *)nowhere = 1;
  return NULL;
}

// Writes to the shell's pipe for ever.
EXPORT ffi_error *flood(ffi_frame *f) {
  (void)f;
  static char noise[4096];
  memset(noise, 'x', sizeof noise);
  for (;;) (void)!write(2, noise, sizeof noise);
}

// How many megabytes it gets, 4096 at most.
EXPORT ffi_error *hog(ffi_frame *f) {
  int32_t *result = ((ffi_buffer *)f->rets.values[0])->data, n = 0;
  while (n < 4096 && mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                          0) != MAP_FAILED)
    n++;
  *result = n;
  return NULL;
}

// Keeps the memory it was given and goes on writing to it. Its result: how many of its descriptors,
// the arguments' and the results' among them, it can write to.
static int32_t *kept;
static void *write_on(void *arg) {
  usleep(500 * 1000);
  for (;; usleep(1000)) *kept = 99;  // from after the answer on
  return arg;
}
EXPORT ffi_error *linger(ffi_frame *f) {
  int32_t *result = ((ffi_buffer *)f->rets.values[0])->data, n = 0;
  for (int fd = 4; fd < 32; fd++) {
    void *p = mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) continue;
    kept = p;
    n++;
  }
  pthread_t t;
  *result = n;
  if (n) pthread_create(&t, NULL, write_on, NULL);
  return NULL;
}

// Calls as another architecture numbers them: the kernel's int 0x80. 1: it answered.
EXPORT ffi_error *other_calls(ffi_frame *f) {
  int32_t *result = ((ffi_buffer *)f->rets.values[0])->data;
#if defined(__x86_64__)
  long r = 20;  // getpid
  __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
  *result = r == getpid();
#else
  *result = 0;
#endif
  return NULL;
}
