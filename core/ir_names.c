// ir_names.c — names of instructions and computations, unique per module and found by hash.
//
// Instructions and computations have name spaces of their own (an `add` computation around an `add` instruction is common);
// one chained table holds both kinds. A fresh name is its root (the wanted name without a trailing ".N") plus the next free
// number of that root. Claims are journaled, so that undo frees names and the same pass run again gives the same names.
#include "core/ir_journal.h"

typedef struct name_node {
  const char *name;            // interned
  hlo_instr *instr;            // one of the two, or none: a root's counter only
  hlo_computation *comp;
  bool in;                     // linked at present
  struct name_node *next;
} name_node;

typedef struct root_node { const char *root; bool of_comps; u32 next_number; struct root_node *next; } root_node;

struct hlo_names {
  name_node **heads;
  root_node **roots;
  size_t cap, n;               // cap: power of two, same for both tables
};

static size_t slot_of(const struct hlo_names *t, const char *interned) {
  return (size_t)hs_mix(0, (u64)(uintptr_t)interned) & (t->cap - 1);
}

struct hlo_names *hlo_names_new_(void) {
  struct hlo_names *t = hs_calloc(1, sizeof *t);
  t->cap = 64;
  t->heads = hs_calloc(t->cap, sizeof *t->heads);
  t->roots = hs_calloc(t->cap, sizeof *t->roots);
  return t;
}

void hlo_names_free_(struct hlo_names *t) {
  hs_free(t->heads);
  hs_free(t->roots);
  hs_free(t);
}

static void link_node(struct hlo_names *t, name_node *n) {
  size_t at = slot_of(t, n->name);
  n->next = t->heads[at];
  t->heads[at] = n;
  n->in = true;
  t->n++;
}

static void unlink_node(struct hlo_names *t, name_node *n) {
  name_node **p = &t->heads[slot_of(t, n->name)];
  while (*p != n) p = &(*p)->next;
  *p = n->next;
  n->in = false;
  t->n--;
}

void hlo_name_toggle_(hlo_module *m, void *node) {
  name_node *n = node;
  if (n->in) unlink_node(m->names, n); else link_node(m->names, n);
}

static void grow(struct hlo_names *t) {
  size_t old = t->cap;
  name_node **heads = t->heads;
  root_node **roots = t->roots;
  t->cap *= 4;
  t->heads = hs_calloc(t->cap, sizeof *t->heads);
  t->roots = hs_calloc(t->cap, sizeof *t->roots);
  t->n = 0;
  for (size_t k = 0; k < old; k++) {
    for (name_node *n = heads[k], *next; n; n = next) next = n->next, link_node(t, n);
    for (root_node *r = roots[k], *next; r; r = next) {
      size_t at = slot_of(t, r->root);
      next = r->next;
      r->next = t->roots[at];
      t->roots[at] = r;
    }
  }
  hs_free(heads);
  hs_free(roots);
}

void hlo_names_reserve(hlo_module *m, size_t names) {
  while (m->names->cap < names) grow(m->names);
}

static name_node *find(const struct hlo_names *t, const char *interned, bool comp) {
  for (name_node *n = t->heads[slot_of(t, interned)]; n; n = n->next)
    if (n->name == interned && (n->comp != NULL) == comp) return n;
  return NULL;
}

static root_node *root_of(hlo_module *m, const char *interned, bool of_comps) {
  struct hlo_names *t = m->names;
  size_t at = slot_of(t, interned);
  for (root_node *r = t->roots[at]; r; r = r->next)
    if (r->root == interned && r->of_comps == of_comps) return r;
  root_node *r = HS_NEW(&m->arena, root_node);
  r->root = interned;
  r->of_comps = of_comps;
  r->next_number = 0;
  r->next = t->roots[at];
  t->roots[at] = r;
  return r;
}

// A name is a root and a number: "add.3" is (add, 3); "add" and "add.0" are both (add, 0) and exclude each other, as in
// XLA's NameUniquer. Returns the length of the root; *suffix says whether ".digits" was written.
static size_t split_name(const char *s, size_t n, u64 *number, bool *suffix) {
  size_t k = n;
  while (k > 0 && s[k - 1] >= '0' && s[k - 1] <= '9') k--;
  *suffix = k < n && n - k < 19 && k > 1 && s[k - 1] == '.';
  *number = 0;
  for (size_t j = k; *suffix && j < n; j++) *number = *number * 10 + (u64)(s[j] - '0');
  return *suffix ? k - 1 : n;
}

// The interned name of (root, number) when it is free, else NULL.
static const char *try_name(hlo_module *m, hs_buf *b, size_t root_length, u64 number, bool suffix, bool comp) {
  b->n = root_length;
  const char *bare = number == 0 ? hlo_intern(m->ctx, b->p, b->n) : NULL;
  hs_buf_putc(b, '.');
  hs_buf_i64(b, (i64)number);
  const char *dotted = hlo_intern(m->ctx, b->p, b->n);
  if (find(m->names, dotted, comp) || (bare && find(m->names, bare, comp))) return NULL;
  return number == 0 && !suffix ? bare : dotted;
}

const char *hlo_claim_name_(hlo_module *m, const char *want, hlo_instr *i, hlo_computation *c) {
  if (m->names->n >= m->names->cap) grow(m->names);
  size_t n = strlen(want);
  u64 number;
  bool suffix;
  size_t len = split_name(want, n, &number, &suffix);
  hs_buf b = {0};
  bool fresh = false;   // the common case of a large text: a numbered spelling that nobody had is no name yet
  const char *name = number && want[len + 1] != '0' ? hlo_intern_fresh(m->ctx, want, n, &fresh) : NULL;
  if (!fresh) {
    hs_buf_put(&b, want, len);
    name = try_name(m, &b, len, number, suffix, c != NULL);
  }
  if (!name) {
    root_node *root = root_of(m, hlo_intern(m->ctx, want, len), c != NULL);
    u32 next = root->next_number;
    while (!(name = try_name(m, &b, len, next, suffix, c != NULL))) next++;
    hlo_rec_u32_(m, NULL, &root->next_number, next + 1);
  }
  hs_buf_free(&b);
  name_node *node = HS_NEW(&m->arena, name_node);
  node->name = name;
  node->instr = i;
  node->comp = c;
  link_node(m->names, node);
  hlo_journal_name_(m, node);
  return name;
}

// A name stays claimed after its instruction is renamed or removed, hence the checks.
hlo_instr *hlo_find_instr(const hlo_module *m, const char *text) {
  name_node *n = find(m->names, hlo_intern_str(m->ctx, text), false);
  if (n && n->instr && !n->instr->dead && n->instr->name == n->name && !n->instr->parent->dead) return n->instr;
  return NULL;
}

hlo_computation *hlo_find_comp(const hlo_module *m, const char *text) {
  name_node *n = find(m->names, hlo_intern_str(m->ctx, text), true);
  return n && n->comp && !n->comp->dead && n->comp->name == n->name ? n->comp : NULL;
}
