// serve_cubin.c — worker side: registers, stack and size of kernels, read from the machine code
// in a serialized executable.
//
// NVIDIA's object files (cubin) are ELF files of machine 190: a section .text.KERNEL holds the
// code, and .nv.info is a list of attributes, of which 0x2f gives a symbol's number of registers
// and 0x11 its stack frame. They are somewhere in the executable's bytes, which may be
// compressed (records.h) and whose format is the plug-in's own; so they are found by their magic
// number. Nothing read here is trusted: every offset is checked.
#include <elf.h>

#include "backends/pjrt/records.h"
#include "backends/pjrt/serve.h"

enum { EM_CUBIN = 190, INFO_FRAME = 0x11, INFO_REGISTERS = 0x2f, MOST_KERNELS = 100000 };

typedef struct cubin {
  const char *p;
  size_t n;
  Elf64_Ehdr head;
} cubin;

static bool at(const cubin *c, u64 offset, size_t n) {
  return offset <= c->n && n <= c->n - offset;
}

static bool section(const cubin *c, u32 k, Elf64_Shdr *out) {
  u64 offset = c->head.e_shoff + (u64)k * sizeof *out;
  if (k >= c->head.e_shnum || c->head.e_shoff > c->n || !at(c, offset, sizeof *out)) return false;
  memcpy(out, c->p + offset, sizeof *out);
  return out->sh_type == SHT_NOBITS || at(c, out->sh_offset, (size_t)out->sh_size);
}

// Text at an offset of a string table; empty when it does not end there.
static hs_str string_at(const cubin *c, u32 table, u64 offset) {
  Elf64_Shdr s;
  if (!section(c, table, &s) || s.sh_type == SHT_NOBITS || offset >= s.sh_size) return (hs_str){0};
  const char *p = c->p + s.sh_offset + offset, *end = memchr(p, '\0', (size_t)(s.sh_size - offset));
  return end ? (hs_str){p, (size_t)(end - p)} : (hs_str){0};
}

static bool begins(hs_str s, const char *with, hs_str *rest) {
  size_t n = strlen(with);
  if (s.n <= n || memcmp(s.p, with, n) != 0) return false;
  *rest = (hs_str){s.p + n, s.n - n};
  return true;
}

static hs_str symbol_name(const cubin *c, u32 symbol) {
  for (u32 k = 0; k < c->head.e_shnum; k++) {
    Elf64_Shdr s;
    Elf64_Sym y;
    if (!section(c, k, &s) || s.sh_type != SHT_SYMTAB || ((u64)symbol + 1) * sizeof y > s.sh_size)
      continue;
    memcpy(&y, c->p + s.sh_offset + symbol * sizeof y, sizeof y);
    return string_at(c, s.sh_link, y.st_name);
  }
  return (hs_str){0};
}

// The value of an attribute for a kernel in the file's list; -1 when it is not there.
static i64 info(const cubin *c, const Elf64_Shdr *s, u8 attribute, hs_str kernel) {
  const char *p = c->p + s->sh_offset;
  for (size_t k = 0; k + 4 <= s->sh_size;) {
    u8 format = (u8)p[k], what = (u8)p[k + 1];
    u16 size;
    u32 pair[2];
    memcpy(&size, p + k + 2, sizeof size);
    if (format != 4) {
      k += 4;
      continue;
    }  // the value is in the head itself
    if (size > s->sh_size - k - 4) break;
    if (what == attribute && size == sizeof pair) {
      memcpy(pair, p + k + 4, sizeof pair);
      if (hs_str_eq(symbol_name(c, pair[0]), kernel)) return pair[1];
    }
    k += 4u + size;
  }
  return -1;
}

static void put_kernel(const cubin *c, hs_str name, const Elf64_Shdr *text, hs_buf *out) {
  i64 registers = -1, frame = -1;
  for (u32 k = 0; k < c->head.e_shnum; k++) {
    Elf64_Shdr s;
    if (!section(c, k, &s) || s.sh_type == SHT_NOBITS ||
        !hs_str_eq(string_at(c, c->head.e_shstrndx, s.sh_name), HS_STR(".nv.info")))
      continue;
    registers = info(c, &s, INFO_REGISTERS, name);
    frame = info(c, &s, INFO_FRAME, name);
  }
  // where older files keep it
  if (registers < 0 && text->sh_info >> 24) registers = text->sh_info >> 24;
  wire_put_bytes(out, name.p, name.n);
  wire_put_i64(out, registers);
  wire_put_i64(out, frame);
  wire_put_i64(out, (i64)text->sh_size);
}

static u32 put_kernels(cubin *c, hs_buf *out) {
  u32 n = 0;
  memcpy(&c->head, c->p, sizeof c->head);
  if (c->head.e_machine != EM_CUBIN || c->head.e_ident[EI_CLASS] != ELFCLASS64 ||
      c->head.e_shentsize != sizeof(Elf64_Shdr))
    return 0;
  for (u32 k = 0; k < c->head.e_shnum && n < MOST_KERNELS; k++) {
    Elf64_Shdr s;
    hs_str name;
    if (!section(c, k, &s) || !begins(string_at(c, c->head.e_shstrndx, s.sh_name), ".text.", &name))
      continue;
    put_kernel(c, name, &s, out);
    n++;
  }
  return n;
}

static u32 scan(const char *bytes, size_t n, hs_buf *list) {
  u32 count = 0;
  for (const char *p = bytes, *end = bytes + n;
       p && (p = memmem(p, (size_t)(end - p), ELFMAG, SELFMAG)); p += SELFMAG) {
    cubin c = {.p = p, .n = (size_t)(end - p)};
    if (c.n >= sizeof c.head) count += put_kernels(&c, list);
  }
  return count;
}

// Reply: how many kernels, then name, registers, stack frame and code bytes of each; -1: unknown.
void pjs_put_machine_code(const char *bytes, size_t n, hs_buf *reply) {
  hs_buf list = {0}, unpacked = {0};
  bool packed = n && records_read(bytes, n, &unpacked);
  u32 count = packed ? scan(unpacked.p, unpacked.n, &list) : n ? scan(bytes, n, &list) : 0;
  hs_buf_free(&unpacked);
  wire_put_u32(reply, count);
  wire_put(reply, list.p, list.n);
  hs_buf_free(&list);
}
