#!/bin/sh
# The numbers, structures and functions of NVIDIA's libraries that backends/gpu declares, held against the real headers where a CUDA
# toolkit is installed (in /usr/local/cuda, or where CUDA_HOME says; NVML_HOME may name a folder that has include/nvml.h). What functions
# take needs a C++ compiler.
cd "$(dirname "$0")/.." || exit 1
home=${CUDA_HOME:-/usr/local/cuda}
[ -f "$home/include/cublasLt.h" ] || { echo "no cublasLt.h in $home/include"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/c"
: >"$work/c/string"  # which a header of CUPTI's for C includes, and does not use
nvml=$home; [ -z "$NVML_HOME" ] || nvml=$NVML_HOME
theirs="-isystem $home/include -isystem $nvml/include"
numbers() { ${CC:-gcc} -std=gnu17 -Wall -Wextra -Werror -fsyntax-only "$@" -I. $theirs -isystem "$work/c" tests/gpu/headers.c; }
functions() { ${CXX:-g++} -std=gnu++17 -Wall -Wextra -Werror -fsyntax-only "$@" -I. -I"$work" $theirs tests/gpu/signatures.cc; }
# the type that the headers have for each row's version of a function of the driver
sed -n 's/^CUDA_FN(\([a-z_0-9]*\), *[A-Za-z0-9_]*, *"\([A-Za-z0-9]*\)", *\([0-9]*\),.*/VERSION(\1, PFN_\2_v\3)/p' \
  backends/gpu/cuda/cuda.def >"$work/driver_versions.h"
numbers || exit 1
cxx=; ${CXX:-g++} --version >/dev/null 2>&1 && cxx=1
[ -z "$cxx" ] || functions || exit 1
# the test tests: what is wrong is found
wrong() { # numbers|functions TABLE SED
  rm -rf "$work/wrong"; mkdir -p "$work/wrong/$(dirname "$2")"
  sed "$3" "$2" >"$work/wrong/$2"
  cmp -s "$2" "$work/wrong/$2" && { echo "$3 changes nothing"; exit 1; }
  ! "$1" -I"$work/wrong" 2>/dev/null || { echo "$2 with $3 is not found"; exit 1; }
}
wrong numbers backends/gpu/cuda/cublaslt_numbers.def 's/CUBLAS_OP_T, *1)/CUBLAS_OP_T, 9)/'
wrong numbers backends/gpu/cuda/errors.def 's/(718, INVALID_PC/(717, INVALID_PC/'
wrong numbers backends/gpu/cupti/cupti_records.def 's/correlation, 92/correlation, 96/'
if [ -n "$cxx" ]; then
  wrong functions backends/gpu/cuda/cuda.def 's/(cuda_ptr to, const void \*from, size_t/(const void *from, cuda_ptr to, size_t/'
  wrong functions backends/gpu/cuda/cufft.def 's/int type, i64 batch/i64 type, int batch/'
  wrong functions backends/gpu/cupti/cupti.def 's/int kind, u64 \*id/int kind, u32 *id/'
  sed -i 's/PFN_cuGraphAddNode_v12030/PFN_cuGraphAddNode_v12020/' "$work/driver_versions.h"
  ! functions 2>/dev/null || { echo "another version of a function is not found"; exit 1; }
fi
no=; [ -f "$nvml/include/nvml.h" ] || no=" (but for NVML's: no nvml.h there)"
count() { cat backends/gpu/cuda/*.def backends/gpu/nccl/*.def backends/gpu/cupti/*.def $([ -n "$no" ] || ls backends/gpu/nvml/*.def) | grep -c "$1"; }
fns="$(count '^\(CUDA\|BLAS\|CUBLAS\|DNN\|FFT\|SOLVER\|NCCL\|CUPTI\|COUNTERS\|ML\)_FN(') functions"
[ -n "$cxx" ] || fns="no functions (no C++ compiler)"
echo "$(count '^[A-Z]*_\(NUMBER\|ERROR\|RECORD\)(') numbers, $fns as in $home/include$no"
