; Fault: writes to the address 0.
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k(ptr %x, ptr %y) {
  store i32 1, ptr null, align 4
  ret void
}
