// world.h — the simulated devices of one evaluation: rendezvous for collectives, transfers for
// send and recv. Shared by world.c, coll.c, manual.c and host_ops.c; see world.c.
#ifndef HLO_EVAL_WORLD_H
#define HLO_EVAL_WORLD_H

#include <pthread.h>
#include "core/eval/ops.h"

enum { EV_MAX_DEVICES = 1024 };

// The operands of all participants of one collective.
typedef struct ev_rendezvous ev_rendezvous;
struct ev_rendezvous {
  const hlo_instr *i;
  u32 group;  // tells rendezvous of one instruction, or of several that are alike, apart
  u32 size, come, left;
  u32 nops;
  hlo_literal **ops;  // [position][operand], references
  // Where the devices take turns: who came, and by operand a result that is every member's, once
  // one has it (ev_shared, ev_share).
  bool *came;
  hlo_literal **same;
  ev_rendezvous *next;
};

// One transfer of send and recv: complete when both sides have posted it.
typedef struct ev_transfer ev_transfer;
struct ev_transfer {
  u32 id;
  i64 channel;
  u32 from, to;                           // devices
  bool posted, wanted, given, confirmed;  // by send, recv; recv-done, send-done
  bool receiver_waits, sender_waits;      // in a done, counted in the world's `waiting`
  hlo_literal *value;
  ev_transfer *next;
};

struct ev_world {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  u32 n, replicas, partitions;
  u32 waiting, finished;
  bool failed;
  // One thread runs the devices by turns: who has to wait gives up, `parked`, to be run again.
  bool by_turns, parked;
  u32 arrivals;  // at any rendezvous
  ev_rendezvous *open;
  ev_transfer *transfers;
};

u32 ev_device(const ev *);  // replica * partitions + partition
u32 ev_partitions(const ev *);
u32 ev_replicas(const ev *);

// Adds this device's operands (borrowed) at its position in the group and blocks until all `size`
// members have. *out is valid until ev_leave. E_RUN on a deadlock.
hs_status ev_join(ev *, const hlo_instr *, u32 size, u32 position, u32 group, u32 nops,
                  hlo_literal *const *ops, ev_rendezvous **out);
void ev_leave(ev_world *, ev_rendezvous *);
// The result for operand k that another member has left, a new reference, or NULL; leaves one.
hlo_literal *ev_shared(const ev_rendezvous *, u32 k);
void ev_share(ev_rendezvous *, u32 k, const hlo_literal *result);

// Transfers are matched in order per (channel, from, to). A post gives the transfer's id and does
// not block; a wait blocks until the other side has posted, E_RUN on a deadlock. The value is
// borrowed by the post and given as a new reference.
hs_status ev_post_send(ev *, const hlo_instr *, i64 channel, u32 to, const hlo_literal *value,
                       u32 *id);
hs_status ev_post_recv(ev *, const hlo_instr *, i64 channel, u32 from, u32 *id);
hs_status ev_wait_sent(ev *, const hlo_instr *, u32 id);
hs_status ev_wait_received(ev *, const hlo_instr *, u32 id, hlo_literal **out);

// Whether a collective with a channel, but without use_global_device_ids, still counts replicas in
// its groups.
bool ev_counts_replicas(hlo_opcode);

// out[k] = the device at position k of an iota of `total` that was reshaped and transposed; false
// when sizes do not fit.
bool ev_iota_devices(hlo_ints reshape, hlo_ints perm, i64 total, i64 *out);
// The same for a mesh: out must hold the product of its axes, which is returned; 0 when it makes no
// sense.
i64 ev_mesh_devices(const hlo_mesh *, i64 *out);
// The part of a mesh position that belongs to an axis or a part of one: size values, `stride`
// positions apart.
bool ev_mesh_axis(const hlo_mesh *, const hlo_axis *, i64 *size, i64 *stride);

#endif
