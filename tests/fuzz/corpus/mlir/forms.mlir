func.func @main(%a: tensor<8x4xf32>, %s: tensor<f32>, %i: tensor<2x1xi32>, %p: tensor<i1>) -> (tensor<8xf32>, tensor<2x4xf32>, tensor<8x4xf32>) {
  %0 = stablehlo.reduce(%a init: %s) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
  %2 = "stablehlo.if"(%p) ({
    stablehlo.return %a : tensor<8x4xf32>
  }, {
    %3 = stablehlo.slice %a [0:8, 0:4:1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %4 = stablehlo.dot_general %3, %3, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
    %5 = stablehlo.dot_general %4, %a, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    stablehlo.return %5 : tensor<8x4xf32>
  }) : (tensor<i1>) -> tensor<8x4xf32>
  return %0, %1, %2 : tensor<8xf32>, tensor<2x4xf32>, tensor<8x4xf32>
}
