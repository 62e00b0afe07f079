/* hlosh.h: libhlosh, the HLO shell as a library.
 *
 * Modules of HLO are loaded (text, protocol buffers, StableHLO as text or portable artifact, gzip and zstd around them) or
 * built, printed, verified, rewritten by passes, estimated for a device, compiled for this machine's CPU, run and measured.
 *
 * Rules:
 * - Handles are opaque; what a function makes is freed by the function named with it. NULL is fine to free.
 * - A function that can fail returns an hlosh_error, NULL when all is well, which the caller frees. Results are set only then.
 * - There are no globals to set up. Instances share nothing: two may be used from two threads; one, and what belongs to
 *   it, from one thread at a time. A program runs with the pool of threads of the process, one program after the other.
 * - Compiled programs run in the calling process: what they do wrong, it does wrong. The evaluator ("interp") is checked C.
 * - Arrays are dense and row-major. An argument or result that is a tuple is its arrays one after the other.
 * - A new version only adds functions and fields at the end of structs; HLOSH_API_VERSION says which this header has.
 */
#ifndef HLOSH_H
#define HLOSH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HLOSH_API_VERSION 1
#define HLOSH_EXPORT __attribute__((visibility("default")))
#define HLOSH_MAX_RANK 64

typedef struct hlosh hlosh;                 /* an instance */
typedef struct hlosh_error hlosh_error;     /* why a call failed */
typedef struct hlosh_module hlosh_module;   /* a module of HLO; belongs to an instance */
typedef struct hlosh_program hlosh_program; /* a compiled module */

/* ---- errors ------------------------------------------------------------------------------------ */
/* One diagnostic or several, with places in the text, as the shell prints them. Valid until the error is freed. */
HLOSH_EXPORT const char *hlosh_error_message(const hlosh_error *);
/* The stable code of the first, "E0103"; `hlosh -c 'explain E0103'` says more. */
HLOSH_EXPORT const char *hlosh_error_code(const hlosh_error *);
HLOSH_EXPORT void hlosh_error_free(hlosh_error *);

/* ---- instances --------------------------------------------------------------------------------- */
/* version: HLOSH_API_VERSION of the header that the caller was compiled with. Fails for one that the library does not know. */
HLOSH_EXPORT hlosh_error *hlosh_open(int version, hlosh **out);
/* After everything that belongs to it was freed. */
HLOSH_EXPORT void hlosh_close(hlosh *);
/* HLOSH_API_VERSION of the library. */
HLOSH_EXPORT int hlosh_api_version(void);

/* ---- modules ----------------------------------------------------------------------------------- */
/* The format is told by content. name: what messages call it; NULL: "<memory>". */
HLOSH_EXPORT hlosh_error *hlosh_load_file(hlosh *, const char *path, hlosh_module **out);
HLOSH_EXPORT hlosh_error *hlosh_load(hlosh *, const char *name, const void *bytes, size_t n,
                                     hlosh_module **out);
/* An empty module to build: hlosh_add(m, "x = f32[4] parameter(0)"), ..., "ROOT y = f32[4] add(x, x)". A shape that is left out
 * is inferred. The last instruction marked ROOT is the result. */
HLOSH_EXPORT hlosh_error *hlosh_build(hlosh *, const char *name, hlosh_module **out);
HLOSH_EXPORT hlosh_error *hlosh_add(hlosh_module *, const char *instruction);
HLOSH_EXPORT hlosh_error *hlosh_clone(const hlosh_module *, hlosh_module **out);
HLOSH_EXPORT void hlosh_module_free(hlosh_module *);

/* The module's name; valid as long as the module. */
HLOSH_EXPORT const char *hlosh_module_name(const hlosh_module *);
/* Instructions of all computations. */
HLOSH_EXPORT size_t hlosh_instructions(const hlosh_module *);
/* The module as HLO text that loads again; *out is freed by hlosh_text_free. */
HLOSH_EXPORT hlosh_error *hlosh_print(const hlosh_module *, char **out, size_t *n);
HLOSH_EXPORT void hlosh_text_free(char *);
HLOSH_EXPORT hlosh_error *hlosh_verify(const hlosh_module *);
/* Names of passes and pipelines, separated by commas, as the shell's `pipeline` takes them ("dce, algsimp", "tuned"). A pass that fails
 * leaves the module as it was before that pass. */
HLOSH_EXPORT hlosh_error *hlosh_passes(hlosh_module *, const char *passes);

/* ---- signatures -------------------------------------------------------------------------------- */
typedef struct hlosh_array {
  const char *type; /* "f32", "s64", "pred", ... */
  size_t rank;
  int64_t dims[HLOSH_MAX_RANK];
  size_t bytes;
} hlosh_array;
HLOSH_EXPORT size_t hlosh_arguments(const hlosh_module *);
HLOSH_EXPORT size_t hlosh_results(const hlosh_module *);
/* Of the k-th array of all arguments, or results. */
HLOSH_EXPORT hlosh_error *hlosh_argument(const hlosh_module *, size_t k, hlosh_array *out);
HLOSH_EXPORT hlosh_error *hlosh_result(const hlosh_module *, size_t k, hlosh_array *out);

/* ---- running ----------------------------------------------------------------------------------- */
/* backend: "cpu" (compiled code) or "interp" (the reference evaluator). The module is compiled as it is; run the pipeline "tuned" on it
 * before for speed. The program keeps what it needs of the module. */
HLOSH_EXPORT hlosh_error *hlosh_compile(const hlosh_module *, const char *backend,
                                        hlosh_program **out);
/* arguments[k], results[k]: the bytes of the k-th array; a result that is NULL is not wanted. */
HLOSH_EXPORT hlosh_error *hlosh_run(hlosh_program *, const void *const *arguments,
                                    void *const *results);
HLOSH_EXPORT void hlosh_program_free(hlosh_program *);

/* Measured: wall time of single runs, arguments and results copied included, after one run that is not counted. */
typedef struct hlosh_times {
  size_t struct_size; /* set by the caller: sizeof(hlosh_times) */
  size_t runs;
  double median_ms, p10_ms, p90_ms, min_ms;
} hlosh_times;
HLOSH_EXPORT hlosh_error *hlosh_measure(hlosh_program *, const void *const *arguments, size_t runs,
                                        hlosh_times *out);

/* Estimated: one run on a device of the shell's list ("cpu", "h200", ...: `devices`). */
typedef struct hlosh_estimated {
  size_t struct_size; /* set by the caller: sizeof(hlosh_estimated) */
  double seconds, flops, bytes;
  int64_t peak_bytes;
  size_t kernels;
} hlosh_estimated;
HLOSH_EXPORT hlosh_error *hlosh_estimate(const hlosh_module *, const char *device,
                                         hlosh_estimated *out);

#ifdef __cplusplus
}
#endif
#endif
