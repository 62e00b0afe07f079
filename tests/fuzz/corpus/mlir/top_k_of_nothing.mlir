func.func @main() -> (tensor<3xi32>, tensor<3xi32>) {
  %values, %indices = chlo.top_k( k = 3) : tensor<6xi32> -> (tensor<3xi32>, tensor<3xi32>)
  return %values, %indices : tensor<3xi32>, tensor<3xi32>
}
