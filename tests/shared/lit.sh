#!/bin/sh
# XLA's lit tests as written, under the names of its tools (tests/compat/lit.py). $1: the folder of recorded data.
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null 2>&1 || { echo "no python3"; exit 77; }
exec python3 tests/compat/lit.py "$HLOSH" "$1/corpus/lit_modules" "$1/corpus/lit_modules_2"
