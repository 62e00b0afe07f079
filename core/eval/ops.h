// ops.h — inside the evaluator: what the files of core/eval share.
//
// A value is a literal. The function of an opcode gets its operands in `ops`, holding one reference
// each, and may take any of them (set the entry to NULL); a literal whose only reference is held
// there is dead after the instruction, so it may be overwritten (ev_writable). Arithmetic on
// elements exists once, as kernels over contiguous blocks (ew.c): whole arrays run through
// them, and so do the scalar computations of reduce, sort, scatter and map (prog.c).
//
// Order of the files, each calling only those before it, apart from the entries of eval.c that run
// a computation (ev_call, ev_plan_of, ev_run_one): whatever calls a computation evaluates, and an
// evaluation is recursive.
//   mem, convert, ew, ew_run, gemm        buffers, kernels
//   prog                                  scalar computations
//   move, reduce, scatter, sort, rng, ragged, dot, linalg    operations of one device
//   world                                 devices and their threads
//   coll, manual, host, host_ops          operations between devices, and with the host
//   library, lapack, custom               custom calls
//   loop, eval                            control flow, dispatch by ops.def
#ifndef HLO_EVAL_OPS_H
#define HLO_EVAL_OPS_H

#include "core/eval/eval.h"
#include "core/types/float.h"

typedef struct ev ev;                  // the evaluation of a module on one (simulated) device
typedef struct ev_world ev_world;      // all devices of it (world.c)
typedef struct ev_account ev_account;  // bytes in use (mem.c)
typedef struct ev_plan ev_plan;        // a computation made ready to run (eval.c)
// a scalar computation as a list of block kernels (prog.c)
typedef struct ev_prog ev_prog;

typedef hs_status (*ev_fn)(ev *, const hlo_instr *, hlo_literal **ops, hlo_literal **out);

struct ev {
  hlo_eval_options opt;
  hlo_ctx *ctx;
  ev_account *account;
  ev_world *world;  // NULL: one device
  u32 replica, partition;
  ev_plan ***plans;     // by computation id, in pages
  u32 nplans;           // pages
  hs_arena arena;       // plans and programs
  u32 depth;            // nesting of called computations
  hlo_eval_site *site;  // the instructions that are being run, innermost first
  u64 rng[2];           // state of rng and rng-get-and-update-state
};

// One function per name in the eval column of ops.def.
#define OP(id, text, arity, inf, infer, eval, cost, flags, color, attrs) \
  hs_status hlo_eval_##eval(ev *, const hlo_instr *, hlo_literal **ops, hlo_literal **out);
#include "core/types/ops.def"
#undef OP

// ---- eval.c -------------------------------------------------------------------------------------
// Runs a computation; takes the references in args (entries become NULL), also when it fails.
hs_status ev_call(ev *, const hlo_computation *, u32 n, hlo_literal **args, hlo_literal **out);
// A branch, or the body or condition of a loop: the type of its parameter says which dimensions of
// the argument have sizes (those it calls dynamic; others are in use as a whole), and a size that
// the result's type hides ends. Takes *arg.
hs_status ev_enter(ev *, const hlo_computation *, hlo_literal **arg, hlo_literal **out);
ev_plan *ev_plan_of(ev *, const hlo_computation *);
// Whether the arguments fit the parameters: number, shapes, values. E_INPUT.
hs_status ev_check_args(const hlo_computation *, u32 n, hlo_literal *const *args);
// One device's run of a computation.
hs_status ev_run_one(const hlo_computation *, u32 n, hlo_literal *const *args,
                     const hlo_eval_options *, ev_world *, u32 replica, u32 partition,
                     hlo_literal **out);
// One device's part in one instruction, on given operands.
hs_status ev_run_instr(const hlo_instr *, u32 n, hlo_literal *const *operands,
                       const hlo_eval_options *, ev_world *, u32 replica, u32 partition,
                       hlo_literal **out);
ev_prog **ev_plan_prog(ev_plan *);  // where prog.c keeps its compiled form

// ---- loop.c --------------------------------------------------------------------------------
// A while loop without influence: everything that is read of it passes through unchanged, and it
// has no side effect.
bool ev_loop_is_idle(const hlo_instr *);

