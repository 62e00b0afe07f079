// between.h: ratios that were measured here before, and what they say of those measured now
// (profiler/between.h). They are kept beside the calibration of this machine.
#ifndef REPL_MEASURE_BETWEEN_H
#define REPL_MEASURE_BETWEEN_H

#include "repl/measure/subject.h"

// Keeps the ratios of the first `n` subjects of a comparison that was measured whole, and makes
// their intervals and its width as much wider as earlier measurements ask for. Where nothing can be
// kept a note says so.
void between_take(repl_cmd *, comparison *, u32 n, double until);
void between_say(repl_cmd *, const comparison *);  // a line for people
void between_json(repl_json *noise, const comparison *);

#endif
