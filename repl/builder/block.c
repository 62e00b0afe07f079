// block.c — building a module at the prompt: new, param, NAME = expression, root, and
// computations for others to call: comp, reducer. Each command is one version. See builder.h.
#include <ctype.h>
#include <stdlib.h>

#include "core/ir/rename.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "repl/builder/builder.h"
#include "repl/shell/gate.h"
#include "repl/cmd/cmd.h"

hs_status cmd_new(repl_cmd *c) {
  const char *name = repl_arg(c, 0) ? repl_arg(c, 0) : "module";
  for (const char *p = name; *p; p++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", *p))
      return repl_usage_error(c, "a module's name holds letters, digits, _ . and -, not '%c'", *p);
  hlo_module *m = hlo_module_new(c->s->ctx, name);
  hlo_computation *entry = hlo_add_computation(m, "main");
  hlo_set_entry(m, entry);
  hlo_delta *made = hlo_commit(m);
  if (made) hlo_delta_free(m, made);
  repl_module *mod = repl_session_add(c->s, m, NULL);
  mod->building = entry;
  mod->built = true;
  hs_free(mod->at->label);
  mod->at->label = hs_strdup("new");
  return HS_GOOD;
}

// ---- what was made ------------------------------------------------------------------------------
static void put_instr(hs_buf *b, const hlo_instr *i) {
  hlo_print_options o = hlo_print_short_parsable();
  hlo_print_instr(b, i, &o);
}

static void say_instr(repl_cmd *c, const hlo_instr *i) {
  hs_buf b = {0};
  put_instr(&b, i);
  if (!c->doc) repl_say(c->out, "%s\n", hs_buf_cstr(&b));
  repl_json_str(c->doc, "instruction", hs_buf_cstr(&b));
  repl_json_str(c->doc, "name", i->name);
  b.n = 0;
  hlo_shape_print(&b, i->shape, true);
  repl_json_str(c->doc, "shape", hs_buf_cstr(&b));
  hs_buf_free(&b);
}

// A dot without dimensions is an outer product, as XLA infers it; where the sizes would allow a
// product of matrices, that may not be what was meant. Nothing is said where {} was typed.
static void note_outer(repl_cmd *c, const hlo_instr *i) {
  if (i->opcode != HLO_DOT || hlo_attr_get(i, HLO_ATTR_LHS_CONTRACTING_DIMS)) return;
  const hlo_shape *l = hlo_operand(i, 0)->shape, *r = hlo_operand(i, 1)->shape;
  if (!l->rank || !r->rank || hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS).n) return;
  u32 inner = r->rank > 1 ? r->rank - 2 : 0;
  if (l->dims[l->rank - 1] != r->dims[inner]) return;
  repl_note(c->out,
            "no contracting dimensions: an outer product; lhs_contracting_dims={%u}, "
            "rhs_contracting_dims={%u} gives the product of matrices",
            l->rank - 1, inner);
}

// The instructions that an expression made, the last one as the result.
void build_say(repl_cmd *c, const builder *b, const hlo_instr *result) {
  for (size_t k = 0; k < b->made.n && !c->doc; k++) {
    if (b->made.v[k] == result || b->made.v[k]->dead) continue;
    hs_buf t = {0};
    put_instr(&t, b->made.v[k]);
    repl_say(c->out, "%s\n", hs_buf_cstr(&t));
    hs_buf_free(&t);
  }
  if (b->made.n > 1) repl_json_int(c->doc, "made", (i64)b->made.n);
  say_instr(c, result);
  for (size_t k = 0; k < b->made.n; k++)
    if (!b->made.v[k]->dead) note_outer(c, b->made.v[k]);
}

// ---- parameters ---------------------------------------------------------------------------------
hs_status build_check_name(const char *name) {
  bool legal = isalpha((unsigned char)*name) || *name == '_';
  for (const char *p = name; *p; p++)
    legal &= isalnum((unsigned char)*p) || strchr("_.-", *p) != NULL;
  if (!legal)
    return hs_fail_subject(HS_E_NAME, name,
                           "illegal name: %.100s; it begins with a letter or _ "
                           "and holds letters, digits, _ . and -",
                           name);
  if (hlo_dtype_find(hs_str_of(name)) == HLO_DT_INVALID) return HS_GOOD;
  return hs_with_note(hs_fail_subject(HS_E_NAME, name, "illegal name: %s is an element type", name),
                      "%s_ can be one", name);
}

