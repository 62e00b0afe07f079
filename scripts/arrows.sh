#!/bin/sh
# The arrows of scripts/rooms.txt as the linker sees them: prints every symbol that an object takes from a room it must
# not know, exit 1 when there is one. Tables that list what stands above them (registries) are not looked at.
# usage: arrows.sh BUILD
cd "$(dirname "$0")/.." || exit 1
b=${1:-build}
hits=$(find "$b/core" "$b/passes" "$b/profiler" "$b/viz" "$b/backends" "$b/repl" "$b/plugin" "$b/api" -name '*.o' | while read -r o; do
  src=${o#"$b"/}
  [ ! -f "${src%.o}.c" ] || echo "$o"
done | xargs nm -gA | awk -v b="$b/" -v rooms="$(grep -v '^#' scripts/rooms.txt)" '
  BEGIN {
    n = split(rooms, r, "\n")
    for (i = 1; i <= n; i++) { k = split(r[i], w, " "); for (j = 1; j <= k; j++) level[w[j]] = i }
    registry["backends/backend.c"] = registry["backends/worker_loop.c"] = 1
  }
  {
    at = index($0, ":"); o = substr($0, length(b) + 1, at - length(b) - 2) "c"; $0 = substr($0, at + 1)
  }
  NF == 3 && $2 !~ /[wV]/ { $0 = "D " $3 " " o }
  NF == 2 && $1 == "U" { $0 = "U " $2 " " o }
  function dir(p) { sub(/\/[^\/]*$/, "", p); return p }
  $1 == "D" { def[$2] = $3 }
  $1 == "U" && !($3 in registry) { use[++nu] = $2; user[nu] = $3 }
  END {
    for (i = 1; i <= nu; i++) {
      if (!(use[i] in def)) continue
      from = dir(user[i]); to = dir(def[use[i]])
      if (from != to && (from in level) && (to in level) && level[to] >= level[from]) print user[i] " -> " def[use[i]] ": " use[i]
    }
  }' | sort)
[ -z "$hits" ] || { echo "links against the arrows:"; echo "$hits"; exit 1; }
echo "arrows: ok"
