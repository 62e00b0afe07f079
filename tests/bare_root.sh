#!/bin/sh
# A bundle replays in a root that has the program, its libraries, /proc and /dev/null, and nothing else. $HLOSH: the program.
cd "$(dirname "$0")/.." || exit 1
HLOSH=$(realpath "${HLOSH:-build/hlosh}")
unshare -Urmpf true 2>/dev/null || { echo "no user namespaces here"; exit 77; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
root=$tmp/root
mkdir -p "$root/bin" "$root/tmp" "$root/proc" "$root/dev"
: >"$root/dev/null"
cp "$HLOSH" "$root/bin/hlosh"
ldd "$HLOSH" | tr ' \t' '\n\n' | grep '^/' | sort -u | while read -r lib; do
  mkdir -p "$root$(dirname "$lib")" && cp -L "$lib" "$root$lib"
done
"$HLOSH" tests/repl/mlp.hlo -c "pipeline tuned > /dev/null; backend cpu > /dev/null; report $root/bundle" >/dev/null || exit 1
unshare -Urmpf sh -c "mount -t proc proc '$root/proc' && mount --bind /dev/null '$root/dev/null' &&
  chroot '$root' /bin/hlosh -c 'replay bundle'" >"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }
grep -q '^same: ' "$tmp/out"
