// object.c — object code becomes functions of this process, without LLVM: so a program whose code
// was kept by an earlier process runs before LLVM could have been loaded.
//
// Objects are those of LLVM's code generator for x86-64 and position independent code in ELF. Its
// sections are copied side by side into one mapping: code first, then, from a page on, what it
// reads. Each symbol that the object does not have gets a slot with its address behind the data and
// a jump to it behind the code, since libraries lie farther away than a call reaches. Unwinding
// tables are left out: nothing unwinds through a kernel.
//
// The bytes may come from a file: every offset is checked before it is followed. On other
// processors LLVM's own linker does this (object_orc.c).
#include "backends/emit/object.h"

#if defined(__x86_64__)
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

struct emit_object {
  char *memory;
  size_t bytes;
  u32 nnames;
  char **names;  // of defined functions
  void **at;
};

enum { STUB_BYTES = 8, SLOT_BYTES = 8, MOST_SECTIONS = 4096 };

// While it is loaded. Sections and symbols are those of the file; `to` is where they lie in memory.
typedef struct loading {
  const char *p;
  size_t n;
  const Elf64_Shdr *section;
  u32 nsections;
  i64 *to;  // of sections: offset into the memory; -1: not there
  const Elf64_Sym *symbol;
  u32 nsymbols;
  const char *names;  // of symbols
  size_t names_bytes;
  u64 *address;  // of symbols
  char *memory;
  size_t stubs, slots, code_bytes, bytes;  // offsets into the memory, and sizes
  emit_resolve *resolve;
  void *arg;
} loading;

static hs_status damaged(const char *what) {
  return hs_fail(HS_E_INTERNAL, "object code: %s", what);
}

static bool inside(const loading *l, u64 at, u64 bytes) { return at <= l->n && bytes <= l->n - at; }

static bool holds(const loading *l, const Elf64_Shdr *s, size_t each) {
  return inside(l, s->sh_offset, s->sh_size) && s->sh_offset % 8 == 0 && s->sh_entsize == each &&
         s->sh_size / each <= UINT32_MAX;
}

// ---- what there is ------------------------------------------------------------------------------
static hs_status read_header(loading *l) {
  const Elf64_Ehdr *h = (const void *)l->p;
  if (l->n < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
      h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_type != ET_REL || h->e_machine != EM_X86_64)
    return damaged("not an object for this processor");
  l->nsections = h->e_shnum;
  if (h->e_shentsize != sizeof *l->section || h->e_shoff % 8 || l->nsections > MOST_SECTIONS ||
      !inside(l, h->e_shoff, (u64)l->nsections * sizeof *l->section))
    return damaged("bad sections");
  l->section = (const void *)(l->p + h->e_shoff);
  return HS_GOOD;
}

static hs_status read_symbols(loading *l) {
  for (u32 k = 0; k < l->nsections; k++) {
    const Elf64_Shdr *s = &l->section[k];
    if (s->sh_type != SHT_SYMTAB) continue;
    if (!holds(l, s, sizeof *l->symbol) || s->sh_link >= l->nsections)
      return damaged("bad symbols");
    const Elf64_Shdr *names = &l->section[s->sh_link];
    if (!inside(l, names->sh_offset, names->sh_size) || !names->sh_size ||
        l->p[names->sh_offset + names->sh_size - 1])
      return damaged("bad names");
    l->symbol = (const void *)(l->p + s->sh_offset);
    l->nsymbols = (u32)(s->sh_size / sizeof *l->symbol);
    l->names = l->p + names->sh_offset;
    l->names_bytes = names->sh_size;
  }
  for (u32 k = 0; k < l->nsymbols; k++)
    if (l->symbol[k].st_name >= l->names_bytes) return damaged("bad name");
  return HS_GOOD;
}

static bool unwinding(const Elf64_Shdr *s) { return s->sh_type == SHT_X86_64_UNWIND; }

