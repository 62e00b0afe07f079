#!/bin/sh
# JAX on hlosh as its platform (tests/peers/jax_plugin.py), with the Python of build/peers. Exit 77 when it has no JAX.
cd "$(dirname "$0")/../.." || exit 1
python=build/peers/bin/python
[ -x "$python" ] || { echo "no $python; make peers makes it"; exit 77; }
journal=$(mktemp -d) || exit 1
trap 'rm -rf "$journal"' EXIT
PYTHONPATH=$PWD/frontends HLOSH_PJRT_PLUGIN=$PWD/${B:-build}/libpjrt_hlosh.so HLOSH_JOURNAL=$journal "$python" tests/peers/jax_plugin.py 2>"$journal/stderr"
rc=$?
[ "$rc" = 77 ] && exit 77
if [ "$rc" != 0 ]; then tail -n 20 "$journal/stderr"; exit 1; fi
if grep -q '^HAVE_LLVM := 1' "${B:-build}/config.mk"; then
  HLOSH=${HLOSH:-${B:-build}/hlosh} HLOSH_WORKER=1 PYTHONPATH=$PWD/frontends HLOSH_PJRT_PLUGIN=$PWD/${B:-build}/libpjrt_hlosh.so \
    "$python" tests/peers/jax_plugin.py 2>"$journal/stderr" || { tail -n 20 "$journal/stderr"; exit 1; }
fi
# The journal's sessions load.
n=0
for f in "$journal"/*.hlosh; do
  n=$((n + 1))
  [ "$n" -gt 12 ] && break
  "${HLOSH:-${B:-build}/hlosh}" -f "$f" >/dev/null || { echo "$f does not load"; exit 1; }
done
[ "$n" -gt 5 ] || { echo "the journal has $n sessions"; exit 1; }
