; Fault: x has 128 bytes to this kernel, and threads beyond 32 read behind them.
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @k(ptr "hlo-bytes"="128" %x, ptr %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %px = getelementptr float, ptr %x, i32 %t
  %v = load float, ptr %px, align 4
  %py = getelementptr float, ptr %y, i32 %t
  store float %v, ptr %py, align 4
  ret void
}
