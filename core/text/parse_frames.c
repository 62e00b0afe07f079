// parse_frames.c — the tables FileNames .. StackFrames behind a module's header, and the ids that
// metadata names them by.
//
// XLA rebuilds the tables in order of first use while it parses: computations in the order in which
// they end, instructions in theirs, a frame's parents before the frame. Entries without a use are
// dropped, equal ones become one, and an id without an entry becomes 0. The same is done here once
// the text is read: the print is then XLA's, and parsing it again changes nothing.
#include "core/text/parse.h"

// ---- reading ------------------------------------------------------------------------------------
static bool read_strings(hlo_parser *P, u32 *n, const hs_str **out) {
  HS_VEC(hs_str) all = {0};
  bool ok = true;
  while (ok && hlo_lex_ahead(LX) && hlo_is_ch(hlo_peek(LX), HLO_CH_DIGIT)) {
    i64 id;
    hs_str s;
    ok = hlo_int(LX, &id) && hlo_string_copy(LX, &s);
    if (ok) hs_vec_push(&all, s);
  }
  *n = (u32)all.n;
  *out = hs_arena_dup(LX->arena, all.v, all.n * sizeof *all.v);
  hs_vec_free(&all);
  return ok;
}

typedef struct field {
  const char *text;
  size_t n;
} field;

// 7 {line=3 column=4}, as printed: the cursor moves only when that is what stands there.
static bool plain_fields(hlo_parser *P, const field *names, i32 *to, u32 n) {
  const char *p = LX->p, *end = LX->end;
  while (p < end && hlo_is_ch(*p, HLO_CH_DIGIT)) p++;
  if (p == LX->p || end - p < 2 || *p != ' ' || p[1] != '{') return false;
  p += 2;
  for (u32 k = 0; k < n; k++) {
    size_t length = names[k].n;
    if ((size_t)(end - p) < length + 2 || !hs_same_bytes(p, names[k].text, length) ||
        p[length] != '=')
      return false;
    const char *first = p += length + 1;
    i32 v = 0;
    while (p < end && p - first < 9 && hlo_is_ch(*p, HLO_CH_DIGIT)) v = v * 10 + (*p++ - '0');
    if (p == first || p == end || *p++ != (k + 1 < n ? ' ' : '}')) return false;
    to[k] = v;
  }
  return LX->p = p, true;
}

static bool read_fields(hlo_parser *P, const field *names, i32 *to, u32 n) {
  i64 id;
  if (plain_fields(P, names, to, n)) return true;
  if (!hlo_int(LX, &id) || !hlo_expect(LX, '{', "in the stack frame table")) return false;
  for (u32 k = 0; k < n; k++) {
    if (!hlo_accept_word(LX, names[k].text))
      return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects %s=", names[k].text);
    if (!hlo_expect(LX, '=', "in the stack frame table") || !hlo_read_i32(P, &to[k])) return false;
  }
  return hlo_expect(LX, '}', "in the stack frame table");
}

bool hlo_read_frames(hlo_parser *P) {
#define F(text) \
  { text, sizeof text - 1 }
  static const field location[] = {F("file_name_id"), F("function_name_id"), F("line"),
                                   F("end_line"),     F("column"),           F("end_column")};
  static const field frame[] = {F("file_location_id"), F("parent_frame_id")};
#undef F
  hlo_stack_frames *f = HS_NEW(&P->m->arena, hlo_stack_frames);
  if (!hlo_accept_word(LX, "FileNames")) return true;
  if (!read_strings(P, &f->nfiles, &f->files)) return false;
  if (!hlo_accept_word(LX, "FunctionNames"))
    return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects FunctionNames");
  if (!read_strings(P, &f->nfunctions, &f->functions)) return false;
  if (!hlo_accept_word(LX, "FileLocations"))
    return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects FileLocations");
  HS_VEC(struct hlo_file_location) locs = {0};
  HS_VEC(struct hlo_stack_frame) frames = {0};
  bool ok = true;
  while (ok && hlo_lex_ahead(LX) && hlo_is_ch(hlo_peek(LX), HLO_CH_DIGIT)) {
    i32 v[6];
    ok = read_fields(P, location, v, 6);
    hs_vec_push(&locs, ((struct hlo_file_location){v[0], v[1], v[2], v[3], v[4], v[5]}));
  }
  if (ok && !hlo_accept_word(LX, "StackFrames"))
    ok = hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects StackFrames");
  while (ok && hlo_lex_ahead(LX) && hlo_is_ch(hlo_peek(LX), HLO_CH_DIGIT)) {
    i32 v[2] = {0};
    ok = read_fields(P, frame, v, 2);
    hs_vec_push(&frames, ((struct hlo_stack_frame){v[0], v[1] == INT32_MIN ? v[1] : v[1] - 1}));
  }
  f->nlocations = (u32)locs.n;
  f->locations = hs_arena_dup(&P->m->arena, locs.v, locs.n * sizeof *locs.v);
  f->nframes = (u32)frames.n;
  f->frames = hs_arena_dup(&P->m->arena, frames.v, frames.n * sizeof *frames.v);
  hs_vec_free(&locs);
  hs_vec_free(&frames);
  if (ok) hlo_set_stack_frames(P->m, f);
  return ok;
}

