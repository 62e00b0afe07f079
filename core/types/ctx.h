// ctx.h — the session context: owner of interned strings and shapes. Modules of one context share
// them, so that shapes of two modules compare by pointer. One thread at a time edits a context;
// reading needs no lock.
#ifndef HLO_CTX_H
#define HLO_CTX_H

#include "core/types/shape.h"

hlo_ctx *hlo_ctx_new(void);
// Whether an array of this type, one without elements, was ever seen: false says that no module has
// one.
bool hlo_ctx_has_dtype(const hlo_ctx *, hlo_dtype);
bool hlo_ctx_has_empty(const hlo_ctx *);
void hlo_ctx_free(hlo_ctx *);  // after every module of it is freed
// The interned copy: equal strings give the same pointer; NUL-terminated.
const char *hlo_intern(hlo_ctx *, const char *s, size_t n);
// tells whether nobody had interned it before
const char *hlo_intern_fresh(hlo_ctx *, const char *s, size_t n, bool *fresh);
// room for so many more strings, before reading a large text
void hlo_ctx_reserve(hlo_ctx *, size_t strings);
const char *hlo_intern_str(hlo_ctx *, const char *s);
hs_arena *hlo_ctx_arena(hlo_ctx *);  // lives as long as the context
// What modules and scratch arenas of this context take large blocks from, and give them back to.
hs_arena_pool *hlo_ctx_pool(hlo_ctx *);

#endif
