#loc1 = loc("x")
module @loop attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%n: tensor<i32>, %x: tensor<4xf32> {jax.buffer_donor = true} loc("x")) -> (tensor<4xf32> {jax.result_info = "r"}) {
    %c = stablehlo.constant dense<1> : tensor<i32> loc(#loc1)
    %0:2 = stablehlo.while(%i = %n, %a = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %l = stablehlo.compare  LT, %i, %n,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %l : tensor<i1>
    } do {
      %j = stablehlo.add %i, %c : tensor<i32>
      %b = func.call @g(%a) : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %j, %b : tensor<i32>, tensor<4xf32>
    }
    return %0#1 : tensor<4xf32>
  }
  func.func private @g(%a: tensor<4xf32>) -> tensor<4xf32> {
    %k = stablehlo.constant dense<"0x0000803F"> : tensor<4xf32>
    %r = stablehlo.add %k, %a : tensor<4xf32>
    return %r : tensor<4xf32>
  }
}
