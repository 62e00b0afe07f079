// inputs.c: arguments from files, values, words and snapshots. See inputs.h.
//
// A new set of arguments is collected beside the current one and replaces it only when all of it
// could be read.
#include "repl/shell/inputs.h"

#include <ctype.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text/text.h"
#include "core/types/ctx.h"
#include "repl/shell/exec.h"
#include "repl/formats/npy.h"

static void take_inputs(repl_module *mod, hlo_literal **v, u32 n, char *from) {
  repl_drop_inputs(mod);
  mod->inputs = v;
  mod->ninputs = n;
  mod->inputs_from = from;
}

hs_status repl_inputs_seed(repl_cmd *c, u64 seed, bool large_range) {
  hlo_literal **v;
  u32 n;
  hlo_random_options o = {.seed = seed, .large_range = large_range};
  HS_TRY(hlo_inputs_random_with(c->m, &o, &v, &n));
  take_inputs(c->mod, v, n,
              hs_format("random%s, seed %llu", large_range ? " over the whole range" : "",
                        (unsigned long long)seed));
  return HS_GOOD;
}

// ---- values as typed ----------------------------------------------------------------------------
static hs_status splat(hlo_ctx *ctx, const hlo_shape *s, const char *text, hlo_literal **out) {
  hlo_literal *one, *l;
  HS_TRY(hlo_parse_literal(ctx, hlo_shape_scalar(ctx, s->dtype), text, strlen(text), &one));
  hs_status st = hlo_literal_new(s, &l);
  if (hs_ok(st)) {
    size_t w = hlo_dtype_storage(s->dtype);
    for (i64 k = 0; k < s->elements; k++) memcpy((char *)l->data + (size_t)k * w, one->data, w);
    *out = l;
  }
  hlo_literal_unref(one);
  return st;
}

// Skips "f32[2,3]{1,0} " in front of a value when it is the wanted shape.
static hs_status skip_shape(hlo_ctx *ctx, const hlo_shape *want, const char **text) {
  const char *p = *text, *open = strchr(p, '[');
  if (!isalpha((unsigned char)*p) || !open) return HS_GOOD;
  for (const char *q = p; q < open; q++)
    if (!isalnum((unsigned char)*q)) return HS_GOOD;
  const char *end = strchr(open, ']');
  if (!end) return HS_GOOD;
  const hlo_shape *s;
  HS_TRY(hlo_parse_shape(ctx, p, (size_t)(end + 1 - p), &s));
  if (s->logical != want->logical) {
    hs_buf b = {0};
    hlo_shape_print(&b, want, false);
    hs_status st = hs_fail(HS_E_INPUT, "a value of shape %.*s for a parameter of shape %s",
                           (int)(end + 1 - p), p, hs_buf_cstr(&b));
    hs_buf_free(&b);
    return st;
  }
  end++;
  const char *layout = strchr(end, ' ');
  if (*end == '{' && layout) end = layout;
  if (*end == '(' && strchr(end, ')')) end = strchr(end, ')') + 1;  // the sizes, as printed
  while (*end == ' ') end++;
  *text = end;
  return HS_GOOD;
}

// The sizes of nested lists: at each depth the entries of the first list there.
static void list_sizes(const char *p, u32 rank, i64 *sizes) {
  u32 depth = 0, counted = rank;  // depths from which on the first list has ended
  for (u32 d = 0; d < rank; d++) sizes[d] = 0;
  for (size_t n = 1; *p; p += n, n = 1) {
    if (*p == '{') {
      if (depth && depth - 1 < counted) sizes[depth - 1]++;
      depth++;
    } else if (*p == '}') {
      if (!depth) return;
      depth--;
      counted = HS_MIN(counted, depth);
    } else if (*p != ',' && !isspace((unsigned char)*p)) {
      if (depth == rank && depth - 1 < counted) sizes[depth - 1]++;
      n = strcspn(p, *p == '(' ? ")" : ",{} ");  // complex numbers hold a comma
      n += p[n] == ')';
    }
  }
}

