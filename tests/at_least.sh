#!/bin/sh
# Runs a driver and asks that its last line, "NAME: P/T...", has at least N passing cases: at_least.sh NAME N COMMAND...
# The cases that fail are differences from XLA that are known by number, not by name; a driver exits 1 for them.
name=$1 n=$2; shift 2
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
sh "$@" >"$out" 2>&1
tail -n 3 "$out"
p=$(sed -n "s|^$name: \([0-9]*\)/.*|\1|p" "$out")
[ "${p:-0}" -ge "$n" ]
