// lapack.c — LU, QR, eigenvalues and singular values by cuSOLVER, through a library and a driver
// of our own: all types, tall, wide and square matrices by rows and by columns, alone and in
// batches, what may be asked for, and a library that refuses or fails. What is unique is compared
// with the evaluator's; of vectors whose signs are free, what they make together is.
#include "backends/gpu/library.h"
#include "tests/unit/gpu/library.h"

static const char *const types[] = {"f32", "f64", "c64", "c128"};
static const char *const reals[] = {"f32", "f64", "f32", "f64"};
static const char letters[] = "sdcz";

static outcome run_with(const char *text, const char *mode, backend_libraries libraries) {
  return run_with_library(text, "HLOSH_LIBCUSOLVER", mode ? plugin_fake_cusolver(mode) : NULL,
                          libraries);
}

static const char *cublas;  // a mode of cuBLAS; NULL: there is none

static void goes_there_by(char *text, const char *mode, const char *said) {
  if (cublas) setenv("HLOSH_LIBCUBLAS", plugin_fake_cublas(cublas), 1);
  outcome o = run_with(text, mode, BACKEND_LIBRARIES_AUTO);
  unsetenv("HLOSH_LIBCUBLAS");
  if (!hs_ok(o.s)) fprintf(stderr, "%s\n", text);
  explain(o.s);
  if (o.fallbacks || !strstr(hs_buf_cstr(&o.schedule), said))
    fail_msg("%s: no '%s' in\n%s", text, said, hs_buf_cstr(&o.schedule));
  outcome_free(&o);
  hs_free(text);
}

static void goes_there(char *text, const char *said) { goes_there_by(text, "ok", said); }

static void stays(char *text, const char *mode, const char *said) {
  outcome o = run_with(text, mode, BACKEND_LIBRARIES_AUTO);
  explain(o.s);
  if (!o.fallbacks || !strstr(hs_buf_cstr(&o.schedule), said))
    fail_msg("%s: no '%s' in\n%s", text, said, hs_buf_cstr(&o.schedule));
  outcome_free(&o);
  hs_free(text);
}

// A module of an entry computation, in which T[..] is of the type, R[..] of its real part; M and N
// are the sizes, K the lesser of them, B the batch; $ is the layout, by columns or by rows; in
// names of LAPACK's @ is the letter of the type, ~ "or" or "un", ^ "sy" or "he".
typedef struct form {
  int type, m, n, batch;
  bool columns;
} form;

static char *made(form f, const char *body) {
  hs_buf b = {0};
  int k = f.m < f.n ? f.m : f.n;
  hs_buf_puts(
      &b,
      "HloModule m\nsum { x = R[] parameter(0)\n y = R[] parameter(1)\n ROOT z = R[] add(x, y) }\n"
      "ENTRY e { ");
  hs_buf_puts(&b, body);
  hs_buf_puts(&b, " }");
  hs_buf out = {0};
  const char *s = hs_buf_cstr(&b);
  for (size_t at = 0; s[at]; at++) {
    char before = at ? s[at - 1] : ' ', after = s[at + 1];
    bool alone = strchr(" [,_=(", before) && strchr(" [],{", after);
    bool type = alone && after == '[';
    if (type && s[at] == 'T') hs_buf_puts(&out, types[f.type]);
    else if (type && s[at] == 'Z') hs_buf_puts(&out, f.type % 2 ? "c128" : "c64");
    else if (type && s[at] == 'R') hs_buf_puts(&out, reals[f.type]);
    else if (s[at] == '@') hs_buf_putc(&out, letters[f.type]);
    else if (s[at] == '$') hs_buf_puts(&out, f.columns ? "{1,2,0}" : "{2,1,0}");
    else if (s[at] == 'M' && strchr("[,", before)) hs_buf_printf(&out, "%d", f.m);
    else if (s[at] == 'N' && strchr("[,", before)) hs_buf_printf(&out, "%d", f.n);
    else if (s[at] == 'K' && strchr("[,", before)) hs_buf_printf(&out, "%d", k);
    else if (s[at] == 'B' && strchr("[,", before)) hs_buf_printf(&out, "%d", f.batch);
    else if (s[at] == '~') hs_buf_puts(&out, f.type < 2 ? "or" : "un");
    else if (s[at] == '^') hs_buf_puts(&out, f.type < 2 ? "sy" : "he");
    else hs_buf_putc(&out, s[at]);
  }
  hs_buf_free(&b);
  char *text = hs_strdup(hs_buf_cstr(&out));
  hs_buf_free(&out);
  return text;
}

