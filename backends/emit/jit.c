// jit.c — code for this machine: its target machine, passes, object code, linking.
//
// Several kernels are a module, because a module costs about a millisecond by itself; modules are
// made on threads (llvm/modules.c). Code generation runs outside ORC:
// LLVMTargetMachineEmitToMemoryBuffer, then LLVMOrcLLJITAddObjectFile, which is the same call in
// every LLVM version and needs no thread-safe contexts. The pass list is short because the code
// generator writes clean code: hoisted, in SSA form, unrolled.
//
// Object code has no addresses of this process in it: constant arrays and functions of ours are
// symbols, which the JIT is told (place_constants, place_helpers). So it can be kept for another
// process (emit_code): the processor and LLVM's version, then for each module a digest of what
// decides about its code, the sizes of its functions, and the object.
//
// LLVM ends the process where it cannot go on (a fatal error, an assertion, a crash). That is the
// worker's process; before it ends, it says which kernels this thread was compiling.
#include "backends/emit/unit.h"
#include "backends/emit/codegen.h"
#include "backends/emit/llvm/modules.h"

#include <llvm-c/Core.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Object.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "backends/wire.h"
#include "backends/worker.h"
#include "core/base/sha256.h"

#define KERNELS_PER_MODULE 8
#define PASSES "function(early-cse,instcombine<no-verify-fixpoint>,early-cse)"
// What inlining leaves: arrays of arguments, slots on the stack, chunk numbers that are known.
#define REGION_PASSES                                                                          \
  "always-inline,function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg," \
  "loop-mssa(loop-rotate,licm),early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg)"

