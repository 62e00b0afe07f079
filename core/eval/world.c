// world.c — several devices: simulated replicas and partitions, their rendezvous and transfers.
//
// Every device is a thread that evaluates the whole program; where it is one instruction that all
// evaluate, with operands that are known, one thread does it by turns. A rendezvous belongs to one
// group of devices and to one instruction, or to several that are alike: where devices take
// different branches of a conditional, each branch has an instruction of its own. XLA tells a
// rendezvous by its devices and the channel, or without one by the module
// (xla/service/collective_ops_utils.h); collectives that differ in more than their names cannot
// answer each other there either. Each participant leaves references to its operands, and when all
// have arrived each computes its own result from them. A transfer goes from one device to another
// or to itself: both sides post it, and wait for the other in the done. When every device is
// waiting or finished and nothing is complete, the program is in deadlock, which is an error. A
// module in which nothing tells devices apart runs on one.
#include "core/eval/world.h"

// ---- rendezvous ---------------------------------------------------------------------------------
static bool skips_computation(hlo_attr_id id) {
  return id == HLO_ATTR_TO_APPLY || hlo_attr_is_annotation(id);
}

bool hlo_eval_meets(const hlo_instr *a, const hlo_instr *b) {
  if (a == b) return true;
  const hlo_computation *f = hlo_attr_comp(a, HLO_ATTR_TO_APPLY),
                        *g = hlo_attr_comp(b, HLO_ATTR_TO_APPLY);
  u32 budget = 4096;
  if (a->opcode != b->opcode || a->noperands != b->noperands ||
      a->shape->logical != b->shape->logical || !f != !g ||
      !hlo_attrs_equal(a->attrs, b->attrs, skips_computation) ||
      (f != g && !ev_same_expression(f->root, g->root, NULL, NULL, &budget)))
    return false;
  for (u32 k = 0; k < a->noperands; k++)
    if (hlo_operand(a, k)->shape->logical != hlo_operand(b, k)->shape->logical) return false;
  return true;
}

static ev_rendezvous *open_rendezvous(ev_world *w, const hlo_instr *i, u32 group, u32 size,
                                      u32 nops) {
  for (ev_rendezvous *m = w->open; m; m = m->next)
    if (m->group == group && hlo_eval_meets(m->i, i)) return m;
  ev_rendezvous *m = hs_calloc(1, sizeof *m);
  *m = (ev_rendezvous){.i = i,
                       .group = group,
                       .size = size,
                       .nops = nops,
                       .ops = hs_calloc((size_t)size * HS_MAX(nops, 1u), sizeof *m->ops),
                       .next = w->open};
  if (w->by_turns) {
    m->came = hs_calloc(size, sizeof *m->came);
    m->same = hs_calloc(HS_MAX(nops, 1u), sizeof *m->same);
  }
  w->open = m;
  return m;
}

static void free_rendezvous(ev_rendezvous *m) {
  for (u32 k = 0; k < m->size * m->nops; k++) hlo_literal_unref(m->ops[k]);
  for (u32 k = 0; m->same && k < m->nops; k++) hlo_literal_unref(m->same[k]);
  hs_free(m->ops);
  hs_free(m->came);
  hs_free(m->same);
  hs_free(m);
}

hlo_literal *ev_shared(const ev_rendezvous *m, u32 k) {
  return m->same && m->same[k] ? hlo_literal_ref(m->same[k]) : NULL;
}

void ev_share(ev_rendezvous *m, u32 k, const hlo_literal *result) {
  if (m->same && !m->same[k]) m->same[k] = hlo_literal_ref(result);
}

void ev_leave(ev_world *w, ev_rendezvous *m) {
  if (!m || m->came) return;  // freed with the world
  bool last = false;
  if (w) pthread_mutex_lock(&w->lock);
  last = ++m->left == m->size;
  if (w) pthread_mutex_unlock(&w->lock);
  if (last) free_rendezvous(m);
}

// Deadlock: every device is waiting or finished, or another one found that. Called with the lock
// held; wakes all the others once.
static bool is_deadlock(ev_world *w) {
  if (!w->failed && w->waiting + w->finished == w->n) {
    w->failed = true;
    pthread_cond_broadcast(&w->changed);
  }
  return w->failed;
}

static const char deadlock_text[] = "deadlock: ";  // how collect() tells these errors apart
static hs_status deadlock(const hlo_instr *i) {
  return hs_fail(HS_E_RUN, "%sother devices do not arrive at %s %s", deadlock_text,
                 hlo_op_text(i->opcode), i->name);
}