// Of an array with dynamic dimensions: as many elements as the text lists.
static hs_status parse_part(hlo_ctx *ctx, const hlo_shape *s, const char *text, hlo_literal **out) {
  i64 sizes[HLO_MAX_RANK];
  list_sizes(text, s->rank, sizes);
  if (!hlo_shape_takes_sizes(s, s->rank, sizes))
    return hlo_parse_literal(ctx, s, text, strlen(text), out);  // and its error
  hlo_literal *part;
  HS_TRY(hlo_parse_literal(ctx, hlo_shape_array(ctx, s->dtype, s->rank, sizes), text, strlen(text),
                           &part));
  hs_status st = hlo_literal_of_sizes(s, sizes, part->data, out);
  hlo_literal_unref(part);
  return st;
}

// A literal as users type it: HLO's text with or without its shape in front, or one number for
// every element. *out is the caller's reference.
static hs_status parse_value(hlo_ctx *ctx, const hlo_shape *s, const char *text,
                             hlo_literal **out) {
  *out = NULL;
  HS_TRY(skip_shape(ctx, s, &text));
  if (hlo_shape_is_array(s) && hlo_dtype_is_complex(s->dtype) && *text && !strchr("({", *text)) {
    char *complex = hs_format("(%s, 0)", text);  // a real number
    hs_status st = parse_value(ctx, s, complex, out);
    hs_free(complex);
    return st;
  }
  if (hlo_shape_is_array(s) && s->rank && *text != '{') return splat(ctx, s, text, out);
  if (s->dynamic && s->rank && !strstr(text, "...")) return parse_part(ctx, s, text, out);
  size_t n = strlen(text);
  // {3} for a scalar
  if (hlo_shape_is_array(s) && !s->rank && *text == '{' && n > 1 && text[n - 1] == '}')
    text++, n -= 2;
  return hlo_parse_literal(ctx, s, text, n, out);
}

// ---- a set being gathered -----------------------------------------------------------------------
typedef struct gather {
  repl_cmd *c;
  const inputs_options *o;
  const hlo_computation *entry;
  hlo_literal **v;   // per parameter; NULL: not named by a source
  u32 next;          // parameter that the next unnamed source is for
  bool plain_files;  // nothing but .npy files, one after another
} gather;

