module @"a module, {" {
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32> loc("f32")
    %1 = stablehlo.multiply %0, %0 : tensor<4xf32> loc("____")
    %2 = stablehlo.tanh %1 : tensor<4xf32> loc("__mine")
    return %2 : tensor<4xf32>
  }
}
