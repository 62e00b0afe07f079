// arrays.h — named arrays in files: .npy, .npz and .safetensors, recognized by content, read as
// literals and written.
//
// Files are memory-mapped. An array that has in its file the form that a literal needs
// (little-endian, row-major, one element per storage unit, aligned) becomes a literal over the
// mapping, without a copy; everything else is copied, swapped or unpacked. Nothing in a file is
// believed before it is checked against the file's size.
#ifndef REPL_ARRAYS_H
#define REPL_ARRAYS_H

#include "core/base/file.h"
#include "core/types/literal.h"

typedef struct arrays arrays;  // an open file

// What to do with values of another type than the one wanted.
typedef struct array_options {
  // the bytes are of this type, whatever the file calls them (same width); 0: as the file says
  hlo_dtype as;
  bool cast;  // convert values to the wanted type instead of refusing
  // Called from time to time while a large array is copied, and once with done == total; NULL:
  // not called.
  void (*progress)(void *arg, double done, double total);
  void *progress_arg;
} array_options;

// Opens a file of one of the three formats; *out is the caller's (arrays_close). E_IO when it
// cannot be read, E_FORMAT when it is none of the three. limit: bytes of it that may come into
// memory, read from a pipe or unpacked; what is mapped does not count. E_LIMIT when that is
// exceeded, here or in arrays_read.
hs_status arrays_open(const char *path, size_t limit, arrays **out);
// The same for bytes that are in memory; takes them. path is for messages.
hs_status arrays_of(hs_view take, const char *path, size_t limit, arrays **out);
// Closes the file; NULL is allowed. Literals made from it stay valid.
void arrays_close(arrays *);
// How many arrays there are, and the name of array k (borrowed; "" in a .npy file).
u32 arrays_count(const arrays *);
const char *arrays_name(const arrays *, u32 k);
// The index of the array of that name; false when there is none.
bool arrays_find(const arrays *, const char *name, u32 *k);
// Array k as a literal of the wanted shape (an array shape), the caller's reference. E_INPUT when
// its type, shape or length does not match.
hs_status arrays_read(arrays *, u32 k, const hlo_shape *want, array_options, hlo_literal **out);

// Writing: the format goes by the end of the path (.npy, .npz, .safetensors). Tuples are several
// arrays, NAME.0, NAME.1 ...; a .npy file holds one array.
typedef struct array_item {
  const char *name;
  const hlo_literal *value;
} array_item;
// E_IO when the file cannot be written, E_INPUT when the format cannot hold the values.
hs_status arrays_write(const char *path, u32 n, const array_item *items);
bool arrays_is_file_name(const char *path);  // one of the three endings

// ---- between the files of the reader ------------------------------------------------------------
// A file in memory, shared by the open file and the literals over it.
typedef struct array_map {
  int refs;
  hs_view of;
} array_map;
// Take and release a reference; the last release unmaps or frees the bytes.
array_map *array_map_ref(array_map *);
void array_map_unref(array_map *);

// One array as its file has it.
typedef struct array_raw {
  // HLO_DT_INVALID: raw bytes, or a float of a width that has several formats
  hlo_dtype dtype;
  u32 item;  // bytes per element; 0 when elements are packed
  u32 bits;  // width of packed elements, lowest bits first
  bool big_endian, fortran;
  char type_text[48];  // for messages
  u32 rank;
  i64 dims[HLO_MAX_RANK];
  const u8 *data;
  size_t bytes;
  array_map *map;  // what data points into; a reference
} array_raw;

typedef struct array_entry {
  char *name;
  array_raw raw;
  bool ready;  // npz: known once it is asked for
  size_t offset, packed, size;
  u32 method, crc;  // npz: method (0: it is in place) and checksum of the entry
} array_entry;
typedef HS_VEC(array_entry) array_entries;

// The formats. *_list and npy_parse read headers, check them against the file's size and add what
// they find to *out; *_put and zip_write append a whole file's bytes to the buffer. path and what
// are for messages. E_FORMAT when the bytes are not valid.
hs_status npy_parse(const char *what, array_map *, const u8 *p, size_t n, array_raw *out);
hs_status npy_put(hs_buf *, const char *what, const hlo_literal *);
hs_status zip_list(const char *path, const array_map *, array_entries *out);
// Finds or unpacks the bytes of an entry, then parses them as .npy.
hs_status zip_entry(const char *path, array_map *, array_entry *);
hs_status zip_write(hs_buf *, u32 n, const char *const *names, const hs_buf *contents);
hs_status safetensors_list(const char *path, array_map *, array_entries *out);
hs_status safetensors_put(hs_buf *, u32 n, const array_item *arrays_only);

#endif
