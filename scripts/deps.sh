#!/bin/sh
# Installs the Debian packages of the build and the tests. --if-missing: only when the build would lack one.
pkgs="gcc make pkg-config git ca-certificates libdnnl-dev libopenblas-dev liblapacke-dev libcjson-dev libgraphviz-dev graphviz
zlib1g-dev libzstd-dev libutf8proc-dev libcmocka-dev libreadline-dev libedit-dev"
missing=
for p in $pkgs; do dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"; done
llvm=
for v in 22 21 20 19; do dpkg-query -W -f='${Status}' "llvm-$v-dev" 2>/dev/null | grep -q 'ok installed' && { llvm=$v; break; }; done
if [ -z "$missing" ] && [ -n "$llvm" ]; then [ "$1" = --if-missing ] || echo "all packages are installed (LLVM $llvm)"; exit 0; fi
as_root=
if [ "$(id -u)" != 0 ]; then
  if command -v sudo >/dev/null 2>&1; then as_root=sudo; else echo "deps: need root or sudo to install:$missing" >&2; exit 1; fi
fi
export DEBIAN_FRONTEND=noninteractive
command -v apt-get >/dev/null 2>&1 || { echo "deps: no apt-get here; install by hand:$missing llvm-19-dev" >&2; exit 1; }
$as_root apt-get update -q || exit 1
if [ -z "$llvm" ]; then
  for v in 22 19; do apt-cache show "llvm-$v-dev" >/dev/null 2>&1 && { missing="$missing llvm-$v-dev llvm-$v-tools"; break; }; done
fi
$as_root apt-get install -y -q --no-install-recommends $missing || exit 1
# What was found before is out of date now: the next make probes again.
cd "$(dirname "$0")/.." && rm -f build/config.mk build/*/config.mk