// A device's turn at a rendezvous: E_RUN, and parked, until all have come.
static hs_status join_by_turns(ev_world *w, const hlo_instr *i, u32 size, u32 position, u32 group,
                               u32 nops, hlo_literal *const *ops, ev_rendezvous **out) {
  ev_rendezvous *m = open_rendezvous(w, i, group, size, nops);
  if (!m->came[position]) {
    for (u32 k = 0; k < nops; k++) m->ops[position * nops + k] = hlo_literal_ref(ops[k]);
    m->came[position] = true;
    m->come++;
    w->arrivals++;
  }
  if (m->come == m->size) return *out = m, HS_GOOD;
  w->parked = true;
  return deadlock(i);
}

hs_status ev_join(ev *e, const hlo_instr *i, u32 size, u32 position, u32 group, u32 nops,
                  hlo_literal *const *ops, ev_rendezvous **out) {
  ev_world *w = e->world;
  *out = NULL;
  if (!w) {
    ev_rendezvous *m = hs_calloc(1, sizeof *m);
    *m = (ev_rendezvous){.i = i,
                         .size = 1,
                         .come = 1,
                         .nops = nops,
                         .ops = hs_calloc(HS_MAX(nops, 1u), sizeof *m->ops)};
    for (u32 k = 0; k < nops; k++) m->ops[k] = hlo_literal_ref(ops[k]);
    *out = m;
    return HS_GOOD;
  }
  if (w->by_turns) return join_by_turns(w, i, size, position, group, nops, ops, out);
  pthread_mutex_lock(&w->lock);
  // Others have given up and left: to complete their rendezvous now would leave it to nobody.
  if (w->failed) {
    pthread_mutex_unlock(&w->lock);
    return deadlock(i);
  }
  ev_rendezvous *m = open_rendezvous(w, i, group, size, nops);
  for (u32 k = 0; k < nops; k++) m->ops[position * nops + k] = hlo_literal_ref(ops[k]);
  bool full = ++m->come == m->size;
  if (full) {  // closed: the instruction's next execution opens a new one
    for (ev_rendezvous **p = &w->open; *p; p = &(*p)->next)
      if (*p == m) {
        *p = m->next;
        break;
      }
    w->waiting -= m->size - 1;  // released now, whenever they wake
    pthread_cond_broadcast(&w->changed);
  } else {
    w->waiting++;
    while (m->come < m->size && !is_deadlock(w)) pthread_cond_wait(&w->changed, &w->lock);
  }
  bool failed = m->come < m->size;
  pthread_mutex_unlock(&w->lock);
  // one that was never complete is freed with the world
  if (failed) return deadlock(i);
  *out = m;
  return HS_GOOD;
}

// ---- transfers ----------------------------------------------------------------------------------
static ev_transfer *find_transfer(ev_world *w, u32 id) {
  ev_transfer *l = w->transfers;
  while (l && l->id != id) l = l->next;
  return l;
}

// The oldest transfer between these two devices that this side has not posted yet, or a new one at
// the end. Its id, which a program can return, says what is transferred and not what was begun
// before it: independent transfers that change their order mean the same.
static ev_transfer *next_transfer(ev_world *w, i64 channel, u32 from, u32 to, bool sending) {
  enum { AT_ONCE = 64 };  // whose ids do not reach those of another channel or pair of devices
  u32 id = (((u32)channel * w->n + from) * w->n + to) * AT_ONCE;
  ev_transfer **p = &w->transfers;
  for (; *p; p = &(*p)->next) {
    ev_transfer *l = *p;
    if (l->channel != channel || l->from != from || l->to != to) continue;
    if (!(sending ? l->posted : l->wanted)) return l;
    id = l->id;
  }
  do id++;
  while (!id || find_transfer(w, id));
  *p = hs_calloc(1, sizeof **p);
  **p = (ev_transfer){.id = id, .channel = channel, .from = from, .to = to};
  return *p;
}

// The side that waited for this post is released now, whenever it wakes.
static void release_waiter(ev_world *w, bool waits) {
  if (waits) w->waiting--;
  pthread_cond_broadcast(&w->changed);
}

static hs_status no_devices(const hlo_instr *i) {
  return ev_unsupported(i, "outside of the run of a module");
}