// ---- where it goes ------------------------------------------------------------------------------
// Places the sections that are code, or those that are not, from *at on.
static bool place_sections(loading *l, bool code, size_t *at) {
  for (u32 k = 0; k < l->nsections; k++) {
    const Elf64_Shdr *s = &l->section[k];
    if (!(s->sh_flags & SHF_ALLOC) || unwinding(s) || code != !!(s->sh_flags & SHF_EXECINSTR))
      continue;
    u64 align = s->sh_addralign ? s->sh_addralign : 1;
    if (align > 4096 || (align & (align - 1)) || s->sh_size > INT32_MAX / 4) return false;
    if (s->sh_type != SHT_NOBITS && !inside(l, s->sh_offset, s->sh_size)) return false;
    *at = (*at + align - 1) & ~(size_t)(align - 1);
    l->to[k] = (i64)*at;
    *at += s->sh_size;
    if (*at > INT32_MAX / 4) return false;  // so that all of it is in reach
  }
  return true;
}

static hs_status place(loading *l) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  l->to = hs_alloc((l->nsections + 1) * sizeof *l->to);
  for (u32 k = 0; k < l->nsections; k++) l->to[k] = -1;
  size_t at = 0;
  if (!place_sections(l, true, &at)) return damaged("bad code");
  l->stubs = (at + STUB_BYTES - 1) & ~(size_t)(STUB_BYTES - 1);
  at = l->stubs + (size_t)l->nsymbols * STUB_BYTES;
  l->code_bytes = at = (at + page - 1) & ~(page - 1);
  if (!place_sections(l, false, &at)) return damaged("bad data");
  l->slots = (at + SLOT_BYTES - 1) & ~(size_t)(SLOT_BYTES - 1);
  at = l->slots + (size_t)l->nsymbols * SLOT_BYTES;
  l->bytes = (at + page - 1) & ~(page - 1);
  char *m = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED) return hs_fail_errno(HS_E_NO_MEMORY, "code");
  l->memory = m;
  for (u32 k = 0; k < l->nsections; k++)
    if (l->to[k] >= 0 && l->section[k].sh_type != SHT_NOBITS && l->section[k].sh_size)
      memcpy(m + l->to[k], l->p + l->section[k].sh_offset, l->section[k].sh_size);
  return HS_GOOD;
}

// The addresses of all symbols; those from outside get a slot and a jump through it.
static hs_status find_addresses(loading *l) {
  l->address = hs_calloc(l->nsymbols + 1, sizeof *l->address);
  for (u32 k = 0; k < l->nsymbols; k++) {
    const Elf64_Sym *s = &l->symbol[k];
    const char *name = l->names + s->st_name;
    if (s->st_shndx == SHN_UNDEF && *name) {
      l->address[k] = l->resolve(l->arg, name);
      if (!l->address[k]) return hs_fail(HS_E_INTERNAL, "object code wants %s", name);
    } else if (s->st_shndx < l->nsections && l->to[s->st_shndx] >= 0) {
      if (s->st_value > l->section[s->st_shndx].sh_size) return damaged("bad symbol");
      l->address[k] = (u64)(uintptr_t)(l->memory + l->to[s->st_shndx]) + s->st_value;
    }
    size_t slot = l->slots + (size_t)k * SLOT_BYTES, stub = l->stubs + (size_t)k * STUB_BYTES;
    memcpy(l->memory + slot, &l->address[k], sizeof l->address[k]);
    // jmp *slot(%rip)
    static const u8 jump[2] = {0xff, 0x25};
    i32 far = (i32)(slot - stub - 6);
    memcpy(l->memory + stub, jump, sizeof jump);
    memcpy(l->memory + stub + sizeof jump, &far, sizeof far);
  }
  return HS_GOOD;
}

// ---- relocations --------------------------------------------------------------------------------
static hs_status relocate(loading *l, const Elf64_Rela *r, u32 target) {
  u32 type = (u32)ELF64_R_TYPE(r->r_info), symbol = (u32)ELF64_R_SYM(r->r_info);
  size_t bytes = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
  u64 size = l->section[target].sh_size;
  if (symbol >= l->nsymbols || r->r_offset > size || bytes > size - r->r_offset)
    return damaged("bad relocation");
  char *at = l->memory + l->to[target] + r->r_offset;
  const bool foreign = l->symbol[symbol].st_shndx == SHN_UNDEF;
  u64 value = l->address[symbol], base = (u64)(uintptr_t)l->memory;
  switch (type) {
  case R_X86_64_64:
  case R_X86_64_PC32:
  case R_X86_64_PC64: break;
  case R_X86_64_PLT32:
    if (foreign) value = base + l->stubs + (u64)symbol * STUB_BYTES;
    break;
  case R_X86_64_GOTPCREL:
  case R_X86_64_GOTPCRELX:
  case R_X86_64_REX_GOTPCRELX: value = base + l->slots + (u64)symbol * SLOT_BYTES; break;
  default: return hs_fail(HS_E_INTERNAL, "object code: a relocation of kind %u", type);
  }
  value += (u64)r->r_addend;
  if (type != R_X86_64_64) value -= (u64)(uintptr_t)at;
  if (bytes == 4 && (i64)value != (i32)(u32)value) return damaged("what it calls is out of reach");
  memcpy(at, &value, bytes);
  return HS_GOOD;
}

