// host.c — the worker processes that hold plug-ins.
//
// A plug-in reads its environment once and holds one client, so workers are keyed by their
// configuration: file or child, threads, devices, target. At most MAX_HOSTS run at the same time;
// the least recently used is ended first. The plug-in's stderr goes to memory that the shell maps
// too, so that a crash can be explained: XLA's checks print one line with the file, the line and
// the condition before they abort.
#include "backends/pjrt/pjrt.h"
#include "backends/worker_wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_HOSTS = 4, MAX_LOG = 64 << 20, OPEN_S = 120 };

struct pjrt_host {
  char *key;
  pjrt_config config;  // strings owned
  worker *w;
  u64 generation;  // of the worker in which the plug-in was opened; 0: never
  pjrt_about about;
  int log_fd;
  char *log;
  size_t log_n;
  u64 used;  // when (ns)
};

// Those of one context.
struct backend_hosts {
  HS_VEC(pjrt_host *) v;
};

void pjrt_about_free(pjrt_about *a) {
  hs_free(a->attributes);
  hs_free(a->extensions);
  *a = (pjrt_about){0};
}

static void host_free(pjrt_host *h) {
  worker_free(h->w);
  if (h->log_fd >= 0) close(h->log_fd);
  pjrt_about_free(&h->about);
  hs_free((void *)(uintptr_t)h->config.path);
  hs_free((void *)(uintptr_t)h->config.target);
  hs_free((void *)(uintptr_t)h->config.flags);
  hs_free(h->log);
  hs_free(h->key);
  hs_free(h);
}

static void hosts_free(backend_hosts *hosts) {
  for (size_t k = 0; k < hosts->v.n; k++) host_free(hosts->v.v[k]);
  hs_vec_free(&hosts->v);
  hs_free(hosts);
}

static backend_hosts *hosts_of(backend_context *c) {
  backend_hosts **hosts = backend_context_hosts(c, hosts_free);
  if (!*hosts) *hosts = hs_calloc(1, sizeof **hosts);
  return *hosts;
}

// The key of a configuration. The content of a .json file is part of it, not its name alone.
static hs_status key_of(const pjrt_config *c, char **key) {
  pjrt_entry e;
  if (c->child) {
    *key = hs_format("%u %u %d %s %s %s", c->threads, c->devices, c->trace, c->child->setting,
                     c->flags ? c->flags : "", c->path);
    return HS_GOOD;
  }
  HS_TRY(pjrt_entry_read(c->path, &e));
  u64 options = e.options.n ? hs_hash_bytes(e.options.p, e.options.n, 2) : 0;
  *key = hs_format(
      "%u %u %d %016llx %016llx %s %s %s", c->threads, c->devices, c->trace,
      (unsigned long long)(c->target ? hs_hash_bytes(c->target, strlen(c->target), 1) : 0),
      (unsigned long long)options, c->flags ? c->flags : "", c->path, e.library);
  pjrt_entry_free(&e);
  return HS_GOOD;
}

// The numbers that a child needs to know, as arguments.
static const struct {
  const char *key;
  u32 value;
} numbers[] = {{"fd", WORKER_FD},
               {"magic", WORKER_MAGIC},
               {"ping", WORKER_REQ_PING},
               {"open", WORKER_REQ_PJRT_OPEN},
               {"compile", WORKER_REQ_PJRT_COMPILE},
               {"run", WORKER_REQ_PJRT_RUN},
               {"release", WORKER_REQ_PJRT_RELEASE},
               {"E_INTERNAL", HS_E_INTERNAL},
               {"E_NO_MEMORY", HS_E_NO_MEMORY},
               {"E_NOT_BUILT", HS_E_NOT_BUILT},
               {"E_UNSUPPORTED", HS_E_UNSUPPORTED},
               {"E_COMPILE", HS_E_COMPILE},
               {"E_RUN", HS_E_RUN},
               {"E_WORKER", HS_E_WORKER}};

