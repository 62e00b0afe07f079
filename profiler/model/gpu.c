// gpu.c — writes and reads descriptions of GPUs in the form of XLA's compiler. See gpu.h.
//
// The text form of protocol buffers is read without a schema: a path of names leads to a value, and
// all other fields are skipped, so that unknown fields do no harm.
#include "profiler/model/gpu.h"

#include <ctype.h>
#include <stdlib.h>

typedef enum gpu_chip { GA100, GH100, GB100 } gpu_chip;
typedef enum gpu_unit { SCALAR, MATRIX } gpu_unit;

static const struct rate {
  gpu_chip chip;
  gpu_unit unit;
  hlo_dtype type;
  u32 units, per_clock;
} rates[] = {
#define RATE(chip, unit, type, units, per_clock) {chip, unit, HLO_##type, units, per_clock},
#define GPU(...)
#include "profiler/model/gpus.def"
};

static const struct gpu {
  const char *target;
  gpu_chip chip;
  const char *name;
  u32 capability;
  bool accelerated;
  u32 cores, fpus;
  double clock, matrix_clock, memory_clock;
  i64 bandwidth, l2, memory, shared, shared_block, pcie;
  u32 links;
} gpus[] = {
#define RATE(...)
#define GPU(target, chip, ...) {target, chip, __VA_ARGS__},
#include "profiler/model/gpus.def"
};

// ---- writing ------------------------------------------------------------------------------------

static void put_rates(hs_buf *b, const struct gpu *g, gpu_unit unit, const char *field) {
  hs_buf_printf(b, "  %s {\n", field);
  for (size_t k = 0; k < HS_COUNT(rates); k++) {
    const struct rate *r = &rates[k];
    if (r->chip != g->chip || r->unit != unit) continue;
    double clock = unit == MATRIX && r->type != HLO_F64 ? g->matrix_clock : g->clock;
    hs_buf_printf(
        b,
        "    rate_infos { key: %d value { clock_rate_ghz: %g units_per_core: %u ops_per_clock: %u "
        "} }\n",
        hlo_dtypes[r->type].proto, clock, r->units, r->per_clock);
  }
  hs_buf_puts(b, "  }\n");
}

static void put_gpu(hs_buf *b, const struct gpu *g) {
  hs_buf_puts(b, "gpu_device_info {\n");
  static const struct {
    const char *key;
    i64 v;
  } common[] = {{"threads_per_block_limit", 1024},    {"threads_per_warp", 32},
                {"shared_memory_per_block", 49152},   {"threads_per_core_limit", 2048},
                {"block_dim_limit_x", 2147483647},    {"block_dim_limit_y", 65535},
                {"block_dim_limit_z", 65535},         {"registers_per_core_limit", 65536},
                {"registers_per_block_limit", 65536}, {"thread_dim_limit_x", 1024},
                {"thread_dim_limit_y", 1024},         {"thread_dim_limit_z", 64},
                {"device_address_bits", 64}};
  for (size_t k = 0; k < HS_COUNT(common); k++)
    hs_buf_printf(b, "  %s: %lld\n", common[k].key, (long long)common[k].v);
  const struct {
    const char *key;
    i64 v;
  } own[] = {{"core_count", g->cores},
             {"fpus_per_core", g->fpus},
             {"memory_bandwidth", g->bandwidth},
             {"l2_cache_size", g->l2},
             {"device_memory_size", g->memory},
             {"shared_memory_per_core", g->shared},
             {"shared_memory_per_block_optin", g->shared_block},
             {"pcie_bandwidth", g->pcie}};
  for (size_t k = 0; k < HS_COUNT(own); k++)
    hs_buf_printf(b, "  %s: %lld\n", own[k].key, (long long)own[k].v);
  hs_buf_printf(b, "  clock_rate_ghz: %g\n  ecc_enabled: true\n", g->clock);
  hs_buf_printf(b, "  cuda_compute_capability { major: %u feature_extension: %s }\n", g->capability,
                g->accelerated ? "ACCELERATED_FEATURES" : "NONE");
  put_rates(b, g, SCALAR, "scalar_unit_description");
  put_rates(b, g, MATRIX, "matrix_unit_description");
  const char *a = g->accelerated ? "a" : "";
  hs_buf_printf(
      b,
      "  device_vendor: \"NVIDIA Corporation\"\n  platform_version: \"Compute Capability %u.0%s\"\n"
      "  name: \"%s\"\n",
      g->capability, a, g->name);
  hs_buf_printf(
      b,
      "  model_str: \"sm_%u.0%s with %lldB RAM, %u cores, %.0fKHz clock, %.0fKHz mem clock, %lldB "
      "L2$\"\n",
      g->capability, a, (long long)g->memory, g->cores, g->clock * 1e6, g->memory_clock * 1e6,
      (long long)g->l2);
  hs_buf_puts(b, "  driver_version: \"13.0.0\"\n  runtime_version: \"12.8.0\"\n"
                 "  compile_time_toolkit_version: \"12.8.0\"\n  dnn_version: \"9.10.0\"\n");
  hs_buf_printf(b,
                "  device_interconnect_info { active_links: %u }\n}\nplatform_name: \"CUDA\"\n"
                "device_description_str: \"%s\"\n",
                g->links, g->name);
}

