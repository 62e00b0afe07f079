// render.c — DOT text to a picture, by Graphviz in a child process.
//
// Graphviz may be missing, crash, or not terminate on some graphs; the shell must survive that. The
// child reads the text from and writes the picture to anonymous memory files, so no pipe can fill
// up and block; the parent waits with a deadline, polls for Ctrl-C, and kills the child's process
// group on either.
#include "viz/explore_model.h"
#include "viz/viz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"

const char *viz_format_of(const char *path) {
  static const char *const known[] = {"svg", "png", "pdf", "dot", "ps", "eps", "jpg", "gif"};
  const char *dot = strrchr(path, '.');
  for (size_t k = 0; dot && k < HS_COUNT(known); k++)
    if (strcmp(dot + 1, known[k]) == 0) return known[k];
  return NULL;
}

bool viz_have_graphviz(void) { return hs_has_program("dot"); }

// ---- the child ----------------------------------------------------------------------------------
static void child(int in, int out, int err, int report, const char *format, pid_t parent) {
  char arg[16];
  snprintf(arg, sizeof arg, "-T%s", format);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGINT, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  dup2(in, 0), dup2(out, 1), dup2(err, 2);
  execlp("dot", "dot", arg, (char *)NULL);
  int e = errno;
  ssize_t ignored = write(report, &e, sizeof e);
  (void)ignored;
  _exit(127);
}

// Waits until the child ends, the deadline passes or Ctrl-C comes; kills it in the latter two.
static hs_status wait_child(pid_t pid, double deadline_s, int *status) {
  u64 end = hs_now_ns() + (u64)(deadline_s * 1e9);
  long nap_ns = 1000000;
  for (;;) {
    pid_t r = waitpid(pid, status, WNOHANG);
    if (r == pid) return HS_GOOD;
    if (r < 0 && errno != EINTR) return hs_fail_errno(HS_E_RENDER, "waiting for dot");
    bool late = hs_now_ns() > end;
    if (late || hs_interrupted()) {
      kill(-pid, SIGKILL);
      kill(pid, SIGKILL);
      while (waitpid(pid, status, 0) < 0 && errno == EINTR) {}
      if (!late) return hs_poll();
      return hs_with_note(
          hs_fail(HS_E_RENDER, "Graphviz did not finish within %.3g s and was stopped", deadline_s),
          "draw less (a width, a computation, --max-nodes), or write a .dot file and run Graphviz "
          "by hand");
    }
    nanosleep(&(struct timespec){0, nap_ns}, NULL);
    if (nap_ns < 20000000) nap_ns += nap_ns / 2;
  }
}
static hs_status read_back(int fd, hs_buf *b) {
  char chunk[65536];
  off_t at = 0;
  ssize_t k;
  while ((k = pread(fd, chunk, sizeof chunk, at)) > 0) hs_buf_put(b, chunk, (size_t)k), at += k;
  return k < 0 ? hs_fail_errno(HS_E_RENDER, "reading the picture") : HS_GOOD;
}
static hs_status judge(int status, int exec_errno, int err) {
  if (exec_errno == ENOENT || exec_errno == EACCES)
    return hs_with_note(
        hs_fail(HS_E_RENDER, "Graphviz is not installed: there is no program dot in PATH"),
        "install it (apt-get install graphviz), or write a .dot file, which needs no Graphviz");
  if (exec_errno) return errno = exec_errno, hs_fail_errno(HS_E_RENDER, "starting dot");
  if (WIFSIGNALED(status))
    return hs_with_note(hs_fail(HS_E_RENDER, "Graphviz was killed by signal %d (%s)",
                                WTERMSIG(status), strsignal(WTERMSIG(status))),
                        "draw less, or write a .dot file and try another version of Graphviz");
  if (WEXITSTATUS(status) == 0) return HS_GOOD;
  char text[400] = "";
  ssize_t n = pread(err, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = 0;
  text[strcspn(text, "\n")] = 0;
  return hs_with_note(hs_fail(HS_E_RENDER, "Graphviz failed with exit code %d: %s",
                              WEXITSTATUS(status), *text ? text : "it gave no reason"),
                      "a .dot file can still be written");
}

hs_status viz_run_dot(const char *dot, size_t n, const char *format, double deadline_s,
                      hs_buf *picture) {
  int in = memfd_create("dot-in", MFD_CLOEXEC), out = memfd_create("dot-out", MFD_CLOEXEC),
      err = memfd_create("dot-err", MFD_CLOEXEC), report[2] = {-1, -1};
  hs_status s =
      in < 0 || out < 0 || err < 0 || pipe2(report, O_CLOEXEC) != 0 || !hs_write_all(in, dot, n)
          ? hs_fail_errno(HS_E_RENDER, "preparing to run dot")
          : HS_GOOD;
  pid_t pid = -1, self = getpid();
  if (hs_ok(s)) {
    lseek(in, 0, SEEK_SET);
    pid = fork();
    if (pid == 0) child(in, out, err, report[1], format, self);
    if (pid < 0) s = hs_fail_errno(HS_E_RENDER, "starting dot");
  }
  if (pid > 0) {
    int status = 0, exec_errno = 0;
    setpgid(pid, pid);
    close(report[1]), report[1] = -1;
    s = wait_child(pid, deadline_s, &status);
    if (hs_ok(s) && read(report[0], &exec_errno, sizeof exec_errno) != (ssize_t)sizeof exec_errno)
      exec_errno = 0;
    if (hs_ok(s)) s = judge(status, exec_errno, err);
    if (hs_ok(s)) s = read_back(out, picture);
    if (hs_ok(s) && picture->n == 0) s = hs_fail(HS_E_RENDER, "Graphviz wrote nothing");
  }
  int fds[] = {in, out, err, report[0], report[1]};
  for (size_t k = 0; k < HS_COUNT(fds); k++)
    if (fds[k] >= 0) close(fds[k]);
  return s;
}

hs_status viz_render(const char *dot, size_t n, const char *path, double deadline_s) {
  const char *format = viz_format_of(path);
  struct stat st;
  // a device or a pipe
  if (!format && stat(path, &st) == 0 && !S_ISREG(st.st_mode)) format = "dot";
  if (!format)
    return hs_fail(
        HS_E_USAGE,
        "\"%s\" has no known extension: it must end in .svg, .png, .pdf, .html, .json or .dot",
        path);
  if (strcmp(format, "dot") == 0) return hs_write_file(path, dot, n, false);
  hs_buf picture = {0};
  hs_status s = viz_run_dot(dot, n, format, deadline_s > 0 ? deadline_s : 30, &picture);
  if (hs_ok(s)) s = hs_write_file(path, picture.p, picture.n, false);
  hs_buf_free(&picture);
  return s;
}
