// emit.c — a unit: the kernels that are compiled together.
//
// emit_add lowers and schedules an instruction and looks for an equal kernel among those already in
// the unit: nests are compared by their serialized bytes, after a hash. emit_finish hands the
// distinct ones to the JIT. Constant arrays are copied, because the module may be freed before the
// code.
#include "backends/emit/unit.h"

#include <stdio.h>

struct emit_unit {
  hs_arena arena;
  emit_options options;
  HS_VEC(emit_kernel *) kernels;
  HS_VEC(emit_body *) body_of;  // per kernel; NULL when there is nothing to do
  HS_VEC(emit_body *) bodies;
  size_t compiled;  // bodies that have code
  emit_jit *jit;
};

static void no_work(void *const *bufs, i64 chunk, void *scratch) {
  (void)bufs, (void)chunk, (void)scratch;
}

bool emit_supports(const hlo_instr *i, hs_buf *why) { return nest_supports(i, why); }
void emit_warm_up(void) { emit_jit_warm_up(); }

hs_status emit_unit_new(const emit_options *o, emit_unit **out) {
  *out = hs_calloc(1, sizeof **out);
  if (o) (*out)->options = *o;
  if (!(*out)->options.vector_bytes) (*out)->options.vector_bytes = emit_vector_bytes();
  return HS_GOOD;
}

static void body_free(emit_body *b) {
  for (size_t k = 0; k < b->n->bufs.n; k++)
    if (b->n->bufs.v[k].arg == NEST_BUF_CONST) hs_free((void *)(uintptr_t)b->n->bufs.v[k].data);
  nest_free(b->n);
  hs_arena_free(&b->arena);
  hs_buf_free(&b->key);
  hs_free(b);
}

// Constant arrays are copied: the module they come from may be freed before the code.
static void own_constants(nest *n) {
  for (size_t k = 0; k < n->bufs.n; k++) {
    nest_buf *b = &n->bufs.v[k];
    if (b->arg != NEST_BUF_CONST) continue;
    size_t bytes = (size_t)b->elements * hlo_dtype_storage(b->dtype);
    void *p = hs_alloc(bytes + 64);
    memcpy(p, b->data, bytes);
    b->data = p;
  }
}

hs_status emit_add(emit_unit *u, const hlo_instr *i, const emit_kernel **out) {
  emit_body *b = hs_calloc(1, sizeof *b);
  *out = NULL;
  hs_status s = nest_lower(&b->arena, i, &b->n);
  if (!hs_ok(s)) {
    hs_arena_free(&b->arena);
    hs_free(b);
    return s;
  }
  nest_simplify(b->n);
  nest_schedule(b->n, u->options.vector_bytes);
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
    own_constants(b->n);
    (void)snprintf(b->name, sizeof b->name, "k%zu", u->bodies.n);
    b->of = hs_arena_strndup(&b->arena, i->name, strlen(i->name));
    hs_vec_push(&u->bodies, b);
  }
  if (k->chunks == 0) k->fn = no_work;
  hs_vec_push(&u->kernels, k);
  hs_vec_push(&u->body_of, k->chunks == 0 ? NULL : b);
  *out = k;
  return HS_GOOD;
}

hs_status emit_finish(emit_unit *u, u32 threads, double *out_ms) {
  u64 t0 = hs_now_ns();
  if (!u->jit) HS_TRY(emit_jit_new(&u->options, &u->jit));
  HS_TRY(emit_jit_compile(u->jit, (u32)(u->bodies.n - u->compiled), u->bodies.v + u->compiled,
                          threads));
  u->compiled = u->bodies.n;
  for (size_t k = 0; k < u->kernels.n; k++)
    if (u->body_of.v[k])
      u->kernels.v[k]->fn = u->body_of.v[k]->fn, u->kernels.v[k]->finish = u->body_of.v[k]->finish;
  if (out_ms) *out_ms = (double)(hs_now_ns() - t0) * 1e-6;
  return HS_GOOD;
}

hs_status emit_dump(emit_unit *u, const char *what, hs_buf *out) {
  if (!strcmp(what, "schedule")) {
    for (size_t k = 0; k < u->kernels.n; k++) {
      const emit_kernel *e = u->kernels.v[k];
      hs_buf_printf(out, "%s: %s, %lld chunks%s%s\n", e->instr->name, emit_kind_name(e->kind),
                    (long long)e->chunks, u->body_of.v[k] ? ", " : "",
                    u->body_of.v[k] ? u->body_of.v[k]->name : "");
    }
    for (size_t k = 0; k < u->bodies.n; k++) {
      hs_buf_printf(out, "\n%s:\n", u->bodies.v[k]->name);
      nest_print(u->bodies.v[k]->n, out);
    }
    return HS_GOOD;
  }
  if (!strcmp(what, "llvm") || !strcmp(what, "asm"))
    return emit_jit_text(&u->options, (u32)u->bodies.n, u->bodies.v, what[0] == 'a', out);
  return hs_fail(HS_E_USAGE, "no dump called '%s': llvm, asm or schedule", what);
}

void emit_unit_free(emit_unit *u) {
  if (!u) return;
  emit_jit_free(u->jit);
  for (size_t k = 0; k < u->bodies.n; k++) body_free(u->bodies.v[k]);
  hs_vec_free(&u->bodies);
  hs_vec_free(&u->body_of);
  hs_vec_free(&u->kernels);
  hs_arena_free(&u->arena);
  hs_free(u);
}
