// eval.c — the evaluator, one small module per operation. Expected values were computed with
// NumPy (transforms, factorizations, convolution), by hand, or are the published test vectors
// (Random123).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <time.h>

#include "core/eval/ops.h"
#include "core/text/text.h"

#define ADD "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
#define MAX "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n"

// A module without parameters, the shape and text of its value, and the absolute error allowed.
static const struct one {
  const char *name, *text, *shape, *want;
  double tol;
} cases[] = {
    {"add",
     "ENTRY e { a = f32[3] constant({1,2,3}) b = f32[3] constant({0.5,-2,1e9}) ROOT r = f32[3] "
     "add(a,b) }",
     "f32[3]", "{1.5,0,1000000003}", 0},
    {"gather of nothing",
     "ENTRY e { o = f32[0,2] constant({}) i = s32[3] constant({-4,0,8}) ROOT r = f32[3,2] "
     "gather(o,i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={0,2} }",
     "f32[3,2]", "{{0,0},{0,0},{0,0}}", 0},
    {"padding behind a dynamic size",
     ADD "ENTRY e { x = f32[4] constant({-4,2,7,-2}) n = s32[] constant(3) p = f32[] constant(2) z "
         "= f32[] constant(0) d = f32[<=4] set-dimension-size(x,n), dimensions={0} q = f32[<=6] "
         "pad(d,p), padding=1_1 ROOT r = f32[] reduce(q,z), dimensions={0}, to_apply=add }",
     "f32[]", "9", 0},
    {"a size of one value alone",
     ADD "ENTRY e { x = f32[<=4] constant({1,2,3,4}) one = s32[] constant(1) z = f32[] constant(0) "
         "a = f32[<=4] set-dimension-size(x,one), dimensions={0} p = f32[] reduce(a,z), "
         "dimensions={0}, to_apply=add q = f32[] reduce(x,z), dimensions={0}, to_apply=add "
         "ROOT r = f32[] add(p,q) }",
     "f32[]", "11", 0},
    {"updates in use",
     ADD "ENTRY e { x = f32[3] constant({1,2,3}) i = s32[2,1] constant({{0},{2}}) n = s32[] "
         "constant(1) u = f32[2] constant({10,20}) j = s32[<=2,1] set-dimension-size(i,n), "
         "dimensions={0} ROOT r = f32[3] scatter(x,j,u), update_window_dims={}, "
         "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
         "to_apply=add }",
     "f32[3]", "{11,2,3}", 0},
    {"an update in use",
     "ENTRY e { x = f32[4] constant({1,2,3,4}) u = f32[2] constant({8,9}) n = s32[] constant(1) "
     "d = f32[<=2] set-dimension-size(u,n), dimensions={0} ROOT r = f32[4] "
     "dynamic-update-slice(x,d,n) }",
     "f32[4]", "{1,8,3,4}", 0},
    {"rows of a dot",
     "ENTRY e { x = f32[3,1] constant({{1},{2},{3}}) y = f32[1,2] constant({{1,2}}) n = s32[] "
     "constant(2) d = f32[<=3,1] set-dimension-size(x,n), dimensions={0} p = f32[<=3,2] dot(d,y), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT r = s32[] get-dimension-size(p), "
     "dimensions={0} }",
     "s32[]", "2", 0},
    {"windows in use",
     ADD "ENTRY e { x = f32[6] constant({1,2,3,4,5,6}) n = s32[] constant(5) z = f32[] constant(0) "
         "d = f32[<=6] set-dimension-size(x,n), dimensions={0} w = f32[<=3] reduce-window(d,z), "
         "window={size=2 stride=2}, to_apply=add ROOT r = f32[] reduce(w,z), dimensions={0}, "
         "to_apply=add }",
     "f32[]", "10", 0},
    {"one element in use is spread",
     ADD "ENTRY e { x = f32[4] constant({1,2,3,4}) one = s32[] constant(1) n = s32[] constant(3) t "
         "= f32[] constant(2) z = f32[] constant(0) y = f32[4] broadcast(t), dimensions={} a = "
         "f32[<=4] set-dimension-size(x,one), dimensions={0} b = f32[<=4] set-dimension-size(y,n), "
         "dimensions={0} c = f32[<=4] add(b,a) ROOT r = f32[] reduce(c,z), dimensions={0}, "
         "to_apply=add }",
     "f32[]", "9", 0},
    {"an endless loop over constants",
     "b { p = (s32[1]) parameter(0) a = s32[1] constant({7}) ROOT t = (s32[1]) tuple(a) }\n"
     "c { p = (s32[1]) parameter(0) ROOT t = pred[] constant(true) }\n"
     "ENTRY e { a = s32[1] constant({7}) i = (s32[1]) tuple(a) w = (s32[1]) while(i), "
     "condition=c, body=b g = s32[1] get-tuple-element(w), index=0 ROOT n = s32[1] negate(g) }",
     "s32[1]", "{-7}", 0},
    {"wrap",
     "ENTRY e { a = s8[2] constant({127,-128}) b = s8[2] constant({1,-1}) ROOT r = s8[2] "
     "add(a,b) }",
     "s8[2]", "{-128,127}", 0},
    {"s4",
     "ENTRY e { a = s4[2] constant({7,-8}) b = s4[2] constant({1,3}) ROOT r = s4[2] "
     "multiply(a,b) }",
     "s4[2]", "{7,-8}", 0},
    {"divide by zero",
     "ENTRY e { a = s32[4] constant({7,-7,5,-2147483648}) b = s32[4] constant({2,2,0,-1}) ROOT "
     "r = s32[4] divide(a,b) }",
     "s32[4]", "{3,-3,-1,-2147483648}", 0},
    {"remainder",
     "ENTRY e { a = s32[4] constant({7,-7,5,-2147483648}) b = s32[4] constant({4,4,0,-1}) ROOT "
     "r = s32[4] remainder(a,b) }",
     "s32[4]", "{3,-3,5,0}", 0},
    {"shifts",
     "ENTRY e { a = s32[3] constant({-8,-8,1}) b = s32[3] constant({1,40,31}) ROOT r = s32[3] "
     "shift-right-arithmetic(a,b) }",
     "s32[3]", "{-4,-1,0}", 0},
    {"logical shift",
     "ENTRY e { a = u8[2] constant({200,200}) b = u8[2] constant({3,8}) ROOT r = u8[2] "
     "shift-right-logical(a,b) }",
     "u8[2]", "{25,0}", 0},
    {"power",
     "ENTRY e { a = s32[4] constant({3,-2,1,5}) b = s32[4] constant({4,3,-7,-1}) ROOT r = "
     "s32[4] power(a,b) }",
     "s32[4]", "{81,-8,1,0}", 0},
    {"large powers",
     "ENTRY e { a = s32[4] constant({3,5,7,-3}) b = s32[4] constant({100,64,1000,65}) ROOT r = "
     "s32[4] power(a,b) }",
     "s32[4]", "{-1953380655,1,-142118463,-3}", 0},
    {"unsigned powers",
     "ENTRY e { a = u8[5] constant({3,1,255,255,5}) b = u8[5] constant({128,128,128,129,5}) "
     "ROOT r = u8[5] power(a,b) }",
     "u8[5]", "{0,1,1,255,53}", 0},
    {"nan max",
     "ENTRY e { a = f32[3] constant({nan,1,2}) b = f32[3] constant({1,nan,5}) ROOT r = f32[3] "
     "maximum(a,b) }",
     "f32[3]", "{nan,nan,5}", 0},
    {"bf16 rounds per op",
     "ENTRY e { a = bf16[] constant(256) b = bf16[] constant(1) c = bf16[] add(a,b) ROOT r = "
     "bf16[] add(c,b) }",
     "bf16[]", "256", 0},
    {"a sum of narrow floats rounds once",
     "s { x = bf16[] parameter(0) y = bf16[] parameter(1) ROOT z = bf16[] add(x, y) } h { x = "
     "f16[] parameter(0) y = f16[] parameter(1) ROOT z = f16[] add(x, y) } ENTRY e { a = bf16[] "
     "constant(1) b = bf16[600,2] broadcast(a), dimensions={} c = f16[] constant(1) d = f16[3000] "
     "broadcast(c), dimensions={} z = bf16[] constant(0) w = f16[] constant(0) p = bf16[2] "
     "reduce(b, z), dimensions={0}, to_apply=s q = bf16[] reduce(b, z), dimensions={0,1}, "
     "to_apply=s u = f16[3000] reduce-window(d, w), window={size=3000 pad=2999_0}, to_apply=h v = "
     "f16[1] slice(u), slice={[2999:3000]} ROOT r = (bf16[2], bf16[], f16[1]) tuple(p, q, v) }",
     "(bf16[2], bf16[], f16[1])", "({600,600}, 1200, {3000})", 0},
    {"a reducer of several sums rounds each",
     "s { x = bf16[] parameter(0) y = bf16[] parameter(1) u = bf16[] parameter(2) v = bf16[] "
     "parameter(3) a = bf16[] add(x, u) b = bf16[] add(y, v) ROOT z = (bf16[], bf16[]) tuple(a, b) "
     "} ENTRY e { a = bf16[] constant(1) b = bf16[600] broadcast(a), dimensions={} z = bf16[] "
     "constant(0) ROOT r = (bf16[], bf16[]) reduce(b, b, z, z), dimensions={0}, to_apply=s }",
     "(bf16[], bf16[])", "(256, 256)", 0},
    {"clz popcnt",
     "ENTRY e { a = u16[3] constant({0,1,65535}) b = u16[3] count-leading-zeros(a) c = u16[3] "
     "popcnt(a) ROOT r = u16[3] add(b,c) }",
     "u16[3]", "{16,16,16}", 0},
    {"total order",
     "ENTRY e { a = f32[3] constant({-0.0,nan,1}) b = f32[3] constant({0,inf,2}) ROOT r = "
     "pred[3] compare(a,b), direction=LT, type=TOTALORDER }",
     "pred[3]", "{1,0,1}", 0},
    {"select clamp",
     "ENTRY e { lo = s32[] constant(-1) hi = s32[] constant(2) x = s32[4] constant({-5,0,2,9}) "
     "ROOT r = s32[4] clamp(lo,x,hi) }",
     "s32[4]", "{-1,0,2,2}", 0},
    {"mixed, the narrower result",
     "ENTRY e { a = f32[3] constant({1,2,4}) b = bf16[3] constant({42,42,42}) ROOT r = bf16[3] "
     "add(a,b) }",
     "bf16[3]", "{43,44,46}", 0},
    {"mapped in other floats",
     "f { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) } ENTRY e { a "
     "= bf16[3] constant({1,2,4}) b = bf16[3] constant({42,42,42}) ROOT r = bf16[3] map(a,b), "
     "to_apply=f }",
     "bf16[3]", "{43,44,46}", 0},
    {"mixed precision",
     "ENTRY e { a = f32[2] constant({1,2}) b = bf16[2] constant({0.5,1}) c = f32[2] add(a,b) d "
     "= f64[] constant(4) w = f32[2] broadcast(d), dimensions={} ROOT r = f32[2] multiply(c,w) "
     "}",
     "f32[2]", "{6,12}", 0},
    {"convert",
     "ENTRY e { a = f32[5] constant({1.9,-1.9,1e20,-1e20,nan}) ROOT r = s32[5] convert(a) }",
     "s32[5]", "{1,-1,2147483647,-2147483648,0}", 0},
    {"complex",
     "ENTRY e { a = c64[2] constant({(1,2),(0,-1)}) b = c64[2] constant({(3,-1),(0,2)}) ROOT r "
     "= c64[2] multiply(a,b) }",
     "c64[2]", "{(5,5),(2,0)}", 0},
    {"reduce-precision",
     "ENTRY e { a = f32[3] constant({1.0625,100000,1e-30}) ROOT r = f32[3] "
     "reduce-precision(a), exponent_bits=5, mantissa_bits=3 }",
     "f32[3]", "{1,inf,0}", 0},
    {"broadcast transpose",
     "ENTRY e { a = s32[2,3] constant({{1,2,3},{4,5,6}}) ROOT r = s32[3,2] transpose(a), "
     "dimensions={1,0} }",
     "s32[3,2]", "{{1,4},{2,5},{3,6}}", 0},
    {"broadcast permutes",
     "ENTRY e { a = s32[2,3] constant({{1,2,3},{4,5,6}}) ROOT r = s32[3,2] broadcast(a), "
     "dimensions={1,0} }",
     "s32[3,2]", "{{1,4},{2,5},{3,6}}", 0},
    {"pad",
     "ENTRY e { a = s32[3] constant({1,2,3}) z = s32[] constant(9) ROOT r = s32[6] pad(a,z), "
     "padding=-1_2_1 }",
     "s32[6]", "{9,2,9,3,9,9}", 0},
    {"slice reverse",
     "ENTRY e { a = s32[6] constant({0,1,2,3,4,5}) b = s32[3] slice(a), slice={[1:6:2]} ROOT r "
     "= s32[3] reverse(b), dimensions={0} }",
     "s32[3]", "{5,3,1}", 0},
    {"concatenate",
     "ENTRY e { a = s32[2,1] constant({{1},{2}}) b = s32[2,2] constant({{3,4},{5,6}}) ROOT r = "
     "s32[2,3] concatenate(a,b), dimensions={1} }",
     "s32[2,3]", "{{1,3,4},{2,5,6}}", 0},
    {"iota", "ENTRY e { ROOT r = bf16[2,3] iota(), iota_dimension=1 }", "bf16[2,3]",
     "{{0,1,2},{0,1,2}}", 0},
    {"dynamic-slice clamps",
     "ENTRY e { a = s32[4] constant({0,1,2,3}) i = s32[] constant(9) ROOT r = s32[2] "
     "dynamic-slice(a,i), dynamic_slice_sizes={2} }",
     "s32[2]", "{2,3}", 0},
    {"dynamic-update-slice",
     "ENTRY e { a = s32[4] constant({0,1,2,3}) b = s32[2] constant({8,9}) i = s32[] "
     "constant(-3) ROOT r = s32[4] dynamic-update-slice(a,b,i) }",
     "s32[4]", "{8,9,2,3}", 0},
    {"bitcast by layout",
     "ENTRY e { a = s32[2,3]{0,1} constant({{1,2,3},{4,5,6}}) ROOT r = s32[6]{0} bitcast(a) }",
     "s32[6]", "{1,4,2,5,3,6}", 0},
    {"bitcast-convert",
     "ENTRY e { a = u8[4] constant({0,0,128,63}) ROOT r = f32[] bitcast-convert(a) }", "f32[]", "1",
     0},
    {"gather",
     "ENTRY e { a = s32[3,2] constant({{1,2},{3,4},{5,6}}) i = s32[2] constant({2,7}) ROOT r = "
     "s32[2,2] gather(a,i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,2} }",
     "s32[2,2]", "{{5,6},{5,6}}", 0},
    {"scatter",
     ADD "ENTRY e { a = f32[3] constant({1,2,3}) i = s32[3] constant({0,2,5}) u = f32[3] "
         "constant({10,20,30}) ROOT r = f32[3] scatter(a,i,u), update_window_dims={}, "
         "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
         "to_apply=add }",
     "f32[3]", "{11,2,23}", 0},
    {"reduce rows",
     ADD "ENTRY e { a = f32[2,3] constant({{1,2,3},{4,5,6}}) z = f32[] constant(0.5) ROOT r = "
         "f32[2] reduce(a,z), dimensions={1}, to_apply=add }",
     "f32[2]", "{6.5,15.5}", 0},
    {"reduce columns",
     MAX "ENTRY e { a = f32[2,3] constant({{1,7,3},{4,5,6}}) z = f32[] constant(-inf) ROOT r = "
         "f32[3] reduce(a,z), dimensions={0}, to_apply=max }",
     "f32[3]", "{4,7,6}", 0},
    {"reduce-window",
     MAX "ENTRY e { a = f32[5] constant({1,5,2,4,3}) z = f32[] constant(-inf) ROOT r = f32[3] "
         "reduce-window(a,z), window={size=3 stride=2 pad=1_1}, to_apply=max }",
     "f32[3]", "{5,5,4}", 0},
    {"running sum",
     ADD "ENTRY e { a = f32[4] constant({1,2,3,4}) z = f32[] constant(0) ROOT r = f32[4] "
         "reduce-window(a,z), window={size=4 pad=3_0}, to_apply=add }",
     "f32[4]", "{1,3,6,10}", 0},
    {"select-and-scatter",
     "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a,b), "
     "direction=GE }\n" ADD
     "ENTRY e { a = f32[4] constant({1,5,2,4}) s = f32[2] constant({10,20}) z = f32[] "
     "constant(0) ROOT r = f32[4] select-and-scatter(a,s,z), window={size=2 stride=2}, "
     "select=ge, scatter=add }",
     "f32[4]", "{0,10,0,20}", 0},
    {"map",
     "f { a = f32[] parameter(0) c = f32[] constant(2) m = f32[] multiply(a,c) ROOT r = f32[] "
     "negate(m) }\nENTRY e { a = f32[3] constant({1,2,3}) ROOT r = f32[3] map(a), "
     "dimensions={0}, to_apply=f }",
     "f32[3]", "{-2,-4,-6}", 0},
    {"dot",
     "ENTRY e { a = f32[2,3] constant({{1,2,3},{4,5,6}}) b = f32[3,2] "
     "constant({{1,0},{0,1},{1,1}}) ROOT r = f32[2,2] dot(a,b), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0} }",
     "f32[2,2]", "{{4,5},{10,11}}", 0},
    {"integer dot wraps",
     "ENTRY e { a = s32[1,2] constant({{2147483647,2}}) b = s32[2,1] constant({{2},{3}}) ROOT "
     "r = s32[1,1] dot(a,b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
     "s32[1,1]", "{{4}}", 0},
    {"complex dot",
     "ENTRY e { a = c64[2] constant({(1,1),(0,2)}) b = c64[2] constant({(2,-1),(3,0)}) ROOT r "
     "= c64[] dot(a,b), lhs_contracting_dims={0}, rhs_contracting_dims={0} }",
     "c64[]", "(3,7)", 0},
    {"convolution",
     "ENTRY e { a = f32[1,5,2] constant({{{-4,-3},{-2,-1},{0,1},{2,3},{4,5}}}) k = f32[3,2,2] "
     "constant({{{-2,-1.5},{-1,-0.5}},{{0,0.5},{1,1.5}},{{2,2.5},{3,3.5}}})\n"
     " ROOT r = f32[1,3,2] convolution(a,k), window={size=3 stride=2 pad=1_1}, "
     "dim_labels=b0f_0io->b0f }",
     "f32[1,3,2]", "{{{-10,-15},{19,20.5},{-2,5}}}", 0},
    {"fft of 5",
     "ENTRY e { a = c64[5] constant({(1,0),(2,0),(-1,0),(0.5,0),(3,0)}) ROOT r = c64[5] "
     "fft(a), fft_type=FFT, fft_length={5} }",
     "c64[5]",
     "{(5.5,0),(2.94959347,1.83273439),(-3.19959347,-0.83879952),(-3.19959347,0.83879952),"
     "(2.94959347,-1.83273439)}",
     1e-6},
    {"irfft",
     "ENTRY e { a = c64[4] constant({(1,0),(2,-1),(0.5,1),(3,0)}) ROOT r = f32[6] fft(a), "
     "fft_type=IRFFT, fft_length={6} }",
     "f32[6]", "{1.5,-0.08333333,0.82735027,-0.83333333,-0.32735027,-0.08333333}", 1e-6},
    {"cholesky",
     "ENTRY e { a = f32[3,3] constant({{4,2,0.6},{2,5,1.2},{0.6,1.2,3}}) ROOT r = f32[3,3] "
     "cholesky(a), lower=true }",
     "f32[3,3]", "{{2,0,0},{1,2,0},{0.3,0.45,1.64544827}}", 1e-6},
    {"triangular-solve",
     "ENTRY e { a = f32[3,3] constant({{2,0,0},{1,2,0},{0.3,0.45,1.64544827}}) b = f32[3,2] "
     "constant({{1,2},{3,4},{5,6}})\n"
     " ROOT r = f32[3,2] triangular-solve(a,b), left_side=true, lower=true, "
     "transpose_a=TRANSPOSE }",
     "f32[3,2]", "{{-0.36395071,-0.13674085},{0.81629573,1.17955488},{3.03868563,3.64642275}}",
     1e-6},
    {"threefry",
     "ENTRY e { s = u64[2] constant({0,0}) g = (u64[2], u32[2]) rng-bit-generator(s), "
     "algorithm=rng_three_fry ROOT r = u32[2] get-tuple-element(g), index=1 }",
     "u32[2]", "{1797259609,2579123966}", 0},
    {"philox",
     "ENTRY e { s = u64[3] constant({0,0,0}) g = (u64[3], u32[4]) rng-bit-generator(s), "
     "algorithm=rng_philox ROOT r = u32[4] get-tuple-element(g), index=1 }",
     "u32[4]", "{1713891541,3781805453,3159862348,2600524760}", 0},
    {"conditional",
     "t { a = s32[] parameter(0) ROOT r = s32[] add(a,a) }\n"
     "f { a = s32[] parameter(0) ROOT r = s32[] negate(a) }\n"
     "ENTRY e { p = pred[] constant(false) a = s32[] constant(4) ROOT r = s32[] "
     "conditional(p,a,a), true_computation=t, false_computation=f }",
     "s32[]", "-4", 0},
    {"while in place",
     "c { s = (s32[], s32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] "
     "constant(4) ROOT r = pred[] compare(i,n), direction=LT }\n"
     "b { s = (s32[], s32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 v = s32[4] "
     "get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i,one) q = s32[] "
     "multiply(i,i) u = s32[1] reshape(q) w = s32[4] dynamic-update-slice(v,u,i) ROOT t = "
     "(s32[], s32[4]) tuple(j,w) }\n"
     "ENTRY e { z = s32[] constant(0) a = s32[4] broadcast(z), dimensions={} t = (s32[], "
     "s32[4]) tuple(z,a) l = (s32[], s32[4]) while(t), condition=c, body=b ROOT r = s32[4] "
     "get-tuple-element(l), index=1 }",
     "s32[4]", "{0,1,4,9}", 0},
    {"sort by key",
     "lt { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] "
     "parameter(3) x = f32[] abs(a) y = f32[] abs(b) ROOT r = pred[] compare(x,y), "
     "direction=GT }\n"
     "ENTRY e { a = f32[4] constant({1,-3,2,-1}) i = s32[4] iota(), iota_dimension=0 s = "
     "(f32[4], s32[4]) sort(a,i), dimensions={0}, is_stable=true, to_apply=lt ROOT r = s32[4] "
     "get-tuple-element(s), index=1 }",
     "s32[4]", "{1,2,0,3}", 0},
    {"topk",
     "ENTRY e { a = f32[5] constant({1,5,2,5,3}) t = (f32[3], s32[3]) topk(a), k=3, "
     "largest=true ROOT r = s32[3] get-tuple-element(t), index=1 }",
     "s32[3]", "{1,3,4}", 0},
    {"dynamic sum",
     ADD "ENTRY e { a = f32[4] constant({1,2,3,4}) n = s32[] constant(2) d = f32[<=4] "
         "set-dimension-size(a,n), dimensions={0} z = f32[] constant(0) ROOT r = f32[] "
         "reduce(d,z), dimensions={0}, to_apply=add }",
     "f32[]", "3", 0},
    {"sizes in a reshape of nothing, of which a group with a 0 is whole",
     "ENTRY e { z = s8[] constant(0) x = s8[4,6,0] broadcast(z), dimensions={} n = s32[] "
     "constant(3) d = s8[<=4,6,0] set-dimension-size(x,n), dimensions={0} a = s8[<=4,2,3,0,7] "
     "reshape(d) b = s8[<=12,2,0] reshape(d) c = s8[<=5,0] reshape(d) k = s32[] "
     "get-dimension-size(a), dimensions={0} l = s32[] get-dimension-size(b), dimensions={0} o = "
     "s32[] get-dimension-size(c), dimensions={0} kk = s32[1] reshape(k) ll = s32[1] reshape(l) "
     "oo = s32[1] reshape(o) ROOT r = s32[3] concatenate(kk,ll,oo), dimensions={0} }",
     "s32[3]", "{3,9,5}", 0},
    {"denormals flush",
     "ENTRY e { a = f32[2] constant({1e-39,2}) b = f32[2] constant({1,1e-39}) ROOT r = f32[2] "
     "multiply(a,b) }",
     "f32[2]", "{0,0}", 0},
    {"a batch norm of the features in use",
     ADD "ENTRY e { x = f32[2,3] constant({{1,2,99},{3,6,99}}) s = f32[3] constant({1,1,1}) n = "
         "s32[] constant(2) d = f32[2,<=3] set-dimension-size(x,n), dimensions={1} c = f32[<=3] "
         "set-dimension-size(s,n), dimensions={0} t = (f32[2,<=3], f32[<=3], f32[<=3]) "
         "batch-norm-training(d,c,s), epsilon=1, feature_index=1 m = f32[<=3] "
         "get-tuple-element(t), index=1 z = f32[] constant(0) ROOT r = f32[] reduce(m,z), "
         "dimensions={0}, to_apply=add }",
     "f32[]", "6", 0},
    {"batch-norm-inference",
     "ENTRY e { x = f32[2,1] constant({{1},{3}}) s = f32[1] constant({2}) o = f32[1] "
     "constant({1}) m = f32[1] constant({2}) v = f32[1] constant({3}) ROOT r = f32[2,1] "
     "batch-norm-inference(x,s,o,m,v), epsilon=1, feature_index=1 }",
     "f32[2,1]", "{{0},{2}}", 1e-6},
};