#define CALL(name) "custom_call_target=\"lapack_@" name "_ffi\", api_version=API_VERSION_TYPED_FFI"
#define MATRIX "p = T[B,M,N] parameter(0)\n x = T[B,M,N]$ copy(p)\n "

static const form forms[] = {
    {0, 5, 5, 1, true},  {1, 6, 4, 1, true},  {2, 4, 6, 1, true},  {3, 5, 3, 3, true},
    {0, 3, 5, 3, true},  {0, 6, 4, 2, false}, {1, 4, 6, 1, false}, {2, 5, 5, 2, false},
    {3, 4, 6, 2, false}, {0, 4, 1, 2, false}, {1, 1, 4, 2, true},  {2, 1, 1, 1, true},
};

static void lu(void **st) {
  (void)st;
  for (size_t k = 0; k < HS_COUNT(forms); k++)
    goes_there(made(forms[k],
                    MATRIX "ROOT r = (T[B,M,N]$, s32[B,K], s32[B]) custom-call(x), " CALL("getrf")),
               "cuSOLVER getrf");
  // a matrix without an inverse says so; result and operand lie in different ways
  goes_there(made((form){0, 4, 4, 2, false},
                  "p = T[B,M,N] parameter(0)\n z = T[] constant(0)\n"
                  " x = T[B,M,N]$ broadcast(z), dimensions={}\n"
                  " ROOT r = (T[B,M,N]{1,2,0}, s32[B,K], s32[B]) custom-call(x), " CALL("getrf")),
             "r: 2 of 4 x 4: cuSOLVER getrf");
}

static void qr(void **st) {
  (void)st;
  for (size_t k = 0; k < HS_COUNT(forms); k++)
    goes_there(made(forms[k], MATRIX "ROOT r = (T[B,M,N]$, T[B,K]) custom-call(x), " CALL("geqrf")),
               "cuSOLVER geqrf");
  for (size_t k = 0; k < HS_COUNT(forms); k++) {
    form f = forms[k];
    if (f.m < f.n) continue;
    goes_there(made(f, MATRIX "f = (T[B,M,N]$, T[B,K]) custom-call(x), " CALL(
                           "geqrf") "\n"
                                    " v = T[B,M,N]$ get-tuple-element(f), index=0\n"
                                    " t = T[B,K] get-tuple-element(f), index=1\n"
                                    " ROOT q = T[B,M,N]$ custom-call(v, t), " CALL("~gqr")),
               f.type < 2 ? "cuSOLVER orgqr" : "cuSOLVER ungqr");
  }
  for (u32 k = 0; k < 8; k++) {
    form f = {(int)k / 2, 5, 3, 1 + (int)k % 3, k % 2 != 0};
    char *text = hs_format(MATRIX "f = (T[B,M,N]$, T[B,K]) custom-call(x), " CALL(
                               "geqrf") "\n"
                                        " v = T[B,M,N]$ get-tuple-element(f), index=0\n"
                                        " t = T[B,K] get-tuple-element(f), index=1\n"
                                        " y = T[B,%s]$ parameter(1)\n c = T[B,%s]$ copy(y)\n"
                                        " ROOT q = T[B,%s]$ custom-call(v, t, c), " CALL(
                                            "~mqr") ", backend_config={left = %s, transpose = %s}",
                           k % 2 ? "M,N" : "N,M", k % 2 ? "M,N" : "N,M", k % 2 ? "M,N" : "N,M",
                           k % 2 ? "true" : "false", k % 4 < 2 ? "true" : "false");
    goes_there(made(f, text), f.type < 2 ? "cuSOLVER ormqr" : "cuSOLVER unmqr");
    hs_free(text);
  }
  // XLA's own
  goes_there(made((form){0, 5, 3, 2, false},
                  MATRIX "f = (T[B,M,N]$, T[B,K]) custom-call(x), custom_call_target=\"Qr\"\n"
                         " v = T[B,M,N]$ get-tuple-element(f), index=0\n"
                         " t = T[B,K] get-tuple-element(f), index=1\n ROOT q = T[B,M,N]$ "
                         "custom-call(v, t), "
                         "custom_call_target=\"ProductOfElementaryHouseholderReflectors\""),
             "cuSOLVER orgqr");
}

