// repl.c — the shell's parts: the tokenizer and the argument specs, expressions, line
// differences, the version tree under random walks, the command table, and every command's example,
// run as `help` shows it.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>
#include <limits.h>

#include <cmocka.h>

#include "backends/worker.h"
#include "repl/registry.h"
#include "repl/cmd/cmd.h"
#include "repl/debug/diff.h"
#include "repl/shell/expr.h"
#include "repl/shell/line.h"
#include "tests/unit/skip.h"

static bool fails_with(hs_status s, hs_code code) {
  bool yes = !hs_ok(s) && s.err->code == code;
  if (!hs_ok(s) && !yes) print_error("got %s: %s\n", hs_code_text(s.err->code), s.err->message);
  hs_status_drop(s);
  return yes;
}
static bool good(hs_status s) {
  if (!hs_ok(s)) print_error("%s: %s\n", hs_code_text(s.err->code), s.err->message);
  bool yes = hs_ok(s);
  hs_status_drop(s);
  return yes;
}

// ---- lines and arguments ------------------------------------------------------------------------
static void segments(const char *line, const char *const *want) {
  size_t at = 0, k = 0;
  for (hs_str s; repl_split(line, strlen(line), &at, &s); k++) {
    assert_non_null(want[k]);
    assert_int_equal(s.n, strlen(want[k]));
    assert_memory_equal(s.p, want[k], s.n);
  }
  assert_null(want[k]);
}

static void splits_lines(void **state) {
  (void)state;
  segments("a; b ;c", (const char *const[]){"a", "b", "c", NULL});
  segments("  ;; # only a comment", (const char *const[]){NULL});
  segments("a 'x;y' \"p\\\";q\" # note; more", (const char *const[]){"a 'x;y' \"p\\\";q\"", NULL});
  segments("a\\;b; c", (const char *const[]){"a\\;b", "c", NULL});
  segments("!ls; pwd", (const char *const[]){"!ls; pwd", NULL});
  segments("// c++ comment", (const char *const[]){NULL});
  segments("x#y", (const char *const[]){"x#y", NULL});
  segments("", (const char *const[]){NULL});
  segments("'open; quote", (const char *const[]){"'open; quote", NULL});
  segments("pass a{x=1;y=2},b; c", (const char *const[]){"pass a{x=1;y=2},b", "c", NULL});
  segments("a {; b", (const char *const[]){"a {", "b", NULL});
  segments("a {'}; b", (const char *const[]){"a {'}; b", NULL});
  segments("a {\"}\";b}; c", (const char *const[]){"a {\"}\";b}", "c", NULL});
}

static hs_status parse(hs_arena *a, const char *spec, const char *text, repl_args *out) {
  return repl_parse_args(a, "cmd", spec, hs_str_of(text), out);
}

