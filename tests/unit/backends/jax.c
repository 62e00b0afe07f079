// jax.c — the backend `jax` with a Python that is none: this program, which answers as the child
// should, or does what a child must not do. Everything that a child can do ends in a status that
// names it. And which Pythons are found. Real jaxlib: tests/peers/jax.hlosh.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/jax/jax.h"
#include "backends/worker_wire.h"
#include "core/eval/inputs.h"
#include "tests/unit/modules.h"

static const char add_one[] =
    "HloModule add_one, input_output_alias={ {}: (0, {}, may-alias) }\n"
    "ENTRY e { p = f32[4] parameter(0) c = f32[] constant(1) b = f32[4] broadcast(c), "
    "dimensions={} ROOT r = f32[4] add(p, b) }\n";

// ---- the child ----------------------------------------------------------------------------------
// What it does instead of answering, by the step at which it does so.
typedef struct misdeed {
  const char *name, *step;
  hs_code code;
  const char *told;  // part of the message or note
} misdeed;
static const misdeed misdeeds[] = {
    {"ends", "ping", HS_E_WORKER, "the Python of jaxlib ended with status 7 while starting"},
    {"complains", "ping", HS_E_WORKER, "it last wrote: no module named encodings"},
    {"magic", "ping", HS_E_WORKER, "the Python of jaxlib sent a bad reply while starting"},
    {"dies", "open", HS_E_WORKER, "the Python of jaxlib died of SIGKILL (Killed) while importing"},
    {"empty", "open", HS_E_WORKER, "the answer to importing jaxlib is cut short"},
    {"refuses", "open", HS_E_NOT_BUILT, "cannot import jaxlib"},
    {"length", "compile", HS_E_WORKER, "sent a bad reply while compiling"},
    {"texts", "compile", HS_E_WORKER, "sent a bad reply while compiling"},
    {"code", "compile", HS_E_INTERNAL, "cannot import jaxlib"},
    {"empty", "compile", HS_E_WORKER, "cut short"},
    {"counts", "compile", HS_E_WORKER, "cut short"},
    {"refuses", "compile", HS_E_COMPILE, "cannot import jaxlib"},
    {"hangs", "compile", HS_E_DEADLINE, "while compiling; the Python of jaxlib was ended"},
    {"dies", "run", HS_E_WORKER, "the Python of jaxlib died of SIGKILL (Killed) while running"},
    {"empty", "run", HS_E_WORKER, "damaged"},
    {"counts", "run", HS_E_WORKER, "damaged"},
    {"hangs", "run", HS_E_DEADLINE, "while running; the Python of jaxlib was ended"},
    {"ends", "run", HS_E_WORKER, "ended with status 7 while running"},
};

static u32 number(char **argv, const char *key) {
  size_t n = strlen(key);
  for (; *argv; argv++)
    if (!strncmp(*argv, key, n) && (*argv)[n] == '=') return (u32)strtoul(*argv + n + 1, NULL, 10);
  _exit(99);
}

static bool receive(int sock, void *p, size_t n, int *fds) {
  for (char *at = p; n;) {
    char control[CMSG_SPACE(sizeof(int) * WORKER_MAX_FDS)] __attribute__((aligned(16)));
    struct iovec io = {.iov_base = at, .iov_len = n};
    struct msghdr msg = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t k = recvmsg(sock, &msg, 0);
    if (k <= 0) return false;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h; h = CMSG_NXTHDR(&msg, h))
      memcpy(fds, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0));
    at += k;
    n -= (size_t)k;
  }
  return true;
}

static void answer(int sock, worker_frame f, const hs_buf *body) {
  if (send(sock, &f, sizeof f, 0) != sizeof f) _exit(98);
  if (body->n && send(sock, body->p, body->n, 0) != (ssize_t)body->n) _exit(98);
}

static void misbehave(const char *how, int sock, u32 magic, u32 refusal, hs_buf *body) {
  worker_frame f = {.magic = magic};
  static const char text[] = "cannot import jaxlib";
  if (!strcmp(how, "ends")) _exit(7);
  if (!strcmp(how, "dies")) raise(SIGKILL);
  if (!strcmp(how, "hangs")) pause();
  if (!strcmp(how, "complains")) {
    fprintf(stderr, "no module named encodings\n");
    _exit(1);
  }
  body->n = 0;
  if (!strcmp(how, "magic")) f.magic = 0x20646e41;
  if (!strcmp(how, "length")) f.bytes = (u64)1 << 62;
  if (!strcmp(how, "texts")) f.kind = refusal, f.text[0] = UINT32_MAX, f.text[1] = 5;
  if (!strcmp(how, "counts")) {  // every number in it is -1: counts, lengths and times
    for (int k = 0; k < 64; k++) wire_put_i64(body, -1);
    f.bytes = body->n;
  }
  if (!strcmp(how, "refuses") || !strcmp(how, "code")) {
    f.kind = *how == 'c' ? 100000 : refusal;
    hs_buf_puts(body, text);
    f.bytes = body->n;
    f.text[0] = (u32)body->n;
  }
  answer(sock, f, body);
  while (recv(sock, &f, 1, 0) > 0) {}
  _exit(0);
}

