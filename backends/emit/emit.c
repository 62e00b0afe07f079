// emit.c — a unit: the kernels that are compiled together.
//
// emit_add lowers and schedules an instruction and looks for an equal kernel among those already in
// the unit: nests are compared by their serialized bytes, after a hash. emit_finish hands the
// distinct ones to the JIT. Constant arrays are copied, because the module may be freed before the
// code.
#include "backends/emit/codegen.h"
#include "backends/emit/unit.h"

#include <ctype.h>
#include <stdio.h>

struct emit_unit {
  hs_arena arena;
  emit_options options;
  HS_VEC(emit_kernel *) kernels;
  HS_VEC(emit_body *) bodies;
  HS_VEC(emit_region *) regions;
  emit_jit *jit;
  emit_code *code;  // of the next emit_finish
};

static void no_work(void *const *bufs, i64 chunk, void *scratch) {
  (void)bufs, (void)chunk, (void)scratch;
}

bool emit_supports(const hlo_instr *i, hs_buf *why) { return nest_supports(i, false, why); }
void emit_warm_up(void) { emit_jit_warm_up(); }

hs_status emit_unit_new(const emit_options *o, emit_unit **out) {
  *out = hs_calloc(1, sizeof **out);
  if (o) (*out)->options = *o;
  if (!(*out)->options.vector_bytes) (*out)->options.vector_bytes = emit_vector_bytes();
  return HS_GOOD;
}

void emit_free_constants(nest *n) {
  for (size_t k = 0; k < n->bufs.n; k++)
    if (n->bufs.v[k].arg == NEST_BUF_CONST) hs_free((void *)(uintptr_t)n->bufs.v[k].data);
}

static void body_free(emit_body *b) {
  emit_free_constants(b->n);
  nest_free(b->n);
  hs_arena_free(&b->arena);
  hs_buf_free(&b->key);
  (void)pthread_mutex_destroy(&b->lock);
  hs_free(b);
}

void emit_own_constants(nest *n) {
  for (size_t k = 0; k < n->bufs.n; k++) {
    nest_buf *b = &n->bufs.v[k];
    if (b->arg != NEST_BUF_CONST) continue;
    size_t bytes = (size_t)b->elements * hlo_dtype_storage(b->dtype);
    void *p = hs_alloc(bytes + 64);
    memcpy(p, b->data, bytes);
    b->data = p;
  }
}

// k0_reduce, k1_add_fusion: a number, and what the first instruction that it computes is: a fusion
// by its name, others by their operation. Letters that assemblers do not take become underscores.
static void name_body(emit_body *b, size_t number, const hlo_instr *i) {
  const char *what = hlo_is(i, HLO_FUSION) ? i->name : hlo_op_text(i->opcode);
  (void)snprintf(b->name, sizeof b->name, "k%zu_%s", number, what);
  for (char *p = b->name; *p; p++)
    if (!isalnum((unsigned char)*p)) *p = '_';
}

// Whether a kernel along rows takes over the memory of an operand that is made for it alone. Then
// its stores go where it has just read: past the caches would gain nothing.
static bool takes_over(const hlo_instr *i, const nest *n) {
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    if (!hlo_shape_is_array(o->shape)) return false;  // leaves are not operands
  }
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    u32 readers = 0;
    hlo_for_each_use(use, o) readers += use != NULL;
    if (readers == 1 && o->opcode != HLO_PARAMETER && !hlo_is_root(o) &&
        nest_row_in_place(n, (int)k, (int)i->noperands))
      return true;
  }
  return false;
}

// Whether an instruction is, or its users are, the tuple of the program's results or nothing else.
static bool only_returned(const hlo_instr *i) {
  hlo_for_each_use(use, i)
    if (!hlo_is(use->user, HLO_TUPLE) || !hlo_is_root(use->user)) return false;
  return hlo_is_root(i) || i->first_use;
}

// What the program computes on the way lies in caches, and a result may take its place: there
// stores past the caches are slower.
bool emit_ends_there(const hlo_instr *i) {
  const hlo_module *m = i->parent->module;
  if (i->parent != m->entry || hlo_attrs_find(m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS)) return false;
  i64 bytes = hlo_shape_bytes(i->shape);
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    if (hlo_is(o, HLO_BITCAST) || hlo_is(o, HLO_GET_TUPLE_ELEMENT)) o = hlo_operand(o, 0);
    bool small = hlo_shape_bytes(o->shape) <= bytes / 8;
    if (!small && !hlo_is(o, HLO_PARAMETER) && !hlo_is(o, HLO_CONSTANT)) return false;
  }
  if (hlo_shape_is_array(i->shape)) return only_returned(i);
  hlo_for_each_use(use, i) {
    const hlo_instr *leaf = use->user;
    if (!hlo_is(leaf, HLO_GET_TUPLE_ELEMENT) || !only_returned(leaf)) return false;
  }
  return true;
}

