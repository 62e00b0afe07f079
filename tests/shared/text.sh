# Production dumps and the suite: parsed, printed, parsed again to the same bytes, verified.
for folder in "$1/corpus/real_dumps" "$1/suite"; do
  sh tests/conformance "$folder" --only parse,roundtrip,verify -j 2 || exit 1
done
# With HLOSH_FULL=1 also XLA's parser cases and the modules of its tests.
[ -z "$HLOSH_FULL" ] || sh tests/conformance "$1/corpus/parser_cases" --only parse,roundtrip,verify -j 2
