// object.h — inside of backends/emit: object code becomes functions of this process.
#ifndef EMIT_OBJECT_H
#define EMIT_OBJECT_H

#include "core/base/diag.h"

// The address of what object code calls or reads by name; 0: there is none.
typedef u64 emit_resolve(void *arg, const char *name);

typedef struct emit_object emit_object;
// Places the code and data of a relocatable object in memory of its own, which is executable and no
// longer writable afterwards. E_INTERNAL: it is damaged, or asks for what is not done here;
// E_NO_MEMORY.
hs_status emit_object_load(const char *p, size_t n, emit_resolve *resolve, void *arg,
                           emit_object **out);
// The address of a function of the object; NULL: it has none of that name.
void *emit_object_find(const emit_object *, const char *name);
void emit_object_free(emit_object *);  // NULL is fine
// A function of this process, its mathematical library or its compiler's; 0: none has it.
u64 emit_process_symbol(const char *name);

#endif