bool prof_gpu_text(const char *target, hs_buf *out) {
  for (size_t k = 0; k < HS_COUNT(gpus); k++)
    if (!strcmp(gpus[k].target, target)) {
      put_gpu(out, &gpus[k]);
      return true;
    }
  return false;
}

// ---- reading ------------------------------------------------------------------------------------

typedef struct reader {
  const char *p;
  bool bad;
} reader;

static void blanks(reader *r) {
  for (;;) {
    while (isspace((unsigned char)*r->p) || *r->p == ',' || *r->p == ';') r->p++;
    if (*r->p != '#') return;
    r->p += strcspn(r->p, "\n");
  }
}

static hs_str word(reader *r) {
  blanks(r);
  const char *from = r->p;
  while (isalnum((unsigned char)*r->p) || strchr("_.+-", *r->p ? *r->p : ' ')) r->p++;
  return (hs_str){from, (size_t)(r->p - from)};
}

static hs_str quoted(reader *r) {
  const char *from = ++r->p;
  while (*r->p && *r->p != '"' && *r->p != '\n') r->p += *r->p == '\\' && r->p[1] ? 2 : 1;
  hs_str s = {from, (size_t)(r->p - from)};
  r->bad |= *r->p != '"';
  r->p += *r->p == '"';
  return s;
}

// The next field: its name, and either its value or, in *block, the text behind its opening brace.
// The reader continues behind the field.
static bool field(reader *r, hs_str *name, hs_str *value, const char **block) {
  *name = word(r);
  *block = NULL;
  *value = (hs_str){0};
  if (!name->n) {
    r->bad |= *r->p && *r->p != '}';
    return false;
  }
  blanks(r);
  bool colon = *r->p == ':';
  if (colon) r->p++, blanks(r);
  if (*r->p == '{') {
    *block = ++r->p;
    for (u32 depth = 1; depth; r->p++) {
      if (*r->p == '"') {
        quoted(r);
        r->p--;
        continue;
      }
      if (*r->p == '#') {
        r->p += strcspn(r->p, "\n");
        r->p--;
        continue;
      }
      if (!*r->p) {
        r->bad = true;
        return false;
      }
      depth += *r->p == '{';
      depth -= *r->p == '}';
    }
  } else if (!colon) r->bad = true;
  else *value = *r->p == '"' ? quoted(r) : word(r);
  return !r->bad;
}

// The value at a path of names, "a.b.c"; where the path leads to a message, *block is its text.
// Empty when there is none.
static hs_str find(const char *text, const char *path, const char **block) {
  size_t n = strcspn(path, ".");
  hs_str name, value;
  const char *inner;
  for (reader r = {text, false}; field(&r, &name, &value, &inner);) {
    if (name.n != n || memcmp(name.p, path, n) != 0) continue;
    if (path[n]) return inner ? find(inner, path + n + 1, block) : (hs_str){0};
    if (block) *block = inner;
    return value;
  }
  return (hs_str){0};
}

