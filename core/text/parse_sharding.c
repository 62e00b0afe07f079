// parse_sharding.c — shardings and replica groups: lists of devices (V1), iota tile assignments
// [2,4]<=[8] (V2), named meshes and axes (V3). XLA: hlo_sharding.cc, tile_assignment.h,
// ParseSharding and ParseReplicaGroups in hlo_parser.cc.
#include "core/text/parse.h"

static i64 product(hlo_ints l) {
  i64 p = 1;
  for (u32 i = 0; i < l.n; i++)
    if (!hs_mul_ok(p, l.v[i], &p)) return -1;
  return p;
}

// [reshape] (T(perm))?, canonical as in XLA's IotaTileAssignment: no dimensions of size 1,
// neighbours that stay neighbours merged. T is required exactly when there is more than one reshape
// dimension.
static bool read_iota(hlo_parser *P, hlo_ints *reshape, hlo_ints *perm) {
  const char *at = (hlo_skip(LX), LX->p);
  if (!hlo_read_ints(P, '[', ']', reshape)) return false;
  *perm = (hlo_ints){0};
  for (u32 i = 0; i < reshape->n; i++)
    if (reshape->v[i] <= 0)
      return hlo_lex_error(LX, HS_E_ATTR, at, "iota reshape dimensions must be positive");
  if (reshape->n == 0) return hlo_lex_error(LX, HS_E_ATTR, at, "expects iota reshape dimensions");
  if (reshape->n == 1) return true;
  hs_str id = hlo_peek_ident(LX);
  if (!hs_str_eq(id, HS_STR("T")))
    return hlo_lex_error(LX, HS_E_SYNTAX, NULL,
                         "Expects 'T' for the transpose of more than one iota dimension");
  LX->p += 1;
  at = LX->p;
  if (!hlo_read_ints(P, '(', ')', perm)) return false;
  bool seen[HLO_MAX_RANK] = {0};
  bool ok = perm->n == reshape->n && perm->n <= HLO_MAX_RANK;
  for (u32 i = 0; ok && i < perm->n; i++) {
    ok = perm->v[i] >= 0 && perm->v[i] < perm->n && !seen[perm->v[i]];
    if (ok) seen[perm->v[i]] = true;
  }
  return ok || hlo_lex_error(LX, HS_E_ATTR, at,
                             "the iota transpose is no permutation of the reshape dimensions");
}

// ---- meshes and axes ----------------------------------------------------------------------------
static bool mesh_follows(hlo_parser *P) {
  hs_str id = hlo_peek_ident(LX);
  return (hs_str_eq(id, HS_STR("mesh")) || hs_str_eq(id, HS_STR("maximal_mesh"))) &&
         id.p + id.n < LX->end && id.p[id.n] == '[';
}

static bool read_device_ids(hlo_parser *P, hlo_mesh *mesh, const char *at) {
  if (!hlo_expect(LX, '=', "behind device_ids") ||
      !hlo_expect(LX, '(', "in front of the device ids"))
    return false;
  hlo_ints sizes = {mesh->naxes, mesh->sizes};
  i64 count = 0;
  if (hlo_peek(LX) == '[') {
    if (!read_iota(P, &mesh->reshape, &mesh->perm)) return false;
    count = product(mesh->reshape);
  } else {
    size_t mark = P->ints.n;
    while (hlo_peek(LX) != ')') {
      i64 v;
      if (!hlo_int(LX, &v)) return false;
      hs_vec_push(&P->ints, v);
      if (!hlo_accept(LX, ',')) break;
    }
    hlo_ints ids = hlo_keep_ints(P, mark);
    mesh->ndevices = ids.n;
    mesh->devices = ids.v;
    count = ids.n;
  }
  if (!hlo_expect(LX, ')', "at the end of the device ids")) return false;
  if (product(sizes) != count)
    return hlo_lex_error(LX, HS_E_ATTR, at,
                         "the number of device_ids (%lld) does not match the mesh size (%lld)",
                         (long long)count, (long long)product(sizes));
  return true;
}

