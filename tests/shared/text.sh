# Production dumps and the suite: parsed, printed, parsed again to the same bytes, verified.
for folder in "$1/corpus/real_dumps" "$1/suite"; do
  sh tests/conformance "$folder" --only parse,roundtrip,verify -j 2 || exit 1
done
