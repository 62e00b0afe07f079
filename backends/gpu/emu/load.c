// load.c — loading a module of kernels: read, rewritten (rewrite.c), compiled and linked.
//
// No passes of LLVM run over it but the one that inlines the first half of looking at an access:
// the code that is compiled here is the code that the GPU gets.
#include "backends/gpu/emu/math.h"
#include "backends/gpu/emu/rewrite.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "backends/emit/unit.h"

typedef struct loader {
  LLVMContextRef ctx;
  LLVMModuleRef m;
  LLVMTargetMachineRef tm;
  LLVMTargetDataRef layout;
  char *complaint;  // the first error that LLVM reported; NULL: none
} loader;

// LLVM's own handler would end the process at an error.
static void on_diagnostic(LLVMDiagnosticInfoRef d, void *arg) {
  loader *l = arg;
  if (LLVMGetDiagInfoSeverity(d) != LLVMDSError || l->complaint) return;
  char *text = LLVMGetDiagInfoDescription(d);
  l->complaint = hs_strdup(text);
  LLVMDisposeMessage(text);
}

static hs_status llvm_failed(const char *what, LLVMErrorRef e) {
  if (!e) return HS_GOOD;
  char *m = LLVMGetErrorMessage(e);
  hs_status s = hs_fail(HS_E_INTERNAL, "the emulator: %s: %s", what, m);
  LLVMDisposeErrorMessage(m);
  return s;
}

// Takes an LLVM message; fails with it.
static hs_status refused(hs_code code, const char *what, char *message) {
  hs_status s = hs_fail(code, "the emulator: %s: %s", what, message ? message : "no reason given");
  LLVMDisposeMessage(message);
  return s;
}

static hs_status open_target(loader *l) {
  // The code generator for this machine, and what the process does when LLVM gives up.
  (void)emit_cache_bytes();
  char *triple = LLVMGetDefaultTargetTriple(), *why = NULL;
  char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  LLVMTargetRef t;
  hs_status s = HS_GOOD;
  if (LLVMGetTargetFromTriple(triple, &t, &why)) s = refused(HS_E_INTERNAL, "LLVM", why);
  else
    l->tm = LLVMCreateTargetMachine(t, triple, cpu, features, LLVMCodeGenLevelLess, LLVMRelocPIC,
                                    LLVMCodeModelDefault);
  if (hs_ok(s) && !l->tm) s = hs_fail(HS_E_INTERNAL, "the emulator: LLVM: no target machine");
  if (l->tm) l->layout = LLVMCreateTargetDataLayout(l->tm);
  LLVMDisposeMessage(triple);
  LLVMDisposeMessage(cpu);
  LLVMDisposeMessage(features);
  return s;
}

static hs_status read_module(loader *l, const void *code, size_t n) {
  l->ctx = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(l->ctx, on_diagnostic, l);
  LLVMMemoryBufferRef text = LLVMCreateMemoryBufferWithMemoryRangeCopy(code, n, "kernels");
  char *why = NULL;
  if (LLVMParseIRInContext(l->ctx, text, &l->m, &why)) {
    l->m = NULL;
    return refused(HS_E_COMPILE, "not a module of LLVM", why);
  }
  if (LLVMVerifyModule(l->m, LLVMReturnStatusAction, &why))
    return refused(HS_E_COMPILE, "not a valid module of LLVM", why);
  LLVMDisposeMessage(why);
  return HS_GOOD;
}

static hs_status rewrite_module(loader *l, emu_module *m) {
  char *layout = LLVMCopyStringRepOfTargetData(l->layout), *why = NULL;
  char *triple = LLVMGetTargetMachineTriple(l->tm);
  (void)LLVMStripModuleDebugInfo(l->m);
  LLVMSetDataLayout(l->m, layout);
  LLVMSetTarget(l->m, triple);
  LLVMDisposeMessage(layout);
  LLVMDisposeMessage(triple);
  HS_TRY(emu_rewrite(l->ctx, l->m, l->layout, m));
  if (LLVMVerifyModule(l->m, LLVMReturnStatusAction, &why))
    return refused(HS_E_INTERNAL, "rewritten code is not valid", why);
  LLVMDisposeMessage(why);
  if (!m->checked) return HS_GOOD;
  LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
  hs_status s = llvm_failed("inlining", LLVMRunPasses(l->m, "always-inline", l->tm, o));
  LLVMDisposePassBuilderOptions(o);
  return s;
}

static hs_status compile_module(loader *l, LLVMMemoryBufferRef *out) {
  char *why = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(l->tm, l->m, LLVMObjectFile, &why, out))
    return refused(HS_E_INTERNAL, "LLVM", why);
  if (!l->complaint) return HS_GOOD;
  LLVMDisposeMemoryBuffer(*out);
  return hs_fail(HS_E_INTERNAL, "the emulator: LLVM: %s", l->complaint);
}

