// support.c — which operations each backend does, on which element types.
//
// Without a module the table of all operations: a small instruction of each operation and type
// (samples.def; elementwise ones from ops.def) is put to the verifier and then to every backend.
// With one, its instructions. Types that HLO does not have for an operation are left out.
#include "repl/cmd/samples.h"

#include "core/text/text.h"
#include "core/verify/verify.h"
#include "repl/cmd/cmd.h"

// ---- samples ------------------------------------------------------------------------------------
static const struct {
  hlo_opcode op;
  const char *computations, *body;
} samples[] = {
#define SAMPLE(opcode, computations, body) {HLO_##opcode, computations, body},
#include "repl/cmd/samples.def"
#undef SAMPLE
};

static void put_typed(hs_buf *b, const char *text, hlo_dtype t) {
  for (const char *p = text; *p; p++) {
    if (*p == '$') hs_buf_puts(b, hlo_dtype_text(t));
    else hs_buf_putc(b, *p);
  }
}

// Appends the text of a module whose entry has the operation on the type; false when there is no
// sample of the operation.
static bool sample(hlo_opcode op, hlo_dtype t, hs_buf *out) {
  hs_buf_puts(out, "HloModule sample\n");
  for (size_t k = 0; k < HS_COUNT(samples); k++)
    if (samples[k].op == op) {
      put_typed(out, samples[k].computations, t);
      hs_buf_puts(out, "ENTRY e {\n");
      put_typed(out, samples[k].body, t);
      hs_buf_puts(out, " }\n");
      return true;
    }
  if (!hlo_op_has(op, HLO_F_ELEMENTWISE) || hlo_ops[op].arity < 1 || hlo_ops[op].arity > 2)
    return false;
  put_typed(out, "ENTRY e {\n x = $[4] parameter(0)\n y = $[4] parameter(1)\n", t);
  hs_buf_printf(out, " ROOT r = %s(x%s) }\n", hlo_op_text(op), hlo_ops[op].arity == 2 ? ", y" : "");
  return true;
}

hs_status support_module(hlo_ctx *ctx, hlo_opcode op, hlo_dtype t, hlo_module **out) {
  hs_buf text = {0};
  *out = NULL;
  hs_status s = sample(op, t, &text) ? hlo_parse(ctx, hs_buf_cstr(&text), text.n, NULL, out)
                                     : hs_fail(HS_E_INTERNAL, "no sample of %s", hlo_op_text(op));
  hs_buf_free(&text);
  if (hs_ok(s)) s = hlo_verify(*out, NULL);
  if (!hs_ok(s)) {
    hlo_module_free(*out);
    *out = NULL;
  }
  return s;
}

// ---- the table ----------------------------------------------------------------------------------
enum { MOST_BACKENDS = 8 };

static bool falls_back(const backend *b, const hlo_instr *i) {
  return b->falls_back && b->falls_back(i);
}

static bool module_supported(const backend *b, const hlo_module *m, hlo_opcode op) {
  hlo_for_each_instr(i, m->entry)
    if (i->opcode == op && (!b->supports(i, NULL) || falls_back(b, i))) return false;
  return true;
}

// Bit k: backend k has code of its own for the operation on the type. False: HLO has no such
// instruction.
static bool cell(hlo_ctx *ctx, hlo_opcode op, hlo_dtype t, u32 *bits) {
  hlo_module *m;
  hs_status s = support_module(ctx, op, t, &m);
  *bits = 0;
  if (!hs_ok(s)) return hs_status_drop(s), false;
  for (u32 k = 0; k < backend_count && k < MOST_BACKENDS; k++)
    if (module_supported(backend_table[k], m, op)) *bits |= 1u << k;
  hlo_module_free(m);
  return true;
}

static void say_backends(hs_buf *b, u32 bits) {
  bool first = true;
  for (u32 k = 0; k < backend_count; k++)
    if (bits >> k & 1) {
      hs_buf_printf(b, first ? "%s" : " %s", backend_table[k]->name);
      first = false;
    }
  if (!bits) hs_buf_puts(b, "none");
}

// One line for each set of backends, with the types that it does.
static void say_operation(repl_cmd *c, hlo_opcode op, const bool *is, const u32 *bits) {
  bool said[HLO_DTYPE_COUNT] = {0};
  const char *name = hlo_op_text(op);
  for (u32 t = 0; t < HLO_DTYPE_COUNT; t++) {
    if (!is[t] || said[t]) continue;
    hs_buf who = {0}, types = {0};
    say_backends(&who, bits[t]);
    for (u32 q = t; q < HLO_DTYPE_COUNT; q++)
      if (is[q] && bits[q] == bits[t]) {
        said[q] = true;
        hs_buf_printf(&types, " %s", hlo_dtype_text((hlo_dtype)q));
      }
    repl_say(c->out, "%-26s %-16s%s\n", name, hs_buf_cstr(&who), hs_buf_cstr(&types));
    name = "";
    hs_buf_free(&who);
    hs_buf_free(&types);
  }
}

