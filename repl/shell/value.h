// value.h — looking at the values of a run: as text and JSON, parts of arrays, figures,
// histograms, pictures made of characters.
#ifndef REPL_VALUE_H
#define REPL_VALUE_H

#include "core/types/stats.h"
#include "repl/shell/command.h"

// One element: a floating-point number with this many digits, an integer with all of its own, a
// complex number as 1+2i. In JSON a complex number is an array of both parts, and what is not
// finite null.
void repl_print_element(hs_buf *, const hlo_literal *, i64 at, int digits);
void repl_json_element(repl_json *parent, const char *key, const hlo_literal *, i64 at);
// A value as text and as JSON. Text: "f32[2,3] {...}" with at most `limit` elements, and a summary
// (min, max, mean, NaN count) when cut; "f32[<=2,3](1,3) {...}" with the sizes in use of an array
// with dynamic dimensions, and the elements within.
void repl_say_literal(repl_out *, hlo_ctx *, const char *name, const hlo_literal *, i64 limit);
void repl_json_literal(repl_json *parent, hlo_ctx *, const char *key, const hlo_literal *,
                       i64 limit);

// The part of an array that a Python index picks: "0:4, :, -1, ..., ::2". Integers drop their
// dimension. E_USAGE says what is wrong with the text. *out is a new array, the caller's
// reference.
hs_status repl_slice(hlo_ctx *, const hlo_literal *array, const char *index, hlo_literal **out);

// Text pictures. unicode: block characters, else ASCII; color: 256-colour escapes.
void repl_draw_histogram(hs_buf *, const hlo_literal *, const hlo_stats *, u32 bins, bool unicode);
void repl_draw_heat(hs_buf *, const hlo_literal *matrix, const hlo_stats *, u32 columns, u32 rows,
                    bool unicode, bool color);

#endif
