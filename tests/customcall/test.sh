#!/bin/sh
# Builds a library of custom calls and uses it from the shell: values, attributes, two results, a handler's error, a handler
# that crashes (the shell stays up), an unknown target. HLOSH is the binary.
cd "$(dirname "$0")" || exit 1
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
${CC:-cc} -shared -fPIC -o "$t/handlers.so" handlers.c || { echo "SKIP: no C compiler"; exit 0; }
module() { printf 'HloModule m\nENTRY e {\n%s\n}\n' "$1" >"$t/m.hlo"; }
run() { "$HLOSH" "$t/m.hlo" --keep-going -c "customcall load $t/handlers.so $1; backend interp; run; ${2:-modules}" 2>&1; }
expect() { echo "$out" | grep -qF -- "$1" || { echo "expected: $1"; echo "got: $out"; exit 1; }; }

module '  x = f32[2,2] constant({{1, 2}, {3, -4}})
  ROOT r = f32[2,2] custom-call(x), custom_call_target="scale", api_version=API_VERSION_TYPED_FFI, backend_config="{factor = 2.500000e+00 : f32, offsets = array<i64: 1, -3>, on = true}"'
out=$(run); expect "{ { 0.5, 3 }, { 5.5, -12 } }"
out=$(run "my.scale=scale"); expect 'custom-call to "scale"'
module '  x = f32[2] constant({1, 2})
  ROOT r = f32[2] custom-call(x), custom_call_target="my.scale", api_version=API_VERSION_TYPED_FFI, backend_config="{factor = -1.0 : f32}"'
out=$(run "my.scale=scale"); expect "{-1, -2}"
out=$(run "my.scale=nothing"); expect "no handler nothing"
module '  x = s32[5] constant({3, -7, 9, 0, 2})
  ROOT r = (s32[], s32[]) custom-call(x), custom_call_target="min_max", api_version=API_VERSION_TYPED_FFI, backend_config="{first = \"max\"}"'
out=$(run); expect "result{0} = s32[] 9"; expect "result{1} = s32[] -7"
module '  x = f32[2] constant({1, 2})
  ROOT r = f32[2] custom-call(x), custom_call_target="scale", api_version=API_VERSION_TYPED_FFI'
out=$(run); expect "the handler says: no factor"
module '  x = f32[2] constant({1, 2})
  ROOT r = f32[2] custom-call(x), custom_call_target="crash", api_version=API_VERSION_TYPED_FFI'
out=$(run "" "run; modules"); expect "SIGABRT"; expect "m"
out=$("$HLOSH" "$t/m.hlo" -c "backend interp; run" 2>&1); expect 'custom-call to "crash"'
out=$("$HLOSH" -c "customcall load $t/none.so" 2>&1); expect "none.so"
# What the sandbox refuses is named, and the call goes on; without the sandbox it gets what it wants.
module '  x = f32[2] constant({7, 2})
  ROOT r = f32[2] custom-call(x), custom_call_target="sneak", api_version=API_VERSION_TYPED_FFI'
out=$(run "" "set sandbox off; run"); expect "{1, 2}"
if "$HLOSH" -c doctor | grep -q '^ok *seccomp'; then
  out=$(run); expect "{0, 2}"; expect "warning: the sandbox refused the program: socket (the network) once"
else echo "SKIP sandbox: $("$HLOSH" -c doctor | grep seccomp)"; fi
# The same library given to a PJRT plug-in.
fake=$(dirname "$HLOSH")/tests/libfake_pjrt.so
module '  x = s32[5] parameter(0)
  ROOT r = (s32[], s32[]) custom-call(x), custom_call_target="min_max", api_version=API_VERSION_TYPED_FFI'
if [ -f "$fake" ]; then
  cp "$fake" "$t/fake-ffi.so"
  out=$("$HLOSH" "$t/m.hlo" -c "customcall load $t/handlers.so; backend pjrt $t/fake-ffi.so; check pjrt interp" 2>&1); expect "agree"
  out=$("$HLOSH" "$t/m.hlo" -c "backend pjrt $t/fake-ffi.so; run" 2>&1); expect "no handler for the custom call"
fi
echo "custom calls: ok"
