#!/bin/sh
# Installs the Debian packages of the build and the tests. --if-missing: only when the build would lack one.
# --install PACKAGE...: those packages instead, when one of them is missing.
absent() { for p; do dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || printf ' %s' "$p"; done; }
# Sets as_root and fetches the package lists; $1 is what a person would have to install by hand.
prepare() {
  as_root=
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1; then as_root=sudo; else echo "deps: need root or sudo to install: $1" >&2; exit 1; fi
  fi
  export DEBIAN_FRONTEND=noninteractive
  command -v apt-get >/dev/null 2>&1 || { echo "deps: no apt-get here; install by hand: $1" >&2; exit 1; }
  $as_root apt-get update -q || exit 1
}
install() { $as_root apt-get install -y -q --no-install-recommends "$@" || exit 1; }

if [ "$1" = --install ]; then
  shift
  missing=$(absent "$@")
  [ -z "$missing" ] || { prepare "$missing"; install $missing; }
  exit 0
fi
pkgs="gcc make pkg-config git ca-certificates libdnnl-dev libopenblas-dev liblapacke-dev libcjson-dev graphviz
zlib1g-dev libzstd-dev libutf8proc-dev libcmocka-dev libreadline-dev libedit-dev"
missing=$(absent $pkgs)
llvm=
for v in 22 21 20 19; do [ -z "$(absent "llvm-$v-dev")" ] && { llvm=$v; break; }; done
if [ -z "$missing" ] && [ -n "$llvm" ]; then [ "$1" = --if-missing ] || echo "all packages are installed (LLVM $llvm)"; exit 0; fi
prepare "$missing llvm-19-dev"
if [ -z "$llvm" ]; then
  for v in 22 19; do apt-cache show "llvm-$v-dev" >/dev/null 2>&1 && { missing="$missing llvm-$v-dev llvm-$v-tools"; break; }; done
fi
install $missing
# What was found before is out of date now: the next make probes again.
cd "$(dirname "$0")/.." && rm -f build/config.mk build/*/config.mk