struct emit_jit {
  LLVMOrcLLJITRef jit;
  emit_options options;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *host_cpu, *host_features;
static i64 host_cache, host_near;

static void doing_bodies(u32 n, emit_body *const *bodies) {
  const char *names[KERNELS_PER_MODULE];
  n = HS_MIN(n, (u32)KERNELS_PER_MODULE);
  for (u32 k = 0; k < n; k++) names[k] = bodies[k]->of;
  emit_llvm_doing(n, names);
}

static void fatal_error(const char *reason) {
  const char *here = worker_doing_here;
  worker_last_words(here ? here : worker_doing, reason);
  (void)fprintf(stderr, "LLVM: %s\n", reason);
  (void)raise(SIGABRT);  // LLVM would exit, with all that is registered for that
}

// The largest cache that CPUID describes: leaf 4 of Intel's manual, 8000001Dh of AMD's. (sysconf
// adds up the caches of a whole machine.) near: how much lies where stores are faster than in
// memory. The last cache of Intel's servers, which does not include those before it, is as far from
// a core as memory is: there it is the second caches of all cores.
static i64 last_cache(i64 *near) {
  i64 most = 0, second = 0;
#if defined(__x86_64__)
  static const unsigned leaves[] = {4, 0x8000001D};
  for (size_t l = 0; l < HS_COUNT(leaves); l++)
    for (unsigned k = 0; k < 8; k++) {
      unsigned a = 0, b = 0, c = 0, d = 0;
      if (!__get_cpuid_count(leaves[l], k, &a, &b, &c, &d) || (a & 31) == 0) break;
      i64 bytes = ((i64)(b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) * ((i64)c + 1);
      unsigned level = a >> 5 & 7;
      bool includes = d >> 1 & 1;
      if (l == 0 && level == 2) second = bytes * HS_MAX((i64)sysconf(_SC_NPROCESSORS_ONLN), 1);
      if (l == 0 && level == 3 && includes) second = 0;
      most = HS_MAX(most, bytes);
    }
#endif
  *near = second ? HS_MIN(second, most) : most;
  return most;
}

static void init_llvm(void) {
  LLVMInstallFatalErrorHandler(fatal_error);
  (void)LLVMInitializeNativeTarget();
  (void)LLVMInitializeNativeAsmPrinter();
  (void)LLVMInitializeNativeAsmParser();
  host_cpu = LLVMGetHostCPUName();
  host_features = LLVMGetHostCPUFeatures();
  host_cache = last_cache(&host_near);
  const char *args[] = {"hlosh", "-disable-lsr"};
  LLVMParseCommandLineOptions(2, args, NULL);
}

u32 emit_vector_bytes(void) {
  (void)pthread_once(&once, init_llvm);
  if (strstr(host_features, "+avx512vl") && strstr(host_features, "+avx512bw") &&
      strstr(host_features, "+avx512dq"))
    return 64;
  return strstr(host_features, "+avx2") ? 32 : 16;
}

i64 emit_cache_bytes(void) {
  (void)pthread_once(&once, init_llvm);
  return host_cache;
}

i64 emit_near_bytes(void) {
  (void)pthread_once(&once, init_llvm);
  return host_near;
}

static hs_status target_machine(const void *none, LLVMTargetMachineRef *out) {
  (void)none;
  char *triple = LLVMGetDefaultTargetTriple(), *err = NULL;
  LLVMTargetRef t;
  *out = NULL;
  if (LLVMGetTargetFromTriple(triple, &t, &err)) {
    hs_status s = hs_fail(HS_E_INTERNAL, "LLVM: %s", err);
    LLVMDisposeMessage(err);
    LLVMDisposeMessage(triple);
    return s;
  }
  *out = LLVMCreateTargetMachine(t, triple, host_cpu, host_features, LLVMCodeGenLevelDefault,
                                 LLVMRelocPIC, LLVMCodeModelDefault);
  LLVMDisposeMessage(triple);
  return *out ? HS_GOOD : hs_fail(HS_E_INTERNAL, "LLVM: no target machine");
}

// ---- one module ---------------------------------------------------------------------------------
// The only lane that a mask lets through; -1: there are several, or it is not known.
static i64 lone_lane(LLVMValueRef mask) {
  i64 lane = -1;
  if (!LLVMIsConstant(mask)) return -1;
  for (u32 k = 0, n = LLVMGetVectorSize(LLVMTypeOf(mask)); k < n; k++) {
    LLVMValueRef bit = LLVMGetAggregateElement(mask, k);
    if (!bit || !LLVMIsAConstantInt(bit)) return -1;
    if (LLVMConstIntGetZExtValue(bit) && lane >= 0) return -1;
    if (LLVMConstIntGetZExtValue(bit)) lane = k;
  }
  return lane;
}

// Masked stores of one lane become stores of one element. LLVM 22 for x86 makes them itself, but
// where the value was truncated it stores the element as it was before, over its neighbours.
static void store_lone_lanes(LLVMContextRef ctx, LLVMModuleRef m) {
  LLVMBuilderRef b = LLVMCreateBuilderInContext(ctx);
  for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
    for (LLVMBasicBlockRef bb = LLVMGetFirstBasicBlock(f); bb; bb = LLVMGetNextBasicBlock(bb))
      for (LLVMValueRef i = LLVMGetFirstInstruction(bb), next; i; i = next) {
        next = LLVMGetNextInstruction(i);
        LLVMValueRef callee = LLVMIsACallInst(i) ? LLVMGetCalledValue(i) : NULL;
        static const char name[] = "llvm.masked.store.";
        size_t n = 0;
        if (!callee || strncmp(LLVMGetValueName2(callee, &n), name, sizeof name - 1) != 0) continue;
        i64 lane = lone_lane(LLVMGetOperand(i, LLVMGetNumArgOperands(i) - 1));
        if (lane < 0) continue;
        LLVMPositionBuilderBefore(b, i);
        LLVMValueRef at = LLVMConstInt(LLVMInt64TypeInContext(ctx), (u64)lane, false),
                     e = LLVMBuildExtractElement(b, LLVMGetOperand(i, 0), at, ""),
                     p = LLVMBuildGEP2(b, LLVMTypeOf(e), LLVMGetOperand(i, 1), &at, 1, "");
        LLVMBuildStore(b, e, p);  // elements lie at multiples of their size
        LLVMInstructionEraseFromParent(i);
      }
  LLVMDisposeBuilder(b);
}

// Builds and optimizes one module of n bodies, or of one region; what cannot be generated fails the
// whole call.
static hs_status build_module(emit_llvm *c, const emit_options *o, u32 n, emit_body *const *bodies,
                              const emit_region *region, LLVMModuleRef *out) {
  LLVMModuleRef m = emit_llvm_module(c);
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    emit_llvm_doing(1, &bodies[k]->of);
    s = emit_body_code(bodies[k], c->ctx, m, o);
  }
  if (region) {
    emit_llvm_doing(1, &region->of);
    s = emit_region_code(region, c->ctx, m, o);
  } else if (hs_ok(s)) doing_bodies(n, bodies);
  if (hs_ok(s)) s = emit_llvm_optimize(c, m, region ? REGION_PASSES : PASSES, o->verify);
  if (hs_ok(s)) store_lone_lanes(c->ctx, m);
  if (!hs_ok(s)) {
    LLVMDisposeModule(m);
    return s;
  }
  *out = m;
  return HS_GOOD;
}

// ---- sizes of functions -------------------------------------------------------------------------
// 0: the object has no such function.
static size_t function_bytes(LLVMBinaryRef o, const char *name) {
  size_t n = 0;
  LLVMSymbolIteratorRef s = LLVMObjectFileCopySymbolIterator(o);
  for (; s && !n && !LLVMObjectFileIsSymbolIteratorAtEnd(o, s); LLVMMoveToNextSymbol(s))
    if (strcmp(LLVMGetSymbolName(s), name) == 0) n = LLVMGetSymbolSize(s);
  LLVMDisposeSymbolIterator(s);
  return n;
}

// For who looks up what code an address belongs to; without them nothing else is missing.
static void note_sizes(LLVMContextRef ctx, LLVMMemoryBufferRef object, u32 n,
                       emit_body *const *bodies, emit_region *region) {
  char *err = NULL;
  LLVMBinaryRef o = LLVMCreateBinary(object, ctx, &err);
  if (err) LLVMDisposeMessage(err);
  if (!o) return;
  if (region) region->fn_bytes = function_bytes(o, region->name);
  for (u32 k = 0; k < n; k++) {
    char *second = hs_format("%s_finish", bodies[k]->name);
    bodies[k]->fn_bytes = function_bytes(o, bodies[k]->name);
    bodies[k]->finish_bytes = function_bytes(o, second);
    hs_free(second);
  }
  LLVMDisposeBinary(o);
}

// ---- object code --------------------------------------------------------------------------------
typedef struct job {
  const emit_options *options;
  const emit_work *w;
  u32 per;                 // regions first, each a module; then so many bodies to a module
  u32 nmissing, *missing;  // modules without an object
  LLVMMemoryBufferRef *objects;
} job;

// What module k is made of: a region, or n bodies.
typedef struct part {
  emit_region *region;
  u32 n;
  emit_body *const *bodies;
} part;

static part part_of(const job *j, u32 k) {
  if (k < j->w->nregions) return (part){j->w->regions[k], 0, j->w->bodies};
  u32 from = (k - j->w->nregions) * j->per;
  return (part){NULL, HS_MIN(j->per, j->w->nbodies - from), j->w->bodies + from};
}

static hs_status compile_module(emit_llvm *c, void *arg, u32 number) {
  job *j = arg;
  LLVMModuleRef m = NULL;
  u32 k = j->missing[number];
  part x = part_of(j, k);
  HS_TRY(build_module(c, j->options, x.n, x.bodies, x.region, &m));
  hs_status s = emit_llvm_code(c, m, LLVMObjectFile, &j->objects[k]);
  if (hs_ok(s)) note_sizes(c->ctx, j->objects[k], x.n, x.bodies, x.region);
  LLVMDisposeModule(m);
  return s;
}

// ---- object code that is kept -------------------------------------------------------------------
static void put_compiler(hs_buf *b) {
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  hs_buf_printf(b, "LLVM %u.%u.%u, %s, %s", major, minor, patch, host_cpu, host_features);
}

static void digest_of(const job *j, u32 k, u8 out[HS_SHA256_BYTES]) {
  hs_buf b = {0};
  part x = part_of(j, k);
  wire_put_u32(&b, j->options->vector_bytes);
  wire_put_u32(&b, j->options->contract);
  wire_put_u32(&b, j->options->keep_denormals);
  if (x.region) emit_region_identity(x.region, &b);
  for (u32 n = 0; n < x.n; n++) emit_body_identity(x.bodies[n], &b);
  hs_sha256 h;
  hs_sha256_begin(&h);
  hs_sha256_put(&h, b.p, b.n);
  hs_sha256_end(&h, out);
  hs_buf_free(&b);
}

// The sizes of functions of a part, in a fixed order: put, or taken.
static void put_sizes(hs_buf *b, const part *x) {
  if (x->region) wire_put_i64(b, (i64)x->region->fn_bytes);
  for (u32 n = 0; n < x->n; n++) {
    wire_put_i64(b, (i64)x->bodies[n]->fn_bytes);
    wire_put_i64(b, (i64)x->bodies[n]->finish_bytes);
  }
}

static void take_sizes(wire_reader *r, const part *x) {
  if (x->region) x->region->fn_bytes = (size_t)wire_get_i64(r);
  for (u32 n = 0; n < x->n; n++) {
    x->bodies[n]->fn_bytes = (size_t)wire_get_i64(r);
    x->bodies[n]->finish_bytes = (size_t)wire_get_i64(r);
  }
}

// Objects of the modules for which `code` has them; the rest is missing.
static void take_objects(job *j, u32 n, const emit_code *code) {
  wire_reader r = {code->given, code->n, false};
  hs_buf here = {0};
  put_compiler(&here);
  hs_str by = wire_get_str(&r);
  bool fits = by.n == here.n && !memcmp(by.p, here.p, by.n) && wire_get_u32(&r) == n;
  hs_buf_free(&here);
  for (u32 k = 0; k < n && fits && !r.bad; k++) {
    u8 mine[HS_SHA256_BYTES];
    digest_of(j, k, mine);
    hs_str is = wire_get_bytes(&r), sizes = wire_get_bytes(&r), object = wire_get_bytes(&r);
    if (r.bad || is.n != sizeof mine || memcmp(is.p, mine, is.n) != 0 || !object.n) continue;
    part x = part_of(j, k);
    wire_reader s = {sizes.p, sizes.n, false};
    take_sizes(&s, &x);
    j->objects[k] = LLVMCreateMemoryBufferWithMemoryRangeCopy(object.p, object.n, "kept");
  }
}

static void keep_objects(const job *j, u32 n, hs_buf *out) {
  hs_buf here = {0};
  put_compiler(&here);
  wire_put_bytes(out, here.p, here.n);
  wire_put_u32(out, n);
  for (u32 k = 0; k < n; k++) {
    u8 digest[HS_SHA256_BYTES];
    digest_of(j, k, digest);
    wire_put_bytes(out, digest, sizeof digest);
    part x = part_of(j, k);
    here.n = 0;
    put_sizes(&here, &x);
    wire_put_bytes(out, here.p, here.n);
    wire_put_bytes(out, LLVMGetBufferStart(j->objects[k]), LLVMGetBufferSize(j->objects[k]));
  }
  hs_buf_free(&here);
}

// ---- linking ------------------------------------------------------------------------------------
// Symbols of absolute addresses, gathered and told to the JIT at once.
typedef struct symbols {
  LLVMOrcLLJITRef jit;
  HS_VEC(LLVMOrcCSymbolMapPair) v;
} symbols;

static void add_symbol(void *arg, const char *name, u64 address) {
  symbols *s = arg;
  LLVMOrcCSymbolMapPair p = {
      .Name = LLVMOrcLLJITMangleAndIntern(s->jit, name),
      .Sym = {.Address = address, .Flags = {.GenericFlags = LLVMJITSymbolGenericFlagsExported}}};
  hs_vec_push(&s->v, p);
}

static hs_status define_symbols(symbols *s) {
  hs_status st = HS_GOOD;
  if (s->v.n)
    st = emit_llvm_failed("naming addresses",
                          LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(s->jit),
                                                LLVMOrcAbsoluteSymbols(s->v.v, s->v.n)));
  hs_vec_free(&s->v);
  return st;
}