// ---- mem.c: buffers, reuse, copies, shapes ----------------------------------------------------
ev_account *ev_account_new(i64 limit);
void ev_account_close(ev_account *);
// A literal of the shape, charged to the account; arrays are not cleared. E_NO_MEMORY, E_LIMIT.
hs_status ev_new(ev *, const hlo_shape *, hlo_literal **out);
bool ev_writable(const hlo_literal *);  // no other reference, and the evaluator's own buffer
// The dying operand itself when its bytes fit the shape, else a new array.
hs_status ev_reuse(ev *, hlo_literal **op, const hlo_shape *, hlo_literal **out);
// `to`, of as many dimensions, has as many elements in use as `from`; a size that something set is
// kept under a static type, too.
void ev_keep_sizes(hlo_literal *to, const hlo_literal *from);
// The operand's value in an array that may be written.
hs_status ev_own(ev *, hlo_literal **op, const hlo_shape *, hlo_literal **out);
// The same data under another shape of as many bytes; takes the operand.
hlo_literal *ev_retag(hlo_literal **op, const hlo_shape *);
// A size that is set along a dimension which the type of an operation's result calls static lasts
// until then: all of it is in use again. Of a tuple, in its elements, not in theirs.
void ev_end_sizes(const hlo_shape *, hlo_literal **result);
// Gives the value the dynamic dimensions that the type states, of the same dimensions, and no
// others: a size along each, its own or the bound.
void ev_state_sizes(const hlo_shape *, hlo_literal **);
// dst[i·ds] = src[i·ss] for every index i below dims; strides in elements of `size` bytes, any
// sign.
void ev_copy(size_t size, u32 rank, const i64 *dims, void *dst, const i64 *ds, const void *src,
             const i64 *ss);
void ev_fill(size_t size, void *dst, const void *value, i64 n);
// Next index in row-major order; false after the last.
bool ev_next(u32 rank, const i64 *dims, i64 *index);
i64 ev_product(u32 n, const i64 *v);

// The interned array shape; locks the context when there are several devices. E_LIMIT.
hs_status ev_shape(ev *, hlo_dtype, u32 rank, const i64 *dims, const hlo_shape **out);
// The same shape with another element type; locks as ev_shape does.
const hlo_shape *ev_typed(ev *, const hlo_shape *, hlo_dtype);
// E_UNSUPPORTED with the opcode as its subject; `why` completes "unsupported: OPCODE ...".
hs_status ev_unsupported(const hlo_instr *, const char *why);

// ---- ew.c, ew_run.c, convert.c: kernels over blocks ---------------------------------------------
// n elements each, contiguous; out may be one of the inputs.
typedef void (*ew_fn)(void *out, const void *const *in, i64 n);
// How the kernel is applied: on the elements as they are, on floats widened to f32, on integers of
// less than a byte; conversions and reduce-precision have functions of their own.
enum { EW_DIRECT, EW_NARROW, EW_SUBBYTE, EW_CONVERT, EW_REDUCE_PRECISION };
typedef struct ew {
  ew_fn fn;
  u32 nin;
  hlo_dtype in[3], out;  // as in the program
  u8 mode;               // EW_DIRECT ...
  hlo_opcode bitwise;    // an operation on the bits of integers below a byte; else HLO_OP_INVALID
  int ebits, mbits;      // reduce-precision
} ew;
static inline bool ev_is_narrow(hlo_dtype t) {
  return hlo_dtype_is_float(t) && t != HLO_F32 && t != HLO_F64;
}
static inline bool ev_is_subbyte(hlo_dtype t) {
  return hlo_dtype_is_integer(t) && hlo_dtype_bits(t) < 8;
}
// The kernel of an elementwise instruction, by its operand types; false when there is none.
bool ew_compile(const hlo_instr *, ew *);
// The same for given types; `attrs` is the instruction whose attributes count (compare's
// direction).
bool ew_compile_types(hlo_opcode, const hlo_instr *attrs, u32 nin, const hlo_dtype *in,
                      hlo_dtype out, ew *);
void ew_run(const ew *, void *out, const void *const *in, i64 n);
// n contiguous elements of one type to another, with XLA's rules for what does not fit.
void ev_convert(hlo_dtype from, const void *src, hlo_dtype to, void *dst, i64 n);
// *l in another precision of floating point, where it has another.
hs_status ev_match_precision(ev *, hlo_dtype want, hlo_literal **l);

