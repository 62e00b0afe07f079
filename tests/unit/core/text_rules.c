// text_rules.c — rules of the text format, one row each: a text that reads, or one that does not
// and a part of the message. The rules and messages are those of XLA's parser.
#include "tests/unit/modules.h"

#define E(body) "HloModule m\nENTRY e {\n" body "\n}\n"
#define ROOT(rhs) E("  ROOT %r = " rhs)

static const struct rule {
  const char *name, *text, *error;  // NULL: it reads
} rules[] = {
    // lexer
    {"comment between any tokens", E("/*a*/ROOT/*b*/ %r /*c*/ = f32[/*d*/2] /*e*/ constant({1,2})"),
     NULL},
    {"comment to the end of the line", E("// a { ( \n ROOT %r = f32[] constant(1) // b"), NULL},
    {"comment without an end", E("/* ROOT %r = f32[] constant(1)"), "unterminated"},
    {"name and = apart", E("ROOT a = f32[] constant(1)"), NULL},
    {"= touches a plain name", E("ROOT a=f32[] constant(1)"), "name"},
    {"= touches a marked name", E("ROOT %a=f32[] constant(1)"), NULL},
    {"attribute name and = apart", ROOT("f32[2] iota(), iota_dimension = 0"), "expects"},
    {"digits before a dot", ROOT("f32[] constant(.5)"), ""},
    {"minus before a dot", ROOT("f32[] constant(-.5)"), NULL},
    {"digits after a dot", ROOT("f32[] constant(5.)"), NULL},
    {"plus before a number", ROOT("f32[] constant(+1)"), ""},
    {"plus in an exponent", ROOT("f32[] constant(1e+5)"), NULL},
    {"a type as a plain name", E("ROOT f32 = f32[] constant(1)"), "name"},
    {"a type as a marked name", E("ROOT %f32 = f32[] constant(1)"), "illegal instruction name"},
    {"a keyword as a marked name", E("ROOT %true = f32[] constant(1)"), NULL},
    {"two underscores in front", E("ROOT %__a = f32[] constant(1)"), "illegal instruction name"},
    {"two underscores and xla_", E("ROOT %__xla_a = f32[] constant(1)"), NULL},
    {"blanks inside of a shape", ROOT("f32 [2]{ 0 } constant({1,2})"), NULL},
    {"a layout without numbers", ROOT("f32[]{} constant(1)"), ""},
    {"single quotes", ROOT("f32[] custom-call(), custom_call_target='a\"b'"), NULL},
    {"an unknown escape", ROOT("f32[] custom-call(), custom_call_target=\"a\\q\""), ""},
    {"an integer of 65 bits", ROOT("s64[] constant(18446744073709551616)"), ""},
    // module
    {"a module without a header", "ENTRY e { ROOT %r = f32[] constant(1) }", NULL},
    {"two entries",
     "HloModule m\nENTRY a { ROOT r = f32[] constant(1) }\n"
     "ENTRY b { ROOT r = f32[] constant(1) }",
     "expects only one ENTRY"},
    {"the last computation is the entry",
     "HloModule m\na { ROOT r = f32[] constant(1) }\nb { ROOT r = f32[] constant(1) }", NULL},
    {"two roots", E("ROOT a = f32[] constant(1)\n ROOT b = f32[] constant(1)"),
     "one computation should have only one ROOT"},
    {"no root", E("a = f32[] constant(1)\n b = f32[] constant(1)"), NULL},
    {"no instruction", "HloModule m\nENTRY e { }", ""},
    {"an operand that is defined later", E("ROOT a = f32[] negate(b)\n b = f32[] constant(1)"),
     "instruction does not exist"},
    {"a computation that is defined later",
     "HloModule m\nENTRY e { x = f32[] parameter(0)\n ROOT c = f32[] call(x), to_apply=f }\n"
     "f { x = f32[] parameter(0)\n ROOT n = f32[] negate(x) }",
     "computation does not exist"},
    {"two computations of one name",
     "HloModule m\na { ROOT r = f32[] constant(1) }\na { ROOT r = f32[] constant(1) }",
     "computation already exists"},
    {"two instructions of one name", E("a = f32[] constant(1)\n ROOT a = f32[] constant(1)"),
     "instruction already exists"},
    {"an unknown opcode", ROOT("f32[] frobnicate()"), "frobnicate"},
    {"a shape that cannot be inferred", E("x = f32[2] parameter(0)\n ROOT r = bitcast(x)"),
     "cannot infer shape for opcode: bitcast"},
    {"a declared operand shape", E("x = f32[2] parameter(0)\n ROOT r = f32[2] negate(f32[3] x)"),
     "The declared operand shape f32[3]"},
    {"a nested instruction", E("x = f32[2] parameter(0)\n ROOT r = f32[2] negate(f32[2] abs(x))"),
     NULL},
    {"an element of a tuple as an operand",
     E("x = (f32[2], s32[]) parameter(0)\n ROOT r = f32[2] negate(x#0)"), NULL},
    {"a computation in place",
     E("x = f32[2] parameter(0)\n ROOT r = f32[2] call(x), to_apply={ a = f32[2] parameter(0)\n"
       " ROOT n = f32[2] negate(a) }"),
     NULL},
    {"a signature with a blank before the colon",
     "HloModule m\nENTRY e (x : f32[]) -> f32[] { ROOT x = f32[] parameter(0) }", ""},
    {"a signature of another result",
     "HloModule m\nENTRY e (x: f32[]) -> f32[2] { ROOT x = f32[] parameter(0) }",
     "Shape of computation e"},
    // module attributes
    {"an unknown module attribute", "HloModule m, foo=1\nENTRY e { ROOT r = f32[] constant(1) }",
     "foo"},
    {"an alias kind",
     "HloModule m, input_output_alias={ {}: (0, {}, must-alias) }\nENTRY e { ROOT "
     "r = f32[] parameter(0) }",
     NULL},
    {"an unknown alias kind",
     "HloModule m, input_output_alias={ {}: (0, {}, perhaps) }\nENTRY e { "
     "ROOT r = f32[] parameter(0) }",
     "Unexpected aliasing kind; expected SYSTEM or USER"},
    {"an entry layout with a layout",
     "HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{1,0}}\nENTRY e { ROOT r = "
     "f32[2,3] parameter(0) }",
     NULL},
    // shapes
    {"a size that is negative", ROOT("f32[-1] parameter(0)"), ""},
    {"a layout of another rank", ROOT("f32[2,3]{0} parameter(0)"),
     "Dimensions size is 2, but minor to major size is 1."},
    {"tiles", ROOT("f32[2,3]{1,0:T(8,128)(2,1)S(1)} parameter(0)"), NULL},
    {"parts of a layout in another order", ROOT("f32[2,3]{1,0:S(1)T(8,128)} parameter(0)"), ""},
    {"tiles of a scalar", ROOT("f32[]{:T(128)} parameter(0)"), NULL},
    {"a bounded size", ROOT("f32[<=4] parameter(0)"), NULL},
    {"an unbounded size", ROOT("f32[?] parameter(0)"), NULL},
    {"a tuple shape as a type", ROOT("tuple[] parameter(0)"), ""},
    {"opaque_type", ROOT("opaque_type[] parameter(0)"), ""},
    // literals
    {"a complex number without parentheses", ROOT("c64[] constant(1)"), ""},
    {"a bare number for an array", ROOT("f32[4] constant(2)"), NULL},
    {"too few elements", ROOT("f32[2,2] constant({{1,2},{3}})"),
     "expects 2 elements in the [1]th element, but sees 1"},
    {"too many elements", ROOT("f32[2] constant({1,2,3})"), "but sees more"},
    {"nested too deeply", ROOT("f32[2] constant({{1,2}})"), "sees larger"},
    {"nested too little", ROOT("f32[1,2] constant({1,2})"),
     "expects nested array in rank 2, but sees 1"},
    {"commas too many", ROOT("f32[2] constant({1,,2,})"), NULL},
    {"a pred of any number", ROOT("pred[3] constant({true, 0, 7})"), NULL},
    {"an integer with a point", ROOT("s32[] constant(1.5)"), ""},
    {"a u8 out of range", ROOT("u8[] constant(256)"),
     "is out of range for literal's primitive type U8"},
    {"an s4 out of range", ROOT("s4[] constant(8)"),
     "is out of range for literal's primitive type S4"},
    {"a u64 that wraps", ROOT("u64[2] constant({-1, 18446744073709551615})"), NULL},
    {"an f16 that rounds to infinity", ROOT("f16[] constant(-65520)"), "out of range"},
    {"an f16 that does not", ROOT("f16[] constant(-65519)"), NULL},
    {"infinity", ROOT("f32[3] constant({inf, -inf, nan})"), NULL},
    {"a payload", ROOT("f32[] constant(nan(0x1f))"), NULL},
    {"a payload that does not fit", ROOT("bf16[] constant(nan(0x3ff))"),
     "tries to set NaN payload 0x3ff"},
    {"a payload of 0", ROOT("f32[] constant(nan(0x0))"), ""},
    {"an elided array", ROOT("f32[7,9] constant({...})"), NULL},
    {"dots within rows", ROOT("f32[2,2] constant({{...},{1,2}})"),
     "expects `...` at nest level 1, but sees it at nest level 2"},
    {"a tuple literal", ROOT("(f32[], s32[2]) constant((1, {2,3}))"), NULL},
    // operands and attributes
    {"an operand too many", E("x = f32[2] parameter(0)\n ROOT r = f32[2] negate(x, x)"),
     "expects 1 operands, but has 2 operands"},
    {"an attribute that is missing", E("x = f32[2] parameter(0)\n ROOT r = f32[2] reverse(x)"),
     "attribute dimensions is expected but not seen"},
    {"an attribute that it has not",
     E("x = f32[2] parameter(0)\n ROOT r = f32[2] negate(x), "
       "dimensions={0}"),
     "unexpected attribute \"dimensions\""},
    {"an attribute twice",
     E("x = f32[2] parameter(0)\n ROOT r = f32[2] reverse(x), "
       "dimensions={0}, dimensions={0}"),
     "attribute dimensions already exists"},
    {"broadcast of a scalar", E("x = f32[] parameter(0)\n ROOT r = f32[2] broadcast(x)"), NULL},
    {"broadcast of an array", E("x = f32[2] parameter(0)\n ROOT r = f32[2,2] broadcast(x)"),
     "attribute dimensions is expected but not seen"},
    {"a direction that is none",
     E("x = f32[] parameter(0)\n ROOT r = pred[] compare(x, x), "
       "direction=XX"),
     "expects comparison direction but sees: XX"},
    {"a window that says sizes twice",
     E("x = f32[4] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[3] reduce-window(x, z), "
       "window={size=2 size=2}, to_apply={ a = f32[] parameter(0)\n b = f32[] parameter(1)\n "
       "ROOT s = f32[] add(a, b) }"),
     ""},
    {"a slice with a stride",
     E("x = f32[4] parameter(0)\n ROOT r = f32[2] slice(x), "
       "slice={[0:4:2]}"),
     NULL},
    {"a slice without an end", E("x = f32[4] parameter(0)\n ROOT r = f32[2] slice(x), slice={[0]}"),
     ""},
    {"padding with an interior",
     E("x = f32[4] parameter(0)\n z = f32[] parameter(1)\n ROOT r = "
       "f32[9] pad(x, z), padding=1_1_1"),
     NULL},
    {"replica groups as an iota",
     E("x = f32[4] parameter(0)\n ROOT r = f32[16] all-gather(x), "
       "replica_groups=[2,4]<=[8], dimensions={0}"),
     NULL},
    {"a device list that does not fit",
     E("x = f32[4] parameter(0), sharding={devices=[2]0,1,2}\n "
       "ROOT r = f32[4] negate(x)"),
     ""},
    {"a sharding by iota",
     E("x = f32[4] parameter(0), sharding={devices=[2,2]<=[4] "
       "last_tile_dim_replicate}\n ROOT r = f32[4] negate(x)"),
     NULL},
    {"metadata of an unknown field", E("ROOT r = f32[] constant(1), metadata={op_nam=\"a\"}"), ""},
    {"a backend config as a dictionary",
     E("ROOT r = f32[] constant(1), backend_config={\"a\":{\"b\":\"}\"}}"), NULL},
    {"a backend config without an end", E("ROOT r = f32[] constant(1), backend_config={\"a\":{}"),
     ""},
    {"control predecessors",
     E("a = f32[] constant(1)\n ROOT r = f32[] constant(2), "
       "control-predecessors={a}"),
     NULL},
    {"a control predecessor that does not exist",
     E("ROOT r = f32[] constant(2), "
       "control-predecessors={b}"),
     "does not exist"},
    {"a custom call with a schedule",
     ROOT("f32[] custom-call(), custom_call_target=\"a\", "
          "schedule=SCHEDULE_LATEST, "
          "api_version=API_VERSION_TYPED_FFI"),
     NULL},
    {"an api version that is none",
     ROOT("f32[] custom-call(), custom_call_target=\"a\", "
          "api_version=API_VERSION_OTHER"),
     "Unknown API version: API_VERSION_OTHER"},
    {"a reshape of another size", E("x = f32[4] parameter(0)\n ROOT r = f32[3] reshape(x)"), ""},
};

