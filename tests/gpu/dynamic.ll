; y[i] = 63 - i through shared memory that the launch asks for
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()
@dyn = external addrspace(3) global [0 x i32], align 16
define ptx_kernel void @k(ptr %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr [0 x i32], ptr addrspace(3) @dyn, i32 0, i32 %t
  store i32 %t, ptr addrspace(3) %p, align 4
  call void @llvm.nvvm.barrier0()
  %r = sub i32 63, %t
  %q = getelementptr [0 x i32], ptr addrspace(3) @dyn, i32 0, i32 %r
  %v = load i32, ptr addrspace(3) %q, align 4
  %py = getelementptr i32, ptr %y, i32 %t
  store i32 %v, ptr %py, align 4
  ret void
}
