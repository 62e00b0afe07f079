# What XLA's optimizer made of the suite gives the outputs of the programs it began with, on the cpu backend: layouts,
# XLA's own fusions, its expansions. The partitioned ones have other parameters and are left out.
grep -q '^HAVE_LLVM := 1' "${HLOSH_BUILD:-build}/config.mk" || { echo "SKIP cpu: no LLVM"; exit 0; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
suite=$(cd "$1/suite" && pwd) || exit 1
for f in "$suite"/*.after_optimizations.hlo; do
  name=$(basename "$f" .after_optimizations.hlo)
  head -2 "$f" | grep -q 'num_partitions=\|replica_count=' && continue
  ln -s "$f" "$dir/$name.hlo"
  ln -s "$suite/$name.args" "$suite/$name.expect" "$dir/"
done
sh tests/suite "$dir" --backend cpu -j 1
