// tuning.c — schedules by hand: their text, and the attribute that holds it (tuning.h).
#include "core/analysis/tuning.h"

#include <stddef.h>

const hlo_tuning_row hlo_tuning_rows[HLO_TUNING_ROWS] = {
#define TUNE(name, least, most, power, meaning) \
  {#name, meaning, least, most, power, offsetof(hlo_tuning, name)},
#include "core/analysis/tuning.def"
#undef TUNE
};

i32 *hlo_tuning_field(hlo_tuning *t, const hlo_tuning_row *r) {
  return (i32 *)(void *)((char *)t + r->at);
}

hlo_tuning hlo_tuning_none(void) {
  hlo_tuning t;
  for (u32 k = 0; k < HLO_TUNING_ROWS; k++) *hlo_tuning_field(&t, &hlo_tuning_rows[k]) = -1;
  return t;
}

static const hlo_tuning_row *row_of(hs_str name) {
  for (u32 k = 0; k < HLO_TUNING_ROWS; k++)
    if (hs_str_eq(name, hs_str_of(hlo_tuning_rows[k].name))) return &hlo_tuning_rows[k];
  return NULL;
}

// One "name=number".
static hs_status read_one(hs_str text, hlo_tuning *t) {
  const char *eq = memchr(text.p, '=', text.n);
  const hlo_tuning_row *r = eq ? row_of((hs_str){text.p, (u32)(eq - text.p)}) : NULL;
  if (!r) {
    hs_buf names = {0};
    for (u32 k = 0; k < HLO_TUNING_ROWS; k++)
      hs_buf_printf(&names, "%s%s=N", k ? ", " : "", hlo_tuning_rows[k].name);
    hs_status s = hs_fail(HS_E_USAGE, "a schedule by hand says %s, not \"%.*s\"",
                          hs_buf_cstr(&names), (int)text.n, text.p);
    hs_buf_free(&names);
    return s;
  }
  i64 v = 0;
  const char *p = eq + 1, *end = text.p + text.n;
  bool digits = p < end;
  for (; p < end; p++) digits &= *p >= '0' && *p <= '9', v = HS_MIN(v * 10 + (*p - '0'), 1 << 20);
  if (!digits || v < r->least || v > r->most || (r->power && v != r->least && (v & (v - 1))))
    return hs_fail(HS_E_USAGE, "%s is %sa number from %d to %d (%s), not \"%.*s\"", r->name,
                   r->power ? "a power of two, " : "", r->least, r->most, r->meaning,
                   (int)(end - eq - 1), eq + 1);
  *hlo_tuning_field(t, r) = (i32)v;
  return HS_GOOD;
}

hs_status hlo_tuning_read(hs_str text, hlo_tuning *t) {
  while (text.n) {
    const char *comma = memchr(text.p, ',', text.n);
    u32 n = comma ? (u32)(comma - text.p) : (u32)text.n;
    HS_TRY(read_one((hs_str){text.p, n}, t));
    n += comma != NULL;
    text = (hs_str){text.p + n, text.n - n};
  }
  return HS_GOOD;
}

hs_status hlo_tuning_of(const hlo_instr *i, hlo_tuning *out) {
  *out = hlo_tuning_none();
  const hs_str *text =
      hlo_frontend_find(hlo_attr_get(i, HLO_ATTR_FRONTEND_ATTRIBUTES), HLO_TUNING_KEY);
  return text ? hlo_tuning_read(*text, out) : HS_GOOD;
}

bool hlo_tuning_write(const hlo_tuning *t, hs_buf *b) {
  bool any = false;
  for (u32 k = 0; k < HLO_TUNING_ROWS; k++) {
    i32 v = *hlo_tuning_field((hlo_tuning *)(uintptr_t)t, &hlo_tuning_rows[k]);
    if (v < 0) continue;
    if (b) hs_buf_printf(b, "%s%s=%d", any ? "," : "", hlo_tuning_rows[k].name, v);
    any = true;
  }
  return any;
}

void hlo_tuning_set(hlo_instr *i, const hlo_tuning *t) {
  hs_buf text = {0};
  (void)hlo_tuning_write(t, &text);
  hlo_set_frontend(i, HLO_TUNING_KEY, (hs_str){hs_buf_cstr(&text), text.n});
  hs_buf_free(&text);
}