hs_status ev_post_send(ev *e, const hlo_instr *i, i64 channel, u32 to, const hlo_literal *value,
                       u32 *id) {
  ev_world *w = e->world;
  if (!w) return no_devices(i);
  pthread_mutex_lock(&w->lock);
  ev_transfer *l = next_transfer(w, channel, ev_device(e), to, true);
  l->posted = true;
  l->value = hlo_literal_ref(value);
  *id = l->id;
  release_waiter(w, l->receiver_waits);
  pthread_mutex_unlock(&w->lock);
  return HS_GOOD;
}

hs_status ev_post_recv(ev *e, const hlo_instr *i, i64 channel, u32 from, u32 *id) {
  ev_world *w = e->world;
  if (!w) return no_devices(i);
  pthread_mutex_lock(&w->lock);
  ev_transfer *l = next_transfer(w, channel, from, ev_device(e), false);
  l->wanted = true;
  *id = l->id;
  release_waiter(w, l->sender_waits);
  pthread_mutex_unlock(&w->lock);
  return HS_GOOD;
}

static void drop_transfer(ev_world *w, ev_transfer *l) {
  for (ev_transfer **p = &w->transfers; *p; p = &(*p)->next)
    if (*p == l) {
      *p = l->next;
      break;
    }
  hlo_literal_unref(l->value);
  hs_free(l);
}

hs_status ev_wait_sent(ev *e, const hlo_instr *i, u32 id) {
  ev_world *w = e->world;
  if (!w) return no_devices(i);
  pthread_mutex_lock(&w->lock);
  ev_transfer *l = find_transfer(w, id);
  if (l && !l->wanted) {
    l->sender_waits = true;
    w->waiting++;
    while (!l->wanted && !is_deadlock(w)) pthread_cond_wait(&w->changed, &w->lock);
  }
  bool fine = l && l->wanted;
  if (fine) l->confirmed = true;
  if (fine && l->given) drop_transfer(w, l);
  pthread_mutex_unlock(&w->lock);
  return fine ? HS_GOOD : deadlock(i);
}

hs_status ev_wait_received(ev *e, const hlo_instr *i, u32 id, hlo_literal **out) {
  ev_world *w = e->world;
  if (!w) return no_devices(i);
  pthread_mutex_lock(&w->lock);
  ev_transfer *l = find_transfer(w, id);
  if (l && !l->posted) {
    l->receiver_waits = true;
    w->waiting++;
    while (!l->posted && !is_deadlock(w)) pthread_cond_wait(&w->changed, &w->lock);
  }
  bool taken = l && l->given, fine = l && l->posted && !taken;
  if (fine) {
    *out = l->value;
    l->value = NULL;
    l->given = true;
    if (l->confirmed) drop_transfer(w, l);
  }
  pthread_mutex_unlock(&w->lock);
  if (taken) return hs_fail(HS_E_RUN, "%s: another has received what was sent", i->name);
  return fine ? HS_GOOD : deadlock(i);
}

// ---- device assignments -------------------------------------------------------------------------
bool ev_counts_replicas(hlo_opcode op) {
  return op == HLO_ALL_REDUCE || op == HLO_ALL_REDUCE_START || op == HLO_REDUCE_SCATTER ||
         op == HLO_ALL_GATHER || op == HLO_ALL_GATHER_START;
}

u32 ev_partitions(const ev *e) { return e->world ? e->world->partitions : 1; }
u32 ev_replicas(const ev *e) { return e->world ? e->world->replicas : 1; }
u32 ev_device(const ev *e) { return e->replica * ev_partitions(e) + e->partition; }

bool ev_iota_devices(hlo_ints reshape, hlo_ints perm, i64 total, i64 *out) {
  return total <= EV_MAX_DEVICES && hlo_iota_ids(reshape, perm, total, out);
}

i64 ev_mesh_devices(const hlo_mesh *m, i64 *out) {
  i64 total = m->maximal ? 1 : ev_product(m->naxes, m->sizes);
  if (total < 1 || total > EV_MAX_DEVICES) return 0;
  if (m->maximal) out[0] = m->device_id;
  else if (m->ndevices) {
    if (m->ndevices != total) return 0;
    memcpy(out, m->devices, (size_t)total * sizeof *out);
  } else if (m->reshape.n) {
    if (!ev_iota_devices(m->reshape, m->perm, total, out)) return 0;
  } else {
    for (i64 k = 0; k < total; k++) out[k] = k;
  }
  return total;
}

