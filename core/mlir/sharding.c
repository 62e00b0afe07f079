// sharding.c — attributes that every operation and argument may have: shardings, as HLO's text
// (mhlo.sharding) or by the axes of a mesh (sdy.sharding), and the framework's attributes. What
// Shardy says is kept beside HLO's sharding in the framework's attributes, as XLA hands it on.
#include "core/mlir/tree.h"

#include <stdlib.h>

// ---- meshes -------------------------------------------------------------------------------------
enum { MOST_AXES = 64, MOST_DEVICES = 4096 };
// An axis of which only a part shards is several: its parts, the slowest first.
typedef struct mesh {
  u32 n;
  hs_str name[MOST_AXES];
  i64 size[MOST_AXES], before[MOST_AXES];  // of a part: the sizes of the axis's slower parts
  i64 devices;
  const i64 *ids;  // of the devices, in the order of the axes; NULL: 0, 1, ...
} mesh;

static const mlir_op *find_mesh(mlir_reader *R, hs_str name) {
  const mlir_region *top = R->funcs.n ? R->funcs.v[0]->op->parent : NULL;
  for (const mlir_op *op = top ? top->first : NULL; op; op = op->next) {
    hs_str symbol = {0};
    if (hs_str_eq(op->name, HS_STR("sdy.mesh")) &&
        mlir_get_string(R, &op->attrs, "sym_name|callee", &symbol) && hs_str_eq(symbol, name))
      return op;
  }
  return NULL;
}

// device_ids=[1, 0]: as many as the mesh has devices, each once.
static bool read_order(mlir_reader *R, mlir_span s, mesh *m) {
  const char *at = memmem(s.p, s.n, "device_ids", 10);
  const char *open = at ? memchr(at, '[', (size_t)(s.p + s.n - at)) : NULL;
  const char *end = open ? memchr(open, ']', (size_t)(s.p + s.n - open)) : NULL;
  if (!at) return true;
  mlir_place was = mlir_enter(R, (mlir_span){open, end ? (size_t)(end - open) + 1 : 0});
  bool ok = end && m->devices <= MOST_DEVICES && hlo_expect(RX, '[', "before the devices");
  i64 *ids = HS_NEW_ARRAY(&R->arena, i64, ok ? m->devices : 1), n = 0;
  for (; ok && hlo_peek(RX) != ']' && n < m->devices; n++) {
    if (n) ok = hlo_expect(RX, ',', "between devices");
    ok = ok && hlo_int(RX, &ids[n]) && ids[n] >= 0;
    for (i64 k = 0; ok && k < n; k++) ok = ids[k] != ids[n];
  }
  ok = ok && n == m->devices && hlo_peek(RX) == ']';
  mlir_leave(R, was);
  m->ids = ids;
  return ok || RX->failed || mlir_fail(R, HS_E_ATTR, "a mesh whose order is not of its devices");
}

// <["x"=2, "y"=4]>
static bool read_mesh(mlir_reader *R, hs_str name, mesh *m) {
  mlir_span s;
  *m = (mesh){.devices = 1};
  const mlir_op *op = find_mesh(R, name);
  if (!op || !mlir_get(R, &op->attrs, "mesh", &s))
    return mlir_fail(R, HS_E_NAME, "there is no mesh '@%.*s'", (int)HS_MIN(name.n, 80u), name.p);
  mlir_place was = mlir_enter(R, s);
  while (RX->p < RX->end && *RX->p != '[') RX->p++;
  bool ok = hlo_expect(RX, '[', "before the axes");
  while (ok && hlo_peek(RX) != ']' && m->n < MOST_AXES) {
    if (m->n) ok = hlo_expect(RX, ',', "between axes");
    ok = ok && mlir_string(RX, &m->name[m->n]) && hlo_expect(RX, '=', "after an axis") &&
         hlo_int(RX, &m->size[m->n]) && m->size[m->n] > 0 &&
         !__builtin_mul_overflow(m->devices, m->size[m->n], &m->devices);
    m->before[m->n++] = 1;
  }
  mlir_leave(R, was);
  if (!ok) return RX->failed || mlir_fail(R, HS_E_ATTR, "no mesh of axes and sizes");
  return read_order(R, s, m);
}

