// resize_windows.c — slices, pads and windows that follow a size. See resize_windows.h.
#include "passes/buffer/resize_windows.h"

// ---- slices -------------------------------------------------------------------------------------

i64 resize_slice_size(hlo_slice_dim s) { return (s.limit - s.start + s.stride - 1) / s.stride; }

// a * now / old where that is whole; -1 where it is not, or too large.
static i64 scaled(i64 a, i64 now, i64 old) {
  i128 product = (i128)a * now;
  return old > 0 && product % old == 0 && product / old <= INT64_MAX ? (i64)(product / old) : -1;
}

static bool fits(hlo_slice_dim s, i64 size, i64 want) {
  return s.start >= 0 && s.limit >= s.start && s.limit <= size &&
         (!want || resize_slice_size(s) == want);
}

// Whether a part of `old` elements from `start` on is one of equal parts, of more than one element.
static bool even_part(i64 start, i64 length, i64 old) {
  return length > 1 && old % length == 0 && start % length == 0;
}

bool resize_plan_slice(hlo_slice_dim s, i64 old, i64 now, i64 want, hlo_slice_dim *out) {
  i64 length = s.limit - s.start, by = now - old;
  hlo_slice_dim whole = {s.start, now, s.stride}, part = s, end = {s.start, s.limit + by, s.stride},
                moved = {s.start + by, s.limit + by, s.stride},
                grown = {s.start, s.start + (want - 1) * s.stride + 1, s.stride};
  part.start = scaled(s.start, now, old);
  part.limit = scaled(s.limit, now, old);
  bool even = even_part(s.start, length, old) && part.start >= 0 && part.limit >= 0;
  bool is_whole = s.start == 0 && s.limit == old, to_end = s.limit == old;
  // in the order in which they are preferred, and when
  const struct {
    bool when;
    hlo_slice_dim slice;
  } plans[] = {{is_whole, whole},
               {even, part},
               {to_end && 2 * s.start <= old, whole},
               {to_end, moved},
               {2 * length > old, end},
               {true, s},
               {want > 0, end},
               {want > 0, grown}};
  for (size_t k = 0; k < HS_COUNT(plans); k++)
    if (plans[k].when && fits(plans[k].slice, now, want)) {
      *out = plans[k].slice;
      return true;
    }
  return false;
}

// ---- pads ---------------------------------------------------------------------------------------

static i64 padded(hlo_pad_dim p, i64 in) {
  return p.low + p.high + in + (in > 1 ? (in - 1) * p.interior : 0);
}

// Whether the pads make a whole of which the operand is one of several equal parts.
static bool completes(hlo_pad_dim p, i64 in, i64 out) {
  return !p.interior && p.low >= 0 && p.high >= 0 && p.low + p.high >= in &&
         even_part(p.low, in, out);
}

i64 resize_padded(hlo_pad_dim p, i64 in, i64 out, i64 now) {
  return completes(p, in, out) ? HS_MAX(scaled(out, now, in), (i64)0) : padded(p, now);
}

i64 resize_unpadded(hlo_pad_dim p, i64 in, i64 out, i64 now) {
  if (completes(p, in, out)) return HS_MAX(scaled(in, now, out), (i64)0);
  if (p.low + p.high >= in) return 0;  // mostly padding: the pads take it up
  i64 rest = now - p.low - p.high + p.interior, step = 1 + p.interior;
  return rest > 0 && rest % step == 0 ? rest / step : 0;
}

bool resize_plan_pad(hlo_pad_dim p, i64 in, i64 in_now, i64 out, i64 out_now, hlo_pad_dim *to) {
  i64 by = out_now - padded(p, in_now);
  *to = p;
  if (!by) return true;
  if (completes(p, in, out)) {
    to->low = scaled(p.low, out_now, out);
    to->high = scaled(p.high, out_now, out);
    if (to->low >= 0 && to->high >= 0 && padded(*to, in_now) == out_now) return true;
    *to = p;
  }
  if (p.low > 0 && p.high <= 0) to->low += by;
  else to->high += by;
  return to->low + to->high + in_now >= 0;
}

// ---- windows ------------------------------------------------------------------------------------

i64 resize_windows(hlo_window_dim w, i64 in) {
  i64 wide = in > 0 ? (in - 1) * HS_MAX(w.lhs_dilate, (i64)1) + 1 : 0;
  i64 size = (w.size - 1) * HS_MAX(w.rhs_dilate, (i64)1) + 1;
  wide += w.pad_low + w.pad_high;
  return wide < size ? 0 : (wide - size) / HS_MAX(w.stride, (i64)1) + 1;
}

hlo_window_dim resize_plan_window(hlo_window_dim w, i64 old, i64 now, bool follows) {
  if (!follows || w.size != old || old <= 1) return w;
  w.size = now;
  if (w.pad_low == old - 1) w.pad_low = now - 1;
  if (w.pad_high == old - 1) w.pad_high = now - 1;
  return w;
}

i64 resize_under(hlo_window_dim w, i64 in, i64 out, i64 now, bool follows) {
  i64 guess[] = {now, in + (now - out) * w.stride / HS_MAX(w.lhs_dilate, (i64)1)};
  for (size_t k = in == out ? 0 : 1; k < HS_COUNT(guess); k++)
    if (guess[k] > 0 &&
        resize_windows(resize_plan_window(w, in, guess[k], follows), guess[k]) == now)
      return guess[k];
  return 0;
}
