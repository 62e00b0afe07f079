// xla.h: what the commands on real XLA share with each other.
#ifndef REPL_XLA_H
#define REPL_XLA_H

#include "repl/cmd/cmd.h"

// `xla disable`, `xla enable`, `xla disabled`: which of the plug-in's passes are left out.
hs_status xla_choose_passes(repl_cmd *, const char *verb);

#endif
