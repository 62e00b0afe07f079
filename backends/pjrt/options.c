// options.c — xla.CompileOptionsProto, written field by field.
//
// Field 3 is the build options: device ordinal (1), replicas (4) and partitions (5), SPMD (6),
// backend only (11), Shardy (19). Replicas and partitions are required: plug-ins abort
// without them. Debug options (field 3 of the build options) are never sent, because a
// partial message replaces every default; flags are sent one by one as env_option_overrides (field
// 7), which are applied on top of the defaults and refused by name when unknown.
#include <stdlib.h>

#include "backends/pjrt/pjrt.h"
#include "core/proto/wire.h"

// OptionOverrideProto: 1 string, 2 bool, 3 int64, 4 double. Plug-ins parse strings for flags of any
// type but not the other way round, so only "true" and "false" are sent as a bool.
static void put_flag(hs_buf *b, const backend_flag *f) {
  size_t entry = pb_begin(b);
  pb_put_bytes(b, 1, f->name, strlen(f->name));
  size_t value = pb_begin(b);
  if (!strcmp(f->value, "true") || !strcmp(f->value, "false"))
    pb_put_int_always(b, 2, f->value[0] == 't');
  else {
    pb_put_tag(b, 1, 2);
    pb_put_varint(b, strlen(f->value));
    hs_buf_puts(b, f->value);
  }
  pb_end(b, 2, value);
  pb_end(b, 7, entry);
}

void pjrt_options(hs_buf *b, const pjrt_ready *m, bool backend_only, u32 nflags,
                  const backend_flag *flags) {
  size_t build = pb_begin(b);
  pb_put_int_always(b, 1, -1);
  pb_put_int_always(b, 4, m->replicas);
  pb_put_int_always(b, 5, m->partitions);
  pb_put_int(b, 6, m->partitions > 1);
  pb_put_int(b, 11, backend_only);
  pb_put_int(b, 19, m->shardy);
  pb_end(b, 3, build);
  for (u32 k = 0; k < nflags; k++) put_flag(b, &flags[k]);
}
