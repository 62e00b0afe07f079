// value.c: print NAME[...] and values: what instructions computed in the last run.
//
// A value that the last run did not keep is computed on demand: the evaluator runs the current
// version on the same arguments and captures that one instruction.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "repl/cmd/cmd.h"
#include "repl/formats/npy.h"
#include "repl/shell/value.h"
#include "repl/debug/watch.h"

#define LINE 100         // columns of numbers
#define SHOWN_MOST 4096  // elements without --limit

static const char *after_name(const char *arg) { return arg + strcspn(arg, "[{"); }

bool repl_asks_for_value(const repl_cmd *c) {
  const char *arg = repl_arg(c, 0), *o = repl_flag(c, "-o");
  if (!arg) return false;
  return *after_name(arg) || repl_flag(c, "--stats") || repl_flag(c, "--hist") ||
         repl_flag(c, "--heat") || (o && arrays_is_file_name(o));
}

static bool utf8_terminal(void) {
  const char *set = getenv("LC_ALL");
  if (!set || !*set) set = getenv("LC_CTYPE");
  if (!set || !*set) set = getenv("LANG");
  return set && (strstr(set, "UTF-8") || strstr(set, "utf8") || strstr(set, "UTF8"));
}

// ---- finding a value ----------------------------------------------------------------------------
static hs_status make_value(repl_cmd *c, const hlo_instr *i, repl_values *into) {
  hlo_module *m;
  HS_TRY(repl_runnable(c, NULL, true, &m));
  hs_status s = repl_memory_check(c, c->m, true, 0);
  hlo_literal *out = NULL;
  watch_options o = {.capture = i->name, .iteration = -1};
  if (hs_ok(s)) s = watch_run(c, m, &o, into, &out);
  hlo_literal_unref(out);
  hlo_module_free(m);
  return s;
}

// The value of an instruction in the last run, from the run, the arguments, the module, or a run of
// its own.
static hs_status value_of(repl_cmd *c, const hlo_instr *i, hlo_literal **out, const char **place) {
  *place = "";
  const repl_kept *kept = c->mod->values_version == c->mod->at->number
                              ? repl_values_find(&c->mod->values, i->name)
                              : NULL;
  if (!kept) {
    HS_TRY(repl_inputs(c));
    if (i->opcode == HLO_PARAMETER && i->parent == c->m->entry) {
      *out = hlo_literal_ref(c->mod->inputs[hlo_param_number(i)]);
      return HS_GOOD;
    }
    const hlo_literal *constant = i->opcode == HLO_CONSTANT ? hlo_constant_value(i) : NULL;
    if (constant && !hlo_literal_has_elided(constant)) {
      *out = hlo_literal_ref(constant);
      return HS_GOOD;
    }
    repl_values fresh = {0};
    hs_status s = make_value(c, i, &fresh);
    const repl_kept *made = hs_ok(s) ? repl_values_find(&fresh, i->name) : NULL;
    if (hs_ok(s) && !made)
      s = hs_with_note(hs_fail(HS_E_NO_OBJECT, "%%%s has no value: it is not executed", i->name),
                       "its result is unused, or it is within a scalar computation");
    if (made) {
      if (c->mod->values_version != c->mod->at->number) repl_keep_values(c->mod, &(repl_values){0});
      repl_values_keep(&c->mod->values, made->name, made->value, made->place);
    }
    repl_values_free(&fresh);
    HS_TRY(s);
    kept = repl_values_find(&c->mod->values, i->name);
  }
  *place = kept->place;
  *out = hlo_literal_ref(kept->value);
  return HS_GOOD;
}

// Follows "{1}{0}" or "{1,0}" into a tuple; *rest is what comes after.
static hs_status pick_leaf(const char *name, const char *p, hlo_literal **l, const char **rest) {
  while (*p == '{') {
    p++;
    while (*p && *p != '}') {
      char *end;
      long k = strtol(p, &end, 10);
      if (end == p || (*end && *end != ',' && *end != '}'))
        return hs_fail(HS_E_USAGE, "%s: a tuple index is {N}", name);
      if (k < 0 || (u64)k >= (*l)->nchildren)
        return hs_fail(HS_E_USAGE, "%s: the value has no element %ld (%u elements)", name, k,
                       (*l)->nchildren);
      hlo_literal *child = hlo_literal_ref((*l)->children[k]);
      hlo_literal_unref(*l);
      *l = child;
      p = *end == ',' ? end + 1 : end;
    }
    if (*p) p++;
  }
  *rest = p;
  return HS_GOOD;
}

