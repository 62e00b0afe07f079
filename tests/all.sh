# The second layer of tests/run, which reads this file with its functions: larger samples, other builds, and the recipes of
# docs/HACKING.md. Everything here builds or takes minutes.
try "passes keep the meaning (more)" 1800 "$B/tests/passcheck" --from 1000 --generated 1500 -j "$JOBS"
try "Ctrl-C in every command (more)" 900 sh tests/interrupt 100000 400 deep wide many nested
try "when the system says no (every call)" 5400 sh tests/faultcheck all
try "files of kilobytes that unpack to gigabytes" 300 sh tests/repl/files/bombs.sh
if [ -d "$shared/suite" ]; then
  try "passes keep the meaning (suite)" 1800 "$B/tests/passcheck" -j "$JOBS" "$shared/suite"
  try "pass_cases" 600 sh tests/at_least.sh pass_cases 611 tests/pass_cases "$shared/corpus/pass_tests" --pass core -j "$JOBS"
  has LLVM && try "predicted memory (suite)" 1800 tests/memory "$shared/suite" -j "$JOBS"
  [ -d "$shared/corpus/stablehlo/vhlo" ] && try "portable artifacts" 300 tests/bytecode "$shared/corpus/stablehlo/vhlo" -j "$JOBS"
  try "resizes (suite)" 1800 tests/resizes "$shared/suite" --run --least 84 -j "$JOBS"
  try "what XLA takes verifies" 600 sh tests/gate "$shared/corpus"
  try "transcripts" 900 sh tests/at_least.sh transcripts 618 tests/transcripts "$shared/corpus/pass_transcripts" -j "$JOBS"
else
  skipped "pass_cases, transcripts, what XLA takes" "no $shared folder"
fi
try "kernels for GPUs on the emulation (everything)" 1800 sh tests/emulated.sh "$shared" all
has LLVM && try "calibrate" 400 sh tests/repl/calibrate.sh
if "$HLOSH" -c 'backend pjrt' >/dev/null 2>&1; then
  try "edge values of every operation on real XLA" 1200 "$B/tests/sweep" --routes pjrt -j "$JOBS"
else skipped "edge values of every operation on real XLA" "no PJRT plug-in of XLA; make peers fetches it"; fi
if has LLVM && "$HLOSH" -c 'backend jax' >/dev/null 2>&1; then try "bench/versus beside jaxlib" 400 sh tests/peers/versus.sh
else skipped "bench/versus beside jaxlib" "no LLVM, or no Python with jaxlib; make peers fetches it"; fi
has LLVM && try "random modules on cpu (more)" 900 sh tests/agree --backend cpu --from 1000 --count 3000 -j "$JOBS"
for k in text proto; do try "changed modules: $k (more)" 900 "$B/tests/mutate" --kind $k --seed 4 --count 300000 -j "$JOBS" examples tests/hlo tests/fuzz/corpus; done
programs=tests/fuzz/corpus/mlir
[ -d "$shared/corpus/stablehlo" ] && programs="$programs $shared/corpus/stablehlo"
try "changed modules: mlir (more)" 900 "$B/tests/mutate" --kind mlir --seed 4 --count 100000 -j "$JOBS" $programs
try "changed modules: the whole way (more)" 900 "$B/tests/mutate" --kind chain --seed 6 --count 2000 --passes 10 -j "$JOBS" examples tests/hlo tests/fuzz/corpus
try "damaged text (more)" 600 "$B/tests/fuzz_text" --step 17 --flips 400 --rounds 60 tests/fuzz/corpus/text/*.hlo examples/*.hlo
try "damaged protos (more)" 600 "$B/tests/fuzz_text" --proto --step 17 --flips 400 --rounds 60 tests/fuzz/corpus/text/*.hlo examples/*.hlo
# What strangers get.
if has LLVM; then
  try "check-gpu beside XLA" 900 env HLOSH_FULL=1 sh tests/check_gpu.sh
  try "the archive of make dist" 900 sh tests/dist.sh
  try "the wheel of make wheel" 900 sh tests/wheel.sh
else skipped "the archive and the wheel" "no LLVM"; fi
# Other builds.
try "build under ASan and UBSan" 2400 make -j"$JOBS" VARIANT=asan B=build/asan all unit
if [ -x build/asan/hlosh ]; then
  save_build=$HLOSH_BUILD save_hlosh=$HLOSH
  HLOSH_BUILD=$PWD/build/asan HLOSH=$PWD/build/asan/hlosh
  units "asan/" build/asan
  fuzz_corpora "asan/" build/asan
  try "asan/the plug-in's entry points" 900 build/asan/tests/entries --library build/asan/libpjrt_hlosh.so --seconds "${FUZZ_SECONDS:-60}" -j "$JOBS" tests/fuzz/corpus/mlir
  try "asan/changed modules: mlir" 900 build/asan/tests/mutate --kind mlir --seed 5 --count 10000 -j "$JOBS" tests/fuzz/corpus/mlir
  try "asan/when the system says no" 1800 build/asan/tests/faultcheck -j "$JOBS" tests/faults.script
  try "asan/passes keep the meaning" 900 build/asan/tests/passcheck --generated 100 -j "$JOBS" examples
  HLOSH_BUILD=$save_build HLOSH=$save_hlosh
fi
try "build under TSan" 2400 make tsan
for t in threads par; do
  [ -x build/tsan/unit/backends/$t ] && try "tsan/$t" 900 env TSAN_OPTIONS=halt_on_error=0:exitcode=66 build/tsan/unit/backends/$t
done
[ -x build/tsan/tests/entries ] && try "tsan/the plug-in's entry points" 900 env TSAN_OPTIONS=exitcode=66 \
  build/tsan/tests/entries --only threads --library build/tsan/libpjrt_hlosh.so --count 20 -j 1 tests/fuzz/corpus/mlir
if command -v clang >/dev/null 2>&1; then try "build with clang" 2400 make -j"$JOBS" CC=clang B=build/clang WERROR=1 all unit benches
else skipped "build with clang" "no clang"; fi
try "planted faults are shrunk" 1800 "$B/tests/planted" -j 2
try "recipes of docs/HACKING.md" 2400 sh tests/extend/test.sh