bool ev_mesh_axis(const hlo_mesh *m, const hlo_axis *a, i64 *size, i64 *stride) {
  for (u32 k = 0; k < m->naxes; k++) {
    if (strcmp(m->names[k], a->name) != 0) continue;
    i64 whole = m->sizes[k], inner = ev_product(m->naxes - k - 1, m->sizes + k + 1);
    if (!a->size) {
      *size = whole;
      *stride = inner;
      return true;
    }
    i64 before = HS_MAX(a->pre, 1);
    if (whole % (before * a->size) != 0) return false;
    *size = a->size;
    *stride = inner * (whole / (before * a->size));
    return true;
  }
  return false;
}

// ---- all devices --------------------------------------------------------------------------------
typedef struct device {
  pthread_t thread;
  bool started;
  const hlo_computation *comp;  // what it runs, or
  const hlo_instr *instr;       // the one instruction, by turns
  u32 nargs;
  hlo_literal *const *args;
  hlo_eval_options opt;
  ev_world *w;
  u32 replica, partition;
  hs_interrupt *interrupt;  // of the thread that asked for the run
  hlo_literal *out;
  hs_status st;
} device;

static void *device_main(void *arg) {
  device *d = arg;
  hs_interrupt_watch(d->interrupt);
  d->st = ev_run_one(d->comp, d->nargs, d->args, &d->opt, d->w, d->replica, d->partition, &d->out);
  pthread_mutex_lock(&d->w->lock);
  d->w->finished++;
  if (!hs_ok(d->st)) d->w->failed = true;
  pthread_cond_broadcast(&d->w->changed);
  pthread_mutex_unlock(&d->w->lock);
  return NULL;
}

// Whether a run needs simulated devices: something tells them apart, or lets one write to another
// (or to itself).
static bool needs_world(const hlo_module *m, bool *apart) {
  bool any = false;
  *apart = false;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      switch (i->opcode) {
      case HLO_SEND:
      case HLO_RECV:
        any = true;
        *apart = true;
        break;
      case HLO_PARTITION_ID:
      case HLO_REPLICA_ID:
      case HLO_INFEED:
      case HLO_OUTFEED: *apart = true; break;
      default: *apart |= hlo_op_has(i->opcode, HLO_F_COLLECTIVE); break;
      }
      if (i->opcode == HLO_CUSTOM_CALL) {
        hs_str t = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
        static const char *const ends[] = {"SPMDFullToShardShape", "SPMDShardToFullShape",
                                           "xla.sdy.GlobalToLocalShape",
                                           "xla.sdy.LocalToGlobalShape"};
        for (size_t k = 0; k < HS_COUNT(ends); k++) *apart |= hs_str_eq(t, hs_str_of(ends[k]));
      }
    }
  return any;
}

static i64 product(u32 n, const i64 *v) {
  i64 p = 1;
  for (u32 k = 0; k < n; k++) p = hs_mul_sat_i64(p, v[k]);
  return p;
}

// How many devices the ids of a collective's groups count, or its shapes need when the groups are
// left open.
static i64 ids_of(const hlo_instr *i) {
  const hlo_replica_groups *g = hlo_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS);
  hlo_ints pairs = hlo_attr_ints(i, HLO_ATTR_SOURCE_TARGET_PAIRS);
  i64 n = 1;
  for (u32 k = 0; k < 2 * pairs.n; k++) n = HS_MAX(n, hs_add_sat_i64(pairs.v[k], 1));
  if (g && g->form == HLO_GROUPS_IOTA) n = product(g->dims.n, g->dims.v);
  if (g && g->form == HLO_GROUPS_MESH && g->mesh)
    n = g->mesh->maximal ? 1 : product(g->mesh->naxes, g->mesh->sizes);
  for (u32 k = 0; g && g->form == HLO_GROUPS_LIST && k < g->groups.n; k++)
    for (u32 j = 0; j < g->groups.v[k].n; j++)
      n = HS_MAX(n, hs_add_sat_i64(g->groups.v[k].v[j], 1));
  if (n > 1 || i->noperands < 1 || (g && g->groups.n)) return n;
  if (i->opcode == HLO_ALL_TO_ALL && hlo_shape_is_tuple(i->shape)) return i->noperands;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  const hlo_shape *from = hlo_operand(i, 0)->shape, *to = i->shape;
  while (hlo_shape_is_tuple(to) && to->nelems)
    to = to->elems[i->opcode == HLO_ALL_GATHER_START && to->nelems > 1 ? 1 : 0];
  bool gathers = i->opcode == HLO_ALL_GATHER || i->opcode == HLO_ALL_GATHER_START;
  if ((!gathers && i->opcode != HLO_REDUCE_SCATTER) || dims.n != 1 || dims.v[0] >= from->rank ||
      dims.v[0] >= to->rank)
    return n;
  i64 a = from->dims[dims.v[0]], b = to->dims[dims.v[0]], small = gathers ? a : b,
      large = gathers ? b : a;
  return small > 0 ? large / small : n;
}

