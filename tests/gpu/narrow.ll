; y[2 * i], y[2 * i + 1] = x[i] as bf16 and as f16
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @k(ptr %x, ptr %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %px = getelementptr float, ptr %x, i32 %t
  %v = load float, ptr %px, align 4
  %d = fpext float %v to double
  %b = fptrunc float %v to bfloat
  %h = fptrunc double %d to half
  %t2 = mul i32 %t, 2
  %pb = getelementptr i16, ptr %y, i32 %t2
  %ph = getelementptr i16, ptr %pb, i32 1
  store bfloat %b, ptr %pb, align 2
  store half %h, ptr %ph, align 2
  ret void
}