static void parses_arguments(void **state) {
  (void)state;
  hs_arena a = {0};
  repl_args r;
  const char *spec = "X Y? --long --n=N -o=FILE";
  assert_true(good(parse(&a, spec, "one --long --n=3 -o out two", &r)));
  assert_int_equal(r.npos, 2);
  assert_string_equal(r.pos[1], "two");
  assert_string_equal(repl_opt(&r, "--n"), "3");
  assert_string_equal(repl_opt(&r, "--long"), "");
  assert_string_equal(repl_opt(&r, "-o"), "out");
  assert_null(repl_opt(&r, "--other"));
  assert_true(good(parse(&a, spec, "'a b' \"c\\\"d\"", &r)));
  assert_string_equal(r.pos[0], "a b");
  assert_string_equal(r.pos[1], "c\"d");
  assert_true(good(parse(&a, spec, "x | grep 'a|b' > y", &r)));
  assert_int_equal(r.redirect, REPL_TO_PIPE);
  assert_string_equal(r.target, "grep 'a|b' > y");
  assert_true(good(parse(&a, spec, "x >> 'my file'", &r)));
  assert_int_equal(r.redirect, REPL_TO_APPEND);
  assert_string_equal(r.target, "my file");
  assert_true(good(parse(&a, spec, "-- --long", &r)));
  assert_string_equal(r.pos[0], "--long");
  assert_true(good(parse(&a, spec, "-3", &r)));
  assert_true(fails_with(parse(&a, spec, "", &r), HS_E_USAGE));
  assert_true(fails_with(parse(&a, spec, "a b c", &r), HS_E_USAGE));
  assert_true(fails_with(parse(&a, spec, "a --lomg", &r), HS_E_USAGE));
  assert_true(fails_with(parse(&a, spec, "a --n", &r), HS_E_USAGE));
  assert_true(fails_with(parse(&a, spec, "a --long=2", &r), HS_E_USAGE));
  assert_true(fails_with(parse(&a, spec, "a 'b", &r), HS_E_USAGE));
  assert_true(fails_with(parse(&a, spec, "a >", &r), HS_E_USAGE));
  assert_true(fails_with(parse(&a, spec, "a > b c", &r), HS_E_USAGE));
  assert_true(good(parse(&a, "...EXPR", "a > 3 | b", &r)));
  assert_string_equal(r.raw, "a > 3 | b");
  assert_true(good(parse(&a, "...EXPR", "a > 3 -o f.txt", &r)));
  assert_string_equal(r.raw, "a > 3");
  assert_string_equal(r.target, "f.txt");
  assert_true(fails_with(parse(&a, "...EXPR", "", &r), HS_E_USAGE));
  hs_buf b = {0};
  repl_usage(&b, "cmd", "X Y? Z* --long --n=N -o=FILE");
  assert_string_equal(hs_buf_cstr(&b), "cmd X [Y] [Z ...] [--long] [--n=N] [-o FILE]");
  hs_buf_free(&b);
  hs_arena_free(&a);
}

static void reads_numbers(void **state) {
  (void)state;
  double v;
  assert_true(repl_number("12", &v) && v == 12);
  assert_true(repl_number("1.5k", &v) && v == 1500);
  assert_true(repl_number("2GB", &v) && v == 2e9);
  assert_true(repl_number("4KiB", &v) && v == 4096);
  assert_true(repl_number("1e6", &v) && v == 1e6);
  assert_false(repl_number("", &v));
  assert_false(repl_number("abc", &v));
  assert_false(repl_number("12x", &v));
}

static void knows_open_text(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool more;
  } cases[] = {{"print", false},
               {"x = add(a,", true},
               {"x = add(a, b)", false},
               {"HloModule m", true},
               {"HloModule m\nENTRY e {\n", true},
               {"HloModule m\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}", false},
               {"x = constant({1, \"}\"", true},
               {"", false},
               {"find (", false}};
  for (size_t k = 0; k < HS_COUNT(cases); k++)
    assert_int_equal(repl_wants_more(cases[k].text, strlen(cases[k].text)), cases[k].more);
}

// ---- expressions --------------------------------------------------------------------------------
static bool lookup(void *arg, const char *name, const char *call, repl_value *out) {
  (void)arg;
  *out = (repl_value){0};
  if (call) {
    out->number = (double)strlen(call);
    return strcmp(name, "len") == 0;
  }
  if (strcmp(name, "x") == 0) out->number = 5;
  else if (strcmp(name, "name") == 0) out->text = "dot.12";
  else return false;
  return true;
}

