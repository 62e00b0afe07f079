#!/bin/sh
# tests/repl/files/bombs.sh: compressed files of some kilobytes that unpack to gigabytes, by tests/drivers/hostile.c: refused
# by a diagnostic with its code, in 2 s of processor and 1 GB. Each is a block of 64 MB, compressed once and written 58
# times in a row, which gzip and zstd take for one text of 3.9 GB: below the limit that holds where none was set.
: "${B:=build}"
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
bad=0
size=67108864
again() { k=0; while [ $k -lt "$2" ]; do cat "$1"; k=$((k + 1)); done; }
# bomb NAME: standard input compressed, behind the file "begin"
bomb() {
  head -c $size >"$tmp/block"
  { gzip -c "$tmp/begin"; gzip -9 <"$tmp/block" >"$tmp/packed"; again "$tmp/packed" 58; } >"$tmp/$1.gz"
  command -v zstd >/dev/null || return
  { zstd -q -c "$tmp/begin"; zstd -q <"$tmp/block" >"$tmp/packed"; again "$tmp/packed" 58; } >"$tmp/$1.zst"
}
command -v zstd >/dev/null || echo "SKIP bombs of zstd: no program zstd"
module='HloModule m\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n'
# the same few bytes over and over, of which 64 KB are made at a time
printf '\012\000%.0s' $(seq 32768) >"$tmp/planes"
printf 'x = f32[] add(x, x)\n%.0s' $(seq 4096) >"$tmp/lines"
printf '0.125, %.0s' $(seq 8192) >"$tmp/numbers"

printf "$module" >"$tmp/begin"; tr '\0' ' ' </dev/zero | bomb blanks.hlo
printf "$module" >"$tmp/begin"; bomb zeros.hlo </dev/zero
printf 'HloModule m\nENTRY e {\n' >"$tmp/begin"; again "$tmp/lines" 1000 | bomb lines.hlo
printf 'HloModule ' >"$tmp/begin"; tr '\0' 'a' </dev/zero | bomb token.hlo
printf 'ENTRY e {\n  ROOT c = f32[9] constant({' >"$tmp/begin"; again "$tmp/numbers" 1200 | bomb numbers.hlo
printf 'ML\357R\015hlosh\000' >"$tmp/begin"; bomb code.mlirbc </dev/zero
printf 'module @m {\n' >"$tmp/begin"; again "$tmp/lines" 1000 | bomb text.mlir
: >"$tmp/begin"; again "$tmp/planes" 1100 | bomb planes.xplane.pb
: >"$tmp/begin"; bomb nothing.pb </dev/zero
"$B/tests/hostile" -j "${JOBS:-2}" --line verify "$tmp"/*.gz $(ls "$tmp"/*.zst 2>/dev/null) || bad=1

# archives: .npz by its own reader, tar as a bundle
if command -v python3 >/dev/null; then
  python3 - "$tmp" <<'END'
import struct, sys, zlib
size = 3_900_000_000
def npz(name, begin, stated):
    z = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = z.compress(begin + bytes((64 << 20) - len(begin))) + z.flush()
    name_, head = b"p.npy", struct.pack("<HHHHHIII", 20, 0, 8, 0, 33, 0, len(data), stated)
    local = b"PK\3\4" + head + struct.pack("<HH", len(name_), 0) + name_ + data
    central = b"PK\1\2" + struct.pack("<H", 20) + head + struct.pack("<HHHHHII", len(name_), 0, 0, 0, 0, 0, 0) + name_
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    open(f"{sys.argv[1]}/{name}.npz", "wb").write(local + central + end)
text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % (size // 4)
npz("zeros", b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text, 64 << 20)
npz("stated", b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text, size)
npz("nothing", b"", 64 << 20)
END
  printf "$module" >"$tmp/m.hlo"
  for f in zeros stated nothing; do
    "$B/tests/hostile" --line "run --inputs=$tmp/$f.npz" "$tmp/m.hlo" || bad=1
  done
else echo "SKIP bombs as .npz: no Python"; fi
printf "$module" >"$tmp/bundle.json"
(cd "$tmp" && tar cf begin bundle.json) && bomb bundle.tar </dev/zero
: >"$tmp/begin"; bomb none.tar </dev/zero
for f in "$tmp"/*.tar.*; do "$B/tests/hostile" --line "replay $f" "$tmp/m.hlo" || bad=1; done
exit $bad
