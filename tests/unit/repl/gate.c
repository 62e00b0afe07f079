// gate.c — the gate (repl/shell/gate.h): every command of the table is run on a module that reads
// but that the verifier refuses. It works there or is refused by the gate, as its row says; none
// reaches code that takes HLO's rules for granted, which in this build asserts them.
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/worker.h"
#include "repl/registry.h"
#include "repl/shell/gate.h"

static char here[PATH_MAX], dir[] = "/tmp/hlosh-unit.XXXXXX";

static int enter(void **state) {
  (void)state;
  char link[PATH_MAX + 16];
  if (!mkdtemp(dir) || !getcwd(here, sizeof here)) return -1;
  snprintf(link, sizeof link, "%s/tests", here);
  const char *build = getenv("HLOSH_BUILD");
  char *plugin = build ? hs_format("fake:%s/tests/libfake_pjrt.so", build)
                       : hs_format("fake:%s/build/tests/libfake_pjrt.so", here);
  int rc = setenv("PJRT_NAMES_AND_LIBRARY_PATHS", plugin, 1);
  hs_free(plugin);
  return rc || chdir(dir) || symlink(link, "tests");
}
static int leave(void **state) {
  (void)state;
  char *rm = hs_format("rm -rf %s", dir);
  int rc = chdir(here) || system(rm);
  hs_free(rm);
  return rc;
}

// Runs a line with standard output and error sent away.
static int quietly(repl_session *s, const char *line) {
  fflush(NULL);
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC), out = dup(1), err = dup(2);
  dup2(null, 1), dup2(null, 2);
  int code = repl_run_line(s, line, strlen(line));
  fflush(NULL);
  dup2(out, 1), dup2(err, 2);
  close(null), close(out), close(err);
  return code;
}

static const char *mlp(void) {
  for (u32 k = 0; k < repl_example_count; k++)
    if (strcmp(repl_examples[k].name, "mlp") == 0) return repl_examples[k].text;
  return NULL;
}

// The example that the rows' examples are about, with the bias along the wrong dimension.
static void write_bad(void) {
  char *text = hs_strdup(mlp()), *at = strstr(text, "), dimensions={1}");
  assert_non_null(at);
  at[strlen("), dimensions={")] = '0';
  FILE *f = fopen("bad.hlo", "we");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
  hs_free(text);
}

static repl_session *session_with_bad(const char *load) {
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  write_bad();
  assert_int_equal(quietly(s, load), 0);
  assert_false(repl_is_verified(s->current));
  assert_int_equal(s->current->at->verdict, REPL_INVALID);
  return s;
}

static void every_command(void **state) {
  (void)state;
  u32 refused = 0, worked = 0;
  for (u32 k = 0; k < repl_command_count; k++) {
    const repl_command *c = &repl_commands[k];
    if (!*c->example || strcmp(c->name, "calibrate") == 0) continue;  // takes half a minute
    repl_session *s = session_with_bad("load bad.hlo");
    bool gated = (c->needs & REPL_NEEDS_MODULE) && !(c->needs & REPL_ANY_MODULE);
    // An example of several commands may be refused in one of the others.
    bool alone = !strchr(c->example, ';');
    int code = quietly(s, c->example);
    if (gated && code != hs_code_exit(HS_E_VERIFY))
      fail_msg("%s: \"%s\" ends with %d on an unverified module", c->name, c->example, code);
    // The examples of these two ask for a value and for a cost: other_forms has what works.
    bool asks = strcmp(c->name, "print") == 0 || strcmp(c->name, "find") == 0;
    if (c->needs & REPL_ANY_MODULE && alone && code && code != 2 && !asks &&
        strcmp(c->name, "verify") != 0)
      fail_msg("%s: \"%s\" ends with %d on an unverified module", c->name, c->example, code);
    if (code && code != 2 && code != hs_code_exit(HS_E_VERIFY) &&
        code != hs_code_exit(HS_E_UNSUPPORTED))
      fail_msg("%s: \"%s\" ends with %d", c->name, c->example, code);
    refused += code == hs_code_exit(HS_E_VERIFY);
    worked += !code;
    repl_session_free(s);
  }
  assert_true(refused > 20 && worked > 40);
}

