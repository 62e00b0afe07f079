// sha256.c — SHA-256 on the examples of FIPS 180-4 (abc, 56 bytes, a million letters a) and the
// empty text, put at once and in pieces of every length.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/sha256.h"

static const struct {
  const char *text;
  u32 times;
  const char *digest;
} examples[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

static void digest_of(const char *text, u32 times, size_t piece, char out[65]) {
  hs_sha256 h;
  u8 digest[HS_SHA256_BYTES];
  hs_sha256_begin(&h);
  for (u32 k = 0; k < times; k++)
    for (size_t at = 0, n = strlen(text); at < n; at += piece)
      hs_sha256_put(&h, text + at, HS_MIN(piece, n - at));
  hs_sha256_end(&h, digest);
  for (u32 k = 0; k < HS_SHA256_BYTES; k++) {
    out[2 * k] = "0123456789abcdef"[digest[k] >> 4];
    out[2 * k + 1] = "0123456789abcdef"[digest[k] & 15];
  }
  out[64] = 0;
}

static void standard(void **state) {
  (void)state;
  char got[65];
  for (size_t k = 0; k < HS_COUNT(examples); k++)
    for (size_t piece = 1; piece <= 64; piece += examples[k].times > 1 ? 9 : 1) {
      digest_of(examples[k].text, examples[k].times, piece, got);
      assert_string_equal(got, examples[k].digest);
    }
}

// Lengths around the end of a block, where the padding takes one block or two.
static void lengths(void **state) {
  (void)state;
  char text[200], whole[65], pieces[65];
  for (size_t n = 0; n < sizeof text; n++) {
    memset(text, 'x', n);
    text[n] = 0;
    digest_of(text, 1, sizeof text, whole);
    digest_of(text, 1, 7, pieces);
    assert_string_equal(whole, pieces);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(standard), cmocka_unit_test(lengths)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
