// sha256.h — SHA-256 (FIPS 180-4), for the list of files of a bundle: `sha256sum -c` checks it.
#ifndef REPL_SHA256_H
#define REPL_SHA256_H

#include "core/base/base.h"

// The hash of n bytes as 64 hexadecimal digits and a NUL.
void repl_sha256(const void *p, size_t n, char out[65]);

#endif
