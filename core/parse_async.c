// parse_async.c — the short form of asynchronous operations: X-start, X-update, X-done for any opcode X that has no such
// forms of its own. They stand for an async-start/update/done around a computation that holds the one X.
#include "core/parse.h"

static bool suffix(hs_str s, const char *t, hs_str *root) {
  size_t n = strlen(t);
  if (s.n <= n || memcmp(s.p + s.n - n, t, n) != 0) return false;
  *root = (hs_str){s.p, s.n - n};
  return true;
}

bool hlo_async_opcode(hlo_rhs *r) {
  hs_str root;
  int sugar = suffix(r->op_text, "-start", &root) ? 's' : suffix(r->op_text, "-update", &root) ? 'u' : suffix(r->op_text, "-done", &root) ? 'd' : 0;
  hlo_opcode op = sugar ? hlo_op_find(root) : HLO_OP_INVALID;
  switch (op) {
  case HLO_OP_INVALID: case HLO_ALL_GATHER: case HLO_ALL_REDUCE: case HLO_COLLECTIVE_PERMUTE: case HLO_COPY: case HLO_RECV: case HLO_SEND: return false;
  default: break;
  }
  r->op = op;
  r->sugar = sugar;
  return true;
}

bool hlo_make_async(hlo_parser *P, hlo_rhs *r, hs_str name, hlo_instr **out) {
  (void)name;
  *out = NULL;
  return hlo_lex_error(LX, HS_E_UNSUPPORTED, r->op_at, "%.*s is not read yet", (int)r->op_text.n, r->op_text.p);
}
