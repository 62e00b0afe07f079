// object_orc.c — object code becomes functions of this process, by LLVM's linker: for processors
// that object.c does not know. Also what both ask the process for.
#include "backends/emit/object.h"

#include <dlfcn.h>

u64 emit_process_symbol(const char *name) {
  static const char *const others[] = {"libm.so.6", "libgcc_s.so.1"};
  void *at = dlsym(RTLD_DEFAULT, name);
  for (size_t k = 0; k < HS_COUNT(others) && !at; k++) {
    void *library = dlopen(others[k], RTLD_LAZY);
    if (library) at = dlsym(library, name);
  }
  return (u64)(uintptr_t)at;
}

#if !defined(__x86_64__)
#include <llvm-c/Core.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Object.h>
#include <llvm-c/Orc.h>

#include "backends/emit/llvm/modules.h"

struct emit_object {
  LLVMOrcLLJITRef jit;
};

// Tells the JIT the addresses of all symbols that the object does not have.
static hs_status name_addresses(LLVMOrcLLJITRef jit, LLVMMemoryBufferRef object,
                                emit_resolve *resolve, void *arg) {
  char *err = NULL;
  LLVMContextRef ctx = LLVMContextCreate();
  LLVMBinaryRef o = LLVMCreateBinary(object, ctx, &err);
  HS_VEC(LLVMOrcCSymbolMapPair) v = {0};
  hs_status s = o ? HS_GOOD : hs_fail(HS_E_INTERNAL, "object code: %s", err ? err : "damaged");
  if (err) LLVMDisposeMessage(err);
  LLVMSymbolIteratorRef i = o ? LLVMObjectFileCopySymbolIterator(o) : NULL;
  LLVMSectionIteratorRef section = o ? LLVMObjectFileCopySectionIterator(o) : NULL;
  for (; i && !LLVMObjectFileIsSymbolIteratorAtEnd(o, i); LLVMMoveToNextSymbol(i)) {
    const char *name = LLVMGetSymbolName(i);
    LLVMMoveToContainingSection(section, i);
    if (!*name || !LLVMObjectFileIsSectionIteratorAtEnd(o, section)) continue;
    LLVMOrcCSymbolMapPair p = {.Name = LLVMOrcLLJITMangleAndIntern(jit, name),
                               .Sym = {.Address = resolve(arg, name)}};
    p.Sym.Flags.GenericFlags = LLVMJITSymbolGenericFlagsExported;
    hs_vec_push(&v, p);
  }
  if (i) LLVMDisposeSymbolIterator(i);
  if (section) LLVMDisposeSectionIterator(section);
  if (o) LLVMDisposeBinary(o);
  LLVMContextDispose(ctx);
  if (hs_ok(s) && v.n)
    s = emit_llvm_failed(
        "naming addresses",
        LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit), LLVMOrcAbsoluteSymbols(v.v, v.n)));
  hs_vec_free(&v);
  return s;
}

hs_status emit_object_load(const char *p, size_t n, emit_resolve *resolve, void *arg,
                           emit_object **out) {
  *out = NULL;
  LLVMOrcLLJITRef jit = NULL;
  HS_TRY(emit_llvm_failed("starting the JIT", LLVMOrcCreateLLJIT(&jit, NULL)));
  LLVMMemoryBufferRef object = LLVMCreateMemoryBufferWithMemoryRangeCopy(p, n, "object");
  hs_status s = name_addresses(jit, object, resolve, arg);
  if (hs_ok(s))  // the JIT takes it over
    s = emit_llvm_failed("adding object code",
                         LLVMOrcLLJITAddObjectFile(jit, LLVMOrcLLJITGetMainJITDylib(jit), object));
  else LLVMDisposeMemoryBuffer(object);
  *out = hs_calloc(1, sizeof **out);
  (*out)->jit = jit;
  if (hs_ok(s)) return s;
  emit_object_free(*out);
  *out = NULL;
  return s;
}

void *emit_object_find(const emit_object *o, const char *name) {
  LLVMOrcExecutorAddress at = 0;
  LLVMErrorRef e = LLVMOrcLLJITLookup(o->jit, &at, name);
  if (e) LLVMConsumeError(e);
  return (void *)(uintptr_t)at;
}

void emit_object_free(emit_object *o) {
  if (!o) return;
  LLVMErrorRef e = LLVMOrcDisposeLLJIT(o->jit);
  if (e) LLVMConsumeError(e);
  hs_free(o);
}
#endif