static hs_status run_text(hlo_ctx *ctx, const char *body, const hlo_eval_options *opt,
                          hlo_literal **out) {
  char *text = hs_format("%s%s", strncmp(body, "HloModule", 9) ? "HloModule m\n" : "", body);
  hlo_module *m = NULL;
  *out = NULL;
  hs_status st = hlo_parse(ctx, text, strlen(text), NULL, &m);
  if (hs_ok(st)) st = hlo_eval_module(m, 0, NULL, opt, out);
  hs_free(text);
  hlo_module_free(m);
  return st;
}

static void print_status(const char *name, hs_status st) {
  hs_buf b = {0};
  hs_status_render(st, &b, false);
  print_error("%s: %s\n", name, hs_buf_cstr(&b));
  hs_buf_free(&b);
}

static void every_case(void **state) {
  (void)state;
  u32 failed = 0;
  for (u32 k = 0; k < HS_COUNT(cases); k++) {
    hlo_ctx *ctx = hlo_ctx_new();
    hlo_literal *got = NULL, *want = NULL;
    const hlo_shape *s = NULL;
    hs_status st = run_text(ctx, cases[k].text, NULL, &got);
    if (hs_ok(st)) st = hlo_parse_shape(ctx, cases[k].shape, strlen(cases[k].shape), &s);
    if (hs_ok(st)) st = hlo_parse_literal(ctx, s, cases[k].want, strlen(cases[k].want), &want);
    if (hs_ok(st)) st = hlo_compare(want, got, hlo_near(cases[k].tol, 0));
    if (!hs_ok(st)) print_status(cases[k].name, st), failed++;
    hs_status_drop(st);
    hlo_literal_unref(got);
    hlo_literal_unref(want);
    hlo_ctx_free(ctx);
  }
  assert_int_equal(failed, 0);
}