static void put(gather *g, u32 k, hlo_literal *take) {
  hlo_literal_unref(g->v[k]);
  g->v[k] = take;
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

// What may stand before a parameter's number: NumPy's names in an archive, JAX's of parameters, our
// own.
static const char *const numbered[] = {"arg", "arr_", "arg_", "Arg_", ""};

bool repl_find_param(const hlo_computation *e, const char *name, size_t n, u32 *k) {
  if (n && *name == '%') name++, n--;
  for (*k = 0; *k < e->nparams; ++*k)
    if (strlen(e->params[*k]->name) == n && memcmp(e->params[*k]->name, name, n) == 0) return true;
  // "x" for x.1, when no other parameter is an x.
  u32 like = 0;
  for (u32 j = 0; j < e->nparams; j++) {
    const char *own = e->params[j]->name, *dot = strrchr(own, '.');
    if (dot && (size_t)(dot - own) == n && memcmp(own, name, n) == 0) like++, *k = j;
  }
  if (like == 1) return true;
  for (size_t p = 0; p < HS_COUNT(numbered); p++) {
    size_t m = strlen(numbered[p]);
    if (n <= m || memcmp(name, numbered[p], m) != 0) continue;
    u64 v = 0;
    size_t q = m;
    for (; q < n && isdigit((unsigned char)name[q]) && v < UINT32_MAX; q++)
      v = v * 10 + (u64)(name[q] - '0');
    if (q == n && v < e->nparams) {
      *k = (u32)v;
      return true;
    }
  }
  return false;
}

hs_status repl_no_param(hs_code code, const hlo_computation *e, const char *given) {
  const char **names = hs_calloc(e->nparams + 1, sizeof *names);
  for (u32 p = 0; p < e->nparams; p++) names[p] = e->params[p]->name;
  const char *near = hs_nearest(given, names, e->nparams);
  hs_free(names);
  hs_status s = hs_fail(code, "the entry has no parameter %s", given);
  return near ? hs_with_note(s, "did you mean %s?", near) : hs_with_note(s, "signature lists them");
}

static void say_reading(void *out, double done, double total) {
  if (done < total) repl_progress(out, "reading", done, total);
  else repl_progress_end(out);
}

static array_options array_how(const gather *g, array_options o) {
  o.progress = say_reading;
  o.progress_arg = g->c->out;
  return o;
}

static hs_status read_tuple(const gather *g, arrays *a, const char *name, const hlo_shape *s,
                            hlo_literal **out);

static hs_status read_named(const gather *g, arrays *a, const char *name, const hlo_shape *s,
                            hlo_literal **out) {
  u32 k;
  *out = NULL;
  if (hlo_shape_is_tuple(s)) return read_tuple(g, a, name, s, out);
  if (!hlo_shape_is_array(s)) return hlo_literal_new(s, out);
  if (!arrays_find(a, name, &k)) return hs_fail(HS_E_INPUT, "there is no array %s", name);
  return arrays_read(a, k, s, array_how(g, g->o->array), out);
}

static hs_status read_tuple(const gather *g, arrays *a, const char *name, const hlo_shape *s,
                            hlo_literal **out) {
  hlo_literal **kids = hs_calloc(s->nelems + 1, sizeof *kids);
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < s->nelems && hs_ok(st); k++) {
    char *child = hs_format("%s.%u", name, k);
    st = read_named(g, a, child, s->elems[k], &kids[k]);
    hs_free(child);
  }
  if (hs_ok(st)) *out = hlo_literal_tuple(s, s->nelems, kids);
  else
    for (u32 k = 0; k < s->nelems; k++) hlo_literal_unref(kids[k]);
  hs_free(kids);
  return st;
}

// The name under which a file may hold parameter k; NULL when it has none of them.
static char *name_in_file(const arrays *a, const hlo_instr *param, u32 k) {
  u32 at;
  const char *leaf = hlo_shape_is_tuple(param->shape) ? ".0" : "";
  char *name = hs_strdup(param->name), *whole = hs_format("%s%s", name, leaf);
  bool found = arrays_find(a, whole, &at);
  for (size_t f = 0; f < HS_COUNT(numbered) && !found; f++) {
    hs_free(name);
    hs_free(whole);
    name = hs_format("%s%u", numbered[f], k);
    whole = hs_format("%s%s", name, leaf);
    found = arrays_find(a, whole, &at);
  }
  hs_free(whole);
  if (found) return name;
  hs_free(name);
  return NULL;
}

static hs_status names_missing(const char *path, const gather *g, const arrays *a, u32 missing) {
  hs_buf b = {0};
  for (u32 k = 0; k < arrays_count(a) && k < 12; k++)
    hs_buf_printf(&b, "%s%s", k ? ", " : "", arrays_name(a, k));
  if (arrays_count(a) > 12) hs_buf_puts(&b, ", ...");
  hs_status s = hs_fail(HS_E_INPUT, "%s: has no array for parameter %u, %s", path, missing,
                        g->entry->params[missing]->name);
  s = hs_with_note(s, "it holds %s; PARAMETER=FILE[NAME] assigns them",
                   b.n ? hs_buf_cstr(&b) : "nothing");
  hs_buf_free(&b);
  return s;
}

