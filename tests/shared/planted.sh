# Faults planted in passes and in the compiler, shrunk out of suite modules of up to 2,811 instructions; a sample, or with
# HLOSH_FULL=1 all of them.
: "${B:=build}"
names="swap-select lost-negate shifted-slice dies-of-dot-plus bad-tanh compiler-dies-of-slice"
[ -n "$HLOSH_FULL" ] && names=
exec "$B/tests/planted" --suite "$1/suite" $names
