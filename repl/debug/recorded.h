// recorded.h: profiles that another process recorded (XSpace, *.xplane.pb; profiler/xplane.h) and
// the modules that they are about. What is joined to a module (session.h, repl_recorded) is what
// `profile`, `flame`, `roofline`, `trace` and `estimate --measured` show of it.
#ifndef REPL_RECORDED_H
#define REPL_RECORDED_H

#include "core/text/text.h"
#include "repl/shell/command.h"

// Whether the file holds such a profile; false, too, for what cannot be read.
bool recorded_is_profile(repl_cmd *, const char *path);
// Reads it and joins its programs to modules by their names and those of their kernels: to loaded
// ones of the program's name that have most of its kernels, else to the copy that the file carries,
// which `sink` is given. which: NULL, or the program's number, its module's name or "all"; NULL
// takes the programs whose modules are loaded, and where none is, the one that ran longest.
// E_INPUT when nothing can be joined, E_NO_OBJECT when there is no such program.
hs_status recorded_load(repl_cmd *, const char *path, const char *which, hlo_module_sink *sink,
                        void *to);

#endif
