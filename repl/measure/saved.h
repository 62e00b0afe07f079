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

#endif
