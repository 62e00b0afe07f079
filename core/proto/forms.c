// forms.c — the messages around a module: which one a file is, taking the module out,
// putting it back.
//
// Wire bytes do not name their message. A module is where the path of field numbers leads to an
// opcode: 3.2.2 in an HloModuleProto, 1.3.2.2 in what wraps one, 1.1.3.2.2 in a snapshot. The
// wrappers of the middle kind are told apart by how well their other fields fit the schema.
//
// The delimited form of HloUnoptimizedSnapshot exists because a message ends at 2 GiB: a length,
// the message with a size per argument instead of its value, and behind it each argument in XLA's
// raw format (the length of its shape as 8 bytes, the shape, then the elements of each array in
// layout order; narrow types packed, the first element in the low bits).
#include "core/proto/read.h"
#include "core/proto/schema.h"
#include "core/proto/text.h"
#include "core/proto/write.h"

// ---- which message ------------------------------------------------------------------------------
static bool leads_to_opcode(pb m, const u32 *path) {
  for (pb_field f; pb_next(&m, &f);) {
    if (f.num != path[0] || f.wire != 2) continue;
    if (path[1]) return leads_to_opcode(f.sub, path + 1);
    bool word = f.sub.p < f.sub.end;
    for (const u8 *p = f.sub.p; p < f.sub.end; p++)
      word &= (*p >= 'a' && *p <= 'z') || *p == '-' || (*p >= '0' && *p <= '9');
    return word;
  }
  return false;
}

// Fields that the schema knows, less those that it does not or that have another wire type.
static i64 fit(pb m, u32 message, u32 depth) {
  i64 score = 0;
  for (pb_field f; pb_next(&m, &f);) {
    const pb_row *r = pb_row_by_number(message, f.num);
    bool good = r && pb_row_takes(r, f.wire);
    score += good ? 1 : -3;
    if (good && r->type == PB_MESSAGE && depth) score += fit(f.sub, r->sub, depth - 1);
  }
  return m.bad ? score - 100 : score;
}

u32 hlo_proto_root(pb m) {
  if (!pb_valid(m)) return 0;
  if (leads_to_opcode(m, PB_PATH(3, 2, 2))) return PB_HloModuleProto;
  if (leads_to_opcode(m, PB_PATH(1, 1, 3, 2, 2))) return PB_HloSnapshot;
  if (!leads_to_opcode(m, PB_PATH(1, 3, 2, 2))) return 0;
  static const u32 wrappers[] = {PB_HloProto, PB_HloUnoptimizedSnapshot,
                                 PB_HloModuleProtoWithConfig};
  u32 best = 0;
  i64 best_score = INT64_MIN;
  for (size_t k = 0; k < HS_COUNT(wrappers); k++) {
    i64 score = fit(m, wrappers[k], 3);
    if (score > best_score) best = wrappers[k], best_score = score;
  }
  return best;
}

// The message of a delimited snapshot; false when the bytes are none.
static bool delimited(pb m, pb *message) {
  u64 n;
  if (!pb_next_packed(&m, 0, &n) || n == 0 || n > (size_t)(m.end - m.p)) return false;
  *message = (pb){m.p, m.p + n, false};
  return pb_valid(*message) && leads_to_opcode(*message, PB_PATH(1, 3, 2, 2));
}

bool hlo_is_proto(const void *p, size_t n) {
  const u8 *s = p;
  pb m = {s, s + n, false}, inner;
  return n > 8 && (hlo_proto_root(m) || delimited(m, &inner));
}

// Messages within messages must be whole too: half a submessage is a damaged file, not one with
// fewer fields.
static hs_status check_message(pb m, u32 message, u32 depth, const char *file) {
  if (depth > 200) return hs_fail(HS_E_LIMIT, "%s: messages are nested more than 200 deep", file);
  for (pb_field f; pb_next(&m, &f);) {
    const pb_row *r = pb_row_by_number(message, f.num);
    if (r && r->type == PB_MESSAGE && f.wire == 2)
      HS_TRY(check_message(f.sub, r->sub, depth + 1, file));
  }
  return m.bad ? hs_fail(HS_E_PROTO, "%s: damaged: an %s breaks off", file, pb_rows[message].name)
               : HS_GOOD;
}

