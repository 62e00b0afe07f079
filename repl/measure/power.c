// power.c — energy, clock and the reasons for a low clock of a device. See power.h.
#include "repl/measure/power.h"

#include <math.h>
#include <stdio.h>

const char *power_joules(char buf[32], double j) {
  (void)snprintf(buf, 32, j < 0.9995 ? "%.3g mJ" : "%.4g J", j < 0.9995 ? 1e3 * j : j);
  return buf;
}

const char *power_text(char buf[64], const backend_power *p) {
  char j[32];
  double joules = backend_power_of_run(p);
  if (joules < 0) return "not readable";
  (void)snprintf(buf, 64, "%s +-%.0f %%", power_joules(j, joules), 100 * backend_power_error(p));
  return buf;
}

void power_say_slowed(repl_cmd *c, const char *who, const backend_power *p) {
  if (!(p->seconds > 0) || !*p->slowed) return;
  char at[48] = "";
  if (p->mhz) (void)snprintf(at, sizeof at, ", %u MHz behind the runs", p->mhz);
  repl_say(c->out, "  %s%sthe device's clock was lowered: %s%s\n", who, *who ? ": " : "", p->slowed,
           at);
}

void power_json(repl_json *j, const backend_power *p) {
  if (!(p->seconds > 0)) return;
  double joules = backend_power_of_run(p);
  repl_json_num(j, "joules_error", joules < 0 ? NAN : backend_power_error(p));
  if (p->mhz) repl_json_int(j, "device_mhz", p->mhz);
  else repl_json_null(j, "device_mhz");
  repl_json_str(j, "slowed", p->slowed);
}
