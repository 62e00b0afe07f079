// wire.h — writes and reads the payloads of requests and replies between shell and worker. Both
// ends are the same program on the same machine, so numbers are in native byte order; the reader
// still checks every length.
#ifndef BACKEND_WIRE_H
#define BACKEND_WIRE_H

#include "core/base/base.h"

typedef struct wire_reader {
  const char *p;
  size_t n;
  bool bad;  // the payload ended early
} wire_reader;

void wire_put(hs_buf *, const void *, size_t);
static inline void wire_put_u32(hs_buf *b, u32 v) { wire_put(b, &v, sizeof v); }
static inline void wire_put_i64(hs_buf *b, i64 v) { wire_put(b, &v, sizeof v); }
static inline void wire_put_f64(hs_buf *b, double v) { wire_put(b, &v, sizeof v); }
void wire_put_bytes(hs_buf *, const void *, size_t);  // with its length
void wire_put_str(hs_buf *, const char *);            // NULL is ""

void wire_get(wire_reader *, void *, size_t);  // zeros once the payload has ended
u32 wire_get_u32(wire_reader *);
i64 wire_get_i64(wire_reader *);
double wire_get_f64(wire_reader *);
hs_str wire_get_bytes(wire_reader *);  // points into the payload
hs_str wire_get_str(wire_reader *);

#endif
