# Files that broke the shell once, through every command: a diagnostic with a code, or it works, within 2 s and 1 GB, and
# Ctrl-C ends it within 200 ms.
dir=$1/corpus/hostile B=${HLOSH_BUILD:-build}
"$B/tests/hostile" -j "${JOBS:-2}" --endless loop.hlo --endless exp.hlo "$dir"/*.hlo "$dir"/*.pb && "$B/tests/interrupt" "$dir"/*.hlo