static worker *child_new(const pjrt_config *c) {
  enum { BEFORE = 3 };  // path, -c, program
  const char *argv[BEFORE + HS_COUNT(numbers) + 1] = {c->path, "-c", c->child->program};
  char text[HS_COUNT(numbers)][40];
  for (size_t k = 0; k < HS_COUNT(numbers); k++) {
    snprintf(text[k], sizeof text[k], "%s=%u", numbers[k].key, numbers[k].value);
    argv[BEFORE + k] = text[k];
  }
  return worker_new_of(&(worker_program){
      .exe = c->path, .what = c->child->what, .argv = argv, .env = c->child->env});
}

static pjrt_host *host_new(const pjrt_config *c, char *key) {
  pjrt_host *h = hs_calloc(1, sizeof *h);
  h->key = key;
  h->config = *c;
  h->config.path = hs_strdup(c->path);
  h->config.target = c->target ? hs_strdup(c->target) : NULL;
  h->config.flags = c->flags ? hs_strdup(c->flags) : NULL;
  h->w = c->child ? child_new(c) : worker_new(NULL);
  h->log_fd = -1;
  return h;
}

// ---- the log ------------------------------------------------------------------------------------

static void read_log(pjrt_host *h) {
  struct stat st;
  h->log_n = 0;
  if (h->log_fd < 0 || fstat(h->log_fd, &st) != 0 || st.st_size <= 0) return;
  size_t n = HS_MIN((size_t)st.st_size, (size_t)MAX_LOG);
  char *p = hs_try_alloc(n + 1);
  if (!p) return;
  off_t from = st.st_size - (off_t)n;
  ssize_t got = pread(h->log_fd, p, n, from);
  hs_free(h->log);
  h->log = p;
  h->log_n = got > 0 ? (size_t)got : 0;
  h->log[h->log_n] = '\0';
}

const char *pjrt_host_log(pjrt_host *h, size_t *n) {
  read_log(h);
  *n = h->log_n;
  return h->log_n ? h->log : "";
}

// "F0000 00:00:00.0 123 layout.h:99] Check failed: x > 0" -> "layout.h:99: Check failed: x > 0".
// The first such line counts.
static bool fatal_line(const char *log, hs_buf *out) {
  for (const char *p = log; *p;) {
    size_t n = strcspn(p, "\n");
    const char *end = p + n, *mark = memchr(p, ']', n);
    if (p[0] == 'F' && n > 5 && p[1] >= '0' && p[1] <= '9' && mark) {
      const char *place = mark;
      while (place > p && place[-1] != ' ') place--;
      hs_buf_printf(out, "%.*s:%.*s", (int)(mark - place), place,
                    (int)HS_MIN((size_t)(end - mark - 1), (size_t)600), mark + 1);
      return true;
    }
    if (!strncmp(p, "terminate called", 16)) {
      hs_buf_printf(out, "%.*s", (int)HS_MIN(n, (size_t)600), p);
      return true;
    }
    p = *end ? end + 1 : end;
  }
  return false;
}

static void last_line(const char *log, size_t n, hs_buf *out) {
  while (n && (log[n - 1] == '\n' || log[n - 1] == ' ')) n--;
  size_t from = n;
  while (from && log[from - 1] != '\n') from--;
  hs_buf_printf(out, "%.*s", (int)HS_MIN(n - from, (size_t)600), log + from);
}

// When the worker died: puts the failed check of XLA into the message.
static hs_status explain(pjrt_host *h, hs_status s) {
  if (s.err->code != HS_E_WORKER || worker_pid(h->w)) return s;
  read_log(h);
  hs_buf why = {0};
  if (h->log_n && fatal_line(h->log, &why)) {
    char *message = hs_strdup(s.err->message);
    hs_status_drop(s);
    s = hs_with_note(hs_fail(HS_E_WORKER, "%s ended its process: %s",
                             h->config.child ? h->config.child->what : "the plug-in",
                             hs_buf_cstr(&why)),
                     "%s", message);
    hs_free(message);
  } else if (h->log_n) {
    last_line(h->log, h->log_n, &why);
    s = hs_with_note(s, "%s: %s", h->config.child ? "its last line" : "the plug-in's last line",
                     hs_buf_cstr(&why));
  }
  hs_buf_free(&why);
  return s;
}

