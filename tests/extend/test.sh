#!/bin/sh
# docs/HACKING.md says where a made-up operation, element type, pass, command, diagnostic and backend go. Here each is added
# to a copy of the tree that way, the files touched are counted, and after one build all are used from the shell. New rows are made from
# rows that are there, so that a new column of a table needs no change here.
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
: "${B:=build}" "${JOBS:=$(nproc 2>/dev/null || echo 2)}"
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
fail() { echo "extend: $*"; exit 1; }
# Sources with their times, and what is built of them: make builds what the additions touch.
mkdir "$t/build" && cp -a Makefile core passes backends profiler viz repl examples scripts docs tests "$t" || exit 1
for x in config.mk config.txt core passes backends profiler viz repl; do cp -a "$B/$x" "$t/build/" || exit 1; done
cd "$t" || exit 1
touch build/config.mk  # the Makefile was copied, not changed
stamp() { find . -path ./build -prune -o -type f -newer "$t/build/mark" -print | sort; }
# begin; then the recipe; then count NAME MOST: how many files the recipe touched.
begin() { touch build/mark; sleep 1.1; }
count() {
  touched=$(stamp)
  n=$(echo "$touched" | grep -c .)
  echo "$1: $n files, at most $2:" $touched
  [ "$n" -ge 1 ] && [ "$n" -le "$2" ] || fail "$1 takes $n files, not $2"
}
# row FILE LINE-PATTERN EDIT...: a copy of the row that matches, edited, behind it.
row() {
  file=$1 like=$2; shift 2
  new=$(grep -m1 "$like" "$file" | sed "$@")
  [ -n "$new" ] && [ "$new" != "$(grep -m1 "$like" "$file")" ] || fail "no row like $like in $file"
  printf '%s\n' "$new" >build/row
  at=$(grep -nm1 "${after:-$like}" "$file" | cut -d: -f1)
  sed -i "${at}r build/row" "$file"
}

# An operation: twice(x) = x + x.
begin
after='^OP(TUPLE,' row core/types/ops.def '^OP(NEGATE,' -e 's/NEGATE,/TWICE, /' -e 's/"negate", /"twice",  /' -e 's/ unary,/ twice,/g' -e 's/ E, / 0, /'
{ echo "// twice.c — shape of twice(x): that of x."; grep '^#include "' core/infer/math.c; } >core/infer/twice.c
cat >>core/infer/twice.c <<'END'

hs_status hlo_infer_twice(const infer_args *a, const hlo_shape **out) {
  *out = a->in[0];
  return HS_GOOD;
}
END
# The count of operations is asserted beside their table.
n=$(sed -n 's/^_Static_assert(HLO_OPCODE_COUNT == \([0-9]*\),.*/\1/p' core/types/ops.c)
[ -n "$n" ] || fail "no count of operations in core/types/ops.c"
sed -i "s/HLO_OPCODE_COUNT == $n,/HLO_OPCODE_COUNT == $((n + 1)),/" core/types/ops.c
cat >core/eval/twice.c <<'END'
// twice.c — twice(x) is x + x.
#include "core/eval/ops.h"

hs_status hlo_eval_twice(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  HS_TRY(hlo_literal_new(i->shape, out));
  for (i64 k = 0; k < i->shape->elements; k++)
    hlo_literal_set_f64(*out, k, 2 * hlo_literal_f64(ops[0], k));
  return HS_GOOD;
}
END
count "an operation" 4

# An element type: u3, three bits without a sign, with numbers of its own in the protos.
begin
row core/types/dtype.def '^DTYPE(U4,' -e 's/U4, /U3, /' -e 's/"u4", /"u3", /' -e 's/ 22, *4, UINT/ 90,   3, UINT/' -e 's/ 22, BYTES,    22,/ 90, BYTES,     0,/'
count "an element type" 1

# A pass: twice(x) becomes add(x, x).
begin
echo 'PASS(twice_expander)' >>passes/passes.def
cat >passes/expand/twice_expander.c <<'END'
// twice_expander.c — twice(x) becomes add(x, x).
#include "core/infer/build.h"
#include "passes/run/pass.h"

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(k, c->m)
    hlo_for_each_instr_safe(i, k)
      if (i->opcode == HLO_TWICE && pass_may_rewrite(c))
        hlo_replace(i, hlo_build_binary(HLO_ADD, hlo_operand(i, 0), hlo_operand(i, 0)));
  return HS_GOOD;
}

const pass_info pass_twice_expander = {
    .name = "twice-expander",
    .summary = "turns twice(x) into x + x",
    .run = run,
    .sample = "ENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] twice(x)\n}\n",
};
END
count "a pass" 2

# A command.
begin
row repl/cmd/commands.def '^CMD(modules,' -e 's/CMD(modules, "modules"/CMD(greet, "greet"/' -e 's/"modules")$/"greet")/'
cat >repl/cmd/greet.c <<'END'
// greet.c — greet.
#include "repl/cmd/cmd.h"

hs_status cmd_greet(repl_cmd *c) {
  repl_say(c->out, "good day\n");
  return HS_GOOD;
}
END
count "a command" 2

# A diagnostic.
begin
row core/base/diag.def '^DIAG(E_BUNDLE,' -e 's/E_BUNDLE,/E_WEATHER,/' -e 's/"E0802"/"E0899"/' -e 's/"bad report bundle"/"bad weather"/'
count "a diagnostic" 1

# A backend: the skeleton under another name.
begin
mkdir backends/echo && sed 's/null/echo/g' backends/null/null.c >backends/echo/echo.c
echo 'BACKEND(echo)' >>backends/backends.def
count "a backend" 2

make -j"$JOBS" build/hlosh >build/log 2>&1 || { tail -n 30 build/log; fail "does not build"; }
shell() { out=$(build/hlosh --no-rc "$@" 2>&1) || { echo "$out"; fail "hlosh $*"; }; }
says() { echo "$out" | grep -qF -- "$1" || { echo "$out"; fail "expected: $1"; }; }
cat >build/m.hlo <<'END'
HloModule m
ENTRY e {
  x = f32[3] constant({1, 2.5, -4})
  ROOT y = f32[3] twice(x)
}
END
cat >build/u3.hlo <<'END'
HloModule narrow
ENTRY e {
  x = u3[3] constant({1, 5, 7})
  ROOT y = u3[3] add(x, x)
}
END
printf 'HloModule p\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}\n' >build/p.hlo
shell build/m.hlo -c 'verify; backend interp; run; cost; stats'; says '{2, 5, -8}'
shell build/m.hlo -c 'pass twice-expander; print; run'; says 'add(%x, %x)'; says '{2, 5, -8}'
# Sums wrap to three bits; text, proto and constant folding keep the values.
shell build/u3.hlo -c 'verify; backend interp; run; save build/u3.pb'; says 'u3[3] {2, 2, 6}'
shell build/u3.pb -c 'print; backend interp; run'; says 'constant({1, 5, 7})'; says 'u3[3] {2, 2, 6}'
shell build/u3.pb -c 'pass constant_folding; print'; says 'constant({2, 2, 6})'
shell -c 'help twice-expander'; says 'turns twice(x) into x + x'
shell -c greet; says 'good day'
shell -c 'help greet'; says 'greet'
shell -c 'explain E0899'; says 'bad weather'
shell build/p.hlo -c 'backend echo; check echo interp'; says 'agree'
echo "extend: ok, in $root a new operation, element type, pass, command, diagnostic and backend take their rows and one file or two"
