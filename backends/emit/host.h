// host.h — inside of backends/emit: this machine's processor, as far as code depends on it.
#ifndef EMIT_HOST_H
#define EMIT_HOST_H

#include "core/base/base.h"

u32 emit_vector_bytes(void);  // of this machine's widest registers worth using
i64 emit_cache_bytes(void);   // of this machine's last cache; 0: not known
// Appends what LLVM and which processor code is for: equal bytes, and code of one process is code
// of another.
void emit_host_identity(hs_buf *);

#endif
