// xplane_write.c: writing XSpace. See xplane.h. Two planes: the device with one line, on which
// every execution says its operation, module, program and run; and "/host:metadata", which carries
// the modules, so that whoever reads the file can join the two.
#include "core/proto/wire.h"
#include "profiler/xplane.h"

enum {
#define XP(message, field, number) XP_##message##_##field = number,
#include "profiler/xplane.def"
#undef XP
};

// Statistics, numbered from 1; behind them, in the device's plane, the texts that they refer to.
enum { STAT_OP = 1, STAT_MODULE, STAT_PROGRAM, STAT_RUN, STAT_CATEGORY, STAT_FLOPS, STAT_BYTES };
static const char *const stat_names[] = {"hlo_op",       "hlo_module", "program_id",    "run_id",
                                         "hlo_category", "flops",      "bytes_accessed"};
enum { NSTATS = HS_COUNT(stat_names) };

// Where a program's numbers begin: its kernels', from 0, and those of its texts: the module's name,
// then the kernels'.
typedef struct numbers {
  u32 kernel, text;
} numbers;

static void put_text(hs_buf *b, u32 field, const char *text) {
  pb_put_bytes(b, field, text, strlen(text));
}

// An entry of a plane's map from ids to names, without what follows the name.
static void put_stat_name(hs_buf *b, i64 id, const char *name) {
  size_t entry = pb_begin(b);
  pb_put_int(b, XP_ENTRY_KEY, id);
  size_t value = pb_begin(b);
  pb_put_int(b, XP_STATKIND_ID, id);
  put_text(b, XP_STATKIND_NAME, name);
  pb_end(b, XP_ENTRY_VALUE, value);
  pb_end(b, XP_PLANE_STAT_METADATA, entry);
}

static void put_number(hs_buf *b, u32 field, i64 stat, u32 kind, u64 v) {
  size_t mark = pb_begin(b);
  pb_put_int(b, XP_STAT_METADATA_ID, stat);
  pb_put_int_always(b, kind, (i64)v);
  pb_end(b, field, mark);
}

static void put_blob(hs_buf *b, u32 field, i64 stat, u32 kind, const void *p, size_t n) {
  size_t mark = pb_begin(b);
  pb_put_int(b, XP_STAT_METADATA_ID, stat);
  pb_put_bytes(b, kind, p, n);
  pb_end(b, field, mark);
}

static u64 whole(double v) { return v >= 0 && v < 0x1p63 ? (u64)v : 0; }

static void put_kernel(hs_buf *b, const prof_xwritten *x, u32 k, u32 id) {
  size_t entry = pb_begin(b);
  pb_put_int(b, XP_ENTRY_KEY, id);
  size_t value = pb_begin(b);
  pb_put_int(b, XP_EVENTKIND_ID, id);
  put_text(b, XP_EVENTKIND_NAME, x->kernels[k]);
  put_text(b, XP_EVENTKIND_DISPLAY_NAME, x->kernels[k]);
  const char *kind = x->kinds[k];
  put_blob(b, XP_EVENTKIND_STATS, STAT_CATEGORY, XP_STAT_STR, kind, strlen(kind));
  put_number(b, XP_EVENTKIND_STATS, STAT_FLOPS, XP_STAT_UINT64, whole(x->flops[k]));
  put_number(b, XP_EVENTKIND_STATS, STAT_BYTES, XP_STAT_UINT64, whole(x->bytes[k]));
  pb_end(b, XP_ENTRY_VALUE, value);
  pb_end(b, XP_PLANE_EVENT_METADATA, entry);
}