// v diag(w) v^H, which is the matrix whatever the signs; w; info.
#define HERMITIAN "p = T[B,N,N] parameter(0)\n x = T[B,N,N]$ copy(p)\n "
#define BATCHED "lhs_batch_dims={0}, rhs_batch_dims={0}, "
static void eigen(void **st) {
  (void)st;
  for (u32 k = 0; k < 16; k++) {
    form f = {(int)k % 4, 4, 4, 1 + (int)(k / 4) % 2 * 2, k / 8 != 0};
    bool complex = f.type > 1, upper = k / 4 % 2;
    char *text = hs_format(
        HERMITIAN "f = (T[B,N,N]$, R[B,N], s32[B]) custom-call(x), " CALL(
            "^evd") ", backend_config={mode = 86 : ui8, uplo = %d : ui8}\n"
                    " v = T[B,N,N]$ get-tuple-element(f), index=0\n"
                    " w = R[B,N] get-tuple-element(f), index=1\n"
                    " i = s32[B] get-tuple-element(f), index=2\n z = T[B,N] %s\n"
                    " d = T[B,N,N]$ broadcast(z), dimensions={0,2}\n"
                    " s = T[B,N,N]$ multiply(v, d)\n %s"
                    " a = T[B,N,N] dot(s, h), " BATCHED
                    "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
                    " ROOT r = (T[B,N,N], R[B,N], s32[B]) tuple(a, w, i)",
        upper ? 'U' : 'L', complex ? "convert(w)" : "copy(w)",
        complex ? "q = R[B,N,N]$ real(v)\n j = R[B,N,N]$ imag(v)\n n = R[B,N,N]$ negate(j)\n"
                  " h = T[B,N,N]$ complex(q, n)\n"
                : "h = T[B,N,N]$ copy(v)\n");
    goes_there(made(f, text), f.batch > 1 ? "cuSOLVER syevjBatched"
                              : complex   ? "cuSOLVER heevd"
                                          : "cuSOLVER syevd");
    hs_free(text);
  }
  goes_there(made((form){0, 4, 4, 2, true},
                  HERMITIAN "f = (T[B,N,N]$, R[B,N], s32[B]) custom-call(x), " CALL(
                      "syevd") ", backend_config={mode = 78 : ui8, uplo = 76 : ui8}\n"
                               " ROOT w = R[B,N] get-tuple-element(f), index=1"),
             "cuSOLVER syevjBatched");
  // larger than what is done by one call
  goes_there(made((form){1, 33, 33, 2, true},
                  HERMITIAN "f = (T[B,N,N]$, R[B,N], s32[B]) custom-call(x), " CALL(
                      "syevd") ", backend_config={mode = 78 : ui8, uplo = 76 : ui8}\n"
                               " ROOT w = R[B,N] get-tuple-element(f), index=1"),
             "f: 2 of 33 x 33: cuSOLVER syevd");
}

