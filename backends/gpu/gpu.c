// gpu.c — the two backends, the shell's side: `gpu`, a device through its driver, and
// `gpu-emulated`, the same code on the emulator. See gpu.h.
//
// No foreign code runs here. The shell's side is that of the cpu backend (backends/cpu/client.h); a
// compile request has a few fields more. `gpu` needs no device to compile for a named one: then
// the program can be looked at, and running it says what is missing.
#include "backends/cpu/client.h"
#include "backends/gpu/nccl/nccl.h"
#include "backends/gpu/nvml/nvml.h"
#include "backends/gpu/gpu.h"

static hs_status probe_emulated(void) {
#if HAVE_LLVM
  return HS_GOOD;
#else
  return hs_with_note(hs_fail(HS_E_NOT_BUILT, "this build has no LLVM"),
                      "fix: apt-get install llvm-19-dev, then make");
#endif
}

static hs_status probe_device(void) {
  HS_TRY(probe_emulated());
  hs_buf where = {0};
  bool found = cuda_driver_present(&where);
  hs_buf_free(&where);
  return found ? HS_GOOD : cuda_driver_missing();
}

// ---- what runs on the device --------------------------------------------------------------------

static bool runs_nowhere(const hlo_instr *i) {
  return cpu_instr_is_alias(i) || hlo_op_has(i->opcode, HLO_F_CONTROL) ||
         i->opcode == HLO_PARAMETER || i->opcode == HLO_CONSTANT || i->opcode == HLO_AFTER_ALL;
}

// Everything that the cpu backend does can be run: on the host where there is no kernel. That this
// is so is said: `compile` names those steps, and what measures refuses them.
static bool gpu_supports(const hlo_instr *i, hs_buf *why) { return cpu_client_supports(i, why); }

static bool gpu_falls_back(const hlo_instr *i) {
#if HAVE_LLVM
  return !runs_nowhere(i) && !emit_gpu_supports(i, NULL) && !gpu_collective_is_own(i);
#else
  return !runs_nowhere(i);
#endif
}

// What libraries do alone: asked for when a program is made, in the worker.
static const char *gpu_library_of(const hlo_instr *i) {
#if HAVE_LLVM
  return gpu_library_name(i);
#else
  return (void)i, NULL;
#endif
}

static void list_libraries(bool here, hs_buf *out) {
  u32 n = 0;
  for (u32 k = 0; k < CUDA_LIBRARIES; k++)
    if (cuda_library_present(cuda_libraries[k]) == here)
      hs_buf_printf(out, "%s%s", n++ ? ", " : "", cuda_libraries[k]->name);
}

static bool gpu_extras(hs_buf *text, hs_buf *fix) {
  hs_buf missing = {0};
  list_libraries(true, text);
  list_libraries(false, &missing);
  bool all = !missing.n;
  if (!all)
    hs_buf_printf(text, "%snot found: %s (kernels of ours and the host do without)",
                  text->n ? "; " : "", hs_buf_cstr(&missing));
  hs_buf_puts(text, cuda_library_present(&cuda_nvml) ? "; energy by NVML" : "; no NVML: no energy");
  hs_buf_puts(text, cuda_library_present(&cuda_nccl)
                        ? "; NCCL between devices"
                        : "; no NCCL: the host computes what is between devices");
  hs_buf_puts(fix,
              "install NVIDIA's CUDA toolkit and cuDNN 9, or name files in HLOSH_LIBCUBLAS, ...");
  hs_buf_free(&missing);
  return all;
}

// ---- compile ------------------------------------------------------------------------------------

