// expr.c — reading an expression: recursive descent over the text, one function per level of
// precedence. An operation becomes an instruction as soon as its operands are read; what is left of
// the reading is a value, so there is no tree. See builder.h.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/text/text.h"
#include "repl/builder/builder.h"

#define MAX_NESTING 200

builder build_on(const repl_cmd *c, hlo_computation *comp, const char *text, size_t n) {
  return (builder){.m = comp->module,
                   .comp = comp,
                   .scratch = c->scratch,
                   .infer = c->s->set.infer,
                   .text = text,
                   .p = text,
                   .end = text + n};
}

void build_free(builder *b) {
  hs_vec_free(&b->made);
  hs_vec_free(&b->names);
}

hs_status build_at(const builder *b, hs_status s, const char *at) {
  if (hs_ok(s)) return s;
  u32 line = 1;
  const char *start = b->text, *stop = at;
  for (const char *p = b->text; p < at; p++)
    if (*p == '\n') line++, start = p + 1;
  while (stop < b->end && *stop != '\n') stop++;
  return hs_with_place(s, "<text>", line, (u32)(at - start) + 1,
                       (hs_str){start, (size_t)(stop - start)});
}

hs_status build_error(const builder *b, hs_code code, const char *at, const char *fmt, ...) {
  hs_buf m = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&m, fmt, ap);
  va_end(ap);
  hs_status s = build_at(b, hs_fail(code, "%s", hs_buf_cstr(&m)), at);
  hs_buf_free(&m);
  return s;
}

