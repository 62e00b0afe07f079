// fake_mode.h — what libraries of our own for tests have in common: what one of them does stands
// in its own file name, NAME-MODE.so, since a process may load several.
#ifndef FAKE_MODE_H
#define FAKE_MODE_H

#include <dlfcn.h>
#include <string.h>

#include "core/base/base.h"

#define EXPORT __attribute__((visibility("default")))

static inline bool is(const char *mode) {
  Dl_info i;
  const char *dash = NULL;
  if (dladdr((void *)(uintptr_t)is, &i) && i.dli_fname) dash = strrchr(i.dli_fname, '-');
  size_t n = dash ? strcspn(dash + 1, ".") : 0;
  return n == strlen(mode) && memcmp(dash + 1, mode, n) == 0;
}

#endif
