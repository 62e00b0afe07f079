// json.h — JSON documents, built while a command runs. The only place that knows the JSON library
// is json.c.
//
// Every function takes NULL for "no document wanted" and does nothing then, so commands build their
// document unconditionally: in text mode the root is NULL and so is everything made from it.
#ifndef REPL_JSON_H
#define REPL_JSON_H

#include "core/base/diag.h"

typedef struct repl_json repl_json;

// False when the build lacks the library.
bool repl_json_built(void);
// A new object, the caller's to free; NULL when the build lacks the library.
repl_json *repl_json_root(void);
// Frees a document with all its children.
void repl_json_free(repl_json *root);
// Add a child, owned by the parent; a NULL parent gives NULL. In an array, key is NULL. Bytes of
// keys and values that are not UTF-8 become U+FFFD.
repl_json *repl_json_object(repl_json *parent, const char *key);
repl_json *repl_json_array(repl_json *parent, const char *key);
void repl_json_str(repl_json *parent, const char *key, const char *value);  // NULL value: null
void repl_json_strn(repl_json *parent, const char *key, const char *value, size_t n);
void repl_json_num(repl_json *parent, const char *key, double value);  // not finite: null
void repl_json_int(repl_json *parent, const char *key, i64 value);     // exact
void repl_json_u64(repl_json *parent, const char *key, u64 value);
void repl_json_bool(repl_json *parent, const char *key, bool value);
void repl_json_null(repl_json *parent, const char *key);
// Appends the document to *out: one line, no newline, valid UTF-8, and of what visible.h calls
// hidden nothing but as \u escapes.
void repl_json_print(const repl_json *root, hs_buf *out);
// Adds the diagnostics of a status: an array of {code, title, message, file, ...}.
void repl_json_diags(repl_json *parent, const char *key, hs_status s);

// Reading back (replay): parses a whole document, the caller's to free; NULL when it is
// not JSON.
repl_json *repl_json_parse(const char *text, size_t n);
// A member by its key: NULL (a number: `absent`) when it is absent or of another type. Borrowed.
const char *repl_json_get_str(const repl_json *, const char *key);
double repl_json_get_num(const repl_json *, const char *key, double absent);
const repl_json *repl_json_get(const repl_json *, const char *key);
// The number of children, and child k.
u32 repl_json_count(const repl_json *array);
const repl_json *repl_json_at(const repl_json *array_or_object, u32 k);
// The child after this one of the same parent; NULL after the last.
const repl_json *repl_json_next(const repl_json *child);
// The key of an object's member; NULL otherwise.
const char *repl_json_key(const repl_json *member);
// A whole number that is exact in JSON (below 2^53); false for anything else.
bool repl_json_whole(const repl_json *, i64 *out);
// The value of a number; `absent` for any other value.
double repl_json_number(const repl_json *, double absent);
// The text of a string; NULL for any other value.
const char *repl_json_text(const repl_json *);

#endif
