// gallery.c — the modules of `example`, embedded from examples/*.hlo by the assembler, so that
// the binary alone has them. One row each in examples/examples.def; a NUL ends each text.
#include "repl/shell/command.h"

#define EXAMPLE(name, summary)                   \
  __asm__(".pushsection .rodata\n"               \
          ".global hlosh_example_" #name "\n"    \
          "hlosh_example_" #name ":\n"           \
          ".incbin \"examples/" #name ".hlo\"\n" \
          ".byte 0\n"                            \
          ".popsection\n");                      \
  extern const char hlosh_example_##name[];
#include "examples/examples.def"
#undef EXAMPLE

const repl_example repl_examples[] = {
#define EXAMPLE(name, summary) {#name, summary, hlosh_example_##name},
#include "examples/examples.def"
#undef EXAMPLE
};
const u32 repl_example_count = HS_COUNT(repl_examples);
