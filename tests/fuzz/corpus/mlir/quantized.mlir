module @q {
  func.func @main(%a: tensor<4x8x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x8xf32> {
    %0 = stablehlo.uniform_dequantize %a : (tensor<4x8x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
