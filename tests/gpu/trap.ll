; Fault: thread 5 traps.
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.trap()
define ptx_kernel void @k(ptr %x, ptr %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %if = icmp eq i32 %t, 5
  br i1 %if, label %one, label %other
one:
  call void @llvm.trap()
  unreachable
other:
  ret void
}
