// expect.c — the expectations of XLA's pass tests as the drivers read them
// (tests/xla_cases): what holds of a module, what does not, and what is not
// understood, which must never count as held.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/text/text.h"
#include "tests/xla_cases/cases.h"

static const char text[] =
    "HloModule m, entry_computation_layout={(f32[2,3]{1,0}, f32[3]{0})->(f32[2,3]{0,1}, "
    "f32[2,3]{1,0})}\n"
    "sum { l = f32[] parameter(0) r = f32[] parameter(1) ROOT s = f32[] add(l, r) }\n"
    "inner { p = f32[2,3]{1,0} parameter(0) n = f32[2,3]{1,0} negate(p) ROOT e = f32[2,3]{1,0} "
    "exponential(n) }\n"
    "ENTRY e {\n"
    "  x = f32[2,3]{1,0} parameter(0), sharding={devices=[2,1]0,1}, frontend_attributes={k=\"v\"}\n"
    "  y = f32[3]{0} parameter(1), metadata={op_name=\"jit(f)/y\" op_type=\"param\" "
    "source_line=7}\n"
    "  c = f32[] constant(2)\n"
    "  i = s32[3]{0} constant({1, 2, 3})\n"
    "  b = f32[2,3]{1,0} broadcast(y), dimensions={1}\n"
    "  two = f32[2,3]{1,0} broadcast(c), dimensions={}\n"
    "  m = f32[2,3]{1,0} multiply(x, two)\n"
    "  a = f32[2,3]{1,0} add(m, b)\n"
    "  ar = f32[2,3]{1,0} all-reduce(a), replica_groups=[2,2]<=[4], channel_id=3, to_apply=sum\n"
    "  cp = f32[2,3]{1,0} collective-permute(ar), source_target_pairs={{0,1},{1,0}}\n"
    "  call = f32[2,3]{1,0} custom-call(cp), custom_call_target=\"my.target\"\n"
    "  f = f32[2,3]{1,0} fusion(call), kind=kLoop, calls=inner\n"
    "  o = f32[2,3]{0,1} copy(f)\n"
    "  w = f32[2,3]{1,0} add(m, m), backend_config={\"known_trip_count\":{\"n\":\"5\"}, "
    "\"dynamic_variables\":[{\"tuple_index\":\"0\"},{\"tuple_index\":\"3\"}]}\n"
    "  ROOT t = (f32[2,3]{0,1}, f32[2,3]{1,0}) tuple(o, w)\n"
    "}\n";

typedef struct row {
  xc_answer want;
  const char *text;
} row;

