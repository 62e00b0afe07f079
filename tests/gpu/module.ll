; y[i] = table[i] + add + 2 ** power; the kernel has the name of a function of C's library
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
@table = addrspace(1) global [4 x i32] [i32 10, i32 20, i32 30, i32 40], align 4
@llvm.used = appending global [1 x ptr] [ptr addrspacecast (ptr addrspace(1) @table to ptr)], section "llvm.metadata"
declare float @llvm.exp2.f32(float)
define internal float @helper(float %p) noinline {
  %r = call float @llvm.exp2.f32(float %p)
  ret float %r
}
define ptx_kernel void @exp2f(ptr %y, i32 %add, float %power) #0 {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %pt = getelementptr [4 x i32], ptr addrspace(1) @table, i32 0, i32 %t
  %v = load i32, ptr addrspace(1) %pt, align 4
  %s = add i32 %v, %add
  %e = call float @helper(float %power)
  %u = fptoui float %e to i32
  %w = add i32 %s, %u
  %py = getelementptr i32, ptr %y, i32 %t
  store i32 %w, ptr %py, align 4
  ret void
}
attributes #0 = { "nvvm.maxntid"="64,2" }