// As child.py answers: one argument and one result of four floats, the argument donated.
static void compile_reply(hs_buf *b, wire_reader *q) {
  enum { IDS = 2 };
  i64 head[IDS], dims[3];
  wire_get(q, head, sizeof head);
  hs_str options = wire_get_bytes(q), target = wire_get_bytes(q);
  u32 devices = wire_get_u32(q), client = wire_get_u32(q);
  bool good = options.n && !target.n && devices == 1 && client == 1;
  for (int v = 0; v < 2; v++) {
    u32 n = wire_get_u32(q), type = wire_get_u32(q), rank = wire_get_u32(q);
    wire_get(q, dims, sizeof dims);  // bytes, dimension, layout
    good &= n == 1 && type == 11 && rank == 1 && dims[0] == 16 && dims[1] == 4 && dims[2] == 0;
  }
  bool donated = false;
  wire_get(q, &donated, 1);
  good &= donated && wire_get_u32(q) == 0 && !q->bad && !q->n;
  if (!good) _exit(97);
  wire_put_f64(b, 5);
  wire_put_f64(b, 4);
  wire_put_i64(b, 1 << 20);
  wire_put_i64(b, 4);  // dimensions of the result
  wire_put_u32(b, 1);  // memory
  for (i64 k = 0; k < 6; k++) wire_put_i64(b, 16 * k);
  wire_put_u32(b, 1);
  wire_put_str(b, "flops");
  wire_put_f64(b, 4);
  for (int k = 0; k < 2; k++) wire_put_str(b, "");  // fingerprint, refused
  wire_put_u32(b, 0);                               // machine code
  for (int k = 0; k < 2; k++) wire_put_str(b, "");  // optimized module
}

static void run_reply(hs_buf *b, wire_reader *q, const int *fds) {
  wire_get_i64(q);
  backend_run_options o = block_get_options(q);
  i64 offset = wire_get_i64(q);
  if (q->bad || q->n) _exit(96);
  const float *in = mmap(NULL, 64, PROT_READ, MAP_SHARED, fds[0], 0);
  float *out = o.max_runs <= 1 ? mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0) : 0;
  for (int k = 0; k < 4 && out; k++) out[k] = in[offset / 4 + k] + 1;
  wire_put_f64(b, 3);
  wire_put_f64(b, 2);
  wire_put_f64(b, 0.001);
  for (int k = 0; k < 2; k++) wire_put_f64(b, 0);  // energy, its time
  for (int k = 0; k < 2; k++) wire_put_u32(b, 0);  // its runs, the clock
  wire_put_str(b, "");                             // what slowed it
  wire_put_u32(b, 2);
  // slower where the allocator is tuned
  for (int k = 0; k < 2; k++) wire_put_f64(b, getenv("GLIBC_TUNABLES") ? 9 : 1);
  wire_put_u32(b, 0);
}

static int child(char **argv) {
  const char *how = getenv("HLOSH_TEST_CHILD"), *at = how ? strchr(how, ' ') : NULL;
  int sock = (int)number(argv, "fd"), fds[WORKER_MAX_FDS];
  u32 magic = number(argv, "magic");
  static const char *const steps[] = {"ping", "open", "compile", "run", "release"};
  worker_frame f;
  while (receive(sock, &f, sizeof f, fds)) {
    char *request = hs_alloc(f.bytes + 1);
    if (f.magic != magic || !receive(sock, request, f.bytes, fds)) _exit(95);
    wire_reader q = {request, f.bytes, false};
    hs_buf body = {0};
    const char *step = "";
    for (size_t k = 0; k < HS_COUNT(steps); k++)
      if (number(argv, steps[k]) == f.kind) step = steps[k];
    if (at && !strcmp(at + 1, step)) {
      char *word = hs_format("%.*s", (int)(at - how), how);
      misbehave(word, sock, magic, number(argv, *step == 'o' ? "E_NOT_BUILT" : "E_COMPILE"), &body);
    }
    if (*step == 'o') {
      for (int k = 0; k < 3; k++) wire_put_u32(&body, 0);
      wire_put_str(&body, "1.2.3");
      wire_put_str(&body, "0.9.0");
      wire_put_str(&body, "jaxlib=9.8.7 jax=9.8.6 platform=abacus device=bead");
      wire_put_str(&body, "");
    } else if (*step == 'c') compile_reply(&body, &q);
    else if (!strcmp(step, "run")) run_reply(&body, &q, fds);
    answer(sock, (worker_frame){.magic = magic, .bytes = body.n}, &body);
    hs_buf_free(&body);
    hs_free(request);
  }
  return 0;
}

