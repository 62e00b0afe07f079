// deadline.h — one clock for a command: parsing, passes, evaluating, drawing, all of it.
#ifndef REPL_SHELL_DEADLINE_H
#define REPL_SHELL_DEADLINE_H

// From now on, when `seconds` have passed, repl_interrupt becomes HS_STOP_DEADLINE, unless it is
// set already. 0 or less: never. Replaces an earlier deadline. The process has one.
void repl_deadline_start(double seconds);
// No deadline any more. One that has passed stays in repl_interrupt.
void repl_deadline_stop(void);

#endif
