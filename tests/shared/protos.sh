# Protos of modules, between hlosh and real XLA: both ways, to the same text. 60 of them, or with HLOSH_FULL=1 all.
sample=60
[ -n "$HLOSH_FULL" ] && sample=
exec sh tests/protos "$1/corpus/lit_modules" $sample