// ---- showing ------------------------------------------------------------------------------------
static void print_number(hs_buf *b, const hlo_literal *l, i64 k) {
  if (l->shape->dtype == HLO_PRED) hs_buf_puts(b, hlo_literal_i64(l, k) ? "true" : "false");
  else repl_print_element(b, l, k, 6);
}

// Rows of the last dimension in columns; a heading per matrix of higher ranks.
static void print_rows(repl_out *out, const hlo_literal *l) {
  const hlo_shape *s = l->shape;
  i64 cols = s->rank ? s->dims[s->rank - 1] : 1, rows = cols ? s->elements / cols : 0,
      per = s->rank > 1 ? s->dims[s->rank - 2] : 1;
  hs_buf b = {0};
  int width = 1;
  for (i64 k = 0; k < s->elements && !hs_stops(k); k++) {
    b.n = 0;
    print_number(&b, l, k);
    width = HS_MAX(width, (int)b.n);
  }
  i64 per_line = HS_MAX(LINE / (width + 1), 1);
  for (i64 r = 0; r < rows; r++) {
    if (s->rank > 2 && r % per == 0) {
      i64 at = r / per;
      hs_buf head = {0};
      i64 strides[HLO_MAX_RANK];
      hlo_row_major_strides(s->rank - 2, s->dims, strides);
      for (u32 d = 0; d + 2 < s->rank; d++)
        hs_buf_printf(&head, "%lld,", (long long)(at / strides[d] % s->dims[d]));
      repl_say(out, "[%s:,:]\n", hs_buf_cstr(&head));
      hs_buf_free(&head);
    }
    repl_say(out, " ");
    for (i64 k = 0; k < cols; k++) {
      if (k && k % per_line == 0) repl_say(out, "\n ");
      b.n = 0;
      print_number(&b, l, r * cols + k);
      repl_say(out, " %*s", width, hs_buf_cstr(&b));
    }
    repl_say(out, "\n");
  }
  hs_buf_free(&b);
}

static void say_stats(repl_cmd *c, const hlo_literal *l, const hlo_stats *s) {
  repl_json *j = repl_json_object(c->doc, "stats");
  repl_json_int(j, "elements", l->shape->elements);
  repl_json_num(j, "min", s->min);
  repl_json_num(j, "max", s->max);
  repl_json_num(j, "mean", s->mean);
  repl_json_num(j, "std", s->std);
  repl_json_int(j, "nan", s->nan);
  repl_json_int(j, "inf", s->inf);
  repl_json_int(j, "zero", s->zero);
  repl_json_int(j, "negative", s->negative);
  if (c->doc) return;
  repl_say(c->out, "  %lld elements", (long long)l->shape->elements);
  if (s->values > s->nan + s->inf)
    repl_say(c->out, ", min %g, max %g, mean %g, std %g", s->min, s->max, s->mean, s->std);
  repl_say(c->out, ", %lld NaN, %lld infinite, %lld zero, %lld negative\n", (long long)s->nan,
           (long long)s->inf, (long long)s->zero, (long long)s->negative);
}

static hs_status draw(repl_cmd *c, const hlo_literal *l, const hlo_stats *s) {
  bool unicode = utf8_terminal() && !repl_flag(c, "--ascii");
  hs_buf b = {0};
  if (repl_flag(c, "--hist")) {
    i64 bins = 16;
    if (repl_flag(c, "--bins"))
      HS_TRY(repl_arg_int(c, "--bins", repl_flag(c, "--bins"), 1, 64, &bins));
    repl_draw_histogram(&b, l, s, (u32)bins, unicode);
    i64 counts[64];
    hlo_literal_histogram(l, s, (u32)bins, counts);
    repl_json *list = repl_json_array(c->doc, "histogram");
    for (i64 k = 0; k < bins; k++) repl_json_int(list, NULL, counts[k]);
  }
  if (repl_flag(c, "--heat")) {
    if (l->shape->rank > 2) {
      hs_buf_free(&b);
      return hs_with_note(
          hs_fail(HS_E_USAGE, "print --heat draws a matrix, not rank %u", l->shape->rank),
          "a slice picks one: print %s[0,...] --heat", repl_arg(c, 0));
    }
    if (hlo_dtype_is_complex(l->shape->dtype)) {
      hs_buf_free(&b);
      return hs_fail(HS_E_UNSUPPORTED, "print --heat draws real values");
    }
    repl_draw_heat(&b, l, s, 96, 32, unicode, c->out->color && !repl_flag(c, "--ascii"));
  }
  if (b.n && !c->doc) repl_say_painted(c->out, b.p, b.n);
  hs_buf_free(&b);
  return HS_GOOD;
}