// 8 partitions: each adds its number; ids meet, tiles go out and come back.
static void devices_meet(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m, num_partitions=4\n"
      "add { a = u32[] parameter(0) b = u32[] parameter(1) ROOT r = u32[] add(a, b) }\n"
      "ENTRY e { p = u32[] partition-id() s = u32[] all-reduce(p), channel_id=1, "
      "use_global_device_ids=true, replica_groups={{0,1},{2,3}}, to_apply=add\n"
      "  v = u32[1] reshape(s) ROOT g = u32[4] all-gather(v), channel_id=2, "
      "use_global_device_ids=true, replica_groups={{0,1,2,3}}, dimensions={0} }";
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_literal *got = NULL;
  hs_status st = run_text(ctx, text, NULL, &got);
  if (!hs_ok(st)) print_status("devices", st);
  assert_true(hs_ok(st));
  const i64 want[4] = {1, 1, 5, 5};
  for (i64 k = 0; k < 4; k++) assert_int_equal(hlo_literal_i64(got, k), want[k]);
  hlo_literal_unref(got);
  hlo_ctx_free(ctx);
}

static hs_code code_of(const char *text, const hlo_eval_options *opt) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_literal *got = NULL;
  hs_status st = run_text(ctx, text, opt, &got);
  hs_code c = st.err ? st.err->code : HS_OK;
  if (c == HS_E_UNSUPPORTED) assert_non_null(st.err->subject);
  hs_status_drop(st);
  hlo_literal_unref(got);
  hlo_ctx_free(ctx);
  return c;
}

