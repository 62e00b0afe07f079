// fields.h — which field of HloInstructionProto holds an attribute, for the attributes that are
// one number, one string or one list. Reader and writer share the table; attributes of other
// structure have code in both. Private to core/proto. Numbers: xla/service/hlo.proto and
// xla/xla_data.proto.
#ifndef HLO_PROTO_FIELDS_H
#define HLO_PROTO_FIELDS_H

#include "core/types/ops.h"

typedef struct proto_row {
  hlo_attr_id attr;
  u32 path[3];
} proto_row;

static const proto_row proto_rows[] = {
    {HLO_ATTR_DIMENSIONS, {14}},
    {HLO_ATTR_IOTA_DIMENSION, {14}},
    {HLO_ATTR_INFERRED_DIMENSION, {14}},
    {HLO_ATTR_DYNAMIC_SLICE_SIZES, {20}},
    {HLO_ATTR_DIRECTION, {63}},
    {HLO_ATTR_COMPARE_TYPE, {72}},
    {HLO_ATTR_INDEX, {13}},
    {HLO_ATTR_PARAMETER_REPLICATION, {61, 1}},
    {HLO_ATTR_OFFSET_DIMS, {33, 1}},
    {HLO_ATTR_COLLAPSED_SLICE_DIMS, {33, 2}},
    {HLO_ATTR_START_INDEX_MAP, {33, 3}},
    {HLO_ATTR_OPERAND_BATCHING_DIMS, {33, 5}},
    {HLO_ATTR_START_INDICES_BATCHING_DIMS, {33, 6}},
    {HLO_ATTR_INDEX_VECTOR_DIM, {33, 4}},
    {HLO_ATTR_SLICE_SIZES, {34}},
    {HLO_ATTR_INDICES_ARE_SORTED, {67}},
    {HLO_ATTR_UPDATE_WINDOW_DIMS, {48, 1}},
    {HLO_ATTR_INSERTED_WINDOW_DIMS, {48, 2}},
    {HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, {48, 3}},
    {HLO_ATTR_INPUT_BATCHING_DIMS, {48, 5}},
    {HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS, {48, 6}},
    {HLO_ATTR_UNIQUE_INDICES, {69}},
    {HLO_ATTR_LHS_CONTRACTING_DIMS, {30, 1}},
    {HLO_ATTR_RHS_CONTRACTING_DIMS, {30, 2}},
    {HLO_ATTR_LHS_BATCH_DIMS, {30, 3}},
    {HLO_ATTR_RHS_BATCH_DIMS, {30, 4}},
    {HLO_ATTR_LHS_RAGGED_DIMS, {90, 2}},
    {HLO_ATTR_RHS_GROUP_DIMS, {90, 3}},
    {HLO_ATTR_OPERAND_PRECISION, {51, 1}},
    {HLO_ATTR_ALGORITHM, {51, 2}},
    {HLO_ATTR_FEATURE_GROUP_COUNT, {50}},
    {HLO_ATTR_BATCH_GROUP_COUNT, {58}},
    {HLO_ATTR_CONVOLUTION_KIND, {97}},
    {HLO_ATTR_FFT_TYPE, {31}},
    {HLO_ATTR_FFT_LENGTH, {32}},
    {HLO_ATTR_LOWER, {59, 2}},
    {HLO_ATTR_LEFT_SIDE, {59, 1}},
    {HLO_ATTR_UNIT_DIAGONAL, {59, 3}},
    {HLO_ATTR_TRANSPOSE_A, {59, 4}},
    {HLO_ATTR_EPSILON, {24}},
    {HLO_ATTR_FEATURE_INDEX, {25}},
    {HLO_ATTR_DISTRIBUTION, {23}},
    {HLO_ATTR_RNG_ALGORITHM, {70}},
    {HLO_ATTR_DELTA, {66}},
    {HLO_ATTR_EXPONENT_BITS, {18}},
    {HLO_ATTR_MANTISSA_BITS, {19}},
    {HLO_ATTR_KIND, {11}},
    {HLO_ATTR_IS_COMPOSITE, {89}},
    {HLO_ATTR_NUM_CARRIES, {95}},
    {HLO_ATTR_IS_REVERSE, {94}},
    {HLO_ATTR_IS_STABLE, {60}},
    {HLO_ATTR_K, {81}},
    {HLO_ATTR_LARGEST, {85}},
    {HLO_ATTR_CUSTOM_CALL_TARGET, {28}},
    {HLO_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, {65}},
    {HLO_ATTR_PADDING_TYPE, {75}},
    {HLO_ATTR_SCHEDULE, {76}},
    {HLO_ATTR_API_VERSION, {77}},
    {HLO_ATTR_CHANNEL_ID, {26}},
    {HLO_ATTR_CONSTRAIN_LAYOUT, {56}},
    {HLO_ATTR_USE_GLOBAL_DEVICE_IDS, {71}},
    {HLO_ATTR_HAS_DYNAMIC_ROOT, {100}},
    {HLO_ATTR_IS_HOST_TRANSFER, {47}},
    {HLO_ATTR_OUTFEED_SHAPE, {29}},
    {HLO_ATTR_OUTFEED_CONFIG, {22}},
    {HLO_ATTR_INFEED_CONFIG, {27}},
    {HLO_ATTR_CROSS_PROGRAM_PREFETCH_INDEX, {80}},
    {HLO_ATTR_ASYNC_EXECUTION_THREAD, {79}},
};

// The path of an attribute for an opcode, ended by 0; false when the table has none.
static inline bool proto_path(hlo_opcode op, hlo_attr_id id, u32 path[4]) {
  for (size_t k = 0; k < HS_COUNT(proto_rows); k++) {
    if (proto_rows[k].attr != id) continue;
    u32 a = proto_rows[k].path[0], b = proto_rows[k].path[1];
    if (op == HLO_RAGGED_DOT && a == 30) {
      memcpy(path, (u32[]){90, 1, b, 0}, 4 * sizeof *path);
      return true;
    }
    if (op == HLO_SCATTER && id == HLO_ATTR_INDEX_VECTOR_DIM) a = 48;
    if (op == HLO_CHOLESKY && id == HLO_ATTR_LOWER) {
      a = 62;
      b = 1;
    }
    memcpy(path, (u32[]){a, b, 0, 0}, 4 * sizeof *path);
    return true;
  }
  return false;
}

// Proto type numbers of OpSharding by hlo_sharding_type (NAMED has a message of its own).
static const u8 proto_sharding_type[] = {0, 1, 2, 3, 4, 5, 6, 0};

#endif