// ---- prog.c --------------------------------------------------------------------------------
enum { EV_BLOCK = 256 };  // elements that one run of a program handles at most
// Applies a scalar computation to n <= EV_BLOCK elements at once: in[p] are its parameters, out[r]
// its results, all contiguous; out may alias in.
typedef struct ev_apply {
  ev *e;
  const hlo_computation *comp;
  ev_prog *prog;
  u32 nin, nout;
  hlo_dtype in[64], out[64];
} ev_apply;
hs_status ev_apply_init(ev *, const hlo_computation *, ev_apply *);
hs_status ev_apply_run(const ev_apply *, void *const *out, const void *const *in, i64 n);
// The opcode when the computation is op(p0, p1) on its two parameters in either order for a
// commutative op; else 0.
hlo_opcode ev_reducer(const hlo_computation *);
// Whether a and b, of one computation or of two, are the same expression with pa in place of pb
// (NULL: as they are); false as well when that takes more than *budget steps.
bool ev_same_expression(const hlo_instr *a, const hlo_instr *b, const hlo_instr *pa,
                        const hlo_instr *pb, u32 *budget);
// Runs one value of a scalar computation over blocks (for sort keys): the value may depend on one
// parameter only.
bool ev_prog_key(ev *, const hlo_computation *, const hlo_instr *value, i64 param, ev_apply *);

// ---- dot.c ---------------------------------------------------------------------------------
// A matrix seen through two offset tables: element (i, k) is at base[row[i] + col[k]], in units of
// the element type.
// type: F32 or F64
typedef struct ev_matrix {
  hlo_dtype type;
  const void *base;
  const i64 *lane, *depth;
} ev_matrix;
// c[i * n + j] = sum over k of a(i, k) * b(j, k), summed in f64.
hs_status ev_gemm(i64 m, i64 n, i64 k, const ev_matrix *a, const ev_matrix *b, double *c);

// ---- coll.c, manual.c, world.c, host.c -------------------------------------------
hs_status ev_collective(ev *, const hlo_instr *, const hlo_shape *to, hlo_literal **ops,
                        hlo_literal **out);
hs_status ev_host_get(ev *, const hlo_instr *, i64 channel, const hlo_shape *, hlo_literal **out);
hs_status ev_host_put(ev *, const hlo_instr *, i64 channel, const hlo_literal *);
void ev_host_rewind(hlo_host *);
hs_str ev_frontend_value(const hlo_attr *frontend, const char *key);  // empty when absent
void ev_threefry2x32(u32 x[2], const u32 key[2]);                     // rng.c: one block
// linalg.c
hs_status ev_qr(ev *, const hlo_instr *, hlo_literal **ops, hlo_literal **out);
hs_status ev_householder_product(ev *, const hlo_instr *, hlo_literal **ops, hlo_literal **out);
hs_status ev_full_to_shard(ev *, const hlo_instr *, hlo_literal **ops, hlo_literal **out);
hs_status ev_shard_to_full(ev *, const hlo_instr *, hlo_literal **ops, hlo_literal **out);
hs_status ev_run_devices(const hlo_module *, u32 nargs, hlo_literal *const *args,
                         const hlo_eval_options *, hlo_literal **out);

// ---- elements in use (sizes.c) ------------------------------------------------------------------
// Whether some dimension has fewer elements in use than its bound.
bool ev_is_cut(const hlo_literal *);
// Whether something sets how much of a dimension of a value is in use, other than its type alone.
bool ev_has_size(const hlo_instr *, u32 dim);
// Sizes in use of an elementwise result (ew_run.c).
typedef struct ev_used {
  bool dynamic;
  i32 size[HLO_MAX_RANK];
} ev_used;
// Those of i, of its first nin operands, which are repeated where one has a single element in use.
hs_status ev_join_sizes(ev *, const hlo_instr *, u32 nin, hlo_literal **ops, ev_used *);
void ev_use(hlo_literal *result, const ev_used *);
// Puts a value (NULL: zeros) in place of the elements that are not in use.
hs_status ev_fill_unused(ev *, hlo_literal **op, const void *value);
// The sizes of the first n dimensions, for a result that is worked out one batch after the other.
void ev_batch_sizes(u32 n, const hlo_literal *from, hlo_literal *out);
// Sets the size of a result with dynamic dimensions along one of them: how many windows fit into
// what is in use.
void ev_window_size(const hlo_window_dim *, const hlo_literal *from, i64 from_dim, hlo_literal *out,
                    i64 dim);

#endif
