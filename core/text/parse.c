// parse.c — HLO text to a module: header, computations, recovery from errors (grammar: XLA's
// hlo_parser.cc).
//
// One pass, which builds the module through ir.h as it reads. Names are resolved in parse_names.c.
// After an error the parser continues at the next instruction; the name of the failed one is
// poisoned: its users fail without a message, so that every message is a mistake of its own.
#include "core/text/parse.h"

#include <stdio.h>
#include <stdlib.h>
// ---- computations -------------------------------------------------------------------------------
static bool read_instructions(hlo_parser *P);

static bool read_inline_comp(hlo_parser *P, hlo_computation **out) {
  if (!hlo_lex_enter(LX)) return false;
  hlo_computation *outer = P->comp;
  u32 scope = P->scope;
  size_t shadow = P->instrs.shadowed.n;
  P->comp = *out = hlo_add_computation(P->m, "_");
  hlo_name_node_of_(P->comp->name)->derived = true;  // nobody wrote it
  P->scope = ++P->next_scope;
  P->inline_depth++;
  P->nested = true;
  bool ok = read_instructions(P);
  P->inline_depth--;
  hlo_unshadow(&P->instrs, shadow);
  P->comp = outer;
  P->scope = scope;
  hlo_lex_leave(LX);
  return ok || hlo_give_up(P);
}

bool hlo_read_comp(hlo_parser *P, hlo_computation **out) {
  if (hlo_peek(LX) == '{') return read_inline_comp(P, out);
  hs_str name;
  if (!hlo_name(LX, &name)) return false;
  bool poisoned;
  *out = hlo_lookup_comp(P, name, &poisoned);
  if (*out) return true;
  return poisoned ? hlo_give_up(P) : hlo_no_comp(P, name);
}

// Where reading goes on after an error: the next line that starts an instruction, ends a
// computation or starts one.
static void recover(hlo_parser *P, const char *start) {
  if (LX->p < start) LX->p = start;
  const char *back = LX->p;  // blanks behind the instruction may have been skipped already
  while (back > start && hlo_is_ch(back[-1], HLO_CH_SPACE)) back--;
  LX->p = back;
  for (;;) {
    const char *q = memchr(LX->p, '\n', (size_t)(LX->end - LX->p));
    if (!q) {
      LX->p = LX->end;
      return;
    }
    LX->p = q + 1;
    const char *line = LX->p;
    LX->failed = false;
    char c = hlo_peek(LX);
    if (LX->failed) return;
    if (c == 0 || c == '}') return;
    bool root = hlo_accept_word(LX, "ROOT");
    if (hlo_at(LX, 0) == ' ' && root) hlo_skip(LX);
    bool percent = hlo_at(LX, 0) == '%' && (LX->p++, true);
    hs_str id = hlo_ident(LX);
    bool entry = hs_str_eq(id, HS_STR("ENTRY"));
    bool instr = id.n && (hlo_peek(LX) == '=' && (percent || LX->p > id.p + id.n));
    bool comp = id.n && (hlo_peek(LX) == '{' || (percent && hlo_peek(LX) == '('));
    LX->p = line;
    if (root || entry || instr || comp) return;
  }
}

static bool params_complete(hlo_parser *P) {
  const hlo_computation *c = P->comp;
  for (u32 k = 0; k < c->nparams; k++)
    if (!c->params[k])
      return hlo_lex_error(LX, HS_E_VERIFY, NULL,
                           "parameter number %u is missing in computation %s", k, c->name);
  return true;
}

static bool finish_computation(hlo_parser *P, hlo_instr *root, bool failed) {
  hlo_computation *c = P->comp;
  hs_vec_push(&P->finished, c);
  if (failed) return true;
  if (!c->last)
    return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects an instruction in the computation");
  hlo_set_root(c, root ? root : c->last);
  return params_complete(P);
}