static void put_event(hs_buf *b, const prof_xwritten *x, const prof_xrun *r, const prof_event *e,
                      numbers from) {
  size_t mark = pb_begin(b);
  pb_put_int(b, XP_EVENT_METADATA_ID, from.kernel + e->kernel + 1);
  pb_put_int_always(b, XP_EVENT_OFFSET_PS, (i64)((r->begin_ns + e->begin_ns) * 1000));
  pb_put_int(b, XP_EVENT_DURATION_PS, (i64)(e->ns * 1000));
  put_number(b, XP_EVENT_STATS, STAT_OP, XP_STAT_REF, from.text + 1 + e->kernel);
  put_number(b, XP_EVENT_STATS, STAT_MODULE, XP_STAT_REF, from.text);
  put_number(b, XP_EVENT_STATS, STAT_PROGRAM, XP_STAT_UINT64, x->id);
  put_number(b, XP_EVENT_STATS, STAT_RUN, XP_STAT_UINT64, r->number);
  pb_end(b, XP_LINE_EVENTS, mark);
}

static void put_device(hs_buf *b, const prof_xtrace *x) {
  numbers *from = hs_calloc(x->nprograms + 1, sizeof *from);
  from[0].text = NSTATS + 1;
  for (u32 p = 0; p < x->nprograms; p++) {
    u32 n = x->programs[p].nkernels;
    from[p + 1] = (numbers){from[p].kernel + n, from[p].text + n + 1};
  }
  u64 end = 0;
  for (u32 r = 0; r < x->nruns; r++) end = HS_MAX(end, x->runs[r].begin_ns + x->runs[r].ns);
  pb_put_int(b, XP_PLANE_ID, 1);
  put_text(b, XP_PLANE_NAME, x->device);
  size_t line = pb_begin(b);
  pb_put_int(b, XP_LINE_ID, 1);
  put_text(b, XP_LINE_NAME, "kernels");
  pb_put_int(b, XP_LINE_TIMESTAMP_NS, (i64)x->start_ns);
  pb_put_int(b, XP_LINE_DURATION_PS, (i64)(end * 1000));
  for (u32 r = 0; r < x->nruns; r++) {
    const prof_xrun *run = &x->runs[r];
    for (u32 k = 0; k < run->nevents; k++)
      put_event(b, &x->programs[run->program], run, &run->events[k], from[run->program]);
  }
  pb_end(b, XP_PLANE_LINES, line);
  for (u32 p = 0; p < x->nprograms; p++)
    for (u32 k = 0; k < x->programs[p].nkernels; k++)
      put_kernel(b, &x->programs[p], k, from[p].kernel + k + 1);
  for (u32 k = 0; k < NSTATS; k++) put_stat_name(b, k + 1, stat_names[k]);
  for (u32 p = 0; p < x->nprograms; p++) {
    const prof_xwritten *w = &x->programs[p];
    put_stat_name(b, from[p].text, w->module);
    for (u32 k = 0; k < w->nkernels; k++) put_stat_name(b, from[p].text + 1 + k, w->kernels[k]);
  }
  hs_free(from);
}

static void put_module(hs_buf *b, const prof_xwritten *x) {
  char *name = hs_format("%s(%llu)", x->module, (unsigned long long)x->id);
  size_t entry = pb_begin(b);
  pb_put_int(b, XP_ENTRY_KEY, (i64)x->id);
  size_t value = pb_begin(b);
  pb_put_int(b, XP_EVENTKIND_ID, (i64)x->id);
  put_text(b, XP_EVENTKIND_NAME, name);
  put_blob(b, XP_EVENTKIND_STATS, 1, XP_STAT_BYTES, x->proto, x->nproto);
  pb_end(b, XP_ENTRY_VALUE, value);
  pb_end(b, XP_PLANE_EVENT_METADATA, entry);
  hs_free(name);
}

void prof_xspace_write(const prof_xtrace *x, hs_buf *out) {
  size_t mark = pb_begin(out);
  put_device(out, x);
  pb_end(out, XP_SPACE_PLANES, mark);
  mark = pb_begin(out);
  put_text(out, XP_PLANE_NAME, "/host:metadata");
  for (u32 p = 0; p < x->nprograms; p++) put_module(out, &x->programs[p]);
  put_stat_name(out, 1, "hlo_proto");
  pb_end(out, XP_SPACE_PLANES, mark);
}
