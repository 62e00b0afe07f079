// text.h — the text form of protocol buffers (.pbtxt, .textproto), to and from the wire
// form by schema.def. Private to proto*.c and load.c.
#ifndef HLO_PROTO_TEXT_H
#define HLO_PROTO_TEXT_H

#include "core/base/diag.h"
#include "core/proto/wire.h"

// The root message that a text is of (PB_HloProto and so on), by its first field; 0 when it is none
// that holds a module.
u32 pb_text_root(const char *text, size_t n);
// Appends the wire form of a message. Names that are not in the schema are left out and listed in
// `unknown` (may be NULL), each once; fields written by number are taken as they are. E_PROTO, with
// its position, where the text does not parse.
hs_status pb_from_text(hs_buf *wire, const char *text, size_t n, const char *file, u32 message,
                       hs_buf *unknown);
// Appends the text of a message whose bytes are valid: fields in the order of their numbers, two
// spaces a level. The caller polls.
void pb_to_text(hs_buf *text, pb m, u32 message);

#endif