// The operands that the only result of a kernel along rows may take the place of.
static void add_shares(emit_unit *u, const nest *n, emit_kernel *k) {
  if (k->kind != EMIT_ROW_WISE) return;
  u32 operands = 0;
  for (u32 j = 0; j < k->instr->noperands; j++)
    operands += hlo_shape_leaves(hlo_operand(k->instr, j)->shape);
  emit_share *shares = HS_NEW_ARRAY(&u->arena, emit_share, operands + 1);
  for (u32 in = 0; in < operands; in++)
    if (nest_row_in_place(n, (int)in, (int)operands)) shares[k->nshares++] = (emit_share){in, 0};
  k->shares = shares;
  if (k->nshares) k->chunk_rows = nest_chunk_rows(n, &k->row_elements);
}

hs_status emit_add(emit_unit *u, const hlo_instr *i, const emit_kernel **out) {
  emit_body *b = hs_calloc(1, sizeof *b);
  (void)pthread_mutex_init(&b->lock, NULL);
  *out = NULL;
  nest_machine m = {.vector_bytes = u->options.vector_bytes,
                    .cache_bytes = emit_cache_bytes(),
                    .near_bytes = emit_ends_there(i) ? emit_near_bytes() : 0};
  hs_status s = hlo_tuning_of(i, &m.wanted);
  if (hs_ok(s)) s = nest_lower(&b->arena, i, &b->n);
  if (!hs_ok(s)) {
    hs_arena_free(&b->arena);
    hs_free(b);
    return s;
  }
  nest_simplify(b->n);
  if (u->options.vector_bytes) {
    nest_join_loads(b->n);
    nest_interleave(b->n);
  }
  nest_schedule(b->n, &m);
  if (b->n->stages.n == 1 && takes_over(i, b->n)) {
    if (m.wanted.stream < 0) b->n->stages.v[0].stream = false;
    if (m.wanted.chunks < 0) nest_smaller_chunks(&b->n->stages.v[0], b->n);
  }
  nest_serialize(b->n, &b->key);
  b->hash = hs_hash_bytes(b->key.p, b->key.n, 0);
  emit_kernel *k = HS_NEW(&u->arena, emit_kernel);
  k->instr = i;
  k->kind = b->n->stages.n == 0   ? EMIT_EMPTY
            : b->n->stages.n == 1 ? b->n->stages.v[0].kind
                                  : EMIT_SEVERAL;
  for (size_t st = 0; st < b->n->stages.n; st++) k->chunks += b->n->stages.v[st].chunks;
  for (size_t st = 0; st < b->n->finish.n; st++) k->finish_chunks += b->n->finish.v[st].chunks;
  k->scratch_bytes = b->n->scratch_bytes;
  emit_update *up = HS_NEW_ARRAY(&u->arena, emit_update, b->n->updates.n + 1);
  for (size_t j = 0; j < b->n->updates.n; j++)
    up[j] = (emit_update){b->n->updates.v[j].in, b->n->updates.v[j].out};
  k->updates = up;
  k->nupdates = (u32)b->n->updates.n;
  add_shares(u, b->n, k);
  emit_body *same = NULL;
  for (size_t e = 0; e < u->bodies.n && !same; e++)
    if (u->bodies.v[e]->hash == b->hash && u->bodies.v[e]->key.n == b->key.n &&
        !memcmp(u->bodies.v[e]->key.p, b->key.p, b->key.n))
      same = u->bodies.v[e];
  if (same || k->chunks == 0) {
    for (size_t c = 0; c < b->n->bufs.n; c++)
      // the data still belongs to the literal
      if (b->n->bufs.v[c].arg == NEST_BUF_CONST) b->n->bufs.v[c].data = NULL;
    body_free(b);
    b = same;
  } else {
    emit_own_constants(b->n);
    name_body(b, u->bodies.n, i);
    b->of = hs_arena_strndup(&b->arena, i->name, strlen(i->name));
    hs_vec_push(&u->bodies, b);
  }
  if (k->chunks == 0) k->fn = no_work;
  else k->body = b, b->users++;
  hs_vec_push(&u->kernels, k);
  *out = k;
  return HS_GOOD;
}

static void note_called(emit_region *r, const emit_ops *ops) {
  for (size_t k = 0; k < ops->n; k++) {
    const emit_op *o = &ops->v[k];
    for (u32 j = 0; j < o->nblocks; j++) note_called(r, &o->blocks[j]);
    if (o->kind != EMIT_OP_KERNEL) continue;
    if (o->inlined) o->kernel->body->inlined++;
    else hs_vec_push(&r->called, o->kernel);
  }
}

