// journal.c — HLOSH_JOURNAL=DIR: each compiled module as it was sent (NNNN_NAME.mlirbc or
// .hlo.pb), and a session that loads it (NNNN_NAME.hlosh), to be opened later by
// hlosh -f DIR/0003_jit_f.hlosh.
#include "plugin/plugin.h"

#include "core/base/file.h"
#include "core/base/scan.h"
#include "core/mlir/mlir.h"
#include "core/proto/proto.h"

#include <sys/stat.h>
#include <unistd.h>

// What is fit for a file's name of the module's.
static void plain_name(const char *name, char *out, size_t room) {
  size_t n = 0;
  for (; *name && n + 1 < room; name++)
    out[n++] = hlo_is_ch(*name, HLO_CH_IDENT) && *name != '/' ? *name : '_';
  out[n] = 0;
}

void plug_journal(pj_client *c, const hlo_module *m, const char *source, size_t n) {
  if (!c->journal) return;
  (void)mkdir(c->journal, 0777);
  u32 serial = atomic_fetch_add(&c->serial, 1);
  char name[80];
  plain_name(m->name, name, sizeof name);
  const char *ending = hlo_is_mlir(source, n) ? "mlirbc" : "hlo.pb";
  char *path = hs_format("%s/%04u_%s.%s", c->journal, serial, name, ending);
  char *script = hs_format("%s/%04u_%s.hlosh", c->journal, serial, name);
  char *text = hs_format("# compiled by process %ld\nload %s\n", (long)getpid(), path);
  hs_status_drop(hs_write_file(path, source, n, false));
  hs_status_drop(hs_write_file(script, text, strlen(text), false));
  hs_free(path);
  hs_free(script);
  hs_free(text);
}
