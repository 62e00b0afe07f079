// kernels.c — the kernels of a program for a GPU: launches with grid, block and shared memory,
// and PTX.
//
// The API has no call for these; the plug-in writes them to files (xla_dump_to):
// NAME.thunk_sequence.txt has a line per step of the program,
//     014: kCustomKernel       [prev=012 (1) | next=015 (1) ] gemm_fusion_dot_1 grid: [64, 1, 1]
//                              threads: [64, 1, 1] shared_memory: 1024 bytes
// indented below the loop or branch that it belongs to; NAME.thunk_metadata.txt has the instruction
// of each step, by number (profile_annotation: "gemm_fusion_dot.1" thunk_id: 14); NAME.N.ptx are
// the kernels' texts. They declare shared memory in addition to what the launch requests. Registers
// and stack are in the machine code, of which the worker sends a list (serve_cubin.c).
#include "backends/pjrt/pjrt.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct reading {
  hs_arena *a;
  pjrt_kernels *out;
  HS_VEC(char *) ptx;
  HS_VEC(u32) ids;    // of the steps
  const char *about;  // text of the metadata
} reading;

static bool ends_with(const char *s, const char *tail) {
  size_t n = strlen(s), k = strlen(tail);
  return n >= k && strcmp(s + n - k, tail) == 0;
}

static char *read_whole(hs_arena *a, const char *path) {
  hs_buf b = {0};
  char chunk[65536];
  FILE *f = fopen(path, "rb");
  for (size_t n; f && (n = fread(chunk, 1, sizeof chunk, f)) > 0;) hs_buf_put(&b, chunk, n);
  if (f) fclose(f);
  char *text = hs_arena_strndup(a, b.p, b.n);
  hs_buf_free(&b);
  return text;
}

// "grid: [64, 1, 1]"
static void read_three(const char *line, const char *end, const char *key, i64 out[3]) {
  const char *p = memmem(line, (size_t)(end - line), key, strlen(key));
  for (u32 k = 0; p && k < 3; k++) {
    while (p < end && !isdigit((unsigned char)*p) && *p != ']') p++;
    if (p < end && *p != ']') out[k] = strtoll(p, (char **)(uintptr_t)&p, 10);
  }
}

static void read_step(reading *r, const char *p, const char *end) {
  const char *digits = p;
  while (digits < end && *digits == ' ') digits++;
  const char *colon = digits;
  while (colon < end && isdigit((unsigned char)*colon)) colon++;
  if (colon == digits || end - colon < 3 || colon[0] != ':' || colon[1] != ' ') return;
  const char *kind = colon + 2, *after = kind;
  while (after < end && isalnum((unsigned char)*after)) after++;
  if (after == end) return;
  const char *bracket = memchr(after, ']', (size_t)(end - after)),
             *name = bracket ? bracket + 1 : after;
  while (name < end && *name == ' ') name++;
  const char *stop = name;
  while (stop < end && *stop != ' ') stop++;
  pjrt_kernel k = {.thunk = hs_arena_strndup(r->a, kind, (size_t)(after - kind)),
                   .depth = (u32)(digits - p) / 4,
                   .registers = -1,
                   .frame = -1,
                   .shared = -1,
                   .code_bytes = -1};
  read_three(name, end, "grid: ", k.grid);
  read_three(name, end, "threads: ", k.block);
  const char *shared = memmem(name, (size_t)(end - name), "shared_memory: ", 15);
  if (shared) k.shared = strtoll(shared + 15, NULL, 10);
  k.name = k.grid[0] ? hs_arena_strndup(r->a, name, (size_t)(stop - name)) : k.thunk;
  hs_vec_push(r->out, k);
  hs_vec_push(&r->ids, (u32)strtoul(digits, NULL, 10));
}

static void read_steps(reading *r, const char *text) {
  for (const char *p = text; *p;) {
    const char *end = p + strcspn(p, "\n");
    read_step(r, p, end);
    p = *end ? end + 1 : end;
  }
}

static void name_instructions(reading *r) {
  static const char mark[] = "profile_annotation: \"";
  for (const char *p = r->about; p && (p = strstr(p, mark));) {
    p += sizeof mark - 1;
    size_t n = strcspn(p, "\"\n");
    const char *next = strstr(p, mark), *id = strstr(p, "thunk_id: ");
    if (!id || (next && id > next)) continue;
    u32 number = (u32)strtoul(id + 10, NULL, 10);
    for (size_t k = 0; k < r->ids.n; k++)
      if (r->ids.v[k] == number) r->out->v[k].instr = hs_arena_strndup(r->a, p, n);
  }
}

static bool word_at(const char *p, const char *name, size_t n) {
  return !strncmp(p, name, n) && !isalnum((unsigned char)p[n]) && p[n] != '_' && p[n] != '$';
}

// The text that has ".entry NAME(".
static const char *find_ptx(const reading *r, const char *name) {
  for (size_t k = 0; k < r->ptx.n; k++)
    for (const char *p = r->ptx.v[k]; (p = strstr(p, ".entry ")); p++)
      if (word_at(p + 7, name, strlen(name))) return r->ptx.v[k];
  return NULL;
}