// u diag(s) v, which is the matrix whatever the signs; s; the lengths of u's columns; info.
static char *values(form f, char mode) {
  const char *u = mode == 'A' ? "M" : "K", *v = mode == 'A' ? "N" : "K";
  char *text = hs_format(
      MATRIX "f = (T[B,M,N]$, R[B,K], T[B,M,%s]$, T[B,%s,N]$, s32[B]) custom-call(x), " CALL(
          "gesdd") ", backend_config={mode = %d : ui8}\n"
                   " s = R[B,K] get-tuple-element(f), index=1\n"
                   " u = T[B,M,%s]$ get-tuple-element(f), index=2\n"
                   " v = T[B,%s,N]$ get-tuple-element(f), index=3\n"
                   " i = s32[B] get-tuple-element(f), index=4\n c = T[B,K] %s(s)\n"
                   " d = T[B,M,K] broadcast(c), dimensions={0,2}\n"
                   " l = T[B,M,K] slice(u), slice={[0:%d], [0:%d], [0:%d]}\n"
                   " t = T[B,K,N] slice(v), slice={[0:%d], [0:%d], [0:%d]}\n"
                   " w = T[B,M,K] multiply(l, d)\n"
                   " a = T[B,M,N] dot(w, t), " BATCHED
                   "lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
                   " g = R[B,M,%s] abs(u)\n h = R[B,M,%s] multiply(g, g)\n zero = R[] constant(0)\n"
                   " n = R[B,%s] reduce(h, zero), dimensions={1}, to_apply=sum\n"
                   " ROOT r = (T[B,M,N], R[B,K], R[B,%s], s32[B]) tuple(a, s, n, i)",
      u, v, mode, u, v, f.type > 1 ? "convert" : "copy", f.batch, f.m, HS_MIN(f.m, f.n), f.batch,
      HS_MIN(f.m, f.n), f.n, u, u, u, u);
  char *out = made(f, text);
  hs_free(text);
  return out;
}

static void singular(void **st) {
  (void)st;
  for (size_t k = 0; k < HS_COUNT(forms); k++) {
    const char *said = forms[k].batch > 1 ? "cuSOLVER gesvdjBatched" : "cuSOLVER gesvd";
    goes_there(values(forms[k], 'S'), said);
    goes_there(values(forms[k], 'A'), said);
    form many = forms[k];
    many.batch = 3;
    goes_there(values(many, 'S'), "cuSOLVER gesvdjBatched");
  }
  // larger than what is done by one call
  goes_there(values((form){0, 3, 33, 2, true}, 'S'), "f: 2 of 3 x 33: cuSOLVER gesvd");
  goes_there(made((form){0, 4, 6, 2, true}, MATRIX
                  "f = (T[B,M,N]$, R[B,K], T[B,M,M]$, T[B,N,N]$, s32[B]) custom-call(x), " CALL(
                      "gesdd") ", backend_config={mode = 78 : ui8}\n"
                               " s = R[B,K] get-tuple-element(f), index=1\n"
                               " u = T[B,M,M]$ get-tuple-element(f), index=2\n"
                               " v = T[B,N,N]$ get-tuple-element(f), index=3\n"
                               " ROOT r = (R[B,K], T[B,M,M]$, T[B,N,N]$) tuple(s, u, v)"),
             "cuSOLVER gesvdjBatched");
}

static char *one(void) {
  return made((form){0, 3, 3, 1, true},
              MATRIX "ROOT r = (T[B,M,N]$, s32[B,K], s32[B]) custom-call(x), " CALL("getrf"));
}

// Z[..] is of complex numbers. What LAPACK leaves of these small matrices is the same wherever it
// is called, signs and order too.
#define GENERAL(left, right)                                                   \
  HERMITIAN "ROOT r = (%sZ[B,N,N]$, Z[B,N,N]$, s32[B]) custom-call(x), " CALL( \
      "geev") ", "                                                             \
              "backend_config={compute_left = " #left " : ui8, compute_right = " #right " : ui8}"
