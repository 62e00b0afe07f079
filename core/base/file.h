// file.h — writing files whole or not at all, and reading files of strangers: a FIFO that nobody
// writes to, a device that never ends, or gigabytes of blanks do not hang or exhaust the program.
// Reading waits with a poll for stops, and takes no more memory than a limit allows.
#ifndef HLO_FILE_H
#define HLO_FILE_H

#include "core/base/diag.h"

// The limit when none was set: a quarter of the machine's memory, at most 4 GB.
size_t hs_load_limit_default(void);
// E_LIMIT, with the figure and what changes it.
hs_status hs_fail_load_limit(const char *what, size_t limit);
// E_LIMIT when so many bytes out of so few are more than data of use come to: an archive made to
// fill the memory. Ok under a limit other than hs_load_limit_default: somebody set it who knows
// what the file unpacks to.
hs_status hs_check_unpacking(const char *what, size_t limit, size_t packed, size_t unpacked);
// How much more a buffer of `cap` bytes may grow: doubled, at most to one byte above the limit, so
// that going over it is seen. *p is hs_alloc'ed or NULL. E_LIMIT when it has that size already,
// E_NO_MEMORY when there is none.
hs_status hs_grow_bytes(const char *what, size_t limit, char **p, size_t *cap);

// Opens a file for reading. Does not wait for a FIFO's writer. E_IO when it cannot be opened, or
// is a folder. *size: of a regular file; -1 for anything else.
hs_status hs_file_open(const char *path, int *fd, i64 *size);
// Reads up to n bytes, waiting until there are some; *got 0 is the end. Polls for stops.
hs_status hs_file_read(int fd, const char *what, void *p, size_t n, size_t *got);

// The bytes of a whole file.
typedef struct hs_view {
  char *p;
  size_t n;
  bool mapped;
} hs_view;
// Maps a regular file, reads anything else to its end; "-" is standard input. E_LIMIT when there
// is more than the limit. lazy: of a mapped file only parts will be looked at, and the file itself
// backs them, so they are not fetched now and no limit holds.
hs_status hs_view_file(const char *path, size_t limit, bool lazy, hs_view *out);
// The same for an open descriptor, which stays open; `what` is for messages.
hs_status hs_view_fd(int fd, const char *what, size_t limit, bool lazy, hs_view *out);
void hs_view_drop(hs_view *);  // empty again

// Writes all n bytes to a descriptor, through interruptions and short writes. False with errno set
// when a write fails.
bool hs_write_all(int fd, const char *p, size_t n);
// The one writer of files: all that commands write goes through it. Writes the file completely or
// not at all: a temporary file beside it, then rename; an existing file's permissions are kept.
// append: adds the bytes to the end instead. Devices and pipes are written in place. E_IO with the
// path; or why this thread is to stop (diag.h): the bytes may be a part of what they were to be.
hs_status hs_write_file(const char *path, const char *p, size_t n, bool append);
// The program of that name on PATH; NULL: there is none. To be freed.
char *hs_find_program(const char *name);
bool hs_has_program(const char *name);
// Makes the folders above a file that are missing, of them at most so many of the innermost, for
// their owner alone (0700). What goes wrong shows when the file is written.
void hs_make_folders(const char *path, u32 levels);

#endif
