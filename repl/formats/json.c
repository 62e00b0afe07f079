// json.c — the JSON side of every command's output, through cJSON. See json.h for the NULL rule.
#include "repl/formats/json.h"

#include <math.h>
#include <stdio.h>

#if HAVE_CJSON
#include <cjson/cJSON.h>

#include "core/base/visible.h"

#define NODE(j) ((cJSON *)(void *)(j))
#define JSON(n) ((repl_json *)(void *)(n))

bool repl_json_built(void) { return true; }
// The library's nodes and texts come from our heap: counted, and from the reserve when there is
// nothing else, so that it never has to fail.
static void use_our_heap(void) {
  cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = hs_alloc, .free_fn = hs_free});
}

repl_json *repl_json_root(void) {
  use_our_heap();
  return JSON(cJSON_CreateObject());
}
void repl_json_free(repl_json *root) { cJSON_Delete(NODE(root)); }

// Valid UTF-8: what is not becomes U+FFFD, NUL too, which C strings cannot hold.
static void put_clean(hs_buf *clean, const char *value, size_t n) {
  for (size_t k = 0; k < n;) {
    u32 code;
    size_t len = value[k] ? hs_utf8_char(value + k, n - k, &code) : 0;
    if (len) hs_buf_put(clean, value + k, len);
    else hs_buf_puts(clean, "\xEF\xBF\xBD");
    k += len ? len : 1;
  }
}

static void attach(repl_json *parent, const char *key, cJSON *item) {
  if (!item) return;
  if (!key) {
    cJSON_AddItemToArray(NODE(parent), item);
    return;
  }
  hs_buf clean = {0};  // a key may be a name of the module
  put_clean(&clean, key, strlen(key));
  cJSON_AddItemToObject(NODE(parent), hs_buf_cstr(&clean), item);
  hs_buf_free(&clean);
}

repl_json *repl_json_object(repl_json *parent, const char *key) {
  if (!parent) return NULL;
  cJSON *o = cJSON_CreateObject();
  attach(parent, key, o);
  return JSON(o);
}

repl_json *repl_json_array(repl_json *parent, const char *key) {
  if (!parent) return NULL;
  cJSON *a = cJSON_CreateArray();
  attach(parent, key, a);
  return JSON(a);
}

void repl_json_strn(repl_json *parent, const char *key, const char *value, size_t n) {
  if (!parent) return;
  if (!value) {
    repl_json_null(parent, key);
    return;
  }
  hs_buf clean = {0};
  put_clean(&clean, value, n);
  attach(parent, key, cJSON_CreateString(hs_buf_cstr(&clean)));
  hs_buf_free(&clean);
}

void repl_json_str(repl_json *parent, const char *key, const char *value) {
  repl_json_strn(parent, key, value, value ? strlen(value) : 0);
}

void repl_json_num(repl_json *parent, const char *key, double value) {
  if (!parent) return;
  attach(parent, key, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
}

void repl_json_int(repl_json *parent, const char *key, i64 value) {
  if (!parent) return;
  char digits[32];
  hs_buf b = {0};
  hs_buf_i64(&b, value);
  size_t n = HS_MIN(b.n, sizeof digits - 1);
  memcpy(digits, b.p, n);
  digits[n] = 0;
  hs_buf_free(&b);
  attach(parent, key, cJSON_CreateRaw(digits));
}

void repl_json_u64(repl_json *parent, const char *key, u64 value) {
  if (!parent) return;
  char digits[32];
  snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
  attach(parent, key, cJSON_CreateRaw(digits));
}

void repl_json_bool(repl_json *parent, const char *key, bool value) {
  if (parent) attach(parent, key, cJSON_CreateBool(value));
}

void repl_json_null(repl_json *parent, const char *key) {
  if (parent) attach(parent, key, cJSON_CreateNull());
}

// DEL and hidden characters stand in strings only, where \u is the same text: the document can be
// shown, and read, anywhere.
static void put_hidden(hs_buf *out, u32 code) {
  if (code > 0xFFFF)
    hs_buf_printf(out, "\\u%04x\\u%04x", 0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF));
  else hs_buf_printf(out, "\\u%04x", code);
}

void repl_json_print(const repl_json *root, hs_buf *out) {
  char *text = cJSON_PrintUnformatted((const cJSON *)(const void *)root);
  size_t n = text ? strlen(text) : 0, from = 0;
  for (size_t k = 0; k < n;) {
    u8 c = (u8)text[k];
    u32 code = c;
    size_t len = c < 0x80 ? 1 : hs_utf8_char(text + k, n - k, &code);
    if (c == 0x7F || (c >= 0x80 && hs_hidden(code))) {
      hs_buf_put(out, text + from, k - from);
      put_hidden(out, code);
      from = k + len;
    }
    k += HS_MAX(len, (size_t)1);
  }
  hs_buf_put(out, text ? text + from : "", n - from);
  cJSON_free(text);
}

repl_json *repl_json_parse(const char *text, size_t n) {
  use_our_heap();
  return JSON(cJSON_ParseWithLength(text, n));
}