// ---- the tests ----------------------------------------------------------------------------------
static char self[4096];

static hs_status use(const char *how, backend_malloc m, const backend_run_options *o,
                     backend_result *out, const char **setting) {
  if (how) setenv("HLOSH_TEST_CHILD", how, 1);
  else unsetenv("HLOSH_TEST_CHILD");
  backend_context *c = backend_context_new();
  hlo_module *mod = parse(add_one);
  hlo_literal **args;
  u32 nargs;
  expect_good(hlo_inputs_random(ctx, mod, 1, &args, &nargs), "inputs");
  for (int k = 0; k < 4; k++) ((float *)args[0]->data)[k] = (float)k;
  backend_exe *e = NULL;
  *out = (backend_result){0};
  const backend_options bo = {.context = c, .python = self, .malloc = m, .deadline_s = 0.5};
  const backend *be = backend_find("jax");
  hs_status s = be->compile(mod, &bo, &e);
  if (hs_ok(s)) {
    assert_int_equal(be->compiled(e)->temp_bytes, 64);
    assert_string_equal(pjrt_compiled_result(e)->cost[0].name, "flops");
    s = be->run(e, nargs, args, o, out);
    if (setting) *setting = pjrt_compiled_child(e) ? pjrt_compiled_child(e)->setting : "undecided";
    be->release(e);
  }
  hlo_inputs_free(args, nargs);
  hlo_module_free(mod);
  backend_context_free(c);
  return s;
}

static void child_answers(void **st) {
  (void)st;
  backend_result r;
  const char *setting;
  expect_good(use(NULL, BACKEND_MALLOC_BEST, NULL, &r, &setting), "run");
  for (int k = 0; k < 4; k++) assert_true(hlo_literal_f64(r.outputs, k) == k + 1);
  assert_true(r.timing.runs == 2 && r.timing.samples_ms[1] == 1 && r.timing.first_ms == 3);
  assert_true(r.timing.transfer_ms == 2 && r.timing.dispatch_ms == 0.001);
  assert_string_equal(setting, "undecided");
  backend_result_free(&r);
}

static void faster_allocator_stays(void **st) {
  (void)st;
  const backend_run_options many = {.min_runs = 2, .max_runs = 2};
  const char *setting;
  backend_result r;
  unsetenv("GLIBC_TUNABLES");
  expect_good(use(NULL, BACKEND_MALLOC_BEST, &many, &r, &setting), "best");
  assert_string_equal(setting, "malloc default");
  assert_true(r.timing.samples_ms[0] == 1);
  backend_result_free(&r);
  expect_good(use(NULL, BACKEND_MALLOC_TUNED, &many, &r, &setting), "tuned");
  assert_string_equal(setting, "malloc tuned");
  assert_true(r.timing.samples_ms[0] == 9);
  backend_result_free(&r);
}

static void every_misdeed_is_an_error(void **st) {
  (void)st;
  for (size_t k = 0; k < HS_COUNT(misdeeds); k++) {
    const misdeed *d = &misdeeds[k];
    char *how = hs_format("%s %s", d->name, d->step);
    backend_result r;
    hs_status s = use(how, BACKEND_MALLOC_DEFAULT, NULL, &r, NULL);
    if (hs_ok(s)) fail_msg("%s: no error", how);
    hs_buf b = {0};
    hs_status_render(s, &b, false);
    if (s.err->code != d->code || !strstr(hs_buf_cstr(&b), d->told))
      fail_msg("%s: %s", how, hs_buf_cstr(&b));
    assert_null(r.outputs);
    hs_status_drop(s);
    hs_buf_free(&b);
    hs_free(how);
  }
}

static void what_it_says_of_itself(void **st) {
  (void)st;
  unsetenv("HLOSH_TEST_CHILD");
  backend_context *c = backend_context_new();
  const char *about;
  expect_good(jax_describe(c, self, BACKEND_MALLOC_BEST, 0, &about), "describe");
  assert_true(hs_str_eq(jax_about(about, "jaxlib"), HS_STR("9.8.7")));
  assert_true(hs_str_eq(jax_about(about, "jax"), HS_STR("9.8.6")));
  assert_true(hs_str_eq(jax_about(about, "device"), HS_STR("bead")));
  assert_int_equal(jax_about(about, "vice").n, 0);
  backend_context_free(c);
}

