// out.h — where a command's results go. Commands write text with repl_say and build the JSON
// document of the same results in `doc`; which of the two reaches the user is decided here. Results
// go to stdout, everything else (notes, warnings, progress, diagnostics) to stderr. Nothing else in
// the shell writes to either.
//
// What commands say quotes files, names and other programs, so nothing of it reaches a terminal as
// it is: out.c writes the visible form (core/base/visible.h) to stderr always, and to stdout when
// it is a terminal, goes through the pager, or has colours. Files and pipes get the bytes as they
// are, so that what is printed there can be loaded again. Colours are exempt where they were said
// by repl_say_painted and repl_say_in, and nowhere else: an escape sequence in data is data.
#ifndef REPL_OUT_H
#define REPL_OUT_H

#include "repl/formats/files.h"
#include "repl/formats/json.h"

// Bytes [from, to) of the text may hold colours; the rest of them is in visible form.
typedef struct repl_span {
  size_t from, to;
} repl_span;

typedef struct repl_out {
  hs_buf text;                // results of the running command, not yet written
  HS_VEC(repl_span) painted;  // in order
  repl_json *doc;             // its JSON document; NULL in text mode
  bool color;                 // ANSI colours in text
  bool color_err;             // and in diagnostics
  bool captured;              // redirected to a file or a pipe: flushed when the command ends
  bool broken;  // stdout can no longer be written (closed, full, or its reader has exited)
  bool reported;
  int broken_errno;
  bool quiet;  // no notes
  struct {
    u64 begun, shown;  // ns, monotonic; 0: not yet
    bool visible;      // the line is on the terminal
  } progress;
} repl_out;

void repl_say(repl_out *, const char *fmt, ...) HS_PRINTF(2, 3);  // result text
// The same in a colour: the numbers of SGR, "1;31". Nothing is coloured unless out->color.
void repl_say_in(repl_out *, const char *sgr, const char *fmt, ...) HS_PRINTF(3, 4);
// Text whose maker has put colours in, if out->color, and everything else in visible form.
void repl_say_painted(repl_out *, const char *p, size_t n);
// Bytes that are to reach a terminal as they are: a picture that the shell itself has made, after
// what was said before. Nothing of them may be quoted from elsewhere.
void repl_send_picture(repl_out *, const char *p, size_t n);
void repl_note(repl_out *, const char *fmt, ...) HS_PRINTF(2, 3);  // one line on stderr
// Writes what has been said so far, when that is allowed (text mode, not captured). For
// long-running commands.
void repl_flush(repl_out *);
// Writes the text to stdout and empties it; remembers the first failure.
void repl_write_text(repl_out *);
// Appends the text in visible form.
void repl_put_shown(const repl_out *, hs_buf *);
// Empties the text and frees its memory.
void repl_out_free(repl_out *);
// A line on stderr that is no diagnostic: of main, before there is a session.
void repl_complain(const char *fmt, ...) HS_PRINTF(1, 2);
// Prints a status with its notes on stderr; does not free it.
void repl_print_status(repl_out *, hs_status s);
// Progress of a long computation: one line on stderr that replaces itself, on a terminal only, from
// half a second after the first call and at most ten times a second. total <= 0: unknown.
// repl_progress_end erases the line and restarts the clock.
void repl_progress(repl_out *, const char *what, double done, double total);
void repl_progress_text(repl_out *, const char *fmt, ...) HS_PRINTF(2, 3);
// Whether the next call would be shown: for texts that are expensive to make.
bool repl_progress_due(repl_out *);
void repl_progress_end(repl_out *);

// Columns: pads `text` to `width` terminal columns (UTF-8 aware); negative width: right-aligned.
void repl_pad(hs_buf *, const char *text, int width);
// How many columns `text` takes.
int repl_width(const char *text);
// `text`, or "..." and its end where it is wider than `width`: paths and scopes differ at their
// ends.
const char *repl_tail(hs_arena *, const char *text, int width);
// Width of the terminal, or COLUMNS; 120 when neither is known.
u32 repl_columns(void);
// Figures with units, scaled by 1000, three significant digits: "31.0 MB". They write to buf and
// return it; times are in seconds.
const char *repl_bytes(char buf[32], double bytes);
const char *repl_count(char buf[32], double n);                 // 1234567 -> "1.23M"
const char *repl_plural(char buf[32], u32 n, const char *one);  // "1 kernel", "2 kernels"
const char *repl_flops(char buf[32], double flops);             // "1.25 GFLOP"
const char *repl_time(char buf[32], double seconds);

#endif