hs_status pjrt_host_call(pjrt_host *h, const char *step, u32 kind, const hs_buf *q, const int *fds,
                         u32 nfds, double deadline_s, void **reply, size_t *n) {
  h->used = hs_now_ns();
  if (h->log_fd >= 0 && ftruncate(h->log_fd, 0) != 0)
    return hs_fail_errno(HS_E_IO, "the plug-in's log");
  hs_status s = worker_call(h->w, step, kind, q->p, q->n, fds, nfds, deadline_s, reply, n);
  return hs_ok(s) ? s : explain(h, s);
}

// ---- opening ------------------------------------------------------------------------------------

static void get_text(wire_reader *r, char out[64]) {
  hs_str s = wire_get_bytes(r);
  size_t n = HS_MIN(s.n, (size_t)63);
  memcpy(out, s.p, n);
  out[n] = '\0';
}

static char *get_line(wire_reader *r) {
  hs_str s = wire_get_bytes(r);
  return hs_format("%.*s", (int)s.n, s.p);
}

// XLA_FLAGS of the worker: those of the environment and ours; NULL where there are none of ours.
// Freed by the caller.
static char *worker_flags(const pjrt_host *h) {
  const char *given = getenv("XLA_FLAGS"), *own = h->config.flags;
  // a plug-in is told the number of devices when its client is made, jaxlib only by a flag
  char *count = h->config.child && h->config.devices > 1
                    ? hs_format("--xla_force_host_platform_device_count=%u", h->config.devices)
                    : NULL;
  char *flags = own || count
                    ? hs_format("%s %s %s", given ? given : "", own ? own : "", count ? count : "")
                    : NULL;
  hs_free(count);
  return flags;
}

// The environment that the worker sets before it opens the plug-in: a count, and names and values.
static void put_environment(hs_buf *q, const pjrt_host *h) {
  char threads[16], *flags = worker_flags(h);
  snprintf(threads, sizeof threads, "%u", h->config.threads);
  const struct {
    const char *name, *value;
    bool wanted;
  } env[] = {
      {"NPROC", threads, h->config.threads != 0},
      {"PJRT_NPROC", threads, h->config.threads != 0},
      {"TF_CPP_VMODULE", "hlo_pass_pipeline=2,cpu_compiler=1,gpu_compiler=1", h->config.trace},
      {"TF_CPP_MIN_LOG_LEVEL", "0", h->config.trace && h->config.child},
      {"XLA_FLAGS", flags, flags != NULL}};
  u32 wanted = 0;
  for (size_t k = 0; k < HS_COUNT(env); k++) wanted += env[k].wanted;
  wire_put_u32(q, wanted);
  for (size_t k = 0; k < HS_COUNT(env); k++) {
    if (!env[k].wanted) continue;
    wire_put_str(q, env[k].name);
    wire_put_str(q, env[k].value);
  }
  hs_free(flags);
}

// What the worker says of the plug-in that it has opened; false: less than that.
static bool read_about(pjrt_about *about, const void *reply, size_t n) {
  wire_reader r = {reply, n, false};
  pjrt_about_free(about);
  about->major = (int)wire_get_u32(&r);
  about->minor = (int)wire_get_u32(&r);
  about->functions = wire_get_u32(&r);
  get_text(&r, about->stablehlo);
  get_text(&r, about->stablehlo_minimum);
  about->attributes = get_line(&r);
  about->extensions = get_line(&r);
  return !r.bad;
}