static void evaluates(void **state) {
  (void)state;
  static const char *const names[] = {"x", "name"};
  const repl_scope scope = {.lookup = lookup, .names = names, .nnames = 2};
  static const struct {
    const char *text;
    double value;
  } ok[] = {{"x", 5},
            {"x + 2 * 3", 11},
            {"(x + 2) * 3", 21},
            {"x < 5 or x >= 5", 1},
            {"not x == 5", 0},
            {"name == \"dot.12\"", 1},
            {"name ~ 'DOT'", 1},
            {"name ~ \"dot.*2\"", 1},
            {"len(\"abc\") == 3", 1},
            {"-x + 1k", 995},
            {"x>1 and x<10 && !(x=3)", 1},
            {"1 - 1 - 1", -1},
            {"!x", 0}};
  for (size_t k = 0; k < HS_COUNT(ok); k++) {
    repl_value v;
    hs_status s = repl_eval(ok[k].text, &scope, &v);
    assert_true(good(s));
    assert_true(v.number == ok[k].value);
  }
  static const char *const bad[] = {"",         "x +",      "(x",     "y",   "x x",
                                    "name < 3", "name + 1", "\"open", "12q", "x ~ 3",
                                    "nolen(3)", "@",        "x === 3"};
  for (size_t k = 0; k < HS_COUNT(bad); k++) {
    repl_value v;
    assert_true(fails_with(repl_eval(bad[k], &scope, &v), HS_E_USAGE));
  }
  char deep[4000];
  memset(deep, '(', sizeof deep - 1);
  deep[sizeof deep - 1] = 0;
  repl_value v;
  assert_true(fails_with(repl_eval(deep, &scope, &v), HS_E_USAGE));
}

// ---- differences --------------------------------------------------------------------------------
// Applies the hunks to `a` and returns the result.
static char *patch(const char *a, const char *hunks) {
  hs_buf out = {0};
  const char *p = a;
  u32 line = 1;
  for (const char *h = hunks; *h;) {
    unsigned from = 0, n = 0;
    assert_int_equal(sscanf(h, "@@ -%u,%u", &from, &n), 2);
    h += strcspn(h, "\n") + 1;
    u32 until = n ? from : from + 1;
    for (; line < until; line++) {
      size_t k = strcspn(p, "\n") + 1;
      hs_buf_put(&out, p, k);
      p += k;
    }
    while (*h && *h != '@') {
      size_t k = strcspn(h, "\n") + 1;
      if (*h != '-') hs_buf_put(&out, h + 1, k - 1);
      if (*h != '+') {
        assert_memory_equal(p, h + 1, k - 1);
        p += strcspn(p, "\n") + 1;
        line++;
      }
      h += k;
    }
  }
  hs_buf_puts(&out, p);
  char *text = hs_strdup(hs_buf_cstr(&out));
  hs_buf_free(&out);
  return text;
}

static void diffs_reproduce(void **state) {
  (void)state;
  unsigned seed = 7;
  for (int round = 0; round < 300; round++) {
    hs_buf a = {0}, b = {0}, d = {0};
    int n = rand_r(&seed) % 60;
    for (int k = 0; k < n; k++) {
      int word = rand_r(&seed) % 25, edit = rand_r(&seed) % 8;
      hs_buf_printf(&a, "line %d\n", word);
      if (edit != 0) hs_buf_printf(&b, "line %d\n", edit == 1 ? word + 100 : word);
      if (edit == 2) hs_buf_printf(&b, "new %d\n", k);
    }
    repl_diff_stat stat;
    repl_diff(hs_buf_cstr(&a), a.n, hs_buf_cstr(&b), b.n, (u32)(round % 4), false, &d, &stat);
    char *got = patch(hs_buf_cstr(&a), hs_buf_cstr(&d));
    assert_string_equal(got, hs_buf_cstr(&b));
    hs_free(got);
    hs_buf_free(&a);
    hs_buf_free(&b);
    hs_buf_free(&d);
  }
}

// ---- versions -----------------------------------------------------------------------------------
static char *text_of(const hlo_module *m) {
  hlo_print_options o = hlo_print_default();
  hs_buf b = {0};
  hlo_print_module(&b, m, &o);
  char *t = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return t;
}

