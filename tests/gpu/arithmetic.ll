; arithmetic of llvm.nvvm's own
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare float @llvm.nvvm.div.rz.f(float, float)
declare float @llvm.nvvm.div.rp.f(float, float)
declare float @llvm.nvvm.ex2.approx.ftz.f(float)
declare i32 @llvm.nvvm.f2i.rm(float)
declare float @llvm.nvvm.add.rn.ftz.f(float, float)
declare float @llvm.nvvm.saturate.f(float)
define ptx_kernel void @k(ptr %x, ptr %y) {
  %q = getelementptr float, ptr %x, i32 1
  %a = load float, ptr %x, align 4
  %b = load float, ptr %q, align 4
  %r0 = call float @llvm.nvvm.div.rz.f(float %a, float %b)
  %p0 = getelementptr float, ptr %y, i32 0
  store float %r0, ptr %p0, align 4
  %r1 = call float @llvm.nvvm.div.rp.f(float %a, float %b)
  %p1 = getelementptr float, ptr %y, i32 1
  store float %r1, ptr %p1, align 4
  %r2 = call float @llvm.nvvm.ex2.approx.ftz.f(float %b)
  %p2 = getelementptr float, ptr %y, i32 2
  store float %r2, ptr %p2, align 4
  %i3 = call i32 @llvm.nvvm.f2i.rm(float -2.5)
  %r3 = sitofp i32 %i3 to float
  %p3 = getelementptr float, ptr %y, i32 3
  store float %r3, ptr %p3, align 4
  %r4 = call float @llvm.nvvm.add.rn.ftz.f(float 0x3800000000000000, float 0xB7F0000000000000)
  %p4 = getelementptr float, ptr %y, i32 4
  store float %r4, ptr %p4, align 4
  %r5 = call float @llvm.nvvm.saturate.f(float %b)
  %p5 = getelementptr float, ptr %y, i32 5
  store float %r5, ptr %p5, align 4
  ret void
}
