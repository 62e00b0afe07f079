// terminal.c: every command at a terminal, on modules whose names, metadata and targets hold
// what a terminal would obey: nothing of it may arrive. The commands come from the table; each
// runs with several arguments that make it look at the hostile parts, with colours and without.
// A second session reads files of every other kind that hold it, in names or contents, and runs
// on a plug-in whose errors do. What may arrive is UTF-8 text, line ends, tabs, our own colours
// (never those of the inputs) and the progress line's erasure.
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/visible.h"
#include "repl/registry.h"
#include "repl/shell/command.h"
#include "tests/harness/driver.h"
#include "tests/harness/terminal.h"

// An escape sequence, a bell, C1 as UTF-8 and as a byte, marks of direction, a line separator, a
// tag, a backspace, a carriage return, DEL.
#define EVIL_COLOR "\033[8;45m"
#define EVIL                             \
  "\033]0;pwn\007" EVIL_COLOR "\302\233" \
  "31m\233\xE2\x80\xAE\xE2\x81\xA6\xD8\x9C\xE2\x80\xA8\xF3\xA0\x81\x81\b\r\177"
// The same as the text format of protos spells it.
#define EVIL_PROTO \
  "\\033]0;pwn\\007\\033[8;45m\\302\\23331m\\342\\200\\256\\342\\201\\246\\342\\200\\250\\177"

#define EVIL_NAME                        \
  "\033]0;pwn\007" EVIL_COLOR "\302\233" \
  "31m\xE2\x80\xAE\xE2\x81\xA6\xE2\x80\xA8\177"

static int failures;
static tty at;

static const char text_module[] =
    "HloModule m\nENTRY e {\n"
    "  p = f32[4] parameter(0), metadata={op_name=\"" EVIL "\" source_file=\"" EVIL
    "\" source_line=3}, backend_config={\"x\":\"" EVIL "\"}, frontend_attributes={k=\"" EVIL "\"}\n"
    "  q = f32[4] negate(p), metadata={op_type=\"" EVIL "\" op_name=\"a/" EVIL "\"}\n"
    "  ROOT n = f32[4] custom-call(q), custom_call_target=\"x" EVIL "\", backend_config=\"" EVIL
    "\"\n}\n";
#define F32_4 "element_type: F32 dimensions: 4 layout { minor_to_major: 0 }"
static const char proto_module[] =
    "name: \"" EVIL_PROTO "\"\nentry_computation_name: \"" EVIL_PROTO
    "\"\nentry_computation_id: 1\n"
    "computations {\n  name: \"" EVIL_PROTO "\"\n  id: 1\n  root_id: 2\n"
    "  instructions {\n    name: \"p" EVIL_PROTO "\"\n    opcode: \"parameter\"\n    id: 1\n"
    "    shape { " F32_4 " }\n"
    "    metadata { op_name: \"" EVIL_PROTO "\" source_file: \"" EVIL_PROTO
    "\" source_line: 3 }\n  }\n"
    "  instructions {\n    name: \"n" EVIL_PROTO
    "\"\n    opcode: \"negate\"\n    id: 2\n    operand_ids: 1\n"
    "    shape { " F32_4 " }\n  }\n"
    "  program_shape { parameters { " F32_4 " } result { " F32_4 " } }\n}\n"
    "host_program_shape { parameters { " F32_4 " } result { " F32_4 " } }\n";

static void put_file(const char *name, const char *text) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", at.home, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) perror(path), failures++;
  if (fd >= 0) close(fd);
}

// Runs one script at a pseudo-terminal; everything that arrived is in at.seen.
static void run(const char *script, bool color) {
  const char *const argv[] = {"hlosh",
                              "--keep-going",
                              "--no-rc",
                              "--deadline=5",
                              color ? "--color=always" : "--color=never",
                              "-f",
                              script,
                              NULL};
  int status = tty_start(&at, at.home, argv) ? tty_end(&at, 100000) : -1;
  if (status < 0 || !WIFEXITED(status))
    failures++, printf("FAIL %s: wait status %x\n", script, (unsigned)status);
}

