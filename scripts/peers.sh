#!/bin/sh
# Real XLA, to compare with: a Python environment in build/peers with jaxlib (XLA's own parser, printer and compiler) and
# two PJRT plug-ins, XLA:CPU and XLA:GPU, which links in build/peers make easy to name:
#   build/peers/bin/python3   build/peers/xla_cpu_pjrt.so   build/peers/xla_cuda_plugin.so   build/peers/pjrt_c_api.h
# Nothing of hlosh needs any of it; tests that do are skipped by name without it. Repeating is free. About 1.6 GB on disk.
cd "$(dirname "$0")/.." || exit 1
dir=${PEERS:-build/peers}
full="jax==0.10.2 jaxlib==0.10.2 numpy flatbuffers"
alone="xla-cpu-pjrt==0.0.1 jax-cuda13-pjrt==0.10.2"   # without what they depend on: CUDA's libraries are loaded when there
say() { echo "peers: $*"; }
die() { echo "peers: $*" >&2; exit 1; }

show() {
  say "$dir is ready: jaxlib $("$dir/bin/python3" -c 'import jaxlib; print(jaxlib.__version__)')"
  for f in "$dir"/*.so "$dir"/*.h; do say "  $f"; done
}
if [ -x "$dir/bin/python3" ] && [ "$(cat "$dir/wanted.txt" 2>/dev/null)" = "$full $alone" ] && "$dir/bin/python3" -c 'from jaxlib import _hlo' 2>/dev/null; then
  show
  exit 0
fi

command -v python3 >/dev/null 2>&1 && python3 -c 'import venv, ensurepip' 2>/dev/null || sh scripts/deps.sh --install python3 python3-venv ||
  die "needs python3 with its venv module (Debian: apt-get install python3-venv)"
rm -f "$dir/wanted.txt"
mkdir -p "$(dirname "$dir")"
[ -x "$dir/bin/python3" ] && "$dir/bin/python3" -m pip --version >/dev/null 2>&1 || { rm -rf "$dir"; python3 -m venv "$dir" || die "python3 -m venv $dir failed"; }
pip() { "$dir/bin/python3" -m pip install -q --disable-pip-version-check --retries 2 --timeout 30 "$@"; }
say "downloading $full $alone (about 300 MB)"
pip $full && pip --no-deps $alone || die "the download failed: is the package index reachable from here? Run make peers again when it is."

# link NAME: the file of that name inside the environment
link() {
  found=$(cd "$dir" && find lib/ -name "$1" | head -1)
  [ -n "$found" ] || die "$1 is not in the packages that were installed"
  ln -sf "$found" "$dir/$1"
}
link xla_cpu_pjrt.so
link xla_cuda_plugin.so
link pjrt_c_api.h
"$dir/bin/python3" -c 'from jaxlib import _hlo' || die "jaxlib does not load on this machine"
echo "$full $alone" >"$dir/wanted.txt"
show
