// pjrt_gpu.c — compiling for a GPU that is not here: its kernels, its machine code, descriptions
// of GPUs, and the steps of a compiler read from its log.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/pjrt/api.h"
#include "backends/pjrt/pjrt.h"
#include "backends/pjrt/serve.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "profiler/model/gpu.h"
#include "tests/unit/backends/plugins.h"
#include "tests/unit/skip.h"

static void kernels_of_a_gpu(void **st) {
  (void)st;
  hlo_module *m = parse(add_one);
  hs_buf target = {0};
  assert_true(prof_gpu_text("h200", &target));
  hs_buf_puts(&target,
              "gpu_device_info { unknown_field { a: 1 b { c: 2 } } }\nplatform_name: \"CUDA\"\n");
  backend_options o = {.plugin = plugin_fake("gpu"), .target = hs_buf_cstr(&target)};
  const backend *be = backend_find("pjrt");
  backend_exe *exe;
  hs_status s = be->compile(m, &o, &exe);
  if (!hs_ok(s)) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  const pjrt_result *r = pjrt_compiled_result(exe);
  assert_string_equal(r->dropped, "unknown_field");
  assert_int_equal(r->kernels.n, 4);
  const pjrt_kernel *k = r->kernels.v;
  assert_string_equal(k[0].name, "fused_b");
  assert_int_equal(k[0].grid[0], 16);
  assert_int_equal(k[0].grid[1], 2);
  assert_int_equal(k[0].block[0], 128);
  assert_int_equal(k[0].shared, 64);
  assert_int_equal(k[0].static_shared, 4224);
  assert_int_equal(k[0].registers, -1);
  assert_non_null(strstr(k[0].ptx, "entry fused_b"));
  assert_string_equal(k[1].name, "kWhile");
  assert_int_equal(k[1].grid[0], 0);
  assert_int_equal(k[2].depth, 1);
  assert_string_equal(k[2].instr, "x");
  assert_null(k[0].instr);
  assert_non_null(strstr(k[3].ptx, "entry r("));
  hlo_literal *arg, *args[1];
  assert_true(hs_ok(hlo_literal_new(m->entry->params[0]->shape, &arg)));
  args[0] = arg;
  backend_result result;
  s = be->run(exe, 1, args, NULL, &result);
  assert_false(hs_ok(s));
  assert_non_null(strstr(s.err->message, "a device that is not here"));
  hs_status_drop(s);
  hlo_literal_unref(arg);
  be->release(exe);
  hs_buf_free(&target);
  hlo_module_free(m);
}

static void put_section(hs_buf *b, u32 name, u32 type, u64 offset, u64 size, u32 link, u32 info) {
  Elf64_Shdr s = {.sh_name = name,
                  .sh_type = type,
                  .sh_offset = offset,
                  .sh_size = size,
                  .sh_link = link,
                  .sh_info = info};
  hs_buf_put(b, (const char *)&s, sizeof s);
}

// An object file with one kernel: 16 bytes of code, 40 registers, a stack frame of 8 bytes.
static hs_buf small_cubin(void) {
  static const char names[] = "\0.shstrtab\0.strtab\0.symtab\0.nv.info\0.text.my_kernel";
  static const char strings[] = "\0my_kernel";
  const u32 info[] = {0x00080000u | 0x2f04, 1, 40, 0x00080000u | 0x1104, 1, 8};
  Elf64_Sym symbols[2] = {{0}, {.st_name = 1}};
  Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, 1, 1},
                  .e_type = ET_EXEC,
                  .e_machine = 190,
                  .e_shentsize = sizeof(Elf64_Shdr),
                  .e_shnum = 6,
                  .e_shstrndx = 1};
  hs_buf b = {0};
  u64 at = sizeof h, where[5];
  const struct {
    const void *p;
    size_t n;
  } parts[] = {{names, sizeof names},
               {strings, sizeof strings},
               {symbols, sizeof symbols},
               {info, sizeof info},
               {"0123456789abcdef", 16}};
  for (size_t k = 0; k < HS_COUNT(parts); k++) where[k] = at, at += parts[k].n;
  h.e_shoff = at;
  hs_buf_put(&b, (const char *)&h, sizeof h);
  for (size_t k = 0; k < HS_COUNT(parts); k++) hs_buf_put(&b, parts[k].p, parts[k].n);
  put_section(&b, 0, SHT_NULL, 0, 0, 0, 0);
  put_section(&b, 1, SHT_STRTAB, where[0], sizeof names, 0, 0);
  put_section(&b, 11, SHT_STRTAB, where[1], sizeof strings, 0, 0);
  put_section(&b, 19, SHT_SYMTAB, where[2], sizeof symbols, 2, 0);
  put_section(&b, 27, SHT_PROGBITS, where[3], sizeof info, 0, 0);
  put_section(&b, 36, SHT_PROGBITS, where[4], 16, 3, 0);
  return b;
}

