; The block that makes the pointer into shared memory stands behind the one that uses it.
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()
@row = internal addrspace(3) global [64 x i32] undef, align 4
define ptx_kernel void @k(ptr %x, ptr %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  br label %fill

drain:
  %w = load i32, ptr addrspace(3) %p, align 4
  %py = getelementptr i32, ptr %y, i32 %t
  store i32 %w, ptr %py, align 4
  ret void

fill:
  %px = getelementptr i32, ptr %x, i32 %t
  %v = load i32, ptr %px, align 4
  %p = getelementptr i32, ptr addrspace(3) @row, i32 %t
  store i32 %v, ptr addrspace(3) %p, align 4
  call void @llvm.nvvm.barrier0()
  br label %drain
}
