// kind.c — the table of kernel kinds, by number. See kind.h. A file of its own, because the
// printing of nests needs the names and everything else in the emitter needs nests.
#include "backends/emit/nest/kind.h"

static const struct {
  const char *name;
  bool in_place;
} kinds[] = {
#define EMIT_KIND(id, name, in_place) [id] = {name, in_place},
    EMIT_KINDS(EMIT_KIND)
#undef EMIT_KIND
};

const char *emit_kind_name(emit_kind k) { return kinds[k].name; }
bool emit_kind_in_place(emit_kind k) { return kinds[k].in_place; }
