#!/bin/sh
# The wheel of `make wheel` in a new Python environment: pip takes it, its programs run, tests/wheel.py. The environment sees the JAX of
# build/peers. IPython is installed from the package index where that can be reached. `sh tests/wheel.sh sources` tries the package as
# it lies in frontends/ instead. Exit 77 without JAX.
cd "$(dirname "$0")/.." || exit 1
: "${B:=build}"
here=$PWD peers=build/peers/bin/python3
[ -x "$peers" ] && "$peers" -c 'import jax, venv, ensurepip' 2>/dev/null || { echo "no $peers with jax; make peers makes it"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
fail() { echo "wheel: $*"; [ -f "$dir/out" ] && tail -n 25 "$dir/out"; exit 1; }
unset PYTHONPATH HLOSH HLOSH_LIBRARY HLOSH_PJRT_PLUGIN HLOSH_BUILD JAX_PLATFORMS
if [ "$1" = sources ]; then
  cd "$dir" || exit 1
  PYTHONPATH=$here/frontends HLOSH=$here/$B/hlosh JAX_PLATFORMS=cpu "$here/$peers" -B "$here/tests/wheel.py" api "$here/docs/PYTHON.md" >"$dir/out" 2>&1 || fail "the package"
  echo "the package: ok"
  exit 0
fi
make -s wheel B="$B" >"$dir/out" 2>&1 || fail "make wheel failed"
set -- "$here/$B"/dist/hlosh-*.whl
[ $# = 1 ] && [ -f "$1" ] || fail "not one wheel: $*"
"$peers" -m venv "$dir/venv" || fail "no environment"
python=$dir/venv/bin/python
"$python" -m pip install -q --disable-pip-version-check --no-index --no-deps "$1" >"$dir/out" 2>&1 || fail "pip does not take it"
"$python" -m pip show -f hlosh >"$dir/out" 2>&1 && grep -q 'hlosh/tree/bin/hlosh' "$dir/out" || fail "pip does not know its files"
"$peers" -c 'import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))' >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/peers.pth"

cd "$dir" || exit 1
for tool in hlo-opt run_hlo_module interactive_graphviz compute_cost hlo-translate hlo_bisect; do
  "venv/bin/$tool" --help 2>&1 | grep -q "^$tool: " || fail "there is no $tool"
done
venv/bin/hlosh -c 'example layernorm; pipeline tuned; check' >out 2>&1 || fail "hlosh does not run"
HLOSH_LIBCUDA=/nowhere venv/bin/hlosh-check-gpu >out 2>&1
rc=$?
[ $rc = 5 ] || fail "hlosh-check-gpu exits with $rc"
# The shell gets the terminal: here, what comes from a pipe, after the module and its arguments.
cat >f.py <<'END'
import jax, hlosh, sys
status = hlosh.open(jax.jit(lambda x: x * 2 + 1), jax.numpy.arange(3.0))
sys.exit(status + 40)
END
printf 'inputs\nrun\nassert instructions==1\n' | JAX_PLATFORMS=cpu venv/bin/python f.py >out 2>&1
rc=$?
[ $rc = 41 ] || fail "hlosh.open ends with $((rc - 40)), not with the status of the last command"
grep -q '{0, 1, 2}' out && grep -q '{1, 3, 5}' out && ! grep -q Warning out || fail "hlosh.open has other arguments or results"
JAX_PLATFORMS=cpu timeout 300 venv/bin/python "$here/tests/wheel.py" api "$here/docs/PYTHON.md" >out 2>&1 || fail "the package"
timeout 300 venv/bin/python "$here/tests/wheel.py" jax "$here/docs/PYTHON.md" >out 2>&1 || fail "JAX on hlosh"
timeout 120 venv/bin/python -m pip install -q --disable-pip-version-check --retries 0 --timeout 15 ipython >out 2>&1
JAX_PLATFORMS=cpu timeout 120 venv/bin/python "$here/tests/wheel.py" magic "$here/docs/PYTHON.md" >out 2>&1 || fail "the magics"
grep '^SKIP' out
echo "wheel: ok"
