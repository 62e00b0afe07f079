// sizes.h: speedup --sweep=PARAM.DIM=SIZES: the same comparison for several sizes of a dimension.
#ifndef REPL_MEASURE_SIZES_H
#define REPL_MEASURE_SIZES_H

#include "repl/measure/subject.h"

// device: estimate for it; NULL: measure, for the seconds of the options per size.
hs_status sweep_sizes(repl_cmd *, const char *pipeline, const prof_device *device,
                      const prof_trial_options *);

#endif