hs_status cmd_param(repl_cmd *c) {
  hs_buf text = {0};  // a tuple's shape may hold blanks
  for (u32 k = 1; k < c->args.npos; k++) hs_buf_puts(&text, c->args.pos[k]);
  const hlo_shape *shape;
  hs_status s = hlo_parse_shape(c->s->ctx, text.p, text.n, &shape);
  hs_buf_free(&text);
  HS_TRY(s);
  const char *name = repl_arg(c, 0);
  name += *name == '%';
  HS_TRY(build_check_name(name));
  if (hlo_find_instr(c->m, name))
    return hs_with_note(hs_fail_subject(HS_E_REDEFINED, name, "%s is already defined", name),
                        "rename %s NAME gives it another name", name);
  hlo_instr *p = hlo_add_parameter(c->m->entry, c->m->entry->nparams,
                                   hlo_shape_fill_layout(c->s->ctx, shape), name);
  hlo_take_name(p, name);
  if (!c->m->entry->root) hlo_set_root(c->m->entry, p);
  build_follow_entry(c->m);
  say_instr(c, p);
  return HS_GOOD;
}

// ---- statements ---------------------------------------------------------------------------------
// In the body of a computation, COMPUTATION.NAME is the module's name for NAME.
static void give_name(builder *b, hlo_instr *i, const char *name) {
  if (!b->local) {
    hlo_take_name(i, name);
    return;
  }
  char *full = hs_format("%s.%s", b->comp->name, name);
  hlo_take_name(i, full);
  hs_free(full);
  hs_vec_push(&b->names, ((build_name){name, i}));
}

// Reads NAME = EXPRESSION, [from, from + n) of the builder's text, and adds what it says.
static hs_status define(builder *b, const char *from, size_t n, hlo_instr **out) {
  hs_str word;
  size_t rest;
  if (!build_head(from, n, &word, &rest))
    return build_error(b, HS_E_SYNTAX, from, "expects NAME = expression");
  const char *name = hs_arena_strndup(b->scratch, word.p, word.n);
  HS_TRY(build_at(b, build_check_name(name), word.p));
  if (b->local ? build_find(b, name) != NULL : hlo_find_instr(b->m, name) != NULL) {
    hs_status s = hs_fail_subject(HS_E_REDEFINED, name, "%s is already defined", name);
    return b->local ? build_at(b, s, word.p) : hs_with_note(s, "%s := ... replaces it", name);
  }
  if (!b->local && build_is_plain(b->m, from + rest, n - rest, b->infer)) {
    hs_status s = hlo_parse_instr_into(b->comp, from, n, out);
    if (!hs_ok(s)) return s;
    hs_vec_push(&b->made, *out);
    hlo_take_name(*out, name);
    return s;
  }
  const char *end = b->end;
  b->p = from + rest;
  b->end = from + n;
  HS_TRY(build_expression(b, out));
  if (b->p < b->end) return build_ended(b);
  b->end = end;
  bool made = false;
  for (size_t k = 0; k < b->made.n; k++) made |= b->made.v[k] == *out;
  if (!made)
    return hs_with_note(build_error(b, HS_E_USAGE, word.p, "%s is there already", (*out)->name),
                        "rename %s %s gives it another name", (*out)->name, name);
  give_name(b, *out, name);
  return HS_GOOD;
}

static size_t statement_length(const char *p, const char *end) {
  const char *q = p;
  u32 depth = 0;
  char quote = 0;
  for (; q < end; q++) {
    if (quote) {
      if (*q == '\\') q++;
      else if (*q == quote) quote = 0;
    } else if (*q == '"') quote = *q;
    else if (strchr("({[", *q)) depth++;
    else if (depth && strchr(")}]", *q)) depth--;
    else if (!depth && strchr(";\n}", *q)) break;
  }
  return (size_t)(HS_MIN(q, end) - p);
}

