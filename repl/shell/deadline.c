// deadline.c — the deadline of the running command: a timer of the process whose signal sets the
// flag that every long loop polls. See deadline.h.
//
// The signal is SIGALRM, with restarted system calls: the wait for a worker has a deadline of its
// own, and any other call ends by itself. Commands that run in a command (source) share its clock.
#include "repl/shell/deadline.h"

#include <signal.h>
#include <sys/time.h>

#include "repl/shell/session.h"

static void on_alarm(int sig) {
  (void)sig;
  sig_atomic_t none = HS_STOP_NONE;
  __atomic_compare_exchange_n(&repl_interrupt, &none, HS_STOP_DEADLINE, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
}

static void set_timer(double seconds) {
  struct itimerval t = {0};
  t.it_value.tv_sec = (time_t)seconds;
  t.it_value.tv_usec = (suseconds_t)((seconds - (double)t.it_value.tv_sec) * 1e6);
  setitimer(ITIMER_REAL, &t, NULL);
}

void repl_deadline_start(double seconds) {
  if (!(seconds > 0)) return;
  struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  sigemptyset(&sa.sa_mask);
  sigaction(SIGALRM, &sa, NULL);
  set_timer(seconds < 1e-5 ? 1e-5 : seconds);
}

void repl_deadline_stop(void) { set_timer(0); }