// A module that does not say how many devices it is for has as many as its collectives and manual
// regions speak of.
void hlo_count_devices(const hlo_module *m, i64 *reps, i64 *parts) {
  i64 flat = 1;
  *reps = hlo_module_int(m, HLO_ATTR_REPLICA_COUNT, 1);
  *parts = hlo_module_int(m, HLO_ATTR_NUM_PARTITIONS, 1);
  if (hlo_attrs_find(m->attrs, HLO_ATTR_REPLICA_COUNT) ||
      hlo_attrs_find(m->attrs, HLO_ATTR_NUM_PARTITIONS))
    return;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      const hlo_sharding *s = i->opcode == HLO_CUSTOM_CALL && i->noperands == 1
                                  ? hlo_attr_ptr(hlo_operand(i, 0), HLO_ATTR_SHARDING)
                                  : NULL;
      bool into = s && hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET),
                                 HS_STR("SPMDFullToShardShape"));
      if (into && s->type == HLO_SH_TILED) *parts = HS_MAX(*parts, product(s->dims.n, s->dims.v));
      if (!hlo_op_has(i->opcode, HLO_F_COLLECTIVE)) continue;
      bool channel = hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) != NULL;
      i64 n = ids_of(i), *which = channel && hlo_attr_int(i, HLO_ATTR_USE_GLOBAL_DEVICE_IDS, 0)
                                      ? &flat
                                  : channel && !ev_counts_replicas(i->opcode) ? parts
                                                                              : reps;
      *which = HS_MAX(*which, n);
    }
  if (flat > hs_mul_sat_i64(*reps, *parts)) *parts = flat / *reps + (flat % *reps != 0);
}

static void free_world(ev_world *w) {
  while (w->transfers) drop_transfer(w, w->transfers);
  while (w->open) {
    ev_rendezvous *m = w->open;
    w->open = m->next;
    free_rendezvous(m);
  }
}

// The status to report: the cause before deadlocks, which may be its consequence.
static hs_status collect(device *d, u32 n) {
  hs_status st = HS_GOOD;
  for (int pass = 0; pass < 2; pass++)
    for (u32 k = 0; k < n; k++) {
      if (hs_ok(d[k].st)) continue;
      bool secondary = strncmp(d[k].st.err->message, deadlock_text, sizeof deadlock_text - 1) == 0;
      if (!hs_ok(st) || secondary != (pass == 1)) continue;
      st = d[k].st;
      d[k].st = HS_GOOD;
    }
  for (u32 k = 0; k < n; k++) hs_status_drop(d[k].st);
  return st;
}

hs_status hlo_eval_devices(const hlo_module *m, const hlo_eval_options *opt, u32 *replicas,
                           u32 *partitions, bool *transfers) {
  i64 reps = hlo_module_int(m, HLO_ATTR_REPLICA_COUNT, 1),
      parts = hlo_module_int(m, HLO_ATTR_NUM_PARTITIONS, 1);
  bool told = opt && (opt->nreplicas || opt->npartitions);
  if (!told) hlo_count_devices(m, &reps, &parts);
  if (told && opt->nreplicas) reps = opt->nreplicas;
  if (told && opt->npartitions) parts = opt->npartitions;
  if (reps < 1) reps = 1;
  if (parts < 1) parts = 1;
  if (reps > EV_MAX_DEVICES || parts > EV_MAX_DEVICES || reps * parts > EV_MAX_DEVICES)
    return hs_fail(HS_E_LIMIT, "more than %d devices", EV_MAX_DEVICES);
  bool apart;
  *transfers = needs_world(m, &apart);
  *replicas = apart ? (u32)reps : 1;
  *partitions = apart ? (u32)parts : 1;
  return HS_GOOD;
}

