// jax.h — the backend `jax`: real XLA as a Python's jaxlib has it. The shell reads the list of
// Pythons.
//
//   child.py  the program that a Python runs: the protocol of hlosh's worker, answered with jaxlib
//   jax.c     shell side: that program as a pjrt_child, settings of its process, the backend
//   find.c    shell side: which Pythons have jaxlib
//
// All else is the pjrt backend's: the same requests, arguments and replies.
#ifndef BACKEND_JAX_H
#define BACKEND_JAX_H

#include "backends/pjrt/pjrt.h"

typedef struct jax_python {
  char *path;
  char *jaxlib;  // its version, from the names of installed packages; NULL: none was found there
  char *from;    // "HLOSH_PYTHON", "VIRTUAL_ENV", "build/peers", "PATH"
} jax_python;
typedef HS_VEC(jax_python) jax_pythons;
// The Pythons that have jaxlib, in order of preference, and the one of HLOSH_PYTHON in any case. No
// Python is started: files are looked at, which takes milliseconds.
void jax_find_all(jax_pythons *out);
void jax_pythons_free(jax_pythons *);  // its entries, not the struct
// The given Python, or the python3 of a given environment's folder; NULL: the first one found.
// *path is malloc'ed. E_IO when it cannot be executed, E_NOT_BUILT when there is none.
hs_status jax_find(const char *given, char **path);

// The program for that setting; BACKEND_MALLOC_BEST is the default one, which runs first.
const pjrt_child *jax_child(backend_malloc);
// What the Python at that path says of itself: "jaxlib=0.10.2 jax=0.10.2 platform=cpu ...",
// borrowed until the context is freed. Starts it unless a process of the context runs already.
hs_status jax_describe(backend_context *, const char *path, backend_malloc, u32 threads,
                       const char **out);
// The value of a key in that text, up to the next space; {"", 0} when it is not there.
hs_str jax_about(const char *text, const char *key);

#endif