// 0 when it is not there, or is no number that a device can have.
static double number(const char *text, const char *path) {
  hs_str v = find(text, path, NULL);
  double x = v.n ? strtod(v.p, NULL) : 0;
  return x >= 1e-6 && x <= 1e18 ? x : 0;
}

// Operations per second of a kind of unit on one type, a multiply-add counted as two; 0 when the
// description does not have it.
static double unit_rate(const char *info, const char *unit, hlo_dtype t) {
  const char *block = NULL, *inner;
  find(info, unit, &block);
  hs_str name, value;
  for (reader r = {block ? block : "", false}; field(&r, &name, &value, &inner);) {
    if (!inner || !hs_str_eq(name, HS_STR("rate_infos")) ||
        number(inner, "key") != (double)hlo_dtypes[t].proto)
      continue;
    return 2e9 * number(info, "core_count") * number(inner, "value.clock_rate_ghz") *
           number(inner, "value.units_per_core") * number(inner, "value.ops_per_clock");
  }
  return 0;
}

hs_status prof_gpu_device(const char *text, hs_arena *a, prof_device *out) {
  const char *info = NULL;
  find(text, "gpu_device_info", &info);
  if (!info) return hs_fail(HS_E_INPUT, "no description of a GPU: gpu_device_info is missing");
  static const char *const needed[] = {"core_count", "fpus_per_core", "clock_rate_ghz",
                                       "memory_bandwidth", "device_memory_size"};
  for (size_t k = 0; k < HS_COUNT(needed); k++)
    if (number(info, needed[k]) <= 0)
      return hs_fail(HS_E_INPUT, "the description of the GPU does not say its %s", needed[k]);
  double clock = number(info, "clock_rate_ghz") * 1e9, cores = number(info, "core_count");
  if (cores < 1 || cores > 1e6)
    return hs_fail(HS_E_INPUT, "the description of the GPU has %g for its core_count", cores);
  double f32 = 2 * cores * number(info, "fpus_per_core") * clock;
  double f64 = unit_rate(info, "scalar_unit_description", HLO_F64),
         bf16 = unit_rate(info, "matrix_unit_description", HLO_BF16);
  hs_str name = find(text, "device_description_str", NULL);
  if (!name.n) name = find(info, "name", NULL);
  const char *summary = name.n ? hs_arena_strndup(a, name.p, name.n) : "a GPU";
  double tf32 = unit_rate(info, "matrix_unit_description", HLO_F32);
  *out = (prof_device){.name = summary,
                       .summary = summary,
                       .family = PROF_GPU,
                       .flops_f32 = f32,
                       .flops_f64 = f64 > 0 ? f64 : f32 / 2,
                       .matrix_f32 = tf32,
                       .matrix_f64 = unit_rate(info, "matrix_unit_description", HLO_F64),
                       .flops_bf16 = bf16 > 0 ? bf16 : f32,
                       .matrix_8 = unit_rate(info, "matrix_unit_description", HLO_S8),
                       .transcendentals = f32 / 4,
                       .bandwidth = number(info, "memory_bandwidth"),
                       .cache_bandwidth = 24 * cores * clock,
                       .cache_bytes = (i64)number(info, "l2_cache_size"),
                       .launch_s = 2.5e-6,
                       .loop_s = 8e-6,
                       .memory_bytes = (i64)number(info, "device_memory_size"),
                       .cores = (u32)cores,
                       .tile_m = 16,
                       .tile_n = 16,
                       .tile_k = 16,
                       .link = "NVLink",
                       .link_s = 2.5e-6,
                       .node = 8,
                       .network_bandwidth = 50e9,
                       .network_s = 5e-6};
  const char *links = NULL;
  find(info, "device_interconnect_info", &links);
  double active = links ? number(links, "active_links") : 0;
  if (active > 0) {
    out->link_bandwidth = 25e9 * active;
  } else {
    out->link = "PCIe";
    out->link_bandwidth = HS_MAX(number(info, "pcie_bandwidth"), 12e9);
  }
  return HS_GOOD;
}
