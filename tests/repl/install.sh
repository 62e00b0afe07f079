#!/bin/sh
# `make install` into an empty folder: the program runs from there, the manual page is formatted without a warning,
# and the completion scripts of bash and zsh (where it is) load and complete options, commands and passes.
# B is the build folder.
cd "$(dirname "$0")/../.." || exit 1
: "${B:=build}"
dest=$(mktemp -d) || exit 1
trap 'rm -rf "$dest"' EXIT
fail() { echo "install: $*"; exit 1; }
make -s install B="$B" DESTDIR="$dest" PREFIX=/usr >"$dest/log" 2>&1 || { cat "$dest/log"; fail "make install failed"; }
hlosh=$dest/usr/bin/hlosh share=$dest/usr/share
(cd / && "$hlosh" "$share/hlosh/examples/mlp.hlo" -c 'pass dce; verify') >"$dest/log" 2>&1 || { cat "$dest/log"; fail "the installed program does not run"; }

for tool in hlo-opt run_hlo_module interactive_graphviz compute_cost hlo-translate hlo_bisect; do
  "$dest/usr/bin/$tool" --help | grep -q "^$tool: " || fail "there is no $tool"
done
if command -v groff >/dev/null 2>&1; then
  warnings=$(groff -man -Tutf8 -ww -z "$share/man/man1/hlosh.1" 2>&1)
  [ -z "$warnings" ] || fail "groff: $warnings"
  text=$(groff -man -Tutf8 -P-cbou "$share/man/man1/hlosh.1")
  for word in 'pass \[PASS' '--NAME=VALUE' 'bisect' 'EXIT STATUS'; do
    echo "$text" | grep -q -- "$word" || fail "the manual page lacks $word"
  done
fi

# complete LINE: what bash would offer at its end, one candidate per line.
cat >"$dest/complete" <<'BASH'
. "$1"
COMP_LINE=$2 COMP_POINT=${#2}
# As readline splits it: blanks outside of quotes, and = as a word of its own.
COMP_WORDS=("${COMP_LINE%% *}" "${COMP_LINE##* }") COMP_CWORD=1
$(complete -p hlosh | sed 's/.*-F \([^ ]*\).*/\1/')
printf '%s\n' "${COMPREPLY[@]}"
BASH
offers() {
  got=$(PATH="$dest/usr/bin:$PATH" bash "$dest/complete" "$share/bash-completion/completions/hlosh" "$1")
  for want in $2; do echo "$got" | grep -qxF -- "$want" || fail "no $want behind \"$1\", but: $got"; done
}
if command -v bash >/dev/null 2>&1; then
  offers 'hlosh --' '--json --color= --threads= --elided='
  offers 'hlosh --elided=' 'random zeros'
  offers "hlosh -c 'pa" 'pass passes param'
  PATH="$dest/usr/bin:$PATH" bash "$dest/complete" "$share/bash-completion/completions/hlosh" "hlosh x.hlo -c 'pass alg" |
    grep -qxF 'pass algsimp' || fail "no pass behind -c 'pass alg"
  offers 'hlosh examples/' ''
fi
if command -v zsh >/dev/null 2>&1; then
  zsh -n "$share/zsh/site-functions/_hlosh" || fail "zsh does not read its completion script"
fi
echo "install: ok"
