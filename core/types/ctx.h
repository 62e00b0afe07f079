// ctx.h — the session context: owner of interned strings and shapes. Modules of one context share
// them, so that shapes of two modules compare by pointer. One thread at a time edits a context;
// reading needs no lock.
#ifndef HLO_CTX_H
#define HLO_CTX_H

#include "core/types/shape.h"

// An empty context; the caller frees it.
hlo_ctx *hlo_ctx_new(void);
// After every module of it is freed. NULL is allowed.
void hlo_ctx_free(hlo_ctx *);
// Memory that lives as long as the context.
hs_arena *hlo_ctx_arena(hlo_ctx *);
// What modules and scratch arenas of this context take large blocks from, and give them back to.
hs_arena_pool *hlo_ctx_pool(hlo_ctx *);

// How many bytes of one file may be loaded into memory, unpacked; 0 sets the default of
// hs_load_limit_default.
size_t hlo_ctx_load_limit(const hlo_ctx *);
void hlo_ctx_set_load_limit(hlo_ctx *, size_t bytes);

// Whether an array of this type, or one without elements, was ever seen: false says that no module
// of the context has one.
bool hlo_ctx_has_dtype(const hlo_ctx *, hlo_dtype);
bool hlo_ctx_has_empty(const hlo_ctx *);

// The interned copy of n bytes: equal strings give the same pointer; NUL-terminated.
const char *hlo_intern(hlo_ctx *, const char *s, size_t n);
// The same; *fresh tells whether nobody had interned the string before.
const char *hlo_intern_fresh(hlo_ctx *, const char *s, size_t n, bool *fresh);
// hlo_intern for a NUL-terminated string.
const char *hlo_intern_str(hlo_ctx *, const char *s);

#endif