// Reads the statements of a computation's body: NAME = expression, root NAME, root expression; the
// last one is the root unless one says so.
static hs_status read_statements(builder *b) {
  hlo_instr *last = NULL, *root = NULL;
  const char *p = b->p, *end = b->end;
  for (;;) {
    while (p < end && (isspace((unsigned char)*p) || *p == ';')) p++;
    if (p + 1 < end && p[0] == '/' && p[1] == '/') {
      while (p < end && *p != '\n') p++;
      continue;
    }
    if (p == end || *p == '}') break;
    size_t n = statement_length(p, end), rest;
    const char *next = p + n;
    while (n && isspace((unsigned char)p[n - 1])) n--;
    bool is_root = n > 5 && (memcmp(p, "root ", 5) == 0 || memcmp(p, "ROOT ", 5) == 0);
    const char *from = is_root ? p + 5 : p;
    while (from < p + n && isspace((unsigned char)*from)) from++;
    hs_str word;
    if (build_head(from, (size_t)(p + n - from), &word, &rest) || !is_root) {
      HS_TRY(define(b, from, (size_t)(p + n - from), &last));
    } else {
      b->p = from;
      b->end = p + n;
      HS_TRY(build_expression(b, &last));
    }
    if (is_root) root = last;
    p = next;
    b->end = end;
  }
  b->p = p;
  if (!root) root = last;
  if (!root)
    return build_error(b, HS_E_SYNTAX, HS_MIN(p, end), "the computation %s has no instruction",
                       b->comp->name);
  hlo_set_root(b->comp, root);
  return HS_GOOD;
}

hs_status cmd_define(repl_cmd *c) {
  if (!c->mod)
    return hs_with_note(hs_fail(HS_E_NO_MODULE, "there is no module to add an instruction to"),
                        "new NAME starts one");
  const char *text = c->args.raw, *assign = strchr(text, '=');
  if (assign && assign > text && assign[-1] == ':') return cmd_replace(c);
  bool root = strncmp(text, "ROOT ", 5) == 0;
  if (root) text += 5;
  while (*text == ' ') text++;
  hlo_instr *i = NULL;
  builder b = build_on(c, c->m->entry, text, strlen(text));
  hs_status s = define(&b, text, strlen(text), &i);
  // While a module is being built, its last instruction is the root, unless `root` or ROOT has
  // chosen another.
  if (hs_ok(s) && (root || c->mod->building)) hlo_set_root(c->m->entry, i);
  if (hs_ok(s)) build_follow_entry(c->m);
  if (hs_ok(s)) s = repl_still_invalid(c, hlo_verify_computation(c->m->entry, NULL));
  if (hs_ok(s)) build_say(c, &b, i);
  build_free(&b);
  return s;
}

hs_status cmd_root(repl_cmd *c) {
  const char *text = c->args.raw;
  hlo_instr *i = repl_find_instr(c->m, text);
  builder b = build_on(c, c->m->entry, text, strlen(text));
  hs_status s = HS_GOOD;
  size_t word = 0;
  while (isalnum((unsigned char)text[word]) || (text[word] && strchr("_.-%", text[word]))) word++;
  if (!i && !text[word] && !isdigit((unsigned char)text[0])) {
    c->args.npos = 1;
    c->args.pos = &text;
    s = repl_arg_instr(c, 0, &i);
  } else if (!i) {
    s = build_expression(&b, &i);
    if (hs_ok(s) && b.p < b.end) s = build_ended(&b);
  }
  if (hs_ok(s)) {
    if (i->parent != c->m->entry && !c->mod->building)
      repl_note(c->out, "%s is in computation %s", i->name, i->parent->name);
    hlo_set_root(i->parent, i);
    c->mod->building = NULL;
    build_follow_entry(c->m);
    s = repl_still_invalid(c, hlo_verify_computation(i->parent, NULL));
  }
  if (hs_ok(s)) build_say(c, &b, i);
  build_free(&b);
  return s;
}

// ---- computations -------------------------------------------------------------------------------
static void blanks(builder *b) {
  while (b->p < b->end && isspace((unsigned char)*b->p)) b->p++;
}

static hs_status expect(builder *b, char ch, const char *where) {
  blanks(b);
  if (b->p == b->end || *b->p != ch)
    return build_error(b, HS_E_SYNTAX, b->p, "expects '%c' %s", ch, where);
  b->p++;
  blanks(b);
  return HS_GOOD;
}

static const char *read_word(builder *b) {
  blanks(b);
  b->p += b->p < b->end && *b->p == '%';
  const char *p = b->p;
  if (p < b->end && (isalpha((unsigned char)*p) || *p == '_'))
    while (p < b->end && (isalnum((unsigned char)*p) || strchr("_.-", *p))) p++;
  const char *word = hs_arena_strndup(b->scratch, b->p, (size_t)(p - b->p));
  b->p = p;
  return word;
}

