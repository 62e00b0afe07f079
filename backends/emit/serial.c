// serial.c — a nest as bytes: two kernels with equal bytes are the same function; and a region as
// bytes, so that code which was made before can be told to be its code.
//
// Constant data enters by two hashes of its content, everything else in full. Variables are
// numbered in the order in which they are visited, because split and merged loops leave unused ones
// behind.
#include "backends/emit/unit.h"

#include <stdio.h>

static void put(hs_buf *b, const void *p, size_t n) { hs_buf_put(b, p, n); }
static void put_u(hs_buf *b, u64 v) { put(b, &v, sizeof v); }

typedef struct numbering {
  const nest *n;
  u32 *no, next;
} numbering;

static void put_expr(hs_buf *b, numbering *m, const nest_expr *e);

static void put_var(hs_buf *b, numbering *m, u32 var) {
  if (m->no[var] != NEST_NONE) {
    put_u(b, m->no[var]);
    return;
  }
  m->no[var] = m->next++;
  const nest_var *v = &m->n->vars.v[var];
  put_u(b, m->no[var]);
  put_u(b, v->kind);
  put_u(b, (u64)v->lo);
  put_u(b, (u64)v->hi);
  put_u(b, (u64)v->d);
  put_u(b, v->kind == NEST_VALUE ? v->node : 0);
  put_expr(b, m, v->e);
}

static void put_expr(hs_buf *b, numbering *m, const nest_expr *e) {
  if (!e) {
    put_u(b, UINT64_MAX);
    return;
  }
  put_u(b, e->n);
  put_u(b, (u64)e->c);
  for (u32 i = 0; i < e->n; i++) put_var(b, m, e->t[i].var), put_u(b, (u64)e->t[i].coef);
}

static void put_stage(hs_buf *b, numbering *m, const nest_stage *s) {
  put_u(b, s->nloops), put_u(b, s->is_split), put_u(b, s->ways);
  put_u(b, s->scan), put_u(b, (u64)s->scanned);
  if (s->scan) put_u(b, s->segment != NEST_NONE);
  for (u32 k = 0; k < s->nloops; k++) put_var(b, m, s->loops[k]);
  put_u(b, s->vector), put_u(b, s->stream);
  put_u(b, s->tile);
  put_u(b, s->lanes);
  put_u(b, s->unroll);
  put_u(b, s->row_lanes), put_u(b, s->row_unroll);
  put_u(b, (u64)s->chunks);
  put(b, (const char *)s->split, s->nloops * sizeof *s->split);
  put(b, (const char *)s->block, s->nloops * sizeof *s->block);
  put_u(b, s->stores.n);
  for (size_t k = 0; k < s->stores.n; k++)
    put_u(b, s->stores.v[k].buf), put_u(b, s->stores.v[k].node), put_expr(b, m, s->stores.v[k].e);
}

static void put_order(hs_buf *b, numbering *m, const nest_order *o) {
  put_stage(b, m, &o->stage);
  put_var(b, m, o->along);
  put_u(b, o->less.next[0]), put_u(b, o->unique), put_u(b, o->places);
  put_u(b, o->starts), put_u(b, (u64)o->limits);
  put_u(b, o->key_bits), put_u(b, o->key_bits ? o->key.next[0] : NEST_NONE);
  put_u(b, o->counts), put_u(b, (u64)o->wanted);
}

