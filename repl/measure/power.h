// power.h — what the runs of a program took from a device, in words and in JSON: `speedup`,
// `versus`, `profile`.
#ifndef REPL_MEASURE_POWER_H
#define REPL_MEASURE_POWER_H

#include "repl/cmd/cmd.h"

// "12.3 mJ", "1.234 J".
const char *power_joules(char buf[32], double joules);
// Of one run, with what the counter's delay may be in it: "12.3 mJ +-10 %"; "not readable" after
// runs that were too short for the counter, and where there is none.
const char *power_text(char buf[64], const backend_power *);
// A line that says why the device's clock was lower than it could be; none where no reason is
// known. who: the program, "" for the only one.
void power_say_slowed(repl_cmd *, const char *who, const backend_power *);
// What only a device with a counter has: joules_error, device_mhz, slowed.
void power_json(repl_json *, const backend_power *);

#endif
