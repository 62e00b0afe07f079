#!/bin/sh
# How the program is linked, on which its start depends: where LLVM has archives it is within the program, not a shared library
# that every process has to relocate, and it exports none of LLVM's symbols, which a plug-in's own LLVM would otherwise take for
# its own. The GPUs' targets, which only weak symbols call, are there all the same.
cd "$(dirname "$0")/../.." || exit 1
: "${B:=build}" "${HLOSH:=$PWD/$B/hlosh}"
fail() { echo "linked: $*"; exit 1; }
grep -q '^LLVM_ARCHIVES' "$B/config.mk" || { echo "no archives of LLVM"; exit 77; }
command -v readelf >/dev/null 2>&1 && command -v nm >/dev/null 2>&1 || { echo "no binutils"; exit 77; }
nm -C "$HLOSH" 2>/dev/null | grep -q __asan_init && { echo "a build with a sanitizer has the shared library"; exit 77; }
readelf -d "$HLOSH" | grep 'NEEDED.*libLLVM' && fail "the program loads LLVM's shared library"
nm -D --defined-only "$HLOSH" | grep -E ' (LLVM[A-Z]|_ZN4llvm)' | head -n 3 | grep . && fail "LLVM's symbols are exported"
code() { "$HLOSH" --no-rc examples/matmul.hlo -c "target $1; pipeline gpu; backend gpu; dump $2" 2>&1; }
code h100 ptx | grep -q '\.visible \.entry' || fail "no code for NVIDIA's GPUs"
code mi300x asm | grep -q amdgpu_metadata || fail "no code for AMD's GPUs"