// "{mesh = #sdy.mesh<["x"=8]>}" of all meshes; empty when there is none.
void mlir_meshes(mlir_reader *R, hs_buf *b) {
  const mlir_region *top = R->funcs.n ? R->funcs.v[0]->op->parent : NULL;
  for (const mlir_op *op = top ? top->first : NULL; op; op = op->next) {
    hs_str name = {0};
    mlir_span s;
    if (!hs_str_eq(op->name, HS_STR("sdy.mesh")) || !mlir_get(R, &op->attrs, "mesh", &s) ||
        !mlir_get_string(R, &op->attrs, "sym_name|callee", &name))
      continue;
    const char *open = memchr(s.p, '<', s.n);
    size_t skip = open ? (size_t)(open - s.p) : 0;
    hs_buf_printf(b, "%s%.*s = #sdy.mesh%.*s", b->n ? ", " : "{", (int)name.n, name.p,
                  (int)(s.n - skip), s.p + skip);
  }
  if (b->n) hs_buf_putc(b, '}');
}

// ---- shardings by axes --------------------------------------------------------------------------
typedef struct tiling {
  mesh m;
  u32 rank, nused;
  i64 tiles[HLO_MAX_RANK];
  u32 used[MOST_AXES];     // axes by their use, dimension after dimension
  bool summed[MOST_AXES];  // axes along which it is still to be summed
} tiling;

// Where `at` devices of an axis have passed, one of its parts ends; false: it does not divide so,
// or what would be cut is in use.
static bool cut_axis(tiling *t, hs_str axis, i64 at) {
  mesh *m = &t->m;
  for (u32 k = 0; k < m->n; k++) {
    i64 before = m->before[k], behind = before * m->size[k];
    if (!hs_str_eq(m->name[k], axis) || at < before || at > behind) continue;
    if (at == before || at == behind) return true;
    if (m->n == MOST_AXES || at % before || behind % at || t->summed[k]) return false;
    for (u32 j = 0; j < t->nused; j++)
      if (t->used[j] == k) return false;
    for (u32 j = 0; j < t->nused; j++) t->used[j] += t->used[j] > k;
    for (u32 j = m->n++; j > k; j--) {
      m->name[j] = m->name[j - 1];
      m->size[j] = m->size[j - 1];
      m->before[j] = m->before[j - 1];
      t->summed[j] = t->summed[j - 1];
    }
    m->size[k] = at / before;
    m->size[k + 1] = behind / at;
    m->before[k + 1] = at;
    return true;
  }
  return false;
}

// One axis, "x", or a part of it, "x":(2)4: of size 4, behind parts whose sizes multiply to 2. It
// shards a dimension into *tiles, or with NULL what is to be summed is along it.
static bool read_axis(mlir_reader *R, tiling *t, i64 *tiles) {
  hs_str axis;
  i64 from = 1, size = 0;
  if (!mlir_string(RX, &axis)) return false;
  if (hlo_accept(RX, ':')) {
    i64 end;
    if (!hlo_expect(RX, '(', "before the size of what is before") || !hlo_int(RX, &from) ||
        !hlo_expect(RX, ')', "behind the size of what is before") || !hlo_int(RX, &size))
      return false;
    if (from < 1 || size < 1 || __builtin_mul_overflow(from, size, &end) ||
        !cut_axis(t, axis, from) || !cut_axis(t, axis, end))
      return mlir_fail(R, HS_E_ATTR, "there is no such part of axis \"%.*s\"",
                       (int)HS_MIN(axis.n, 80u), axis.p);
  }
  bool found = false;
  for (u32 k = 0; k < t->m.n; k++) {
    i64 before = t->m.before[k];
    if (!hs_str_eq(t->m.name[k], axis) || before < from || (size && before >= from * size))
      continue;
    found = true;
    for (u32 j = 0; j < t->nused; j++)
      if (t->used[j] == k && tiles) return mlir_fail(R, HS_E_ATTR, "an axis shards twice");
    if (tiles) t->used[t->nused++] = k, *tiles *= t->m.size[k];
    else t->summed[k] = true;
  }
  return found ||
         mlir_fail(R, HS_E_NAME, "the mesh has no axis \"%.*s\"", (int)HS_MIN(axis.n, 80u), axis.p);
}

