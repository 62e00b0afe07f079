// tune.h — the search for a schedule by hand that is faster than the one chosen.
#ifndef REPL_MEASURE_TUNE_H
#define REPL_MEASURE_TUNE_H

#include "core/analysis/tuning.h"
#include "repl/shell/command.h"

typedef struct tune_result {
  u32 tried;                  // schedules that were timed, the chosen one among them
  bool faster;                // `best` is faster than the chosen one, beyond doubt
  hlo_tuning best;            // nothing is said where none is faster
  double chosen_ms, best_ms;  // a run of the instruction alone; medians of the last comparison
} tune_result;

// Times the instruction alone, on random operands, under one schedule after the other for about
// `seconds`: each row of tuning.def in turn is put through its values with the others at their best
// so far, and what changes nothing in the schedule is not timed. The best is then compared with the
// chosen one by turns. E_INTERRUPTED; what the backend says of a kernel that it cannot do.
hs_status tune_search(repl_cmd *, hlo_instr *, double seconds, tune_result *out);

// Appends the lines of `dump schedule` (its text) that tell of the instruction: its kernel, and the
// loops of that without their values. E_UNSUPPORTED when there are none.
hs_status tune_schedule_of(const hlo_instr *, const char *dump, hs_buf *out);

#endif