// The `, device_ids=(...)` behind the axes is taken only when it is there; a comma followed by
// anything else is left.
static bool read_mesh(hlo_parser *P, const hlo_mesh **out) {
  hlo_mesh *mesh = HS_NEW(LX->arena, hlo_mesh);
  *out = mesh;
  hs_str id = hlo_ident(LX);
  mesh->maximal = id.n > 4;
  if (!hlo_expect(LX, '[', "in front of the mesh")) return false;
  if (mesh->maximal) {
    if (!hlo_accept_word(LX, "device_id") || !hlo_expect(LX, '=', "behind device_id"))
      return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects device_id=");
    return hlo_int(LX, &mesh->device_id) && hlo_expect(LX, ']', "at the end of the mesh");
  }
  const char *names[HLO_MAX_RANK];
  i64 sizes[HLO_MAX_RANK];
  while (hlo_peek(LX) != ']') {
    hs_str name;
    const char *at = LX->p;
    if (hlo_accept_word(LX, "device_ids")) {  // inside the brackets too
      mesh->names = hs_arena_dup(LX->arena, names, mesh->naxes * sizeof *names);
      mesh->sizes = hs_arena_dup(LX->arena, sizes, mesh->naxes * sizeof *sizes);
      return read_device_ids(P, mesh, at) && hlo_expect(LX, ']', "at the end of the mesh");
    }
    if (mesh->naxes == HLO_MAX_RANK)
      return hlo_lex_error(LX, HS_E_LIMIT, NULL, "more than %d mesh axes", HLO_MAX_RANK);
    if (!hlo_string_copy(LX, &name) || !hlo_expect(LX, '=', "behind the axis name") ||
        !hlo_int(LX, &sizes[mesh->naxes]))
      return false;
    if (sizes[mesh->naxes] <= 0)
      return hlo_lex_error(LX, HS_E_ATTR, NULL, "a mesh axis has a positive size");
    names[mesh->naxes++] = name.p;
    if (!hlo_accept(LX, ',')) break;
  }
  if (!hlo_expect(LX, ']', "at the end of the mesh")) return false;
  mesh->names = hs_arena_dup(LX->arena, names, mesh->naxes * sizeof *names);
  mesh->sizes = hs_arena_dup(LX->arena, sizes, mesh->naxes * sizeof *sizes);
  const char *back = LX->p;
  if (hlo_accept(LX, ',')) {
    const char *at = (hlo_skip(LX), LX->p);
    if (hlo_accept_word(LX, "device_ids")) return read_device_ids(P, mesh, at);
    LX->p = back;
  }
  return true;
}

static bool find_axis(hlo_parser *P, const hlo_mesh *mesh, hs_str name, const char *at,
                      const char **out) {
  for (u32 i = 0; i < mesh->naxes; i++)
    if (hs_str_eq(name, hs_str_of(mesh->names[i]))) return *out = mesh->names[i], true;
  i64 index = 0;
  bool digits = name.n > 0 && name.n < 10;
  for (size_t i = 0; digits && i < name.n; i++) {
    digits = hlo_is_ch(name.p[i], HLO_CH_DIGIT);
    index = index * 10 + (name.p[i] - '0');
  }
  if (!digits)
    return hlo_lex_error(LX, HS_E_ATTR, at, "%.*s is not a valid axis name or index",
                         (int)HS_MIN(name.n, 60u), name.p);
  if (index >= mesh->naxes)
    return hlo_lex_error(LX, HS_E_ATTR, at,
                         "Axis index %lld is out of bounds for mesh with %u axes", (long long)index,
                         mesh->naxes);
  return *out = mesh->names[index], true;
}

// 'a', 'b':(2)4 up to the closing brace; "?" (an open dimension) only where `open` is given.
static bool read_axes(hlo_parser *P, const hlo_mesh *mesh, hlo_axes *out, bool *open) {
  hlo_axis axes[HLO_MAX_RANK];
  out->n = 0;
  if (!hlo_expect(LX, '{', "in front of axes")) return false;
  while (hlo_peek(LX) != '}') {
    if (open && hlo_accept(LX, '?')) {
      *open = true;
      break;
    }
    if (out->n == HLO_MAX_RANK)
      return hlo_lex_error(LX, HS_E_LIMIT, NULL, "more than %d axes", HLO_MAX_RANK);
    const char *at = LX->p;
    hs_str name;
    bool owned;
    hlo_axis *a = &axes[out->n++];
    *a = (hlo_axis){0};
    if (!hlo_string(LX, &name, &owned) || !find_axis(P, mesh, name, at, &a->name)) return false;
    if (hlo_accept(LX, ':') && (!hlo_expect(LX, '(', "in the sub-axis") || !hlo_int(LX, &a->pre) ||
                                !hlo_expect(LX, ')', "in the sub-axis") || !hlo_int(LX, &a->size)))
      return false;
    if (!hlo_accept(LX, ',')) break;
  }
  out->v = hs_arena_dup(LX->arena, axes, out->n * sizeof *axes);
  return hlo_expect(LX, '}', "at the end of axes");
}

