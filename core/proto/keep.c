// keep.c — keeping fields that the module does not represent, and putting them back. See keep.h.
// Both directions traverse the wire form along the schema, so a new field of XLA survives at any
// depth without a change here. Protocol buffers themselves keep unknown fields in the same way.
#include "core/proto/keep.h"
#include "core/proto/schema.h"

enum { MAX_DEPTH = 200 };

typedef struct counter {
  u32 num, n;
} counter;
typedef HS_VEC(counter) counters;

// How many submessages of this number came before.
static u32 count(counters *c, u32 num) {
  for (size_t k = 0; k < c->n; k++)
    if (c->v[k].num == num) return c->v[k].n++;
  hs_vec_push(c, ((counter){num, 1}));
  return 0;
}

static const pb_kept *keep_at(hs_arena *a, pb m, u32 message, u32 depth) {
  HS_VEC(pb_kept_entry) all = {0};
  counters seen = {0};
  for (pb_field f; pb_next(&m, &f);) {
    const pb_row *r = pb_row_by_number(message, f.num);
    if (!r || r->use == PB_KEEP) {
      size_t n = (size_t)(m.p - f.at);
      hs_vec_push(&all, ((pb_kept_entry){.num = f.num,
                                         .raw = {hs_arena_strndup(a, (const char *)f.at, n), n}}));
    } else if (r->use == PB_IR && r->type == PB_MESSAGE && f.wire == 2) {
      u32 nth = count(&seen, f.num);
      const pb_kept *sub = depth < MAX_DEPTH ? keep_at(a, f.sub, r->sub, depth + 1) : NULL;
      if (sub) hs_vec_push(&all, ((pb_kept_entry){.num = f.num, .nth = nth, .sub = sub}));
    }
  }
  pb_kept *out = NULL;
  if (all.n) {
    out = HS_NEW(a, pb_kept);
    *out = (pb_kept){(u32)all.n, hs_arena_dup(a, all.v, all.n * sizeof *all.v)};
  }
  hs_vec_free(&all);
  hs_vec_free(&seen);
  return out;
}

const pb_kept *pb_keep(hs_arena *a, pb m, u32 message) { return keep_at(a, m, message, 0); }

static const pb_kept_entry *find(const pb_kept *k, u32 num, u32 nth, bool sub) {
  for (u32 i = 0; i < k->n; i++)
    if (k->v[i].num == num && (k->v[i].sub != NULL) == sub && (!sub || k->v[i].nth == nth))
      return &k->v[i];
  return NULL;
}

bool pb_kept_has(const pb_kept *k, u32 num) { return find(k, num, 0, false) != NULL; }

static u32 restore(hs_buf *out, pb m, u32 message, const pb_kept *k) {
  u32 lost = 0;
  counters seen = {0};
  for (pb_field f; pb_next(&m, &f);) {
    const pb_row *r = pb_row_by_number(message, f.num);
    bool nested = r && r->type == PB_MESSAGE && f.wire == 2;
    const pb_kept_entry *e = nested ? find(k, f.num, count(&seen, f.num), true) : NULL;
    if (find(k, f.num, 0, false)) continue;  // the kept one stands for it
    if (!e) {
      hs_buf_put(out, (const char *)f.at, (size_t)(m.p - f.at));
      continue;
    }
    size_t mark = pb_begin(out);
    lost += restore(out, f.sub, r->sub, e->sub);
    pb_end(out, f.num, mark);
  }
  for (u32 i = 0; i < k->n; i++) {
    const pb_kept_entry *e = &k->v[i];
    if (e->raw.n) {
      hs_buf_put(out, e->raw.p, e->raw.n);
      continue;
    }
    bool written = false;
    for (size_t c = 0; c < seen.n; c++) written |= seen.v[c].num == e->num && seen.v[c].n > e->nth;
    const pb_row *r = pb_row_by_number(message, e->num);
    if (written || !r) continue;
    if (r->many) {
      lost++;
      continue;
    }  // the element is gone
    size_t mark = pb_begin(out);
    lost += restore(out, (pb){0}, r->sub, e->sub);
    pb_end(out, e->num, mark);
  }
  hs_vec_free(&seen);
  return lost;
}

u32 pb_restore(hs_buf *b, size_t mark, u32 message, const pb_kept *k) {
  if (!k) return 0;
  hs_buf out = {0};
  u32 lost =
      restore(&out, (pb){(const u8 *)b->p + mark, (const u8 *)b->p + b->n, false}, message, k);
  b->n = mark;
  hs_buf_put(b, out.p, out.n);
  hs_buf_free(&out);
  return lost;
}

const pb_kept *pb_kept_without(hs_arena *a, const pb_kept *k, u32 num) {
  if (!k) return NULL;
  pb_kept_entry *v = HS_NEW_ARRAY(a, pb_kept_entry, k->n + 1);
  u32 n = 0;
  for (u32 i = 0; i < k->n; i++)
    if (k->v[i].num != num) v[n++] = k->v[i];
  pb_kept *out = HS_NEW(a, pb_kept);
  *out = (pb_kept){n, v};
  return out;
}

// ---- copies -------------------------------------------------------------------------------------
static const pb_kept *copy(hs_arena *a, const pb_kept *k) {
  if (!k) return NULL;
  pb_kept_entry *v = hs_arena_dup(a, k->v, k->n * sizeof *v);
  for (u32 i = 0; i < k->n; i++) {
    if (v[i].sub) v[i].sub = copy(a, v[i].sub);
    else v[i].raw.p = hs_arena_strndup(a, v[i].raw.p, v[i].raw.n);
  }
  pb_kept *out = HS_NEW(a, pb_kept);
  *out = (pb_kept){k->n, v};
  return out;
}

static hlo_kept_part *absent_parts(hs_arena *a, u32 n) {
  hlo_kept_part *v = HS_NEW_ARRAY(a, hlo_kept_part, n + 1);
  for (u32 k = 0; k < n; k++) v[k].id = -1;
  return v;
}

void hlo_proto_kept_copy(hlo_module *to, const hlo_module *from, hlo_instr *const *instrs,
                         hlo_computation *const *comps) {
  const hlo_proto_kept *k = from->proto_kept;
  if (!k) return;
  hs_arena *a = &to->arena;
  hlo_proto_kept *out = HS_NEW(a, hlo_proto_kept);
  *out = *k;
  out->generation = k->generation == from->generation ? to->generation : ~(u64)0;
  out->wrapper = copy(a, k->wrapper);
  out->hlo = copy(a, k->hlo);
  out->module = copy(a, k->module);
  hlo_kept_part *c = absent_parts(a, to->next_comp_id), *i = absent_parts(a, to->next_instr_id);
  for (u32 n = 0; n < k->ncomps; n++) {
    if (k->comps[n].id < 0 || !comps[n]) continue;
    c[comps[n]->id] = k->comps[n];
    c[comps[n]->id].fields = copy(a, k->comps[n].fields);
  }
  for (u32 n = 0; n < k->ninstrs; n++) {
    hlo_instr *made = k->instrs[n].id < 0 ? NULL : instrs[n];
    if (!made) continue;
    hlo_computation *home = k->instrs[n].comp < k->ncomps ? comps[k->instrs[n].comp] : NULL;
    i[made->id] = k->instrs[n];
    i[made->id].comp = home ? home->id : ~0u;
    i[made->id].fields = copy(a, k->instrs[n].fields);
  }
  out->comps = c;
  out->instrs = i;
  out->ncomps = to->next_comp_id;
  out->ninstrs = to->next_instr_id;
  to->proto_kept = out;
  to->copy_kept = hlo_proto_kept_copy;
}
