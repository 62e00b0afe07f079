// call_inliner.c — call-inliner (xla/service/call_inliner.cc): a call's body replaces it.
//
// Callers are visited first: calls among the inlined instructions are inlined in turn, and a body
// whose last call was inlined is not processed itself. So the cost of deeply nested calls is that
// of the result, not that times the depth. The clones inherit from the call its control
// predecessors, its frontend attributes about fusion, its sharding (the root), and its op_name as a
// prefix.
#include "passes/clean/clean.h"
#include "passes/control/calls.h"

typedef struct inliner {
  pass_ctx *c;
  bool single, shardy, renumber;
  const char *kept;  // names of composites not to inline, separated by spaces
  const char *only;  // names of the computations to inline, likewise; "": all
  u32 *counts;       // pass_caller_counts at the start of the pass
  // by computation id, at the start: wrapped by an asynchronous operation
  bool *async;
  i64 next_channel;
} inliner;

static bool is_composite(const hlo_instr *call) {
  return hlo_attr_int(call, HLO_ATTR_IS_COMPOSITE, 0) != 0;
}

static bool among_words(const char *words, hs_str word) {
  for (const char *p = words; *p;) {
    size_t n = strcspn(p, " ");
    if (n && hs_str_eq((hs_str){p, n}, word)) return true;
    p += n + (p[n] == ' ');
  }
  return false;
}

static bool is_marked(const hlo_instr *call, bool shardy) {
  const hs_str *inlineable = pass_frontend(call, "inlineable");
  if (inlineable &&
      (hs_str_eq(*inlineable, HS_STR("false")) || hs_str_eq(*inlineable, HS_STR("xla_late"))))
    return true;
  if (shardy) {
    const char *name = hlo_attr_comp(call, HLO_ATTR_TO_APPLY)->name;
    if (strstr(name, "shmap_body") || strstr(name, "xla.sdy.manual_computation_body")) return true;
  }
  return hlo_attr_get(call, HLO_ATTR_BACKEND_CONFIG) != NULL;
}

// The reason not to inline a call; NULL: none.
static const char *refusal(const inliner *n, const hlo_instr *call) {
  const hlo_computation *body = hlo_attr_comp(call, HLO_ATTR_TO_APPLY);
  const hs_str *composite = is_composite(call) ? pass_frontend(call, "composite.name") : NULL;
  if (!body) return "it calls nothing";
  if (*n->only && !among_words(n->only, hs_str_of(body->name)))
    return "its computation is not in the option only";
  if (is_marked(call, n->shardy)) return "marked as not inlineable";
  if (composite && among_words(n->kept, *composite))
    return "its composite is in composites_to_preserve";
  if (n->async[call->parent->id]) return "an asynchronous operation wraps it";
  if (n->single && body->id < n->counts[0] && n->counts[1 + body->id] > 1)
    return "its body has several call sites";
  if (!hs_str_eq(body->execution_thread, call->parent->execution_thread))
    return "its body runs on another execution thread";
  return NULL;
}

// ---- attributes that clones inherit from the call -----------------------------------------------
#define MAX_OP_NAME \
  1024  // a joined name of so many bytes is not worth them: the copy keeps its own

static hs_str without_slash(hs_str s, bool leading) {
  if (leading && s.n && *s.p == '/') s.p++, s.n--;
  if (s.n && s.p[s.n - 1] == '/') s.n--;
  return s;
}

// Metadata with `prefix` prepended to its op_name; NULL when nothing changes.
static const hlo_metadata *prefixed(hlo_module *m, const hlo_metadata *d, hs_str prefix) {
  hs_str name = without_slash(d ? d->op_name : (hs_str){0}, true);
  prefix = without_slash(prefix, false);
  bool there = name.n >= prefix.n && hs_str_eq((hs_str){name.p, prefix.n}, prefix);
  if (!prefix.n || there || name.n + prefix.n >= MAX_OP_NAME) return NULL;
  hs_buf b = {0};
  hs_buf_put(&b, prefix.p, prefix.n);
  if (name.n) hs_buf_printf(&b, "/%.*s", (int)name.n, name.p);
  hlo_metadata *now = HS_NEW(&m->arena, hlo_metadata);
  if (d) *now = *d;
  now->op_name = (hs_str){hs_arena_strndup(&m->arena, b.p, b.n), b.n};
  hs_buf_free(&b);
  return now;
}

