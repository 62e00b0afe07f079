// tools.c — NVIDIA's assembler and disassembler, run as programs where they are installed: what a
// kernel takes on its device, and its machine code. See gpu.h.
//
// ptxas is looked for on the PATH and in the usual place of the toolkit. It reports on each kernel
// in lines that have kept their form over many versions; what is not found in them is left out. The
// files are in a folder of their own, removed afterwards.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/gpu/gpu.h"
#include "core/base/file.h"

extern char **environ;

enum { DEADLINE_S = 120 };

// ---- running a program --------------------------------------------------------------------------

static char *find_tool(const char *name) {
  char *file = hs_find_program(name);
  if (file) return file;
  file = hs_format("/usr/local/cuda/bin/%s", name);
  if (access(file, X_OK) == 0) return file;
  hs_free(file);
  return NULL;
}

// Waits for the end, Ctrl-C or the deadline; the last two kill it.
static hs_status wait_for(pid_t pid, const char *name, int *status) {
  u64 end = hs_now_ns() + (u64)DEADLINE_S * 1000000000u;
  for (;;) {
    pid_t r = waitpid(pid, status, WNOHANG);
    if (r == pid) return HS_GOOD;
    if (r < 0 && errno != EINTR) return hs_fail_errno(HS_E_COMPILE, name);
    hs_status s = hs_poll();
    if (hs_ok(s) && hs_now_ns() > end)
      s = hs_fail(HS_E_DEADLINE, "%s did not finish within %d s", name, DEADLINE_S);
    if (!hs_ok(s)) {
      kill(pid, SIGKILL);
      while (waitpid(pid, status, 0) < 0 && errno == EINTR) {}
      return s;
    }
    nanosleep(&(struct timespec){0, 2000000}, NULL);
  }
}

static void read_all(int fd, hs_buf *out) {
  char part[4096];
  ssize_t n;
  for (off_t at = 0; (n = pread(fd, part, sizeof part, at)) > 0; at += n)
    hs_buf_put(out, part, (size_t)n);
}

// Runs it; its output and its errors are appended to *said.
static hs_status run_tool(const char *file, char *const *argv, hs_buf *said) {
  int out = memfd_create("output", MFD_CLOEXEC), status = 0;
  if (out < 0) return hs_fail_errno(HS_E_IO, "memory for the output of a program");
  posix_spawn_file_actions_t fa;
  posix_spawn_file_actions_init(&fa);
  posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&fa, out, 1);
  posix_spawn_file_actions_adddup2(&fa, out, 2);
  pid_t pid;
  int failed = posix_spawn(&pid, file, &fa, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&fa);
  hs_status s = HS_GOOD;
  if (failed) {
    errno = failed;
    s = hs_fail_errno(HS_E_IO, file);
  } else s = wait_for(pid, argv[0], &status);
  read_all(out, said);
  close(out);
  if (!hs_ok(s) || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return s;
  return hs_with_note(hs_fail(HS_E_COMPILE, "%s failed", argv[0]), "%.2000s", hs_buf_cstr(said));
}

// ---- what ptxas says ----------------------------------------------------------------------------

static u64 number_before(const char *line, const char *end, const char *word) {
  const char *p = strstr(line, word);
  if (!p || p >= end) return 0;
  while (p > line && p[-1] == ' ') p--;
  while (p > line && p[-1] >= '0' && p[-1] <= '9') p--;
  return strtoull(p, NULL, 10);
}

// Threads of a block, as the PTX says it of an entry; 0 when it does not.
static u32 threads_of(const char *ptx, const char *name, size_t n) {
  for (const char *p = ptx; (p = strstr(p, ".entry ")) != NULL; p++) {
    const char *at = p + strlen(".entry ");
    if (strncmp(at, name, n) != 0 || (at[n] != '(' && at[n] != ' ' && at[n] != '\n')) continue;
    const char *body = strchr(at, '{');
    for (int k = 0; k < 2; k++) {
      const char *word = k ? ".maxntid " : ".reqntid ", *found = strstr(at, word);
      if (found && (!body || found < body)) return (u32)strtoul(found + strlen(word), NULL, 10);
    }
    return 0;
  }
  return 0;
}

static u32 sm_of(const char *ptx) {
  const char *p = strstr(ptx, ".target sm_");
  return p ? (u32)strtoul(p + strlen(".target sm_"), NULL, 10) : 0;
}

