// settings.h — what `set` and the options of the command line change: one row per setting, by
// index.
#ifndef REPL_SETTINGS_H
#define REPL_SETTINGS_H

#include "repl/shell/session.h"

extern const u32 repl_setting_count;
// Name and summary of setting k, below repl_setting_count.
const char *repl_setting_name(u32 k);
const char *repl_setting_summary(u32 k);
// The values that setting k takes, "on|off"; "" when it takes a number or any text.
const char *repl_setting_words(u32 k);
// Whether the n bytes at `name` are the name of setting k; - and _ are the same.
bool repl_is_setting(const char *name, size_t n, u32 k);
// The index of a setting. E_USAGE with the nearest name when there is none.
hs_status repl_setting_find(const char *name, u32 *k);
// The value of setting k as `set` shows and takes it.
void repl_setting_text(const repl_session *, u32 k, char out[40]);
// `set NAME VALUE`. E_USAGE for an unknown name or a value out of bounds, E_LIMIT for one that is
// too long; nothing changes then.
hs_status repl_set(repl_session *, const char *name, const char *value);
// Tells the backends what the settings say about code that is kept on disk.
void repl_apply_cache(repl_session *);

#endif
