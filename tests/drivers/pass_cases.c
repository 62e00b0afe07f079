// pass_cases.c — XLA's own pass tests as data. usage: pass_cases DIR [--pass NAME] [-j N]
//
// DIR/index.tsv names modules, the pass to run on each and what must hold after: whether the module changed, a pattern over
// it, FileCheck texts, an error, other assertions. Beyond those, the verifier must accept the result and its meaning must
// be that of the input wherever it can be evaluated. A case with an expectation that this program cannot read, an option
// that our pass does not have, or an edit of the module by code counts as not checkable unless something that can be
// checked fails. Cases of passes that hlosh does not have fail.
#include "passes/util.h"
#include "tests/drivers/match.h"
#include "tests/drivers/meaning.h"

enum { PASSED, FAILED, NOT_CHECKABLE, NOT_SELECTED, NO_PASS };

typedef struct tally { const char *pass; u32 passed, failed, not_checkable; bool missing; } tally;
typedef struct run { drv_table t; const char *dir, *only; HS_VEC(tally) tallies; } run;

// XLA's option names: what they are called here, NULL where our pass does that anyway.
static const struct { const char *xla, *ours; } option_names[] = {
    {"run_to_fixed_point", "run_to_fixed_point"}, {"is_layout_sensitive", "layout_sensitive"}, {"layout_sensitive", "layout_sensitive"},
    {"single_call_site", "single_call_site"}, {"rewrite_training_op", "rewrite_training_op"}, {"rewrite_inference_op", "rewrite_inference_op"},
    {"rewrite_grad_op", "rewrite_grad_op"}, {"hoist_constants", "hoist_constants"}, {"exclude_entry_computation", "exclude_entry_computation"},
    {"sink_broadcast_of_constants", "sink_broadcast_of_constants"}, {"reduce_window_size", "reduce_window_size"},
    {"max_size_to_merge", "max_size_to_merge"}, {"device_description", NULL}, {"alias_info", NULL},
};

static const char *field(const run *r, u32 k, const char *column) { return drv_cell(&r->t, k, column); }

// ---- pipeline text of a case ------------------------------------------------------------------------------------------
static void add_options(hs_buf *b, const char *options, bool *fix, bool *known) {
  char *copy = hs_strdup(options), *save = NULL;
  bool open = false;
  for (char *o = strtok_r(copy, ";", &save); o; o = strtok_r(NULL, ";", &save)) {
    while (*o == ' ') o++;
    char *end = o + strlen(o);
    while (end > o && end[-1] == ' ') *--end = '\0';
    if (!*o) continue;
    if (strcmp(o, "fixpoint") == 0) { *fix = true; continue; }
    char *eq = strchr(o, '=');
    if (eq) *eq = '\0';
    const char *ours = NULL;
    bool found = false;
    for (size_t k = 0; k < HS_COUNT(option_names); k++)
      if (strcmp(option_names[k].xla, o) == 0) ours = option_names[k].ours, found = true;
    if (!found) { *known = false; continue; }
    if (!ours) continue;
    hs_buf_printf(b, "%s%s=%s", open ? ";" : "{", ours, eq ? eq + 1 : "true");
    open = true;
  }
  if (open) hs_buf_putc(b, '}');
  hs_free(copy);
}

static bool case_text(const run *r, u32 k, hs_buf *out, bool *known) {
  char *passes = hs_strdup(field(r, k, "pass")), *options = hs_strdup(field(r, k, "options")), *save = NULL;
  char *part[8] = {options};
  u32 nparts = 1;
  for (char *p = options; (p = strstr(p, " | ")) && nparts < 8;) *p = '\0', p += 3, part[nparts++] = p;
  bool all = true;
  u32 n = 0;
  for (char *p = strtok_r(passes, ",", &save); p; p = strtok_r(NULL, ",", &save), n++) {
    all &= pass_find(p) != NULL;
    hs_buf one = {0};
    bool fix = false;
    hs_buf_puts(&one, p);
    add_options(&one, nparts > 1 ? (n < nparts ? part[n] : "") : options, &fix, known);
    hs_buf_printf(out, fix ? "%sfix(%s)" : "%s%s", out->n ? "," : "", hs_buf_cstr(&one));
    hs_buf_free(&one);
  }
  hs_free(passes);
  hs_free(options);
  return all;
}

