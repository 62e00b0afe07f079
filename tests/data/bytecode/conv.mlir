#loc1 = loc("x")
#loc2 = loc("k")
module @jit_conv attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x8x8x3xf32> loc("x"), %arg1: tensor<3x3x3x4xf32> loc("k")) -> (tensor<1x8x8x4xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x8x8x4xf32> loc(#loc7)
    return %0 : tensor<1x8x8x4xf32> loc(#loc6)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc3 = loc("model.py":7:23)
#loc4 = loc("model.py":23:6)
#loc5 = loc("jit(conv)"(#loc3))
#loc6 = loc("jit(conv)"(#loc4))
#loc7 = loc("conv_general_dilated"(#loc5))
