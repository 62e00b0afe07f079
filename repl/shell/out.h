// out.h — where a command's results go. Commands write text with repl_say and build the JSON
// document of the same results in `doc`; which of the two reaches the user is decided here. Results
// go to stdout, everything else (notes, warnings, progress, diagnostics) to stderr. Nothing else in
// the shell writes to stdout.
#ifndef REPL_OUT_H
#define REPL_OUT_H

#include "repl/formats/json.h"

typedef struct repl_out {
  hs_buf text;     // results of the running command, not yet written
  repl_json *doc;  // its JSON document; NULL in text mode
  bool color;      // ANSI colours in text
  bool color_err;  // and in diagnostics
  bool captured;   // redirected to a file or a pipe: flushed when the command ends
  bool broken;     // stdout can no longer be written (closed, full, or its reader went away)
  bool reported;
  int broken_errno;
  bool quiet;  // no notes
} repl_out;

void repl_say(repl_out *, const char *fmt, ...) HS_PRINTF(2, 3);   // result text
void repl_note(repl_out *, const char *fmt, ...) HS_PRINTF(2, 3);  // one line on stderr
// Writes what has been said so far, when that is allowed (text mode, not captured). For
// long-running commands.
void repl_flush(repl_out *);
// Writes bytes to stdout; remembers and reports the first failure.
void repl_write_stdout(repl_out *, const char *p, size_t n);
// renders on stderr; does not free
void repl_print_status(repl_out *, hs_status s);
// Writes a file whole or not at all: a temporary file beside it, then rename. append: adds to what
// is there.
hs_status repl_write_file(const char *path, const char *p, size_t n, bool append);
// an empty $TMPDIR/hlosh-STEM.XXXXXX.hlo; the path is the caller's
hs_status repl_temp_file(const char *stem, char **path);
// and those above it; one that is there is good, too
hs_status repl_make_folder(const char *path);
hs_status repl_read_file(const char *path, size_t limit, hs_buf *out);  // limit 0: none

// Progress of something long: one line on stderr that replaces itself, only on a terminal, not
// before half a second has passed and ten times a second at most. total <= 0: unknown. end wipes
// the line and starts the clock anew.
void repl_progress(const char *what, double done, double total);
void repl_progress_text(const char *fmt, ...) HS_PRINTF(1, 2);
// whether the next one would be shown: for costly texts
bool repl_progress_due(void);
void repl_progress_end(void);

// Columns: pads `text` to `width` terminal columns (UTF-8 aware); negative width: right-aligned.
void repl_pad(hs_buf *, const char *text, int width);
// width of the terminal, or COLUMNS; 120 when neither says
u32 repl_columns(void);
// "31.0 MB", "1.25 GFLOP"-style numbers: value scaled by 1000 with three significant digits.
const char *repl_bytes(char buf[32], double bytes);
const char *repl_count(char buf[32], double n);      // 1234567 -> "1.23M"
const char *repl_flops(char buf[32], double flops);  // "1.25 GFLOP"
const char *repl_time(char buf[32], double seconds);

#endif