static hs_status support_table(repl_cmd *c, hlo_opcode only) {
  repl_json *list = repl_json_array(c->doc, "operations");
  for (u32 op = 1; op < HLO_OPCODE_COUNT; op++) {
    bool is[HLO_DTYPE_COUNT] = {0};
    u32 bits[HLO_DTYPE_COUNT] = {0};
    if (only && op != only) continue;
    HS_TRY(hs_poll());
    hlo_ctx *ctx = hlo_ctx_new();
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "opcode", hlo_op_text((hlo_opcode)op));
    repl_json *types = repl_json_array(j, "types");
    for (u32 t = 0; t < HLO_DTYPE_COUNT; t++) {
      if (!hlo_dtype_is_array((hlo_dtype)t)) continue;
      is[t] = cell(ctx, (hlo_opcode)op, (hlo_dtype)t, &bits[t]);
      if (!is[t] || !c->doc) continue;
      repl_json *row = repl_json_object(types, NULL);
      repl_json_str(row, "type", hlo_dtype_text((hlo_dtype)t));
      for (u32 k = 0; k < backend_count; k++)
        repl_json_bool(row, backend_table[k]->name, bits[t] >> k & 1);
    }
    if (!c->doc) say_operation(c, (hlo_opcode)op, is, bits);
    hlo_ctx_free(ctx);
  }
  return HS_GOOD;
}

// ---- a module -----------------------------------------------------------------------------------
// The computations whose instructions run one by one, by id: those that calls, loops and branches
// lead to. What belongs to one instruction, a fusion's body or a reducer, is that one's affair.
static bool *run_stepwise(const hlo_module *m, hs_arena *a) {
  u32 n;
  bool *runs = HS_NEW_ARRAY(a, bool, m->next_comp_id + 1);
  hlo_computation **order = hlo_comp_callees_first(m, a, &n);
  runs[m->entry->id] = true;
  for (u32 k = n; k-- > 0;)
    if (runs[order[k]->id])
      hlo_for_each_instr(i, order[k])
        if (hlo_op_has(i->opcode, HLO_F_CONTROL))
          for (u32 j = 0; j < hlo_ncalled(i); j++) runs[hlo_called(i, j)->id] = true;
  return runs;
}

static hs_status support_of_module(repl_cmd *c, const backend *b, hlo_opcode only, const bool *runs,
                                   repl_json *list, repl_json *fallbacks) {
  enum { MOST = 20 };
  u32 can = 0, cannot = 0, elsewhere = 0;
  hs_buf lines = {0};
  hs_status stopped = HS_GOOD;
  hlo_for_each_comp(comp, c->m)
    hlo_for_each_instr(i, comp) {
      if (!runs[comp->id] || (only && i->opcode != only)) continue;
      if (!hs_ok(stopped) || !hs_ok(stopped = hs_poll())) break;
      hs_buf why = {0};
      if (b->supports(i, &why)) {
        can++;
        if (falls_back(b, i)) {
          elsewhere++;
          repl_json *j = repl_json_object(fallbacks, NULL);
          repl_json_str(j, "backend", b->name);
          repl_json_str(j, "instruction", i->name);
          repl_json_str(j, "opcode", hlo_op_text(i->opcode));
          const char *library = b->library ? b->library(i) : NULL;
          if (library) repl_json_str(j, "library", library);
          if (repl_flag(c, "--all") || elsewhere <= MOST)
            hs_buf_printf(&lines, "    %s: %s%son the host: %s\n", i->name, library ? library : "",
                          library ? " where it is found, else " : "", hlo_op_text(i->opcode));
        }
      } else {
        cannot++;
        if (repl_flag(c, "--all") || cannot <= MOST)
          hs_buf_printf(&lines, "    %s: %s\n", i->name,
                        why.n ? hs_buf_cstr(&why) : hlo_op_text(i->opcode));
        repl_json *j = repl_json_object(list, NULL);
        repl_json_str(j, "backend", b->name);
        repl_json_str(j, "instruction", i->name);
        repl_json_str(j, "opcode", hlo_op_text(i->opcode));
        repl_json_str(j, "reason", why.n ? hs_buf_cstr(&why) : "");
      }
      hs_buf_free(&why);
    }
  if (!c->doc && hs_ok(stopped))
    repl_say(c->out, "%-12s %u instructions supported, %u not\n%s", b->name, can, cannot,
             lines.n ? hs_buf_cstr(&lines) : "");
  u32 most = HS_MAX(cannot, elsewhere);
  if (!c->doc && hs_ok(stopped) && most > MOST && !repl_flag(c, "--all"))
    repl_say(c->out, "    ... %u more; support --all shows them\n", most - MOST);
  hs_buf_free(&lines);
  return stopped;
}

hs_status cmd_support(repl_cmd *c) {
  const char *op = repl_flag(c, "--op");
  hlo_opcode only = op ? hlo_op_find(hs_str_of(op)) : HLO_OP_INVALID;
  if (op && !only) return repl_usage_error(c, "no opcode is called %s", op);
  if (!c->m || repl_flag(c, "--table")) return support_table(c, only);
  HS_TRY(repl_needs_module(c, false));
  repl_json *list = repl_json_array(c->doc, "unsupported");
  repl_json *fallbacks = repl_json_array(c->doc, "fallbacks");
  const bool *runs = run_stepwise(c->m, c->scratch);
  for (u32 k = 0; k < backend_count; k++)
    HS_TRY(support_of_module(c, backend_table[k], only, runs, list, fallbacks));
  return HS_GOOD;
}