// Behind the dimensions: unreduced={"x"}. The axes it is replicated along guide propagation only.
static bool read_summed(mlir_reader *R, tiling *t) {
  static const char what[] = "unreduced=";
  const char *at = memmem(RX->p, (size_t)(RX->end - RX->p), what, sizeof what - 1);
  if (!at) return true;
  RX->p = at + sizeof what - 1;
  bool ok = hlo_expect(RX, '{', "before the axes");
  for (bool first = true; ok && hlo_peek(RX) != '}'; first = false)
    ok = (first || hlo_expect(RX, ',', "between axes")) && read_axis(R, t, NULL);
  return ok;
}

// [{"x"}, {"y", ?}p1, {}] of <@mesh, ..>: '?' and priorities guide propagation only.
static bool read_tiling(mlir_reader *R, mlir_span s, tiling *t) {
  hs_str name;
  mlir_place was = mlir_enter(R, s);
  *t = (tiling){0};
  while (RX->p < RX->end && *RX->p != '@') RX->p++;
  bool ok = mlir_symbol(RX, &name) && hlo_expect(RX, ',', "after the mesh") &&
            hlo_expect(RX, '[', "before the dimensions");
  mlir_place here = {RX->p, RX->end};
  mlir_leave(R, was);
  ok = ok && read_mesh(R, name, &t->m);
  was = (mlir_place){RX->p, RX->end};
  mlir_leave(R, here);
  while (ok && hlo_peek(RX) != ']') {
    i64 tiles = 1;
    if (t->rank) ok = hlo_expect(RX, ',', "between dimensions");
    if (t->rank >= HLO_MAX_RANK) ok = mlir_fail(R, HS_E_LIMIT, "too many dimensions");
    ok = ok && hlo_expect(RX, '{', "before a dimension's axes");
    for (bool first = true; ok && hlo_peek(RX) != '}'; first = false) {
      if (!first) ok = hlo_expect(RX, ',', "between axes");
      if (!ok || hlo_accept(RX, '?')) continue;
      ok = read_axis(R, t, &tiles);
    }
    if (!ok) break;
    RX->p++;
    (void)mlir_word(RX);
    t->tiles[t->rank++] = tiles;
  }
  ok = ok && read_summed(R, t);
  mlir_leave(R, was);
  return ok;
}

// The devices one by one, where the mesh has an order of its own: axes order[0 .. n), the last one
// fastest.
static void print_devices(const mesh *m, u32 n, const u32 *order, hs_buf *b) {
  i64 stride[MOST_AXES], index[MOST_AXES] = {0}, all = 1;
  for (u32 k = m->n; k-- > 0; all *= m->size[k]) stride[k] = all;
  for (i64 d = 0; d < m->devices; d++) {
    i64 at = 0;
    for (u32 k = 0; k < n; k++) at += index[k] * stride[order[k]];
    hs_buf_printf(b, "%s%lld", d ? "," : "", (long long)m->ids[at]);
    for (u32 k = n; k-- > 0 && ++index[k] == m->size[order[k]];) index[k] = 0;
  }
}

