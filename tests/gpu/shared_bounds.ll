; Fault: threads beyond 32 write behind the first variable, into the second.
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
@first = internal addrspace(3) global [32 x i32] undef, align 4
@second = internal addrspace(3) global [32 x i32] undef, align 4
define ptx_kernel void @k(ptr %x, ptr %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %q = getelementptr i32, ptr addrspace(3) @second, i32 %t
  %p = getelementptr [32 x i32], ptr addrspace(3) @first, i32 0, i32 %t
  store i32 %t, ptr addrspace(3) %p, align 4
  ret void
}
