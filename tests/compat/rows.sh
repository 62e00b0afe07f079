#!/bin/sh
# Every flag of repl/compat/compat.def and of repl/debug/xla_flags.def, and every command of interactive_graphviz in docs/COMPAT.md,
# stands in a transcript of tests/repl/compat and in docs/COMPAT.md.
cd "$(dirname "$0")/../.." || exit 1
bad=0
typed=$(cat tests/repl/compat/*.session | grep -E '^[$>]')
while read -r tool flag; do
  echo "$typed" | grep -E "(^|[^_a-z-])$(echo "$tool" | tr _ .)( .*)? --$flag([= ;']|\$)" >/dev/null || { echo "no transcript has $tool --$flag"; bad=1; }
  grep -q -- "\`--$flag\`" docs/COMPAT.md || { echo "docs/COMPAT.md lacks --$flag"; bad=1; }
done <<ROWS
$(sed -n 's/^FLAG(\([a-z_]*\), "\([^"]*\)".*/\1 \2/p' repl/compat/compat.def)
ROWS
for flag in $(sed -n 's/^XLA_FLAG(\([a-z_]*\),.*/xla_\1/p' repl/debug/xla_flags.def); do
  echo "$typed" | grep -q -- "--$flag" || { echo "no transcript has --$flag"; bad=1; }
  grep -q -- "\`--$flag\`" docs/COMPAT.md || { echo "docs/COMPAT.md lacks --$flag"; bad=1; }
done
for command in allpaths 'list name' 'list computations' info extract stacktrace backend_config metadata show_fusion_subcomputations help quit; do
  echo "$typed" | grep -q "$command" || { echo "no transcript of interactive_graphviz has $command"; bad=1; }
done
exit $bad