static hs_status place_helpers(LLVMOrcLLJITRef jit) {
  symbols s = {.jit = jit};
  emit_each_helper(add_symbol, &s);
  return define_symbols(&s);
}

// Where the constant arrays of all bodies lie that the JIT has not been told of.
static hs_status place_constants(const emit_jit *jit, const emit_work *w) {
  symbols s = {.jit = jit->jit};
  for (u32 k = 0; k < w->nknown; k++) {
    emit_body *b = w->known[k];
    if (b->placed) continue;
    b->placed = true;
    for (size_t j = 0; j < b->n->bufs.n; j++) {
      char name[EMIT_SYMBOL_BYTES];
      if (b->n->bufs.v[j].arg != NEST_BUF_CONST) continue;
      emit_constant_symbol(b->name, j, name);
      add_symbol(&s, name, (u64)(uintptr_t)b->n->bufs.v[j].data);
    }
  }
  return define_symbols(&s);
}

static hs_status look_up(const emit_jit *jit, const char *name, LLVMOrcExecutorAddress *at) {
  *at = 0;
  return emit_llvm_failed(name, LLVMOrcLLJITLookup(jit->jit, at, name));
}

static hs_status look_up_all(const emit_jit *jit, const emit_work *w) {
  LLVMOrcExecutorAddress at;
  for (u32 k = 0; k < w->nregions; k++) {
    HS_TRY(look_up(jit, w->regions[k]->name, &at));
    w->regions[k]->fn = (i32(*)(void **, const emit_env *))(uintptr_t)at;
  }
  for (u32 k = 0; k < w->nbodies; k++) {
    emit_body *b = w->bodies[k];
    HS_TRY(look_up(jit, b->name, &at));
    b->fn = (emit_entry *)(uintptr_t)at;
    if (b->n->finish.n == 0) continue;
    char *second = hs_format("%s_finish", b->name);
    hs_status s = look_up(jit, second, &at);
    b->finish = (emit_entry *)(uintptr_t)at;
    hs_free(second);
    HS_TRY(s);
  }
  return HS_GOOD;
}

