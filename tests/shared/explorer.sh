# The explorer's page of a real model of 14,472 instructions, as it is and with a version for each pass: its size, how soon
# it is there, opens a group, finds and slides. The limits are docs/EXPLORER.md's; this machine may be three times as slow.
file=$1/corpus/real_dumps/alphafold3.inference_8gpu.module_0052.jit_apply_fn.hlo
[ -f "$file" ] || { echo "no $file"; exit 77; }
python3 tests/explorer/explorer.py "$HLOSH" --scale 3 --module "$file"