static hs_status describe(const backend_options *o, bool emulated, bool load, hs_buf *request) {
  const gpu_target *t = o->device ? gpu_target_find(o->device) : NULL;
  const char *chip = o->device ? gpu_chip_find(o->device) : NULL;
  if (chip && emulated)
    return hs_with_note(hs_fail(HS_E_UNSUPPORTED, "the emulation runs code for NVIDIA's GPUs only"),
                        "`backend gpu` compiles for %s, to be looked at", o->device);
  if (o->device && !t && !chip)
    return hs_with_note(
        hs_fail(HS_E_UNSUPPORTED, "no code can be made for %s", o->device),
        "for NVIDIA's GPUs from sm_75 on: target h200, h100, a100, l4, b200, sm_90; to look at: "
        "mi300x");
  wire_put_u32(request, emulated);
  wire_put_u32(request, load && !chip && !o->plan_only);
  wire_put_u32(request, t ? t->sm : 0);
  wire_put_u32(request, emulated ? BACKEND_LIBRARIES_OFF : o->libraries);
  wire_put_str(request, chip ? chip : "");
  wire_put_str(request, o->driver && !emulated ? o->driver : "");
  return HS_GOOD;
}

static hs_status describe_device(const backend_options *o, hs_buf *request) {
  hs_status s = o->driver ? HS_GOOD : probe_device();
  bool here = hs_ok(s);
  if (!here && !o->device) return s;
  hs_status_drop(s);
  return describe(o, false, here, request);
}

static hs_status describe_emulated(const backend_options *o, hs_buf *request) {
  return describe(o, true, true, request);
}

static bool device_is_lost(hs_status s) {
  return s.err->code == HS_E_DEVICE_FAULT || s.err->code == HS_E_DEVICE;
}

static const cpu_client device = {
    .name = "gpu",
    .compile = WORKER_REQ_GPU_COMPILE,
    .device = true,
    .describe = describe_device,
    .ends = device_is_lost,
};
static const cpu_client emulated = {
    .name = "gpu-emulated",
    .compile = WORKER_REQ_GPU_COMPILE,
    .describe = describe_emulated,
    .ends = device_is_lost,
};

static hs_status compile_device(const hlo_module *m, const backend_options *o, backend_exe **out) {
  *out = NULL;
  HS_TRY(probe_emulated());
  hs_status s = cpu_client_compile(&device, m, o, out);
  if (hs_ok(s) || !s.err->subject || strcmp(s.err->subject, GPU_OTHER_DRIVER) != 0) return s;
  hs_status_drop(s);  // its worker has ended (device_is_lost): in a new one it can be opened
  return cpu_client_compile(&device, m, o, out);
}

static hs_status compile_emulated(const hlo_module *m, const backend_options *o,
                                  backend_exe **out) {
  *out = NULL;
  HS_TRY(probe_emulated());
  return cpu_client_compile(&emulated, m, o, out);
}

// ---- dump ---------------------------------------------------------------------------------------

// The machine code, and what each kernel takes, by NVIDIA's own tools: of the PTX.
static hs_status gpu_dump(backend_exe *e, const char *what, hs_buf *out) {
  bool sass = strcmp(what, "sass") == 0;
  if (!sass && strcmp(what, "resources") != 0) return cpu_client_dump(e, what, out);
  hs_buf ptx = {0};
  hs_status s = cpu_client_dump(e, "ptx", &ptx);
  if (hs_ok(s)) s = gpu_assemble(ptx.p ? ptx.p : "", ptx.n, what, out);
  hs_buf_free(&ptx);
  return s;
}

const backend backend_gpu = {
    .name = "gpu",
    .summary = "NVIDIA GPUs: LLVM's PTX, launched through the CUDA driver",
    .caps = BACKEND_DEVICE,
    .probe = probe_device,
    .supports = gpu_supports,
    .falls_back = gpu_falls_back,
    .library = gpu_library_of,
    .extras = gpu_extras,
    .compile = compile_device,
    .compiled = cpu_client_compiled,
    .run = cpu_client_run,
    .dump = gpu_dump,
    .plan = cpu_client_plan,
    .release = cpu_client_release,
};

const backend backend_gpu_emulated = {
    .name = "gpu-emulated",
    .summary = "the same kernels on this CPU, thread by thread, checked",
    .probe = probe_emulated,
    .supports = gpu_supports,
    .falls_back = gpu_falls_back,
    .compile = compile_emulated,
    .compiled = cpu_client_compiled,
    .run = cpu_client_run,
    .dump = gpu_dump,
    .plan = cpu_client_plan,
    .release = cpu_client_release,
};