// Bytes of shared memory that a text declares with a size of its own: ".shared .align 4 .b8
// tile[4224];".
static i64 declared_shared(const char *ptx) {
  i64 total = 0;
  for (const char *p = ptx; (p = strstr(p, ".shared ")); p++) {
    const char *line = p, *end = p + strcspn(p, "\n");
    while (line > ptx && line[-1] != '\n') line--;
    const char *bits = memmem(p, (size_t)(end - p), " .b", 3),
               *bracket = memchr(p, '[', (size_t)(end - p));
    bool outside = memmem(line, (size_t)(end - line), ".extern", 7) != NULL;
    if (bits && bracket && bits < bracket && !outside)
      total += strtoll(bits + 3, NULL, 10) / 8 * strtoll(bracket + 1, NULL, 10);
  }
  return total;
}

static void add_machine_code(pjrt_kernels *out, wire_reader *code) {
  for (u32 n = wire_get_u32(code); n && !code->bad; n--) {
    hs_str name = wire_get_bytes(code);
    i64 v[3];
    for (u32 k = 0; k < 3; k++) {
      v[k] = wire_get_i64(code);
      code->bad |= v[k] < -1;  // -1: unknown
    }
    for (size_t k = 0; k < out->n && !code->bad; k++) {
      pjrt_kernel *q = &out->v[k];
      if (!q->grid[0] || !hs_str_eq(name, hs_str_of(q->name))) continue;
      q->registers = v[0];
      q->frame = v[1];
      q->code_bytes = v[2];
    }
  }
}

void pjrt_read_kernels(const char *dir, wire_reader *code, hs_arena *a, pjrt_kernels *out) {
  reading r = {.a = a, .out = out};
  DIR *d = dir ? opendir(dir) : NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    bool steps = ends_with(e->d_name, ".thunk_sequence.txt"),
         about = ends_with(e->d_name, ".thunk_metadata.txt");
    if (!steps && !about && !ends_with(e->d_name, ".ptx")) continue;
    char *path = hs_format("%s/%s", dir, e->d_name), *text = read_whole(a, path);
    if (steps) read_steps(&r, text);
    else if (about) r.about = text;
    else if (*text) hs_vec_push(&r.ptx, text);
    hs_free(path);
  }
  if (d) closedir(d);
  name_instructions(&r);
  for (size_t k = 0; k < out->n; k++) {
    pjrt_kernel *q = &out->v[k];
    q->ptx = q->grid[0] ? find_ptx(&r, q->name) : NULL;
    q->static_shared = q->ptx ? declared_shared(q->ptx) : -1;
  }
  add_machine_code(out, code);
  hs_vec_free(&r.ptx);
  hs_vec_free(&r.ids);
}

// A folder that could not be read to its end is tried once more.
void pjrt_remove_dumps(char *dir) {
  for (u32 tries = 0; dir && tries < 3 && rmdir(dir) != 0; tries++) {
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
      char *path = hs_format("%s/%s", dir, e->d_name);
      if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) unlink(path);
      hs_free(path);
    }
    if (d) closedir(d);
  }
  hs_free(dir);
}

// ---- as the optimized module has them ----------------------------------------------------------
static const char *kind_of(hs_arena *a, const hlo_instr *i) {
  hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  i64 kind = hlo_attr_int(i, HLO_ATTR_KIND, -1);
  char *t;
  if (i->opcode == HLO_CUSTOM_CALL)
    t = hs_format("%.*s", (int)HS_MIN(target.n, (size_t)60), target.p);
  else if (i->opcode == HLO_FUSION && kind >= 0)
    t = hs_format("fusion %s", hlo_enum_text(hlo_attr_kind_of(HLO_ATTR_KIND), kind));
  else return hlo_op_text(i->opcode);
  const char *copy = hs_arena_strndup(a, t, strlen(t));
  hs_free(t);
  return copy;
}

typedef HS_VEC(backend_kernel) kernel_list;

// Instructions of the optimized module that are launched: those of the entry and of what it calls,
// fusions whole.
static void list_kernels(hs_arena *a, const hlo_module *m, const hlo_computation *c, kernel_list *v,
                         u32 depth, u32 *left) {
  hlo_for_each_instr(i, c) {
    if (!*left) return;
    --*left;
    if (i->opcode == HLO_WHILE || i->opcode == HLO_CALL || i->opcode == HLO_CONDITIONAL) {
      for (u32 k = 0; k < hlo_ncalled(i) && depth < 64; k++)
        list_kernels(a, m, hlo_called(i, k), v, depth + 1, left);
      continue;
    }
    if (hlo_op_has(i->opcode, HLO_F_FREE)) continue;
    const hlo_instr *ours = hlo_find_instr(m, i->name);
    hlo_cost cost = hlo_cost_instr(i);
    hs_vec_push(v, ((backend_kernel){.name = i->name,
                                     .kind = kind_of(a, i),
                                     .instr = ours ? ours->id : UINT32_MAX,
                                     .flops = cost.flops,
                                     .bytes = cost.bytes_read + cost.bytes_written}));
  }
}

const backend_kernel *pjrt_list_launched(const hlo_module *optimized, const hlo_module *m,
                                         hs_arena *a, u32 *n) {
  kernel_list v = {0};
  u32 left = 1 << 20;  // nested calls repeat: the list is limited
  list_kernels(a, m, optimized->entry, &v, 0, &left);
  *n = (u32)v.n;
  const backend_kernel *list = v.n ? hs_arena_dup(a, v.v, v.n * sizeof *v.v) : NULL;
  hs_vec_free(&v);
  return list;
}