// ---- expectations -----------------------------------------------------------------------------------------------------
// Joins the answer of one expectation; prints what failed.
static void expect(int *verdict, m_answer a, FILE *out, const char *what, const char *text) {
  if (a == M_NO) {
    if (*verdict != FAILED) fprintf(out, "%s does not hold: %s\n", what, text);
    *verdict = FAILED;
  } else if (a == M_UNKNOWN && *verdict == PASSED) {
    *verdict = NOT_CHECKABLE;
  }
}

static void each_part(const char *cell, void (*f)(void *, const char *), void *arg) {
  char *copy = hs_strdup(cell), *p = copy;
  while (p) {
    char *next = strstr(p, " ;; ");
    if (next) *next = '\0', next += 4;
    if (*p) f(arg, p);
    p = next;
  }
  hs_free(copy);
}

typedef struct checking { m_env *env; int *verdict; FILE *out; } checking;

static void check_pattern(void *arg, const char *text) {
  checking *c = arg;
  expect(c->verdict, m_check(c->env, text), c->out, "pattern", text);
}

// Values that assertions compare: numbers, instructions, strings.
typedef struct value { enum { V_UNKNOWN, V_NUMBER, V_INSTR, V_STRING } kind; double number; const hlo_instr *i; const char *s; } value;

static u32 count_opcode(const hlo_module *m, hlo_opcode op) {
  u32 n = 0;
  hlo_for_each_comp(c, m) hlo_for_each_instr(i, c) n += i->opcode == op;
  return n;
}

static value value_of(m_env *v, const m_expr *e) {
  if (!e->name && e->kind != E_NUMBER) return (value){0};
  if (e->kind == E_NUMBER) return (value){V_NUMBER, e->number, NULL, NULL};
  if (e->kind == E_STRING) return (value){V_STRING, 0, NULL, e->name};
  if (!e->name) return (value){0};
  if (e->kind == E_NAME && strcmp(e->name, "nullptr") == 0) return (value){V_INSTR, 0, NULL, NULL};
  if (e->kind == E_NAME && (strcmp(e->name, "true") == 0 || strcmp(e->name, "false") == 0)) return (value){V_NUMBER, *e->name == 't', NULL, NULL};
  hlo_opcode op = m_kopcode(e);
  if (e->kind == E_NAME && strstr(e->name, "HloOpcode::") && op != HLO_OP_INVALID) return (value){V_NUMBER, op, NULL, NULL};
  if (e->kind == E_CALL && !e->on && strncmp(e->name, "Count", 5) == 0 && e->n == 1) {
    char name[64];
    snprintf(name, sizeof name, "%s", e->name + 5);
    size_t n = strlen(name);
    if (strcmp(name, "Copies") == 0) return (value){V_NUMBER, count_opcode(v->m, HLO_COPY), NULL, NULL};
    if (n && name[n - 1] == 's') name[n - 1] = '\0';
    if (m_opcode(name) != HLO_OP_INVALID) return (value){V_NUMBER, count_opcode(v->m, m_opcode(name)), NULL, NULL};
  }
  bool known = true;
  if (e->kind == E_CALL && e->on) {
    if (strcmp(e->name, "computation_count") == 0) return (value){V_NUMBER, v->m->ncomputations, NULL, NULL};
    if (strcmp(e->name, "instruction_count") == 0) {
      hlo_computation *c = m_comp(v, e->on, &known);
      if (known && c) return (value){V_NUMBER, c->ninstrs, NULL, NULL};
      return (value){0};
    }
    static const char *const props[] = {"opcode", "operand_count", "user_count", "tuple_index", "parameter_number", "name", "custom_call_target", "IsRoot"};
    for (size_t k = 0; k < HS_COUNT(props); k++) {
      if (strcmp(props[k], e->name) != 0) continue;
      const hlo_instr *i = m_target(v, e->on, &known);
      if (!i || !known) return (value){0};
      switch (k) {
        case 0: return (value){V_NUMBER, i->opcode, NULL, NULL};
        case 1: return (value){V_NUMBER, i->noperands, NULL, NULL};
        case 2: return (value){V_NUMBER, m_users(i), NULL, NULL};
        case 3: return (value){V_NUMBER, (double)hlo_attr_int(i, HLO_ATTR_INDEX, -1), NULL, NULL};
        case 4: return (value){V_NUMBER, (double)hlo_param_number(i), NULL, NULL};
        case 5: return (value){V_STRING, 0, NULL, i->name};
        case 6: return (value){V_STRING, 0, NULL, hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET).p};
        default: return (value){V_NUMBER, hlo_is_root(i), NULL, NULL};
      }
    }
  }
  const hlo_instr *i = m_target(v, e, &known);
  return known ? (value){V_INSTR, 0, i, NULL} : (value){0};
}