// ---- the raw form of literals -------------------------------------------------------------------
static bool take_array(proto_reader *r, hlo_literal *l, pb *raw) {
  const hlo_shape *s = l->shape;
  for (u32 d = 0; s->dynamic && d < s->rank; d++) {
    u64 size;
    if (!pb_next_packed(raw, 5, &size))
      return proto_error(r, "an argument ends in its sizes"), false;
    if (l->dynamic_sizes) l->dynamic_sizes[d] = (i32)HS_MIN(size, (u64)s->dims[d]);
  }
  u32 bits = s->dtype == HLO_PRED ? 1 : (u32)hlo_dtype_bits(s->dtype);
  u64 need = bits < 8 ? ((u64)s->elements + 8 / bits - 1) / (8 / bits) : (u64)l->bytes;
  if (need > (u64)(raw->end - raw->p))
    return proto_error(r, "an argument has fewer bytes than its shape"), false;
  const u8 *from = raw->p;
  raw->p += need;
  if (bits >= 8) return proto_fill(l, (pb){from, from + need, false}), true;
  u8 *wide = hs_try_alloc((size_t)s->elements + 1);
  if (!wide) return proto_error(r, "no memory for an argument"), false;
  u32 per = 8 / bits;
  for (i64 k = 0; k < s->elements; k++)
    wide[k] = (u8)((u32)from[(u64)k / per] >> ((u64)k % per * bits) & ((1u << bits) - 1));
  proto_fill(l, (pb){wide, wide + s->elements, false});
  hs_free(wide);
  return true;
}

static bool take_arrays(proto_reader *r, hlo_literal *l, pb *raw) {
  if (hlo_shape_is_array(l->shape)) return take_array(r, l, raw);
  for (u32 k = 0; k < l->nchildren; k++)
    if (!take_arrays(r, l->children[k], raw)) return false;
  return l->nchildren > 0 || hlo_shape_is_tuple(l->shape);
}

static hlo_literal *raw_literal(proto_reader *r, pb raw) {
  u64 n;
  if (!pb_next_packed(&raw, 1, &n) || n > (size_t)(raw.end - raw.p))
    return proto_error(r, "an argument has no shape"), NULL;
  const hlo_shape *s = hlo_shape_fill_layout(r->ctx, proto_shape(r, (pb){raw.p, raw.p + n, false}));
  raw.p += n;
  hlo_literal *l = NULL;
  if (r->failed || hlo_shape_bytes(s) > 8 * (i64)(raw.end - raw.p) + 64)
    return proto_error(r, "an argument has fewer bytes than its shape"), NULL;
  hs_status st = hlo_literal_new(s, &l);
  if (!hs_ok(st)) {
    proto_error(r, "%s", st.err->message);
    hs_status_drop(st);
    return NULL;
  }
  if (take_arrays(r, l, &raw) && raw.p == raw.end) return l;
  proto_error(r, "an argument has more bytes than its shape");
  hlo_literal_unref(l);
  return NULL;
}

