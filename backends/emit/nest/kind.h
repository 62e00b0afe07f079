// kind.h — the kinds of kernels, as the schedule chooses them. One row per kind: the name is what
// `dump schedule` and the kernel tables show; in_place says whether the kernel computes every
// element once, from operand elements at the same index, so that a result may take over the storage
// of an operand (the caller still has to check that the instruction reads that operand at no other
// index).
#ifndef EMIT_KIND_H
#define EMIT_KIND_H

#include <stdbool.h>

//      id             name             in_place
#define EMIT_KINDS(X)                           \
  X(EMIT_EMPTY, "empty", false)                 \
  X(EMIT_SEVERAL, "several", false)             \
  X(EMIT_SCALAR, "scalar", false)               \
  X(EMIT_POINTWISE, "pointwise", true)          \
  X(EMIT_TRANSPOSE, "transpose", true)          \
  X(EMIT_ROW_WISE, "row-wise", false)           \
  X(EMIT_ROW_REDUCE, "row-reduce", false)       \
  X(EMIT_COLUMN_REDUCE, "column-reduce", false) \
  X(EMIT_PRODUCT, "product", false)             \
  X(EMIT_ORDER, "order", false)                 \
  X(EMIT_LIBRARY, "library", false)

#define EMIT_KIND(id, name, in_place) id,
typedef enum emit_kind { EMIT_KINDS(EMIT_KIND) EMIT_KIND_COUNT } emit_kind;
#undef EMIT_KIND

const char *emit_kind_name(emit_kind);  // static text
bool emit_kind_in_place(emit_kind);

#endif