// `pattern` cells.
static const row patterns[] = {
    {XC_YES, "m::Tuple(m::Copy(), m::Add())"},
    {XC_NO, "m::Tuple(m::Add(), m::Copy())"},
    {XC_NO, "m::Tuple(m::Copy())"},
    {XC_YES, "not m::Tuple(m::Copy())"},
    {XC_YES,
     "op::Tuple(op::Copy(op::Fusion(op::CustomCall(\"my.target\", op::CollectivePermute()))), _)"},
    {XC_NO,
     "op::Tuple(op::Copy(op::Fusion(op::CustomCall(\"other\", op::CollectivePermute()))), _)"},
    {XC_YES, "inst(\"call\") ~ op::CustomCall(StartsWith(\"my.\"), _)"},
    {XC_YES, "inst(\"call\") ~ m::CustomCall({\"a\", \"my.target\"})"},
    {XC_YES, "inst(\"a\") ~ m::AddAnyOrder(m::Broadcast(), "
             "m::MultiplyAnyOrder(m::Broadcast(m::ConstantScalar(2.0)), m::Parameter(0)))"},
    {XC_YES, "inst(\"two\") ~ m::Broadcast(m::ConstantScalar(2.0))"},
    {XC_YES, "inst(\"m\") ~ m::MultiplyAnyOrder(m::Broadcast(), m::Parameter(0))"},
    {XC_NO, "inst(\"a\") ~ m::Add(m::Broadcast(), m::Multiply())"},
    {XC_YES, "inst(\"c\") ~ m::ConstantEffectiveScalar(2)"},
    {XC_YES, "inst(\"c\") ~ op::Constant(LiteralUtil::CreateR0<float>(2))"},
    {XC_NO, "inst(\"c\") ~ op::Constant(LiteralUtil::CreateR0<double>(2))"},
    {XC_YES, "inst(\"c\") ~ m::Op().IsConstantEffectiveScalar(2)"},
    {XC_YES, "inst(\"w\") ~ m::Add(m::Op().Is(inst(\"m\")), inst(\"m\")).WithShape(F32, {2, 3})"},
    {XC_NO, "inst(\"w\") ~ m::Add().WithShape(F32, {3, 2})"},
    {XC_YES, "inst(\"o\") ~ m::Copy().WithShape(m::Shape().WithDims({2, "
             "3}).WithLayout(m::Layout().WithMinorToMajor({0, 1})))"},
    {XC_NO, "inst(\"o\") ~ m::Copy().WithShape(m::Shape().WithLayout({1, 0}))"},
    {XC_YES,
     "root ~ m::Tuple().WithShape(m::Shape().WithSubshape({0}, m::Shape().WithLayout({0, 1})))"},
    {XC_YES, "inst(\"o\") ~ op::ShapeWithLayout(\"f32[2,3]{0,1}\")"},
    {XC_NO, "inst(\"o\") ~ op::ShapeWithLayout(\"f32[2,3]{1,0}\", true)"},
    {XC_YES, "inst(\"m\") ~ m::Multiply().WithNumUser(2)"},
    {XC_NO, "inst(\"m\") ~ m::Multiply().WithOneUser()"},
    {XC_YES, "inst(\"x\") ~ AllOf(op::Parameter(0), op::Sharding(\"{devices=[2,1]0,1}\"), "
             "op::FrontendAttribute(\"k\", \"v\"))"},
    {XC_NO, "inst(\"x\") ~ op::Sharding(\"{replicated}\")"},
    {XC_YES, "inst(\"y\") ~ op::NoSharding()"},
    {XC_YES, "inst(\"ar\") ~ op::ReplicaGroups({{0, 1}, {2, 3}})"},
    {XC_NO, "inst(\"ar\") ~ m::AllReduce().WithReplicaGroups({{0, 2}, {1, 3}})"},
    {XC_YES, "inst(\"cp\") ~ op::SourceTargetPairs({{0, 1}, {1, 0}})"},
    {XC_YES, "inst(\"m\") ~ op::UsedBy(op::Add(_, op::Broadcast()))"},
    {XC_NO, "inst(\"m\") ~ op::UsedBy(op::Copy())"},
    {XC_YES,
     "inst(\"f\") ~ m::Fusion(m::CustomCall()).WithFusionKind(HloInstruction::FusionKind::kLoop)"},
    {XC_YES, "matcher::Tuple(matcher::Copy(), matcher::Add())"},
    {XC_YES, "entry->instructions() ~ Contains(op::Broadcast()).Times(2)"},
    {XC_NO, "entry->instructions() ~ Each(op::Broadcast())"},
    {XC_YES, "hlo_query::FindInstruction(entry, HloOpcode::kCopy) ~ "
             "op::Copy(hlo_query::FindInstruction(entry, HloOpcode::kFusion))"},
    {XC_NO, "inst(\"nothing\") ~ m::Op()"},
    {XC_UNKNOWN, "m::Tuple(SomeHelper(), m::Add())"},
    {XC_UNKNOWN, "inst(\"m\") ~ m::Multiply().WithSomething(1)"},
    {XC_UNKNOWN, "not m::Tuple(helper(1), _)"},
};

