#!/bin/sh
# The archive of `make dist`, as a stranger has it: unpacked elsewhere it needs nothing but the C library, of the version that its
# name says; it optimizes, compiles, runs and measures in a root folder that holds nothing else; libhlosh and the licences of what
# is carried are there.
cd "$(dirname "$0")/.." || exit 1
: "${B:=build}"
here=$PWD
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
fail() { echo "dist: $*"; [ -f "$dir/out" ] && tail -n 25 "$dir/out"; exit 1; }
command -v dpkg-query >/dev/null 2>&1 || { echo "no dpkg: make dist is for Debian"; exit 77; }
command -v patchelf >/dev/null 2>&1 && command -v xz >/dev/null 2>&1 || sh scripts/deps.sh --install patchelf xz-utils >"$dir/out" 2>&1 || { echo "no patchelf or no xz"; exit 77; }
make -s dist B="$B" >"$dir/out" 2>&1 || fail "make dist failed"
set -- "$B"/dist/hlosh-*.tar.xz
[ $# = 1 ] && [ -f "$1" ] || fail "not one archive: $*"
[ "$(wc -c <"$1")" -le $((48 << 20)) ] || fail "$1 has $(wc -c <"$1") bytes, more than 48 MiB"
glibc=$(cat "$B/dist/glibc")
case $1 in *"glibc$glibc.tar.xz") ;; *) fail "$1 does not name glibc $glibc" ;; esac
# What the README promises is what Debian 12 makes.
if grep -q '^VERSION_ID="12"' /etc/os-release 2>/dev/null; then
  grep -q "$(basename "$1")" README.md && grep -q "manylinux_$(echo "$glibc" | tr . _)_" docs/PYTHON.md || fail "README.md or docs/PYTHON.md names another archive than $(basename "$1")"
fi
mkdir "$dir/root" && tar -C "$dir" -xf "$1" || fail "the archive does not unpack"
tree=$(echo "$dir"/hlosh-*)
hlosh=$tree/bin/hlosh

# Every library that is loaded lies in the tree or is the C library's; no file names a folder of this machine.
for f in "$hlosh" "$tree"/lib/*.so*; do
  outside=$(env -i ldd "$f" | grep -v "=> $tree/" | awk '{ print $1 }' | grep -vE '^(linux-vdso|libc|libm|libmvec|libdl|libpthread|librt|libresolv|libutil|/lib[0-9]*/ld-linux[-a-z0-9_]*)\.so')
  [ -z "$outside" ] || { ldd "$f" >"$dir/out"; fail "$(basename "$f") needs $outside"; }
  readelf -d "$f" | grep -E 'R(UN)?PATH' | grep -vE '\[\$ORIGIN(/\.\./lib)?\]$' >"$dir/out" && fail "$(basename "$f") looks elsewhere"
  newer=$(readelf -V "$f" | grep -o 'GLIBC_2\.[0-9]*' | sort -u | awk -F. -v most="${glibc#*.}" '$2 > most')
  [ -z "$newer" ] || fail "$(basename "$f") needs $newer"
done
strings -a "$hlosh" "$tree/lib/libhlosh.so.1" "$tree/lib/libpjrt_hlosh.so" | grep -F "$here" >"$dir/out" && fail "the build's folder is in a binary"
for f in bin/hlo-opt lib/libhlosh.so lib/libpjrt_hlosh.so lib/pkgconfig/libhlosh.pc include/hlosh.h share/man/man1/hlosh.1 share/bash-completion/completions/hlosh \
  share/zsh/site-functions/_hlosh share/hlosh/examples/layernorm.hlo share/hlosh/python/jax_plugins/hlosh/__init__.py share/licenses/hlosh/hlosh check-gpu README.txt; do
  [ -f "$tree/$f" ] || fail "no $f"
done
# Whose licence is there, and whose is missing: each library's package stands in PACKAGES.
while read -r package version source; do
  case $package in '#'*) continue ;; esac
  [ -s "$tree/share/licenses/hlosh/${package%%:*}" ] && [ -n "$version" ] && [ -n "$source" ] || fail "no licence of $package"
done <"$tree/share/licenses/hlosh/PACKAGES"