static void put_arrays(hs_buf *b, const hlo_literal *l) {
  for (u32 k = 0; k < l->nchildren; k++) put_arrays(b, l->children[k]);
  const hlo_shape *s = l->shape;
  if (!hlo_shape_is_array(s) || !l->data) return;
  for (u32 d = 0; s->dynamic && d < s->rank; d++) {
    i32 size = l->dynamic_sizes ? l->dynamic_sizes[d] : (i32)s->dims[d];
    hs_buf_put(b, (const char *)&size, sizeof size);
  }
  u32 bits = s->dtype == HLO_PRED ? 1 : (u32)hlo_dtype_bits(s->dtype),
      per = bits < 8 ? 8 / bits : 1;
  u8 *bytes = hs_alloc_or_stop(l->bytes + 1);
  if (!bytes) return;
  proto_layout_order(l, (char *)bytes);
  if (bits < 8) {
    for (i64 k = 0; k < s->elements; k++) {
      u8 v = (u8)((bytes[k] & ((1u << bits) - 1)) << ((u64)k % per * bits));
      bytes[(u64)k / per] = (u8)(k % per ? bytes[(u64)k / per] | v : v);
    }
  }
  hs_buf_put(b, (const char *)bytes, bits < 8 ? ((size_t)s->elements + per - 1) / per : l->bytes);
  hs_free(bytes);
}

static void put_raw_literal(hs_buf *b, hlo_ctx *ctx, const hlo_literal *l) {
  hs_buf proto = {0};
  proto_put_literal(&proto, ctx, 1, l);
  pb_field whole, shape;
  pb m = {(const u8 *)proto.p, (const u8 *)proto.p + proto.n, false};
  u64 n = 0;
  if (pb_next(&m, &whole) && pb_get(whole.sub, 1, &shape)) n = (u64)(shape.sub.end - shape.sub.p);
  hs_buf_put(b, (const char *)&n, sizeof n);
  if (n) hs_buf_put(b, (const char *)shape.sub.p, (size_t)n);
  put_arrays(b, l);
  hs_buf_free(&proto);
}

// A delimited snapshot as the plain message: every descriptor becomes the argument that it stands
// for.
static bool undelimit(proto_reader *r, pb file, hs_buf *out) {
  pb m;
  delimited(file, &m);
  pb rest = {m.end, file.end, false};
  for (pb_field f; !r->failed && pb_next(&m, &f);) {
    if (f.num != 2 || f.wire != 2) {
      hs_buf_put(out, (const char *)f.at, (size_t)(m.p - f.at));
      continue;
    }
    size_t mark = pb_begin(out);
    for (pb_field d; !r->failed && pb_next(&f.sub, &d);) {
      if (d.num != 2 || d.wire != 2) {
        hs_buf_put(out, (const char *)d.at, (size_t)(f.sub.p - d.at));
        continue;
      }
      u64 n = (u64)pb_int(d.sub, 2, 0);
      if (n > (size_t)(rest.end - rest.p)) {
        proto_error(r, "the file ends in an argument");
        break;
      }
      hlo_literal *l = raw_literal(r, (pb){rest.p, rest.p + n, false});
      rest.p += n;
      if (l) proto_put_literal(out, r->ctx, 1, l);
      hlo_literal_unref(l);
    }
    pb_end(out, 2, mark);
  }
  if (!r->failed && rest.p != rest.end) proto_error(r, "bytes follow the last argument");
  return !r->failed;
}

// And back: the arguments leave the message and follow it.
static void delimit(hlo_ctx *ctx, hs_buf *b, size_t start) {
  hs_arena arena = {0};
  proto_reader r = {.ctx = ctx, .arena = &arena};
  hs_buf message = {0}, raw = {0};
  pb m = {(const u8 *)b->p + start, (const u8 *)b->p + b->n, false};
  for (pb_field f; pb_next(&m, &f);) {
    if (f.num != 2 || f.wire != 2) {
      hs_buf_put(&message, (const char *)f.at, (size_t)(m.p - f.at));
      continue;
    }
    size_t mark = pb_begin(&message);
    for (pb_field d; pb_next(&f.sub, &d);) {
      hlo_literal *l = d.num == 1 && d.wire == 2 ? proto_literal(&r, d.sub) : NULL;
      if (!l) {
        hs_buf_put(&message, (const char *)d.at, (size_t)(f.sub.p - d.at));
        continue;
      }
      size_t before = raw.n, at = pb_begin(&message);
      put_raw_literal(&raw, ctx, l);
      pb_put_int(&message, 2, (i64)(raw.n - before));
      pb_end(&message, 2, at);
      hlo_literal_unref(l);
    }
    pb_end(&message, 2, mark);
  }
  b->n = start;
  pb_put_varint(b, message.n);
  hs_buf_put(b, message.p, message.n);
  hs_buf_put(b, raw.p, raw.n);
  hs_buf_free(&message);
  hs_buf_free(&raw);
  hs_buf_free(&r.message);
  hs_vec_free(&r.ints);
  hs_arena_free(&arena);
}