static void expect_kernel(const char *bytes, size_t n) {
  hs_buf reply = {0};
  pjs_put_machine_code(bytes, n, &reply);
  wire_reader r = {reply.p, reply.n, false};
  assert_int_equal(wire_get_u32(&r), 1);
  assert_true(hs_str_eq(wire_get_bytes(&r), HS_STR("my_kernel")));
  assert_int_equal(wire_get_i64(&r), 40);
  assert_int_equal(wire_get_i64(&r), 8);
  assert_int_equal(wire_get_i64(&r), 16);
  hs_buf_free(&reply);
}

// Bytes in a Riegeli container, as one Snappy record: literals of 60 bytes, and for every second
// one that repeats, a copy.
static hs_buf packed(const hs_buf *bytes, bool blocks) {
  static const u8 head[64] = {0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f, 0,    0,
                              0,    0,    0,    0,    0,    0,    0x40, 0,    0,    0,
                              0,    0,    0,    0,    0x91, 0xba, 0xc2, 0x3c, 0x92, 0x87,
                              0xe1, 0xa9, 0,    0,    0,    0,    0,    0,    0,    0,
                              0xe1, 0x9f, 0x13, 0xc0, 0xe9, 0xb1, 0xc3, 0x72, 0x73};
  hs_buf body = {0}, out = {0};
  hs_buf_puts(&body, "s");
  hs_buf_put(&body, "\x01\x00", 2);  // sizes: of no interest
  u64 total = bytes->n + (blocks ? 100000 : 0);
  for (u32 twice = 0; twice < 2; twice++)
    for (u64 v = total;; v >>= 7) {
      char c = (char)((v & 127) | (v > 127 ? 128 : 0));
      hs_buf_put(&body, &c, 1);
      if (v < 128) break;
    }
  // a literal, then copies of it
  for (size_t k = 0; blocks && k < 100000; k += 4)
    hs_buf_put(&body,
               k ? "\x0e\x04\x00"
                 : "\x0c"
                   "wxyz",
               k ? 3 : 5);
  for (size_t k = 0; k < bytes->n; k += 60) {
    size_t n = HS_MIN((size_t)60, bytes->n - k);
    char tag = (char)((n - 1) << 2);
    hs_buf_put(&body, &tag, 1);
    hs_buf_put(&body, bytes->p + k, n);
  }
  hs_buf_puts(&out, "in front");
  size_t start = out.n;
  hs_buf_put(&out, (const char *)head, sizeof head);
  u64 chunk[5] = {0, body.n, 0, 'r' | 1 << 8, total};
  hs_buf all = {0};
  hs_buf_put(&all, (const char *)chunk, sizeof chunk);
  hs_buf_put(&all, body.p, body.n);
  for (size_t k = 0; k < all.n; k++) {
    if ((out.n - start) % 65536 == 0)
      for (u32 j = 0; j < 24; j++) hs_buf_put(&out, "\xee", 1);
    hs_buf_put(&out, all.p + k, 1);
  }
  hs_buf_free(&all);
  hs_buf_free(&body);
  return out;
}

static void machine_code(void **st) {
  (void)st;
  hs_buf b = small_cubin(), p = packed(&b, false), q = packed(&b, true);
  assert_true(q.n > 65536);
  expect_kernel(b.p, b.n);
  expect_kernel(p.p, p.n);
  expect_kernel(q.p, q.n);
  // cut short, and damaged everywhere: no crash
  for (size_t n = 0; n < b.n; n += 7) {
    hs_buf reply = {0};
    pjs_put_machine_code(b.p, n, &reply);
    pjs_put_machine_code(p.p, n, &reply);
    char was = b.p[n];
    b.p[n] = (char)~was;
    pjs_put_machine_code(b.p, b.n, &reply);
    b.p[n] = was;
    hs_buf_free(&reply);
  }
  hs_buf_free(&b);
  hs_buf_free(&p);
  hs_buf_free(&q);
}

static void gpu_descriptions(void **st) {
  (void)st;
  u32 gpus = 0;
  // ours, read back: the numbers of the device table within 5 %
  for (u32 k = 0; k < prof_device_count; k++) {
    hs_buf text = {0};
    hs_arena a = {0};
    prof_device d;
    const prof_device *known = &prof_devices[k];
    if (!prof_gpu_text(known->name, &text)) continue;
    gpus++;
    assert_true(hs_ok(prof_gpu_device(hs_buf_cstr(&text), &a, &d)));
    const double pairs[][2] = {{d.flops_f32, known->flops_f32},
                               {d.flops_bf16, known->flops_bf16},
                               {d.flops_f64, known->flops_f64},
                               {d.bandwidth, known->bandwidth},
                               {(double)d.cache_bytes, (double)known->cache_bytes}};
    for (size_t j = 0; j < HS_COUNT(pairs); j++)
      assert_true(pairs[j][0] > 0.95 * pairs[j][1] && pairs[j][0] < 1.05 * pairs[j][1]);
    hs_arena_free(&a);
    hs_buf_free(&text);
  }
  assert_true(gpus >= 4);
  hs_buf none = {0};
  assert_false(prof_gpu_text("cpu", &none));
  static const char *const bad[] = {"",
                                    "platform_name: \"CUDA\"",
                                    "gpu_device_info { core_count: 4 }",
                                    "gpu_device_info { core_count: 4",
                                    "gpu_device_info { name: \"x",
                                    "{{{{"};
  for (size_t k = 0; k < HS_COUNT(bad); k++) {
    hs_arena a = {0};
    prof_device d;
    hs_status s = prof_gpu_device(bad[k], &a, &d);
    assert_false(hs_ok(s));
    hs_status_drop(s);
    hs_arena_free(&a);
  }
}

