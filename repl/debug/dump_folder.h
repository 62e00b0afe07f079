// dump_folder.h — the files of an --xla_dump_to folder: which modules, and each one's steps in
// order.
#ifndef REPL_DUMP_FOLDER_H
#define REPL_DUMP_FOLDER_H

#include "core/base/diag.h"

// One dumped state of a module. Order: before optimizations, the passes by number, after
// optimizations.
typedef struct dump_step {
  const char *file;             // path
  const char *label;            // "before_optimizations", "after_algsimp", "after_optimizations"
  const char *pipeline, *pass;  // of a pass's dump; else NULL
  u32 order;                    // 0 before, UINT32_MAX after
} dump_step;

typedef struct dump_module {
  const char *key, *name;  // "module_0001.jit_f", "jit_f"
  u32 number;
  HS_VEC(dump_step) steps;
} dump_module;

typedef struct dump_folder {
  hs_arena arena;
  HS_VEC(dump_module) modules;
  HS_VEC(const char *) twins;  // paths: the same states in the format that was not taken
} dump_folder;

// Reads the folder's file names, not the files. Other names than those of module dumps are ignored;
// a folder without any gives no modules. *out is the caller's to free (dump_folder_free). Text is
// preferred where a state was dumped in several formats.
hs_status dump_folder_read(const char *path, dump_folder *out);
void dump_folder_free(dump_folder *);

#endif