// The terminal's own line ends and our erasure of the progress line are taken out before.
static void check(const char *what, const hs_buf *seen) {
  static const char erase[] = "\r\033[K";
  hs_buf b = {0};
  if (getenv("HLOSH_SHOW_SEEN")) fwrite(seen->p, 1, seen->n, stderr);
  for (size_t k = 0; k < seen->n; k++) {
    if (seen->p[k] == '\r' && k + 1 < seen->n && seen->p[k + 1] == '\n') continue;
    if (seen->n - k >= 4 && memcmp(seen->p + k, erase, 4) == 0) k += 3;
    else hs_buf_putc(&b, seen->p[k]);
  }
  size_t line = 0;
  for (size_t k = 0; k < b.n; k++) {
    if (b.p[k] != '\n' && k + 1 < b.n) continue;
    if (!hs_is_visible(b.p + line, k + 1 - line, HS_PAINTED)) {
      hs_buf shown = {0};
      hs_buf_put_visible(&shown, b.p + line, k - line, HS_PAINTED);
      if (failures++ < 20) printf("FAIL %s: arrived raw: %s\n", what, hs_buf_cstr(&shown));
      hs_buf_free(&shown);
    }
    line = k + 1;
  }
  if (strstr(hs_buf_cstr(&b), EVIL_COLOR))
    failures++, printf("FAIL %s: a colour of the input arrived\n", what);
  // The commands did look at the hostile parts.
  if (!strstr(hs_buf_cstr(&b), "\\x1b]0;pwn\\x07")) failures++, printf("FAIL %s: not seen\n", what);
  hs_buf_free(&b);
}

// Commands that end the session, leave the module, or take long without showing it.
static bool left_out(const char *name) {
  static const char *const names[] = {"quit",      "exit",   "!",   "q",
                                      "calibrate", "source", "new", "close"};
  for (size_t k = 0; k < HS_COUNT(names); k++)
    if (strcmp(name, names[k]) == 0) return true;
  return false;
}

static void put_commands(hs_buf *b, const char *file, u32 from, u32 to) {
  static const char *const arguments[] = {
      "", " 1", " n", " \"n" EVIL_NAME "\"", " \xE2\x80\xAE\033[31m", " nosuch" EVIL};
  hs_buf_printf(b, "load %s\nbackend interp\n", file);
  for (u32 k = from; k < to && k < repl_command_count; k++) {
    const repl_command *c = &repl_commands[k];
    if ((c->needs & REPL_HIDDEN) || left_out(c->name)) continue;
    for (size_t j = 0; j < HS_COUNT(arguments); j++)
      hs_buf_printf(b, "%s%s\nuse 1\n", c->name, arguments[j]);
    if (*c->example && !strpbrk(c->example, "!>") && !strstr(c->example, "new"))
      hs_buf_printf(b, "%s\nuse 1\n", c->example);
  }
  hs_buf_puts(b, "info 1; info p; info n; list; find op_name ~ *; src; show p; print; diff\n");
}

// ---- files of other kinds, a plug-in, what is typed ---------------------------------------------
// Of a file's name: bytes that are not UTF-8 too. And in JSON.
#define EVIL_FILE "\033]0;pwn\007" EVIL_COLOR "\377\300\257\xE2\x80\xAE"
#define EVIL_JSON "\\u001b]0;pwn\\u0007\\u001b[8;45m\xE2\x80\xAE"
#define MODULE "HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }"

