#!/bin/sh
# `make dist`: a tree that runs where it is unpacked, and its archive. Nothing outside of it is needed but the C library;
# the version that it needs is in the archive's name and in README.txt. Graphviz, a GPU's driver and a Python are used where they are.
#
#   build/dist/hlosh-VERSION-linux-ARCH-glibcX.YY/         .tar.xz beside it
#     bin/ include/ share/ lib/pkgconfig/                  as `make install` has them
#     lib/                                                 ours, and lib/libhlosh-*.so: the libraries of others
#     check-gpu README.txt share/licenses/hlosh/
#
# LLVM is linked from its archives into one library that has only the functions that hlosh calls and the targets that it
# makes code for (a third of the whole); where there are no archives its shared library is carried whole. The C++ library, which other
# carried libraries call, is linked likewise. Libraries of others get a name that nobody else has, so that in another program's process,
# such as Python's, ours are ours.
#
# usage: make dist     environment, set by make: B, CC, LDFLAGS, LIBS, TREE_ONLY=1 (no archive)
cd "$(dirname "$0")/.." || exit 1
say() { echo "dist: $*"; }
die() { echo "dist: $*" >&2; exit 1; }
: "${B:=build}" "${CC:=gcc}" "${LIBS:?run make dist}"
command -v patchelf >/dev/null 2>&1 && command -v xz >/dev/null 2>&1 || sh scripts/deps.sh --install patchelf xz-utils || die "needs patchelf and xz"
for tool in dpkg-query ldd readelf; do command -v $tool >/dev/null 2>&1 || die "needs $tool: Debian, or a system made from it"; done
version=$(sed -n 's/.*define HLOSH_VERSION "\(.*\)".*/\1/p' repl/shell/command.h)
out=$B/dist tree=$B/dist/tree work=$B/dist/work
rm -rf "$tree" "$work" && for d in "$out"/hlosh-*; do [ ! -d "$d" ] || rm -rf "$d"; done && mkdir -p "$tree/lib" "$work" || exit 1

# ---- LLVM, the part of it that is called ----
# All that the C++ library wants of glibc 2.36 is this function.
cat >"$work/random.c" <<'END'
#include <sys/random.h>
unsigned arc4random(void);
unsigned arc4random(void) {
  unsigned v = 0;
  while (getrandom(&v, sizeof v, 0) != sizeof v)
    ;
  return v;
}
END
$CC -O2 -fPIC -c -o "$work/random.o" "$work/random.c" || die "the C compiler does not work"
llvm=$(echo "$LIBS" | sed -n 's/.*-Wl,-rpath,\([^ ]*\).*/\1/p')
carried_packages=
if [ -n "$llvm" ] && archives=$("$llvm/../bin/llvm-config" --link-static --libs core orcjit native x86 nvptx passes bitwriter 2>/dev/null); then
  nm "$B/libhlosh.a" 2>/dev/null | awk '$1 ~ /^[Uw]$/ && $2 ~ /^LLVM/ { print $2 }' | sort -u >"$work/called"
  { echo '{ global:'; sed 's/$/;/' "$work/called"; echo 'local: *; };'; } >"$work/llvm.map"
  sed 's/^/-Wl,-u,/' "$work/called" >"$work/llvm.args"
  "${CXX:-g++}" -shared -o "$tree/lib/libhlosh-llvm.so" -Wl,-soname,libhlosh-llvm.so "-Wl,-rpath,\$ORIGIN" -Wl,--gc-sections,-O1,--version-script="$work/llvm.map" \
    @"$work/llvm.args" "$work/random.o" -static-libstdc++ -L"$llvm" -Wl,--start-group $archives -Wl,--end-group \
    -Wl,--as-needed -lz -lzstd -lrt -ldl -lm -pthread || die "LLVM's archives in $llvm do not link"
  major=$("$llvm/../bin/llvm-config" --version | cut -d. -f1)
  carried_packages="llvm-$major-dev libstdc++6"
  LIBS=$(echo "$LIBS" | sed "s|-L[^ ]* -Wl,-rpath,[^ ]* -lLLVM[^ ]*|-L$tree/lib -lhlosh-llvm|")
fi