// All parameters from one file: by name when it knows the name of one of them, else in order.
static hs_status from_archive(gather *g, const char *path, arrays *a) {
  u32 n = g->entry->nparams, known = 0, missing = n;
  char **names = hs_calloc(n + 1, sizeof *names);
  for (u32 k = 0; k < n; k++) {
    names[k] = name_in_file(a, g->entry->params[k], k);
    known += names[k] != NULL;
    if (!names[k] && missing == n && hlo_shape_leaves(g->entry->params[k]->shape)) missing = k;
  }
  bool in_order = !known && arrays_count(a) == n;
  hs_status s = missing < n && !in_order ? names_missing(path, g, a, missing) : HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    hlo_literal *l = NULL;
    if (in_order) s = arrays_read(a, k, g->entry->params[k]->shape, array_how(g, g->o->array), &l);
    else if (names[k]) s = read_named(g, a, names[k], g->entry->params[k]->shape, &l);
    else s = hlo_literal_new(g->entry->params[k]->shape, &l);
    if (hs_ok(s)) put(g, k, l);
  }
  for (u32 k = 0; k < n; k++) hs_free(names[k]);
  hs_free(names);
  return s;
}

// Values that were made for this entry (a formula, a snapshot): checked, then taken over.
static hs_status take_all(gather *g, const char *path, hlo_literal **v, u32 n) {
  hs_status s = HS_GOOD;
  if (n != g->entry->nparams)
    s = hs_fail(HS_E_INPUT, "%s: %u arguments for %u parameters", path, n, g->entry->nparams);
  for (u32 k = 0; k < n && hs_ok(s); k++)
    if (!hlo_shape_compatible(v[k]->shape, g->entry->params[k]->shape))
      s = hs_fail(HS_E_INPUT, "%s: argument %u does not have the shape of parameter %s", path, k,
                  g->entry->params[k]->name);
  for (u32 k = 0; k < n && hs_ok(s); k++) put(g, k, hlo_literal_ref(v[k]));
  hlo_inputs_free(v, n);
  return s;
}

static hs_status from_formula(gather *g, const char *path) {
  hs_buf text = {0};
  hlo_literal **v = NULL;
  u32 n = 0;
  hs_status s = repl_read_file(path, (size_t)64 << 20, &text);
  if (hs_ok(s)) s = hlo_inputs_formula(g->c->s->ctx, g->c->m, text.p ? text.p : "", text.n, &v, &n);
  hs_buf_free(&text);
  return hs_ok(s) ? take_all(g, path, v, n) : s;
}

static hs_status from_snapshot(gather *g, const char *path) {
  hlo_literal **v;
  u32 n;
  HS_TRY(hlo_load_arguments(g->c->s->ctx, path, g->o->partition, &v, &n, NULL));
  if (!n && g->entry->nparams) return hs_fail(HS_E_INPUT, "%s carries no arguments", path);
  return take_all(g, path, v, n);
}

static hs_status next_param(gather *g, const char *source, u32 *k) {
  if (g->next >= g->entry->nparams)
    return hs_fail(HS_E_INPUT, "%s: there %s only %u parameter%s", source,
                   g->entry->nparams == 1 ? "is" : "are", g->entry->nparams,
                   g->entry->nparams == 1 ? "" : "s");
  *k = g->next++;
  return HS_GOOD;
}

// "FILE:TYPE" and "FILE[NAME]" taken apart, in the scratch arena.
static void split_file(gather *g, const char *source, const char **file, const char **member,
                       array_options *o) {
  hs_arena *a = g->c->scratch;
  size_t n = strlen(source);
  *o = g->o->array;
  *member = NULL;
  const char *colon = strrchr(source, ':');
  for (hlo_dtype t = 1; colon && t < HLO_DTYPE_COUNT; t++)
    if (hlo_dtype_is_array(t) && strcmp(hlo_dtype_text(t), colon + 1) == 0)
      o->as = t, n = (size_t)(colon - source);
  const char *open = memchr(source, '[', n);
  if (open && source[n - 1] == ']' && open > source) {
    *member = hs_arena_strndup(a, open + 1, (size_t)(source + n - open) - 2);
    n = (size_t)(open - source);
  }
  *file = hs_arena_strndup(a, source, n);
}

