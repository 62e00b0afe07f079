# Every suite module in real XLA: what it makes of the module gives the same outputs on the evaluator, and every state inside its
# compiler is read, verified and printed; for the CPU, and, without one, for a GPU.
"$HLOSH" -c 'backend pjrt' >/dev/null 2>&1 || { echo "no PJRT plug-in; make peers fetches them"; exit 77; }
sh tests/suite "$1/suite" --made 1 -j 2 || exit 1
sh tests/steps "$1/suite" -j 2 || exit 1
gpu=build/peers/xla_cuda_plugin.so
[ -e "$gpu" ] || { echo "SKIP for a GPU: no $gpu"; exit 0; }
sh tests/steps "$1/suite" -j 2 --plugin "$gpu" --for "$1/corpus/gpu_specs/h200.txtpb"
