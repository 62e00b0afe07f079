// folder.c — folders of strangers: dumps of XLA and report bundles. The input is a list of files,
// "@@ NAME" and its contents; they are laid out in a folder of their own, which is loaded as a dump
// and replayed as a bundle.
#include "tests/fuzz/target.h"
#include "backends/worker.h"
#include "repl/debug/bundle.h"
#include "repl/registry.h"

#include <sys/stat.h>

// Names without folders and of letters that XLA uses, at most one level of the bundle's own.
static bool plain(const char *name, size_t n) {
  static const char *const folders[] = {"inputs/", "expected/", "actual/"};
  for (u32 k = 0; k < HS_COUNT(folders); k++)
    if (n > strlen(folders[k]) && memcmp(name, folders[k], strlen(folders[k])) == 0)
      name += strlen(folders[k]), n -= strlen(folders[k]);
  if (n == 0 || n > 100 || name[0] == '.') return false;
  for (size_t k = 0; k < n; k++)
    if (!((name[k] >= 'a' && name[k] <= 'z') || (name[k] >= 'A' && name[k] <= 'Z') ||
          (name[k] >= '0' && name[k] <= '9') || strchr("._-", name[k])))
      return false;
  return true;
}

static void lay_out(const char *dir, const char *p, const char *end) {
  static const char *const folders[] = {"inputs", "expected", "actual"};
  for (u32 k = 0; k < HS_COUNT(folders); k++) {
    char *path = hs_format("%s/%s", dir, folders[k]);
    (void)mkdir(path, 0700);
    hs_free(path);
  }
  while (p < end && end - p > 3 && memcmp(p, "@@ ", 3) == 0) {
    const char *name = p + 3, *line = memchr(name, '\n', (size_t)(end - name));
    if (!line) return;
    const char *next = memmem(line, (size_t)(end - line), "\n@@ ", 4);
    const char *stop = next ? next : end;
    if (plain(name, (size_t)(line - name))) {
      char *path = hs_format("%s/%.*s", dir, (int)(line - name), name);
      FILE *f = fopen(path, "w");
      if (f) {
        if (stop > line + 1) fwrite(line + 1, 1, (size_t)(stop - line - 1), f);
        fclose(f);
      }
      hs_free(path);
    }
    p = next ? next + 1 : end;
  }
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  int status;
  if (worker_entry(*argc, *argv, &status)) exit(status);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char dir[] = "/tmp/hlosh-fuzz-XXXXXX";
  if (!mkdtemp(dir)) return 0;
  lay_out(dir, (const char *)data, (const char *)data + n);
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  static const char *const lines[] = {"set deadline 2", "backend interp", "load %s --module=all",
                                      "history",        "next",           "back",
                                      "replay %s"};
  for (u32 k = 0; k < HS_COUNT(lines); k++) {
    const char *at = strstr(lines[k], "%s");
    char *line = at ? hs_format("%.*s%s%s", (int)(at - lines[k]), lines[k], dir, at + 2)
                    : hs_strdup(lines[k]);
    repl_run_line(s, line, strlen(line));
    hs_free(line);
  }
  repl_session_free(s);
  bundle_remove(dir);
  return 0;
}