// Objects of all n modules: taken from `code`, or compiled; all of them are put into it then.
static hs_status make_objects(job *j, u32 n, u32 threads, emit_code *code) {
  if (code && code->given) take_objects(j, n, code);
  j->missing = hs_alloc(n * sizeof *j->missing);
  for (u32 k = 0; k < n; k++)
    if (!j->objects[k]) j->missing[j->nmissing++] = k;
  hs_status s = HS_GOOD;
  if (j->nmissing)
    s = emit_llvm_run(&(emit_llvm_work){j->nmissing, target_machine, NULL, compile_module, j},
                      threads);
  if (code) code->taken = j->nmissing == 0;
  if (hs_ok(s) && code && code->wanted && j->nmissing) keep_objects(j, n, &code->made);
  hs_free(j->missing);
  return s;
}

hs_status emit_jit_compile(emit_jit *jit, const emit_work *w, u32 threads, emit_code *code) {
  if (w->nbodies + w->nregions == 0) return HS_GOOD;
  threads = HS_MAX(threads, 1);
  job j = {.options = &jit->options, .w = w};
  j.per = HS_MAX(HS_MIN(KERNELS_PER_MODULE, (w->nbodies + threads - 1) / threads), 1);
  u32 n = w->nregions + (w->nbodies + j.per - 1) / j.per;
  j.objects = hs_calloc(n, sizeof *j.objects);
  hs_status s = make_objects(&j, n, threads, code);
  if (hs_ok(s)) s = place_constants(jit, w);
  LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(jit->jit);
  for (u32 k = 0; k < n; k++) {  // the JIT takes them over
    if (hs_ok(s))
      s = emit_llvm_failed("adding object code",
                           LLVMOrcLLJITAddObjectFile(jit->jit, lib, j.objects[k]));
    else if (j.objects[k]) LLVMDisposeMemoryBuffer(j.objects[k]);
  }
  if (hs_ok(s)) s = look_up_all(jit, w);
  hs_free(j.objects);
  return s;
}