static m_answer compare_values(const char *how, value a, value b) {
  if (a.kind == V_UNKNOWN || b.kind == V_UNKNOWN || a.kind != b.kind) return M_UNKNOWN;
  double d = a.number - b.number;
  bool equal = a.kind == V_NUMBER ? d == 0 : a.kind == V_INSTR ? a.i == b.i : strcmp(a.s ? a.s : "", b.s ? b.s : "") == 0;
  if (strcmp(how, "EQ") == 0) return m_yes(equal);
  if (strcmp(how, "NE") == 0) return m_yes(!equal);
  if (a.kind != V_NUMBER) return M_UNKNOWN;
  if (strcmp(how, "GT") == 0) return m_yes(d > 0);
  if (strcmp(how, "GE") == 0) return m_yes(d >= 0);
  if (strcmp(how, "LT") == 0) return m_yes(d < 0);
  if (strcmp(how, "LE") == 0) return m_yes(d <= 0);
  return M_UNKNOWN;
}

static m_answer check_assert(m_env *env, const char *text) {
  m_reader r = {text, &env->a};
  m_expr *e = m_read(&r);
  if (e->kind != E_CALL || e->on) return M_UNKNOWN;
  const char *name = e->name + (strncmp(e->name, "ASSERT_", 7) == 0 || strncmp(e->name, "EXPECT_", 7) == 0 ? 7 : 0);
  if (name == e->name) return M_UNKNOWN;
  if (strcmp(name, "THAT") == 0 && e->n == 2) {
    bool known = true;
    hlo_instr *i = m_target(env, e->args[0], &known);
    return known ? m_match(env, e->args[1], i) : M_UNKNOWN;
  }
  if ((strcmp(name, "TRUE") == 0 || strcmp(name, "FALSE") == 0) && e->n == 1) {
    value v = value_of(env, e->args[0]);
    if (e->args[0]->kind == E_NAME) return M_UNKNOWN;
    return v.kind != V_NUMBER ? M_UNKNOWN : m_yes((v.number != 0) == (*name == 'T'));
  }
  for (u32 k = 0, n = 0; k < e->n; k++)   // comparisons of two constants are left over from the test's own C++
    if ((e->args[k]->kind == E_NUMBER || e->args[k]->kind == E_STRING) && ++n == e->n) return M_UNKNOWN;
  return e->n == 2 ? compare_values(name, value_of(env, e->args[0]), value_of(env, e->args[1])) : M_UNKNOWN;
}

static void check_one_assert(void *arg, const char *text) {
  checking *c = arg;
  expect(c->verdict, check_assert(c->env, text), c->out, "assertion", text);
}

// ---- FileCheck ----------------------------------------------------------------------------------------------------------
static const char *filecheck(void) {
  static const char *const places[] = {"/usr/lib/llvm-19/bin/FileCheck", "/usr/lib/llvm-20/bin/FileCheck", "/usr/bin/FileCheck"};
  const char *given = getenv("FILECHECK");
  if (given && *given) return given;
  for (size_t k = 0; k < HS_COUNT(places); k++)
    if (access(places[k], X_OK) == 0) return places[k];
  return NULL;
}