const repl_json *repl_json_get(const repl_json *j, const char *key) {
  return j ? (const repl_json *)(void *)cJSON_GetObjectItemCaseSensitive(
                 (const cJSON *)(const void *)j, key)
           : NULL;
}

const char *repl_json_get_str(const repl_json *j, const char *key) {
  const repl_json *item = repl_json_get(j, key);
  return item ? cJSON_GetStringValue((const cJSON *)(const void *)item) : NULL;
}

double repl_json_get_num(const repl_json *j, const char *key, double absent) {
  const cJSON *item = (const cJSON *)(const void *)repl_json_get(j, key);
  return cJSON_IsNumber(item) ? item->valuedouble : absent;
}

u32 repl_json_count(const repl_json *array) {
  return array ? (u32)cJSON_GetArraySize((const cJSON *)(const void *)array) : 0;
}
const repl_json *repl_json_at(const repl_json *array, u32 k) {
  return array ? (const repl_json *)(void *)cJSON_GetArrayItem((const cJSON *)(const void *)array,
                                                               (int)k)
               : NULL;
}
const repl_json *repl_json_next(const repl_json *j) {
  return j ? (const repl_json *)(void *)((const cJSON *)(const void *)j)->next : NULL;
}
const char *repl_json_key(const repl_json *j) {
  return j ? ((const cJSON *)(const void *)j)->string : NULL;
}
double repl_json_number(const repl_json *j, double absent) {
  const cJSON *item = (const cJSON *)(const void *)j;
  return cJSON_IsNumber(item) ? item->valuedouble : absent;
}
const char *repl_json_text(const repl_json *j) {
  return j ? cJSON_GetStringValue((const cJSON *)(const void *)j) : NULL;
}
bool repl_json_whole(const repl_json *j, i64 *out) {
  const cJSON *item = (const cJSON *)(const void *)j;
  if (!cJSON_IsNumber(item) || !(item->valuedouble >= -0x1p53 && item->valuedouble <= 0x1p53) ||
      item->valuedouble != floor(item->valuedouble))
    return false;
  *out = (i64)item->valuedouble;
  return true;
}

#else
bool repl_json_built(void) { return false; }
repl_json *repl_json_root(void) { return NULL; }
void repl_json_free(repl_json *root) { (void)root; }
repl_json *repl_json_object(repl_json *p, const char *k) {
  (void)p, (void)k;
  return NULL;
}
repl_json *repl_json_array(repl_json *p, const char *k) {
  (void)p, (void)k;
  return NULL;
}
void repl_json_str(repl_json *p, const char *k, const char *v) { (void)p, (void)k, (void)v; }
void repl_json_strn(repl_json *p, const char *k, const char *v, size_t n) {
  (void)p, (void)k, (void)v, (void)n;
}
void repl_json_num(repl_json *p, const char *k, double v) { (void)p, (void)k, (void)v; }
void repl_json_int(repl_json *p, const char *k, i64 v) { (void)p, (void)k, (void)v; }
void repl_json_u64(repl_json *p, const char *k, u64 v) { (void)p, (void)k, (void)v; }
void repl_json_bool(repl_json *p, const char *k, bool v) { (void)p, (void)k, (void)v; }
void repl_json_null(repl_json *p, const char *k) { (void)p, (void)k; }
void repl_json_print(const repl_json *r, hs_buf *o) { (void)r, (void)o; }
repl_json *repl_json_parse(const char *t, size_t n) {
  (void)t, (void)n;
  return NULL;
}
const repl_json *repl_json_get(const repl_json *j, const char *k) {
  (void)j, (void)k;
  return NULL;
}
const char *repl_json_get_str(const repl_json *j, const char *k) {
  (void)j, (void)k;
  return NULL;
}
double repl_json_get_num(const repl_json *j, const char *k, double absent) {
  (void)j, (void)k;
  return absent;
}
u32 repl_json_count(const repl_json *a) {
  (void)a;
  return 0;
}
const repl_json *repl_json_at(const repl_json *a, u32 k) {
  (void)a, (void)k;
  return NULL;
}
const repl_json *repl_json_next(const repl_json *j) {
  (void)j;
  return NULL;
}
const char *repl_json_key(const repl_json *j) {
  (void)j;
  return NULL;
}
double repl_json_number(const repl_json *j, double absent) {
  (void)j;
  return absent;
}
const char *repl_json_text(const repl_json *j) {
  (void)j;
  return NULL;
}
bool repl_json_whole(const repl_json *j, i64 *out) {
  (void)j, (void)out;
  return false;
}
#endif

void repl_json_diags(repl_json *parent, const char *key, hs_status s) {
  repl_json *list = repl_json_array(parent, key);
  for (const hs_diag *d = s.err; list && d; d = d->next) {
    repl_json *o = repl_json_object(list, NULL);
    repl_json_str(o, "code", hs_code_text(d->code));
    repl_json_str(o, "title", hs_code_title(d->code));
    repl_json_str(o, "message", d->message);
    if (d->file) {
      repl_json_str(o, "file", d->file);
      repl_json_int(o, "line", d->line);
      repl_json_int(o, "column", d->col);
    }
    if (d->subject) repl_json_str(o, "subject", d->subject);
    if (d->note) repl_json_str(o, "note", d->note);
  }
}
