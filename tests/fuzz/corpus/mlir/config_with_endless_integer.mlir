module {
  func.func @less(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
    %0 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  }
  func.func @main(%a: tensor<2x9xf32>, %b: tensor<f32>) -> tensor<2x3xf32> {
    %0 = stablehlo.custom_call @ApproxTopK(%a, %b) {called_computations = [@less], mhlo.backend_config = {is_fallback = true, reduction_dim = 99999999999999999999 : i64}} : (tensor<2x9xf32>, tensor<f32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