// '{' instruction+ '}'. Errors are recorded and recovered from; false when there was any.
static bool read_instructions(hlo_parser *P) {
  if (!hlo_expect(LX, '{', "at the start of the instruction list")) return false;
  hlo_instr *root = NULL, *last = NULL;
  bool any_failed = false;
  while (hlo_peek(LX) != '}' || LX->failed) {
    const char *start = LX->p;
    hs_str name;
    bool is_root;
    hlo_instr *i = NULL;
    if (hs_interrupted()) return hlo_lex_status(LX, hs_stopped(), start), LX->p = LX->end, false;
    bool ok = !LX->failed &&
              (LX->p < LX->end || hlo_lex_error(LX, HS_E_SYNTAX, NULL,
                                                "expects '}' at the end of the instruction list"));
    ok = ok && hlo_read_instruction(P, &name, &is_root, &i);
    if (ok && is_root) {
      if (root)
        ok = hlo_lex_error(LX, HS_E_SYNTAX, start, "one computation should have only one ROOT");
      root = i;
    }
    if (ok) {
      last = i;
      continue;
    }
    any_failed = true;
    if (start < LX->end && name.n) hlo_bind_instr(P, name, NULL);
    if (LX->p >= LX->end && start >= LX->end) return false;
    if (LX->nerrors >= LX->max_errors) return LX->p = LX->end, false;
    recover(P, start);
  }
  hlo_accept(LX, '}');
  if (!root && last && !any_failed) root = last;
  return finish_computation(P, root, any_failed) && !any_failed;
}

// '(' (name: shape, ...)* ')' '->' shape: the parameters are read and forgotten; *result is checked
// against the root.
static bool read_signature(hlo_parser *P, const hlo_shape **result) {
  LX->p++;
  if (hlo_peek(LX) != ')') {
    do {
      hs_str name;  // a ':' belongs to the name and may be missing
      if (!hlo_name(LX, &name) || !hlo_read_shape(P)) return false;
    } while (hlo_accept(LX, ','));
  }
  if (!hlo_expect(LX, ')', "at the end of the signature's parameters")) return false;
  if (!hlo_accept_text(LX, "->"))
    return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects '->' in the signature");
  return (*result = hlo_read_shape(P)) != NULL;
}

static bool check_result(hlo_parser *P, const hlo_shape *result, const char *at) {
  const hlo_instr *root = P->comp->root;
  if (!result || !root || hlo_shapes_agree(result, root->shape)) return true;
  hs_buf a = {0}, b = {0};
  hlo_shape_print(&a, result, false);
  hlo_shape_print(&b, root->shape, false);
  hlo_lex_error(
      LX, HS_E_SHAPE, at,
      "Shape of computation %s, %s, is not compatible with that of its root instruction %s, %s",
      P->comp->name, hs_buf_cstr(&a), root->name, hs_buf_cstr(&b));
  hs_buf_free(&a);
  hs_buf_free(&b);
  return false;
}

static bool redefined(hlo_parser *P, const hlo_computation *before, hs_str name, const char *at) {
  hlo_lex_error(LX, HS_E_REDEFINED, at, "computation already exists: %.*s", (int)name.n, name.p);
  for (size_t k = 0; k < P->heads.n; k++)
    if (P->heads.v[k].comp == before)
      hlo_lex_note_at(LX, P->heads.v[k].at, "computation previously defined here");
  return false;
}

static bool read_computation(hlo_parser *P) {
  bool entry = hlo_accept_word(LX, "ENTRY");
  const char *at = (hlo_skip(LX), LX->p);
  hs_str name;
  if (!hlo_name(LX, &name)) return false;
  hlo_names_prefetch_(P->m->names, hlo_name_hash_(name));
  const hlo_shape *result = NULL;
  if (hlo_peek(LX) == '(' && !read_signature(P, &result)) return false;
  bool poisoned;
  const hlo_computation *before = hlo_lookup_comp(P, name, &poisoned);
  if (before) return redefined(P, before, name, at);
  char *s = hs_format("%.*s", (int)name.n, name.p);
  P->comp = hlo_add_computation(P->m, s);
  hs_free(s);
  hs_vec_push(&P->heads, ((hlo_head){P->comp, at}));
  P->scope = ++P->next_scope;
  bool ok = read_instructions(P);
  LX->failed = false;
  ok = ok && check_result(P, result, at);
  hlo_bind_comp(P, name, ok ? P->comp : NULL);
  if (entry) {
    if (P->m->entry) return hlo_lex_error(LX, HS_E_SYNTAX, at, "expects only one ENTRY");
    hlo_set_entry(P->m, P->comp);
  }
  if (hlo_accept(LX, ',')) {
    if (!hlo_accept_text(LX, "execution_thread="))
      return hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects execution_thread=");
    hs_str thread;
    if (!hlo_string_copy(LX, &thread)) return false;
    if (!hs_str_eq(thread, HS_STR("main"))) hlo_set_execution_thread(P->comp, thread);
  }
  return ok;
}