// ---- reading ------------------------------------------------------------------------------------
static void read_config(proto_reader *r, pb m) {
  static const struct {
    hlo_attr_id id;
    u32 num;
  } fields[] = {{HLO_ATTR_REPLICA_COUNT, 4},
                {HLO_ATTR_NUM_PARTITIONS, 5},
                {HLO_ATTR_ALIAS_PASSTHROUGH_PARAMS, 17},
                {HLO_ATTR_ALLOW_SPMD_PARAMETERS, 33},
                {HLO_ATTR_ALLOW_SPMD_OUTPUT, 27}};
  for (size_t k = 0; k < HS_COUNT(fields); k++) {
    hlo_attr a = {.id = fields[k].id};
    if (hlo_attr_kind_of(a.id) == HLO_AK_BOOLS) a.v.ints = proto_ints(r, m, fields[k].num);
    else a.v.i = pb_int(m, fields[k].num, 0);
    bool empty = hlo_attr_kind_of(a.id) == HLO_AK_BOOLS ? a.v.ints.n == 0 : a.v.i <= 0;
    if (!empty && !hlo_attr_droppable(HLO_OP_INVALID, &a)) hlo_set_module_attr(r->m, a);
  }
}

// The module of a plain message, with what surrounds it kept.
static hs_status read_root(hlo_ctx *ctx, const proto_plain_form *plain, const char *file,
                           hlo_module **out) {
  pb m = plain->m;
  u32 root = plain->root;
  pb inner = root == PB_HloModuleProto ? m : pb_sub(m, 1),
     module = root == PB_HloSnapshot ? pb_sub(inner, 1) : inner;
  HS_TRY(proto_read_module(ctx, module, file, out));
  hlo_module *made = *out;
  hs_arena *a = &made->arena;
  proto_reader r = {.ctx = ctx, .m = made, .arena = a};
  hlo_proto_kept *k = hs_arena_dup(a, made->proto_kept, sizeof *k);
  k->root = root;
  k->delimited = plain->delimited;
  if (root == PB_HloModuleProtoWithConfig) {
    hlo_journal_disable(made);
    read_config(&r, pb_sub(m, 2));
    hlo_journal_enable(made);
  }
  if (root != PB_HloModuleProto) k->wrapper = pb_keep(a, m, root);
  if (root == PB_HloSnapshot) k->hlo = pb_keep(a, inner, PB_HloProto);
  k->generation = made->generation;
  made->proto_kept = k;
  made->copy_kept = hlo_proto_kept_copy;
  hs_buf_free(&r.message);
  hs_vec_free(&r.ints);
  return HS_GOOD;
}

static hs_status conform(proto_plain_form *f, const char *file, hs_buf *made) {
  // before parts are merged: damage shows at their ends
  HS_TRY(check_message(f->m, f->root, 0, file ? file : "the data"));
  if (pb_conforms(f->m, f->root, 0)) return HS_GOOD;
  hs_buf fixed = {0};
  f->left_out = pb_conform(&fixed, f->m, f->root);
  hs_buf_free(made);
  *made = fixed;
  f->m = (pb){(const u8 *)fixed.p, (const u8 *)fixed.p + fixed.n, false};
  return HS_GOOD;
}

