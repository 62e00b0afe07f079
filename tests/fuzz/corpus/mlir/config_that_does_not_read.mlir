module @jit_cholesky_solve_lapack attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x64x64xf32>, %arg1: tensor<8x64x8xf32>) -> (tensor<8x64x8xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.transpose %arg0, dims = [0, 2, 1] : (tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
    %1 = stablehlo.dot_general %arg0, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x64x64xf32>, tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
    %2 = stablehlo.iota dim = 0 : tensor<64x64xi32>
    %3 = stablehlo.iota dim = 1 : tensor<64x64xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<64x64xi32>
    %5 = stablehlo.add %2, %4 : tensor<64x64xi32>
    %6 = stablehlo.compare EQ, %5, %3, SIGNED : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
    %7 = stablehlo.convert %6 : (tensor<64x64xi1>) -> tensor<64x64xf32>
    %cst = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
    %9 = stablehlo.multiply %8, %7 : tensor<64x64xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [1, 2] : (tensor<64x64xf32>) -> tensor<1x64x64xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x64x64xf32>) -> tensor<8x64x64xf32>
    %12 = stablehlo.add %1, %11 : tensor<8x64x64xf32>
    %13 = stablehlo.transpose %12, dims = [0, 2, 1] : (tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
    %14 = stablehlo.add %12, %13 : tensor<8x64x64xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x64x64xf32>
    %16 = stablehlo.divide %14, %15 : tensor<8x64x64xf32>
    %17:2 = stablehlo.custom_call @lapack_spotrf_ffi(%16) {backend_config = "", mhlo.backend_config = {uplo = 76 : ui8}, mhlo.frontend_attributes = {num_batch_dims = "1"}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<0> : tensor<1xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i]) {i=8, j=64, k=64, l=64, m=64}, custom>} : (tensor<8x64x64xf32>) -> (tensor<8x64x64xf32>, tensor<8xi32>)
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %18 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %19 = stablehlo.compare EQ, %17#1, %18, SIGNED : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<8xi1>) -> tensor<8x1x1xi1>
    %cst_2 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x64x64xf32>
    %22 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<8x1x1xi1>) -> tensor<8x64x64xi1>
    %23 = stablehlo.select %22, %17#0, %21 : tensor<8x64x64xi1>, tensor<8x64x64xf32>
    %24 = stablehlo.iota dim = 0 : tensor<64x64xi32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %25 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<64x64xi32>
    %26 = stablehlo.add %24, %25 : tensor<64x64xi32>
    %27 = stablehlo.iota dim = 1 : tensor<64x64xi32>
    %28 = stablehlo.compare GE, %26, %27, SIGNED : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
    %29 = stablehlo.broadcast_in_dim %28, dims = [1, 2] : (tensor<64x64xi1>) -> tensor<8x64x64xi1>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8x64x64xf32>
    %31 = stablehlo.select %29, %23, %30 : tensor<8x64x64xi1>, tensor<8x64x64xf32>
    %32 = call @_cho_solve(%31, %arg1) : (tensor<8x64x64xf32>, tensor<8x64x8xf32>) -> tensor<8x64x8xf32>
    return %32 : tensor<8x64x8xf32>
  }
  func.func private @_cho_solve(%arg0: tensor<8x64x64xf32>, %arg1: tensor<8x64x8xf32>) -> tensor<8x64x8xf32> {
    %0 = stablehlo.custom_call @lapack_strsm_ffi(%arg0, %arg1) {backend_config = "", mhlo.backend_config = {diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8 : ui8}, mhlo.frontend_attributes = {num_batch_dims = "1"}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 2, 0]> : tensor<3xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, operand_tuple_indices = []>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, l, m])->([i, n, o]) {i=8, j=64, k=64, l=64, m=8, n=64, o=8}, custom>} : (tensor<8x64x64xf32>, tensor<8x64x8xf32>) -> tensor<8x64x8xf32>
    %1 = stablehlo.custom_call @lapack_strsm_ffi(%arg0, %0) {backend_config = "", mhlo.backend_config = {diag = 78 : ui8, side = 76 : ui8, trans_x = 84 : ui8, uplo = 76 : ui8}, mhlo.frontend_attributes = {num_batch_dims = "1"}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 2, 0]> : tensor<3xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, operand_tuple_indices = []>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, l, m])->([i, n, o]) {i=8, j=64, k=64, l=64, m=8, n=64, o=8}, custom>} : (tensor<8x64x64xf32>, tensor<8x64x8xf32>) -> tensor<8x64x8xf32>
    return %1 : tensor<8x64x8xf32>
  }
}