static void prefix_name(hlo_instr *i, hs_str prefix) {
  const hlo_metadata *d = prefixed(i->parent->module, hlo_metadata_of(i), prefix);
  if (d) hlo_set_attr_ptr(i, HLO_ATTR_METADATA, d);
}

static void add_bodies(pass_comp_queue *q, const hlo_instr *i, hs_arena *a) {
  if (i->opcode == HLO_WHILE || i->opcode == HLO_CONDITIONAL || i->opcode == HLO_ASYNC_START)
    pass_comp_queue_add_called(q, i, a);
}

// Prefixes the names of an instruction and of those in its loop bodies, branches and asynchronous
// computations. Not those in calls: they inherit the prefix when they are inlined.
static void prefix_names(hlo_instr *i, hs_str prefix, hs_arena *a) {
  pass_comp_queue q = {0};
  prefix_name(i, prefix);
  add_bodies(&q, i, a);
  for (size_t k = 0; k < q.v.n; k++)
    hlo_for_each_instr(x, q.v.v[k].a) {
      prefix_name(x, prefix);
      add_bodies(&q, x, a);
    }
  pass_comp_queue_free(&q);
}

static int key_order(hs_str a, hs_str b) {
  int d = memcmp(a.p, b.p, HS_MIN(a.n, b.n));
  return d ? d : a.n < b.n ? -1 : a.n > b.n;
}

static bool is_composite_key(hs_str key) {
  return hs_str_eq(key, HS_STR("composite.name")) ||
         hs_str_eq(key, HS_STR("composite.attributes")) ||
         hs_str_eq(key, HS_STR("composite.version"));
}

static bool may_fuse(const hlo_instr *i) {
  bool whole = i->opcode == HLO_DOMAIN || i->opcode == HLO_WHILE || i->opcode == HLO_CONDITIONAL ||
               i->opcode == HLO_CALL;
  return !whole && (i->opcode == HLO_RNG ? i->nuses <= 1 : !hlo_has_side_effect(i));
}

static bool is_fusion_key(hs_str key) {
  return hs_str_eq(key, HS_STR("MUST_FUSE")) || hs_str_eq(key, HS_STR("MAXIMAL_FUSE")) ||
         hs_str_eq(key, HS_STR("mosaic_fusion_group"));
}

// Copies the call's frontend attributes about fusion to a clone that can be fused; the root gets
// all of them if it has none then.
static void join_frontend(hlo_instr *i, const hlo_instr *call, bool root) {
  hlo_module *m = i->parent->module;
  const hlo_frontend *own = hlo_attr_ptr(i, HLO_ATTR_FRONTEND_ATTRIBUTES),
                     *from = hlo_attr_ptr(call, HLO_ATTR_FRONTEND_ATTRIBUTES);
  u32 n = 0, have = own ? own->n : 0, a = 0;
  bool fuses = false, composite = is_composite(call);
  for (u32 b = 0; b < from->n; b++) fuses |= is_fusion_key(from->v[b].key);
  fuses &= may_fuse(i);
  hlo_frontend_entry *v = HS_NEW_ARRAY(&m->arena, hlo_frontend_entry, have + from->n);
  for (u32 b = 0; b < from->n; b++) {  // both are sorted by key; the clone's own value wins
    hs_str key = from->v[b].key;
    if (fuses ? !is_fusion_key(key) : !root || have) continue;
    if (composite && is_composite_key(key)) continue;
    while (a < have && key_order(own->v[a].key, key) < 0) v[n++] = own->v[a++];
    if (a == have || key_order(own->v[a].key, key) != 0) v[n++] = from->v[b];
  }
  if (n == a) return;
  while (a < have) v[n++] = own->v[a++];
  hlo_frontend *now = HS_NEW(&m->arena, hlo_frontend);
  *now = (hlo_frontend){n, v};
  hlo_set_attr_ptr(i, HLO_ATTR_FRONTEND_ATTRIBUTES, now);
}