// `asserts` cells.
static const row asserts[] = {
    {XC_YES, "EXPECT_EQ(root->opcode(), HloOpcode::kTuple)"},
    {XC_NO, "EXPECT_NE(root->opcode(), HloOpcode::kTuple)"},
    {XC_YES, "EXPECT_EQ(root->operand(0)->operand(0), inst(\"f\"))"},
    {XC_YES, "EXPECT_EQ(inst(\"f\")->fused_instruction_count(), 3)"},
    {XC_YES, "EXPECT_TRUE(inst(\"f\")->IsLoopFusion()) << \"kind\""},
    {XC_YES, "EXPECT_FALSE(inst(\"f\")->IsMultiOutputFusion())"},
    {XC_YES, "EXPECT_TRUE(inst(\"call\")->IsCustomCall({\"a\", \"my.target\"}))"},
    {XC_YES, "EXPECT_EQ(CountInstructions(*m, HloOpcode::kAdd), 3)"},
    {XC_YES, "EXPECT_EQ(AllReduceCount(m), 1)"},
    {XC_YES, "EXPECT_EQ(inst(\"ar\")->channel_id().value(), 3)"},
    {XC_YES, "EXPECT_FALSE(inst(\"cp\")->channel_id().has_value())"},
    {XC_YES, "EXPECT_EQ(inst(\"cp\")->channel_id(), std::nullopt)"},
    {XC_YES, "EXPECT_THAT(inst(\"ar\")->channel_id(), Optional(Gt(2)))"},
    {XC_NO, "EXPECT_THAT(inst(\"cp\")->channel_id(), Optional(_))"},
    {XC_YES, "EXPECT_EQ(inst(\"ar\")->replica_groups()[1].replica_ids(0), 2)"},
    {XC_YES, "EXPECT_EQ(inst(\"ar\")->replica_groups().size(), 2)"},
    {XC_YES, "EXPECT_EQ(inst(\"cp\")->source_target_pairs()[0].second, 1)"},
    {XC_YES,
     "EXPECT_THAT(inst(\"cp\")->source_target_pairs(), UnorderedElementsAre(Pair(1, 0), Pair(0, "
     "1)))"},
    {XC_YES, "EXPECT_EQ(inst(\"x\")->sharding().ToString(), \"{devices=[2,1]0,1}\")"},
    {XC_YES, "EXPECT_NE(inst(\"x\")->sharding(), HloSharding::Replicate())"},
    {XC_YES, "EXPECT_EQ(inst(\"x\")->get_frontend_attribute(\"k\"), \"v\")"},
    {XC_YES, "EXPECT_FALSE(inst(\"y\")->get_frontend_attribute(\"k\").has_value())"},
    {XC_YES,
     "EXPECT_THAT(inst(\"y\")->metadata().op_name(), AllOf(HasSubstr(\"jit\"), EndsWith(\"/y\"), "
     "Not(HasSubstr(\"z\"))))"},
    {XC_YES, "EXPECT_THAT(inst(\"y\")->metadata().op_name(), MatchesRegex(\"jit.*y\"))"},
    {XC_NO, "EXPECT_THAT(inst(\"y\")->metadata().op_name(), MatchesRegex(\"jit\"))"},
    {XC_YES, "EXPECT_STREQ(inst(\"y\")->metadata().op_type(), \"param\")"},
    {XC_YES, "EXPECT_THAT(inst(\"y\"), Property(&HloInstruction::name, \"y\"))"},
    {XC_YES, "EXPECT_THAT(inst(\"i\")->literal().data<int32_t>(), ElementsAreArray({1, 2, 3}))"},
    {XC_NO,
     "EXPECT_THAT(inst(\"i\")->literal().data<int32_t>(), UnorderedElementsAreArray({3, 3, 1}))"},
    {XC_YES, "EXPECT_THAT(inst(\"w\")->backend_config<WhileLoopBackendConfig>(), EqualsProto("
             "\"known_trip_count { n: 5 } dynamic_variables { tuple_index: 0 } "
             "dynamic_variables { tuple_index: 3 }\"))"},
    {XC_NO, "EXPECT_THAT(inst(\"w\")->backend_config<WhileLoopBackendConfig>(), EqualsProto("
            "\"known_trip_count { n: 5 } dynamic_variables { tuple_index: 3 } "
            "dynamic_variables { tuple_index: 0 }\"))"},
    {XC_NO, "EXPECT_THAT(inst(\"w\")->backend_config<WhileLoopBackendConfig>(), EqualsProto("
            "\"known_trip_count { n: 5 } dynamic_variables { tuple_index: 0 }\"))"},
    {XC_YES, "EXPECT_EQ(inst(\"i\")->literal(), LiteralUtil::CreateR1<int32_t>({1, 2, 3}))"},
    {XC_NO, "EXPECT_EQ(inst(\"i\")->literal(), LiteralUtil::CreateR1<int32_t>({1, 2, 4}))"},
    {XC_YES, "EXPECT_EQ(inst(\"i\")->literal().Get<int32_t>({1}), 2)"},
    {XC_YES, "EXPECT_TRUE(inst(\"c\")->literal().IsAllFloat(2))"},
    {XC_YES, "EXPECT_EQ(inst(\"o\")->shape().layout().minor_to_major(0), 0)"},
    {XC_YES, "EXPECT_THAT(inst(\"o\")->shape().dimensions(), ElementsAre(2, Le(3)))"},
    {XC_YES, "EXPECT_THAT(inst(\"o\")->shape().dimensions(), IsSupersetOf({3}))"},
    {XC_NO, "EXPECT_THAT(inst(\"o\")->shape().dimensions(), IsSubsetOf({3}))"},
    {XC_YES, "EXPECT_EQ(ShapeUtil::ByteSizeOf(inst(\"o\")->shape()), 2 * 3 * 4)"},
    {XC_YES, "EXPECT_TRUE(LayoutUtil::IsMonotonicWithDim0Minor(inst(\"o\")->shape().layout()))"},
    {XC_YES, "EXPECT_EQ(ShapeUtil::HumanString(inst(\"o\")->shape()), \"f32[2,3]\")"},
    {XC_YES, "EXPECT_TRUE(Match(root, m::Tuple(m::Copy(), m::Add())))"},
    {XC_YES, "EXPECT_TRUE(absl::c_linear_search(inst(\"m\")->users(), inst(\"w\")))"},
    {XC_YES, "EXPECT_TRUE(absl::StrContains(inst(\"c\")->ToString(), \"constant(2)\"))"},
    {XC_YES, "EXPECT_NEAR(inst(\"c\")->literal().GetFirstElement<float>(), 2.01, 0.1)"},
    {XC_NO, "EXPECT_FLOAT_EQ(inst(\"c\")->literal().GetFirstElement<float>(), 2.01)"},
    {XC_YES, "EXPECT_TRUE(entry->IsEntryComputation() && "
             "inst(\"f\")->fused_instructions_computation()->IsFusionComputation())"},
    {XC_YES, "for(const HloInstruction* i : entry->instructions()) { EXPECT_NE(i->opcode(), "
             "HloOpcode::kDot); }"},
    {XC_NO, "for(const HloInstruction* i : entry->instructions()) { EXPECT_NE(i->opcode(), "
            "HloOpcode::kCopy) << i->ToString(); }"},
    {XC_UNKNOWN, "EXPECT_EQ(0, 0)"},
    {XC_UNKNOWN, "EXPECT_TRUE(true)"},
    {XC_UNKNOWN, "EXPECT_NE(lost_variable, nullptr)"},
    {XC_UNKNOWN, "EXPECT_FALSE(HelperOfTheTest(m))"},
    {XC_UNKNOWN, "EXPECT_THAT(root, StrangeMatcher(1))"},
    {XC_UNKNOWN, "EXPECT_THAT(root->operands(), Not(StrangeMatcher(1)))"},
    {XC_UNKNOWN, "EXPECT_EQ(root->opcode(), "},
    {XC_UNKNOWN, "for(auto* x : lost_list) { EXPECT_EQ(x->opcode(), HloOpcode::kAdd); }"},
};

