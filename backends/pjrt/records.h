// records.h — reads the Riegeli/records container (records.c).
#ifndef PJRT_RECORDS_H
#define PJRT_RECORDS_H

#include "core/base/base.h"

// Appends the records of the container that begins somewhere in these bytes, one after the other;
// false when none begins.
bool records_read(const char *bytes, size_t n, hs_buf *out);

#endif