static void versions_come_back(void **state) {
  (void)state;
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  hlo_module *m;
  const char *text =
      "HloModule v\nENTRY e {\n  a = f32[4] parameter(0)\n  ROOT b = f32[4] negate(a)\n}\n";
  assert_true(good(hlo_parse(s->ctx, text, strlen(text), NULL, &m)));
  repl_module *mod = repl_session_add(s, m, NULL);
  char *want[200];
  want[0] = text_of(m);
  unsigned seed = 3;
  for (u32 k = 1; k < 200; k++) {
    // From a random version, one edit; every version must be what it was when it was made.
    repl_goto(mod, mod->versions.v[(u32)rand_r(&seed) % k]);
    hlo_instr *root = m->entry->root;
    hlo_instr *ops[1] = {root};
    hlo_instr *i = hlo_add(m->entry, HLO_ABS, root->shape, 1, ops, NULL);
    hlo_set_root(m->entry, i);
    assert_non_null(repl_commit(mod, "edit"));
    want[k] = text_of(m);
  }
  for (int round = 0; round < 500; round++) {
    u32 k = (u32)rand_r(&seed) % 200;
    repl_goto(mod, mod->versions.v[k]);
    char *now = text_of(m);
    assert_string_equal(now, want[k]);
    hs_free(now);
  }
  repl_version *here = mod->at;
  hlo_module *old = repl_module_at(mod, mod->versions.v[0]);
  char *first = text_of(old);
  assert_string_equal(first, want[0]);
  assert_ptr_equal(mod->at, here);
  hs_free(first);
  hlo_module_free(old);
  for (u32 k = 0; k < 200; k++) hs_free(want[k]);
  repl_session_free(s);
}

// ---- the table ----------------------------------------------------------------------------------
static void table_is_sound(void **state) {
  (void)state;
  for (u32 k = 0; k < repl_command_count; k++) {
    const repl_command *c = &repl_commands[k];
    assert_non_null(c->fn);
    assert_true(strlen(c->summary) > 5);
    for (u32 j = 0; j < k; j++) assert_string_not_equal(c->name, repl_commands[j].name);
    if (c->needs & REPL_HIDDEN) continue;
    if (hlo_op_find(hs_str_of(c->name)) != HLO_OP_INVALID)
      fail_msg("the command %s is named like an opcode", c->name);
    if (!*c->example && strcmp(c->family, "shell") != 0)
      fail_msg("the command %s has no example", c->name);
  }
}

// docs/commands.md is what the table says.
static void manual_is_current(void **state) {
  (void)state;
  hs_buf want = {0}, have = {0};
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  cmd_write_markdown(s, &want);
  repl_session_free(s);
  assert_true(good(repl_read_file("docs/commands.md", 0, &have)));
  if (want.n != have.n || memcmp(want.p, have.p, want.n) != 0)
    fail_msg("docs/commands.md is stale: build/hlosh -c 'help --markdown' > docs/commands.md");
  hs_buf_free(&want);
  hs_buf_free(&have);
}

// Runs commands with standard output and error out of the way.
static int quietly(repl_session *s, const char *line) {
  fflush(NULL);
  int out = dup(1), err = dup(2), null = open("/dev/null", O_WRONLY);
  dup2(null, 1);
  dup2(null, 2);
  int code = repl_run_line(s, line, strlen(line));
  fflush(NULL);
  dup2(out, 1);
  dup2(err, 2);
  close(out);
  close(err);
  close(null);
  return code;
}

static void examples_run(void **state) {
  (void)state;
  char dir[] = "/tmp/hlosh-unit.XXXXXX", here[PATH_MAX], link[PATH_MAX + 16];
  assert_non_null(mkdtemp(dir));
  assert_non_null(getcwd(here, sizeof here));
  snprintf(link, sizeof link, "%s/tests", here);
  // Commands about XLA get the plug-in of the tests.
  const char *build = getenv("HLOSH_BUILD");
  char *plugin = build ? hs_format("fake:%s/tests/libfake_pjrt.so", build)
                       : hs_format("fake:%s/build/tests/libfake_pjrt.so", here);
  assert_int_equal(setenv("PJRT_NAMES_AND_LIBRARY_PATHS", plugin, 1), 0);
  hs_free(plugin);
  assert_int_equal(chdir(dir), 0);
  assert_int_equal(symlink(link, "tests"), 0);
  for (u32 k = 0; k < repl_command_count; k++) {
    const repl_command *c = &repl_commands[k];
    // assert fails by intent; calibrate takes a minute and has a test of its own
    if (!*c->example || strcmp(c->name, "assert") == 0 || strcmp(c->name, "calibrate") == 0)
      continue;
    repl_session *s = repl_session_new(repl_commands, repl_command_count);
    assert_int_equal(quietly(s, "example mlp"), 0);
    int code = quietly(s, c->example);
    // A backend or tool that is not in this build is a fair answer; anything else is not.
    if (code && code != hs_code_exit(HS_E_UNSUPPORTED))
      fail_msg("help %s: the example \"%s\" ends with %d", c->name, c->example, code);
    repl_session_free(s);
  }
  assert_int_equal(chdir(here), 0);
  char *rm = hs_format("rm -rf %s", dir);
  assert_int_equal(system(rm), 0);
  hs_free(rm);
}

