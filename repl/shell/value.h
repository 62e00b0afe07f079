// value.h — looking at the values of a run: parts of arrays, figures, histograms, pictures made
// of characters.
#ifndef REPL_VALUE_H
#define REPL_VALUE_H

#include "core/types/stats.h"
#include "repl/shell/command.h"

// True when an argument of `print` asks for a value: "NAME[...]", "NAME{1}", or a name with
// --stats, --hist, --heat.
bool repl_asks_for_value(const repl_cmd *);
// Prints that value, its part, figures or picture; evaluates it when the last run did not keep it.
hs_status repl_print_value(repl_cmd *);

// The part of an array that a Python index picks: "0:4, :, -1, ..., ::2". Integers drop their
// dimension. E_USAGE says what is wrong with the text. *out is a new array, the caller's
// reference.
hs_status repl_slice(hlo_ctx *, const hlo_literal *array, const char *index, hlo_literal **out);

// Text pictures. unicode: block characters, else ASCII; color: 256-colour escapes.
void repl_draw_histogram(hs_buf *, const hlo_literal *, const hlo_stats *, u32 bins, bool unicode);
void repl_draw_heat(hs_buf *, const hlo_literal *matrix, const hlo_stats *, u32 columns, u32 rows,
                    bool unicode, bool color);

#endif
