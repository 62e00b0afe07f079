# The kernels of the suite's modules as assembly for AMD's MI300X: some of them, in the full layer all. It assembles where
# llvm-mc of the LLVM that is used is found. Nothing of it is run.
config="${HLOSH_BUILD:-build}/config.mk"
grep -q '^HAVE_LLVM := 1' "$config" || { echo "SKIP amdgcn: no LLVM"; exit 0; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mc=$(sed -n 's|.*-L\(/[^ ]*llvm[^ ]*\)/lib .*|\1/bin/llvm-mc|p' "$config" | head -n 1)
[ -x "$mc" ] || mc=
files="$1/suite/softmax_64x32000.hlo $1/suite/ew_chain_4m.hlo $1/suite/embedding_grad.hlo $1/suite/dropout_2m.hlo $1/suite/f64_chain_1m.hlo"
[ -z "$HLOSH_FULL" ] || files="$1/suite/*.hlo"
n=0 bad=0
for f in $files; do
  [ -f "$f" ] || continue
  "${HLOSH_BUILD:-build}/hlosh" "$f" -c "target mi300x; backend gpu; dump asm > $dir/x.s" >"$dir/log" 2>&1
  if grep -q "this LLVM has no code generator for AMD\|needs LLVM" "$dir/log"; then
    echo "SKIP amdgcn: $(grep -h -m1 'LLVM' "$dir/log")"; exit 0
  fi
  n=$((n + 1))
  if ! grep -q '\.amdgcn_target.*gfx942' "$dir/x.s" 2>/dev/null; then
    echo "FAIL $f: $(grep -m1 error "$dir/log")"; bad=$((bad + 1))
  elif [ -n "$mc" ] && ! "$mc" -triple=amdgcn-amd-amdhsa -mcpu=gfx942 -filetype=obj "$dir/x.s" -o "$dir/x.o" 2>"$dir/log"; then
    echo "FAIL $f: $(head -n 1 "$dir/log")"; bad=$((bad + 1))
  fi
  rm -f "$dir/x.s"
done
echo "amdgcn: $((n - bad))/$n modules${mc:+ assemble}"
[ "$bad" -eq 0 ] && [ "$n" -gt 0 ]