void nest_serialize(const nest *n, hs_buf *b) {
  numbering m = {n, hs_alloc((n->vars.n + 1) * sizeof(u32)), 0};
  for (size_t i = 0; i < n->vars.n; i++) m.no[i] = NEST_NONE;
  put_u(b, n->nodes.n);
  for (size_t i = 0; i < n->nodes.n; i++) {
    const nest_node *x = &n->nodes.v[i];
    put_u(b, x->kind);
    put_u(b, x->dtype);
    put_u(b, x->op);
    put_u(b, x->in);
    put_u(b, (u64)x->attr[0]);
    put_u(b, (u64)x->attr[1]);
    put_u(b, x->nargs);
    put(b, (const char *)x->args, sizeof x->args);
    put(b, (const char *)x->bits, sizeof x->bits);
    put_u(b, (u64)x->lo);
    put_u(b, (u64)x->hi);
    put_u(b, x->buf);
    put_u(b, x->guard);
    put_u(b, x->written_by);
    put_u(b, x->group);
    put_u(b, x->k);
    put_expr(b, &m, x->e);
  }
  put_u(b, n->groups.n);
  for (size_t i = 0; i < n->groups.n; i++) {
    const nest_group *g = &n->groups.v[i];
    put_u(b, g->nloops);
    for (u32 k = 0; k < g->nloops; k++) put_var(b, &m, g->loops[k]);
    put_u(b, g->nacc);
    for (u32 k = 0; k < g->nacc; k++)
      put_u(b, g->in[k]), put_u(b, g->init[k]), put_u(b, g->next[k]), put_u(b, g->acc[k]),
          put_u(b, g->elem[k]), put_u(b, g->out[k]);
    put_u(b, g->cond);
    put_u(b, g->seg != NEST_NONE);
    put_u(b, (u64)g->seg_size);
    put_u(b, g->monoid);
    for (u32 k = 0; g->start && k < g->nacc; k++) put_u(b, g->start[k]);
    put_u(b, g->free_order), put_u(b, g->resumes), put_u(b, g->from), put_u(b, g->to);
    put_u(b, g->merged_into);
  }
  put_u(b, n->order != NULL);
  if (n->order) put_order(b, &m, n->order);
  put_u(b, n->bufs.n);
  for (size_t i = 0; i < n->bufs.n; i++) {
    const nest_buf *f = &n->bufs.v[i];
    put_u(b, f->dtype), put_u(b, (u64)f->elements), put_u(b, (u64)f->arg), put_u(b, (u64)f->offset);
    put_u(b, f->holds_rows);
    if (f->data)
      put_u(b, hs_hash_bytes(f->data, (size_t)f->elements * hlo_dtype_storage(f->dtype), 1)),
          put_u(b, hs_hash_bytes(f->data, (size_t)f->elements * hlo_dtype_storage(f->dtype), 2));
  }
  put_u(b, n->stages.n);
  for (size_t i = 0; i < n->stages.n; i++) put_stage(b, &m, &n->stages.v[i]);
  put_u(b, n->finish.n);
  for (size_t i = 0; i < n->finish.n; i++) put_stage(b, &m, &n->finish.v[i]);
  hs_free(m.no);
}

// ---- what code is the code of -------------------------------------------------------------------
void emit_constant_symbol(const char *body, size_t k, char out[EMIT_SYMBOL_BYTES]) {
  (void)snprintf(out, EMIT_SYMBOL_BYTES, "%s.c%zu", body, k);
}

static void put_text(hs_buf *b, const char *s) { put(b, s, strlen(s) + 1); }

void emit_body_identity(const emit_body *x, hs_buf *b) {
  put_text(b, x->name);
  put_u(b, x->key.n);
  put(b, x->key.p, x->key.n);
}

static void put_ops(hs_buf *b, const emit_ops *ops) {
  put_u(b, ops->n);
  for (size_t k = 0; k < ops->n; k++) {
    const emit_op *o = &ops->v[k];
    put_u(b, o->kind);
    put_u(b, o->kernel != NULL), put_u(b, o->inlined);
    if (o->kernel) put_u(b, (u64)o->kernel->chunks), put_u(b, (u64)o->kernel->finish_chunks);
    if (o->kernel && o->kernel->body) emit_body_identity(o->kernel->body, b);
    put_u(b, o->nin), put_u(b, o->n);
    for (u32 j = 0; j < o->n; j++) put_u(b, o->slots[j]);
    put_u(b, o->scratch), put_u(b, o->number);
    put_u(b, o->to), put_u(b, o->from), put_u(b, o->bytes);
    put_u(b, o->pred), put_u(b, o->predicate);
    put_u(b, o->nblocks);
    for (u32 j = 0; j < o->nblocks; j++) put_ops(b, &o->blocks[j]);
  }
}

void emit_region_identity(const emit_region *r, hs_buf *b) {
  put_text(b, r->name);
  put_u(b, r->nslots);
  for (u32 k = 0; k < r->nslots; k++) {
    const emit_slot *s = &r->slots[k];
    put_u(b, s->bytes), put_u(b, s->local), put_u(b, s->in), put_u(b, s->out);
    put_u(b, s->exchanged);
    bool known = s->data && s->bytes <= EMIT_KNOWN_BYTES;
    put_u(b, known);
    if (known) put(b, s->data, s->bytes);
  }
  put_ops(b, &r->ops);
}