// ---- characters ---------------------------------------------------------------------------------
static bool is_start(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool is_part(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

// Blanks, and ends of lines inside of brackets.
static void skip(builder *b) {
  while (b->p < b->end &&
         (*b->p == ' ' || *b->p == '\t' || *b->p == '\r' || (b->brackets && *b->p == '\n')))
    b->p++;
}

static char peek(builder *b) {
  skip(b);
  return b->p < b->end ? *b->p : 0;
}

static bool accept(builder *b, const char *what) {
  skip(b);
  size_t n = strlen(what);
  if ((size_t)(b->end - b->p) < n || memcmp(b->p, what, n) != 0) return false;
  b->p += n;
  return true;
}

static const char *copy(const builder *b, const char *p, size_t n) {
  return hs_arena_strndup(b->scratch, p, n);
}

static size_t ident_length(const char *p, const char *end) {
  const char *q = p;
  if (q == end || !is_start(*q)) return 0;
  while (q < end && is_part(*q)) q++;
  return (size_t)(q - p);
}

static const char *blanks(const char *p, const char *end) {
  while (p < end && isspace((unsigned char)*p)) p++;
  return p;
}

static size_t array_prefix(const char *text, const char *end) {
  size_t n = ident_length(text, end);
  const char *p = text + n;
  if (!n || p == end || *p != '[' || hlo_dtype_find((hs_str){text, n}) == HLO_DT_INVALID) return 0;
  while (p < end && *p != ']') p++;
  if (p == end) return 0;
  p++;
  if (p < end && *p == '{') {
    while (p < end && *p != '}') p++;
    if (p == end) return 0;
    p++;
  }
  return (size_t)(p - text);
}

size_t build_shape_prefix(const char *text, const char *end) {
  // A tuple's shape by its brackets: between those of its elements stand commas only.
  const char *p = text;
  u32 depth = 0;
  bool any = false;
  while (p < end) {
    p = blanks(p, end);
    if (end - p > 1 && p[0] == '/' && p[1] == '*') {
      while (p < end && *p != '/') p++;  // of /*index=5*/
      p++;
      while (p < end && *p != '/') p++;
      p += p < end;
    } else if (p < end && *p == '(') {
      depth++, p++;
    } else if (p < end && depth && *p == ',') {
      p++;
    } else if (p < end && depth && *p == ')') {
      any = true;
      p++;
      if (--depth == 0) break;
    } else {
      size_t n = array_prefix(p, end);
      if (!n) return 0;
      p += n;
      any = true;
      if (!depth) break;
    }
  }
  return any && !depth ? (size_t)(p - text) : 0;
}

bool build_head(const char *text, size_t n, hs_str *name, size_t *rest) {
  const char *p = text, *end = text + n;
  if (n > 5 && memcmp(p, "ROOT ", 5) == 0) p = blanks(p + 5, end);
  p += p < end && *p == '%';
  size_t k = ident_length(p, end);
  if (!k) return false;
  *name = (hs_str){p, k};
  p = blanks(p + k, end);
  p += p < end && *p == ':';
  if (p == end || *p != '=' || (p + 1 < end && p[1] == '=')) return false;
  *rest = (size_t)(blanks(p + 1, end) - text);
  return true;
}

// ---- HLO's own lines ----------------------------------------------------------------------------
// The end of a bracket that opens at p; `end` when it stays open.
static const char *closing(const char *p, const char *end) {
  u32 depth = 0;
  char quote = 0;
  for (; p < end; p++) {
    if (quote) {
      if (*p == '\\') p++;
      else if (*p == quote) quote = 0;
    } else if (*p == '"') quote = *p;
    else if (strchr("({[", *p)) depth++;
    else if (strchr(")}]", *p) && --depth == 0) return p;
  }
  return end;
}

static bool means_computation(const char *key) {
  for (hlo_attr_id id = HLO_ATTR_TO_APPLY; id <= HLO_ATTR_FALSE_COMPUTATION; id++)
    if (strcmp(hlo_attr_text(id), key) == 0) return true;
  return false;
}

// Attributes as HLO writes them, whose computations are there.
static bool plain_keys(const hlo_module *m, const char *p, const char *end) {
  while ((p = blanks(p, end)) < end && *p == ',') {
    p = blanks(p + 1, end);
    size_t n = ident_length(p, end);
    if (!n || p + n == end || p[n] != '=') return true;  // wrong there too
    char *key = hs_format("%.*s", (int)HS_MIN(n, 100u), p);
    p += n + 1;
    const char *value = p;
    while (p < end && *p != ',') p = strchr("({[\"", *p) && *p != '"' ? closing(p, end) + 1 : p + 1;
    p = HS_MIN(p, end);
    bool plain = strcmp(build_key_name(key), key) == 0;
    if (plain && means_computation(key)) {
      value += value < p && *value == '%';
      size_t k = ident_length(value, p);
      char *name = hs_format("%.*s", (int)HS_MIN(k, 300u), value);
      plain = hlo_find_comp(m, name) || build_function((hs_str){value, k}, NULL) == HLO_OP_INVALID;
      hs_free(name);
    }
    hs_free(key);
    if (!plain) return false;
  }
  return true;
}

static bool plain_operands(const char *p, const char *stop) {
  while (p < stop) {
    p = blanks(p, stop);
    if (p == stop) break;
    size_t shape = build_shape_prefix(p, stop);
    if (shape) {
      p += shape;
      continue;
    }
    size_t n = ident_length(p, stop);
    if (n) {
      hs_str word = {p, n};
      const char *after = blanks(p + n, stop);
      bool called = after < stop && *after == '(', key = after < stop && *after == '=';
      static const char *const values[] = {"inf", "nan", "true", "false"};
      for (size_t k = 0; k < HS_COUNT(values); k++)
        if (hs_str_eq(word, hs_str_of(values[k]))) return false;
      if (key || (called && hlo_op_find(word) == HLO_OP_INVALID)) return false;
      p += n;
    } else if (*p == '#') {
      p++;
      while (p < stop && isdigit((unsigned char)*p)) p++;
    } else if (strchr("%,()", *p)) {
      p++;
    } else if (p + 1 < stop && *p == '/' && p[1] == '*') {
      for (p += 2; p + 1 < stop && !(*p == '*' && p[1] == '/');) p++;
      p += 2;
    } else {
      return false;
    }
  }
  return true;
}

bool build_is_plain(const hlo_module *m, const char *text, size_t n, bool infer) {
  const char *end = text + n, *p = blanks(text, end);
  p = blanks(p + build_shape_prefix(p, end), end);
  size_t k = ident_length(p, end);
  hs_str word = {p, k};
  const char *open = blanks(p + k, end);
  if (!k || open == end || *open != '(') return false;
  hlo_opcode op = hlo_op_find(word);
  if (op == HLO_CONSTANT || op == HLO_PARAMETER) return true;
  if (op == HLO_OP_INVALID) {
    // only the other reader knows X-start, X-update and X-done of any opcode
    static const char *const halves[] = {"-start", "-update", "-done"};
    bool half = false;
    for (size_t j = 0; j < HS_COUNT(halves); j++) {
      size_t n_half = strlen(halves[j]);
      half |= k > n_half && memcmp(p + k - n_half, halves[j], n_half) == 0;
    }
    if (!half) return false;
  }
  const char *close = closing(open, end);
  if (close == end) return true;
  const char *after = blanks(close + 1, end);
  if (after < end && *after != ',') return false;
  return !infer && plain_operands(open + 1, close) && plain_keys(m, after, end);
}

// ---- names and literals -------------------------------------------------------------------------
hlo_instr *build_find(const builder *b, const char *name) {
  for (size_t k = 0; k < b->names.n; k++)
    if (strcmp(b->names.v[k].name, name) == 0) return b->names.v[k].i;
  hlo_instr *i = b->local ? NULL : hlo_find_instr(b->m, name);
  return i && i->parent == b->comp ? i : NULL;
}

static hlo_instr *find_value(const builder *b, const char *p, size_t n) {
  return n ? build_find(b, copy(b, p, n)) : NULL;
}

static bool known_function(const builder *b, const char *p, size_t n) {
  hs_str w = {p, n};
  return build_function(w, NULL) != HLO_OP_INVALID || hlo_dtype_find(w) != HLO_DT_INVALID ||
         hlo_find_comp(b->m, copy(b, p, n));
}

// The name at the cursor. `-` belongs to names (get-tuple-element) and is minus too: where the
// whole means nothing, the longest part before a `-` that does is the name.
static size_t name_length(const builder *b) {
  size_t n = ident_length(b->p, b->end);
  const char *after = blanks(b->p + n, b->end);
  bool called = after < b->end && *after == '(';
  if (called ? known_function(b, b->p, n) : find_value(b, b->p, n) != NULL) return n;
  for (size_t k = n; k-- > 1;)
    if (b->p[k] == '-' && find_value(b, b->p, k)) return k;
  return n;
}

static bool word_is(hs_str w, const char *text) { return hs_str_eq(w, hs_str_of(text)); }

static bool number_follows(builder *b) {
  char c = peek(b);
  if (isdigit((unsigned char)c)) return true;
  if (c == '.') return b->p + 1 < b->end && isdigit((unsigned char)b->p[1]);
  size_t n = ident_length(b->p, b->end);
  hs_str w = {b->p, n};
  if (find_value(b, b->p, n)) return false;
  return word_is(w, "inf") || word_is(w, "nan") || word_is(w, "true") || word_is(w, "false");
}

static hs_status read_number(builder *b, bool negative, build_value *out) {
  const char *at = b->p, *p = at;
  *out = (build_value){.kind = BUILD_INT, .at = at};
  size_t n = ident_length(p, b->end);
  if (n) {
    out->kind = *p == 'i' ? BUILD_INF : p[0] == 'n' ? BUILD_NAN : BUILD_BOOL;
    p += n;
  } else {
    while (p < b->end && isdigit((unsigned char)*p)) p++;
    if (p < b->end && *p == '.') {
      out->kind = BUILD_DECIMAL;
      p++;
      while (p < b->end && isdigit((unsigned char)*p)) p++;
    }
    if (p < b->end && (*p == 'e' || *p == 'E')) {
      const char *q = p + 1;
      if (q < b->end && (*q == '+' || *q == '-')) q++;
      if (q < b->end && isdigit((unsigned char)*q)) {
        out->kind = BUILD_DECIMAL;
        for (p = q; p < b->end && isdigit((unsigned char)*p);) p++;
      }
    }
    if (p < b->end && is_start(*p))
      return build_error(b, HS_E_SYNTAX, at, "a number ends with '%c'", *p);
  }
  out->text = hs_arena_strndup(b->scratch, at, (size_t)(p - at));
  if (negative) {
    size_t length = (size_t)(p - at);
    char *signed_text = hs_arena_alloc(b->scratch, length + 2);
    signed_text[0] = '-';
    memcpy(signed_text + 1, at, length);
    signed_text[length + 1] = 0;
    out->text = signed_text;
  }
  b->p = p;
  return HS_GOOD;
}

// ---- calls --------------------------------------------------------------------------------------
static hs_status read_sum(builder *b, build_value *out);
static hs_status read_comparison(builder *b, build_value *out);

// KEY=VALUE at the cursor, the value up to a comma or the end of the brackets it stands in.
static bool key_follows(const builder *b) {
  size_t n = ident_length(b->p, b->end);
  const char *p = blanks(b->p + n, b->end);
  return n && p < b->end && *p == '=' && !(p + 1 < b->end && p[1] == '=');
}

static hs_status read_key(builder *b, build_keys *keys) {
  const char *at = b->p;
  size_t n = ident_length(at, b->end);
  b->p = blanks(blanks(at + n, b->end) + 1, b->end);
  const char *value = b->p;
  char quote = 0;
  u32 depth = 0;
  for (; b->p < b->end; b->p++) {
    char c = *b->p;
    if (quote) {
      if (c == '\\') b->p++;
      else if (c == quote) quote = 0;
      continue;
    }
    if (c == '"') quote = c;
    else if (strchr("({[", c)) depth++;
    else if (depth && strchr(")}]", c)) depth--;
    else if (!depth && (strchr(",)", c) || (!b->brackets && strchr(";\n}", c)))) break;
  }
  b->p = HS_MIN(b->p, b->end);
  const char *stop = b->p;
  while (stop > value && isspace((unsigned char)stop[-1])) stop--;
  if (stop == value) return build_error(b, HS_E_SYNTAX, at, "%.*s= has no value", (int)n, at);
  hs_vec_push(keys, ((build_key){build_key_name(copy(b, at, n)),
                                 copy(b, value, (size_t)(stop - value)), at}));
  return HS_GOOD;
}

static hs_status read_arguments(builder *b, build_values *values, build_keys *keys) {
  b->brackets++;
  while (peek(b) != ')') {
    build_value v = {0};
    if (key_follows(b)) {
      HS_TRY(read_key(b, keys));
    } else {
      HS_TRY(read_comparison(b, &v));
      hs_vec_push(values, v);
    }
    if (!accept(b, ",") && peek(b) != ')')
      return build_error(b, HS_E_SYNTAX, b->p, "expects ',' or ')' in the operands");
  }
  b->p++;
  b->brackets--;
  // outside of any bracket a comma can only be that of HLO's attributes
  while (!b->brackets && accept(b, ",")) {
    skip(b);
    if (!key_follows(b))
      return build_error(b, HS_E_SYNTAX, b->p, "expects an attribute, NAME=value");
    HS_TRY(read_key(b, keys));
  }
  return HS_GOOD;
}

// SHAPE constant(VALUE): the value is HLO's.
static hs_status read_constant(builder *b, const char *shape, const char *at, build_value *out) {
  const char *close = closing(b->p - 1, b->end);
  if (!shape)
    return hs_with_note(build_error(b, HS_E_SYNTAX, at, "a constant needs its shape"),
                        "f32[2] constant({1, 2})");
  const hlo_shape *type;
  hlo_literal *value = NULL;
  hs_status s = hlo_parse_shape(b->m->ctx, shape, strlen(shape), &type);
  if (hs_ok(s)) s = hlo_parse_literal(b->m->ctx, type, b->p, (size_t)(close - b->p), &value);
  if (!hs_ok(s)) return build_at(b, s, b->p);
  *out = (build_value){.i = hlo_add_constant(b->comp, value, "constant"), .at = at};
  hs_vec_push(&b->made, out->i);
  b->p = HS_MIN(close + 1, b->end);
  return HS_GOOD;
}

static hs_status convert_call(builder *b, hlo_dtype t, const build_values *v, const char *at,
                              build_value *out) {
  if (v->n != 1)
    return build_error(b, HS_E_ARITY, at, "%s(...) converts one value, but has %zu operands",
                       hlo_dtype_text(t), v->n);
  out->at = at;
  if (v->v[0].kind != BUILD_INSTR) return build_constant(b, &v->v[0], t, &out->i);
  return build_convert(b, at, v->v[0].i, t, &out->i);
}

static hs_status read_call(builder *b, const char *shape, build_value *out) {
  const char *at = b->p;
  size_t n = name_length(b);
  hs_str word = {at, n};
  b->p = blanks(at + n, b->end) + 1;
  const char *attribute = NULL, *name = copy(b, at, n);
  hlo_opcode op = build_function(word, &attribute);
  hlo_dtype type = hlo_dtype_find(word);
  *out = (build_value){.at = at};
  if (op == HLO_CONSTANT) return read_constant(b, shape, at, out);
  build_values values = {0};
  build_keys keys = {0};
  if (attribute && *attribute) {
    const char *eq = strchr(attribute, '=');
    hs_vec_push(&keys, ((build_key){copy(b, attribute, (size_t)(eq - attribute)), eq + 1, at}));
  }
  hs_status s = HS_GOOD;
  if (op == HLO_PARAMETER)
    s = hs_with_note(build_error(b, HS_E_USAGE, at, "a parameter is no part of an expression"),
                     "param NAME SHAPE adds one");
  else if (op == HLO_OP_INVALID && type == HLO_DT_INVALID && !hlo_find_comp(b->m, name)) {
    s = build_error(b, HS_E_OPCODE, at, "Unknown opcode: %.100s", name);
    const char *near = build_nearest(b, name);
    s = near ? hs_with_note(s, "did you mean %s?", near)
             : hs_with_note(s,
                            "help building lists what an expression may call; "
                            "comp %s(...) { ... } defines it",
                            name);
  }
  if (hs_ok(s)) s = read_arguments(b, &values, &keys);
  if (hs_ok(s) && op == HLO_OP_INVALID && type != HLO_DT_INVALID) {
    s = convert_call(b, type, &values, at, out);
  } else if (hs_ok(s)) {
    if (op == HLO_OP_INVALID) {
      op = HLO_CALL;
      hs_vec_push(&keys, ((build_key){"to_apply", name, at}));
    }
    s = build_call(b, op, shape, &values, &keys, at, &out->i);
  }
  hs_vec_free(&values);
  hs_vec_free(&keys);
  return s;
}

// ---- expressions --------------------------------------------------------------------------------
static hs_status binary(builder *b, hlo_opcode op, const char *attribute, const char *at,
                        build_value *left, const build_value *right) {
  build_values v = {0};
  build_keys keys = {0};
  hs_vec_push(&v, *left);
  hs_vec_push(&v, *right);
  if (attribute) hs_vec_push(&keys, ((build_key){"direction", attribute, at}));
  hlo_instr *i = NULL;
  hs_status s = build_call(b, op, NULL, &v, &keys, at, &i);
  *left = (build_value){.i = i, .at = left->at};
  hs_vec_free(&v);
  hs_vec_free(&keys);
  return s;
}

static hs_status read_name(builder *b, build_value *out) {
  const char *at = b->p;
  b->p += *at == '%';
  size_t n = name_length(b);
  if (!n) {
    if (at == b->end || *at == '\n' || *at == ';')
      return build_error(b, HS_E_SYNTAX, at, "the expression ends where an operand must follow");
    return build_error(b, HS_E_SYNTAX, at, "expects a name, a number or '(', not '%c'", *at);
  }
  const char *name = copy(b, b->p, n);
  *out = (build_value){.i = find_value(b, b->p, n), .at = at};
  b->p += n;
  if (out->i) return HS_GOOD;
  const hlo_instr *elsewhere = hlo_find_instr(b->m, name);
  hs_status s = build_error(b, HS_E_NAME, at, "instruction does not exist: %.100s", name);
  if (elsewhere)
    return hs_with_note(s, "there is a %s in the computation %s, but not in %s", name,
                        elsewhere->parent->name, b->comp->name);
  HS_VEC(const char *) names = {0};
  hlo_for_each_instr(i, b->comp)
    if (names.n < 20000) hs_vec_push(&names, i->name);
  const char *near = hs_nearest(name, names.v, names.n);
  hs_vec_free(&names);
  return near ? hs_with_note(s, "did you mean %s?", near) : s;
}

// After a shape: an operation, a literal, or an operand with its shape as HLO writes it.
static hs_status read_typed(builder *b, size_t length, build_value *out) {
  const char *at = b->p, *shape = copy(b, at, length);
  b->p += length;
  bool negative = accept(b, "-");
  if (number_follows(b)) {
    build_value v;
    const hlo_shape *type;
    HS_TRY(build_at(b, hlo_parse_shape(b->m->ctx, shape, length, &type), at));
    HS_TRY(read_number(b, negative, &v));
    if (!hlo_shape_is_array(type))
      return build_error(b, HS_E_SHAPE, at, "a literal is an array, not %s", shape);
    hlo_instr *i;
    HS_TRY(build_constant(b, &v, type->dtype, &i));
    if (type->rank) {
      i = hlo_add_broadcast(i, hlo_shape_fill_layout(b->m->ctx, type), 0, NULL);
      hs_vec_push(&b->made, i);
    }
    *out = (build_value){.i = i, .at = at};
    return HS_GOOD;
  }
  size_t n = name_length(b);
  const char *after = blanks(b->p + n, b->end);
  if (negative || !n) return read_name(b, out);
  if (after < b->end && *after == '(') return read_call(b, shape, out);
  HS_TRY(read_name(b, out));
  const hlo_shape *type;
  HS_TRY(build_at(b, hlo_parse_shape(b->m->ctx, shape, length, &type), at));
  if (!hlo_shape_same_dims(type, out->i->shape) || type->dtype != out->i->shape->dtype)
    return build_error(b, HS_E_SHAPE, at, "%s does not have the shape %s", out->i->name, shape);
  return HS_GOOD;
}

static hs_status read_primary(builder *b, build_value *out) {
  if (++b->nesting > MAX_NESTING)
    return build_error(b, HS_E_LIMIT, b->p, "the expression is nested more than %d deep",
                       MAX_NESTING);
  hs_status s;
  char c = peek(b);
  size_t shape = build_shape_prefix(b->p, b->end);
  size_t n = name_length(b);
  const char *after = blanks(b->p + n, b->end);
  if (shape) {
    s = read_typed(b, shape, out);
  } else if (number_follows(b)) {
    s = read_number(b, false, out);
  } else if (c == '(') {
    b->p++;
    b->brackets++;
    s = read_comparison(b, out);
    if (hs_ok(s) && !accept(b, ")"))
      s = build_error(b, HS_E_SYNTAX, b->p, "expects ')' at the end of the bracket");
    if (hs_ok(s)) b->brackets--;
  } else if (n && after < b->end && *after == '(') {
    s = read_call(b, NULL, out);
  } else {
    s = read_name(b, out);
  }
  b->nesting--;
  return s;
}

// t{0}: an element of a tuple.
static hs_status read_postfix(builder *b, build_value *out) {
  HS_TRY(read_primary(b, out));
  while (out->kind == BUILD_INSTR && b->p < b->end && *b->p == '{' &&
         hlo_shape_is_tuple(out->i->shape)) {
    const char *at = b->p;
    char *end;
    unsigned long k = strtoul(at + 1, &end, 10);
    if (end == at + 1 || end >= b->end || *end != '}')
      return build_error(b, HS_E_SYNTAX, at, "an element of a tuple is written %s{0}",
                         out->i->name);
    if (k >= out->i->shape->nelems)
      return build_error(b, HS_E_SHAPE, at, "tuple index %lu is out of bounds: %s has %u elements",
                         k, out->i->name, out->i->shape->nelems);
    out->i = hlo_add_gte(out->i, (i64)k);
    hs_vec_push(&b->made, out->i);
    b->p = end + 1;
  }
  return HS_GOOD;
}

static hs_status read_unary(builder *b, build_value *out) {
  const char *at = (skip(b), b->p);
  if (!accept(b, "-")) {
    HS_TRY(read_postfix(b, out));
    const char *power = (skip(b), b->p);
    if (!accept(b, "**")) return HS_GOOD;
    build_value right;
    HS_TRY(read_unary(b, &right));
    return binary(b, HLO_POWER, NULL, power, out, &right);
  }
  skip(b);
  if (number_follows(b)) return read_number(b, true, out);
  if (++b->nesting > MAX_NESTING)
    return build_error(b, HS_E_LIMIT, at, "the expression is nested more than %d deep",
                       MAX_NESTING);
  HS_TRY(read_unary(b, out));
  b->nesting--;
  build_values v = {0};
  build_keys none = {0};
  hs_vec_push(&v, *out);
  *out = (build_value){.at = at};
  hs_status s = build_call(b, HLO_NEGATE, NULL, &v, &none, at, &out->i);
  hs_vec_free(&v);
  return s;
}

static hs_status read_product(builder *b, build_value *out) {
  HS_TRY(read_unary(b, out));
  for (;;) {
    const char *at = (skip(b), b->p);
    hlo_opcode op = accept(b, "*") ? HLO_MULTIPLY : accept(b, "/") ? HLO_DIVIDE : HLO_OP_INVALID;
    if (op == HLO_OP_INVALID) return HS_GOOD;
    build_value right;
    HS_TRY(read_unary(b, &right));
    HS_TRY(binary(b, op, NULL, at, out, &right));
  }
}

static hs_status read_sum(builder *b, build_value *out) {
  HS_TRY(read_product(b, out));
  for (;;) {
    const char *at = (skip(b), b->p);
    hlo_opcode op = accept(b, "+") ? HLO_ADD : accept(b, "-") ? HLO_SUBTRACT : HLO_OP_INVALID;
    if (op == HLO_OP_INVALID) return HS_GOOD;
    build_value right;
    HS_TRY(read_product(b, &right));
    HS_TRY(binary(b, op, NULL, at, out, &right));
  }
}

static hs_status read_comparison(builder *b, build_value *out) {
  static const struct {
    const char *text, *direction;
  } signs[] = {{"<=", "LE"}, {">=", "GE"}, {"==", "EQ"}, {"!=", "NE"}, {"<", "LT"}, {">", "GT"}};
  HS_TRY(read_sum(b, out));
  const char *at = (skip(b), b->p);
  for (size_t k = 0; k < HS_COUNT(signs); k++) {
    if (!accept(b, signs[k].text)) continue;
    build_value right;
    HS_TRY(read_sum(b, &right));
    return binary(b, HLO_COMPARE, signs[k].direction, at, out, &right);
  }
  return HS_GOOD;
}

hs_status build_ended(const builder *b) {
  // What other languages have there, and how it is said here.
  static const struct {
    char sign;
    const char *here;
  } signs[] = {
      {'[', "t{0} is an element of a tuple, slice(x, slice={[0:8]}) a part of an array"},
      {'@', "dot(a, b, lhs_contracting_dims={1}, rhs_contracting_dims={0}) multiplies matrices"},
      {'%', "rem(a, b) is the remainder"},
      {'&', "and(a, b) is the operation"},
      {'|', "or(a, b) is the operation"},
      {'?', "select(condition, a, b) chooses"}};
  hs_status s = build_error(b, HS_E_SYNTAX, b->p, "the expression ends before '%c'", *b->p);
  for (size_t k = 0; k < HS_COUNT(signs); k++)
    if (*b->p == signs[k].sign) return hs_with_note(s, "%s", signs[k].here);
  return hs_with_note(s, "help building lists what can stand in one");
}

hs_status build_expression(builder *b, hlo_instr **out) {
  build_value v = {0};
  HS_TRY(read_comparison(b, &v));
  char next = peek(b);
  if (next && !strchr(";\n}", next)) return build_ended(b);
  return build_settle(b, &v, out);
}