// ---- the module ---------------------------------------------------------------------------------
static bool read_module_attrs(hlo_parser *P) {
  while (hlo_accept(LX, ',')) {
    hs_str key = hlo_ident(LX);
    if (!key.n || hlo_at(LX, 0) != '=')
      return hlo_lex_error(LX, HS_E_SYNTAX, key.p,
                           "expects ', ' and a module attribute directly followed by '='");
    LX->p++;
    hlo_attr a = {.id = hs_str_eq(key, HS_STR("frontend_attributes")) ? HLO_ATTR_FRONTEND_ATTRIBUTES
                                                                      : HLO_ATTR_NONE};
    for (int k = HLO_ATTR_IS_SCHEDULED; !a.id && k < HLO_ATTR_COUNT; k++)
      if (hs_str_eq(key, hs_str_of(hlo_attr_text((hlo_attr_id)k)))) a.id = (hlo_attr_id)k;
    if (!a.id) {
      const char *all[HLO_ATTR_COUNT];
      size_t n = 0;
      for (int k = HLO_ATTR_IS_SCHEDULED; k < HLO_ATTR_COUNT; k++)
        all[n++] = hlo_attr_text((hlo_attr_id)k);
      all[n++] = "frontend_attributes";
      char *word = hs_format("%.*s", (int)HS_MIN(key.n, 200u), key.p);
      hlo_lex_error(LX, HS_E_ATTR, key.p, "unexpected attribute \"%s\" of the module", word);
      const char *near = hs_nearest(word, all, n);
      if (near) hlo_lex_note(LX, "did you mean %s?", near);
      hs_free(word);
      return false;
    }
    if (hlo_attrs_find(P->m->attrs, a.id))
      return hlo_lex_error(LX, HS_E_ATTR, key.p, "attribute %.*s already exists", (int)key.n,
                           key.p);
    if (!hlo_read_attr(P, &a)) return false;
    if (!hlo_attr_droppable(HLO_OP_INVALID, &a)) hlo_set_module_attr(P->m, a);
  }
  return true;
}

static void complete_entry_layout(hlo_parser *P) {
  hlo_computation *e = P->m->entry;
  if (!e || !e->root || hlo_attrs_find(P->m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT)) return;
  hlo_program_shape *s = HS_NEW(LX->arena, hlo_program_shape);
  const hlo_shape **params = HS_NEW_ARRAY(LX->arena, const hlo_shape *, e->nparams);
  for (u32 k = 0; k < e->nparams; k++) params[k] = e->params[k]->shape;
  *s = (hlo_program_shape){e->nparams, params, e->root->shape};
  hlo_set_module_attr(P->m, (hlo_attr){.id = HLO_ATTR_ENTRY_COMPUTATION_LAYOUT, .v.p = s});
}

static void read_computations(hlo_parser *P) {
  while (hlo_lex_ahead(LX) && hlo_peek(LX) != 0) {
    const char *start = LX->p;
    if (read_computation(P)) continue;
    if (LX->nerrors >= LX->max_errors || LX->p >= LX->end) return;
    if (!LX->failed) continue;  // its instructions had errors and were recovered from
    recover(P, start);
    while (LX->p < LX->end && hlo_peek(LX) != 0) {  // on to the next computation
      const char *line = LX->p;
      hs_str id = hlo_peek_ident(LX);
      if (hs_str_eq(id, HS_STR("ENTRY")) || hlo_at(LX, 0) == '%' ||
          (id.n && id.p == LX->p && line[-1] == '\n'))
        break;
      recover(P, LX->p);
    }
    LX->failed = false;
    if (LX->p == start) LX->p = LX->end;
  }
}

static void read_module(hlo_parser *P, bool header) {
  if (header) {
    hlo_accept_word(LX, "HloModule");
    hs_str name;
    if (!hlo_name(LX, &name)) return;
    P->m->name = hlo_intern(P->ctx, name.p, name.n);
    if (!read_module_attrs(P) || !hlo_read_frames(P)) return;
  }
  read_computations(P);
  if (LX->nerrors) return;
  if (!P->m->entry) {
    if (!P->comp) {
      hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects a computation: the text holds no instructions");
      return;
    }
    hlo_set_entry(P->m, P->comp);
  }
  if (!header) {
    char *s = hs_format("module_%s", P->m->entry->name);
    P->m->name = hlo_intern_str(P->ctx, s);
    hs_free(s);
  }
  complete_entry_layout(P);
}

