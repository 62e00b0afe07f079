#!/bin/sh
# bench/versus beside a peer that is here: a row for each module, its summary, its JSON; and a file that is none fails by name.
# PEER: jax (default) or pjrt.
cd "$(dirname "$0")/../.." || exit 1
: "${B:=build}"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAIL: $*"; cat "$dir"/out; exit 1; }
printf 'name\tfamily\tlimit_ms\nmatmul\tgemm\t1e-6\n' >"$dir/limits.tsv"
run() { python3 bench/versus --hlosh "${HLOSH:-$B/hlosh}" --peer "${PEER:-jax}" --quick --seconds 0.2 --limits "$dir/limits.tsv" "$@" >"$dir/out" 2>&1; }
run --json "$dir/json" examples/matmul.hlo examples/relu_square.hlo || fail "exit $?"
[ "$(grep -c '^[a-z_]*\.hlo  *[0-9.]* ' "$dir/out")" = 2 ] || fail "two rows"
grep -q '^run geomean [0-9.]*×, worst [0-9.]*× (.*hlo); compile geomean [0-9.]*×; temp bytes geomean [0-9.]*×$' "$dir/out" || fail "summary"
grep -q ' 0 % of 1 within 2.5× of the limit' "$dir/out" || fail "limit"
python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); assert [m["ok"] for m in d["modules"]] == [True, True] and d["modules"][0]["over_limit"] > 1' "$dir/json" || fail "JSON"
echo "HloModule" >"$dir/none.hlo"
run "$dir/none.hlo" && fail "a file that is no module passed"
grep -q '^none.hlo.*FAIL ' "$dir/out" || fail "no reason"