static void general(void **st) {
  (void)st;
  for (u32 k = 0; k < 32; k++) {
    form f = {(int)k % 4, 1 + (int)k % 7, 1 + (int)k % 7, 1 + (int)(k / 4) % 3, k / 8 % 2 != 0};
    const char *values = f.type < 2 ? "R[B,N], R[B,N], " : "T[B,N], ";
    char *text = hs_format(k % 5 ? GENERAL(78, 86) : GENERAL(78, 78), values);
    goes_there(made(f, text), "cuSOLVER Xgeev");
    hs_free(text);
  }
  // left vectors are the host's, and all of it where cuSOLVER has no such function
  char *text = hs_format(GENERAL(86, 86), "R[B,N], R[B,N], ");
  stays(made((form){0, 3, 3, 1, true}, text), "ok", "host");
  hs_free(text);
  text = hs_format(GENERAL(78, 86), "R[B,N], R[B,N], ");
  stays(made((form){0, 3, 3, 1, true}, text), "early",
        "r: on the host: this cuSOLVER has no cusolverDnXgeev, that of CUDA 12.8 has");
  hs_free(text);
  goes_there_by(one(), "early", "cuSOLVER getrf");
}

static void tridiagonal(void **st) {
  (void)st;
  for (u32 k = 0; k < 16; k++) {
    form f = {(int)k % 4, 4, 4, 1 + (int)(k / 4) % 2, k / 8 != 0};
    char *text = hs_format(
        HERMITIAN "ROOT r = (T[B,N,N]$, R[B,N], R[B,%d], T[B,%d], s32[B]) custom-call(x), " CALL(
            "^trd") ", backend_config={uplo = %d : ui8}",
        f.n - 1, f.n - 1, k % 3 ? 'U' : 'L');
    goes_there(made(f, text), f.type > 1 ? "cuSOLVER hetrd" : "cuSOLVER sytrd");
    hs_free(text);
  }
  stays(made((form){0, 1, 1, 1, true}, HERMITIAN
             "ROOT r = (T[B,N,N]$, R[B,N], R[B,0], T[B,0], s32[B]) custom-call(x), " CALL("sytrd")),
        "ok", "host");
}

// One call for all of a batch, where cuBLAS is here too.
static void together(void **st) {
  (void)st;
  cublas = "ok";
  for (size_t k = 0; k < HS_COUNT(forms); k++) {
    form f = forms[k];
    f.batch = 2 + (int)k % 2;
    goes_there(
        made(f, MATRIX "ROOT r = (T[B,M,N]$, T[B,K], s32[B]) custom-call(x), " CALL("geqrf")),
        "cuBLAS geqrfBatched");
    goes_there(
        made(f, MATRIX "ROOT r = (T[B,M,N]$, s32[B,K], s32[B]) custom-call(x), " CALL("getrf")),
        f.m == f.n ? "cuBLAS getrfBatched" : "cuSOLVER getrf");
  }
  goes_there(made((form){1, 300, 300, 2, true},
                  MATRIX "ROOT r = (T[B,M,N]$, s32[B,K], s32[B]) custom-call(x), " CALL("getrf")),
             "cuSOLVER getrf");
  cublas = "old";
  goes_there(made((form){1, 4, 4, 2, true},
                  MATRIX "ROOT r = (T[B,M,N]$, s32[B,K], s32[B]) custom-call(x), " CALL("getrf")),
             "r: 2 of 4 x 4: cuSOLVER getrf");
  cublas = NULL;
}

static void faults(void **st) {
  (void)st;
  stays(one(), NULL, "cuSOLVER does not work on the emulation");
  stays(one(), "missing", "this cuSOLVER has no cusolverDnSpotrf");
  stays(one(), "huge", "a workspace of so many elements: cuSOLVER error 9 (NOT_SUPPORTED)");
  char *text = one();
  outcome o = run_with(text, "failing", BACKEND_LIBRARIES_AUTO);
  assert_false(hs_ok(o.s));
  assert_non_null(strstr(o.s.err->message, "cuSOLVER error 6 (EXECUTION_FAILED)"));
  outcome_free(&o);
  hs_free(text);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(lu, make_folder),
      cmocka_unit_test(qr),
      cmocka_unit_test(eigen),
      cmocka_unit_test(singular),
      cmocka_unit_test(tridiagonal),
      cmocka_unit_test(general),
      cmocka_unit_test(together),
      cmocka_unit_test_teardown(faults, remove_folder),
  };
  return run_cpu_tests(argc, argv, "gpu_lapack", tests, HS_COUNT(tests));
}