// A log as XLA writes it: two pipelines, one of them run as a pass.
static void steps_from_a_log(void **st) {
  (void)st;
  static const char log[] =
      "WARNING: something else\n"
      "I0000 00:00:1.1   21 hlo_pass_pipeline.cc:298] Running HLO pass pipeline on module m: "
      "outer\n"
      "I0000 00:00:1.2   21 hlo_pass_pipeline.cc:176]   HLO pass dce\n"
      "I0000 00:00:1.3   21 hlo_pass_pipeline.cc:180]   Module hash 7\n"
      "I0000 00:00:1.4   21 hlo_pass_pipeline.cc:182]   Number of instructions: 40\n"
      "I0000 00:00:1.5   21 hlo_pass_pipeline.cc:171] HLO pass: dce time: 1.50 ms (1500 us) "
      "(cumulative: 1.5 ms, max: 1.5 ms, #called: 1)\n"
      "I0000 00:00:1.6   21 hlo_pass_pipeline.cc:176]   HLO pass simplification\n"
      "I0000 00:00:1.7   21 hlo_pass_pipeline.cc:180]   Module hash 8\n"
      "I0000 00:00:1.8   21 hlo_pass_pipeline.cc:182]   Number of instructions: 35\n"
      "I0000 00:00:1.9   21 hlo_pass_pipeline.cc:298] Running HLO pass pipeline on module m: "
      "simplification\n"
      "I0000 00:00:2.0   21 hlo_pass_pipeline.cc:176]   HLO pass algsimp\n"
      "I0000 00:00:2.1   21 hlo_pass_pipeline.cc:180]   Module hash 8\n"
      "I0000 00:00:2.2   21 hlo_pass_pipeline.cc:182]   Number of instructions: 35\n"
      "I0000 00:00:2.3   21 hlo_pass_pipeline.cc:171] HLO pass: algsimp time: 20 us (20 us) "
      "(cumulative: 1.52 ms, max: 1.5 ms, #called: 2)\n"
      "I0000 00:00:2.4   21 hlo_pass_pipeline.cc:171] HLO pass: simplification time: 30 us (30 us) "
      "(cumulative: 1.55 ms, max: 1.5 ms, #called: 3)\n"
      "I0000 00:00:2.5   21 hlo_pass_pipeline.cc:298] Running HLO pass pipeline on module m: last "
      "one\n"
      "I0000 00:00:2.6   21 hlo_pass_pipeline.cc:176]   HLO pass cse\n"
      "I0000 00:00:2.7   21 hlo_pass_pipeline.cc:180]   Module hash 8\n"
      "I0000 00:00:2.8   21 hlo_pass_pipeline.cc:182]   Number of instructions: 35\n"
      "I0000 00:00:2.9   21 hlo_pass_pipeline.cc:171] HLO pass: cse time: 10 us (10 us) "
      "(cumulative: 1.56 ms, max: 1.5 ms, #called: 4)\n";
  pjrt_steps s;
  pjrt_read_steps(log, &s);
  assert_int_equal(s.n, 4);
  assert_string_equal(s.v[0].pass, "dce");
  assert_string_equal(s.v[0].pipeline, "outer");
  assert_true(s.v[0].changed);
  assert_int_equal(s.v[0].before, 40);
  assert_int_equal(s.v[0].after, 35);
  assert_true(s.v[0].us == 1500);
  assert_string_equal(s.v[1].pass, "algsimp");
  assert_string_equal(s.v[1].pipeline, "simplification");
  assert_int_equal(s.v[1].depth, 1);
  assert_false(s.v[1].changed);
  assert_true(s.v[2].whole);
  assert_string_equal(s.v[2].pipeline, "outer");
  assert_string_equal(s.v[3].pipeline, "last one");
  assert_true(s.cumulative_us > 1559 && s.cumulative_us < 1561);
  pjrt_steps_free(&s);
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_of_a_gpu),
      cmocka_unit_test(machine_code),
      cmocka_unit_test(gpu_descriptions),
      cmocka_unit_test(steps_from_a_log),
  };
  return cmocka_run_group_tests(tests, open_plugins, close_plugins);
}