static hs_status show(repl_cmd *c, const char *title, const hlo_literal *l, const char *place) {
  i64 limit = SHOWN_MOST;
  if (repl_flag(c, "--limit"))
    HS_TRY(repl_arg_int(c, "--limit", repl_flag(c, "--limit"), 0, INT32_MAX, &limit));
  bool figures = repl_flag(c, "--stats") || repl_flag(c, "--hist") || repl_flag(c, "--heat") ||
                 repl_flag(c, "-o");
  repl_json_str(c->doc, "name", title);
  if (*place) repl_json_str(c->doc, "place", place);
  if (!hlo_shape_is_array(l->shape)) {
    repl_json_literal(c->doc, c->s->ctx, "value", l, limit);
    if (!c->doc) repl_say_literal(c->out, c->s->ctx, title, l, 16);
    return HS_GOOD;
  }
  hs_buf shape = {0};
  hlo_shape_print(&shape, l->shape, false);
  if (!c->doc)
    repl_say(c->out, "%s = %s%s%s%s\n", title, hs_buf_cstr(&shape), *place ? " (" : "", place,
             *place ? ")" : "");
  hs_buf_free(&shape);
  hlo_stats s = hlo_literal_stats(l);
  HS_TRY(hs_poll());
  if (!figures) {
    repl_json_literal(c->doc, c->s->ctx, "value", l, limit);
    if (!c->doc && l->shape->elements <= limit) print_rows(c->out, l);
    else if (!c->doc)
      repl_say(c->out, "  too many to show (--limit=%lld, or a smaller part)\n",
               (long long)l->shape->elements);
  }
  if (figures || l->shape->elements > 16) say_stats(c, l, &s);
  return draw(c, l, &s);
}

hs_status repl_print_value(repl_cmd *c) {
  // "dot.3[0:4, :]" may have come as several words.
  hs_buf all = {0};
  for (u32 k = 0; k < c->args.npos; k++) hs_buf_puts(&all, c->args.pos[k]);
  char *text = hs_arena_strndup(c->scratch, all.p, all.n);
  hs_buf_free(&all);
  const char *rest = after_name(text);
  char *name = hs_arena_strndup(c->scratch, text, (size_t)(rest - text));
  hlo_instr *i = repl_find_instr(c->m, name);
  if (!i) return repl_no_object(c->m, name);
  hlo_literal *l = NULL;
  const char *place;
  HS_TRY(value_of(c, i, &l, &place));
  hs_status s = pick_leaf(name, rest, &l, &rest);
  if (hs_ok(s) && l->dynamic_sizes) {  // what lies beyond is no value
    hlo_literal *used = NULL;
    s = hlo_literal_in_use(c->s->ctx, l, &used);
    hlo_literal_unref(l);
    l = used;
  }
  if (hs_ok(s) && *rest == '[') {
    size_t n = strlen(rest);
    hlo_literal *part = NULL;
    if (rest[n - 1] != ']') s = hs_fail(HS_E_USAGE, "%s: the index is not closed by ]", text);
    else if (!hlo_shape_is_array(l->shape))
      s = hs_with_note(hs_fail(HS_E_USAGE, "%s is a tuple of %u", name, l->nchildren),
                       "%s{0} is its first element", name);
    else s = repl_slice(c->s->ctx, l, hs_arena_strndup(c->scratch, rest + 1, n - 2), &part);
    if (hs_ok(s)) {
      hlo_literal_unref(l);
      l = part;
    }
  } else if (hs_ok(s) && *rest) {
    s = hs_fail(HS_E_USAGE, "%s: \"%s\" is no index", text, rest);
  }
  const char *file = repl_flag(c, "-o");
  if (hs_ok(s) && file) {
    s = arrays_write(file, 1, &(array_item){i->name, l});
    if (hs_ok(s)) repl_note(c->out, "wrote %s", file);
  }
  if (hs_ok(s)) s = show(c, *name == '%' ? text + 1 : text, l, place);
  hlo_literal_unref(l);
  return s;
}