static int reduction_op(hlo_parser *P) {
  if (hlo_accept_word(LX, "sum")) return 1;
  if (hlo_accept_word(LX, "max")) return 2;
  return hlo_accept_word(LX, "min") ? 3 : 0;
}

// ---- shardings ----------------------------------------------------------------------------------
static bool read_sharding_metadata(hlo_parser *P, hlo_sharding *s) {
  if (!hlo_expect(LX, '=', "behind metadata")) return false;
  hlo_skip(LX);
  const char *at = LX->p;
  bool list = hlo_accept(LX, '{') && hlo_peek(LX) == '{';
  if (!list) LX->p = at;
  HS_VEC(const hlo_metadata *) all = {0};
  bool ok = true;
  do {
    const hlo_metadata *m;
    ok = hlo_read_metadata(P, &m);
    if (ok) hs_vec_push(&all, m);
  } while (ok && list && hlo_accept(LX, ','));
  ok = ok && (!list || hlo_expect(LX, '}', "at the end of the sharding's metadata"));
  if (ok) {
    s->nmetadata = (u32)all.n;
    s->metadata = hs_arena_dup(LX->arena, all.v, all.n * sizeof *all.v);
  }
  hs_vec_free(&all);
  return ok;
}

static bool read_named(hlo_parser *P, hlo_sharding *s) {
  s->type = HLO_SH_NAMED;
  s->named_whole = HLO_SH_TILED;
  if (!read_mesh(P, &s->mesh)) return false;
  if (s->mesh->maximal) {
    s->type = HLO_SH_MAXIMAL;
    s->device = s->mesh->device_id;
    return true;
  }
  hlo_accept(LX, ',');  // may be missing
  if (hlo_accept_word(LX, "replicated")) {
    s->named_whole = HLO_SH_REPLICATED;
    return true;
  }
  if (hlo_accept_word(LX, "manual")) {
    s->named_whole = HLO_SH_MANUAL;
    return true;
  }
  if (hlo_accept_word(LX, "unreduced")) {
    s->named_whole = HLO_SH_UNREDUCED;
    if (hlo_accept(LX, '=') && !(s->unreduced_op = reduction_op(P)))
      return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects sum, max or min");
    return hlo_peek(LX) != '{' || read_axes(P, s->mesh, &s->unreduced_axes, NULL);
  }
  hlo_dim_sharding dims[HLO_MAX_RANK];
  if (!hlo_expect(LX, '[', "in front of dimension shardings")) return false;
  while (hlo_peek(LX) != ']') {
    if (s->ndim_shardings == HLO_MAX_RANK)
      return hlo_lex_error(LX, HS_E_LIMIT, NULL, "more than %d dimensions", HLO_MAX_RANK);
    hlo_dim_sharding *d = &dims[s->ndim_shardings++];
    *d = (hlo_dim_sharding){0};
    if (!read_axes(P, s->mesh, &d->axes, &d->open)) return false;
    if (!hlo_accept(LX, ',')) break;
  }
  if (!hlo_expect(LX, ']', "at the end of dimension shardings")) return false;
  s->dim_shardings = hs_arena_dup(LX->arena, dims, s->ndim_shardings * sizeof *dims);
  while (hlo_accept(LX, ',')) {
    hs_str key = hlo_ident(LX);
    if (hs_str_eq(key, HS_STR("metadata"))) {
      if (!read_sharding_metadata(P, s)) return false;
      continue;
    }
    hlo_axes *to = hs_str_eq(key, HS_STR("replicated"))  ? &s->replicated_axes
                   : hs_str_eq(key, HS_STR("manual"))    ? &s->manual_axes
                   : hs_str_eq(key, HS_STR("unreduced")) ? &s->unreduced_axes
                                                         : NULL;
    if (!to)
      return hlo_lex_error(LX, HS_E_SYNTAX, key.p,
                           "expects replicated, manual, unreduced or metadata");
    if (!hlo_expect(LX, '=', "behind the kind of axes")) return false;
    if (to == &s->unreduced_axes) s->unreduced_op = reduction_op(P);
    if (!read_axes(P, s->mesh, to, NULL)) return false;
  }
  return true;
}

