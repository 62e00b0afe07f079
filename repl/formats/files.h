// files.h — reading and writing whole files. Paths are as the user typed them; every failure is
// E_IO with the path and the system's reason, unless stated otherwise.
#ifndef REPL_FILES_H
#define REPL_FILES_H

#include "core/base/diag.h"

// Writes all n bytes to a descriptor, through interruptions and short writes. False with errno set
// when a write fails.
bool repl_write_all(int fd, const char *p, size_t n);
// Writes a file completely or not at all: a temporary file beside it, then rename; an existing
// file's permissions are kept. append: adds the bytes to the end instead. Devices and pipes are
// written in place.
hs_status repl_write_file(const char *path, const char *p, size_t n, bool append);
// Creates an empty $TMPDIR/hlosh-STEM.XXXXXX.hlo; the path is the caller's to free (hs_free).
hs_status repl_temp_file(const char *stem, char **path);
// Creates a folder and its parents; succeeds when it exists already.
hs_status repl_make_folder(const char *path);
// Appends the whole file to *out. E_LIMIT when that makes *out larger than `limit` bytes (0: no
// limit), E_INTERRUPTED on Ctrl-C.
hs_status repl_read_file(const char *path, size_t limit, hs_buf *out);

#endif