// A single instruction gets a computation whose parameters are its operands.
static void read_single(hlo_parser *P) {
  P->single = true;
  P->comp = hlo_add_computation(P->m, "entry");
  P->scope = ++P->next_scope;
  bool is_root = hlo_accept_word(LX, "ROOT");
  hs_str name = {0};
  hlo_instr *i;
  if (is_root || !hlo_shape_follows(P)) {
    if (!hlo_name(LX, &name)) return;
    if (!hlo_accept(LX, '=')) {
      hlo_lex_error(LX, HS_E_SYNTAX, NULL, "expects '=' in instruction");
      return;
    }
  }
  if (!hlo_read_rhs(P, name, true, &i)) return;
  if (hlo_peek(LX) != 0) {
    hlo_lex_error(LX, HS_E_SYNTAX, NULL, "Expected eof after a single instruction");
    hlo_lex_note(LX, "a module begins with HloModule NAME");
    return;
  }
  hs_vec_push(&P->finished, P->comp);
  hlo_set_root(P->comp, i);
  if (!params_complete(P)) return;
  hlo_set_entry(P->m, P->comp);
  P->m->name = hlo_intern_str(P->ctx, i->name);
  complete_entry_layout(P);
}

static void parser_free(hlo_parser *P) {
  hlo_bindings_free(&P->instrs);
  hlo_bindings_free(&P->comps);
  hs_vec_free(&P->operands);
  hs_vec_free(&P->attrs);
  hs_vec_free(&P->shapes);
  hs_vec_free(&P->ints);
  hs_vec_free(&P->ctrl);
  hs_vec_free(&P->wrapped);
  hs_vec_free(&P->finished);
  hs_vec_free(&P->framed);
  hs_vec_free(&P->heads);
  hs_free(P->memo.v);
  hs_free(P->shape_memo.v);
}

static hlo_parser parser_new(hlo_ctx *ctx, hs_arena *arena, const char *text, size_t n,
                             size_t lines, const hlo_parse_options *o) {
  hlo_parser P = {.ctx = ctx};
  hlo_memo_init(&P.memo, lines / 2);
  hlo_memo_init(&P.shape_memo, lines / 8);
  if (o) P.opt = *o;
  hlo_lex_init(&P.lex, arena, text, n, P.opt.file, P.opt.max_depth, P.opt.max_errors);
  return P;
}

static size_t count_lines(const char *p, size_t n) {
  size_t lines = 0;
  if (n == 0) return 0;
  for (const char *end = p + n; (p = memchr(p, '\n', (size_t)(end - p))); p++) lines++;
  return lines;
}

// How many lines there are: counted in a short text, estimated from samples all over a long one, a
// little too high.
static size_t about_lines(const char *text, size_t n) {
  enum { SAMPLES = 32, SAMPLE = 4096 };
  size_t lines = 0;
  if (n <= 2 * SAMPLES * SAMPLE) return count_lines(text, n);
  for (size_t k = 0; k < SAMPLES; k++)
    lines += count_lines(text + (n - SAMPLE) / (SAMPLES - 1) * k, SAMPLE);
  return lines * n / (SAMPLES * SAMPLE) / 16 * 17;
}