// ---- the module's own tables --------------------------------------------------------------------
// Values seen so far, numbered from 1 in that order; equal values have one number.
typedef enum table_kind { FILES, FUNCTIONS, LOCATIONS, FRAMES } table_kind;
typedef struct frame_slot {
  u32 hash, kind, number;
} frame_slot;  // number 0: free
typedef struct frame_tables {
  const hlo_stack_frames *old;
  i32 *renamed;  // frames, by old id: the new one, 0 not seen yet, LOST
  // the same of the other tables: an id seen once is not hashed again
  i32 *new_file, *new_function, *new_location;
  frame_slot *slots;  // all four kinds; open addressing
  size_t cap;         // power of two
  HS_VEC(hs_str) files, functions;
  HS_VEC(struct hlo_file_location) locations;
  HS_VEC(struct hlo_stack_frame) frames;
  HS_VEC(i32) path;  // scratch: a frame and its parents
} frame_tables;
enum { LOST = -1 };

static bool same_value(const frame_tables *t, const frame_slot *s, const void *p, size_t n) {
  u32 at = s->number - 1;
  const void *have = s->kind == LOCATIONS ? (const void *)&t->locations.v[at] : &t->frames.v[at];
  if (s->kind == FILES || s->kind == FUNCTIONS) {
    hs_str str = s->kind == FILES ? t->files.v[at] : t->functions.v[at];
    if (str.n != n) return false;
    have = str.p;
  }
  return memcmp(have, p, n) == 0;
}

// The number of a value; a new one gets `next`, and its caller adds it to the values of its kind.
static i32 number_of(frame_tables *t, table_kind kind, const void *p, size_t n, size_t next) {
  u32 hash = (u32)hs_hash_bytes(p, n, kind);
  frame_slot *s = &t->slots[hash & (t->cap - 1)];
  while (s->number && !(s->hash == hash && s->kind == kind && same_value(t, s, p, n)))
    s = s + 1 < t->slots + t->cap ? s + 1 : t->slots;
  if (!s->number) *s = (frame_slot){hash, kind, (u32)next};
  return (i32)s->number;
}

static i32 string_number(frame_tables *t, table_kind kind, u32 n, const hs_str *all, i32 *known,
                         i32 id) {
  if (id <= 0 || (u32)id > n) return 0;
  if (known[id]) return known[id];
  hs_str s = all[id - 1];
  size_t next = (kind == FILES ? t->files.n : t->functions.n) + 1;
  i32 at = number_of(t, kind, s.p, s.n, next);
  if ((size_t)at == next && kind == FILES) hs_vec_push(&t->files, s);
  if ((size_t)at == next && kind == FUNCTIONS) hs_vec_push(&t->functions, s);
  return known[id] = at;
}

static i32 location_number(frame_tables *t, i32 id) {
  if (id <= 0 || (u32)id > t->old->nlocations) return 0;
  if (t->new_location[id]) return t->new_location[id];
  struct hlo_file_location l = t->old->locations[id - 1];
  l.file = string_number(t, FILES, t->old->nfiles, t->old->files, t->new_file, l.file);
  l.function = string_number(t, FUNCTIONS, t->old->nfunctions, t->old->functions, t->new_function,
                             l.function);
  i32 at = number_of(t, LOCATIONS, &l, sizeof l, t->locations.n + 1);
  if ((size_t)at > t->locations.n) hs_vec_push(&t->locations, l);
  return t->new_location[id] = at;
}

