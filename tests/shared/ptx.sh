# The kernels of every suite module, after the tuned pipeline, as PTX: for sm_90, in the full layer for five generations
# of GPUs. All of it assembles where ptxas is found, and no kernel spills registers; the driver names what has no kernel.
grep -q '^HAVE_LLVM := 1' "${HLOSH_BUILD:-build}/config.mk" || { echo "SKIP ptx: no LLVM"; exit 0; }
sm=90
[ -z "$HLOSH_FULL" ] || sm=75,80,90,100,120
"${HLOSH_BUILD:-build}/tests/ptx" "$1/suite" --sm "$sm" -j 2
