#!/bin/sh
# The numbers, structures and functions of NVIDIA's libraries that backends/gpu declares, held against the real headers where a CUDA
# toolkit is installed (in /usr/local/cuda, or where CUDA_HOME says; NVML_HOME may name a folder that has include/nvml.h). What functions
# take needs gcc, whose warnings tell (tests/gpu/signatures.c).
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
# Where a function writes an enumeration or a structure of its own, our row says int or nothing: any pointer does there.
functions() { # of the tables below the folder: each row as a function that calls NVIDIA's with the row's arguments
  for table in cuda/cuda cuda/cublas cuda/cublaslt cuda/cusolver cuda/cudnn cuda/cufft cupti/cupti nccl/nccl nvml/nvml; do
    awk -v 'any=^(int [*]|nccl_result [*]|(const )?void [*][*])[a-z]*$' "$calls" "$1/backends/gpu/$table.def" >"$work/${table#*/}_calls.h"
  done
  gcc -std=gnu17 -Wall -Wextra -Wtraditional-conversion -Wno-unused-function -Wno-pointer-sign -Werror -fsyntax-only \
    -I"$work" $theirs tests/gpu/signatures.c
}
calls='/^[A-Z]+_FN\(/ {
  row = substr($0, index($0, "(") + 1); args = row
  sub(/^[^(]*\(/, "", args); sub(/\)\).*/, "", args)
  split(row, f, /, */)
  n = args == "void" ? 0 : split(args, a, /, */); names = ""
  for (k = 1; k <= n; k++) { name = a[k]; sub(/.*[ *]/, "", name); names = names (k > 1 ? ", " : "") (a[k] ~ any ? "(void *)" : "") name }
  # a byte is converted by every prototype
  bytes = args ~ / char [a-z]/
  if (bytes) print "#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored \"-Wtraditional-conversion\""
  printf "static inline int call_%s(%s) { return (int)%s(%s); }\n", f[2], args, f[2], names
  # what the headers have for the version that the row asks for
  if (/^CUDA_FN/) { gsub(/"/, "", f[3]); printf "static inline int version_%s(PFN_%s_v%s f%s) { return (int)f(%s); }\n", f[1], f[3], f[4], n ? ", " args : "", names }
  if (bytes) print "#pragma GCC diagnostic pop"
}'
numbers || exit 1
gcc=; gcc --version >/dev/null 2>&1 && gcc=1
[ -z "$gcc" ] || functions . || exit 1
# the test tests: what is wrong is found
wrong() { # TABLE SED COMMAND...
  table=$1; edit=$2; shift 2
  rm -rf "$work/wrong"; mkdir -p "$work/wrong"; cp -r --parents backends/gpu/*/*.def "$work/wrong"
  sed "$edit" "$table" >"$work/wrong/$table"
  cmp -s "$table" "$work/wrong/$table" && { echo "$edit changes nothing"; exit 1; }
  ! "$@" 2>/dev/null || { echo "$table with $edit is not found"; exit 1; }
}
wrong backends/gpu/cuda/cublaslt_numbers.def 's/CUBLAS_OP_T, *1)/CUBLAS_OP_T, 9)/' numbers -I"$work/wrong"
wrong backends/gpu/cuda/errors.def 's/(718, INVALID_PC/(717, INVALID_PC/' numbers -I"$work/wrong"
wrong backends/gpu/cuda/cuda_numbers.def 's/_CLOCK_RATE, *13)/_CLOCK_RATE, 14)/' numbers -I"$work/wrong"
wrong backends/gpu/cupti/counters_args.def 's/n, numMetrics/n, rangeIndex/' numbers -I"$work/wrong"
wrong backends/gpu/cupti/cupti_records.def 's/correlation, 92/correlation, 96/' numbers -I"$work/wrong"
if [ -n "$gcc" ]; then
  wrong backends/gpu/cuda/cuda.def 's/(cuda_ptr to, const void \*from, size_t/(const void *from, cuda_ptr to, size_t/' functions "$work/wrong"
  wrong backends/gpu/cuda/cufft.def 's/int type, i64 batch/i64 type, int batch/' functions "$work/wrong"
  wrong backends/gpu/cupti/cupti.def 's/int kind, u64 \*id/int kind, u32 *id/' functions "$work/wrong"
  wrong backends/gpu/cuda/cuda.def 's/\("cuGraphAddNode", *\)12030/\112020/' functions "$work/wrong"
fi
no=; [ -f "$nvml/include/nvml.h" ] || no=" (but for NVML's: no nvml.h there)"
count() { cat backends/gpu/cuda/*.def backends/gpu/nccl/*.def backends/gpu/cupti/*.def $([ -n "$no" ] || ls backends/gpu/nvml/*.def) | grep -c "$1"; }
fns="$(count '^\(CUDA\|BLAS\|CUBLAS\|DNN\|FFT\|SOLVER\|NCCL\|CUPTI\|COUNTERS\|ML\)_FN(') functions"
[ -n "$gcc" ] || fns="no functions (no gcc, whose warnings tell)"
echo "$(count '^[A-Z]*_\(NUMBER\|ERROR\|RECORD\)(') numbers, $fns as in $home/include$no"
