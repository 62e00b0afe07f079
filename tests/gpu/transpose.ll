; 32 x 32 floats through a padded tile
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()
@tile = internal addrspace(3) global [1056 x float] undef, align 16
define ptx_kernel void @k(ptr %x, ptr %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %px = getelementptr float, ptr %x, i32 %t
  %v = load float, ptr %px, align 4
  %r = lshr i32 %t, 5
  %c = and i32 %t, 31
  %r33 = mul i32 %r, 33
  %at = add i32 %r33, %c
  %p = getelementptr float, ptr addrspace(3) @tile, i32 %at
  store float %v, ptr addrspace(3) %p, align 4
  call void @llvm.nvvm.barrier0()
  %c33 = mul i32 %c, 33
  %bt = add i32 %c33, %r
  %q = getelementptr float, ptr addrspace(3) @tile, i32 %bt
  %w = load float, ptr addrspace(3) %q, align 4
  %py = getelementptr float, ptr %y, i32 %t
  store float %w, ptr %py, align 4
  ret void
}
