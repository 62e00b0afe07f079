#!/bin/sh
# The numbers and structures of NVIDIA's libraries that backends/gpu/cuda declares, held against the real headers where a CUDA
# toolkit is installed (in /usr/local/cuda, or where CUDA_HOME says).
cd "$(dirname "$0")/.." || exit 1
home=${CUDA_HOME:-/usr/local/cuda}
[ -f "$home/include/cublasLt.h" ] || { echo "no cublasLt.h in $home/include"; exit 77; }
mutant=$(mktemp -d) || exit 1
trap 'rm -rf "$mutant"' EXIT
mkdir "$mutant/c"
: >"$mutant/c/string"  # which a header of CUPTI's for C includes, and does not use
${CC:-gcc} -std=gnu17 -Wall -Wextra -Werror -fsyntax-only -I. -isystem "$home/include" -isystem "$mutant/c" tests/gpu/headers.c || exit 1
# the test tests: a number that is wrong is found
mkdir -p "$mutant/backends/gpu/cuda"
sed 's/CUBLAS_OP_T, *1)/CUBLAS_OP_T, 9)/' backends/gpu/cuda/cublaslt_numbers.def >"$mutant/backends/gpu/cuda/cublaslt_numbers.def"
if ${CC:-gcc} -std=gnu17 -fsyntax-only -I"$mutant" -I. -isystem "$home/include" -isystem "$mutant/c" tests/gpu/headers.c 2>/dev/null; then
  echo "a wrong number is not found"; exit 1
fi
nvml=; [ -f "$home/include/nvml.h" ] || nvml=" (but for NVML's: no nvml.h there)"
count() { cat backends/gpu/cuda/*.def backends/gpu/nccl/*.def backends/gpu/cupti/counters.def $([ -n "$nvml" ] || ls backends/gpu/nvml/*.def) | grep -c "$1"; }
echo "$(count '^[A-Z]*_NUMBER(') numbers, $(count '^\(BLAS\|CUBLAS\|DNN\|FFT\|SOLVER\|NCCL\|COUNTERS\|ML\)_FN(') functions as in $home/include$nvml"