static hs_status module_text(emit_llvm *c, LLVMModuleRef m, bool assembly, hs_buf *out) {
  if (!assembly) return emit_llvm_text(m, out), HS_GOOD;
  LLVMMemoryBufferRef b = NULL;
  HS_TRY(emit_llvm_code(c, m, LLVMAssemblyFile, &b));
  hs_buf_put(out, LLVMGetBufferStart(b), LLVMGetBufferSize(b));
  LLVMDisposeMemoryBuffer(b);
  return HS_GOOD;
}

hs_status emit_jit_text(const emit_options *o, const emit_work *w, bool assembly, hs_buf *out) {
  emit_llvm c;
  (void)pthread_once(&once, init_llvm);
  hs_status s = emit_llvm_open(&c, target_machine, NULL);
  for (u32 k = 0; k <= w->nregions && hs_ok(s); k++) {
    const emit_region *r = k ? w->regions[k - 1] : NULL;
    LLVMModuleRef m = NULL;
    s = build_module(&c, o, r ? 0 : w->nbodies, w->bodies, r, &m);
    if (hs_ok(s)) s = module_text(&c, m, assembly, out);
    if (m) LLVMDisposeModule(m);
  }
  emit_llvm_close(&c);
  return s;
}

// ---- the JIT ------------------------------------------------------------------------------------
hs_status emit_jit_new(const emit_options *o, emit_jit **out) {
  (void)pthread_once(&once, init_llvm);
  *out = NULL;
  LLVMOrcLLJITRef j = NULL;
  HS_TRY(emit_llvm_failed("starting the JIT", LLVMOrcCreateLLJIT(&j, NULL)));
  LLVMOrcDefinitionGeneratorRef g = NULL;
  hs_status s =
      emit_llvm_failed("process symbols", LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
                                              &g, LLVMOrcLLJITGetGlobalPrefix(j), NULL, NULL));
  if (hs_ok(s)) LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(j), g);
  if (hs_ok(s)) s = place_helpers(j);
  if (!hs_ok(s)) {
    (void)LLVMOrcDisposeLLJIT(j);
    return s;
  }
  *out = hs_calloc(1, sizeof **out);
  (*out)->jit = j;
  (*out)->options = *o;
  return HS_GOOD;
}