static const struct {
  const char *name, *text;
} evil_files[] = {
    {"x" EVIL_FILE ".hlo", MODULE},
    {"invalid" EVIL_FILE ".hlo",
     "HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[5] negate(p) }"},
    {"syntax.hlo", "HloModule " EVIL " ENTRY { " EVIL_FILE},
    {"syntax.mlir", "module @" EVIL " { func.func @main() { \"" EVIL_FILE "\"() } }"},
    {"a.args", "arg 0 f32[4] " EVIL " 1 2\n"},
    {"a.json", "{\"" EVIL_JSON "\": \"" EVIL_FILE "\"}"},
    {"a.txtpb", "name: \"" EVIL_PROTO "\" " EVIL ": 1"},
    {"a.hlosh", "print " EVIL_FILE "\n" EVIL "\n"},
    {"b/bundle.json", "{\"schema\": \"hlosh-bundle/1\", \"module\": \"" EVIL_JSON
                      "\", \"backend\": \"" EVIL_JSON "\", \"" EVIL_JSON "\": 1}"},
    {"b/SHA256SUMS", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  " EVIL},
    {"d/module_0001.jit_f.0001." EVIL_FILE ".after_" EVIL_FILE ".before_" EVIL_FILE ".txt", MODULE},
    {"d/module_0001.jit_f.0002." EVIL_FILE ".after_" EVIL_FILE ".before_" EVIL_FILE ".txt", MODULE},
};

// Words that the shell quotes in its answer; each with every command below it.
static const char evil_lines[] =
    "load \"x" EVIL_FILE ".hlo\"; modules; backend interp; run; report rep; replay rep; list\n"
    "load \"invalid" EVIL_FILE ".hlo\"; verify; run\n"
    "load syntax.hlo\nload syntax.mlir\nload d; modules; history; load d/*\nsweep d\nload .\n"
    "use 1\ninputs a.args\n"
    "inputs a.json\ninputs p=\"" EVIL_FILE
    "\"\ntarget a.txtpb\ntarget a.json\nestimate --on=\"" EVIL_FILE "\"\n"
    "speedup --seconds=0.01 --against=a.json\nsource a.hlosh\nreplay b --changed\nreplay b\n"
    "save \"s" EVIL_FILE ".hlo\"\nplot -o \"g" EVIL_FILE ".dot\"\nplot --by=\"" EVIL_FILE "\"\n"
    "values --save=\"v" EVIL_FILE ".npz\"\ntrace \"t" EVIL_FILE ".json\" --seconds=0.01\n"
    "customcall load \"" EVIL_FILE "\"\nbackend jax \"" EVIL_FILE "\"\nbackend \"" EVIL_FILE "\"\n"
    "alias zz = \"" EVIL_FILE "\"\nzz\nalias \"" EVIL_FILE "\" = print\nalias\nmark \"" EVIL_FILE
    "\"\nwhere\nhistory\n"
    "goto \"" EVIL_FILE "\"\nfind p where \"" EVIL_FILE "\"\npipeline define \"" EVIL_FILE
    "\" = dce\nbreak \"" EVIL_FILE "\"\n"
    "assert \"" EVIL_FILE "\"\nset threads \"" EVIL_FILE "\"\nset \"" EVIL_FILE
    "\"\nhelp \"" EVIL_FILE "\"\nexplain \"" EVIL_FILE "\"\n"
    "resize \"" EVIL_FILE "\"=3\nfit 1GB \"" EVIL_FILE "\"\nschedule \"" EVIL_FILE
    "\"\ndump \"" EVIL_FILE "\"\nxla \"" EVIL_FILE "\"\n"
    "new mine\nparam x f32[4]\ny = \"" EVIL_FILE "\"(x)\nrename x \"" EVIL_FILE
    "\"\nretype x \"" EVIL_FILE "\"\n"
    "comp f(a f32[4]) { \"" EVIL_FILE "\" }\nuse 1\n"
    "backend pjrt ./p-rude.so; compile; run; xla cost; speedup --seconds=0.01; check pjrt interp\n"
    "backend pjrt ./p-rudeend.so; compile; run; speedup --seconds=0.01; sweep d\n"
    "backend pjrt \"" EVIL_FILE ".so\"\nbackend pjrt \"./q" EVIL_FILE
    "-ok.so\"; run; backends; report r2\n"
    "HloModule " EVIL "\n";

static void copy_plugin(const char *name) {
  size_t n = 0;
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%.*s/tests/libfake_pjrt.so",
           (int)(strrchr(at.hlosh, '/') - at.hlosh), at.hlosh);
  char *p = drv_read(path, &n);
  snprintf(path, sizeof path, "%s/%s", at.home, name);
  FILE *f = p ? fopen(path, "we") : NULL;
  if (!f || fwrite(p, 1, n, f) != n) perror(path), failures++;
  if (f) fclose(f);
  hs_free(p);
}

static void other_inputs(bool color) {
  static const char *const folders[] = {"b", "d"};
  for (size_t k = 0; k < HS_COUNT(folders); k++) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", at.home, folders[k]);
    (void)mkdir(path, 0777);
  }
  for (size_t k = 0; k < HS_COUNT(evil_files); k++)
    put_file(evil_files[k].name, evil_files[k].text);
  static const char *const plugins[] = {"p-rude.so", "p-rudeend.so", "q" EVIL_FILE "-ok.so"};
  for (size_t k = 0; k < HS_COUNT(plugins); k++) copy_plugin(plugins[k]);
  put_file("script", evil_lines);
  run("script", color);
  check("other inputs", &at.seen);
}

int main(int argc, char **argv) {
  (void)argc;
  int rc = tty_open(&at, argv[0]);
  if (rc) return rc;
  put_file("m.hlo", text_module);
  put_file("m.pbtxt", proto_module);
  put_file("name" EVIL ".hlo", "HloModule" EVIL " ENTRY {" EVIL);
  static const char *const files[] = {"m.hlo", "m.pbtxt"};
  for (size_t f = 0; f < HS_COUNT(files); f++) {
    hs_buf script = {0};
    hs_buf_puts(&script, "load \"name" EVIL ".hlo\"\n");
    put_commands(&script, files[f], 0, repl_command_count);
    put_file("script", hs_buf_cstr(&script));
    run("script", f == 0);
    check(files[f], &at.seen);
    hs_buf_free(&script);
  }
  other_inputs(true);
  tty_close(&at);
  printf("terminal: %s\n", failures ? "failed" : "ok");
  return failures ? 1 : 0;
}
