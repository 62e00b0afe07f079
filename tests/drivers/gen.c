// gen.c — prints the random module of a seed.
//
// usage: gen SEED [--family NAME]     gen --list 1 (the families)
#include "tests/harness/driver.h"
#include "tests/random/gen.h"

#include <stdlib.h>

int main(int argc, char **argv) {
  static const char *const options[] = {"family", "list", NULL};
  drv_args a;
  if (!drv_parse(argc, argv, options, &a) || (a.n != 1 && !drv_option(&a, "list"))) {
    fprintf(stderr, "usage: gen SEED [--family NAME] | gen --list 1\n");
    return 2;
  }
  if (drv_option(&a, "list")) {
    for (u32 k = 0; k < gen_family_count; k++) puts(gen_families[k]);
    return 0;
  }
  gen_module m;
  gen_make(strtoull(a.v[0], NULL, 10), drv_option(&a, "family"), &m);
  fputs(m.text, stdout);
  for (char *p = m.args, *end; *p; p = *end ? end + 1 : end) {
    end = p + strcspn(p, "\n");
    printf("// %.*s\n", (int)(end - p), p);
  }
  for (u32 k = 0; k < m.nouts; k++) printf("// output %u: tolerance %.3g\n", k, m.tolerance[k]);
  gen_free(&m);
  return 0;
}
