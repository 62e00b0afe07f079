func.func @main(%a: tensor<1x20xf32>) -> tensor<20x20xf32> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 0] : (tensor<1x20xf32>) -> tensor<20x20xf32>
  return %0 : tensor<20x20xf32>
}
