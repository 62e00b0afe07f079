#!/bin/sh
# Structure checks of the sources: include arrows, who may include which library, calls that a shell must not make,
# headers that compile alone, format, lengths of lines and files, sizes of folders. Prints one line per violation;
# exit 1 when there is one. A check whose tool is missing is named ("SKIP").
cd "$(dirname "$0")/.." || exit 1
bad=0
fail() { echo "lint: $*"; bad=1; }
# Which top folder may include which; scripts/rooms.txt has the order of the rooms within them.
top='core:
passes: core
profiler: core
viz: core
backends: core passes profiler
repl: core passes profiler viz backends examples
plugin: core passes profiler backends
api: core passes profiler backends include'
rooms=$(grep -v '^#' scripts/rooms.txt)
hits=$(find core passes profiler viz backends repl plugin api -name '*.[ch]' -o -name '*.def' | xargs grep -HE '^#include "' | awk -v top="$top" -v rooms="$rooms" '
  BEGIN {
    n = split(top, t, "\n")
    for (i = 1; i <= n; i++) { k = split(t[i], w, /[: ]+/); for (j = 2; j <= k; j++) if (w[j] != "") may[w[1], w[j]] = 1 }
    n = split(rooms, r, "\n")
    for (i = 1; i <= n; i++) { k = split(r[i], w, " "); for (j = 1; j <= k; j++) level[w[j]] = i }
  }
  function dir(p) { sub(/\/[^\/]*$/, "", p); return p }
  function first(p) { sub(/\/.*/, "", p); return p }
  {
    file = $1; sub(/:#include$/, "", file); inc = $2; gsub(/"/, "", inc)
    from = dir(file); to = dir(inc)
    if (from == to) next
    if (first(from) != first(to)) { if (!((first(from), first(to)) in may)) print file " -> " inc; next }
    if ((from in level) && !(to in level && level[to] < level[from])) print file " -> " inc
  }')
[ -z "$hits" ] || fail "include against the arrows:
$hits"
for room in $rooms; do
  grep -qE "^\| [^|]*\b${room##*/}\b" docs/ARCHITECTURE.md || fail "the room $room is not in docs/ARCHITECTURE.md's table"
done
# only PATTERN FILES-REGEX: a library header is included in the named files only
only() {
  hits=$(grep -rlE "#include [<\"]($1)" core passes backends profiler viz repl plugin api 2>/dev/null | grep -vE "$2")
  [ -z "$hits" ] || fail "$1 is included in $hits"
}
only 'llvm-c/' '^backends/(emit|cpu|gpu)/'
only 'cu(da|pti|dnn|blas|fft|solver)|nccl|nvml' '^$'
only 'dnnl' '^backends/cpu/'
only 'lapacke' '^core/eval/lapack'
only 'graphviz/|gvc' '^viz/render'
only 'cjson/' '^repl/formats/json'
only '(readline|editline|histedit)' '^repl/shell/line'
only 'zlib|zstd' '^core/base/compress'
only 'utf8proc' '^(viz|repl)/'
hits=$(grep -rnE '\b(abort|longjmp|setjmp|strcpy|strcat|sprintf|strtok|gets)\(' core passes backends profiler viz repl plugin api --include=*.c --include=*.h | grep -vE '^\S+:\s*(//|\*)')
[ -z "$hits" ] || fail "forbidden call: $hits"
hits=$(grep -rnE '(^|[^_a-z.>])exit\(' core passes backends profiler viz repl plugin api --include=*.c | grep -vE '^repl/main\.c')
[ -z "$hits" ] || fail "exit outside repl/main.c: $hits"
# Headers compile alone; those of backends/emit and backends/cpu need LLVM's.
mk=${B:-build}/config.mk
headers=$(find core passes backends profiler viz repl plugin api tests bench -name '*.h')
grep -qs '^HAVE_LLVM := 1' "$mk" || { headers=$(echo "$headers" | grep -vE '^backends/(emit|cpu|gpu/emu)/|^tests/unit/backends/kernels.h'); echo "SKIP headers of backends/emit, backends/cpu, backends/gpu/emu and tests/unit/backends/kernels.h: no LLVM, or not configured"; }
FLAGS=$(sed -n 's/^CONFIG_CFLAGS := //p' "$mk" 2>/dev/null)
export FLAGS CC="${CC:-gcc}"
hits=$(echo "$headers" | xargs -P 4 -I{} sh -c 'echo "#include \"{}\"" | $CC -std=gnu2x -D_GNU_SOURCE -I. $FLAGS -fsyntax-only -x c - 2>/dev/null || echo {}')
[ -z "$hits" ] || fail "headers that do not compile alone:
$hits"
# Shape of the text.
c_files=$(find core passes backends profiler viz repl plugin api tests bench -name '*.[ch]')
hits=$(echo "$c_files" | LC_ALL=C xargs awk 'length > 100 { print FILENAME ":" FNR ": " length " bytes" }')
[ -z "$hits" ] || fail "lines over 100 bytes:
$hits"
texts=$(find core passes backends profiler viz repl plugin api tests bench scripts docs Makefile ./*.md \( -name '*.[ch]' -o -name '*.def' -o -name '*.sh' -o -name '*.py' -o -name '*.md' -o -name Makefile \) -type f)
hits=$(grep -nE '[[:blank:]]+$' $texts)
[ -z "$hits" ] || fail "trailing blanks:
$hits"
hits=$(echo "$c_files" | xargs wc -l | awk '$1 > 700 && $2 != "total" { print $2 ": " $1 " lines" }')
[ -z "$hits" ] || fail "files over 700 lines:
$hits"
hits=$(echo "$c_files" | xargs grep -c __builtin_prefetch | awk -F: '{ n += $2 } END { if (n > 5) print n }')
[ -z "$hits" ] || fail "__builtin_prefetch stands $hits times, at most 5"
if command -v clang-format >/dev/null 2>&1 && clang-format --version | grep -q 'version 14\.'; then
  hits=$(echo "$c_files" | xargs -P 4 -n 60 clang-format -n 2>&1 | grep -E 'warning|error')
  [ -z "$hits" ] || fail "not formatted (make format):
$hits"
else
  echo "SKIP format: no clang-format 14"
fi
# A folder says what it is for when one can read its list of files. Data is not read so: the fuzzers' corpora may be larger.
hits=$(git ls-files 2>/dev/null | grep -v '^tests/fuzz/corpus/' | sed -n 's,/[^/]*$,,p' | sort | uniq -c | awk '$1 > 35 { print $2 ": " $1 " files" }')
[ -z "$hits" ] || fail "folders of more than 35 files:
$hits"
# The tree holds what it means to hold: plain names, and nothing else beside the folders (a stray -o writes here).
if [ -e .git ]; then
  hits=$(git -c core.quotePath=true ls-files | grep -E '[^A-Za-z0-9_.,+=@/-]|^[^/]*$' | grep -vxE '\.gitignore|\.clang-format|\.editorconfig|\.git-blame-ignore-revs|LICENSE|Makefile|README\.md|CONTRIBUTING\.md|CHANGELOG\.md')
  [ -z "$hits" ] || fail "stray files in git: $hits"
fi
[ $bad = 0 ] && echo "lint: ok"
exit $bad