static hs_status one_from_file(gather *g, u32 k, const char *source) {
  const char *file, *member;
  array_options o;
  split_file(g, source, &file, &member, &o);
  arrays *a;
  HS_TRY(arrays_open(file, hlo_ctx_load_limit(g->c->s->ctx), &a));
  const hlo_instr *p = g->entry->params[k];
  inputs_options with = *g->o;
  with.array = o;
  gather inner = *g;
  inner.o = &with;
  hs_status s;
  hlo_literal *l = NULL;
  u32 at = 0;
  char *own = member ? NULL : name_in_file(a, p, k);
  if (member) s = read_named(&inner, a, member, p->shape, &l);
  else if (arrays_count(a) == 1) s = arrays_read(a, at, p->shape, array_how(g, o), &l);
  else if (own) s = read_named(&inner, a, own, p->shape, &l);
  else
    s = hs_with_note(hs_fail(HS_E_INPUT, "%s: holds %u arrays, none is called %s", file,
                             arrays_count(a), p->name),
                     "%s[NAME] picks one", file);
  hs_free(own);
  arrays_close(a);
  if (hs_ok(s)) put(g, k, l);
  return s;
}

// What one parameter is to hold: a word, a file, or a value.
static hs_status one(gather *g, u32 k, const char *source) {
  const hlo_shape *s = g->entry->params[k]->shape;
  hlo_literal *l = NULL;
  const char *file, *member;
  array_options o;
  if (hlo_input_is_words(source)) {
    HS_TRY(hlo_input_by_words(s, source, g->o->seed * 1000003 + k, &l));
    put(g, k, l);
    return HS_GOOD;
  }
  split_file(g, source, &file, &member, &o);
  if (exists(file) || arrays_is_file_name(file)) return one_from_file(g, k, source);
  hs_status st = parse_value(g->c->s->ctx, s, source, &l);
  if (!hs_ok(st))
    return hs_chain(hs_fail(HS_E_INPUT, "%s: \"%.60s\" is neither a file nor a value for it",
                            g->entry->params[k]->name, source),
                    st);
  put(g, k, l);
  return HS_GOOD;
}

static hs_status by_name(gather *g, const char *source, const char *eq) {
  u32 k;
  if (repl_find_param(g->entry, source, (size_t)(eq - source), &k)) {
    g->plain_files = false;
    return one(g, k, eq + 1);
  }
  const char *given = hs_arena_strndup(g->c->scratch, source, (size_t)(eq - source));
  return repl_no_param(HS_E_INPUT, g->entry, given);
}

static bool starts_with(const char *path, const char *magic, size_t n) {
  hs_buf b = {0};
  // a longer file is refused, its head is there all the same
  hs_status s = repl_read_file(path, 1 << 16, &b);
  hs_status_drop(s);
  bool yes = b.n >= n && memcmp(b.p, magic, n) == 0;
  hs_buf_free(&b);
  return yes;
}

static hs_status source_file(gather *g, const char *source) {
  const char *file, *member;
  array_options o;
  split_file(g, source, &file, &member, &o);
  size_t n = strlen(file);
  u32 k = 0;
  if (member || o.as != g->o->array.as || (n > 4 && strcmp(file + n - 4, ".npy") == 0) ||
      starts_with(file, "\x93NUMPY", 6)) {
    HS_TRY(next_param(g, source, &k));
    return one_from_file(g, k, source);
  }
  g->plain_files = false;
  if (n > 5 && strcmp(file + n - 5, ".args") == 0) return from_formula(g, file);
  arrays *a;
  hs_status s = arrays_open(file, hlo_ctx_load_limit(g->c->s->ctx), &a);
  if (hs_ok(s)) {
    s = from_archive(g, file, a);
    arrays_close(a);
    return s;
  }
  if (s.err->code != HS_E_FORMAT) return s;
  hlo_literal **v;
  u32 count;
  hs_status t = hlo_load_arguments(g->c->s->ctx, file, g->o->partition, &v, &count, NULL);
  if (hs_ok(t) && !count)
    return hs_with_note(s, "snapshots (.pb) and formulas (.args) are read too");
  hs_status_drop(s);
  return hs_ok(t) ? take_all(g, file, v, count) : t;
}

