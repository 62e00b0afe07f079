; y[lane][k]: what shuffles, votes, matches and reductions of a warp give
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32)
declare {i32, i1} @llvm.nvvm.shfl.sync.down.i32p(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.up.i32(i32, i32, i32, i32)
declare float @llvm.nvvm.shfl.sync.idx.f32(i32, float, i32, i32)
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)
declare i1 @llvm.nvvm.vote.any.sync(i32, i1)
declare i1 @llvm.nvvm.vote.all.sync(i32, i1)
declare i32 @llvm.nvvm.match.any.sync.i32(i32, i32)
declare i32 @llvm.nvvm.redux.sync.add(i32, i32)
declare i32 @llvm.nvvm.redux.sync.umax(i32, i32)
declare i32 @llvm.nvvm.read.ptx.sreg.lanemask.lt()
define ptx_kernel void @k(ptr %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %m = mul i32 %t, 7
  %v = add i32 %m, 3
  %o = mul i32 %t, 13
  %row = getelementptr i32, ptr %y, i32 %o
  %r0 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v, i32 5, i32 31)
  %p0 = getelementptr i32, ptr %row, i32 0
  store i32 %r0, ptr %p0, align 4
  %r1 = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %v, i32 4, i32 31)
  %p1 = getelementptr i32, ptr %row, i32 1
  store i32 %r1, ptr %p1, align 4
  %r2 = call i32 @llvm.nvvm.shfl.sync.up.i32(i32 -1, i32 %v, i32 3, i32 0)
  %p2 = getelementptr i32, ptr %row, i32 2
  store i32 %r2, ptr %p2, align 4
  %f = bitcast i32 %v to float
  %g = call float @llvm.nvvm.shfl.sync.idx.f32(i32 -1, float %f, i32 9, i32 31)
  %r3 = bitcast float %g to i32
  %p3 = getelementptr i32, ptr %row, i32 3
  store i32 %r3, ptr %p3, align 4
  %r4 = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %v, i32 2, i32 6175)
  %p4 = getelementptr i32, ptr %row, i32 4
  store i32 %r4, ptr %p4, align 4
  %s = call {i32, i1} @llvm.nvvm.shfl.sync.down.i32p(i32 -1, i32 %v, i32 4, i32 31)
  %s1 = extractvalue {i32, i1} %s, 1
  %r5 = zext i1 %s1 to i32
  %p5 = getelementptr i32, ptr %row, i32 5
  store i32 %r5, ptr %p5, align 4
  %bit = and i32 %t, 1
  %even = icmp eq i32 %bit, 0
  %r6 = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %even)
  %p6 = getelementptr i32, ptr %row, i32 6
  store i32 %r6, ptr %p6, align 4
  %a = call i1 @llvm.nvvm.vote.any.sync(i32 -1, i1 %even)
  %r7 = zext i1 %a to i32
  %p7 = getelementptr i32, ptr %row, i32 7
  store i32 %r7, ptr %p7, align 4
  %l = call i1 @llvm.nvvm.vote.all.sync(i32 -1, i1 %even)
  %r8 = zext i1 %l to i32
  %p8 = getelementptr i32, ptr %row, i32 8
  store i32 %r8, ptr %p8, align 4
  %q = and i32 %t, 3
  %r9 = call i32 @llvm.nvvm.match.any.sync.i32(i32 -1, i32 %q)
  %p9 = getelementptr i32, ptr %row, i32 9
  store i32 %r9, ptr %p9, align 4
  %r10 = call i32 @llvm.nvvm.redux.sync.add(i32 %v, i32 -1)
  %p10 = getelementptr i32, ptr %row, i32 10
  store i32 %r10, ptr %p10, align 4
  %r11 = call i32 @llvm.nvvm.redux.sync.umax(i32 %v, i32 -1)
  %p11 = getelementptr i32, ptr %row, i32 11
  store i32 %r11, ptr %p11, align 4
  %r12 = call i32 @llvm.nvvm.read.ptx.sreg.lanemask.lt()
  %p12 = getelementptr i32, ptr %row, i32 12
  store i32 %r12, ptr %p12, align 4
  ret void
}
