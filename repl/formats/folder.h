// folder.h — reading the files of a folder, or of a tar archive, that a stranger made. Only plain
// files that lie in it are read: no links, no FIFOs or devices, no names with "..", no absolute
// ones. What is read in all is limited, in bytes and in files. Nothing is written: an archive stays
// in memory.
#ifndef REPL_FOLDER_H
#define REPL_FOLDER_H

#include "core/base/file.h"

// A file of an archive: bytes [at, at + n) of it.
typedef struct repl_member {
  char *name;
  size_t at, n;
} repl_member;

typedef struct repl_folder {
  char *path;  // as the user gave it, for messages
  int fd;      // of a folder; -1: an archive
  hs_view archive;
  HS_VEC(repl_member) members;
  size_t limit, room;  // bytes that may be read, and how many of them are left
  u32 asks;            // files that may still be asked for
} repl_folder;

// Opens a folder. limit: bytes that may be read from it in all.
hs_status repl_folder_open(const char *path, size_t limit, repl_folder *out);
// Opens a tar archive (POSIX ustar and GNU's forms of it), also compressed by gzip or zstd; limit:
// bytes of it, unpacked. E_INPUT when it is damaged, or holds links or devices.
hs_status repl_folder_open_tar(const char *path, size_t limit, repl_folder *out);
void repl_folder_close(repl_folder *);
// The bytes of a file by its name in the folder, "inputs/arg0.npy"; the caller's. E_IO when there
// is none, or when it is no plain file.
hs_status repl_folder_read(repl_folder *, const char *name, hs_view *out);
// Counts something that is asked of the folder; E_LIMIT when that is too much. Polls for stops.
hs_status repl_folder_ask(repl_folder *);

#endif
