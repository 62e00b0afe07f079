#!/bin/sh
# Finds the optional libraries. Writes make variables to $1 and a table to config.txt beside it; prints the table once.
# usage: probe.sh OUT.mk     environment: CC, EDITLINE (readline or libedit)
out=$1
dir=$(dirname "$out")
txt=$dir/config.txt
: "${CC:=gcc}"
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
flags= libs=
: >"$txt.new"
{ echo "# made by scripts/probe.sh"; } >"$out.new"

# row NAME VALUE WHAT FIX
row() { printf '  %-12s %-34s %s\n' "$1" "$2" "$3" >>"$txt.new"; }
have() { eval "have_$1=$2"; echo "HAVE_$1 := $2" >>"$out.new"; flags="$flags -DHAVE_$1=$2"; }
# try HEADER LIBS [CFLAGS]: does a program that includes HEADER link with LIBS?
try() {
  printf '#include <stdio.h>\n#include <%s>\nint main(void){return 0;}\n' "$1" >"$tmp/t.c"
  $CC $3 -o "$tmp/t" "$tmp/t.c" $2 >/dev/null 2>&1
}

printf 'hlosh build configuration\n' >>"$txt.new"
row compiler "$($CC --version 2>/dev/null | head -1 | cut -c1-60)" ""

llvm=
for c in llvm-config-22 llvm-config-21 llvm-config-20 llvm-config-19; do
  command -v $c >/dev/null 2>&1 && [ -f "$($c --includedir)/llvm-c/LLJIT.h" ] && { llvm=$c; break; }
done
if [ -n "$llvm" ]; then
  have LLVM 1
  flags="$flags -isystem $($llvm --includedir) -DHLOSH_LLVM_MAJOR=$($llvm --version | cut -d. -f1)"
  libs="$libs -L$($llvm --libdir) -Wl,-rpath,$($llvm --libdir) $($llvm --libs 2>/dev/null | head -1)"
  row LLVM "$($llvm --version)" "CPU code generation"
  # The program starts twice as fast with LLVM linked into it: the shared library's 100,000 places of addresses are otherwise
  # written anew in every process. Targets that nothing but a weak symbol calls are asked for by name.
  if archives=$($llvm --link-static --libs core orcjit native nvptx amdgpu passes bitwriter 2>/dev/null); then
    parts="-L$($llvm --libdir)"
    for target in NVPTX AMDGPU; do for p in TargetInfo Target TargetMC AsmPrinter; do parts="$parts -Wl,-u,LLVMInitialize$target$p"; done; done
    parts="$parts -Wl,--exclude-libs,$(for a in $archives; do printf 'lib%s.a:' "${a#-l}"; done)"
    parts="$parts -Wl,--gc-sections -Wl,--start-group $(echo $archives) -Wl,--end-group -lstdc++ -lz -lzstd -lrt"
    if try llvm-c/Core.h "$parts -lm -ldl -pthread" "-isystem $($llvm --includedir)"; then
      echo "LLVM_ARCHIVES := $parts" >>"$out.new"
      row "" "its archives" "linked into the program, which starts sooner"
    fi
  fi
  fc=$(dirname "$(readlink -f "$(command -v $llvm)")")/FileCheck
  [ -x "$fc" ] && echo "FILECHECK := $fc" >>"$out.new"
else
  have LLVM 0
  row LLVM "missing" "no cpu backend; fix: apt-get install llvm-19-dev"
fi

# opt ID HEADER LIBS WHAT FIX
opt() {
  if try "$2" "$3"; then have "$1" 1; libs="$libs $3"; row "$1" "found" "$4"; else have "$1" 0; row "$1" "missing" "$4; fix: apt-get install $5"; fi
}
opt DNNL dnnl.h -ldnnl "dot and convolution on the cpu" libdnnl-dev
opt LAPACKE lapacke.h "-llapacke -lopenblas" "factorizations" "libopenblas-dev liblapacke-dev"
opt CJSON cjson/cJSON.h -lcjson "JSON" libcjson-dev
opt ZLIB zlib.h -lz ".gz input" zlib1g-dev
opt ZSTD zstd.h -lzstd ".zst input" libzstd-dev
opt UTF8PROC utf8proc.h -lutf8proc "column widths of names" libutf8proc-dev
case $EDITLINE in
libedit) if try editline/readline.h -ledit; then have READLINE 0; have EDIT 1; libs="$libs -ledit"; row editline "libedit" "line editing (BSD licence)"; else have READLINE 0; have EDIT 0; row editline missing "fix: apt-get install libedit-dev"; fi ;;
*) have EDIT 0; if try readline/readline.h -lreadline; then have READLINE 1; libs="$libs -lreadline"; row readline found "line editing (GPL-3; EDITLINE=libedit avoids it)"; else have READLINE 0; row readline missing "plain line input; fix: apt-get install libreadline-dev"; fi ;;
esac
# OpenMP comes with the compiler.
if printf '#include <omp.h>\nint main(void){return omp_get_max_threads()<0;}\n' >"$tmp/t.c" && $CC -fopenmp -o "$tmp/t" "$tmp/t.c" >/dev/null 2>&1; then
  have OPENMP 1; row OpenMP found "threads of the cpu backend"
else have OPENMP 0; row OpenMP missing "one thread only"; fi
if printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <cmocka.h>\nint main(void){return 0;}\n' >"$tmp/t.c" && $CC -o "$tmp/t" "$tmp/t.c" -lcmocka 2>/dev/null; then
  echo "LIBS_CMOCKA := -lcmocka" >>"$out.new"; echo "HAVE_CMOCKA := 1" >>"$out.new"; row cmocka found "unit tests"
else echo "HAVE_CMOCKA := 0" >>"$out.new"; row cmocka missing "unit tests are skipped; fix: apt-get install libcmocka-dev"; fi
dot=$(command -v dot) && row dot "$dot" "draws graphs" || row dot missing "no pictures; fix: apt-get install graphviz"

{ echo "CONFIG_CFLAGS := $flags"; echo "LIBS := $libs $( [ "$have_OPENMP" = 1 ] && echo -fopenmp) -lm -ldl"; } >>"$out.new"
[ "$have_OPENMP" = 1 ] && echo "CFLAGS_backends_cpu_rt_ := -fopenmp" >>"$out.new"
cmp -s "$txt.new" "$txt" || cat "$txt.new"
mv "$txt.new" "$txt"; mv "$out.new" "$out"
