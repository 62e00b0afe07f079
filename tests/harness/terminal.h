// terminal.h: the shell at a pseudo-terminal, typed at and read as a person would.
//
// One child at a time. What arrives is kept in `seen` from the last tty_type on, without NUL bytes;
// nothing is echoed here. Waits are in milliseconds.
#ifndef TESTS_HARNESS_TERMINAL_H
#define TESTS_HARNESS_TERMINAL_H

#include <sys/types.h>

#include "core/base/base.h"

typedef struct tty {
  int master;
  pid_t child;
  hs_buf seen;
  char home[64];     // an empty folder, the child's HOME
  char hlosh[4096];  // the program: $HLOSH, or the one beside the folder of `argv0`
} tty;

// Makes the folder and finds the program. 0, 77 (no pseudo-terminal can be made here; the reason
// is printed) or 2 (printed too).
int tty_open(tty *, const char *argv0);
// Ends the child, removes the folder.
void tty_close(tty *);
// Starts the program, in `dir` when given, with the arguments that follow (argv[0] first, NULL
// last), TERM=xterm, no colours, no state of the user's.
bool tty_start(tty *, const char *dir, const char *const *argv);
// Reads what is there within ms. False at the end of the child's output.
bool tty_read(tty *, int ms);
// Whether `text` appears within ms.
bool tty_wait(tty *, const char *text, int ms);
// Types; and first forgets what was seen.
void tty_send(tty *, const char *text);
void tty_type(tty *, const char *text);
// The wait status of the child once it ends; -1 when it does not within ms, and is killed.
int tty_end(tty *, int ms);

#endif