// Passes append and XLA's modules hold computations as they grew: a list need not put operands
// first.
static void any_list_order(void **st) {
  (void)st;
  hlo_ctx *ctx = hlo_ctx_new();
  static const char text[] =
      "HloModule m, is_scheduled=true\nf { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = "
      "f32[] add(a, b) }\n"
      "ENTRY e { x = f32[] constant(2) ROOT y = f32[] fusion(x, x), kind=kLoop, calls=f }\n";
  hlo_module *m;
  hlo_literal *v = NULL;
  assert_true(hs_ok(hlo_parse(ctx, text, sizeof text - 1, NULL, &m)));
  hlo_computation *f = hlo_find_comp(m, "f");
  hlo_move_before(f->root, f->first);
  assert_true(hs_ok(hlo_eval_module(m, 0, NULL, NULL, &v)));
  assert_true(hlo_literal_f64(v, 0) == 4);
  hlo_literal_unref(v);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

static void refusals_are_statuses(void **state) {
  (void)state;
  assert_int_equal(
      code_of("ENTRY e { ROOT r = f32[2] custom-call(), custom_call_target=\"nobody knows\" }",
              NULL),
      HS_E_UNSUPPORTED);
  assert_int_equal(code_of("ENTRY e { ROOT r = f32[2] constant({...}) }", NULL), HS_E_ELIDED);
  const hlo_eval_options small = {.max_bytes = 1000};
  assert_int_equal(
      code_of("ENTRY e { z = f32[] constant(0) b = f32[1000] broadcast(z), dimensions={} ROOT r = "
              "f32[1000] negate(b) }",
              &small),
      HS_E_LIMIT);
  // Half of the devices wait for a collective that the others never reach.
  assert_int_equal(
      code_of(
          "HloModule m, num_partitions=2\nadd { a = u32[] parameter(0) b = u32[] parameter(1) ROOT "
          "r = u32[] add(a, b) }\n"
          "t { a = u32[] parameter(0) ROOT r = u32[] all-reduce(a), channel_id=1, "
          "use_global_device_ids=true, replica_groups={{0,1}}, to_apply=add }\n"
          "f { ROOT a = u32[] parameter(0) }\n"
          "ENTRY e { p = u32[] partition-id() c = u32[] constant(0) q = pred[] compare(p,c), "
          "direction=EQ ROOT r = u32[] conditional(q,p,p), true_computation=t, false_computation=f "
          "}",
          NULL),
      HS_E_RUN);
}

static void inputs_follow_the_formula(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nENTRY e { a = f32[4] parameter(0) b = s32[4] parameter(1) c = pred[4] "
      "parameter(2) ROOT t = (f32[4], s32[4], pred[4]) tuple(a,b,c) }";
  static const char args[] =
      "arg 0 f32[4] uniform -1.0 1.0\narg 1 s32[4] int -5 5\narg 2 pred[4] pred\n";
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status st = hlo_parse(ctx, text, strlen(text), NULL, &m);
  assert_true(hs_ok(st));
  hlo_literal **v = NULL;
  u32 n = 0;
  st = hlo_inputs_formula(ctx, m, args, strlen(args), &v, &n);
  assert_true(hs_ok(st));
  const float f[4] = {0.7666216f, 0.13312304f, 0.18237936f, -0.7730994f};
  const i64 s[4] = {-5, 4, 1, -4}, p[4] = {1, 0, 1, 1};
  for (i64 k = 0; k < 4; k++) {
    assert_true((float)hlo_literal_f64(v[0], k) == f[k]);
    assert_int_equal(hlo_literal_i64(v[1], k), s[k]);
    assert_int_equal(hlo_literal_i64(v[2], k), p[k]);
  }
  hlo_inputs_free(v, n);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// A call that is refused, for its depth here, lets go of its arguments like one that fails inside:
// the loop at the bottom calls its condition with a reference of its own.
static void refused_calls_drop_their_arguments(void **state) {
  (void)state;
  enum { DEEP = 511 };
  hlo_ctx *ctx = hlo_ctx_new();
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\nt { x = f32[4] parameter(0) ROOT r = pred[] constant(false) }\n"
                  "b { p = f32[4] parameter(0) ROOT r = f32[4] negate(p) }\n"
                  "g0 { p = f32[4] parameter(0) ROOT r = f32[4] while(p), condition=t, body=b }\n");
  for (u32 k = 1; k < DEEP; k++)
    hs_buf_printf(&b, "g%u { p = f32[4] parameter(0) ROOT r = f32[4] call(p), to_apply=g%u }\n", k,
                  k - 1);
  hs_buf_printf(&b, "ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] call(p), to_apply=g%u }",
                DEEP - 1);
  hlo_module *m = NULL;
  hlo_literal **v = NULL, *got = NULL;
  u32 n = 0;
  assert_true(hs_ok(hlo_parse(ctx, hs_buf_cstr(&b), b.n, NULL, &m)));
  assert_true(hs_ok(hlo_inputs_formula(ctx, m, NULL, 0, &v, &n)));
  hs_status st = hlo_eval_module(m, n, v, NULL, &got);
  assert_int_equal(st.err ? st.err->code : HS_OK, HS_E_LIMIT);
  assert_int_equal(v[0]->refs, 1);
  hs_status_drop(st);
  hlo_inputs_free(v, n);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  hs_buf_free(&b);
}

// Work that takes long ends at once where somebody raised a stop.
static void loops_hear_a_stop(void **state) {
  (void)state;
#define OP(id, text, arity, inf, infer, eval, cost, flags, color, attrs) \
  [HLO_##id] = hlo_eval_##eval,
  static const ev_fn fn[HLO_OPCODE_COUNT] = {
#include "core/types/ops.def"
  };
#undef OP
  static const char text[] =
      "HloModule m\nENTRY e { x = f32[4,2] parameter(0) s = f32[2] parameter(1)\n"
      "k = u64[2] parameter(2) u = u32[4,2] parameter(3) d = f32[<=4,2] parameter(4)\n"
      "three = (u64[2], u32[8]) rng-bit-generator(k), algorithm=rng_three_fry\n"
      "wide = (u64[2], u64[8]) rng-bit-generator(k), algorithm=rng_three_fry\n"
      "philox = (u64[2], u32[8]) rng-bit-generator(k), algorithm=rng_philox\n"
      "c = s8[4,2] stochastic-convert(x,u) p = f32[<=8] reshape(d)\n"
      "t = (f32[4,2], f32[2], f32[2]) batch-norm-training(x,s,s), epsilon=0.1, feature_index=1\n"
      "i = f32[4,2] batch-norm-inference(x,s,s,s,s), epsilon=0.1, feature_index=1\n"
      "ROOT g = (f32[4,2], f32[2], f32[2]) batch-norm-grad(x,s,s,s,x), epsilon=0.1, "
      "feature_index=1 }";
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
  ev e = {.ctx = ctx, .account = ev_account_new(1 << 20)};
  hs_interrupt flag = HS_STOP_INTERRUPT;
  hs_interrupt_watch(&flag);
  hlo_for_each_instr(i, m->entry) {
    if (i->opcode == HLO_PARAMETER) continue;
    hlo_literal *ops[5] = {0}, *out = NULL;
    for (u32 k = 0; k < i->noperands; k++) {
      assert_true(hs_ok(hlo_literal_new(hlo_operand(i, k)->shape, &ops[k])));
      if (ops[k]->dynamic_sizes) ops[k]->dynamic_sizes[0] = 3;
    }
    hs_status st = fn[i->opcode](&e, i, ops, &out);
    assert_false(hs_ok(st));
    assert_int_equal(st.err->code, HS_E_INTERRUPTED);
    hs_status_drop(st);
    for (u32 k = 0; k < i->noperands; k++) hlo_literal_unref(ops[k]);
    if (out) hlo_literal_unref(out);
  }
  hs_interrupt_watch(NULL);
  ev_account_close(e.account);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// A transform along the outermost dimension, which comes first and is half of the work here, stops
// before its last line: it takes less than a quarter of what the whole one does.
static void transforms_hear_a_stop(void **state) {
  (void)state;
  static const char text[] = "HloModule m\nENTRY e { x = c64[128,8192] parameter(0)\n"
                             "ROOT r = c64[128,8192] fft(x), fft_type=FFT, fft_length={128,8192} }";
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
  ev e = {.ctx = ctx, .account = ev_account_new(1 << 28)};
  const hlo_instr *root = m->entry->root;
  hlo_literal *x = NULL;
  assert_true(hs_ok(hlo_literal_new(root->shape, &x)));
  hs_interrupt flag = HS_STOP_NONE;
  hs_interrupt_watch(&flag);
  u64 took[2];
  for (u32 stopped = 0; stopped < 2; stopped++) {
    flag = stopped ? HS_STOP_INTERRUPT : HS_STOP_NONE;
    hlo_literal *out = NULL;
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    hs_status st = hlo_eval_fft(&e, root, &x, &out);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    took[stopped] = (u64)(b.tv_sec - a.tv_sec) * 1000000000 + (u64)b.tv_nsec - (u64)a.tv_nsec;
    assert_int_equal(hs_ok(st), !stopped);
    hs_status_drop(st);
    if (out) hlo_literal_unref(out);
  }
  assert_true(took[1] < took[0] / 4);
  hs_interrupt_watch(NULL);
  hlo_literal_unref(x);
  ev_account_close(e.account);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_case),
      cmocka_unit_test(devices_meet),
      cmocka_unit_test(refusals_are_statuses),
      cmocka_unit_test(any_list_order),
      cmocka_unit_test(refused_calls_drop_their_arguments),
      cmocka_unit_test(inputs_follow_the_formula),
      cmocka_unit_test(loops_hear_a_stop),
      cmocka_unit_test(transforms_hear_a_stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