static hs_status open_plugin(pjrt_host *h) {
  hs_buf q = {0};
  pjrt_entry entry = {0};
  if (!h->config.child) HS_TRY(pjrt_entry_read(h->config.path, &entry));
  wire_put_str(&q, entry.library);
  put_environment(&q, h);
  wire_put_u32(&q, entry.noptions);
  wire_put(&q, entry.options.p, entry.options.n);
  pjrt_entry_free(&entry);
  if (h->log_fd < 0) {
    h->log_fd = memfd_create("hlosh plug-in log", MFD_CLOEXEC);
    if (h->log_fd >= 0) fcntl(h->log_fd, F_SETFL, O_APPEND);
  }
  hs_status started = worker_start(h->w);
  if (!hs_ok(started)) {
    hs_buf_free(&q);
    return started;
  }
  void *reply = NULL;
  size_t n = 0;
  const char *step = h->config.child ? "importing jaxlib" : "loading a plug-in";
  hs_status s = pjrt_host_call(h, step, WORKER_REQ_PJRT_OPEN, &q, &h->log_fd, h->log_fd >= 0,
                               OPEN_S, &reply, &n);
  hs_buf_free(&q);
  if (hs_ok(s) && !read_about(&h->about, reply, n))
    s = hs_fail(HS_E_WORKER, "the answer to %s is cut short", step);
  hs_free(reply);
  if (!hs_ok(s)) {
    worker_kill(h->w);  // a plug-in that is only partly open is of no use
    return s;
  }
  h->generation = worker_generation(h->w);
  return HS_GOOD;
}

// Ends the least recently used worker.
static void drop_oldest(backend_hosts *hosts) {
  size_t oldest = 0;
  for (size_t k = 1; k < hosts->v.n; k++)
    if (worker_pid(hosts->v.v[k]->w) &&
        (!worker_pid(hosts->v.v[oldest]->w) || hosts->v.v[k]->used < hosts->v.v[oldest]->used))
      oldest = k;
  worker_kill(hosts->v.v[oldest]->w);  // programs that point to it are compiled again elsewhere
  if (hosts->v.v[oldest]->log_fd >= 0) close(hosts->v.v[oldest]->log_fd);
  hosts->v.v[oldest]->log_fd = -1;
}

// Number of hosts with a running process.
static u32 running(const backend_hosts *hosts) {
  u32 n = 0;
  for (size_t k = 0; k < hosts->v.n; k++) n += worker_pid(hosts->v.v[k]->w) != 0;
  return n;
}

hs_status pjrt_host_get(backend_context *context, const pjrt_config *c, pjrt_host **out) {
  backend_hosts *hosts = hosts_of(context);
  char *key;
  HS_TRY(key_of(c, &key));
  pjrt_host *h = NULL;
  for (size_t k = 0; k < hosts->v.n && !h; k++)
    if (strcmp(hosts->v.v[k]->key, key) == 0) h = hosts->v.v[k];
  if (h) hs_free(key);
  else {
    h = host_new(c, key);
    hs_vec_push(&hosts->v, h);
  }
  *out = h;
  h->used = hs_now_ns();
  if (worker_pid(h->w) && h->generation == worker_generation(h->w)) return HS_GOOD;
  if (running(hosts) >= MAX_HOSTS) drop_oldest(hosts);
  return open_plugin(h);
}

worker *pjrt_host_worker(pjrt_host *h) { return h->w; }

hs_status pjrt_host_describe(backend_context *context, const pjrt_config *c,
                             const pjrt_about **out) {
  backend_hosts *hosts = hosts_of(context);
  for (size_t k = 0; k < hosts->v.n; k++) {
    const pjrt_host *h = hosts->v.v[k];
    if (!h->generation || h->config.child != c->child || strcmp(h->config.path, c->path) != 0)
      continue;
    *out = &h->about;
    return HS_GOOD;
  }
  pjrt_host *h;
  HS_TRY(pjrt_host_get(context, c, &h));
  *out = &h->about;
  return HS_GOOD;
}

hs_status pjrt_describe(const char *path, pjrt_about *out) {
  const pjrt_config c = {.path = path};
  pjrt_host *h = host_new(&c, hs_strdup(""));
  hs_status s = open_plugin(h);
  *out = h->about;
  h->about = (pjrt_about){0};
  host_free(h);
  return s;
}
