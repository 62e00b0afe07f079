#!/bin/sh
# The main job on a bare machine: installs what is missing, builds, optimizes and measures a training step, draws it,
# and writes a report bundle. Output goes to build/demo/.
cd "$(dirname "$0")/.." || exit 1
sh scripts/deps.sh --if-missing || exit 1
make --no-print-directory -j"$(nproc)" build/hlosh || exit 1
rm -rf build/demo && mkdir -p build/demo
exec build/hlosh examples/gelu_mlp_train.hlo -c '
  pipeline tuned
  check
  plot build/demo/gelu_mlp_train.svg
  report build/demo/report
  speedup'