// (a f32[4], b: s32[], ...): a shape may be left out where `scalar` has one for it.
static hs_status read_parameters(builder *b, const hlo_shape *scalar) {
  HS_TRY(expect(b, '(', "before the parameters"));
  while (b->p < b->end && *b->p != ')') {
    const char *at = b->p, *name = read_word(b);
    if (!*name) return build_error(b, HS_E_SYNTAX, at, "expects a parameter's name");
    HS_TRY(build_at(b, build_check_name(name), at));
    blanks(b);
    if (b->p < b->end && *b->p == ':') b->p++, blanks(b);
    size_t n = build_shape_prefix(b->p, b->end);
    const hlo_shape *shape = scalar;
    if (n) HS_TRY(build_at(b, hlo_parse_shape(b->m->ctx, b->p, n, &shape), b->p));
    if (!shape)
      return hs_with_note(build_error(b, HS_E_SYNTAX, b->p, "%s needs a shape", name),
                          "comp NAME(a f32[4], b s32[]) { ... }");
    b->p += n;
    if (build_find(b, name))
      return build_error(b, HS_E_REDEFINED, at, "%s is already defined", name);
    hlo_instr *p =
        hlo_add_parameter(b->comp, b->comp->nparams, hlo_shape_fill_layout(b->m->ctx, shape), name);
    give_name(b, p, name);
    blanks(b);
    if (b->p < b->end && *b->p == ',') b->p++, blanks(b);
    else if (b->p == b->end || *b->p != ')')
      return build_error(b, HS_E_SYNTAX, b->p, "expects ',' or ')' after a parameter");
  }
  return expect(b, ')', "after the parameters");
}

static hs_status begin(repl_cmd *c, builder *b) {
  const char *text = c->args.raw;
  *b = build_on(c, c->m->entry, text, strlen(text));
  const char *name = read_word(b);
  if (!*name) return repl_usage_error(c, "a name comes first");
  if (hlo_find_comp(c->m, name))
    return hs_with_note(
        hs_fail_subject(HS_E_REDEFINED, name, "there is a computation %s already", name),
        "delete %s removes it", name);
  b->comp = hlo_add_computation(c->m, name);
  hlo_take_computation_name(b->comp, name);
  b->local = true;
  return HS_GOOD;
}

static void say_comp(repl_cmd *c, const hlo_computation *comp) {
  hlo_print_options o = hlo_print_short_parsable();
  hs_buf b = {0};
  hlo_print_computation(&b, comp, &o);
  if (!c->doc) repl_say(c->out, "%s\n", hs_buf_cstr(&b));
  repl_json_str(c->doc, "computation", comp->name);
  repl_json_int(c->doc, "instructions", comp->ninstrs);
  hs_buf_free(&b);
}

hs_status cmd_comp(repl_cmd *c) {
  builder b = {0};
  hs_status s = begin(c, &b);
  if (hs_ok(s)) s = read_parameters(&b, NULL);
  if (hs_ok(s)) s = expect(&b, '{', "before the body");
  if (hs_ok(s)) s = read_statements(&b);
  if (hs_ok(s)) s = expect(&b, '}', "after the body");
  if (hs_ok(s) && b.p < b.end)
    s = build_error(&b, HS_E_SYNTAX, b.p, "the computation ends before '%c'", *b.p);
  if (hs_ok(s)) s = hlo_verify_computation(b.comp, NULL);
  if (hs_ok(s)) say_comp(c, b.comp);
  build_free(&b);
  return s;
}

hs_status cmd_reducer(repl_cmd *c) {
  builder b = {0};
  hlo_instr *root = NULL;
  hs_status s = begin(c, &b);
  if (hs_ok(s)) s = read_parameters(&b, hlo_shape_scalar(c->s->ctx, HLO_F32));
  if (hs_ok(s)) s = expect(&b, '=', "before the expression");
  if (hs_ok(s)) s = build_expression(&b, &root);
  if (hs_ok(s) && b.p < b.end) s = build_ended(&b);
  if (hs_ok(s)) {
    hlo_set_root(b.comp, root);
    s = hlo_verify_computation(b.comp, NULL);
  }
  if (hs_ok(s)) say_comp(c, b.comp);
  build_free(&b);
  return s;
}
