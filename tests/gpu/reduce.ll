; y[block] = sum of the block's 256 elements of x: shuffles, then shared memory
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare void @llvm.nvvm.barrier0()
@part = internal addrspace(3) global [8 x float] undef, align 4
define ptx_kernel void @k(ptr %x, ptr %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %n = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %cn = mul i32 %c, %n
  %i = add i32 %cn, %t
  %px = getelementptr float, ptr %x, i32 %i
  %s0 = load float, ptr %px, align 4
  %b1 = bitcast float %s0 to i32
  %h1 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %b1, i32 16, i32 31)
  %g1 = bitcast i32 %h1 to float
  %s1 = fadd float %s0, %g1
  %b2 = bitcast float %s1 to i32
  %h2 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %b2, i32 8, i32 31)
  %g2 = bitcast i32 %h2 to float
  %s2 = fadd float %s1, %g2
  %b3 = bitcast float %s2 to i32
  %h3 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %b3, i32 4, i32 31)
  %g3 = bitcast i32 %h3 to float
  %s3 = fadd float %s2, %g3
  %b4 = bitcast float %s3 to i32
  %h4 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %b4, i32 2, i32 31)
  %g4 = bitcast i32 %h4 to float
  %s4 = fadd float %s3, %g4
  %b5 = bitcast float %s4 to i32
  %h5 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %b5, i32 1, i32 31)
  %g5 = bitcast i32 %h5 to float
  %s5 = fadd float %s4, %g5
  %lane = and i32 %t, 31
  %warp = lshr i32 %t, 5
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %put, label %wait
put:
  %pp = getelementptr [8 x float], ptr addrspacecast (ptr addrspace(3) @part to ptr), i32 0, i32 %warp
  store float %s5, ptr %pp, align 4
  br label %wait
wait:
  call void @llvm.nvvm.barrier0()
  %one = icmp eq i32 %t, 0
  br i1 %one, label %sum, label %end
sum:
  br label %loop
loop:
  %k = phi i32 [ 0, %sum ], [ %k1, %loop ]
  %a = phi float [ 0.0, %sum ], [ %a1, %loop ]
  %q = getelementptr [8 x float], ptr addrspace(3) @part, i32 0, i32 %k
  %w = load float, ptr addrspace(3) %q, align 4
  %a1 = fadd float %a, %w
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, 8
  br i1 %more, label %loop, label %store
store:
  %py = getelementptr float, ptr %y, i32 %c
  store float %a1, ptr %py, align 4
  br label %end
end:
  ret void
}