# ---- ours, linked against it ----
make -s install B="$B" DESTDIR="$PWD/$tree" PREFIX= >"$work/install.log" 2>&1 || { cat "$work/install.log"; die "make install failed"; }
relink() {
  target=$1; shift
  $CC $LDFLAGS -Wl,--as-needed -o "$tree/$target" "$@" "$B/libhlosh.a" $LIBS || die "$target does not link"
}
relink bin/hlosh -rdynamic "-Wl,-rpath,\$ORIGIN/../lib" "$B/repl/main.o"
relink lib/libhlosh.so.1 -shared "-Wl,-rpath,\$ORIGIN" -Wl,-soname,libhlosh.so.1 -Wl,--gc-sections -Wl,--version-script=api/exports.map "$B"/api/*.o
relink lib/libpjrt_hlosh.so -shared "-Wl,-rpath,\$ORIGIN" -Wl,--gc-sections -Wl,--version-script=plugin/exports.map "$B"/plugin/*.o

# ---- the libraries of others ----
# of_libc NAME: is it of the C library, its loader, or the kernel's?
of_libc() { case $1 in ld-linux*|linux-vdso*|libc.so*|libm.so*|libmvec.so*|libdl.so*|libpthread.so*|librt.so*|libresolv.so*|libutil.so*|libanl.so*) return 0 ;; esac; return 1; }
# package FILE: the Debian package that the file is of; the link /lib is as good a name as /usr/lib
package() { real=$(readlink -f "$1"); for p in "$real" "${real#/usr}" "/usr$real"; do dpkg-query -S "$p" 2>/dev/null | sed -n '1s/:.*//p'; done | head -n 1; }
: >"$work/renamed"
LD_LIBRARY_PATH=$PWD/$tree/lib ldd "$tree/bin/hlosh" "$tree/lib/libhlosh.so.1" "$tree/lib/libpjrt_hlosh.so" | sed -n 's/^\t\([^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p' | sort -u >"$work/needed"
while read -r name path; do
  case $path in "$PWD/$tree"/*) continue ;; esac
  of_libc "$name" && continue
  # the C library opens libgcc_s by its name, to end threads: it keeps that
  new=libhlosh-${name#lib}; [ "$name" = libgcc_s.so.1 ] && new=$name
  cp -L "$path" "$tree/lib/$new" && chmod 644 "$tree/lib/$new" || exit 1
  echo "$name $new" >>"$work/renamed"
  p=$(package "$path")
  [ -n "$p" ] || die "$path is of no package: its licence is not known"
  carried_packages="$carried_packages $p"
done <"$work/needed"
# The C++ library, under the version names that its callers want. Where its archive lacks one it stays as it was copied.
cxx=$tree/lib/libhlosh-stdc++.so.6
if [ -f "$cxx" ]; then
  for f in "$tree"/lib/libhlosh-*.so*; do [ "$f" = "$cxx" ] || readelf -W --dyn-syms "$f"; done |
    awk '$7 == "UND" && $8 ~ /@(GLIBCXX|CXXABI)_/ { print $8 }' | sort -u >"$work/cxx.called"
  awk -F@ '{ v[$2] = v[$2] " " $1 ";" } END { for (k in v) printf "%s { global:%s };\n", k, v[k]; print "HLOSH_REST { local: *; };" }' "$work/cxx.called" >"$work/cxx.map"
  sed 's/@.*//; s/^/-Wl,-u,/' "$work/cxx.called" >"$work/cxx.args"
  "${CXX:-g++}" -shared -o "$work/cxx.so" -Wl,-soname,libhlosh-stdc++.so.6 -Wl,--gc-sections,-O1,--version-script="$work/cxx.map" \
    @"$work/cxx.args" "$work/random.o" -static-libstdc++ -lm 2>"$work/cxx.log" &&
    readelf -W --dyn-syms "$work/cxx.so" | awk '$7 != "UND" && $8 ~ /@/ { sub(/@@/, "@", $8); print $8 }' | sort -u >"$work/cxx.has" &&
    [ -z "$(comm -23 "$work/cxx.called" "$work/cxx.has")" ] && cp "$work/cxx.so" "$cxx"