static m_answer run_filecheck(const char *check_path, const hs_buf *text) {
  const char *tool = filecheck();
  if (!tool) return M_UNKNOWN;
  int fd = memfd_create("module", 0);
  if (fd < 0 || write(fd, text->p, text->n) != (ssize_t)text->n) return M_UNKNOWN;
  lseek(fd, 0, SEEK_SET);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(fd, 0);
    execl(tool, tool, check_path, "--allow-empty", (char *)NULL);
    _exit(127);
  }
  close(fd);
  int st = 0;
  waitpid(pid, &st, 0);
  if (!WIFEXITED(st) || WEXITSTATUS(st) == 127) return M_UNKNOWN;
  return m_yes(WEXITSTATUS(st) == 0);
}

static void check_files(const run *r, u32 k, const hlo_module *m, int *verdict, FILE *out) {
  int n = atoi(field(r, k, "check"));
  if (n <= 0) return;
  const char *print = field(r, k, "print");
  if (*print && strcmp(print, "m->ToString()") != 0 && strcmp(print, "module->ToString()") != 0) return expect(verdict, M_UNKNOWN, out, "", "");
  hs_buf text = {0};
  hlo_print_options o = hlo_print_default();
  hlo_print_module(&text, m, &o);
  char path[4096];
  for (int c = 1; c <= n; c++) {
    snprintf(path, sizeof path, c == 1 ? "%s/%s.check" : "%s/%s.check.%d", r->dir, field(r, k, "name"), c);
    expect(verdict, run_filecheck(path, &text), out, "FileCheck text", path);
  }
  hs_buf_free(&text);
}

// ---- one case ---------------------------------------------------------------------------------------------------------
static bool message_contains(hs_status s, const char *parts) {
  bool all = true;
  char *copy = hs_strdup(parts), *p = copy;
  while (p) {
    char *next = strstr(p, " && ");
    if (next) *next = '\0', next += 4;
    bool hit = strcmp(p, "*") == 0;
    for (const hs_diag *d = s.err; d; d = d->next) hit |= strstr(d->message, p) != NULL;
    all &= hit;
    p = next;
  }
  hs_free(copy);
  return all;
}

static int verifier_case(const run *r, u32 k, hs_status s, const hlo_module *m, FILE *out) {
  const char *error = field(r, k, "error");
  hlo_verify_options o = {.layout_sensitive = strstr(field(r, k, "fixture"), "layout_sensitive=true") != NULL,
                          .disallow_mixed_precision = strstr(field(r, k, "fixture"), "allow_mixed_precision=false") != NULL};
  if (hs_ok(s)) s = hlo_verify(m, &o);
  if (!*error) {
    if (hs_ok(s)) return PASSED;
    drv_status(out, "rejected", s);
    return FAILED;
  }
  if (hs_ok(s)) return fprintf(out, "accepted, but must fail with: %s\n", error), FAILED;
  bool hit = message_contains(s, error);
  if (!hit) drv_status(out, "other message", s);
  else hs_status_drop(s);
  return hit ? PASSED : FAILED;
}

static int finished(const run *r, u32 k, const hlo_module *before, hlo_module *m, bool changed, bool known, FILE *out) {
  int verdict = known ? PASSED : NOT_CHECKABLE;
  // Dropping the roundings between conversions is what this pass is for.
  bool rounds = strstr(field(r, k, "pass"), "simplify-fp-conversions") != NULL;
  if (!rounds && meaning_compare(before, m, out) == MEANS_OTHER) return FAILED;
  const char *want = field(r, k, "changed");
  if (known && *want && !strchr(want, ',')) expect(&verdict, m_yes(changed == (*want == '1')), out, "changed =", want);
  else if (*want) expect(&verdict, M_UNKNOWN, out, "", "");
  if (!known) return verdict;
  m_env env = {.m = m};
  checking c = {&env, &verdict, out};
  each_part(field(r, k, "pattern"), check_pattern, &c);
  each_part(field(r, k, "asserts"), check_one_assert, &c);
  check_files(r, k, m, &verdict, out);
  hs_arena_free(&env.a);
  return verdict;
}

