#!/bin/sh
# libhlosh: installed into an empty folder, the sample in C is compiled by pkg-config and runs, the one in Python runs.
cd "$(dirname "$0")/.." || exit 1
: "${B:=build}"
dest=$(mktemp -d) || exit 1
trap 'rm -rf "$dest"' EXIT
fail() { echo "library: $*"; exit 1; }
make -s install B="$B" DESTDIR="$dest" PREFIX=/usr >"$dest/log" 2>&1 || { cat "$dest/log"; fail "make install failed"; }
lib=$dest/usr/lib
[ "$(nm -D --defined-only "$lib/libhlosh.so" | grep -vc ' T hlosh_')" = 0 ] || fail "libhlosh.so shows other symbols than its own"
[ "$(nm -D --defined-only "$lib/libpjrt_hlosh.so" | awk '{ print $3 }')" = GetPjrtApi ] || fail "libpjrt_hlosh.so shows other symbols than GetPjrtApi"
flags="-I$dest/usr/include -L$lib -lhlosh"
if command -v pkg-config >/dev/null 2>&1; then
  flags=$(PKG_CONFIG_PATH="$lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$dest" PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --cflags --libs libhlosh) || fail "pkg-config does not know libhlosh"
fi
echo '#include <hlosh.h>' | ${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror -I"$dest/usr/include" -fsyntax-only -x c - || fail "hlosh.h is not C99"
if command -v c++ >/dev/null 2>&1; then echo '#include <hlosh.h>' | c++ -Wall -Wextra -Werror -I"$dest/usr/include" -fsyntax-only -x c++ - || fail "hlosh.h is not C++"; fi
# shellcheck disable=SC2086
${CC:-cc} -Wall -Wextra -Werror -o "$dest/sample" "$dest/usr/share/hlosh/examples/library/library.c" $flags || fail "the sample does not compile"
LD_LIBRARY_PATH=$lib "$dest/sample" >"$dest/out" 2>&1 || { cat "$dest/out"; fail "the sample does not run"; }
grep -qx 'squares: 6 instructions, 3 after the tuned pipeline\|squares: 6 instructions, [0-9]* after the tuned pipeline' "$dest/out" || { cat "$dest/out"; fail "the sample says something else"; }
grep -qx 'result: 0, 2, 6, 12, 20, 30, 42, 0, 2, 6' "$dest/out" || { cat "$dest/out"; fail "the sample computes something else"; }
LD_LIBRARY_PATH=$lib "$dest/sample" tests/data/bytecode/mlp.mlirbc >"$dest/out" 2>&1 || { cat "$dest/out"; fail "the sample does not run a portable artifact"; }
LD_LIBRARY_PATH=$lib "$dest/sample" /nowhere.hlo >"$dest/out" 2>&1 && fail "the sample runs a file that is not there"
grep -q 'error\[E' "$dest/out" || { cat "$dest/out"; fail "no message for a file that is not there"; }
if command -v python3 >/dev/null 2>&1; then
  python3 examples/library/library.py "$lib/libhlosh.so" >"$dest/out" 2>&1 || { cat "$dest/out"; fail "the sample in Python does not run"; }
  grep -qx 'squares: \[0.0, 2.0, 6.0, 12.0\]' "$dest/out" || { cat "$dest/out"; fail "the sample in Python computes something else"; }
  grep -q '^refused: .*error\[E' "$dest/out" || { cat "$dest/out"; fail "the sample in Python is not refused"; }
fi
echo "library: ok"