// A program that is there already is compiled anew where its kernels are to have names for perf.
static void names_kernels_for_perf(void **state) {
  (void)state;
  if (!HAVE_LLVM) SKIP_TEST("no LLVM");
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  assert_int_equal(quietly(s, "backend cpu; example mlp; run"), 0);
  char *map = hs_format("/tmp/perf-%ld.map", (long)worker_pid(backend_context_worker(s->backends)));
  unlink(map);
  assert_int_equal(quietly(s, "set perf_map on; run"), 0);
  assert_int_equal(unlink(map), 0);
  hs_free(map);
  repl_session_free(s);
}

// Nothing typed may crash, and whatever it was, the module is as valid as before.
static void survives_nonsense(void **state) {
  (void)state;
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  assert_int_equal(quietly(s, "example mlp"), 0);
  unsigned seed = 11;
  static const char *const bits[] = {
      "dot.1", "main", "%", "-1", "999999999999", "--",  "-o", "|",        "'",    "\"", "a=b",
      "{",     "}",    "(", "@0", "1e308",        "nan", "/",  "\xff\xfe", "--n=", "*"};
  for (int round = 0; round < 3000; round++) {
    const repl_command *c = &repl_commands[(u32)rand_r(&seed) % repl_command_count];
    // Commands that leave this process or its folder, or take long, have tests of their own.
    static const char *const not_here[] = {
        "!",        "quit",  "exit",    "source",  "report",    "replay",  "save",
        "plot",     "load",  "time",    "check",   "run",       "compile", "dump",
        "inputs",   "close", "speedup", "profile", "calibrate", "versus",  "roofline",
        "timeline", "trace", "flame",   "noise",   "explore"};
    bool skip = false;
    for (size_t k = 0; k < HS_COUNT(not_here); k++) skip |= strcmp(not_here[k], c->name) == 0;
    if (skip) continue;
    hs_buf line = {0};
    hs_buf_puts(&line, (c->needs & REPL_HIDDEN) ? "zz" : c->name);
    for (int k = rand_r(&seed) % 4; k > 0; k--) {
      const char *bit = bits[(u32)rand_r(&seed) % HS_COUNT(bits)];
      if (*bit == '|') continue;
      hs_buf_printf(&line, " %s", bit);
    }
    if (!strstr(hs_buf_cstr(&line), "-o")) quietly(s, hs_buf_cstr(&line));
    hs_buf_free(&line);
    s->quit = false;
    if (s->current && s->current->m->entry->root)
      assert_true(good(hlo_verify(s->current->m, NULL)));
  }
  repl_session_free(s);
}