fi
strip --strip-all "$tree/bin/hlosh" "$tree/lib/libhlosh.so.1" "$tree/lib/libpjrt_hlosh.so" "$tree/lib/libhlosh-llvm.so" "$cxx" 2>/dev/null
replace=$(while read -r name new; do printf ' --replace-needed %s %s' "$name" "$new"; done <"$work/renamed")
for f in "$tree/bin/hlosh" "$tree"/lib/*.so*; do
  [ -L "$f" ] && continue
  # shellcheck disable=SC2086
  patchelf $replace "$f" || die "patchelf $f failed"
done
while read -r _ new; do patchelf --set-soname "$new" --set-rpath "\$ORIGIN" "$tree/lib/$new" || die "patchelf $new failed"; done <"$work/renamed"

# ---- what comes with it ----
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$tree/lib/pkgconfig/libhlosh.pc"
licenses=$tree/share/licenses/hlosh
mkdir -p "$licenses" && cp LICENSE "$licenses/hlosh" || exit 1
printf '# What is carried: package, version, and where Debian and LLVM keep its source.\n' >"$licenses/PACKAGES"
for p in $(printf '%s\n' $carried_packages | sort -u); do
  cp "/usr/share/doc/$p/copyright" "$licenses/$p" || die "no licence of $p"
  dpkg-query -W -f='${binary:Package} ${Version} https://snapshot.debian.org/package/${source:Package}/${source:Version}/\n' "$p" >>"$licenses/PACKAGES"
done
for text in $(cat "$licenses"/* | grep -o '/usr/share/common-licenses/[A-Za-z0-9.+-]*[A-Za-z0-9]' | sort -u); do
  [ -f "$text" ] && cp -L "$text" "$licenses/"
done
install -m755 scripts/check_gpu.py "$tree/check-gpu" || exit 1
# The newest version of the C library that any file asks for.
glibc=$(for f in "$tree/bin/hlosh" "$tree"/lib/*.so*; do readelf -V "$f"; done 2>/dev/null | grep -o 'GLIBC_2\.[0-9]*' | sed 's/GLIBC_//' | sort -t. -k2 -n -u | tail -n 1)
name=hlosh-$version-linux-$(uname -m)-glibc$glibc
cat >"$tree/README.txt" <<END
hlosh $version, an interactive shell and profiler for XLA's HLO, for Linux on $(uname -m) with glibc $glibc or newer.

    bin/hlosh share/hlosh/examples/layernorm.hlo -c speedup     what optimizing saves, measured on this CPU
    bin/hlosh                                                   the shell; \`tutorial\` is a tour of ten minutes
    ./check-gpu                                                 with an NVIDIA GPU: whether it computes right, and how fast (needs python3)
    JAX_PLATFORMS=hlosh PYTHONPATH=share/hlosh/python python    JAX on hlosh

Nothing has to be installed, and the folder may lie anywhere. Used where they are found, never needed: Graphviz (pictures), NVIDIA's
driver, CUPTI and ptxas, a Python with jaxlib (comparison with real XLA). lib/ has the C interface libhlosh.so (include/hlosh.h,
lib/pkgconfig) and the PJRT plug-in libpjrt_hlosh.so.

hlosh is under the Apache License 2.0. lib/libhlosh-*.so are the work of others; share/licenses/hlosh has their licences and says
where their sources are.$([ -f "$tree/lib/libhlosh-readline.so.8" ] && printf ' With GNU readline, which bin/hlosh uses, the program as a whole is under the GPL-3;\n`make dist EDITLINE=libedit` makes one that is not. The libraries libhlosh.so and libpjrt_hlosh.so do not use it.')
END
mv "$tree" "$out/$name" && ln -s "$name" "$tree" || exit 1
echo "$glibc" >"$out/glibc" && echo "$version" >"$out/version" || exit 1
if [ -z "$TREE_ONLY" ]; then
  rm -f "$out"/hlosh-*.tar.xz
  date=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
  tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$date" -cf - "$name" | xz -6 -T0 >"$out/$name.tar.xz" || die "the archive was not written"
  say "$out/$name.tar.xz: $(du -h --apparent-size "$out/$name.tar.xz" | cut -f1), unpacked $(du -sh --apparent-size "$out/$name" | cut -f1)"
fi
say "needs glibc $glibc ($(uname -m)); carries $(wc -l <"$work/renamed") libraries of others$([ -f "$out/$name/lib/libhlosh-llvm.so" ] && echo " and LLVM")"