static int one(void *arg, u32 k, FILE *out) {
  run *r = arg;
  const char *kind = field(r, k, "kind"), *pass = field(r, k, "pass");
  bool verifier = strcmp(kind, "verifier") == 0;
  if (strcmp(kind, "pass") != 0 && !verifier) return NOT_SELECTED;
  if (r->only && strcmp(r->only, pass) != 0) return NOT_SELECTED;
  hs_buf text = {0};
  bool known = true;
  if (!verifier && !case_text(r, k, &text, &known)) return NO_PASS;
  if (*field(r, k, "edits")) return NOT_CHECKABLE;
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.hlo", r->dir, field(r, k, "name"));
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_load_file(ctx, path, NULL, &m);
  if (verifier) return verifier_case(r, k, s, m, out);
  const char *error = field(r, k, "error");
  if (!hs_ok(s)) {
    if (*error && message_contains(s, error)) return PASSED;
    drv_status(out, "not read", s);
    return FAILED;
  }
  hs_status valid = hlo_verify(m, NULL);
  bool was_valid = hs_ok(valid);
  hs_status_drop(valid);
  hlo_module *before = hlo_module_clone(m, m->name);
  u64 hash = hlo_text_hash(m);
  pass_run_options o = pass_run_default();
  o.verify_all = was_valid, o.verify = was_valid, o.measure = false;
  pass_log log = {0};
  s = pipeline_run(m, hs_buf_cstr(&text), &o, &log);
  if (*error) {
    if (hs_ok(s)) return known ? (fprintf(out, "must fail with: %s\n", error), FAILED) : NOT_CHECKABLE;
    return message_contains(s, error) ? PASSED : (drv_status(out, "other message", s), FAILED);
  }
  if (!hs_ok(s)) {
    drv_status(out, "failed", s);
    return FAILED;
  }
  return finished(r, k, before, m, hash != hlo_text_hash(m), known, out);
}

static void done(void *arg, u32 k, int verdict, const char *text) {
  run *r = arg;
  if (verdict == NOT_SELECTED) return;
  const char *pass = field(r, k, "pass");
  tally *t = NULL;
  for (size_t x = 0; x < r->tallies.n; x++)
    if (strcmp(r->tallies.v[x].pass, pass) == 0) t = &r->tallies.v[x];
  if (!t) {
    tally fresh = {.pass = pass};
    hs_vec_push(&r->tallies, fresh);
    t = &r->tallies.v[r->tallies.n - 1];
  }
  if (verdict == PASSED) t->passed++;
  else if (verdict == NOT_CHECKABLE) t->not_checkable++;
  else t->failed++;
  if (verdict == NO_PASS) t->missing = true;
  else if (verdict != PASSED && verdict != NOT_CHECKABLE) printf("FAIL %s [%s]: %s%s", field(r, k, "name"), pass, text, text[0] ? "" : "\n");
}

static int by_name(const void *a, const void *b) { return strcmp(((const tally *)a)->pass, ((const tally *)b)->pass); }

int main(int argc, char **argv) {
  static const char *const options[] = {"pass", NULL};
  drv_args a;
  run r = {0};
  char path[4096];
  bool ok = drv_parse(argc, argv, options, &a) && a.n == 1;
  if (ok) {
    snprintf(path, sizeof path, "%s/index.tsv", a.v[0]);
    ok = drv_table_read(path, &r.t);
  }
  if (!ok) {
    fprintf(stderr, "usage: pass_cases DIR [--pass NAME] [-j N]   (DIR holds index.tsv)\n");
    return 2;
  }
  r.dir = a.v[0];
  r.only = drv_option(&a, "pass");
  drv_run(r.t.nrows, a.jobs, 60, one, done, &r);
  qsort(r.tallies.v, r.tallies.n, sizeof *r.tallies.v, by_name);
  u32 p = 0, total = 0, nc = 0;
  for (size_t k = 0; k < r.tallies.n; k++) {
    tally *t = &r.tallies.v[k];
    printf("%s: %u/%u, %u not checkable%s\n", t->pass, t->passed, t->passed + t->failed, t->not_checkable, t->missing ? " (no such pass here)" : "");
    p += t->passed, total += t->passed + t->failed, nc += t->not_checkable;
  }
  printf("pass_cases: %u/%u, %u not checkable\n", p, total, nc);
  return p != total;
}
