; y[number of the thread] = that + 1, in all dimensions
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
define ptx_kernel void @k(ptr %y) {
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %tz = call i32 @llvm.nvvm.read.ptx.sreg.tid.z()
  %nx = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %ny = call i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  %nz = call i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
  %cx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %cy = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %cz = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %a0 = mul i32 %cz, %by
  %a1 = add i32 %a0, %cy
  %a2 = mul i32 %a1, %bx
  %a3 = add i32 %a2, %cx
  %a4 = mul i32 %a3, %nz
  %a5 = add i32 %a4, %tz
  %a6 = mul i32 %a5, %ny
  %a7 = add i32 %a6, %ty
  %a8 = mul i32 %a7, %nx
  %a9 = add i32 %a8, %tx
  %p = getelementptr i32, ptr %y, i32 %a9
  %v = add i32 %a9, 1
  store i32 %v, ptr %p, align 4
  ret void
}
