// names.c — names of instructions and computations, unique per module and found by hash
// (names.h).
//
// A fresh name is its root (the wanted name without a trailing ".N") plus the next free number of
// that root. Claims are journaled, so that undo frees names and the same pass run again gives the
// same names.
#include "core/ir/names.h"

#include "core/ir/journal.h"

// The next number to try for a root; only made when a wanted name was taken.
typedef struct hlo_name_root {
  struct hlo_name_root *next;
  u32 hash, n, next_number;
  bool of_comps;
  char text[];
} name_root;

enum { FIRST_CAP = 64 };

struct hlo_names *hlo_names_new_(void) {
  struct hlo_names *t = hs_calloc(1, sizeof *t);
  t->cap = t->roots_cap = FIRST_CAP;
  t->slots = hs_calloc(t->cap, sizeof *t->slots);
  t->roots = hs_calloc(t->roots_cap, sizeof *t->roots);
  return t;
}

void hlo_names_free_(struct hlo_names *t) {
  hs_buf_free(&t->spelling);
  hs_free(t->slots);
  hs_free(t->roots);
  hs_free(t);
}

static bool same_name(const hlo_name_node *a, const hlo_name_node *b) {
  return a->hash == b->hash && a->n == b->n && a->of_comp == b->of_comp &&
         hs_same_bytes(a->text, b->text, a->n);
}

// Puts a node into the table, in the slot of a released one of the same name if there is one, so
// that doing and undoing the same again and again fills no slots.
static void link_node(struct hlo_names *t, hlo_name_node *k) {
  hlo_name_slot mine = hlo_name_slot_(k);
  size_t at = k->hash & (t->cap - 1);
  for (; t->slots[at]; at = (at + 1) & (t->cap - 1)) {
    hlo_name_node *old = hlo_name_in_(t->slots[at]);
    if (t->slots[at] >> HLO_NAME_TAG != mine >> HLO_NAME_TAG || old->in || !same_name(old, k))
      continue;
    old->linked = false;
    t->n--;
    break;
  }
  t->slots[at] = mine;
  t->n++;
  k->in = k->linked = true;
}

static void grow(struct hlo_names *t, size_t cap) {
  hlo_name_slot *old = t->slots;
  size_t n = t->cap;
  t->cap = cap;
  t->slots = hs_calloc_table(cap, sizeof *t->slots);
  t->n = 0;
  for (size_t at = 0; at < n; at++) {
    if (!old[at]) continue;
    hlo_name_node *k = hlo_name_in_(old[at]);
    if (k->in) link_node(t, k);
    else k->linked = false;
  }
  hs_free(old);
}

static bool too_full(size_t names, size_t cap) { return names > cap / 4 * 3; }

// Room for one more name: a larger table, or the same without the released names.
static void make_room(struct hlo_names *t) {
  if (!too_full(t->n + 1, t->cap)) return;
  size_t claimed = 0;
  for (size_t at = 0; at < t->cap; at++) claimed += t->slots[at] && hlo_name_in_(t->slots[at])->in;
  grow(t, claimed > t->cap / 4 ? t->cap * 4 : t->cap);
}

void hlo_name_toggle_(hlo_module *m, void *node) {
  hlo_name_node *k = node;
  if (k->in || k->linked) {
    k->in = !k->in;
    return;
  }
  make_room(m->names);
  link_node(m->names, k);
}

void hlo_names_reserve(hlo_module *m, size_t names) {
  size_t cap = m->names->cap;
  while (too_full(names, cap)) cap *= 2;
  if (cap > m->names->cap) grow(m->names, cap);
}

static name_root *root_of(hlo_module *m, hs_str s, bool of_comps) {
  struct hlo_names *t = m->names;
  if (t->nroots == t->roots_cap) {
    name_root **old = t->roots;
    size_t n = t->roots_cap;
    t->roots_cap *= 2;
    t->roots = hs_calloc(t->roots_cap, sizeof *t->roots);
    for (size_t at = 0; at < n; at++)
      for (name_root *r = old[at], *next; r; r = next) {
        name_root **head = &t->roots[r->hash & (t->roots_cap - 1)];
        next = r->next;
        r->next = *head;
        *head = r;
      }
    hs_free(old);
  }
  u32 hash = hlo_name_hash_(s);
  name_root **head = &t->roots[hash & (t->roots_cap - 1)];
  for (name_root *r = *head; r; r = r->next)
    if (r->hash == hash && r->n == s.n && r->of_comps == of_comps && memcmp(r->text, s.p, s.n) == 0)
      return r;
  name_root *r = hs_arena_alloc(&m->arena, sizeof *r + s.n);
  *r = (name_root){.next = *head, .hash = hash, .n = (u32)s.n, .of_comps = of_comps};
  memcpy(r->text, s.p, s.n);
  t->nroots++;
  return *head = r;
}

