// arrays.c — .npy, .npz and .safetensors: any bytes give an error or arrays, each of which is
// read as a literal or refused.
#include "tests/fuzz/target.h"
#include "core/types/ctx.h"
#include "core/text/text.h"
#include "repl/formats/arrays.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const wanted[] = {"f32[2,3]", "s32[4]",     "pred[]",  "bf16[0]",
                                       "u4[7]",    "c64[1,1,2]", "f64[100]"};
  int fd = memfd_create("arrays", 0);
  if (fd < 0 || write(fd, data, n) != (ssize_t)n) {
    if (fd >= 0) close(fd);
    return 0;
  }
  char *path = hs_format("/proc/self/fd/%d", fd);
  arrays *a = NULL;
  hs_status s = arrays_open(path, (size_t)64 << 20, &a);
  hlo_ctx *ctx = hlo_ctx_new();
  for (u32 k = 0; hs_ok(s) && k < HS_MIN(arrays_count(a), 20u); k++) {
    u32 at;
    FUZZ_CHECK(arrays_find(a, arrays_name(a, k), &at), "%s is not found\n", arrays_name(a, k));
    for (u32 w = 0; w < HS_COUNT(wanted); w++) {
      const hlo_shape *shape = NULL;
      hlo_literal *l = NULL;
      hs_status r = hlo_parse_shape(ctx, wanted[w], strlen(wanted[w]), &shape);
      const array_options o = {.cast = w % 2};
      if (hs_ok(r)) r = arrays_read(a, k, hlo_shape_fill_layout(ctx, shape), o, &l);
      if (hs_ok(r)) {
        hs_buf b = {0};
        hlo_print_literal(&b, l);  // looks at every element
        hs_buf_free(&b);
      }
      hs_status_drop(r);
      hlo_literal_unref(l);
    }
  }
  hs_status_drop(s);
  arrays_close(a);
  hlo_ctx_free(ctx);
  hs_free(path);
  close(fd);
  return 0;
}
