// tuning.h — schedules by hand: what a user wants of the loops of one instruction.
//
// They stand in the instruction's frontend attributes, under "hlosh.schedule", as in
// frontend_attributes={hlosh.schedule="lanes=8,chunks=4"}: so they are part of the module, travel
// with it through files, versions, undo and bundles, and compilers that do not know them let them
// pass. A CPU's schedule (backends/emit) obeys them where they apply to the loops it makes.
#ifndef HLO_TUNING_H
#define HLO_TUNING_H

#include "core/ir/ir.h"

#define HLO_TUNING_KEY "hlosh.schedule"

// One field for each row of tuning.def; -1: the schedule chooses.
typedef struct hlo_tuning {
#define TUNE(name, least, most, power, meaning) i32 name;
#include "core/analysis/tuning.def"
#undef TUNE
} hlo_tuning;

typedef struct hlo_tuning_row {
  const char *name, *meaning;
  i32 least, most;
  bool power;
  size_t at;  // the field's offset
} hlo_tuning_row;
#define HLO_TUNING_ROWS 6u
extern const hlo_tuning_row hlo_tuning_rows[HLO_TUNING_ROWS];

i32 *hlo_tuning_field(hlo_tuning *, const hlo_tuning_row *);
hlo_tuning hlo_tuning_none(void);
// What the instruction's attribute says; nothing where there is none. E_USAGE for what is not
// understood.
hs_status hlo_tuning_of(const hlo_instr *, hlo_tuning *out);
// Reads "lanes=8,chunks=4" over what *t says already. E_USAGE names what is wrong.
hs_status hlo_tuning_read(hs_str text, hlo_tuning *t);
// Whether anything is said; its text is appended (may be NULL).
bool hlo_tuning_write(const hlo_tuning *, hs_buf *);
// Sets the instruction's attribute; other frontend attributes stay. Nothing said: it is removed.
void hlo_tuning_set(hlo_instr *, const hlo_tuning *);

#endif