// A name is a root and a number: "add.3" is (add, 3); "add" and "add.0" are both (add, 0) and
// exclude each other, as in XLA's NameUniquer. Returns the length of the root; *suffix says whether
// ".digits" was written.
static size_t root_length(hs_str s, bool *suffix) {
  size_t k = s.n;
  while (k > 0 && s.p[k - 1] >= '0' && s.p[k - 1] <= '9') k--;
  *suffix = k < s.n && s.n - k < 19 && k > 1 && s.p[k - 1] == '.';
  return *suffix ? k - 1 : s.n;
}

static bool taken(const hlo_module *m, hs_str s, bool of_comp) {
  return hlo_name_find_(m->names, s, hlo_name_hash_(s), of_comp) != NULL;
}

// Puts the spelling of (root, number) into b, which holds the root; false when it is taken.
static bool spell(hlo_module *m, hs_buf *b, size_t root, u64 number, bool suffix, bool of_comp) {
  b->n = root;
  bool numbered;  // "x.0.0" is (x.0, 0), and "x.0" is not that but (x, 0)
  root_length((hs_str){b->p, root}, &numbered);
  if (number == 0 && !numbered && taken(m, (hs_str){b->p, root}, of_comp)) return false;
  hs_buf_putc(b, '.');
  hs_buf_i64(b, (i64)number);
  if (taken(m, (hs_str){b->p, b->n}, of_comp)) return false;
  if (number == 0 && !suffix) b->n = root;
  return true;
}

// Spells a number that nobody has, from `next` on: the first, or behind a long run of taken ones
// (layer.1 to layer.8000, read from a text) one that is found in larger and larger steps.
static u32 free_number(hlo_module *m, hs_buf *b, size_t root, u32 next, bool suffix, bool of_comp) {
  enum { ONE_BY_ONE = 8 };
  for (u32 k = 0; k < ONE_BY_ONE; k++, next++)
    if (spell(m, b, root, next, suffix, of_comp)) return next;
  u32 taken_at = next - 1, step = ONE_BY_ONE;
  while (step < UINT32_MAX / 2 - taken_at / 2 &&
         !spell(m, b, root, taken_at + step, suffix, of_comp))
    taken_at += step, step *= 2;
  for (u32 high = taken_at + step; high - taken_at > 1;) {
    u32 mid = taken_at + (high - taken_at) / 2;
    if (spell(m, b, root, mid, suffix, of_comp)) high = mid;
    else taken_at = mid;
  }
  while (!spell(m, b, root, ++taken_at, suffix, of_comp)) {}
  return taken_at;
}

// `want` (may be NULL): the spelling asked for, when it is another one.
static hlo_name_node *make_node(hlo_module *m, hs_str s, u32 hash, const hs_str *want, hlo_instr *i,
                                hlo_computation *c) {
  hlo_name_node *k =
      hs_arena_alloc(&m->arena, offsetof(hlo_name_node, text) + s.n + 1 + (want ? want->n + 1 : 0));
  k->hash = hash;
  k->n = (u32)s.n;
  k->of_comp = c != NULL;
  k->derived = k->changed = want != NULL;
  k->in = k->linked = false;
  if (c) k->of.comp = c;
  else k->of.instr = i;
  memcpy(k->text, s.p, s.n);
  k->text[s.n] = 0;
  if (want) {
    memcpy(k->text + s.n + 1, want->p, want->n);
    k->text[s.n + 1 + want->n] = 0;
    m->names->any_changed = true;
  }
  link_node(m->names, k);
  return k;
}