static void refuses_what_jaxlib_cannot(void **st) {
  (void)st;
  const backend_options o[] = {{.python = self, .backend_only = true},
                               {.python = self, .target = "gpu_device_info {}"}};
  hlo_module *m = parse(add_one);
  for (size_t k = 0; k < HS_COUNT(o); k++) {
    backend_exe *e;
    hs_status s = backend_find("jax")->compile(m, &o[k], &e);
    assert_true(!hs_ok(s) && s.err->code == HS_E_UNSUPPORTED && strstr(s.err->note, "pjrt"));
    assert_null(e);
    hs_status_drop(s);
  }
  hlo_module_free(m);
}

// ---- finding ------------------------------------------------------------------------------------
static char folder[] = "/tmp/hlosh-pythons-XXXXXX";

static void make(const char *name, bool file) {
  char *path = hs_format("%s/%s", folder, name);
  for (char *p = path + strlen(folder) + 1; *p; p++)
    if (*p == '/') *p = '\0', mkdir(path, 0755), *p = '/';
  if (file) fclose(fopen(path, "w")), chmod(path, 0755);
  else mkdir(path, 0755);
  hs_free(path);
}

static const jax_python *listed(const jax_pythons *v, const char *name) {
  char *path = hs_format("%s/%s/bin/python3", folder, name);
  const jax_python *found = NULL;
  for (size_t k = 0; k < v->n; k++)
    if (strcmp(v->v[k].path, path) == 0) found = &v->v[k];
  hs_free(path);
  return found;
}

static void pythons_are_found(void **st) {
  (void)st;
  assert_non_null(mkdtemp(folder));
  make("own/bin/python3", true);  // the user's choice: listed although no jaxlib is seen there
  make("venv/bin/python3", true);
  make("venv/lib/python3.11/site-packages/jaxlib-1.2.3.dist-info", false);
  make("venv/lib/python3.11/site-packages/jax/__init__.py", true);
  make("half/bin/python3", true);  // jaxlib without jax
  make("half/lib/python3.11/site-packages/jaxlib-1.2.4.dist-info", false);
  make("bare/bin/python3", true);
  char *own = hs_format("%s/own", folder), *venv = hs_format("%s/venv", folder),
       *path = hs_format("%s/half/bin:%s/bare/bin:%s/venv/bin", folder, folder, folder),
       *old_path = hs_strdup(getenv("PATH"));
  setenv("HLOSH_PYTHON", own, 1);
  setenv("VIRTUAL_ENV", venv, 1);
  setenv("PATH", path, 1);
  setenv("HOME", folder, 1);
  unsetenv("PYTHONPATH");
  jax_pythons v;
  jax_find_all(&v);
  assert_true(listed(&v, "own") == &v.v[0] && !v.v[0].jaxlib);
  assert_true(listed(&v, "venv") == &v.v[1] && strcmp(v.v[1].jaxlib, "1.2.3") == 0);
  assert_string_equal(v.v[1].from, "VIRTUAL_ENV");
  assert_true(!listed(&v, "half") && !listed(&v, "bare"));
  jax_pythons_free(&v);
  char *got;
  expect_good(jax_find(venv, &got), "an environment's folder");
  assert_true(strstr(got, "/venv/bin/python3") != NULL);
  hs_free(got);
  hs_status s = jax_find("/nowhere/python3", &got);
  assert_true(!hs_ok(s) && s.err->code == HS_E_IO && !got);
  hs_status_drop(s);
  setenv("PATH", old_path, 1);
  unsetenv("HLOSH_PYTHON");
  unsetenv("VIRTUAL_ENV");
  char *remove = hs_format("rm -r %s", folder);
  assert_int_equal(system(remove), 0);
  hs_free(remove);
  hs_free(old_path);
  hs_free(path);
  hs_free(venv);
  hs_free(own);
}

int main(int argc, char **argv) {
  int status;
  if (argc > 3 && !strcmp(argv[1], "-c")) return child(argv);
  if (worker_entry(argc, argv, &status)) return status;
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(child_answers),
                                     cmocka_unit_test(faster_allocator_stays),
                                     cmocka_unit_test(every_misdeed_is_an_error),
                                     cmocka_unit_test(what_it_says_of_itself),
                                     cmocka_unit_test(refuses_what_jaxlib_cannot),
                                     cmocka_unit_test(pythons_are_found)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
