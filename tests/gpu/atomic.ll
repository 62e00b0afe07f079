; y[0] += 1, y[1] = max(y[1], thread), y[2] += 1 by way of shared memory
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()
@sum = internal addrspace(3) global i32 undef, align 4
define ptx_kernel void @k(ptr %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %o = atomicrmw add ptr %y, i32 1 seq_cst
  %p1 = getelementptr i32, ptr %y, i32 1
  %o1 = atomicrmw umax ptr %p1, i32 %t syncscope("device") monotonic
  %first = icmp eq i32 %t, 0
  br i1 %first, label %zero, label %go
zero:
  store i32 0, ptr addrspace(3) @sum, align 4
  br label %go
go:
  call void @llvm.nvvm.barrier0()
  %o2 = atomicrmw add ptr addrspace(3) @sum, i32 1 monotonic
  call void @llvm.nvvm.barrier0()
  br i1 %first, label %out, label %end
out:
  %s = load i32, ptr addrspace(3) @sum, align 4
  %p2 = getelementptr i32, ptr %y, i32 2
  %o3 = atomicrmw add ptr %p2, i32 %s monotonic
  br label %end
end:
  ret void
}
