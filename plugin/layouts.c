// layouts.c — the layouts extension: in which order the elements of arrays lie. Every buffer, and
// what every program takes and gives, is dense and row-major, so that a layout is its rank. JAX
// reads a layout by its text, as HLO writes it: {1,0}.
#include "plugin/plugin.h"

struct pj_memory_layout {
  plug_handle h;
  char text[4 * HLO_MAX_RANK + 3];
};

static pj_memory_layout *layout_new(u32 rank) {
  pj_memory_layout *l = plug_handle_new(PLUG_LAYOUT, sizeof *l);
  hs_buf b = {0};
  hs_buf_puts(&b, "{");
  for (u32 k = rank; k-- > 0;) hs_buf_printf(&b, k ? "%u," : "%u", k);
  hs_buf_puts(&b, "}");
  memcpy(l->text, hs_buf_cstr(&b), HS_MIN(b.n, sizeof l->text - 1));
  hs_buf_free(&b);
  return l;
}

void plug_layouts_free(pj_memory_layout **v, size_t n) {
  for (size_t k = 0; v && k < n; k++) plug_handle_free(PLUG_LAYOUT, v[k]);
  hs_free(v);
}

// Arguments are looked at as those of the table's functions are.
#define CHECK(a, type, last, kind)                                 \
  do {                                                             \
    if (!plug_sound(a, PJ_SIZE(type, last), kind))                 \
      return plug_unsound(__func__, a, PJ_SIZE(type, last), kind); \
  } while (0)

static pj_error *layout_destroy(pj_layout_arg *a) {
  CHECK(a, pj_layout_arg, layout, PLUG_LAYOUT | PLUG_OR_NULL);
  if (a->layout) plug_handle_free(PLUG_LAYOUT, a->layout);
  return NULL;
}

// The text lives as long as its copy.
static void drop_text(void *copy) { hs_free(copy); }
static pj_error *layout_serialize(pj_layout_serialize *a) {
  CHECK(a, pj_layout_serialize, free, PLUG_LAYOUT);
  char *copy = hs_strdup(a->layout->text);
  a->bytes = copy;
  a->n = strlen(copy);
  a->handle = copy;
  a->free = drop_text;
  return NULL;
}

static pj_error *default_layout(pj_layout_default *a) {
  if (a->rank > HLO_MAX_RANK)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: %zu dimensions, %d are the most", a->rank,
                     HLO_MAX_RANK);
  if (plug_dtype(a->type) == HLO_DT_INVALID)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: element type %d is not known", a->type);
  a->layout = layout_new((u32)a->rank);
  return NULL;
}
static pj_error *client_default(pj_layout_default *a) {
  CHECK(a, pj_layout_default, layout, PLUG_CLIENT);
  return default_layout(a);
}
static pj_error *topology_default(pj_layout_default *a) {
  CHECK(a, pj_layout_default, layout, PLUG_TOPOLOGY);
  return default_layout(a);
}

static pj_error *buffer_layout(pj_layout_of_buffer *a) {
  CHECK(a, pj_layout_of_buffer, layout, PLUG_BUFFER);
  a->layout = layout_new(a->buffer->rank);
  return NULL;
}

// They belong to the program.
static pj_memory_layout **layouts_of(plug_exe *e, pj_memory_layout ***kept, const plug_leaf *leaves,
                                     u32 n) {
  pthread_mutex_lock(&e->lock);
  if (!*kept) {
    *kept = hs_calloc(n + 1, sizeof **kept);
    for (u32 k = 0; k < n; k++) (*kept)[k] = layout_new(leaves[k].shape->rank);
  }
  pthread_mutex_unlock(&e->lock);
  return *kept;
}
static pj_error *output_layouts(pj_layouts_of_executable *a) {
  CHECK(a, pj_layouts_of_executable, v, PLUG_EXECUTABLE);
  plug_exe *e = a->executable->e;
  a->n = e->nouts;
  a->v = layouts_of(e, &e->out_layouts, e->outs, e->nouts);
  return NULL;
}
static pj_error *parameter_layouts(pj_layouts_of_executable *a) {
  CHECK(a, pj_layouts_of_executable, v, PLUG_EXECUTABLE);
  plug_exe *e = a->executable->e;
  a->n = e->nargs;
  a->v = layouts_of(e, &e->arg_layouts, e->args, e->nargs);
  return NULL;
}

pj_extension *plug_layouts_extension(void) {
  static pj_ext_layouts ext = {.base = {.struct_size = sizeof ext, .type = PJ_EXT_LAYOUTS}};
  ext.destroy = (void *)(uintptr_t)layout_destroy;
  ext.serialize = (void *)(uintptr_t)layout_serialize;
  ext.client_default = (void *)(uintptr_t)client_default;
  ext.buffer_layout = (void *)(uintptr_t)buffer_layout;
  ext.topology_default = (void *)(uintptr_t)topology_default;
  ext.output_layouts = (void *)(uintptr_t)output_layouts;
  ext.parameter_layouts = (void *)(uintptr_t)parameter_layouts;
  return &ext.base;
}