// {devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}: the devices are those of the mesh, its axes
// in the order of their use; neighbouring axes that stay neighbours are one.
static void print_tiling(const tiling *t, hs_buf *b) {
  u32 order[MOST_AXES], n = 0, group[MOST_AXES], ngroups = 0, place[MOST_AXES];
  i64 sizes[MOST_AXES], rest = 1, sums = 1;
  bool used[MOST_AXES] = {false};
  for (u32 k = 0; k < t->nused; k++) {
    used[t->used[k]] = true;
    if (t->m.size[t->used[k]] > 1) order[n++] = t->used[k];
  }
  for (u32 k = 0; k < t->m.n; k++) {
    if (used[k] || t->summed[k] || t->m.size[k] == 1) continue;
    rest *= t->m.size[k];
    order[n++] = k;
  }
  for (u32 k = 0; k < t->m.n; k++) {
    if (used[k] || !t->summed[k] || t->m.size[k] == 1) continue;
    sums *= t->m.size[k];
    order[n++] = k;
  }
  const char *kinds = sums > 1 && rest > 1 ? " last_tile_dims={replicated, unreduced}"
                      : sums > 1           ? " last_tile_dims={unreduced}"
                      : rest > 1           ? " last_tile_dim_replicate"
                                           : "";
  if (!t->m.n && t->m.ids) {  // one device and no axes: what is only there
    hs_buf_printf(b, "{maximal device=%lld}", (long long)t->m.ids[0]);
    return;
  }
  if (rest == t->m.devices) {
    hs_buf_puts(b, "{replicated}");
    return;
  }
  // group[k]: in which group axis order[k] is
  for (u32 k = 0; k < n; k++) {
    bool next = k > 0;
    for (u32 j = k ? order[k - 1] + 1 : 0; next && j < order[k]; j++) next = t->m.size[j] == 1;
    if (!next || order[k] < order[k - 1]) sizes[ngroups++] = 1;
    group[k] = ngroups - 1;
    sizes[group[k]] *= t->m.size[order[k]];
  }
  // the place of each group among the mesh's axes
  u32 first[MOST_AXES];
  for (u32 k = n; k-- > 0;) first[group[k]] = order[k];
  for (u32 g = 0; g < ngroups; g++) {
    place[g] = 0;
    for (u32 h = 0; h < ngroups; h++) place[g] += first[h] < first[g];
  }
  hs_buf_puts(b, "{devices=[");
  for (u32 k = 0; k < t->rank; k++)
    hs_buf_printf(b, "%s%lld", k ? "," : "", (long long)t->tiles[k]);
  if (rest > 1) hs_buf_printf(b, "%s%lld", t->rank ? "," : "", (long long)rest);
  if (sums > 1) hs_buf_printf(b, "%s%lld", t->rank || rest > 1 ? "," : "", (long long)sums);
  if (t->m.ids) {
    hs_buf_putc(b, ']');
    print_devices(&t->m, n, order, b);
    hs_buf_printf(b, "%s}", kinds);
    return;
  }
  hs_buf_puts(b, "]<=[");
  for (u32 p = 0; p < ngroups; p++)
    for (u32 g = 0; g < ngroups; g++)
      if (place[g] == p) hs_buf_printf(b, "%s%lld", p ? "," : "", (long long)sizes[g]);
  hs_buf_putc(b, ']');
  if (ngroups > 1) {
    hs_buf_puts(b, "T(");
    for (u32 g = 0; g < ngroups; g++) hs_buf_printf(b, "%s%u", g ? "," : "", place[g]);
    hs_buf_putc(b, ')');
  }
  hs_buf_printf(b, "%s}", kinds);
}

bool mlir_sdy_sharding(mlir_reader *R, mlir_span s, hs_buf *b) {
  tiling t;
  if (!read_tiling(R, s, &t)) return false;
  print_tiling(&t, b);
  return true;
}

// ---- attributes ---------------------------------------------------------------------------------
// The text of HLO's sharding: mhlo.sharding, or what sdy.sharding stands for; of several results a
// tuple. False: there is none, or an error.
static bool sharding_text(mlir_reader *R, const mlir_attrs *attrs, hs_buf *b) {
  mlir_span s, *v;
  hs_str text;
  u32 n;
  if (mlir_get(R, attrs, "mhlo.sharding", &s)) {
    if (!mlir_string_of(R, s, &text)) return false;
    hs_buf_printf(b, "%.*s", (int)text.n, text.p);
    if (!text.n) hs_buf_puts(b, "{replicated}");
    return true;
  }
  if (!mlir_get(R, attrs, "sdy.sharding", &s)) return false;
  const char *open = memmem(s.p, s.n, "<[", 2);
  if (!open || !memmem(s.p, (size_t)(open - s.p), "per_value", 9))
    return mlir_sdy_sharding(R, s, b);
  s = (mlir_span){open + 1, (size_t)(s.p + s.n - open - 2)};
  if (!mlir_array_of(R, s, &n, &v)) return false;
  if (n != 1) hs_buf_putc(b, '{');
  for (u32 k = 0; k < n; k++) {
    if (k) hs_buf_puts(b, ", ");
    if (!mlir_sdy_sharding(R, v[k], b)) return false;
  }
  if (n != 1) hs_buf_putc(b, '}');
  return true;
}