static void every_rule(void **state) {
  (void)state;
  u32 wrong = 0;
  for (size_t k = 0; k < HS_COUNT(rules); k++) {
    hlo_module *m = NULL;
    hs_status s = hlo_parse(ctx, rules[k].text, strlen(rules[k].text), NULL, &m);
    hs_buf b = {0};
    if (!hs_ok(s)) hs_status_render(s, &b, false);
    bool ok = rules[k].error ? b.n && strstr(hs_buf_cstr(&b), rules[k].error) : hs_ok(s);
    if (!ok) {
      wrong++;
      print_error("%s: %s\n  got: %s\n", rules[k].name,
                  rules[k].error ? rules[k].error : "it must read",
                  b.n ? hs_buf_cstr(&b) : "it reads");
    }
    hs_status_drop(s);
    hs_buf_free(&b);
    hlo_module_free(m);
  }
  assert_int_equal(wrong, 0);
}

// What reads prints, and what was printed reads and prints the same.
static void every_text_comes_back(void **state) {
  (void)state;
  for (size_t k = 0; k < HS_COUNT(rules); k++) {
    if (rules[k].error) continue;
    hlo_module *m = parse(rules[k].text), *again;
    hs_buf a = {0}, b = {0};
    hlo_print_options o = hlo_print_full();
    hlo_print_module(&a, m, &o);
    again = parse(hs_buf_cstr(&a));
    hlo_print_module(&b, again, &o);
    assert_string_equal(hs_buf_cstr(&a), hs_buf_cstr(&b));
    hs_buf_free(&a);
    hs_buf_free(&b);
    hlo_module_free(m);
    hlo_module_free(again);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_rule),
                                     cmocka_unit_test(every_text_comes_back)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