static hs_status add_source(gather *g, const char *source) {
  const char *eq = strchr(source, '=');
  bool named = eq != NULL && eq > source;
  for (const char *p = source; named && p < eq; p++)
    named = isalnum((unsigned char)*p) || strchr("%._-", *p);
  if (named && !exists(source)) return by_name(g, source, eq);
  if (strcmp(source, "snapshot") == 0 && !exists(source)) {
    g->plain_files = false;
    if (!g->c->mod->path)
      return hs_fail(HS_E_INPUT, "snapshot: the module was not loaded from a file");
    return from_snapshot(g, g->c->mod->path);
  }
  const char *file, *member;
  array_options o;
  split_file(g, source, &file, &member, &o);
  if (exists(file) || arrays_is_file_name(file)) return source_file(g, source);
  g->plain_files = false;
  u32 k = 0;
  if (hlo_input_is_words(source)) {
    hs_status s = HS_GOOD;
    for (k = 0; k < g->entry->nparams && hs_ok(s); k++) s = one(g, k, source);
    return s;
  }
  if (strchr("{(+-.0123456789", *source) || strcmp(source, "true") == 0 ||
      strcmp(source, "false") == 0 || strchr(source, '{')) {
    HS_TRY(next_param(g, source, &k));
    return one(g, k, source);
  }
  return hs_with_note(hs_fail(HS_E_INPUT, "%s: no such file", source),
                      "help arguments lists the possible sources");
}

static char *describe(const gather *g, u32 n, const char *const *sources) {
  if (g->plain_files) return hs_strdup("files");
  hs_buf b = {0};
  for (u32 k = 0; k < n && b.n < 80; k++) hs_buf_printf(&b, "%s%.60s", k ? " " : "", sources[k]);
  if (b.n >= 80) hs_buf_puts(&b, " ...");
  char *t = hs_strdup(b.n ? hs_buf_cstr(&b) : "nothing");
  hs_buf_free(&b);
  return t;
}

// Arguments fit as long as the entry's parameters keep their shapes (layouts aside).
static bool inputs_fit(const repl_module *mod) {
  const hlo_computation *e = mod->m->entry;
  if (!e || mod->ninputs != e->nparams) return false;
  for (u32 k = 0; k < mod->ninputs; k++)
    if (!hlo_shape_compatible(mod->inputs[k]->shape, e->params[k]->shape)) return false;
  return true;
}

static hs_status default_inputs(repl_cmd *c);

hs_status repl_inputs_from(repl_cmd *c, u32 n, const char *const *sources,
                           const inputs_options *o) {
  gather g = {.c = c, .o = o, .entry = c->m->entry, .plain_files = true};
  u32 np = g.entry->nparams;
  g.v = hs_calloc(np + 1, sizeof *g.v);
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(s); k++) s = add_source(&g, sources[k]);
  u32 given = 0;
  for (u32 k = 0; k < np; k++) given += g.v[k] != NULL;
  if (hs_ok(s) && g.next && given < np)
    s = hs_fail(HS_E_INPUT, "%u file%s for %u parameters", g.next, g.next == 1 ? "" : "s", np);
  if (hs_ok(s) && given < np && !(c->mod->inputs && inputs_fit(c->mod))) s = default_inputs(c);
  for (u32 k = 0; k < np && hs_ok(s); k++)
    if (!g.v[k]) g.v[k] = hlo_literal_ref(c->mod->inputs[k]);
  if (!hs_ok(s)) {
    hlo_inputs_free(g.v, np);
    return s;
  }
  take_inputs(c->mod, g.v, np, describe(&g, n, sources));
  return HS_GOOD;
}