// known: to be taken
static hlo_name_node *claim(hlo_module *m, hs_str want, u32 hash, bool known, hlo_instr *i,
                            hlo_computation *c) {
  struct hlo_names *t = m->names;
  make_room(t);
  bool suffix, of_comp = c != NULL;
  size_t len = root_length(want, &suffix);
  // The common cases of a large text: a number that nobody has, or no number and no ".0" about that
  // could stand for it.
  bool plain = suffix ? want.p[len + 1] != '0' : !t->zeros[of_comp];
  if (plain && !known && !hlo_name_find_(t, want, hash, of_comp)) {
    hlo_name_node *k = make_node(m, want, hash, NULL, i, c);
    hlo_journal_name_(m, k, NULL, 0);
    return k;
  }
  u64 number = 0;
  for (size_t k = len + 1; k < want.n; k++) number = number * 10 + (u64)(want.p[k] - '0');
  hs_buf b = t->spelling;
  b.n = 0;
  hs_buf_put(&b, want.p, len);
  u32 expected = 0, was = 0, *count = NULL;
  if (known || !spell(m, &b, len, number, suffix, of_comp)) {
    count = &root_of(m, (hs_str){want.p, len}, of_comp)->next_number;
    u32 next = was = *count;
    next = free_number(m, &b, len, next, suffix, of_comp);
    *count = expected = next + 1;
  }
  hs_str s = {b.p, b.n};
  if (s.n > 2 && memcmp(s.p + s.n - 2, ".0", 2) == 0) t->zeros[of_comp] = true;
  hlo_name_node *k = make_node(m, s, hlo_name_hash_(s), hs_str_eq(s, want) ? NULL : &want, i, c);
  hlo_journal_name_(m, k, count, was);
  // the same root is mostly wanted again soon, in the next of many computations that look alike
  if (expected) {
    b.n = len;
    hs_buf_putc(&b, '.');
    hs_buf_i64(&b, expected);
    hlo_names_prefetch_(t, hlo_name_hash_((hs_str){b.p, b.n}));
  }
  t->spelling = b;
  return k;
}

hlo_name_node *hlo_claim_hashed_(hlo_module *m, hs_str want, u32 hash, hlo_instr *i,
                                 hlo_computation *c) {
  return claim(m, want, hash, false, i, c);
}

hlo_name_node *hlo_claim_like_(hlo_module *m, const hlo_instr *other, hlo_instr *i) {
  const hlo_name_node *k = hlo_name_node_of_(other->name);
  bool known = k->in && !k->of_comp && other->parent->module == m;
  return claim(m, (hs_str){k->text, k->n}, known ? 0 : hlo_name_hash_((hs_str){k->text, k->n}),
               known, i, NULL);
}

void hlo_release_name_(hlo_module *m, const char *name) {
  hlo_name_node *k = hlo_name_node_of_(name);
  if (!k->in) return;
  k->in = false;
  hlo_journal_name_(m, k, NULL, 0);
}

hlo_name_node *hlo_claim_name_(hlo_module *m, hs_str want, hlo_instr *i, hlo_computation *c) {
  return hlo_claim_hashed_(m, want, hlo_name_hash_(want), i, c);
}

static hs_str wanted(const char *name) {
  const hlo_name_node *k = hlo_name_node_of_(name);
  return k->changed ? hs_str_of(k->text + k->n + 1) : (hs_str){k->text, k->n};
}

void hlo_name_anew_(hlo_module *m, size_t n, hlo_computation *const *order) {
  struct hlo_names *old = m->names;
  m->names = hlo_names_new_();
  hlo_names_reserve(m, old->n);
  for (size_t k = 0; k < n; k++) {
    order[k]->name = hlo_claim_name_(m, wanted(order[k]->name), NULL, order[k])->text;
    hlo_for_each_instr(i, order[k]) i->name = hlo_claim_name_(m, wanted(i->name), i, NULL)->text;
  }
  hlo_names_free_(old);
}

// A name stays claimed after its instruction is renamed or removed, hence the checks.
hlo_instr *hlo_find_instr(const hlo_module *m, const char *text) {
  hs_str s = hs_str_of(text);
  const hlo_name_node *k = hlo_name_find_(m->names, s, hlo_name_hash_(s), false);
  return k && !k->of.instr->dead && k->of.instr->name == k->text && !k->of.instr->parent->dead
             ? k->of.instr
             : NULL;
}

hlo_computation *hlo_find_comp(const hlo_module *m, const char *text) {
  hs_str s = hs_str_of(text);
  const hlo_name_node *k = hlo_name_find_(m->names, s, hlo_name_hash_(s), true);
  return k && !k->of.comp->dead && k->of.comp->name == k->text ? k->of.comp : NULL;
}
