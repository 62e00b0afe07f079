// names.h — private to ir*.c and the readers: the names of a module, unique and found by hash.
//
// Instructions and computations have name spaces of their own (an `add` computation around an `add`
// instruction is common); one table holds both. A node owns the characters that hlo_instr.name and
// hlo_computation.name point to, so a name is hashed and stored once.
//
// The table is open (linear probing, at most 3/4 full): a slot is the address of a node below 16
// bits of its hash, so that looking for a name that nobody has, as every new name is, reads a slot
// or two and no node. In a module of a million instructions each node read is a miss of the cache.
// Releasing a name, which undo does by the hundred thousand, only marks its node; the slot is used
// again by the same name, or freed when the table is made anew.
#ifndef HLO_IR_NAMES_H
#define HLO_IR_NAMES_H

#include "core/ir/ir.h"

typedef struct hlo_name_node {
  union {
    hlo_instr *instr;
    hlo_computation *comp;
  } of;
  u32 hash, n;
  bool of_comp;
  // not the spelling that was asked for: made up, or changed to be unique
  bool derived;
  bool in;       // claimed at present
  bool linked;   // in a slot of the table; a released name may stay there
  bool changed;  // the spelling asked for was taken: it stands behind the text's NUL
  char text[];   // n characters and a NUL
} hlo_name_node;

typedef u64 hlo_name_slot;  // 0: free

struct hlo_names {
  hlo_name_slot *slots;
  size_t cap, n;  // slots, a power of two; how many are taken
  struct hlo_name_root **roots;
  size_t roots_cap, nroots;
  bool any_changed;  // some name is not the one asked for
  bool zeros[2];     // a "root.0" has been claimed by an instruction, a computation
  hs_buf spelling;   // where names are put together
};

static inline u32 hlo_name_hash_(hs_str s) { return (u32)hs_hash_bytes(s.p, s.n, 0); }

enum { HLO_NAME_TAG = 48 };  // addresses of user space lie below this bit
static inline hlo_name_slot hlo_name_slot_(const hlo_name_node *k) {
  return (uintptr_t)k | (u64)(k->hash >> 16) << HLO_NAME_TAG;
}
static inline hlo_name_node *hlo_name_in_(hlo_name_slot s) {
  return (hlo_name_node *)(uintptr_t)(s & (((u64)1 << HLO_NAME_TAG) - 1));
}

// The node of a name; NULL when nobody has it.
static inline hlo_name_node *hlo_name_find_(const struct hlo_names *t, hs_str s, u32 hash,
                                            bool of_comp) {
  for (size_t at = hash & (t->cap - 1); t->slots[at]; at = (at + 1) & (t->cap - 1)) {
    if (t->slots[at] >> HLO_NAME_TAG != hash >> 16) continue;
    hlo_name_node *k = hlo_name_in_(t->slots[at]);
    if (k->in && k->hash == hash && k->n == s.n && k->of_comp == of_comp &&
        hs_same_bytes(k->text, s.p, s.n))
      return k;
  }
  return NULL;
}

// The name will be looked for soon: its place in a large table is fetched while something else is
// done.
static inline void hlo_names_prefetch_(const struct hlo_names *t, u32 hash) {
  __builtin_prefetch(&t->slots[hash & (t->cap - 1)], 1);
}
// The node behind hlo_instr.name or hlo_computation.name.
static inline hlo_name_node *hlo_name_node_of_(const char *name) {
  return (hlo_name_node *)((uintptr_t)name - offsetof(hlo_name_node, text));
}

struct hlo_names *hlo_names_new_(void);
void hlo_names_free_(struct hlo_names *);
// Claims a name, made unique from `want`, for an instruction or a computation (the other is NULL).
hlo_name_node *hlo_claim_name_(hlo_module *, hs_str want, hlo_instr *, hlo_computation *);
// the name of another one is wanted, who may keep it
hlo_name_node *hlo_claim_like_(hlo_module *, const hlo_instr *other, hlo_instr *);
hlo_name_node *hlo_claim_hashed_(hlo_module *, hs_str want, u32 hash, hlo_instr *,
                                 hlo_computation *);
// Names everything anew, in this order of computations (all of the module), as if nothing had a
// name yet: for readers, before a module is handed out, while the journal is off.
void hlo_name_anew_(hlo_module *, size_t n, hlo_computation *const *order);
// lets others have it; `name` stays readable
void hlo_release_name_(hlo_module *, const char *name);
// journal: claims a released name again, or releases it
void hlo_name_toggle_(hlo_module *, void *node);

#endif