bool mlir_sharding_of(mlir_reader *R, const mlir_attrs *attrs, hlo_attr *out) {
  hs_buf b = {0};
  *out = (hlo_attr){HLO_ATTR_SHARDING, {0}};
  bool ok = sharding_text(R, attrs, &b) && !RX->failed;
  ok = ok && hlo_lex_status(RX, hlo_parse_attr(R->m, b.p, b.n, out), R->op ? R->op->at : NULL);
  hs_buf_free(&b);
  return ok;
}

static hs_str kept(mlir_reader *R, hs_str s) {
  return (hs_str){hs_arena_strndup(&R->m->arena, s.p, s.n), s.n};
}

static int by_key(const void *a, const void *b) {
  const hlo_frontend_entry *x = a, *y = b;
  int order = memcmp(x->key.p, y->key.p, HS_MIN(x->key.n, y->key.n));
  return order ? order : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

bool mlir_frontend(mlir_reader *R, u32 n, hlo_frontend_entry *e, hlo_attr *out) {
  hlo_frontend *f = HS_NEW(&R->m->arena, hlo_frontend);
  hlo_frontend_entry *v = HS_NEW_ARRAY(&R->m->arena, hlo_frontend_entry, HS_MAX(n, 1u));
  for (u32 k = 0; k < n; k++) v[k] = (hlo_frontend_entry){kept(R, e[k].key), kept(R, e[k].value)};
  if (n > 1) qsort(v, n, sizeof *v, by_key);
  *f = (hlo_frontend){n, v};
  *out = (hlo_attr){HLO_ATTR_FRONTEND_ATTRIBUTES, {.p = f}};
  return n > 0;
}

// HLO text has no quotes for the name of a frontend attribute.
static bool is_word(hs_str s) {
  return s.n && hlo_is_ch(*s.p, HLO_CH_START) && hlo_scan_ident(s.p + 1, s.p + s.n) == s.p + s.n;
}

bool mlir_frontend_of(mlir_reader *R, const mlir_attrs *attrs, hlo_attr *out) {
  static const struct {
    const char *ours;
    hs_str hlo;
  } shardy[] = {{"sdy.sharding", {"xla.sdy.sharding", 16}},
                {"sdy.sharding_rule", {"xla.sdy.sharding_rule", 21}}};
  mlir_span s;
  mlir_attrs dict = {0};
  if (mlir_get(R, attrs, "mhlo.frontend_attributes", &s) && !mlir_dict_of(R, s, &dict))
    return false;
  u32 n = 0;
  hlo_frontend_entry *e = HS_NEW_ARRAY(&R->arena, hlo_frontend_entry, dict.n + HS_COUNT(shardy));
  for (u32 k = 0; k < dict.n; k++) {
    hs_str value = dict.v[k].value;
    if (!is_word(dict.v[k].name))
      return mlir_fail(R, HS_E_NO_HLO, "a frontend attribute whose name is no word");
    if (value.n && *value.p == '"' && !mlir_string_of(R, value, &value)) return false;
    e[n++] = (hlo_frontend_entry){dict.v[k].name, value};
  }
  for (size_t k = 0; k < HS_COUNT(shardy); k++)
    if (mlir_get(R, attrs, shardy[k].ours, &s)) e[n++] = (hlo_frontend_entry){shardy[k].hlo, s};
  return n && mlir_frontend(R, n, e, out);
}