void emit_jit_free(emit_jit *j) {
  if (!j) return;
  LLVMErrorRef e = LLVMOrcDisposeLLJIT(j->jit);
  if (e) LLVMConsumeError(e);
  hs_free(j);
}

void emit_jit_warm_up(void) {
  emit_llvm c;
  (void)pthread_once(&once, init_llvm);
  hs_status s = emit_llvm_open(&c, target_machine, NULL);
  if (hs_ok(s)) {
    LLVMModuleRef m = emit_llvm_module(&c);
    LLVMValueRef f =
        LLVMAddFunction(m, "f", LLVMFunctionType(LLVMVoidTypeInContext(c.ctx), NULL, 0, false));
    LLVMBuilderRef b = LLVMCreateBuilderInContext(c.ctx);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(c.ctx, f, ""));
    LLVMBuildRetVoid(b);
    LLVMDisposeBuilder(b);
    s = emit_llvm_optimize(&c, m, PASSES, false);
    LLVMMemoryBufferRef code = NULL;
    if (hs_ok(s)) s = emit_llvm_code(&c, m, LLVMObjectFile, &code);
    if (code) LLVMDisposeMemoryBuffer(code);
    LLVMDisposeModule(m);
  }
  hs_status_drop(s);
  emit_llvm_close(&c);
}
