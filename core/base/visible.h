// visible.h — text that may be shown: what a terminal, or an eye, could be deceived by is spelled
// out. Text that comes from files, names, plug-ins and other programs can hold escape sequences
// that reprogram the terminal, marks that reverse the direction of what follows, characters without
// any width, and bytes that are not UTF-8.
//
//   \x1b      a control byte (C0 or DEL), or a byte that is not part of valid UTF-8
//   \u202e    a hidden character: C1 controls, marks of direction, separators of lines, characters
//             without width, interlinear annotation, tags (\U000e0041 beyond U+FFFF)
//
// Line feed and tab are left alone in a text of several lines. The form is for reading, not for
// reading back: a backslash that stands in the text stays single.
#ifndef HLO_VISIBLE_H
#define HLO_VISIBLE_H

#include "core/base/base.h"

// The bytes of the character that begins at p, and its code point; 0 when the bytes are not valid
// UTF-8 (RFC 3629: no overlong forms, no surrogates). n > 0.
size_t hs_utf8_char(const char *p, size_t n, u32 *code);
// Whether a code point from U+0080 on is hidden in the sense above.
bool hs_hidden(u32 code);

typedef enum hs_visible_form {
  HS_ONE_LINE,  // line feeds and tabs are spelled out too: names, paths
  HS_LINES,     // they are kept
  HS_PAINTED,   // and so are the sequences that set colours: ESC [ digits and semicolons m
} hs_visible_form;
// Appends n bytes in visible form.
void hs_buf_put_visible(hs_buf *, const char *p, size_t n, hs_visible_form);
// Gives the buffer's text from `from` on its visible form.
void hs_buf_make_visible(hs_buf *, size_t from, hs_visible_form);
// Whether the text is its own visible form.
bool hs_is_visible(const char *p, size_t n, hs_visible_form);

#endif
