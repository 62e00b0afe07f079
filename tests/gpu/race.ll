; Fault: each thread reads what the one before it writes.
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()
@s = internal addrspace(3) global [64 x i32] undef, align 4
define ptx_kernel void @k(ptr %x, ptr %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %o1 = add i32 %t, 63
  %o = and i32 %o1, 63
  %w0 = getelementptr [64 x i32], ptr addrspace(3) @s, i32 0, i32 %t
  store i32 %t, ptr addrspace(3) %w0, align 4
  call void @llvm.nvvm.barrier0()
  %w1 = getelementptr [64 x i32], ptr addrspace(3) @s, i32 0, i32 %t
  store i32 %t, ptr addrspace(3) %w1, align 4
  %r0 = getelementptr [64 x i32], ptr addrspace(3) @s, i32 0, i32 %o
  %l0 = load i32, ptr addrspace(3) %r0, align 4
  ret void
}