hs_status hlo_parse(hlo_ctx *ctx, const char *text, size_t n, const hlo_parse_options *o,
                    hlo_module **out) {
  *out = NULL;
  hlo_module *m = hlo_module_new(ctx, "module");
  size_t lines = about_lines(text, n);
  hlo_parser parser = parser_new(ctx, &m->arena, text, n, lines, o), *P = &parser;
  P->m = m;
  LX->stack_base = __builtin_frame_address(0);
  LX->p = LX->seen = text + P->opt.from;
  LX->many = P->opt.stopped_at != NULL;
  hlo_journal_disable(m);
  if (n > 1 << 16) {  // tables sized once: a line is an instruction, more or less
    hlo_names_reserve(m, lines);
    hs_arena_expect(&m->instrs, lines * sizeof(hlo_instr));
    hs_arena_expect(&m->uses, lines * 2 * sizeof(hlo_use));
    hs_arena_expect(&m->sets, lines * 64);
    hs_arena_expect(&m->arena, n / 2);
  }
  if (hlo_lex_ahead(LX)) {
    hs_str first = hlo_peek_ident(LX);
    bool header = hs_str_eq(first, HS_STR("HloModule")), comps = hs_str_eq(first, HS_STR("ENTRY"));
    if (!header && !comps) {  // name { ... starts a module without a header
      const char *at = LX->p;
      if (hlo_at(LX, 0) == '%') LX->p++;
      comps = hlo_ident(LX).n && hlo_peek(LX) == '{';
      LX->p = at;
    }
    if (header || comps) read_module(P, header);
    else read_single(P);
    hlo_lex_check_nul(LX);
  }
  if (LX->many) *P->opt.stopped_at = (size_t)(LX->end - text);
  if (!LX->errors.err) hlo_check_wrapped(P);
  // XLA names a computation's instructions when the computation ends; here they have their names
  // from the start, which is the same unless a name was changed and one computation stands inside
  // another.
  if (!LX->errors.err) hlo_settle_frames(P);
  if (!LX->errors.err && P->nested && m->names->any_changed)
    hlo_name_anew_(m, P->finished.n, P->finished.v);
  parser_free(P);
  hlo_journal_enable(m);
  if (LX->errors.err) {
    hlo_module_free(m);
    return LX->errors;
  }
  if (P->unmarked) hlo_mark_sources(m);
  *out = m;
  return HS_GOOD;
}

// ---- parts of a module --------------------------------------------------------------------------
static hs_status finish_part(hlo_parser *P) {
  if (!LX->failed && hlo_peek(LX) != 0)
    hlo_lex_error(LX, HS_E_SYNTAX, NULL, "unexpected text behind the value");
  parser_free(P);
  return LX->errors;
}

hs_status hlo_parse_shape(hlo_ctx *ctx, const char *text, size_t n, const hlo_shape **out) {
  hs_arena arena = {0};
  hlo_parser parser = parser_new(ctx, &arena, text, n, 0,
                                 &(hlo_parse_options){.keep_missing_layouts = true}),
             *P = &parser;
  LX->stack_base = __builtin_frame_address(0);
  *out = hlo_lex_check_nul(LX) ? hlo_read_shape(P) : NULL;
  hs_status s = finish_part(P);
  hs_arena_free(&arena);
  if (!hs_ok(s)) *out = NULL;
  return s;
}

hs_status hlo_parse_literal(hlo_ctx *ctx, const hlo_shape *shape, const char *text, size_t n,
                            hlo_literal **out) {
  hs_arena arena = {0};
  hlo_parser parser = parser_new(ctx, &arena, text, n, 0, NULL), *P = &parser;
  LX->stack_base = __builtin_frame_address(0);
  *out = NULL;
  if (hlo_lex_check_nul(LX)) (void)hlo_read_literal(P, shape, out);
  hs_status s = finish_part(P);
  hs_arena_free(&arena);
  if (!hs_ok(s) && *out) hlo_literal_unref(*out), *out = NULL;
  return s;
}

hs_status hlo_parse_attr(hlo_module *m, const char *text, size_t n, hlo_attr *out) {
  hlo_parser parser = parser_new(m->ctx, &m->arena, text, n, 0, NULL), *P = &parser;
  LX->stack_base = __builtin_frame_address(0);
  P->m = m;
  if (hlo_lex_check_nul(LX)) (void)hlo_read_attr(P, out);
  return finish_part(P);
}

hs_status hlo_parse_instr_into(hlo_computation *c, const char *text, size_t n, hlo_instr **out) {
  *out = NULL;
  hlo_parser parser = parser_new(c->module->ctx, &c->module->arena, text, n, 0, NULL), *P = &parser;
  LX->stack_base = __builtin_frame_address(0);
  P->m = c->module;
  P->comp = c;
  P->into = true;
  P->scope = P->next_scope = 1;
  hs_str name;
  bool is_root = false;
  size_t mark = hlo_journal_mark(c->module);
  if (hlo_lex_check_nul(LX)) (void)hlo_read_instruction(P, &name, &is_root, out);
  hs_status s = finish_part(P);
  if (!hs_ok(s)) {
    hlo_journal_rollback(c->module, mark);
    *out = NULL;
  } else if (is_root) {
    hlo_set_root(c, *out);
  }
  return s;
}