static void completes(void **state) {
  (void)state;
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  assert_int_equal(quietly(s, "example mlp"), 0);
  static const struct {
    const char *line;
    const char *want;
  } cases[] = {{"hist", "history"},
               {"info do", "dot.1"},
               {"info %do", "%dot.1"},
               {"pass dc", "dce"},
               {"help pa", "pass"},
               {"help pass lay", "layout-assignment"},
               {"print --sh", "--short"},
               {"pipeline tu", "tuned"},
               {"use m", "mlp"},
               {"pipeline sh", "show"},
               {"pipeline show tu", "tuned"},
               {"pipeline dce,al", "algsimp"},
               {"pipeline define x = dce,fix(al", "algsimp"},
               {"pass dce,al", "algsimp"},
               {"pass algsimp{layout", "algsimp{layout_sensitive="},
               {"next --pipeline=cp", "--pipeline=cpu"},
               {"until cha", "changed"},
               {"until changed rel", "relu"},
               {"until verify", "verify-fails"},
               {"break fus", "fusion"},
               {"break delete a", "all"},
               {"watch rel", "relu"},
               {"watch delete a", "all"},
               {"why relu not fu", "fused"},
               {"why relu not fused with do", "dot.1"},
               {"bisect his", "history"},
               {"bisect dce,al", "algsimp"},
               {"bisect passes tu", "tuned"},
               {"bisect tuned mis", "mismatch"},
               {"bisect --ba", "--backend="},
               {"time-passes cp", "cpu"},
               {"goto 0", "0"},
               {"diff 0 --si", "--side-by-side"},
               {"blame rel", "relu"},
               {"src rel", "relu"},
               {"help pass cs", "cse"},
               {"undo; hist", "history"},
               {"backend int", "interp"},
               {"example soft", "softmax"},
               {"set thr", "threads"},
               {"set denormals ", "on"},
               {"set cache of", "off"},
               {"set vintage cur", "current"},
               {"cache ", "clear"},
               {"customcall un", "unload"},
               {"print ro", "root"},
               {"run --elided=z", "--elided=zeros"},
               {"memory pe", "peak"},
               {"memory xla tests/un", "tests/unit/"},
               {"print > tests/un", "tests/unit/"},
               {"plot -o tests/un", "tests/unit/"},
               {"stats >tests/un", "tests/unit/"},
               {"fit 1GB x", "x.1"},
               {"resize w1.", "w1.0="},
               {"speedup --sweep=x.", "--sweep=x.0="},
               {"rel", "relu"}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hs_arena a = {0};
    size_t end = strlen(cases[k].line), start = end;
    while (start && !strchr(" ,(>", cases[k].line[start - 1])) start--;
    u32 n;
    const char **v = repl_complete(s, &a, cases[k].line, start, end, &n);
    bool found = false;
    for (u32 j = 0; j < n; j++) found |= strcmp(v[j], cases[k].want) == 0;
    if (!found) fail_msg("Tab after \"%s\" does not offer %s", cases[k].line, cases[k].want);
    hs_arena_free(&a);
  }
  repl_session_free(s);
}

// Where only a loop or a computation makes sense, nothing else is offered.
static void completes_loops_and_computations(void **state) {
  (void)state;
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  assert_int_equal(quietly(s, "example loop"), 0);
  u32 loops = 0, comps = 0, n;
  hlo_for_each_comp(c, s->current->m) {
    comps++;
    hlo_for_each_instr(i, c) loops += i->opcode == HLO_WHILE;
  }
  hs_arena a = {0};
  (void)repl_complete(s, &a, "trips ", 6, 6, &n);
  assert_int_equal(n, loops);
  (void)repl_complete(s, &a, "plot --computation=", 5, 19, &n);
  assert_int_equal(n, comps);
  hs_arena_free(&a);
  repl_session_free(s);
}

// A file's name with a blank is one word: by a backslash, or within quotes.
static void completes_files(void **state) {
  (void)state;
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  char dir[] = "/tmp/hlosh-XXXXXX";
  assert_non_null(mkdtemp(dir));
  char *inner = hs_format("%s/two words", dir);
  assert_int_equal(mkdir(inner, 0700), 0);
  static const struct {
    const char *before, *typed, *want;
  } cases[] = {{"load ", "two", "two\\ words/"},
               {"load ", "two\\ w", "two\\ words/"},
               {"load \"", "two w", "two words/"},
               {"load '", "two", "two words/"}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hs_arena a = {0};
    u32 n;
    char *line = hs_format("%s%s/%s", cases[k].before, dir, cases[k].typed);
    const char **v = repl_complete(s, &a, line, strlen(cases[k].before), strlen(line), &n);
    assert_int_equal(n, 1);
    assert_string_equal(v[0] + sizeof dir, cases[k].want);
    hs_free(line);
    hs_arena_free(&a);
  }
  assert_int_equal(rmdir(inner), 0);
  assert_int_equal(rmdir(dir), 0);
  hs_free(inner);
  repl_session_free(s);
}

