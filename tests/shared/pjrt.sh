# Every suite module on real XLA:CPU, what it makes of them on the evaluator, and compiled by XLA:GPU for an H200 that is not here.
"$HLOSH" -c 'backend pjrt xla_cpu' >/dev/null 2>&1 || { echo "no PJRT plug-in; make peers fetches them"; exit 77; }
dir=$1/suite
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
all() {  # all COMMAND...: no FAIL line, nothing unsupported, every module agrees
  "$@" >"$out" 2>&1; rc=$?
  tail -n 12 "$out"
  [ $rc = 0 ] && sed -n 's|^suite: \([0-9]*\)/\([0-9]*\) agree, 0 unsupported$|\1 \2|p' "$out" | { read -r a b && [ "$a" = "$b" ] && [ "$a" -ge 89 ]; }
}
all sh tests/suite "$dir" --plugin xla_cpu -j 2 || exit 1
all sh tests/suite "$dir" --plugin xla_cpu --made 1 -j 2 || exit 1
"$HLOSH" -c 'backend pjrt xla_cuda' >/dev/null 2>&1 || { echo "SKIP XLA:GPU: no plug-in for GPUs"; exit 0; }
all sh tests/suite "$dir" --plugin xla_cuda --for h200 -j 2