void emit_add_region(emit_unit *u, emit_region *r) {
  (void)snprintf(r->name, sizeof r->name, "r%zu", u->regions.n);
  note_called(r, &r->ops);
  r->fns = hs_calloc(r->called.n + 1, sizeof *r->fns);
  hs_vec_push(&u->regions, r);
}

hs_status emit_body_code(emit_body *b, LLVMContextRef ctx, LLVMModuleRef mod,
                         const emit_options *o) {
  // a body may be inlined into several regions, and have a function of its own
  (void)pthread_mutex_lock(&b->lock);
  hs_status s = cg_kernel(ctx, mod, b->n, b->name, o);
  (void)pthread_mutex_unlock(&b->lock);
  return s;
}

// Whether somebody calls the body's own function.
static bool has_callers(const emit_body *b) { return b->inlined < b->users; }

static void take_code(emit_kernel *e) {
  e->fn = e->body->fn, e->finish = e->body->finish;
  e->fn_bytes = e->body->fn_bytes, e->finish_bytes = e->body->finish_bytes;
}

// Gives kernels and regions the functions that their bodies have now.
static void link_functions(emit_unit *u) {
  for (size_t k = 0; k < u->kernels.n; k++) {
    emit_kernel *e = u->kernels.v[k];
    if (e->body) take_code(e);
  }
  for (size_t k = 0; k < u->regions.n; k++) {
    emit_region *r = u->regions.v[k];
    for (size_t j = 0; j < r->called.n; j++)
      r->fns[j] = (emit_calls){r->called.v[j]->fn, r->called.v[j]->finish};
  }
}

void emit_reuse(emit_unit *u, emit_code *code) { u->code = code; }

hs_status emit_finish(emit_unit *u, bool all, u32 threads, double *out_ms) {
  u64 t0 = hs_now_ns();
  if (!u->jit) HS_TRY(emit_jit_new(&u->options, &u->jit));
  emit_work w = {0};
  emit_body **bodies = hs_alloc((u->bodies.n + 1) * sizeof *bodies);
  emit_region **regions = hs_alloc((u->regions.n + 1) * sizeof *regions);
  for (size_t k = 0; k < u->bodies.n; k++)
    if (!u->bodies.v[k]->fn && (all || has_callers(u->bodies.v[k])))
      bodies[w.nbodies++] = u->bodies.v[k];
  for (size_t k = 0; k < u->regions.n; k++)
    if (!u->regions.v[k]->fn) regions[w.nregions++] = u->regions.v[k];
  w.bodies = bodies, w.regions = regions;
  w.known = u->bodies.v, w.nknown = (u32)u->bodies.n;
  hs_status s = emit_jit_compile(u->jit, &w, threads, u->code);
  u->code = NULL;
  hs_free(bodies);
  hs_free(regions);
  if (hs_ok(s)) link_functions(u);
  if (out_ms) *out_ms = (double)(hs_now_ns() - t0) * 1e-6;
  return s;
}

hs_status emit_dump(emit_unit *u, const char *what, hs_buf *out) {
  if (!strcmp(what, "schedule")) {
    for (size_t k = 0; k < u->kernels.n; k++) {
      const emit_kernel *e = u->kernels.v[k];
      hs_buf_printf(out, "%s: %s, %lld chunks%s%s\n", e->instr->name, emit_kind_name(e->kind),
                    (long long)e->chunks, e->body ? ", " : "", e->body ? e->body->name : "");
    }
    for (size_t k = 0; k < u->bodies.n; k++) {
      hs_buf_printf(out, "\n%s:\n", u->bodies.v[k]->name);
      nest_print(u->bodies.v[k]->n, out);
    }
    return HS_GOOD;
  }
  const emit_work w = {.nbodies = (u32)u->bodies.n,
                       .nregions = (u32)u->regions.n,
                       .bodies = u->bodies.v,
                       .regions = u->regions.v};
  if (!strcmp(what, "llvm") || !strcmp(what, "asm"))
    return emit_jit_text(&u->options, &w, what[0] == 'a', out);
  return hs_fail(HS_E_USAGE, "no dump called '%s': llvm, asm or schedule", what);
}

void emit_unit_free(emit_unit *u) {
  if (!u) return;
  emit_jit_free(u->jit);
  for (size_t k = 0; k < u->bodies.n; k++) body_free(u->bodies.v[k]);
  hs_vec_free(&u->bodies);
  hs_vec_free(&u->regions);
  hs_vec_free(&u->kernels);
  hs_arena_free(&u->arena);
  hs_free(u);
}
