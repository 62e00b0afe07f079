module attributes {mhlo.num_partitions = 24 : i32} {
  sdy.mesh @n = <["a"=12, "b"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@n, [{"b"}, {"a":(3)2, ?}], unreduced={"a":(1)3}>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@n, [{"a":(6)2}, {"a":(3)2}]>}) {
    %0 = sdy.sharding_constraint %a <@n, [{"a":(1)4}, {"b"}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