static i32 frame_number(frame_tables *t, i32 id) {
  t->path.n = 0;
  i32 parent = 0;
  for (; id; id = t->old->frames[id - 1].parent) {
    bool known = t->old && id > 0 && (u32)id <= t->old->nframes;
    // out of the table, or a circle
    if (!known || t->path.n > t->old->nframes || t->renamed[id] == LOST) parent = LOST;
    else parent = t->renamed[id];
    if (parent) break;
    hs_vec_push(&t->path, id);
  }
  // A frame without a location is lost, with all that it is a parent of. Its own parents are not
  // used by this id, hence not numbered.
  for (size_t k = t->path.n; k-- > 0 && parent != LOST;) {
    i32 location = t->old->frames[t->path.v[k] - 1].location;
    if (location <= 0 || (u32)location > t->old->nlocations) parent = LOST, t->path.n = k + 1;
  }
  while (t->path.n) {
    i32 at = hs_vec_pop(&t->path);
    if (parent != LOST) {
      struct hlo_stack_frame f = {location_number(t, t->old->frames[at - 1].location), parent};
      parent = number_of(t, FRAMES, &f, sizeof f, t->frames.n + 1);
      if ((size_t)parent > t->frames.n) hs_vec_push(&t->frames, f);
    }
    t->renamed[at] = parent;
  }
  return parent == LOST ? 0 : parent;
}

static void renumber_in_order(hlo_parser *P, frame_tables *t) {
  size_t n = P->framed.n;
  if (!P->nested) {  // then the text has them in order
    for (size_t k = 0; k < n; k++) {
      hlo_metadata *m = P->framed.v[k];
      m->stack_frame_id = frame_number(t, m->stack_frame_id);
    }
    return;
  }
  for (size_t c = 0; c < P->finished.n; c++)
    hlo_for_each_instr(i, P->finished.v[c]) {
      // the parser's own, not const yet
      hlo_metadata *m = (hlo_metadata *)(uintptr_t)hlo_metadata_of(i);
      // A new id is kept negated until all are done, as several instructions may share it.
      if (m && m->stack_frame_id > 0) m->stack_frame_id = -frame_number(t, m->stack_frame_id);
    }
  for (size_t k = 0; k < n; k++) {
    i32 *id = &P->framed.v[k]->stack_frame_id;
    *id = *id < 0 ? -*id : 0;
  }
}

void hlo_settle_frames(hlo_parser *P) {
  if (!P->m->frames && !P->framed.n) return;
  frame_tables t = {.old = P->m->frames};
  hlo_stack_frames none = {0};
  const hlo_stack_frames *old = t.old ? t.old : &none;
  size_t n = (size_t)old->nfiles + old->nfunctions + old->nlocations + old->nframes;
  // one block for the four, each with an entry for id 0
  t.renamed = hs_calloc(n + 4, sizeof *t.renamed);
  t.new_file = t.renamed + old->nframes + 1;
  t.new_function = t.new_file + old->nfiles + 1;
  t.new_location = t.new_function + old->nfunctions + 1;
  for (t.cap = 64; t.cap < 2 * n; t.cap *= 2) {}
  t.slots = hs_calloc_table(t.cap, sizeof *t.slots);
  renumber_in_order(P, &t);
  hlo_stack_frames *f = t.frames.n ? HS_NEW(LX->arena, hlo_stack_frames) : NULL;
  if (f)
    *f = (hlo_stack_frames){
        (u32)t.files.n,
        hs_arena_dup(LX->arena, t.files.v, t.files.n * sizeof *t.files.v),
        (u32)t.functions.n,
        hs_arena_dup(LX->arena, t.functions.v, t.functions.n * sizeof *t.functions.v),
        (u32)t.locations.n,
        hs_arena_dup(LX->arena, t.locations.v, t.locations.n * sizeof *t.locations.v),
        (u32)t.frames.n,
        hs_arena_dup(LX->arena, t.frames.v, t.frames.n * sizeof *t.frames.v)};
  hlo_set_stack_frames(P->m, f);
  hs_free(t.renamed);
  hs_free(t.slots);
  hs_vec_free(&t.files);
  hs_vec_free(&t.functions);
  hs_vec_free(&t.locations);
  hs_vec_free(&t.frames);
  hs_vec_free(&t.path);
}
