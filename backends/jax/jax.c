// jax.c — the backend `jax`: modules compiled and run by the jaxlib of any Python.
//
// A PJRT plug-in for the CPU is not what people run: they run jaxlib, which has a newer XLA and
// another way in (StableHLO). It has no C interface, so the process that holds it is a Python that
// runs child.py, embedded here. That process answers the same requests as a worker with a plug-in,
// and everything on this side of it is the pjrt backend's (backends/pjrt/pjrt.c).
//
// XLA:CPU allocates its results anew in each run. With glibc's defaults large blocks go back to the
// kernel and come as fresh pages, which costs a page fault per 4 KiB; tuned, they stay with the
// process and consist of huge pages. Neither is always faster, so both can be measured: the program
// then goes from one process to the other.
#include "backends/jax/jax.h"

#include <stdlib.h>

__asm__(".pushsection .rodata\n"
        ".global hlosh_jax_child\n"
        "hlosh_jax_child:\n"
        ".incbin \"backends/jax/child.py\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char hlosh_jax_child[];

// Read by glibc when the process starts; other C libraries ignore it. Large blocks come from the
// heap, of which there is one (others are of 64 MiB at most and would map them after all), and the
// heap does not shrink.
static const char *const tuned_env[] = {
    "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184:"
    "glibc.malloc.top_pad=268435456:glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1",
    NULL};

const pjrt_child *jax_child(backend_malloc how) {
  static const pjrt_child plain = {.what = "the Python of jaxlib",
                                   .program = hlosh_jax_child,
                                   .setting = "malloc default",
                                   .env = NULL},
                          tuned = {.what = "the Python of jaxlib",
                                   .program = hlosh_jax_child,
                                   .setting = "malloc tuned",
                                   .env = tuned_env};
  return how == BACKEND_MALLOC_TUNED ? &tuned : &plain;
}

hs_status jax_describe(backend_context *c, const char *path, backend_malloc how, u32 threads,
                       const char **out) {
  const pjrt_about *about;
  const pjrt_config like = {
      .path = path, .child = jax_child(how), .threads = threads, .devices = 1};
  HS_TRY(pjrt_host_describe(c, &like, &about));
  *out = about->attributes;
  return HS_GOOD;
}

hs_str jax_about(const char *text, const char *key) {
  size_t n = strlen(key);
  for (const char *p = text; p && *p; p += strcspn(p, " "), p += *p == ' ')
    if (!strncmp(p, key, n) && p[n] == '=') return (hs_str){p + n + 1, strcspn(p + n + 1, " ")};
  return (hs_str){"", 0};
}

static hs_status jax_probe(void) {
  char *path;
  HS_TRY(jax_find(NULL, &path));
  hs_free(path);
  return HS_GOOD;
}

static hs_status refuse(const backend_options *o) {
  const char *what = o->backend_only ? "code generation without XLA's passes"
                     : o->target     ? "compiling for a device that is not here"
                                     : NULL;
  return what ? hs_with_note(hs_fail(HS_E_UNSUPPORTED, "backend jax: jaxlib has no %s", what),
                             "backend pjrt can do that")
              : HS_GOOD;
}

static hs_status jax_compile(const hlo_module *m, const backend_options *opt, backend_exe **out) {
  static const backend_options defaults = {0};
  const backend_options *o = opt ? opt : &defaults;
  *out = NULL;
  HS_TRY(refuse(o));
  char *path;
  HS_TRY(jax_find(o->python, &path));
  hs_status s = pjrt_compile_in(m, o, path, jax_child(o->malloc), out);
  if (hs_ok(s) && o->malloc == BACKEND_MALLOC_BEST)
    pjrt_set_rival(*out, jax_child(BACKEND_MALLOC_TUNED));
  hs_free(path);
  return s;
}

const backend backend_jax = {
    .name = "jax",
    .summary = "real XLA: the jaxlib of a Python, in its own process",
    .caps = BACKEND_XLA | BACKEND_PYTHON,
    .probe = jax_probe,
    .supports = pjrt_supports,
    .compile = jax_compile,
    .compiled = pjrt_compiled,
    .run = pjrt_run,
    .dump = NULL,
    .release = pjrt_release,
};