// Every device on a thread of its own, those that are `here` (NULL: all); d[k].st and d[k].out say
// what became of each.
static void run_threads(ev_world *w, device *d, const bool *here) {
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->changed, NULL);
  // Ctrl-C is the main thread's, whatever threads there are
  sigset_t only_int, before;
  sigemptyset(&only_int);
  sigaddset(&only_int, SIGINT);
  pthread_sigmask(SIG_BLOCK, &only_int, &before);
  for (u32 k = 0; k < w->n; k++) {
    bool comes = !here || here[k];
    d[k].w = w;
    d[k].replica = k / w->partitions;
    d[k].partition = k % w->partitions;
    d[k].interrupt = hs_interrupt_watched();
    d[k].started = comes && pthread_create(&d[k].thread, NULL, device_main, &d[k]) == 0;
    if (d[k].started) continue;
    pthread_mutex_lock(&w->lock);
    w->finished++;
    w->failed |= comes;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (comes) d[k].st = hs_fail(HS_E_NO_MEMORY, "no thread for a simulated device");
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  for (u32 k = 0; k < w->n; k++)
    if (d[k].started) pthread_join(d[k].thread, NULL);
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
}

// One instruction for every device that is `here`, in this thread: those that wait for another one
// run it again in the next round, until a round brings nobody further. Then they are in deadlock.
static void run_turns(ev_world *w, device *d, const bool *here) {
  bool *done = hs_calloc(w->n, sizeof *done), failed = false;
  for (bool further = true; further && !failed;) {
    further = false;
    for (u32 k = 0; k < w->n && !failed; k++) {
      if (done[k] || (here && !here[k])) continue;
      u32 before = w->arrivals;
      w->parked = false;
      hs_status_drop(d[k].st);
      d[k].st = ev_run_instr(d[k].instr, d[k].nargs, d[k].args, &d[k].opt, w, k / w->partitions,
                             k % w->partitions, &d[k].out);
      done[k] = !w->parked;
      failed = done[k] && !hs_ok(d[k].st);
      further |= done[k] || w->arrivals != before;
    }
  }
  hs_free(done);
}

hs_status ev_run_devices(const hlo_module *m, u32 nargs, hlo_literal *const *args,
                         const hlo_eval_options *opt, hlo_literal **out) {
  u32 reps, parts;
  bool transfers;
  HS_TRY(hlo_eval_devices(m, opt, &reps, &parts, &transfers));
  u32 n = reps * parts;
  if (n == 1 && !transfers) return hlo_eval_computation(m->entry, nargs, args, opt, out);
  HS_TRY(ev_check_args(m->entry, nargs, args));
  ev_world w = {.n = n, .replicas = reps, .partitions = parts};
  device *d = hs_calloc(n, sizeof *d);
  for (u32 k = 0; k < n; k++) {
    d[k] = (device){.comp = m->entry, .nargs = nargs, .args = args};
    if (opt) d[k].opt = *opt;
    if (k) d[k].opt.observe = NULL;  // captures see the first device
  }
  run_threads(&w, d, NULL);
  hs_status st = collect(d, n);
  if (hs_ok(st)) *out = d[0].out, d[0].out = NULL;
  for (u32 k = 0; k < n; k++) hlo_literal_unref(d[k].out);
  hs_free(d);
  free_world(&w);
  return st;
}

hs_status hlo_eval_together(const hlo_instr *i, u32 replicas, u32 partitions, const bool *here,
                            hlo_literal *const *const *ops, const hlo_eval_options *opt,
                            hlo_literal **outs) {
  ev_world w = {
      .n = replicas * partitions, .replicas = replicas, .partitions = partitions, .by_turns = true};
  device *d = hs_calloc(w.n, sizeof *d);
  for (u32 k = 0; k < w.n; k++) {
    d[k] = (device){.instr = i, .nargs = i->noperands, .args = ops[k]};
    if (opt) d[k].opt = *opt;
  }
  run_turns(&w, d, here);
  hs_status st = collect(d, w.n);
  for (u32 k = 0; k < w.n; k++) {
    outs[k] = hs_ok(st) ? d[k].out : NULL;
    if (!hs_ok(st)) hlo_literal_unref(d[k].out);
  }
  hs_free(d);
  free_world(&w);
  return st;
}

hs_status hlo_eval_partition_id(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)ops;
  HS_TRY(ev_new(e, i->shape, out));
  hlo_literal_set_i64(*out, 0, e->partition);
  return HS_GOOD;
}
hs_status hlo_eval_replica_id(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)ops;
  HS_TRY(ev_new(e, i->shape, out));
  hlo_literal_set_i64(*out, 0, e->replica);
  return HS_GOOD;
}