static bool read_devices(hlo_parser *P, hlo_sharding *s, const char *at) {
  s->type = HLO_SH_TILED;
  if (!hlo_expect(LX, '=', "behind devices") || !hlo_read_ints(P, '[', ']', &s->dims)) return false;
  i64 tiles = product(s->dims);
  if (tiles <= 0)
    return hlo_lex_error(LX, HS_E_ATTR, at, "tile assignment dimensions must be positive");
  if (hlo_accept_text(LX, "<=")) {
    if (!read_iota(P, &s->reshape, &s->perm)) return false;
    i64 n = product(s->reshape);
    if (n != tiles)
      return hlo_lex_error(
          LX, HS_E_ATTR, at,
          "iota tile assignment size %lld does not match the tile assignment dimensions product "
          "%lld",
          (long long)n, (long long)tiles);
    return true;
  }
  size_t mark = P->ints.n;
  do {
    char c = hlo_peek(LX);
    if (!hlo_is_ch(c, HLO_CH_DIGIT) && c != '-') break;
    i64 v;
    if (!hlo_int(LX, &v)) return false;
    hs_vec_push(&P->ints, v);
  } while (hlo_accept(LX, ','));
  s->devices = hlo_keep_ints(P, mark);
  if (s->devices.n != tiles)
    return hlo_lex_error(LX, HS_E_ATTR, at,
                         "sharding device count %u does not match the tile assignment size %lld",
                         s->devices.n, (long long)tiles);
  return true;
}

static bool read_last_tile_dims(hlo_parser *P, hlo_sharding *s) {
  if (!hlo_expect(LX, '=', "behind last_tile_dims") ||
      !hlo_expect(LX, '{', "in front of last_tile_dims"))
    return false;
  static const struct {
    const char *text;
    hlo_sharding_type type;
  } types[] = {{"manual", HLO_SH_MANUAL},
               {"replicated", HLO_SH_REPLICATED},
               {"maximal", HLO_SH_MAXIMAL},
               {"unreduced", HLO_SH_UNREDUCED}};
  size_t mark = P->ints.n;
  while (hlo_peek(LX) != '}') {
    size_t k = 0;
    while (k < HS_COUNT(types) && !hlo_accept_word(LX, types[k].text)) k++;
    if (k == HS_COUNT(types))
      return hlo_lex_error(LX, HS_E_ATTR, NULL,
                           "last_tile_dims expects manual, replicated, maximal or unreduced");
    hs_vec_push(&P->ints, (i64)types[k].type);
    if (!hlo_accept(LX, ',')) break;
  }
  s->last_tile_dims = hlo_keep_ints(P, mark);
  return hlo_expect(LX, '}', "at the end of last_tile_dims");
}

// The words of one V1/V2 sharding, in any order, up to the closing brace.
static bool read_words(hlo_parser *P, hlo_sharding *s) {
  static const struct {
    const char *text;
    hlo_sharding_type type;
  } kinds[] = {{"replicated", HLO_SH_REPLICATED},
               {"manual", HLO_SH_MANUAL},
               {"unknown", HLO_SH_UNKNOWN},
               {"unreduced", HLO_SH_UNREDUCED},
               {"maximal", HLO_SH_MAXIMAL}};
  bool typed = false;
  const char *start = LX->p;
  for (;;) {
    hs_str w = hlo_ident(LX);
    if (w.n == 0) break;
    size_t k = 0;
    while (k < HS_COUNT(kinds) && !hs_str_eq(w, hs_str_of(kinds[k].text))) k++;
    if (k < HS_COUNT(kinds)) {
      s->type = kinds[k].type;
      typed = true;
    } else if (hs_str_eq(w, HS_STR("device"))) {
      if (!hlo_expect(LX, '=', "behind device") || !hlo_int(LX, &s->device)) return false;
    } else if (hs_str_eq(w, HS_STR("devices"))) {
      typed = true;
      if (!read_devices(P, s, w.p)) return false;
    } else if (hs_str_eq(w, HS_STR("last_tile_dim_replicate"))) {
      s->replicate_last = true;
    } else if (hs_str_eq(w, HS_STR("last_tile_dims"))) {
      if (!read_last_tile_dims(P, s)) return false;
    } else if (hs_str_eq(w, HS_STR("shard_as")) || hs_str_eq(w, HS_STR("shard_like"))) {
      s->shard_group_kind = w.n == 8 ? 1 : 2;
      if (!hlo_int(LX, &s->shard_group)) return false;
    } else if (hs_str_eq(w, HS_STR("metadata"))) {
      if (!read_sharding_metadata(P, s)) return false;
    } else {
      return hlo_lex_error(LX, HS_E_ATTR, w.p, "unexpected '%.*s' in the sharding",
                           (int)HS_MIN(w.n, 40u), w.p);
    }
  }
  if (!typed)
    return hlo_lex_error(
        LX, HS_E_ATTR, start,
        "expects a sharding: replicated, manual, unknown, unreduced, maximal or devices=[...]");
  return true;
}