// "dir/x.hlo" -> "dir/x.args" when that is there.
static char *args_beside(const char *path) {
  if (!path) return NULL;
  const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
  size_t n = dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path);
  char *f = hs_format("%.*s.args", (int)n, path);
  struct stat st;
  if (stat(f, &st) == 0 && S_ISREG(st.st_mode)) return f;
  hs_free(f);
  return NULL;
}

// A snapshot brings the arguments it was taken with.
static bool own_arguments(repl_cmd *c) {
  if (!c->mod->path || strcmp(c->mod->path, "-") == 0 || !exists(c->mod->path)) return false;
  hlo_literal **v;
  u32 n;
  hs_status s = hlo_load_arguments(c->s->ctx, c->mod->path, 0, &v, &n, NULL);
  bool ok = hs_ok(s) && n && n == c->m->entry->nparams;
  for (u32 k = 0; ok && k < n; k++)
    ok = hlo_shape_compatible(v[k]->shape, c->m->entry->params[k]->shape);
  hs_status_drop(s);
  if (ok) take_inputs(c->mod, v, n, hs_format("snapshot %s", c->mod->path));
  else hlo_inputs_free(v, n);
  return ok;
}

static hs_status default_inputs(repl_cmd *c) {
  char *beside = args_beside(c->mod->path);
  if (!beside) return own_arguments(c) ? HS_GOOD : repl_inputs_seed(c, c->s->set.seed, false);
  gather g = {.c = c,
              .o = &(inputs_options){.seed = 0},
              .entry = c->m->entry,
              .v = hs_calloc(c->m->entry->nparams + 1, sizeof *g.v)};
  hs_status s = from_formula(&g, beside);
  if (hs_ok(s)) take_inputs(c->mod, g.v, c->m->entry->nparams, hs_format("formula %s", beside));
  else hlo_inputs_free(g.v, c->m->entry->nparams);
  hs_free(beside);
  return s;
}

hs_status repl_inputs(repl_cmd *c) {
  const char *seed = repl_flag(c, "--seed"), *source = repl_flag(c, "--inputs");
  // Before the first argument is made: what the run as a whole needs.
  i64 held = 0;
  for (u32 k = 0; c->mod->inputs && k < c->mod->ninputs; k++)
    held = hs_add_sat_i64(held, hlo_shape_bytes(c->mod->inputs[k]->shape));
  HS_TRY(repl_memory_check(c, c->m, backend_has(c->s->be, BACKEND_EVALUATOR), -held));
  if (source) return repl_inputs_from(c, 1, &source, &(inputs_options){.seed = c->s->set.seed});
  if (seed) {
    i64 v;
    HS_TRY(repl_arg_int(c, "--seed", seed, 0, INT64_MAX / 2, &v));
    return repl_inputs_seed(c, (u64)v, false);
  }
  if (c->mod->inputs && inputs_fit(c->mod)) return HS_GOOD;
  if (c->mod->inputs) repl_note(c->out, "the entry's parameters changed: new inputs are made");
  return default_inputs(c);
}

// ---- saving -------------------------------------------------------------------------------------
hs_status repl_inputs_save(repl_cmd *c, const char *path) {
  u32 n = c->mod->ninputs;
  if (arrays_is_file_name(path)) {
    array_item *items = hs_calloc(n + 1, sizeof *items);
    for (u32 k = 0; k < n; k++)
      items[k] = (array_item){c->m->entry->params[k]->name, c->mod->inputs[k]};
    hs_status s = arrays_write(path, n, items);
    hs_free(items);
    return s;
  }
  bool had = access(path, F_OK) == 0;
  hs_status s = repl_make_folder(path);
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    char *prefix = hs_format("%s/arg%u", path, k);
    s = repl_npy_write_tree(prefix, c->mod->inputs[k]);
    hs_free(prefix);
  }
  if (!hs_ok(s) && !had) (void)rmdir(path);  // when nothing could be written to it
  return s;
}