static void join_ctrl_preds(hs_arena *a, hlo_instr *i, const hlo_instr_list *from) {
  u32 n = i->ctrl_preds ? i->ctrl_preds->n : 0;
  hlo_instr **v = HS_NEW_ARRAY(a, hlo_instr *, n + from->n);
  for (u32 k = 0; k < n; k++) v[k] = i->ctrl_preds->v[k];
  for (u32 k = 0; k < from->n; k++) {
    bool have = false;
    for (u32 j = 0; j < n; j++) have |= v[j] == from->v[k];
    if (!have) v[n++] = from->v[k];
  }
  hlo_set_ctrl_preds(i, n, v);
}

void pass_inherit_from_call(hlo_instr *first, const hlo_instr *call, const hlo_instr *root,
                            hs_arena *a) {
  const hlo_frontend *frontend = hlo_attr_ptr(call, HLO_ATTR_FRONTEND_ATTRIBUTES);
  const hlo_metadata *md = hlo_metadata_of(call);
  for (hlo_instr *i = first; i != call; i = i->next) {
    if (frontend && frontend->n) join_frontend(i, call, i == root);
    if (md && md->op_name.n) prefix_names(i, md->op_name, a);
    pass_origin_leaves(i, call, "");
  }
}

// Replaces a call by clones of its body; returns the first clone, NULL when there are none.
static hlo_instr *inline_one(const inliner *t, hlo_instr *call, hlo_computation *body) {
  pass_ctx *c = t->c;
  hlo_computation *comp = call->parent;
  hlo_instr **args = HS_NEW_ARRAY(c->scratch, hlo_instr *, call->noperands + 1),
            *before = call->prev;
  for (u32 a = 0; a < call->noperands; a++) args[a] = hlo_operand(call, a);
  const hlo_instr_list *preds = call->ctrl_preds;
  pass_note_done(c, call, NULL, "inlined %s (%u instructions)", body->name, body->ninstrs);
  hlo_instr *root = pass_inline_at(call, body, args, c->scratch),
            *first = before ? before->next : comp->first;
  pass_inherit_from_call(first, call, root, c->scratch);
  for (hlo_instr *i = first; i != call; i = i->next) {
    if (i == root && hlo_attr_get(call, HLO_ATTR_SHARDING) && !hlo_attr_get(i, HLO_ATTR_SHARDING))
      hlo_set_attr(i, *hlo_attr_get(call, HLO_ATTR_SHARDING));
    if (preds && preds->n) join_ctrl_preds(c->scratch, i, preds);
  }
  if (first == call) first = NULL;
  u32 nargs = call->noperands;
  hlo_replace_uses(call, root);
  hlo_remove(call);  // also with side effects: the clones have them
  for (u32 a = 0; a < nargs; a++) hlo_remove_dead(args[a]);
  return first;
}

// Gives every channel of a computation a new unique id, except those of host transfers, whose ids
// the host knows.
static void renumber_channels(inliner *t, hlo_computation *comp) {
  hlo_for_each_instr(i, comp)
    if (hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) && !hlo_attr_int(i, HLO_ATTR_IS_HOST_TRANSFER, 0))
      hlo_set_attr_int(i, HLO_ATTR_CHANNEL_ID, t->next_channel++);
}

static i64 next_channel(const hlo_module *m) {
  i64 last = 0;
  hlo_for_each_comp(x, m)
    hlo_for_each_instr(i, x) last = HS_MAX(last, hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0));
  return last + 1;
}

