// files.h — reading whole files, temporary files, folders; writing is core/base/file.h. Paths are
// as the user typed them; every failure is E_IO with the path and the system's reason, unless
// stated otherwise.
#ifndef REPL_FILES_H
#define REPL_FILES_H

#include "core/base/file.h"

// A file name made of a name from a module: it does not lead out of the folder, begin with a dot,
// or hold what cannot be shown. Names that differ give files that differ. The caller's to free.
char *repl_file_name(const char *name);
// Whether a file name has that ending, such as ".svg"; it may be nothing else.
bool repl_ends_in(const char *name, const char *end);
// Whether a file name ends as those of modules do (.hlo .txt .pb .mlir ..., also with .gz or .zst
// behind): what is taken for a module in a folder, as far as a name can tell.
bool repl_is_module_name(const char *name);
// Whether a path leads to a regular file, through links or not: what is found in a folder, and was
// not named by the user, is looked at only then.
bool repl_is_file(const char *path);
// Creates an empty $TMPDIR/hlosh-STEM.XXXXXX.hlo; the path is the caller's to free (hs_free).
hs_status repl_temp_file(const char *stem, char **path);
// Creates a folder and its parents; succeeds when it exists already.
hs_status repl_make_folder(const char *path);
// Appends the whole file to *out. E_LIMIT when that makes *out larger than `limit` bytes (0: no
// limit), E_INTERRUPTED on Ctrl-C; *out is empty after an error.
hs_status repl_read_file(const char *path, size_t limit, hs_buf *out);
// Appends the first n bytes of the file to *out, fewer where it is shorter.
hs_status repl_read_head(const char *path, size_t n, hs_buf *out);

#endif
