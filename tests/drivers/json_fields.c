// json_fields.c: docs/JSON.md against what the commands print: tests/json_fields docs/JSON.md
//
// A section "## COMMAND" of that file has a line "    hlosh --json ..." and a table of fields. The
// line is run in a folder of its own; of what it prints the documents of that command are taken
// apart. Every field that is there must be in the table, with its type; every field of the table
// must be in one of the documents, unless its type says "optional". Prints "FAIL COMMAND: reason"
// per fault, last "json_fields: M/N fields". HLOSH names the binary.
//
// In the table a field is a path: "noise.ghz", "passes[].name"; "{a,b}.c" stands for a.c and b.c. A
// type is object, array, string, bool, number, integer or null, or several joined by "or". What
// every document has (schema, command, status, module, version, text, warnings) is in the section
// "Every document".
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "repl/formats/json.h"
#include "tests/harness/driver.h"

typedef struct field {
  char *path, *type;
  bool optional, seen;
} field;

typedef HS_VEC(field) fields;

typedef struct section {
  char *command, *line;
  fields table;
} section;

typedef struct check {
  const section *at;
  fields *common, *own;
  u32 bad;
} check;

static void fail(check *c, const char *path, const char *what) {
  printf("FAIL %s: %s: %s\n", c->at->command, path, what);
  c->bad++;
}

// ---- docs/JSON.md -------------------------------------------------------------------------------
// One row per alternative of the first {a,b}; paths with several have one each after the first.
static void add_field(fields *out, const char *path, const char *type, bool optional) {
  const char *open = strchr(path, '{'), *shut = open ? strchr(open, '}') : NULL;
  if (!shut) {
    hs_vec_push(out, ((field){hs_strdup(path), hs_strdup(type), optional, false}));
    return;
  }
  for (const char *p = open + 1; p < shut;) {
    size_t n = strcspn(p, ",}");
    char *one = hs_format("%.*s%.*s%s", (int)(open - path), path, (int)n, p, shut + 1);
    add_field(out, one, type, optional);
    hs_free(one);
    p += n + 1;
  }
}

// "| `path` | type | meaning |"; anything else is no row.
static void read_row(char *line, fields *out) {
  char *path = strchr(line, '`'), *end = path ? strchr(path + 1, '`') : NULL;
  char *type = end ? strchr(end, '|') : NULL, *stop = type ? strchr(type + 1, '|') : NULL;
  if (line[0] != '|' || !stop) return;
  *end = *stop = 0;
  bool optional = strstr(type, "optional") != NULL;
  add_field(out, path + 1, type + 1, optional);
}

typedef HS_VEC(section) sections;

static void read_doc(char *text, sections *out) {
  for (char *line = text, *next; line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    if (strncmp(line, "## ", 3) == 0) hs_vec_push(out, ((section){.command = hs_strdup(line + 3)}));
    if (!out->n) continue;
    section *s = &out->v[out->n - 1];
    if (strncmp(line, "    hlosh ", 10) == 0 && !s->line) s->line = hs_strdup(line + 9);
    read_row(line, &s->table);
  }
}

// ---- documents ----------------------------------------------------------------------------------
static const char *type_of(const repl_json *v) {
  hs_buf b = {0};
  repl_json_print(v, &b);
  char first = b.n ? b.p[0] : 0;
  bool whole = b.n && !memchr(b.p, '.', b.n) && !memchr(b.p, 'e', b.n);
  hs_buf_free(&b);
  switch (first) {
  case '{': return "object";
  case '[': return "array";
  case '"': return "string";
  case 't':
  case 'f': return "bool";
  case 'n': return "null";
  default: return whole ? "integer" : "number";
  }
}

static bool type_allows(const char *allowed, const char *type) {
  if (strstr(allowed, type)) return true;
  return strcmp(type, "integer") == 0 && strstr(allowed, "number");  // 3 is a number
}

