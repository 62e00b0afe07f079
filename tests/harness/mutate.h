// mutate.h — changes to texts and protos that keep most of their structure, so that what they
// make gets past the reader and into the rooms behind it. A state of 64 bits decides: the same
// state and the same input give the same output for ever.
#ifndef TESTS_HARNESS_MUTATE_H
#define TESTS_HARNESS_MUTATE_H

#include "core/base/base.h"

u64 mutate_next(u64 *state);
// Uniform in [0, n); 0 for n = 0.
size_t mutate_below(u64 *state, size_t n);

// HLO text, `edits` changes to tokens, instructions and lines; `other` (may be NULL): a module from
// which lines and attributes are taken.
void mutate_text(u64 *state, hs_buf *text, const char *other, size_t nother, u32 edits);
// A serialized module in any of its forms, `edits` changes to fields by the schema; other (may be
// NULL): a proto from which fields are taken. Bytes that are none of the forms are changed as
// bytes.
void mutate_proto(u64 *state, hs_buf *bytes, const char *other, size_t nother, u32 edits);
// Any bytes: bits, words, pieces.
void mutate_bytes(u64 *state, hs_buf *bytes);

// The bytes [at, at + n) of the buffer become the m bytes at p, which may not lie in the buffer.
void mutate_replace(hs_buf *, size_t at, size_t n, const char *p, size_t m);

#endif
