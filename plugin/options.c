// options.c — CompileOptionsProto: how many replicas and partitions, on which devices. What says
// how XLA compiles says nothing here, but what cannot be an option of XLA is refused.
#include "plugin/plugin.h"

#include "core/proto/schema.h"
#include "core/proto/wire.h"

enum { TUPLED = 2, BUILD_OPTIONS = 3, OVERRIDES = 7 };  // of CompileOptionsProto
enum { NAME = 1, VALUE = 2, TEXT = 1 };  // of an entry of the overrides, and of its value
enum { DEVICE = 1, REPLICAS = 4, PARTITIONS = 5, ASSIGNMENT = 9 };  // of ExecutableBuildOptions
enum { COLUMNS = 3, IDS = 1 };  // of DeviceAssignmentProto, and of its columns

typedef struct column {
  u32 partition, row;
  const plug_options *o;
  u32 *to;
  u32 ndevices;
  bool bad;
} column;

static void take(void *arg, i64 id) {
  column *c = arg;
  if (id < 0 || id >= (i64)c->ndevices || c->row >= c->o->replicas ||
      c->partition >= c->o->partitions) {
    c->bad = true;
    return;
  }
  c->to[c->row++ * c->o->partitions + c->partition] = (u32)id;
}

// One column a partition, its rows the replicas.
static pj_error *read_assignment(pb m, const pj_client *client, plug_options *o) {
  column c = {.o = o, .ndevices = client->n};
  pb_field f;
  c.to = o->devices = hs_calloc((size_t)o->replicas * o->partitions, sizeof *o->devices);
  while (pb_next(&m, &f)) {
    if (f.num != COLUMNS || f.wire != 2) continue;
    c.row = 0;
    (void)pb_each_int(f.sub, IDS, take, &c);
    c.bad |= c.row != o->replicas;
    c.partition++;
  }
  if (c.bad || m.bad || c.partition != o->partitions)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: the device assignment does not fit %u devices",
                     client->n);
  return NULL;
}

enum { MOST = 80 };  // bytes of a name or value in a message
static int shown(hs_str s) { return (int)HS_MIN(s.n, (size_t)MOST); }

// A text for what is true or false.
static pj_error *check_text(hs_str name, hs_str text) {
  static const char *const words[] = {"true", "false", "True", "False", "1", "0"};
  const pb_row *row = pb_row_by_name(PB_DebugOptions, name);
  if (!row || row->type != PB_BOOL) return NULL;
  for (size_t k = 0; k < HS_COUNT(words); k++)
    if (hs_str_eq(text, hs_str_of(words[k]))) return NULL;
  return plug_fail(PJ_INVALID_ARGUMENT,
                   "hlosh: While setting option %.*s, '%.*s' is not a valid bool value.",
                   shown(name), name.p, shown(text), text.p);
}

// Options by name, as in XLA_FLAGS: XLA's begin with xla_.
static pj_error *check_overrides(pb m) {
  static const char prefix[] = "xla_";
  pb_field f, text;
  while (pb_next(&m, &f)) {
    if (f.num != OVERRIDES || f.wire != 2) continue;
    hs_str name = pb_str(f.sub, NAME);
    if (name.n < sizeof prefix || memcmp(name.p, prefix, sizeof prefix - 1) != 0)
      return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: No such compile option: '%.*s'", shown(name),
                       name.n ? name.p : "");
    pb value = pb_sub(f.sub, VALUE);
    pj_error *bad = NULL;
    if (pb_get(value, TEXT, &text) && text.wire == 2)
      bad =
          check_text(name, (hs_str){(const char *)text.sub.p, (size_t)(text.sub.end - text.sub.p)});
    if (bad) return bad;
  }
  return NULL;
}

pj_error *plug_options_read(const char *p, size_t n, const pj_client *client, plug_options *out) {
  *out = (plug_options){.replicas = 1, .partitions = 1};
  pb m = {(const u8 *)p, (const u8 *)p + n, false};
  if (n && !pb_valid(m))
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: the compile options are no CompileOptionsProto");
  pj_error *bad = check_overrides(m);
  if (bad) return bad;
  pb build = pb_sub(m, BUILD_OPTIONS);
  i64 replicas = pb_int(build, REPLICAS, 1), partitions = pb_int(build, PARTITIONS, 1);
  replicas = HS_MAX(replicas, 1);
  partitions = HS_MAX(partitions, 1);
  if (replicas > client->n || partitions > client->n || replicas * partitions > client->n)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: %lld replicas and %lld partitions on %u devices",
                     (long long)replicas, (long long)partitions, client->n);
  out->tupled = pb_int(m, TUPLED, 0) != 0;
  out->replicas = (u32)replicas;
  out->partitions = (u32)partitions;
  pb_field f;
  if (pb_get(build, ASSIGNMENT, &f) && f.wire == 2) return read_assignment(f.sub, client, out);
  u32 all = out->replicas * out->partitions;
  out->devices = hs_calloc(all, sizeof *out->devices);
  i64 ordinal = pb_int(build, DEVICE, -1);
  for (u32 k = 0; k < all; k++) out->devices[k] = k;
  if (all == 1 && ordinal >= 0 && ordinal < (i64)client->n) out->devices[0] = (u32)ordinal;
  return NULL;
}