// ---- bisect -------------------------------------------------------------------------------------
// A wrong pass: of all additions, the third becomes a subtraction; the others are turned around,
// which is right.
static hs_status wrong_pass(pass_ctx *c) {
  u32 n = 0, old = c->m->next_instr_id;
  hlo_for_each_comp(k, c->m)
    hlo_for_each_instr_safe(i, k) {
      if (i->opcode != HLO_ADD || i->id >= old) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      hlo_instr *turned[] = {hlo_operand(i, 1), hlo_operand(i, 0)};
      hlo_replace(i, hlo_add(k, ++n == 3 ? HLO_SUBTRACT : HLO_ADD, i->shape, 2, turned, "turned"));
    }
  return HS_GOOD;
}

static void bisect_finds_the_planted_rewrite(void **state) {
  (void)state;
  static const pass_info wrong = {.name = "planted",
                                  .summary = "turns additions around, one of them wrongly",
                                  .run = wrong_pass};
  const pass_registry planted = {
      .passes = (const pass_info *const[]){&wrong}, .npasses = 1, .next = &pass_builtin};
  static const char module[] =
      "HloModule m\nENTRY e {\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n"
      " dead = f32[8] negate(x)\n a = f32[8] add(x, y)\n"
      " b = f32[8] add(a, y)\n c = f32[8] add(b, x)\n d = f32[8] add(c, c)\n"
      " ROOT r = f32[8] add(d, a)\n}\n";
  char path[] = "/tmp/hlosh-unit-XXXXXX", line[200];
  int fd = mkstemp(path);
  assert_true(fd >= 0 && write(fd, module, sizeof module - 1) == (ssize_t)sizeof module - 1);
  close(fd);
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  s->passes = &planted;
  snprintf(line, sizeof line, "load %s", path);
  assert_int_equal(repl_run_line(s, line, strlen(line)), 0);
  hlo_module *m = s->current->m;
  u64 before = hlo_text_hash(m);
  // What it says, as JSON: the second run of the pipeline, and the third of five rewrites.
  s->json = true;
  snprintf(line, sizeof line, "bisect dce,planted,cse > %s", path);
  assert_int_equal(repl_run_line(s, line, strlen(line)), 6);
  s->json = false;
  hs_buf said = {0};
  assert_true(good(repl_read_file(path, 0, &said)));
  assert_non_null(strstr(hs_buf_cstr(&said), "\"pass\":\"planted\",\"position\":2,"));
  assert_non_null(strstr(hs_buf_cstr(&said), "\"rewrite\":3,\"rewrites\":5"));
  hs_buf_free(&said);
  assert_int_equal(hlo_text_hash(m), before);
  // The accusation is right when two rewrites are still good and three are not.
  static const char right[] = "pass planted --limit=2 --quiet; check",
                    other[] = "undo; pass planted --limit=3 --quiet; check";
  assert_int_equal(repl_run_line(s, right, strlen(right)), 0);
  assert_int_equal(repl_run_line(s, other, strlen(other)), 6);
  repl_session_free(s);
  unlink(path);
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(splits_lines),       cmocka_unit_test(parses_arguments),
      cmocka_unit_test(reads_numbers),      cmocka_unit_test(knows_open_text),
      cmocka_unit_test(evaluates),          cmocka_unit_test(diffs_reproduce),
      cmocka_unit_test(versions_come_back), cmocka_unit_test(table_is_sound),
      cmocka_unit_test(manual_is_current),  cmocka_unit_test(completes),
      cmocka_unit_test(completes_files),    cmocka_unit_test(completes_loops_and_computations),
      cmocka_unit_test(survives_nonsense),  cmocka_unit_test(bisect_finds_the_planted_rewrite),
      cmocka_unit_test(examples_run),       cmocka_unit_test(names_kernels_for_perf),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