# ---- at work ----
cat >"$dir/script.hlosh" <<'END'
load share/hlosh/examples/layernorm.hlo
speedup --seconds=0.5 --peer=none
check
load share/hlosh/examples/gelu_mlp_train.hlo
pipeline tuned
check
save model.hlo.gz
load model.hlo.gz
target h100; pipeline gpu; backend gpu; dump ptx
backend gpu-emulated; load share/hlosh/examples/mlp.hlo; check
backend cpu
load factor.hlo
check
report bundle
replay bundle
END
cat >"$dir/factor.hlo" <<'END'
HloModule factor
ENTRY main {
  a = f32[2,2] constant({ { 4, 2 }, { 2, 3 } })
  ROOT l = f32[2,2] cholesky(a), lower=true
}
END
cp "$dir/script.hlosh" "$dir/factor.hlo" "$tree/"
(cd "$tree" && env -i HOME="$dir" PATH= "$hlosh" -f script.hlosh) >"$dir/out" 2>&1 || fail "the session fails"
(cd "$tree" && env -i HOME="$dir" PATH= LD_BIND_NOW=1 "$hlosh" -c 'example convnet; check') >"$dir/more" 2>&1 || { mv "$dir/more" "$dir/out"; fail "a function is missing"; }
for said in 'results of all rows agree' 'ld.global' 'agrees with interp'; do grep -q "$said" "$dir/out" || fail "the session does not say: $said"; done
"$tree/bin/hlo-opt" --passes=dce "$tree/share/hlosh/examples/mlp.hlo" >"$dir/out" 2>&1 || fail "hlo-opt does not run"
rm -rf "$tree/bundle" "$tree/model.hlo.gz"

# ---- with nothing else there: the C library's files, /dev and /proc ----
root=$dir/root
mkdir -p "$root/dev" "$root/proc" "$root/tmp" && mv "$tree" "$root/h" || exit 1
for f in $(env -i ldd "$root/h/bin/hlosh" | grep -v "=> $root/" | grep -o '/[^ ]*'); do mkdir -p "$root$(dirname "$f")" && cp -L "$f" "$root$f" || exit 1; done
# in_root MAP COMMAND...: runs in the root folder, with namespaces of its own
in_root() {
  map=$1; shift
  # shellcheck disable=SC2086
  env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin unshare $map -m -p -f sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' "$root" "$@"
}
map=
for m in "" -r; do in_root "$m" /h/bin/hlosh --version >/dev/null 2>&1 && { map=x$m; break; }; done
if [ -n "$map" ]; then
  in_root "${map#x}" /h/bin/hlosh -c 'load /h/share/hlosh/examples/layernorm.hlo; speedup --seconds=0.5; check; load /h/factor.hlo; check; doctor' >"$dir/out" 2>&1 || fail "it does not run in a bare root"
  grep -q 'results of all rows agree' "$dir/out" || fail "speedup in a bare root"
else echo "SKIP a bare root: no namespaces of one's own here"; fi

# ---- as a library: moved once more, found by its own pkg-config file ----
mv "$root/h" "$dir/moved" || exit 1
if command -v pkg-config >/dev/null 2>&1 && command -v "${CC:-cc}" >/dev/null 2>&1; then
  flags=$(PKG_CONFIG_PATH=$dir/moved/lib/pkgconfig pkg-config --cflags --libs libhlosh) || fail "pkg-config does not know libhlosh"
  # shellcheck disable=SC2086
  ${CC:-cc} -o "$dir/sample" "$dir/moved/share/hlosh/examples/library/library.c" $flags "-Wl,-rpath,$dir/moved/lib" -Wl,--allow-shlib-undefined || fail "the sample does not compile"
  "$dir/sample" >"$dir/out" 2>&1 || fail "the sample does not run"
  grep -qx 'result: 0, 2, 6, 12, 20, 30, 42, 0, 2, 6' "$dir/out" || fail "the sample computes something else"
else echo "SKIP libhlosh of the archive: no pkg-config or no compiler"; fi
if command -v python3 >/dev/null 2>&1; then
  HLOSH_LIBCUDA=/nowhere "$dir/moved/check-gpu" -o "$dir" >"$dir/out" 2>&1
  rc=$?
  [ $rc = 5 ] && grep -q 'E0406' "$dir/out" || fail "check-gpu exits with $rc where there is no GPU"
else echo "SKIP check-gpu of the archive: no python3"; fi
echo "dist: ok"