static hs_status relocate_all(loading *l) {
  for (u32 k = 0; k < l->nsections; k++) {
    const Elf64_Shdr *s = &l->section[k];
    if (s->sh_type == SHT_REL) return damaged("relocations of another kind");
    if (s->sh_type != SHT_RELA || s->sh_info >= l->nsections || l->to[s->sh_info] < 0) continue;
    if (!holds(l, s, sizeof(Elf64_Rela)) || l->section[s->sh_info].sh_type == SHT_NOBITS)
      return damaged("bad relocations");
    const Elf64_Rela *r = (const void *)(l->p + s->sh_offset);
    for (u64 j = 0; j < s->sh_size / sizeof *r; j++) HS_TRY(relocate(l, &r[j], s->sh_info));
  }
  return HS_GOOD;
}

static hs_status protect(const loading *l) {
  bool writes = false;
  for (u32 k = 0; k < l->nsections; k++)
    writes |= l->to[k] >= 0 && (l->section[k].sh_flags & SHF_WRITE);
  if (mprotect(l->memory, l->code_bytes, PROT_READ | PROT_EXEC) != 0 ||
      (!writes && l->bytes > l->code_bytes &&
       mprotect(l->memory + l->code_bytes, l->bytes - l->code_bytes, PROT_READ) != 0))
    return hs_fail_errno(HS_E_NO_MEMORY, "code");
  return HS_GOOD;
}

// ---- the object ---------------------------------------------------------------------------------
static emit_object *finished(const loading *l) {
  emit_object *o = hs_calloc(1, sizeof *o);
  o->memory = l->memory, o->bytes = l->bytes;
  o->names = hs_calloc(l->nsymbols + 1, sizeof *o->names);
  o->at = hs_calloc(l->nsymbols + 1, sizeof *o->at);
  for (u32 k = 0; k < l->nsymbols; k++) {
    if (ELF64_ST_TYPE(l->symbol[k].st_info) != STT_FUNC || !l->address[k]) continue;
    if (l->symbol[k].st_shndx == SHN_UNDEF) continue;
    o->names[o->nnames] = hs_strdup(l->names + l->symbol[k].st_name);
    o->at[o->nnames++] = (void *)(uintptr_t)l->address[k];
  }
  return o;
}

hs_status emit_object_load(const char *p, size_t n, emit_resolve *resolve, void *arg,
                           emit_object **out) {
  *out = NULL;
  void *aligned = NULL;  // its tables are read where they are
  if ((uintptr_t)p % 8) {
    aligned = hs_alloc(n + 1);
    memcpy(aligned, p, n);
  }
  loading l = {.p = aligned ? aligned : p, .n = n, .resolve = resolve, .arg = arg};
  hs_status s = read_header(&l);
  if (hs_ok(s)) s = read_symbols(&l);
  if (hs_ok(s)) s = place(&l);
  if (hs_ok(s)) s = find_addresses(&l);
  if (hs_ok(s)) s = relocate_all(&l);
  if (hs_ok(s)) s = protect(&l);
  if (hs_ok(s)) *out = finished(&l);
  else if (l.memory) munmap(l.memory, l.bytes);
  hs_free(l.to);
  hs_free(l.address);
  hs_free(aligned);
  return s;
}

void *emit_object_find(const emit_object *o, const char *name) {
  for (u32 k = 0; k < o->nnames; k++)
    if (strcmp(o->names[k], name) == 0) return o->at[k];
  return NULL;
}

void emit_object_free(emit_object *o) {
  if (!o) return;
  munmap(o->memory, o->bytes);
  for (u32 k = 0; k < o->nnames; k++) hs_free(o->names[k]);
  hs_free(o->names);
  hs_free(o->at);
  hs_free(o);
}
#endif
