#!/bin/sh
# Large libraries are loaded by who calls them (repl/late.c): by no shell that only reads a module, by a worker when it
# generates code, multiplies or factorizes, and LAPACKE finds OpenBLAS's functions.
# usage: late.sh     environment: B, HLOSH
cd "$(dirname "$0")/../.." || exit 1
: "${B:=build}" "${HLOSH:=$PWD/$B/hlosh}"
grep -qs '^FUNCTION' "$B/late.def" || { echo "late: the program is linked against its libraries here ($(head -n 1 "$B/late.def" 2>/dev/null))"; exit 77; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
fail() { echo "late: $*"; exit 1; }
# loaded COMMANDS: what its processes load, a folder of files, one for each process
loaded() {
  rm -rf "$tmp/debug" && mkdir "$tmp/debug"
  LD_DEBUG=files LD_DEBUG_OUTPUT=$tmp/debug/of XDG_CACHE_HOME=$tmp/cache timeout 60 "$HLOSH" -c "$1" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "$1"; }
}
late='libLLVM\|libdnnl\|liblapacke\|libopenblas'
loaded 'load examples/mlp.hlo; stats; cost; estimate'
grep -q "calling init: .*\($late\)" "$tmp"/debug/* && fail "the shell loads what it does not call"
loaded 'set cache off; set sandbox off; load examples/layernorm.hlo; backend cpu; run'
grep -lq "calling init: .*libLLVM" "$tmp"/debug/* || fail "who generates code?"
grep -q "calling init: .*\(libdnnl\|liblapacke\|libopenblas\)" "$tmp"/debug/* && fail "a worker loads libraries that it does not call"
mkdir "$tmp/cache"
for turn in first second; do loaded 'set cache on; set sandbox off; load examples/layernorm.hlo; backend cpu; run'; done
grep -q "calling init: .*\($late\)" "$tmp"/debug/* && fail "code that was kept needs LLVM"
cat >"$tmp/factor.hlo" <<'END'
HloModule factor

ENTRY main {
  a = f64[2,2]{0,1} constant({{4, 2}, {2, 5}})
  c = (f64[2,2]{0,1}, s32[]) custom-call(a), custom_call_target="lapack_dpotrf_ffi", api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 76 : ui8}
  ROOT l = f64[2,2]{0,1} get-tuple-element(c), index=0
}
END
LD_DEBUG=bindings LD_DEBUG_OUTPUT=$tmp/bound timeout 60 "$HLOSH" -c "load $tmp/factor.hlo; backend interp; run" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "factors"; }
grep -qF '{ { 2, 2 }, { 1, 2 } }' "$tmp/out" || { cat "$tmp/out"; fail "LAPACK computes something else"; }
if grep -q liblapacke "$B/late.def" && grep -q libopenblas "$B/late.def"; then
  grep -h "binding file .*liblapacke.* symbol .dpotrf_'" "$tmp"/bound.* | grep -q 'to .*libopenblas' || fail "LAPACK is not OpenBLAS's"
fi
echo "late: ok"
