#!/bin/sh
# Writes the table of functions that the program binds on their first call (repl/late.c): those of the libraries of
# $LIBS_LATE that $LIBRARY calls. The table is empty, and the program is linked against them as against any other, where
# that does not work: on another processor, with data shared between them, or where a confined worker could not read
# them (sandbox.def).
#
# LIBRARY(name, first): a library by the name that the loader knows. first: the number of one that is loaded before it,
# because it takes functions from there that it would otherwise find elsewhere (LAPACKE: LAPACK is OpenBLAS's); -1: none.
# FUNCTION(library, name): the number of the library that has it.
#
# usage: late.sh LIBRARY.a     environment: CC, LIBS_LATE, LIBS_REST
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
give_up() { echo "// none: $*"; exit 0; }

[ "$(uname -m)" = x86_64 ] || give_up "another processor"
[ -n "$LIBS_LATE" ] || give_up "no libraries"
echo 'int main(void) { return 0; }' >"$tmp/t.c"
$CC -o "$tmp/t" "$tmp/t.c" -Wl,--no-as-needed $LIBS_REST $LIBS_LATE 2>/dev/null || give_up "they do not link"
$CC -o "$tmp/rest" "$tmp/t.c" -Wl,--no-as-needed $LIBS_REST 2>/dev/null || give_up "the others do not link"
needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
needed "$tmp/rest" >"$tmp/rest.needed"
needed "$tmp/t" | grep -vxF -f "$tmp/rest.needed" >"$tmp/late.needed"
ldd "$tmp/t" >"$tmp/ldd"
sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' "$tmp/ldd" | while read -r path; do
  for folder in /lib /lib64 /usr/lib /usr/lib64 /usr/local/lib; do
    case $path in "$folder"/*) continue 2 ;; esac
  done
  echo "$path"
done >"$tmp/elsewhere"
[ ! -s "$tmp/elsewhere" ] || give_up "elsewhere: $(head -n 1 "$tmp/elsewhere")"

nm "$1" 2>/dev/null | awk '$1 == "U" { print $2 }' | sort -u >"$tmp/called"
# defined PATH, wanted PATH: strong functions of a library, and what it takes from others
defined() { nm -D --defined-only "$1" | awk '$2 == "T" || $2 == "i" { sub(/@.*/, "", $3); print $3 }' | sort -u; }
wanted() { nm -D --undefined-only "$1" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort -u; }
echo "#define LATE 1"
number=0
: >"$tmp/taken"
while read -r name; do
  awk -v n="$name" '$1 == n { print $3 }' "$tmp/ldd" >"$tmp/$number.path"
  defined "$(cat "$tmp/$number.path")" >"$tmp/$number.defined"
  comm -12 "$tmp/called" "$tmp/$number.defined" | comm -23 - "$tmp/taken" >"$tmp/$number.used"
  sort -u "$tmp/taken" "$tmp/$number.used" >"$tmp/more" && mv "$tmp/more" "$tmp/taken"
  number=$((number + 1))
done <"$tmp/late.needed"
k=0
while read -r name; do
  wanted "$(cat "$tmp/$k.path")" >"$tmp/wanted"
  first=-1 j=$((k + 1))
  while [ $j -lt $number ]; do
    [ -z "$(comm -12 "$tmp/wanted" "$tmp/$j.defined")" ] || first=$j
    j=$((j + 1))
  done
  echo "LIBRARY(\"$name\", $first)"
  sed "s/.*/FUNCTION($k, &)/" "$tmp/$k.used"
  k=$((k + 1))
done <"$tmp/late.needed"
