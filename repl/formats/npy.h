// npy.h — literals as NumPy .npy files (written in format version 1.0, C order, little-endian).
//
// Types NumPy has no name for are written as raw bytes of their width (|V2 for bf16, |V1 for the
// eight-bit floats and the sub-byte integers, one element per byte); reading takes the type from
// the shape that is expected.
#ifndef REPL_NPY_H
#define REPL_NPY_H

#include "repl/formats/arrays.h"
#include "repl/formats/folder.h"

// Tuples are several files: PREFIX.npy, or PREFIX.0.npy, PREFIX.1.npy, ... recursively.
hs_status repl_npy_write_tree(const char *prefix, const hlo_literal *);
// *out is the caller's reference. E_INPUT when an array has not the shape wanted.
hs_status repl_npy_read_tree(repl_folder *, const char *prefix, const hlo_shape *want,
                             hlo_literal **out);

#endif
