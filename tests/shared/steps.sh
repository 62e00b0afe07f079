# Every state of every suite module inside real XLA's compiler: for the CPU, and, without one, for a GPU.
"$HLOSH" -c 'backend pjrt' >/dev/null 2>&1 || { echo "no PJRT plug-in; make peers fetches them"; exit 77; }
sh tests/steps "$1/suite" -j 2 || exit 1
gpu=build/peers/xla_cuda_plugin.so
[ -e "$gpu" ] || { echo "SKIP for a GPU: no $gpu"; exit 0; }
sh tests/steps "$1/suite" -j 2 --plugin "$gpu" --for "$1/corpus/gpu_specs/h200.txtpb"