// The forms of commands that need a module in some of their forms only.
static void other_forms(void **state) {
  (void)state;
  static const char *const gated[] = {"support",
                                      "check",
                                      "check cpu interp",
                                      "check interp interp",
                                      "pipeline cpu",
                                      "break dce",
                                      "diff 0 0 --kernels",
                                      "find dot where flops > 0",
                                      "find where us > 1",
                                      "find order by traffic desc",
                                      "backend interp; run",
                                      "versus 0 0",
                                      "isolate dot.1",
                                      "assert instructions > 0"};
  static const char *const open[] = {"print",
                                     "print dot.1",
                                     "print --fingerprint",
                                     "list computations",
                                     "info main",
                                     "find dot where rank > 1",
                                     "diff 0 0 --text",
                                     "plot dot.1 1 -o x.dot",
                                     "plot -o x.html",
                                     "%dot.1 2",
                                     "save x.pb",
                                     "save x.pbtxt",
                                     "extract dot.2",
                                     "pipeline show cpu",
                                     "src",
                                     "explain E0202"};
  for (size_t k = 0; k < HS_COUNT(gated) + HS_COUNT(open); k++) {
    bool is_open = k >= HS_COUNT(gated);
    const char *line = is_open ? open[k - HS_COUNT(gated)] : gated[k];
    repl_session *s = session_with_bad("load bad.hlo");
    int code = quietly(s, line);
    if (code != (is_open ? 0 : hs_code_exit(HS_E_VERIFY))) fail_msg("%s ends with %d", line, code);
    repl_session_free(s);
  }
}

// The verdict belongs to the version: an edit mends the module, undo brings the fault back.
static void by_version(void **state) {
  (void)state;
  repl_session *s = session_with_bad("load bad.hlo");
  assert_int_equal(quietly(s, "pass dce"), 3);
  assert_int_equal(quietly(s, "edit --with=\"sed -i '/b1)/s/dimensions={0}/dimensions={1}/'\""), 0);
  assert_true(repl_is_verified(s->current));
  assert_int_equal(quietly(s, "pass dce; cost"), 0);
  assert_int_equal(s->current->at->verdict, REPL_VALID);
  // the version before the passes stands for the module as loaded, which is not valid
  assert_int_equal(repl_base(s->current)->number, 1);
  assert_int_equal(quietly(s, "estimate"), 0);
  assert_int_equal(quietly(s, "versus 0 2"), 3);
  assert_int_equal(quietly(s, "goto 0; cost"), 3);
  assert_int_equal(quietly(s, "redo; cost"), 0);
  assert_int_equal(quietly(s, "edit --with=\"sed -i '/b1)/s/dimensions={1}/dimensions={0}/'\""), 0);
  assert_false(repl_is_verified(s->current));
  assert_int_equal(quietly(s, "cost"), 3);
  repl_session_free(s);
}

// What the verifier refuses goes to a plug-in's worker at most, and only when asked for.
static void unchecked(void **state) {
  (void)state;
  repl_session *s = session_with_bad("load bad.hlo --unchecked");
  static const char *const here_too[] = {"cost",   "pass dce", "backend interp; run",
                                         "memory", "estimate", "check interp interp"};
  for (size_t k = 0; k < HS_COUNT(here_too); k++)
    if (quietly(s, here_too[k]) != 3) fail_msg("%s is not refused", here_too[k]);
  repl_session_free(s);
}

// Copies are known to be what the original is; an edit ends what is known.
static void known_invalid(void **state) {
  (void)state;
  repl_session *s = session_with_bad("load bad.hlo");
  hlo_module *copy = hlo_module_clone(s->current->m, "copy");
  assert_true(hlo_known_invalid(s->current->m) && hlo_known_invalid(copy));
  hlo_set_name(copy->entry->root, "result");
  assert_false(hlo_known_invalid(copy));
  hlo_module_free(copy);
  repl_session_free(s);
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_command), cmocka_unit_test(other_forms),
      cmocka_unit_test(by_version),    cmocka_unit_test(unchecked),
      cmocka_unit_test(known_invalid),
  };
  return cmocka_run_group_tests(tests, enter, leave);
}
