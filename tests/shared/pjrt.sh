# Suite modules in real XLA: run by XLA:CPU; what it makes of them, on the evaluator; every state inside its compiler read,
# verified and printed; and the same compiled by XLA:GPU for an H200 that is not here. Every eighth module, or with HLOSH_FULL=1 all.
"$HLOSH" -c 'backend pjrt xla_cpu' >/dev/null 2>&1 || { echo "no PJRT plug-in; make peers fetches them"; exit 77; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
step=8
[ -n "$HLOSH_FULL" ] && step=1
suite=$(cd "$1/suite" && pwd) || exit 1
mkdir "$tmp/suite" && ls "$suite" | sed -n 's/\.expect$//p' | awk "NR % $step == 0" | while read -r name; do ln -s "$suite/$name".* "$tmp/suite/"; done
all() {  # all COMMAND...: no FAIL line, nothing unsupported, every module agrees
  "$@" >"$tmp/out" 2>&1; rc=$?
  tail -n 12 "$tmp/out"
  [ $rc = 0 ] && sed -n 's|^suite: \([0-9]*\)/\([0-9]*\) agree, 0 unsupported$|\1 \2|p' "$tmp/out" | { read -r a b && [ "$a" = "$b" ] && [ "$a" -ge $((88 / step)) ]; }
}
all sh tests/suite "$tmp/suite" --plugin xla_cpu -j 2 || exit 1
all sh tests/suite "$tmp/suite" --plugin xla_cpu --made 1 -j 2 || exit 1
sh tests/steps "$tmp/suite" -j 2 || exit 1
"$HLOSH" -c 'backend pjrt xla_cuda' >/dev/null 2>&1 || { echo "SKIP XLA:GPU: no plug-in for GPUs"; exit 0; }
all sh tests/suite "$tmp/suite" --plugin xla_cuda --for h200 -j 2 || exit 1
sh tests/steps "$tmp/suite" -j 2 --plugin xla_cuda --for h200
