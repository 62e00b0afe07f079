// library.h — what NVIDIA's libraries have in common: each is looked for at run time, its version
// is asked for before anything else of it is called, its functions are a table, and what it answers
// becomes a status. NVIDIA's headers are not needed to build.
#ifndef CUDA_LIBRARY_H
#define CUDA_LIBRARY_H

#include "core/base/diag.h"

typedef struct cuda_library {
  const char *name;      // "cuBLASLt"
  const char *part;      // what to install: "libcublas of NVIDIA's CUDA toolkit"
  const char *variable;  // of the environment, which names another file
  const char *const *places;
  size_t nplaces;
  size_t oldest, too_new;  // versions from which and before which it is taken, as it counts them
  const char *releases;    // the same in words: "CUDA 11.4 to 13"
} cuda_library;

// Those that are known, sorted by name.
enum { CUDA_LIBRARIES = 5 };
extern const cuda_library cuda_cublas, cuda_cublaslt, cuda_cudnn, cuda_cufft, cuda_cusolver;
extern const cuda_library *const cuda_libraries[CUDA_LIBRARIES];

// Whether one of its files is where the variable, the loader's path or the usual folders have it,
// without loading it.
bool cuda_library_present(const cuda_library *);
// path NULL: the file that the variable names, else the first of its places. E_NOT_BUILT says what
// was looked for. A library stays loaded.
hs_status cuda_library_load(const cuda_library *, const char *path, void **out);
// E_NOT_BUILT when the version is none that is known.
hs_status cuda_library_check(const cuda_library *, size_t version);

typedef struct cuda_symbol {
  const char *name;
  bool required;
  void **fn;  // NULL is stored for an optional one that is not there
} cuda_symbol;
// E_NOT_BUILT names a required one that is not there.
hs_status cuda_library_fill(const cuda_library *, void *library, const cuda_symbol *, size_t n);

typedef struct cuda_answer {
  int number;
  const char *name;  // as the headers have it, without what all names begin with
  hs_code code;
  const char *advice;
} cuda_answer;
// 0 is good; the last row stands for numbers that are not listed.
hs_status cuda_library_status(const cuda_library *, const cuda_answer *, size_t n, int answer,
                              const char *what);

#endif