hs_status proto_plain(hlo_ctx *ctx, const void *p, size_t n, const char *file, hs_buf *made,
                      proto_plain_form *out) {
  pb m = {p, (const u8 *)p + n, false}, message;
  *out = (proto_plain_form){m, hlo_proto_root(m), false, 0};
  if (out->root) return conform(out, file, made);
  if (!delimited(m, &message))
    return hs_fail(HS_E_PROTO, "%s is no serialized HLO module", file ? file : "the data");
  hs_arena arena = {0};
  proto_reader r = {.ctx = ctx, .arena = &arena};
  bool ok = undelimit(&r, m, made);
  hs_status s = ok ? HS_GOOD
                   : hs_fail(r.code ? r.code : HS_E_PROTO, "%s: %s", file ? file : "the data",
                             hs_buf_cstr(&r.message));
  *out = (proto_plain_form){{(const u8 *)made->p, (const u8 *)made->p + made->n, false},
                            PB_HloUnoptimizedSnapshot,
                            true,
                            0};
  if (hs_ok(s)) s = conform(out, file, made);
  hs_buf_free(&r.message);
  hs_vec_free(&r.ints);
  hs_arena_free(&arena);
  return s;
}

HS_PRINTF(2, 3) static void note(hlo_module *m, const char *fmt, ...) {
  hs_buf b = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  m->load_note = hs_arena_strndup(&m->arena, hs_buf_cstr(&b), b.n);
  hs_buf_free(&b);
}

hs_status hlo_proto_read(hlo_ctx *ctx, const void *p, size_t n, const char *file,
                         hlo_module **out) {
  *out = NULL;
  hs_buf made = {0};
  proto_plain_form plain;
  hs_status s = proto_plain(ctx, p, n, file, &made, &plain);
  if (hs_ok(s)) s = read_root(ctx, &plain, file, out);
  if (*out && plain.left_out)
    note(*out, "left out %u fields whose wire types are not those of XLA's schema", plain.left_out);
  hs_buf_free(&made);
  return s;
}

hs_status hlo_proto_output_sharding(const void *p, size_t n, hs_arena *arena,
                                    const hlo_sharding **out) {
  *out = NULL;
  pb m = {p, (const u8 *)p + n, false};
  u32 root = hlo_proto_root(m);
  if (!root) return hs_fail(HS_E_PROTO, "the data is no serialized HLO module");
  if (root != PB_HloModuleProto) m = pb_sub(m, 1);
  if (root == PB_HloSnapshot) m = pb_sub(m, 1);
  proto_reader r = {.arena = arena};
  pb_field f;
  if (pb_get(m, 12, &f) && f.wire == 2) *out = proto_sharding(&r, f.sub);
  hs_status s = r.failed ? hs_fail(HS_E_PROTO, "%s", hs_buf_cstr(&r.message)) : HS_GOOD;
  hs_buf_free(&r.message);
  hs_vec_free(&r.ints);
  return s;
}

bool hlo_is_proto_text(const char *p, size_t n) { return pb_text_root(p, n) != 0; }

hs_status hlo_proto_read_text(hlo_ctx *ctx, const char *p, size_t n, const char *file,
                              hlo_module **out) {
  *out = NULL;
  u32 root = pb_text_root(p, n);
  if (!root)
    return hs_fail(HS_E_PROTO, "%s is no text form of an HLO module", file ? file : "the text");
  hs_buf wire = {0}, unknown = {0};
  hs_status s = pb_from_text(&wire, p, n, file, root, &unknown);
  if (hs_ok(s))
    s = read_root(ctx,
                  &(proto_plain_form){
                      {(const u8 *)wire.p, (const u8 *)wire.p + wire.n, false}, root, false, 0},
                  file, out);
  if (*out && unknown.n)
    note(*out, "left out fields whose numbers hlosh does not know: %s", hs_buf_cstr(&unknown));
  hs_buf_free(&wire);
  hs_buf_free(&unknown);
  return s;
}

// ---- writing ------------------------------------------------------------------------------------
hs_status hlo_proto_write(hs_buf *b, const hlo_module *m, bool as_hlo_proto) {
  u32 lost = 0;
  size_t mark = pb_begin(b);
  HS_TRY(proto_write_module(b, m, &lost));
  if (as_hlo_proto) pb_end(b, 1, mark);
  return HS_GOOD;
}