void gpu_read_resources(const char *ptx, const char *said, hs_buf *out) {
  const gpu_target *t = gpu_target_of_sm(sm_of(ptx));
  hs_buf_printf(out, "%-32s %9s %8s %8s %8s %9s\n", "kernel", "registers", "stack", "spills",
                "shared", "occupancy");
  const char *name = NULL;
  size_t n = 0;
  u64 stack = 0, spills = 0;
  for (const char *p = said; *p;) {
    const char *end = p + strcspn(p, "\n"), *entry = strstr(p, "entry function '");
    if (entry && entry < end) {
      name = entry + strlen("entry function '");
      n = strcspn(name, "'\n");
      stack = spills = 0;
    }
    if (name && number_before(p, end, "bytes stack frame"))
      stack = number_before(p, end, "bytes stack frame");
    spills +=
        number_before(p, end, "bytes spill stores") + number_before(p, end, "bytes spill loads");
    const char *used = strstr(p, "Used ");
    if (name && used && used < end) {
      u64 registers = number_before(p, end, "registers"),
          shared = number_before(p, end, "bytes smem");
      u32 threads = threads_of(ptx, name, n);
      hs_buf_printf(out, "%-32.*s %9llu %8llu %8llu %8llu", (int)n, name,
                    (unsigned long long)registers, (unsigned long long)stack,
                    (unsigned long long)spills, (unsigned long long)shared);
      if (t && threads)
        hs_buf_printf(out, " %7.0f %%",
                      100 * gpu_occupancy(t, threads, (u32)registers, (u32)shared));
      hs_buf_putc(out, '\n');
      name = NULL;
    }
    p = end + (*end == '\n');
  }
}

// ---- both ---------------------------------------------------------------------------------------

static hs_status not_found(const char *name) {
  return hs_with_note(hs_fail(HS_E_NOT_BUILT, "%s is not installed", name),
                      "fix: install NVIDIA's CUDA toolkit (a part of it is enough: cuda-nvcc, "
                      "cuda-cuobjdump), or put %s on the PATH; `dump ptx` needs neither",
                      name);
}

static hs_status disassemble(const char *cubin, hs_buf *out) {
  char *tool = find_tool("nvdisasm"), *other = tool ? NULL : find_tool("cuobjdump");
  if (!tool && !other) return not_found("nvdisasm");
  char name[] = "nvdisasm", code[] = "-c", name2[] = "cuobjdump", code2[] = "-sass";
  char *file = hs_strdup(cubin);
  char *const argv[] = {tool ? name : name2, tool ? code : code2, file, NULL};
  hs_status s = run_tool(tool ? tool : other, argv, out);
  hs_free(file);
  hs_free(tool);
  hs_free(other);
  return s;
}

static hs_status assemble_in(const char *dir, const char *ptxas, const char *text, size_t n,
                             bool sass, hs_buf *out) {
  char *ptx = hs_format("%s/kernels.ptx", dir), *cubin = hs_format("%s/kernels.cubin", dir);
  char *arch = hs_format("-arch=sm_%u%s", sm_of(text), strstr(text, ".target sm_90a") ? "a" : "");
  char tool[] = "ptxas", verbose[] = "-v", o[] = "-o";
  char *const argv[] = {tool, arch, verbose, o, cubin, ptx, NULL};
  hs_buf said = {0};
  hs_status s = hs_write_file(ptx, text, n, false);
  if (hs_ok(s)) s = run_tool(ptxas, argv, &said);
  if (hs_ok(s) && sass) s = disassemble(cubin, out);
  else if (hs_ok(s)) gpu_read_resources(text, hs_buf_cstr(&said), out);
  (void)unlink(ptx);
  (void)unlink(cubin);
  hs_buf_free(&said);
  hs_free(ptx);
  hs_free(cubin);
  hs_free(arch);
  return s;
}

hs_status gpu_assemble(const char *text, size_t n, const char *what, hs_buf *out) {
  char *ptxas = find_tool("ptxas");
  if (!ptxas) return not_found("ptxas");
  const char *tmp = getenv("TMPDIR");
  char *dir = hs_format("%s/hlosh-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  hs_status s = mkdtemp(dir) ? HS_GOOD : hs_fail_errno(HS_E_IO, dir);
  if (hs_ok(s)) {
    char *z = hs_format("%.*s", (int)n, text);
    s = assemble_in(dir, ptxas, z, n, strcmp(what, "sass") == 0, out);
    hs_free(z);
    (void)rmdir(dir);
  }
  hs_free(dir);
  hs_free(ptxas);
  return s;
}