// Functions that compiled code calls and that no library of this process need have.
static hs_status own_symbols(LLVMOrcLLJITRef jit) {
  static const struct {
    const char *name;
    const void *fn;
  } own[] = {{"__truncsfbf2", (const void *)(uintptr_t)emu_f2bf},
             {"__truncdfbf2", (const void *)(uintptr_t)emu_d2bf},
             {"__truncsfhf2", (const void *)(uintptr_t)emu_f2h},
             {"__truncdfhf2", (const void *)(uintptr_t)emu_d2h},
             {"__extendhfsf2", (const void *)(uintptr_t)emu_h2f}};
  LLVMOrcCSymbolMapPair pairs[HS_COUNT(own)];
  for (size_t k = 0; k < HS_COUNT(own); k++) {
    pairs[k].Name = LLVMOrcLLJITMangleAndIntern(jit, own[k].name);
    pairs[k].Sym.Address = (u64)(uintptr_t)own[k].fn;
    pairs[k].Sym.Flags = (LLVMJITSymbolFlags){
        LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0};
  }
  LLVMOrcMaterializationUnitRef unit = LLVMOrcAbsoluteSymbols(pairs, HS_COUNT(own));
  return llvm_failed("symbols", LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit), unit));
}

static hs_status look_up(const emu_module *m, const char *name, void **out) {
  LLVMOrcExecutorAddress at = 0;
  hs_status s = llvm_failed(name, LLVMOrcLLJITLookup(m->jit, &at, name));
  *out = (void *)(uintptr_t)at;
  return s;
}

static hs_status link_object(emu_module *m, LLVMMemoryBufferRef object) {
  LLVMOrcLLJITRef jit = NULL;
  hs_status s = llvm_failed("starting the JIT", LLVMOrcCreateLLJIT(&jit, NULL));
  if (!hs_ok(s)) {
    LLVMDisposeMemoryBuffer(object);
    return s;
  }
  m->jit = jit;
  LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(jit);
  s = llvm_failed("adding object code", LLVMOrcLLJITAddObjectFile(jit, lib, object));
  HS_TRY(s);
  HS_TRY(own_symbols(jit));
  LLVMOrcDefinitionGeneratorRef g = NULL;
  HS_TRY(llvm_failed("process symbols", LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
                                            &g, LLVMOrcLLJITGetGlobalPrefix(jit), NULL, NULL)));
  LLVMOrcJITDylibAddGenerator(lib, g);
  for (u32 k = 0; k < m->nkernels; k++) {
    char *name = hs_format("emu.entry.%u", k);
    void *at;
    s = look_up(m, name, &at);
    hs_free(name);
    HS_TRY(s);
    m->kernels[k].entry = (void (*)(void **))(uintptr_t)at;
  }
  for (u32 k = 0; k < m->nglobals; k++) HS_TRY(look_up(m, m->globals[k].symbol, &m->globals[k].at));
  return HS_GOOD;
}

static void loader_close(loader *l) {
  if (l->m) LLVMDisposeModule(l->m);
  if (l->layout) LLVMDisposeTargetData(l->layout);
  if (l->tm) LLVMDisposeTargetMachine(l->tm);
  if (l->ctx) LLVMContextDispose(l->ctx);
  hs_free(l->complaint);
}

hs_status emu_module_load(const void *code, size_t n, const emu_load_options *opt,
                          emu_module **out) {
  loader l = {0};
  LLVMMemoryBufferRef object = NULL;
  emu_module *m = hs_calloc(1, sizeof *m);
  m->checked = opt->checked;
  *out = NULL;
  hs_status s = open_target(&l);
  if (hs_ok(s)) s = read_module(&l, code, n);
  if (hs_ok(s)) s = rewrite_module(&l, m);
  if (hs_ok(s)) s = compile_module(&l, &object);
  if (hs_ok(s)) s = link_object(m, object);
  loader_close(&l);
  if (!hs_ok(s)) {
    emu_module_free(m);
    return s;
  }
  *out = m;
  return HS_GOOD;
}

void emu_module_free(emu_module *m) {
  if (!m) return;
  if (m->jit) {
    LLVMErrorRef e = LLVMOrcDisposeLLJIT(m->jit);
    if (e) LLVMConsumeError(e);
  }
  hs_arena_free(&m->arena);
  hs_free(m);
}

// ---- questions ----------------------------------------------------------------------------------
const emu_kernel *emu_module_kernel(const emu_module *m, const char *name) {
  for (u32 k = 0; k < m->nkernels; k++)
    if (strcmp(m->kernels[k].name, name) == 0) return &m->kernels[k];
  return NULL;
}

void *emu_module_global(const emu_module *m, const char *name, size_t *bytes) {
  for (u32 k = 0; k < m->nglobals; k++) {
    if (strcmp(m->globals[k].name, name) != 0) continue;
    *bytes = m->globals[k].bytes;
    return m->globals[k].at;
  }
  return NULL;
}

bool emu_module_has(const emu_module *m, const void *p, u64 n) {
  for (u32 k = 0; k < m->nglobals; k++) {
    u64 at = (uintptr_t)p - (uintptr_t)m->globals[k].at;
    if (at < m->globals[k].bytes && n <= m->globals[k].bytes - at) return true;
  }
  return false;
}
