; y[i] = x[i] * 2 + i for i < 1000
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
define ptx_kernel void @k(ptr %x, ptr %y) #0 {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %n = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %cn = mul i32 %c, %n
  %i = add i32 %cn, %t
  %in = icmp ult i32 %i, 1000
  br i1 %in, label %do, label %end
do:
  %px = getelementptr float, ptr %x, i32 %i
  %v = load float, ptr %px, align 4
  %d = fmul float %v, 2.0
  %f = uitofp i32 %i to float
  %s = fadd float %d, %f
  %gy = addrspacecast ptr %y to ptr addrspace(1)
  %py = getelementptr float, ptr addrspace(1) %gy, i32 %i
  store float %s, ptr addrspace(1) %py, align 4, !hlo !0
  br label %end
end:
  ret void
}
attributes #0 = { "hlo"="multiply.7" "target-cpu"="sm_90" }
!0 = !{!"add.8"}
