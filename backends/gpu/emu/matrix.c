// matrix.c — a warp's operations on matrices: squares from shared memory, tensor cores' products.
//
// A square has 8 rows of 16 bytes. Lane l holds word l % 4 of row l / 4; of a turned one, of 16-bit
// numbers, the numbers 2 (l % 4) and the next of column l / 4. A product has 16 rows and 8 columns:
// of its left side a lane has four words (row l / 4 and the one 8 below, the same 16 bytes on), of
// its right side two (column l / 4), of the sums two neighbours in each of both rows. Products
// are exact and added in double precision, in order, then rounded once; what the hardware's order
// is, is not documented.
#include "backends/gpu/emu/run.h"

#include <string.h>

// ---- squares ------------------------------------------------------------------------------------
static void load(emu_thread *lanes, u32 square, bool turned) {
  const u8 *rows[8];
  for (u32 r = 0; r < 8; r++) rows[r] = (const u8 *)(uintptr_t)lanes[8 * square + r].value;
  for (u32 l = 0; l < EMU_LANES; l++) {
    u32 word, row = l / 4, at = l % 4;
    u16 two[2];
    if (turned) {
      for (u32 k = 0; k < 2; k++) memcpy(&two[k], rows[2 * at + k] + 2 * row, 2);
      word = two[0] | (u32)two[1] << 16;
    } else memcpy(&word, rows[row] + 4 * at, 4);
    lanes[l].fragment[square] = word;
  }
}

// ---- products -----------------------------------------------------------------------------------
static double bf16_of(u32 bits) {
  float f;
  bits <<= 16;
  memcpy(&f, &bits, sizeof f);
  return (double)f;
}

static double f16_of(u32 bits) {
  i32 e = (i32)(bits >> 10 & 31), m = (i32)(bits & 1023);
  double v = e == 31 ? (m ? __builtin_nan("") : __builtin_inf())
             : e     ? __builtin_ldexp(1024 + m, e - 25)
                     : __builtin_ldexp(m, -24);
  return bits >> 15 ? -v : v;
}

// Number k of a word of the lane that holds it.
static double number(emu_warp_op op, u32 word, u32 k) {
  switch (op) {
  case EMU_MULTIPLY_BF16: return bf16_of(word >> 16 * k & 0xffff);
  case EMU_MULTIPLY_F16: return f16_of(word >> 16 * k & 0xffff);
  case EMU_MULTIPLY_S8: return (double)(i8)(word >> 8 * k);
  default: return (double)(u8)(word >> 8 * k);
  }
}

static void multiply(emu_thread *lanes, emu_warp_op op) {
  bool real = op == EMU_MULTIPLY_BF16 || op == EMU_MULTIPLY_F16;
  u32 per = real ? 2 : 4;
  double a[16][32], b[32][8];
  for (u32 l = 0; l < EMU_LANES; l++)
    for (u32 w = 0; w < 4; w++)
      for (u32 k = 0; k < per; k++) {
        u32 at = (l % 4 + w / 2 * 4) * per + k;
        a[l / 4 + w % 2 * 8][at] = number(op, lanes[l].fragment[w], k);
        if (w % 2 == 0) b[at][l / 4] = number(op, lanes[l].fragment[4 + w / 2], k);
      }
  for (u32 l = 0; l < EMU_LANES; l++)
    for (u32 e = 0; e < 4; e++) {
      u32 *to = &lanes[l].fragment[6 + e], row = l / 4 + e / 2 * 8, column = l % 4 * 2 + e % 2;
      float f;
      memcpy(&f, to, sizeof f);
      double sum = real ? (double)f : 0;
      for (u32 k = 0; k < 8 * per; k++) sum += a[row][k] * b[k][column];
      f = (float)sum;
      if (real) memcpy(to, &f, sizeof f);
      else *to += (u32)(i32)sum;
    }
}

void emu_matrix(emu_thread *lanes, emu_warp_op op) {
  if (op == EMU_LOAD_SQUARES || op == EMU_LOAD_TURNED)
    for (u32 k = 0; k < lanes[0].b; k++) load(lanes, k, op == EMU_LOAD_TURNED);
  else multiply(lanes, op);
}
