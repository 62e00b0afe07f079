// As an exporter with symbolic sizes writes a program: the sizes of arguments are open, a function
// gets the size by its name, another by what its caller hands on, and arithmetic on sizes is called.
module @open attributes {jax.uses_shape_polymorphism = true} {
  func.func public @main(%arg0: tensor<?x3xf32> loc("x"), %arg1: tensor<?xi32>) -> (tensor<?x3xf32>, tensor<1x3xf32>, tensor<?x3xf32>) {
    %two = stablehlo.constant dense<2> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %size = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
    %half:2 = call @divmod(%size, %two) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
    %even = stablehlo.compare EQ, %half#1, %zero, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%even, %half#1, %size) {api_version = 2 : i32, error_message = "x has {1} rows, {0} too many", has_side_effect = true} : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
    %0:3 = call @f(%half#0, %arg0, %arg1) : (tensor<i32>, tensor<?x3xf32>, tensor<?xi32>) -> (tensor<?x3xf32>, tensor<1x3xf32>, tensor<?x3xf32>)
    return %0#0, %0#1, %0#2 : tensor<?x3xf32>, tensor<1x3xf32>, tensor<?x3xf32>
  }
  func.func private @divmod(%arg0: tensor<i32> {jax.global_constant = ""}, %arg1: tensor<i32> {jax.global_constant = ""}) -> (tensor<i32>, tensor<i32>) {
    %0 = stablehlo.divide %arg0, %arg1 : tensor<i32>
    %1 = stablehlo.remainder %arg0, %arg1 : tensor<i32>
    %2 = stablehlo.sign %arg0 : tensor<i32>
    %3 = stablehlo.compare LT, %2, %1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %4 = stablehlo.select %3, %2, %0 : tensor<i1>, tensor<i32>
    return %4, %1 : tensor<i32>, tensor<i32>
  }
  func.func private @f(%arg0: tensor<i32> {jax.global_constant = "n"}, %arg1: tensor<?x3xf32>, %arg2: tensor<?xi32>) -> (tensor<?x3xf32>, tensor<1x3xf32>, tensor<?x3xf32>) {
    %two = stablehlo.constant dense<2> : tensor<1xi32>
    %three = stablehlo.constant dense<3> : tensor<1xi32>
    %one = stablehlo.constant dense<1> : tensor<1xi32>
    %zeros = stablehlo.constant dense<0> : tensor<2xi32>
    %ones = stablehlo.constant dense<1> : tensor<2xi32>
    %init = stablehlo.constant dense<0.0> : tensor<f32>
    %n = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %sizes = stablehlo.concatenate %n, %two, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xi32>
    %pairs = stablehlo.dynamic_reshape %arg1, %sizes : (tensor<?x3xf32>, tensor<3xi32>) -> tensor<?x2x3xf32>
    %sums = stablehlo.reduce(%pairs init: %init) applies stablehlo.add across dimensions = [1] : (tensor<?x2x3xf32>, tensor<f32>) -> tensor<?x3xf32>
    %total = call @g(%arg0, %sums) : (tensor<i32>, tensor<?x3xf32>) -> tensor<?x3xf32>
    %first = stablehlo.slice %arg2 [0:1] : (tensor<?xi32>) -> tensor<1xi32>
    %zero = stablehlo.slice %zeros [0:1] : (tensor<2xi32>) -> tensor<1xi32>
    %start = stablehlo.concatenate %first, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %row = stablehlo.concatenate %one, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %limit = stablehlo.add %start, %row : tensor<2xi32>
    %at = stablehlo.real_dynamic_slice %total, %start, %limit, %ones : (tensor<?x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x3xf32>
    %last = stablehlo.real_dynamic_slice %arg1, %zeros, %row, %ones : (tensor<?x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x3xf32>
    return %total, %at, %last : tensor<?x3xf32>, tensor<1x3xf32>, tensor<?x3xf32>
  }
  func.func private @add(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<f32>
    return %0 : tensor<f32>
  }
  // the sums of all rows before and at each, three times over
  func.func private @g(%arg0: tensor<i32>, %arg1: tensor<?x3xf32>) -> tensor<?x3xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %times = stablehlo.constant dense<3> : tensor<i32>
    %ones = stablehlo.constant dense<1> : tensor<2xi32>
    %none = stablehlo.constant dense<0> : tensor<1x2xi32>
    %init = stablehlo.constant dense<0.0> : tensor<f32>
    %n = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.reshape %one : (tensor<i32>) -> tensor<1xi32>
    %window = stablehlo.concatenate %n, %1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %before = stablehlo.subtract %arg0, %one : tensor<i32>
    %pad = stablehlo.reshape %before : (tensor<i32>) -> tensor<1x1xi32>
    %nought = stablehlo.reshape %zero : (tensor<i32>) -> tensor<1x1xi32>
    %rows = stablehlo.concatenate %pad, %nought, dim = 1 : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x2xi32>
    %padding = stablehlo.concatenate %rows, %none, dim = 0 : (tensor<1x2xi32>, tensor<1x2xi32>) -> tensor<2x2xi32>
    %2:2 = stablehlo.while(%i = %zero, %x = %arg1) : tensor<i32>, tensor<?x3xf32>
      cond {
        %3 = stablehlo.compare LT, %i, %times, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %3 : tensor<i1>
      } do {
        %3 = stablehlo.add %i, %one : tensor<i32>
        %4 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %window, %ones, %ones, %ones, %padding) {api_version = 2 : i32, called_computations = [@add]} : (tensor<?x3xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<?x3xf32>
        stablehlo.return %3, %4 : tensor<i32>, tensor<?x3xf32>
      }
    return %2#1 : tensor<?x3xf32>
  }
}
