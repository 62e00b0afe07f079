// xla_report.h — XLA's own reports about memory, from a folder of --xla_dump_to:
// NAME-buffer-assignment.txt and NAME-memory-usage-report.txt. Both are text that strangers send:
// everything is checked, and a diagnostic names the line.
#ifndef PROF_XLA_REPORT_H
#define PROF_XLA_REPORT_H

#include "core/base/diag.h"

// A value in an allocation.
typedef struct xla_value {
  const char *label;  // instruction and path in its tuple: "copy.7", "while.3{1}"
  const char *shape;
  i64 size, offset;
} xla_value;

// In a memory usage report, sizes are what its rounded text says ("16.0KiB"), kinds are not known,
// and labels are the lists of shapes.
typedef struct xla_allocation {
  i64 number, size;
  i64 color, parameter;  // parameter: -1 for none
  bool output, constant, thread_local_, temporary, live_out;
  u32 first_value, nvalues;
} xla_allocation;

typedef struct xla_report {
  hs_arena arena;
  bool usage;       // a memory usage report
  i64 total_bytes;  // stated, or summed over the allocations
  HS_VEC(xla_allocation) allocations;
  HS_VEC(xla_value) values;
} xla_report;
void xla_report_free(xla_report *);

// Reads either report from n bytes of text; the content tells which. E_SYNTAX or E_FORMAT with the
// place in `file`.
hs_status xla_report_read(const char *file, const char *text, size_t n, xla_report *out);

#endif