static field *find(fields *v, const char *path) {
  for (size_t k = 0; k < v->n; k++)
    if (strcmp(v->v[k].path, path) == 0) return &v->v[k];
  return NULL;
}

// Depth is that of our own documents.
static void take_apart(check *c, const repl_json *v, const char *path) {
  u32 n = repl_json_count(v);
  const repl_json *child = n ? repl_json_at(v, 0) : NULL;
  for (; child; child = repl_json_next(child)) {
    const char *key = repl_json_key(child);
    char *at = key ? hs_format("%s%s%s", path, *path ? "." : "", key) : hs_format("%s[]", path);
    const char *type = type_of(child);
    field *f = find(c->own, at);
    if (!f) f = find(c->common, at);
    if (!f) fail(c, at, "not documented");
    else if (!type_allows(f->type, type)) fail(c, at, type);
    else f->seen = true;
    take_apart(c, child, at);
    hs_free(at);
  }
}

static char *run(const char *line) {
  char *command = hs_format("\"$HLOSH\" %s 2>/dev/null </dev/null", line);
  FILE *p = popen(command, "r");
  hs_buf out = {0};
  char chunk[4096];
  for (size_t n; p && (n = fread(chunk, 1, sizeof chunk, p)) > 0;) hs_buf_put(&out, chunk, n);
  if (p) pclose(p);
  hs_free(command);
  return hs_strdup(hs_buf_cstr(&out));
}

static u32 check_section(section *s, fields *common) {
  check c = {s, common, &s->table, 0};
  char *out = run(s->line);
  u32 documents = 0;
  for (char *line = out, *next; line && *line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    repl_json *doc = repl_json_parse(line, strlen(line));
    const char *command = repl_json_get_str(doc, "command");
    if (!doc) fail(&c, "a line", "not JSON");
    else if (command && strcmp(command, s->command) == 0) {
      documents++;
      take_apart(&c, doc, "");
    }
    repl_json_free(doc);
  }
  if (!documents) fail(&c, "no document", s->line);
  for (size_t k = 0; k < s->table.n && documents; k++)
    if (!s->table.v[k].seen && !s->table.v[k].optional)
      fail(&c, s->table.v[k].path, "documented, but never there");
  hs_free(out);
  return c.bad;
}

int main(int argc, char **argv) {
  if (argc != 2 || !getenv("HLOSH")) {
    fprintf(stderr, "usage: HLOSH=... json_fields FILE.md\n");
    return 2;
  }
  if (!repl_json_built()) {
    puts("the build lacks cJSON");
    return 77;
  }
  char *text = drv_read(argv[1], NULL), folder[] = "/tmp/json_fieldsXXXXXX";
  if (!text || !mkdtemp(folder) || chdir(folder) != 0) {
    perror(argv[1]);
    return 2;
  }
  sections v = {0};
  read_doc(text, &v);
  fields none = {0}, *common = &none;
  u32 n = 0, bad = 0, checked = 0;
  for (size_t k = 0; k < v.n; k++)
    if (strcmp(v.v[k].command, "Every document") == 0) common = &v.v[k].table;
  for (size_t k = 0; k < v.n; k++) {
    if (!v.v[k].line) continue;
    bad += check_section(&v.v[k], common);
    n += (u32)v.v[k].table.n;
    checked++;
  }
  char *sweep = hs_format("rm -rf '%s'", folder);
  bool swept = chdir("/") == 0 && system(sweep) == 0;
  hs_free(sweep);
  for (size_t k = 0; k < v.n; k++) {
    hs_free(v.v[k].command);
    hs_free(v.v[k].line);
    for (size_t q = 0; q < v.v[k].table.n; q++) {
      hs_free(v.v[k].table.v[q].path);
      hs_free(v.v[k].table.v[q].type);
    }
    hs_vec_free(&v.v[k].table);
  }
  hs_vec_free(&v);
  hs_free(text);
  printf("json_fields: %u faults in %u fields of %u commands\n", bad, n, checked);
  return bad || !checked || !swept ? 1 : 0;
}
