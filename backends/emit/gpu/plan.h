// plan.h — how the stages of a nest are divided over the blocks and threads of a GPU.
#ifndef EMIT_GPU_PLAN_H
#define EMIT_GPU_PLAN_H

#include "backends/emit/nest/nest.h"

#define GPU_WARP 32
#define GPU_SHARED_BYTES (40 << 10)  // of row buffers or tiles; 48 KiB is what every GPU has

typedef enum gpu_form {
  GPU_POINTS,  // a thread per point, or per vector of points along the last loop
  GPU_ROWS,    // a team of threads per row: it shares the reductions, and the points of the row
  GPU_TILES,   // a block per square of two loops, turned over in shared memory
  GPU_DOT      // a block per square of a product of two sides, held in shared memory
} gpu_form;

// What tensor cores multiply: numbers of `type`, added up in `sum`.
typedef struct gpu_unit {
  hlo_dtype type, sum;
} gpu_unit;
enum { GPU_UNITS = 4 };
extern const gpu_unit gpu_units[GPU_UNITS];

// A reduction whose steps combine values of two sides: of rows and of columns of its result.
typedef struct gpu_dot {
  u32 group;
  u64 batch, side[2];           // masks of the stage's loops: those of neither side, of each
  u32 nheld[2], held[2][3];     // nodes in shared memory
  u32 guard[2];                 // with a unit: nodes; zero stands where they are false
  u32 edge[2], each[2], depth;  // of a block's square, of a thread's part of it; steps of a round
  u32 warps[2];                 // with a unit: warps along the edges
  const gpu_unit *unit;         // NULL: each thread multiplies
} gpu_dot;

typedef struct gpu_stage {
  gpu_form form;
  u32 lanes;  // elements per thread and step, along the last loop of a stage or reduction
  u32 team;   // ROWS: threads; a power of two up to a warp, or the block
  // ROWS: neighbouring threads have neighbouring rows, so many, and the threads of a team lie that
  // far apart: reductions down columns of memory; 0: the threads of a team are neighbours
  u32 across;
  u64 rows;  // ROWS: mask of the stage's loops that number the rows; the others are the row
  // TILES: position of the loop that runs against the last one; elements of an edge
  u32 tile, edge;
  const gpu_dot *dot;  // DOT
  i64 items;           // threads of POINTS, rows, tiles or squares
  u32 first, grid;     // its blocks
} gpu_stage;

// How elements are put in order: by a network of comparisons, whose tiles lie in shared memory and
// are a part of a row, or some whole rows; or by the digits of their keys.
typedef struct gpu_order {
  i64 rows, size;                // of elements; 0 rows: nothing is ordered
  i64 wanted;                    // elements of a row that are read afterwards
  u32 tile, each;                // elements of a tile and row, a power of two; rows of a tile
  u32 bytes;                     // of an element
  bool several;                  // rows have several tiles
  u32 digits;                    // of a key; 0: by the network
  double network_us, digits_us;  // estimates; 0: not possible
} gpu_order;
// The launches that make it. Network: tiles sorted; pairs further apart than a tile; what is left
// in tiles. Digits: keys; for each digit how many a tile has, where those of a tile go, moves; the
// elements. Both: the bounds that are asked for.
typedef enum gpu_order_part {
  GPU_ORDER_SORT,
  GPU_ORDER_STEP,
  GPU_ORDER_TILE,
  GPU_ORDER_KEYS,
  GPU_ORDER_COUNT,
  GPU_ORDER_SCAN,
  GPU_ORDER_MOVE,
  GPU_ORDER_GATHER,
  GPU_ORDER_STARTS
} gpu_order_part;
enum {
  GPU_ORDER_PARTS = GPU_ORDER_STARTS + 1,
  GPU_ORDER_THREADS = 256,
  GPU_ORDER_BITS = 8,  // of a digit: a thread of a block for each
  // a launch's number is what keys are shifted by, plus this where they are in the second buffers
  GPU_ORDER_SHIFTS = 256,
  GPU_ORDER_TILE_OF_DIGITS = 2048
};

// One launch.
typedef struct gpu_phase {
  size_t nstages;
  nest_stage *of;
  gpu_stage *stages;
  u32 grid, block;
} gpu_phase;

// Chooses the forms, splits long reductions with few results, lets rows be kept in shared memory.
// The stages lie in the nest's arena. Everything follows from the nest and from what the compute
// capability has, nothing from the number of processors.
void gpu_plan(nest *, u32 sm, gpu_phase phases[2]);
void gpu_plan_print(const nest *, const gpu_phase phases[2], hs_buf *);  // `dump schedule`
emit_kind gpu_plan_kind(const nest *, const gpu_phase phases[2]);
// Whether the only result, `out`, may lie where operand `in` does (both by nest_buf.arg): teams
// work along rows, and have read what they reduce before the first of their threads stores; or what
// is scattered has been put in order, and each thread adds to what lies at its place.
bool gpu_plan_in_place(const nest *, const gpu_phase phases[2], int in, int out);
// Whether all indices and numbers of threads fit in 31 bits.
bool gpu_plan_fits32(const nest *, const gpu_phase phases[2]);

// Elements and tiles of the nest's order; their types of shared memory are those of its values.
gpu_order gpu_plan_order(const nest *);
u32 gpu_order_log(i64 n);  // the least k with 2^k >= n

// ---- plan_dot.c ---------------------------------------------------------------------------------
// Whether the stage, with this one reduction, is a product of two sides; fills in form and squares.
bool gpu_find_dot(const nest *, const nest_stage *, u32 root, u32 sm, gpu_stage *);
// The parts that its reduction should be split into so that the GPU is not left empty; below 2:
// none.
i64 gpu_dot_splits(const nest *, const gpu_stage *);

// ---- shared with code generation ----------------------------------------------------------------
// The loops that the results of a group and of those that share its loops depend on.
u64 gpu_group_deps(const nest *, u32 root);
// Whether a team shares the steps of a group whose results depend on `deps`: in any order, enough
// of them, and all results belong to a row.
bool gpu_team_shares(const nest *, const gpu_stage *, u32 root, u64 deps);
// The load that a tile holds: with the tile loop along memory, and the last loop across it.
bool gpu_tile_holds(const nest *, const nest_stage *, const gpu_stage *, const nest_node *);

#endif
