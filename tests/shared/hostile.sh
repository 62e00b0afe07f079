# Files that broke the shell once, through every command: a diagnostic with a code, or it works, within 2 s and 1 GB, and
# Ctrl-C ends it within 200 ms. Every third file, or with HLOSH_FULL=1 all.
dir=$1/corpus/hostile B=${HLOSH_BUILD:-build} step=3
[ -n "$HLOSH_FULL" ] && step=1
some() { for f in "$@"; do echo "$f"; done | awk "NR % $step == 0"; }
"$B/tests/hostile" -j "${JOBS:-2}" --endless loop.hlo --endless exp.hlo $(some "$dir"/*.hlo "$dir"/*.pb) && "$B/tests/interrupt" $(some "$dir"/*.hlo)