static void hold(const row *rows, size_t n, xc_answer (*check)(xc_env *, const char *)) {
  static const char *const words[] = {"does not hold", "holds", "is not understood"};
  hlo_ctx *ctx = hlo_ctx_new();
  u32 wrong = 0;
  for (size_t k = 0; k < n; k++) {
    hlo_module *m = NULL;
    hs_status s = hlo_parse(ctx, text, strlen(text), NULL, &m);
    if (!hs_ok(s)) print_error("%s\n", s.err->message);
    assert_true(hs_ok(s));
    hlo_module *before = hlo_module_clone(m, "before");
    xc_env *env = xc_open(m, before);
    xc_answer got = check(env, rows[k].text);
    if (got != rows[k].want) print_error("%s: %s\n", words[got], rows[k].text), wrong++;
    xc_close(env);
    hlo_module_free(before);
    hlo_module_free(m);
  }
  hlo_ctx_free(ctx);
  assert_int_equal(wrong, 0);
}

static void patterns_over_instructions(void **state) {
  (void)state;
  hold(patterns, HS_COUNT(patterns), xc_check_pattern);
}
static void assertions(void **state) {
  (void)state;
  hold(asserts, HS_COUNT(asserts), xc_check_statement);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(patterns_over_instructions),
                                     cmocka_unit_test(assertions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