// Inlines the calls of one computation and those among the clones. *more is false when the rewrite
// limit is reached. A chain of calls is inlined here as a whole, hence the poll.
static hs_status inline_calls(inliner *t, hlo_computation *comp, bool *more) {
  bool any = false;
  for (hlo_instr *i = comp->first, *next; i; i = next) {
    next = i->next;
    if (i->opcode == HLO_CALL) {
      HS_TRY(hs_poll());
      hlo_computation *body = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
      const char *why = refusal(t, i);
      if (why) {
        pass_note_declined(t->c, i, NULL, "%s", why);
        continue;
      }
      if (!pass_may_rewrite(t->c)) return *more = false, HS_GOOD;
      hlo_instr *first = inline_one(t, i, body);
      if (first) next = first;
      any = true;
    }
    // arguments without users were removed with the call
    while (next && next->dead) next = next->next;
  }
  if (any && t->renumber) renumber_channels(t, comp);
  return HS_GOOD;
}

static bool is_call(const hlo_instr *i) { return i->opcode == HLO_CALL; }

static hs_status run(pass_ctx *c) {
  hlo_module *m = c->m;
  u64 before = m->generation;
  u32 n;
  hlo_computation **order = pass_comp_callees_first(c, &n);
  inliner t = {.c = c,
               .single = pass_option_bool(c, "single_call_site"),
               .shardy = pass_option_bool(c, "use_shardy_partitioner"),
               .renumber = pass_option_bool(c, "uniquify_channel_ids"),
               .kept = pass_option_text(c, "composites_to_preserve"),
               .only = pass_option_text(c, "only"),
               .counts = pass_caller_counts(c),
               .async = HS_NEW_ARRAY(c->scratch, bool, m->next_comp_id + 1)};
  // the other options only inline less
  if (!t.single) HS_TRY(hlo_check_expansion(m, is_call, "call-inliner"));
  if (t.renumber) t.next_channel = next_channel(m);
  if (m->nops[HLO_ASYNC_START])
    hlo_for_each_comp(x, m)
      hlo_for_each_instr(i, x)
        if (i->opcode == HLO_ASYNC_START && hlo_fusion_comp(i))
          t.async[hlo_fusion_comp(i)->id] = true;
  // by computation id: has a caller that remains
  bool *needed = HS_NEW_ARRAY(c->scratch, bool, m->next_comp_id + 1);
  for (u32 k = n; k-- > 0;) {
    hlo_computation *x = order[k];
    if (!needed[x->id] && x != m->entry && t.counts[1 + x->id]) continue;
    bool more = true;
    HS_TRY(inline_calls(&t, x, &more));
    if (!more) return HS_GOOD;
    hlo_for_each_instr(i, x) {
      if (!hlo_op_has(i->opcode, HLO_F_CALLS)) continue;
      hlo_computation **v;
      u32 nv;
      pass_called_all(i, c->scratch, &v, &nv);
      for (u32 j = 0; j < nv; j++) needed[v[j]->id] = true;
    }
    HS_TRY(hs_poll());
  }
  if (m->generation != before) return pass_remove_unused(c);  // removes bodies without callers
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"single_call_site", PASS_BOOL, "false", "inline only computations with a single call site"},
    {"composites_to_preserve", PASS_TEXT, "",
     "do not inline composites with one of these names, as in \"my.relu my.norm\""},
    {"only", PASS_TEXT, "",
     "inline only calls of these computations, as in \"relu norm\"; empty: all"},
    {"uniquify_channel_ids", PASS_BOOL, "false",
     "give channels unique ids in computations that were inlined into"},
    {"use_shardy_partitioner", PASS_BOOL, "false",
     "do not inline bodies of manual computations (shmap_body...)"},
};

const pass_info pass_call_inliner = {
    .name = "call-inliner",
    .summary = "inlines called computations",
    .xla_source = "xla/service/call_inliner.cc",
    .run = run,
    .needs = {HLO_CALL},
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "square {\n"
              "  a = f32[4] parameter(0)\n"
              "  ROOT b = f32[4] multiply(a, a)\n"
              "}\n"
              "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  y = f32[4] call(x), to_apply=square\n"
              "  ROOT z = f32[4] call(y), to_apply=square\n"
              "}\n",
};
