; Fault when x is not a multiple of 16: a vector is read.
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k(ptr %x, ptr %y) {
  %v = load <4 x float>, ptr %x, align 16
  store <4 x float> %v, ptr %y, align 4
  ret void
}
