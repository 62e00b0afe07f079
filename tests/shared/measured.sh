# speedup, profile and memory on real XLA: every example and suite module gives its tables on the plug-in and on jaxlib
# (tests/peers/measured.py). Every fortieth module, or with HLOSH_FULL=1 all, of which two may fail.
command -v python3 >/dev/null || { echo "no Python"; exit 77; }
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
step=40 may_fail=0
[ -n "$HLOSH_FULL" ] && step=1 may_fail=2
files=$(ls examples/*.hlo "$1"/suite/*.expect | sed 's/\.expect$/.hlo/' | awk "NR % $step == 0")
for backend in pjrt jax; do
  "$HLOSH" -c "backend $backend" >/dev/null 2>&1 || { echo "SKIP $backend: not here; make peers fetches it"; continue; }
  python3 tests/peers/measured.py "$HLOSH" "$backend" --seconds 0.1 $files >"$out" 2>&1
  tail -n 12 "$out"
  sed -n 's|^measured: \([0-9]*\)/\([0-9]*\)$|\1 \2|p' "$out" | { read -r a b && [ "$a" -ge $((b - may_fail)) ]; } || exit 1
done