static void put_config(hs_buf *b, const hlo_module *m) {
  static const struct {
    hlo_attr_id id;
    u32 num;
    i64 absent;
  } fields[] = {{HLO_ATTR_REPLICA_COUNT, 4, 1},
                {HLO_ATTR_NUM_PARTITIONS, 5, 1},
                {HLO_ATTR_ALIAS_PASSTHROUGH_PARAMS, 17, 0},
                {HLO_ATTR_ALLOW_SPMD_PARAMETERS, 33, 0},
                {HLO_ATTR_ALLOW_SPMD_OUTPUT, 27, 0}};
  size_t mark = pb_begin(b);
  for (size_t k = 0; k < HS_COUNT(fields); k++) {
    const hlo_attr *a = hlo_attrs_find(m->attrs, fields[k].id);
    if (hlo_attr_kind_of(fields[k].id) != HLO_AK_BOOLS)
      pb_put_int(b, fields[k].num, a ? a->v.i : fields[k].absent);
    else if (a) pb_put_ints(b, fields[k].num, a->v.ints.v, a->v.ints.n);
  }
  pb_end(b, 2, mark);
}

hs_status hlo_proto_save(hs_buf *b, const hlo_module *m, hlo_proto_form form, bool text,
                         u32 *lost) {
  static const u32 roots[] = {[HLO_PROTO_MODULE] = PB_HloModuleProto,
                              [HLO_PROTO_HLO] = PB_HloProto,
                              [HLO_PROTO_SNAPSHOT] = PB_HloSnapshot,
                              [HLO_PROTO_UNOPTIMIZED] = PB_HloUnoptimizedSnapshot,
                              [HLO_PROTO_WITH_CONFIG] = PB_HloModuleProtoWithConfig,
                              [HLO_PROTO_OF_TOOL] = PB_HloProto};
  const hlo_proto_kept *k = m->proto_kept;
  u32 root = form != HLO_PROTO_AS_READ ? roots[form] : k ? k->root : PB_HloProto;
  *lost = 0;
  hs_arena scratch = {0};
  hs_buf wire = {0};
  const pb_kept *wrapper = k && k->root == root ? k->wrapper : NULL,
                *hlo = k && k->root == root ? k->hlo : NULL;
  // of another module by now
  if (k && k->generation != m->generation && root != PB_HloUnoptimizedSnapshot) {
    const pb_kept **of = root == PB_HloSnapshot ? &hlo : &wrapper;
    const pb_kept *without =
        root == PB_HloModuleProtoWithConfig ? *of : pb_kept_without(&scratch, *of, 3);
    if (*of && without) *lost += (*of)->n - without->n;
    *of = without;
  }
  hs_status s = form == HLO_PROTO_OF_TOOL ? proto_write_as_tool(&wire, m, lost)
                                          : proto_write_module(&wire, m, lost);
  if (root != PB_HloModuleProto) pb_end(&wire, 1, 0);
  if (root == PB_HloSnapshot) {
    *lost += pb_restore(&wire, 0, PB_HloProto, hlo);
    pb_end(&wire, 1, 0);
  }
  if (root == PB_HloModuleProtoWithConfig) put_config(&wire, m);
  *lost += pb_restore(&wire, 0, root, wrapper);
  if (hs_ok(s) && text)
    pb_to_text(b, (pb){(const u8 *)wire.p, (const u8 *)wire.p + wire.n, false}, root);
  else if (hs_ok(s)) {
    size_t start = b->n;
    hs_buf_put(b, wire.p, wire.n);
    if (root == PB_HloUnoptimizedSnapshot && k && k->delimited) delimit(m->ctx, b, start);
  }
  hs_buf_free(&wire);
  hs_arena_free(&scratch);
  return hs_ok(s) ? hs_poll() : s;
}
