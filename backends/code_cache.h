// code_cache.h — object code on disk, for the next process that compiles the same module.
//
// Shell side: a worker may be confined and opens no file. A compile request gets the bytes that are
// here, and its answer brings those to put here; what they mean is the worker's business
// (emit_code), which compares each part with what it was going to compile before it takes it.
//
// An entry is a file, named by a digest of all that went into it. Files are written beside their
// place and renamed into it, so that processes which share the folder see whole entries only. Each
// has a checksum: a damaged one counts as absent, is removed, and is named. Together they take no
// more than a limit: those go first that were used longest ago.
#ifndef BACKEND_CODE_CACHE_H
#define BACKEND_CODE_CACHE_H

#include "core/base/file.h"
#include "core/base/sha256.h"

#define CODE_CACHE_DEFAULT_BYTES (256.0 * 1024 * 1024)
enum { CODE_CACHE_MOST_ENTRIES = 4096 };  // so that looking at all of them stays a few milliseconds

typedef struct code_cache {
  bool on;
  double limit;  // bytes of all entries
  // of this process
  u32 hits, misses, damaged;
  u64 stored;       // bytes
  char *complaint;  // about what was damaged or could not be written, and not told yet; owned
} code_cache;

typedef u8 code_cache_key[HS_SHA256_BYTES];

// The folder: $XDG_CACHE_HOME/hlosh/code, or ~/.cache/hlosh/code; NULL when the folder that the
// user named, or home, is not there or not to be written to. The caller frees it.
char *code_cache_folder(void);

// The bytes of an entry, which counts as used now; false when it is not there, or damaged. The
// caller frees *out with hs_free.
bool code_cache_get(code_cache *, const code_cache_key, char **out, size_t *n);
// Keeps bytes; what: text for people, the module's name. Nothing when it is more than the limit.
// What goes wrong is a complaint: the program is there all the same.
void code_cache_put(code_cache *, const code_cache_key, const char *what, const char *p, size_t n);

// What is there, those used last first.
typedef struct code_cache_entry {
  char what[64], file[HS_SHA256_BYTES * 2 + 8];
  i64 bytes, used;  // used: seconds since 1970
} code_cache_entry;
typedef HS_VEC(code_cache_entry) code_cache_entries;
void code_cache_list(const char *folder, code_cache_entries *out);
// Removes all entries, and what processes left behind that died an hour ago or more while they
// wrote. E_IO of the first that cannot be removed.
hs_status code_cache_clear(const char *folder, u32 *removed, i64 *bytes);

#endif
