module {
  func.func @main(%t: !stablehlo.token) -> (tensor<2xf32>, !stablehlo.token) {
    %0:3 = "stablehlo.infeed"(%t) <{infeed_config = "c"}> : (!stablehlo.token) -> (tensor<2xf32>, tensor<i32>, !stablehlo.token)
    %1 = "stablehlo.outfeed"(%0#0, %0#1, %0#2) : (tensor<2xf32>, tensor<i32>, !stablehlo.token) -> !stablehlo.token
    return %0#0, %1 : tensor<2xf32>, !stablehlo.token
  }
}
