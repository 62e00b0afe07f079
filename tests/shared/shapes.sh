# Shape inference against XLA's table.
exec sh tests/shapes "$1/corpus/pass_tests/shape_inference.tsv"