bool hlo_read_sharding(hlo_parser *P, const hlo_sharding **out) {
  hlo_sharding *s = HS_NEW(LX->arena, hlo_sharding);
  *out = s;
  if (!hlo_expect(LX, '{', "to start sharding attribute")) return false;
  char c = hlo_peek(LX);
  if (c != '{' && c != '}') {
    bool ok = mesh_follows(P) ? read_named(P, s) : read_words(P, s);
    return ok && hlo_expect(LX, '}', "at the end of the sharding");
  }
  s->type = HLO_SH_TUPLE;
  if (!hlo_lex_enter(LX)) return false;
  HS_VEC(const hlo_sharding *) kids = {0};
  bool ok = true;
  if (c == '{') {
    do {
      const hlo_sharding *k;
      ok = hlo_read_sharding(P, &k);
      if (ok) hs_vec_push(&kids, k);
    } while (ok && hlo_accept(LX, ','));
  }
  ok = ok && hlo_expect(LX, '}', "at the end of the tuple sharding");
  hlo_lex_leave(LX);
  if (ok) {
    s->nchildren = (u32)kids.n;
    s->children = hs_arena_dup(LX->arena, kids.v, kids.n * sizeof *kids.v);
  }
  hs_vec_free(&kids);
  return ok;
}

// ---- replica groups -----------------------------------------------------------------------------
bool hlo_read_replica_groups(hlo_parser *P, const hlo_replica_groups **out) {
  hlo_replica_groups *g = HS_NEW(LX->arena, hlo_replica_groups);
  *out = g;
  const char *at = (hlo_skip(LX), LX->p);
  if (mesh_follows(P)) {
    g->form = HLO_GROUPS_MESH;
    return read_mesh(P, &g->mesh) && read_axes(P, g->mesh, &g->axes, NULL);
  }
  if (hlo_peek(LX) == '[') {
    g->form = HLO_GROUPS_IOTA;
    if (!hlo_read_ints(P, '[', ']', &g->dims)) return false;
    if (g->dims.n != 2)
      return hlo_lex_error(LX, HS_E_ATTR, at, "expects two dimensions: [groups,size]");
    if (!hlo_accept_text(LX, "<="))
      return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects '<=' in the iota replica groups");
    if (!read_iota(P, &g->reshape, &g->perm)) return false;
    if (product(g->reshape) != product(g->dims))
      return hlo_lex_error(
          LX, HS_E_ATTR, at,
          "iota tile assignment size %lld does not match the tile assignment dimensions product "
          "%lld",
          (long long)product(g->reshape), (long long)product(g->dims));
    return true;
  }
  HS_VEC(hlo_ints) lists = {0};
  bool ok = hlo_expect(LX, '{', "in front of replica groups");
  while (ok && hlo_peek(LX) != '}') {
    hlo_ints l;
    ok = hlo_read_ints(P, '{', '}', &l);
    if (ok) hs_vec_push(&lists, l);
    if (!hlo_accept(LX, ',')) break;
  }
  ok = ok && hlo_expect(LX, '}', "at the end of replica groups");
  if (ok)
    g->groups =
        (hlo_int_lists){(u32)lists.n, hs_arena_dup(LX->arena, lists.v, lists.n * sizeof *lists.v)};
  hs_vec_free(&lists);
  return ok;
}
