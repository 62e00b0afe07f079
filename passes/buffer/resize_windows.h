// resize_windows.h — the arithmetic of resizing: how slices, pads and windows follow the size of
// what they are applied to. Plain numbers in and out, no module.
#ifndef PASSES_BUFFER_RESIZE_WINDOWS_H
#define PASSES_BUFFER_RESIZE_WINDOWS_H

#include "core/types/attr.h"

i64 resize_slice_size(hlo_slice_dim);
// The slice of a dimension that was `old` long and is `now`: a whole one stays whole, an even part
// stays the same part, one that reaches to the end still does, x[:-k] keeps its distance, anything
// else keeps its place. want: the size it must have, when that is known (else 0). False when no
// slice does.
bool resize_plan_slice(hlo_slice_dim s, i64 old, i64 now, i64 want, hlo_slice_dim *out);

// The size that a padded dimension takes when what is padded is `now` instead of `in` long, and the
// converse; 0: no answer. Pads that complete an even part (the gradient of a slice) grow with it.
i64 resize_padded(hlo_pad_dim p, i64 in, i64 out, i64 now);
i64 resize_unpadded(hlo_pad_dim p, i64 in, i64 out, i64 now);
// The pad between given sizes, before and after; false when there is none.
bool resize_plan_pad(hlo_pad_dim p, i64 in, i64 in_now, i64 out, i64 out_now, hlo_pad_dim *to);

// How many windows a dimension has.
i64 resize_windows(hlo_window_dim w, i64 in);
// The window when the dimension changes: one that covered all of it still does, with `follows`;
// then pads of its length less one (a cumulative sum) follow too.
hlo_window_dim resize_plan_window(hlo_window_dim w, i64 old, i64 now, bool follows);
// The dimension that gives `now` windows where `in` gave `out`; 0: none.
i64 resize_under(hlo_window_dim w, i64 in, i64 out, i64 now, bool follows);

#endif
