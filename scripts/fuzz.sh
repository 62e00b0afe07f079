#!/bin/sh
# Builds the fuzz targets with libFuzzer, ASan and UBSan, and runs each for FUZZ_SECONDS (1800), within 512 MB. Findings are
# left in build/libfuzzer/findings/TARGET, new inputs in build/libfuzzer/found/TARGET (merge what is worth keeping into
# tests/fuzz/corpus/TARGET by FUZZ_MERGE=1). FUZZ_TARGETS names some of them.
cd "$(dirname "$0")/.." || exit 1
: "${FUZZ_SECONDS:=1800}" "${FUZZ_TARGETS:=text proto arrays chain commands builder folder plot replies profile files mlir}" "${FUZZ_JOBS:=$(nproc)}"
works() { echo 'int LLVMFuzzerTestOneInput(const char *p, long n) { (void)p; (void)n; return 0; }' | "$1" -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null; }
find_clang() { for c in "$CLANG" clang clang-22 clang-19 clang-14; do [ -n "$c" ] && command -v "$c" >/dev/null 2>&1 && works "$c" && { echo "$c"; return; }; done; }
clang=$(find_clang)
if [ -z "$clang" ]; then
  sh scripts/deps.sh --install clang libclang-rt-14-dev
  clang=$(find_clang)
fi
[ -n "$clang" ] || { echo "fuzz: needs clang with libFuzzer (Debian: clang libclang-rt-14-dev)" >&2; exit 1; }
make --no-print-directory -j"$FUZZ_JOBS" VARIANT=fuzz B=build/libfuzzer CC="$clang" fuzzers || exit 1
rc=0
export ASAN_OPTIONS="detect_leaks=1:quarantine_size_mb=16:$ASAN_OPTIONS"
for t in $FUZZ_TARGETS; do
  dir=build/libfuzzer; mkdir -p $dir/findings/$t $dir/found/$t
  args="-rss_limit_mb=512 -malloc_limit_mb=512 -timeout=10 -max_len=16384 -close_fd_mask=1 -artifact_prefix=$dir/findings/$t/ -print_final_stats=1"
  [ -f tests/fuzz/$t.dict ] && args="$args -dict=tests/fuzz/$t.dict"
  if [ -n "$FUZZ_MERGE" ]; then
    mkdir -p $dir/merged/$t && rm -f $dir/merged/$t/* && $dir/fuzz/$t $args -merge=1 $dir/merged/$t tests/fuzz/corpus/$t $dir/found/$t || rc=1
    continue
  fi
  echo "fuzz: $t for $FUZZ_SECONDS s"
  $dir/fuzz/$t $args -max_total_time="$FUZZ_SECONDS" $dir/found/$t tests/fuzz/corpus/$t 2>$dir/$t.log || { rc=1; echo "fuzz: $t FOUND something; see $dir/$t.log"; tail -n 40 $dir/$t.log; }
  grep -E 'stat::|^DONE|^Done' $dir/$t.log | tail -n 6
done
exit $rc