// ---- values -------------------------------------------------------------------------------------
static hs_status save_values(repl_cmd *c, const repl_values *v, const char *patterns,
                             const char *path) {
  HS_VEC(array_item) items = {0};
  for (size_t k = 0; k < v->n; k++)
    if (!patterns || watch_matches(patterns, v->v[k].name))
      hs_vec_push(&items, ((array_item){v->v[k].name, v->v[k].value}));
  hs_status s = HS_GOOD;
  if (arrays_is_file_name(path)) {
    s = arrays_write(path, (u32)items.n, items.v);
  } else {
    bool had = access(path, F_OK) == 0;
    s = repl_make_folder(path);
    for (size_t k = 0; k < items.n && hs_ok(s); k++) {
      char *name = repl_file_name(items.v[k].name), *prefix = hs_format("%s/%s", path, name);
      s = repl_npy_write_tree(prefix, items.v[k].value);
      hs_free(name);
      hs_free(prefix);
    }
    if (!hs_ok(s) && !had) (void)rmdir(path);  // when nothing could be written to it
  }
  if (hs_ok(s))
    repl_note(c->out, "wrote %zu value%s to %s", items.n, items.n == 1 ? "" : "s", path);
  hs_vec_free(&items);
  return s;
}

hs_status cmd_values(repl_cmd *c) {
  const repl_values *v = &c->mod->values;
  const char *patterns = repl_arg(c, 0), *save = repl_flag(c, "--save");
  if (!v->n)
    return hs_with_note(hs_fail(HS_E_NO_OBJECT, "values: no run has captured values"),
                        "run --capture=PATTERN captures those of matching instructions");
  if (c->mod->values_version != c->mod->at->number)
    repl_note(c->out, "these are of version %u", c->mod->values_version);
  repl_json *list = repl_json_array(c->doc, "values");
  for (size_t k = 0; k < v->n; k++) {
    const repl_kept *x = &v->v[k];
    if (patterns && !watch_matches(patterns, x->name)) continue;
    hs_buf line = {0}, shape = {0};
    hlo_shape_print(&shape, x->value->shape, false);
    repl_pad(&line, x->name, 28);
    hs_buf_putc(&line, ' ');
    repl_pad(&line, hs_buf_cstr(&shape), 20);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", x->name);
    repl_json_str(j, "shape", hs_buf_cstr(&shape));
    repl_json_int(j, "times", x->times);
    if (hlo_shape_is_array(x->value->shape)) {
      hlo_stats s = hlo_literal_stats(x->value);
      if (s.values > s.nan + s.inf)
        hs_buf_printf(&line, " min %-10.4g max %-10.4g mean %-10.4g", s.min, s.max, s.mean);
      if (s.nan) hs_buf_printf(&line, " %lld NaN", (long long)s.nan);
      if (s.inf) hs_buf_printf(&line, " %lld infinite", (long long)s.inf);
      repl_json_num(j, "min", s.min);
      repl_json_num(j, "max", s.max);
      repl_json_num(j, "mean", s.mean);
      repl_json_int(j, "nan", s.nan), repl_json_int(j, "inf", s.inf);
    }
    if (x->times > 1) hs_buf_printf(&line, " ran %u times", x->times);
    if (*x->place) hs_buf_printf(&line, " (%s)", x->place);
    while (line.n && line.p[line.n - 1] == ' ') line.n--;
    if (!c->doc) repl_say(c->out, "%s\n", hs_buf_cstr(&line));
    hs_buf_free(&line);
    hs_buf_free(&shape);
    HS_TRY(hs_poll());
  }
  return save ? save_values(c, v, patterns, save) : HS_GOOD;
}
