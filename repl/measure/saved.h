// saved.h: what `speedup` measured, in a file, and a later measurement against it.
#ifndef REPL_MEASURE_SAVED_H
#define REPL_MEASURE_SAVED_H

#include "repl/measure/subject.h"

// Writes the rows that did not fail, with their rounds, and what they were measured on.
// E_NOT_BUILT without the JSON library, E_IO.
hs_status saved_write(repl_cmd *, const char *file, const comparison *, const char *pipeline);

typedef struct saved saved;
// Reads such a file: E_INPUT when it is none.
hs_status saved_read(const char *file, saved **out);
void saved_free(saved *);  // NULL is fine
// Says what is different about the machine and the versions, then, for each row that is in both,
// how many times as fast it is now.
void saved_compare(repl_cmd *, const saved *, const comparison *, const char *pipeline);

// Ratios that were measured here before, and what they say of those measured now (stats.h).
// They are kept beside the calibration of this machine.
//
// Keeps the ratios of the first `n` subjects of a comparison that was measured whole, and makes
// their intervals and its width as much wider as earlier measurements ask for. Where nothing can be
// kept a note says so.
void between_take(repl_cmd *, comparison *, u32 n, double until);
void between_say(repl_cmd *, const comparison *);  // a line for people
void between_json(repl_json *noise, const comparison *);

#endif
