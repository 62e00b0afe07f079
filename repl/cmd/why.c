// why.c — why: what passes did and declined to do with an instruction, from the reasons they
// recorded (pass.h: notes).
#include "repl/cmd/cmd.h"

// By id: the instructions of the current version that stem from instruction `id`. NULL while that
// instruction itself exists.
static bool *descendants_of(repl_cmd *c, u32 id) {
  hlo_for_each_comp(k, c->m)
    hlo_for_each_instr(i, k)
      if (i->id == id) return NULL;
  bool *descendants = HS_NEW_ARRAY(c->scratch, bool, c->m->next_instr_id);
  hlo_for_each_comp(k, c->m)
    hlo_for_each_instr(i, k) descendants[i->id] = !hs_interrupted() && hlo_stems_from(i, id);
  return descendants;
}

// The id of an instruction of this name now, or in the nearest earlier version that has one.
static bool id_in_history(repl_cmd *c, const char *name, u32 *id, const char **found) {
  const hlo_instr *i = repl_find_instr(c->m, name);
  if (!i) return repl_version_with(c->mod, name, id, found) != NULL;
  *id = i->id, *found = i->name;
  return true;
}

// What a question may be about: its word, and the passes that answer it.
static const struct topic {
  const char *word, *passes, *never;
} topics[] = {
    {"fused", "fusion,multi_output_fusion",
     "fusion makes no kernels with an operation of its kind, or it cannot be fused with its "
     "users and operands"},
    {"folded", "constant_folding", NULL},
    {"aliased", "optimize_input_output_buffer_alias,copy-insertion",
     "no result of its shape and no donated parameter could share its memory"},
    {"layout", "layout-assignment,layout_normalization",
     "its layout is as loaded: no operand, user or entry layout requires another"}};

typedef struct question {
  u32 ids[2], n;  // the instructions named
  const char *names[2];
  bool only_not;
  const struct topic *topic;  // NULL: everything
  bool *descendants;
} question;

// "X", "X not fused with Y", "X this layout": words that name instructions, a topic, and filler.
static hs_status read_question(repl_cmd *c, question *q) {
  static const char *const filler[] = {"not", "with", "and",  "is",   "was",
                                       "to",  "in",   "into", "this", "why"};
  for (const char *p = c->args.raw; *p && q->n < 2;) {
    p += strspn(p, " ");
    size_t len = strcspn(p, " ?");
    const char *w = hs_arena_strndup(c->scratch, p, len);
    // else it is the subject, whatever the word
    bool known = len == 0, subject = q->n > 0 || !id_in_history(c, w, &q->ids[0], &q->names[0]);
    for (size_t k = 0; subject && k < HS_COUNT(filler); k++) known |= strcmp(filler[k], w) == 0;
    for (size_t k = 0; subject && k < HS_COUNT(topics); k++)
      if (strcmp(topics[k].word, w) == 0) q->topic = &topics[k], known = true;
    if (!known && id_in_history(c, w, &q->ids[q->n], &q->names[q->n])) q->n++;
    else if (!known && q->n && !q->topic)
      return hs_with_note(
          repl_no_object(c->m, w),
          "why X not fused [with Y], not folded, not aliased, this layout: other questions are "
          "not supported");
    else if (!known) return repl_no_object(c->m, w);
    p += len + (p[len] == '?');
  }
  q->only_not = strncmp(c->args.raw, "not", 3) == 0 || strstr(c->args.raw, " not") != NULL;
  if (!q->n && q->topic && id_in_history(c, c->m->entry->root->name, &q->ids[0], &q->names[0])) {
    q->n = 1;
    repl_note(c->out, "of the program's root, %s", q->names[0]);
  }
  // The provenance of an instruction that passes replaced is in those that stem from it.
  q->descendants = q->n == 1 ? descendants_of(c, q->ids[0]) : NULL;
  return q->n ? HS_GOOD : repl_usage_error(c, "which instruction?");
}

static bool in_list(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *p = list; (p = strstr(p, name)) != NULL; p += n)
    if ((p == list || p[-1] == ',') && (p[n] == ',' || p[n] == '\0')) return true;
  return false;
}

static bool answers(const repl_cmd *c, const question *q, const pass_note *note) {
  bool about = note->instr == q->ids[0] || note->other == q->ids[0] ||
               (q->descendants && note->instr < c->m->next_instr_id && q->descendants[note->instr]);
  // A reason recorded for one of the two instructions alone applies to the pair.
  bool alone = !note->done && note->other == UINT32_MAX &&
               (note->instr == q->ids[0] || note->instr == q->ids[1]);
  if (q->n == 2) about = alone || (about && (note->instr == q->ids[1] || note->other == q->ids[1]));
  return about && !(q->only_not && note->done) &&
         (!q->topic || in_list(q->topic->passes, note->pass));
}

static void say_answer(repl_cmd *c, repl_json *list, const repl_version *v, const pass_note *note) {
  if (!c->doc && v) repl_say(c->out, "@%u %s: %s\n", v->number, note->pass, note->text);
  else if (!c->doc) repl_say(c->out, "%s would say: %s\n", note->pass, note->text);
  repl_json *j = repl_json_object(list, NULL);
  if (v) repl_json_int(j, "version", v->number);
  repl_json_str(j, "pass", note->pass);
  repl_json_bool(j, "done", note->done);
  repl_json_bool(j, "tried", !v);
  repl_json_str(j, "text", note->text);
}

// The fused computation that holds what stems from both instructions; NULL: none.
static const hlo_computation *kernel_of_both(repl_cmd *c, const question *q) {
  hlo_for_each_comp(k, c->m) {
    bool has[2] = {false, false};
    if (!hlo_is_fusion_comp(k)) continue;
    hlo_for_each_instr(i, k)
      for (u32 j = 0; j < 2 && !hs_interrupted(); j++)
        has[j] |= i->id == q->ids[j] || hlo_stems_from(i, q->ids[j]);
    if (has[0] && has[1]) return k;
  }
  return NULL;
}

// When no pass has left a note yet: runs the passes of the topic, reads their notes, and rolls
// their edits back.
static hs_status try_passes(repl_cmd *c, const question *q, repl_json *list, u32 *said) {
  pass_notes notes = {0};
  pass_run_options o = pass_run_default();
  o.measure = false;
  o.notes = &notes;
  size_t mark = hlo_journal_mark(c->m);
  hs_status s = pipeline_run(c->m, q->topic->passes, &o, NULL);
  // in the module as the passes left it: what it became part of counts too
  question there = *q;
  there.only_not = false;
  if (q->n == 1) there.descendants = descendants_of(c, q->ids[0]);
  for (size_t k = 0; k < notes.n; k++) {
    if (hs_ok(s) && answers(c, &there, &notes.v[k]))
      say_answer(c, list, NULL, &notes.v[k]), ++*said;
    hs_free(notes.v[k].text);
  }
  const hlo_computation *both = hs_ok(s) && q->n == 2 && !*said ? kernel_of_both(c, q) : NULL;
  if (both) {
    pass_note note = {
        .pass = "fusion",
        .done = true,
        .text = hs_format("%s and %s are computed by one kernel", q->names[0], q->names[1])};
    say_answer(c, list, NULL, &note);
    hs_free(note.text);
    ++*said;
  }
  hlo_journal_rollback(c->m, mark);
  hs_vec_free(&notes);
  return s;
}

// Folding needs constant operands. No pass records that an operand is not constant, so the first
// such operand is found here.
static const char *not_constant(repl_cmd *c, const question *q) {
  const hlo_instr *i = hlo_find_instr(c->m, q->names[0]);
  for (u32 k = 0; i && k < i->noperands; k++)
    if (hlo_operand(i, k)->opcode != HLO_CONSTANT) {
      char *text = hs_format("its operand %s is not a constant", hlo_operand(i, k)->name);
      const char *kept = hs_arena_strndup(c->scratch, text, strlen(text));
      hs_free(text);
      return kept;
    }
  return "its value is not known before it runs";
}

static u32 say_recorded(repl_cmd *c, const question *q, repl_json *list) {
  u32 said = 0;
  for (const repl_version *v = c->mod->at; v; v = v->parent)
    for (size_t k = 0; k < v->notes.n; k++)
      if (answers(c, q, &v->notes.v[k])) say_answer(c, list, v, &v->notes.v[k]), said++;
  return said;
}

// Reasons that no pass records: the instruction computes nothing, or neither of the two reads the
// other.
static const char *not_fused(repl_cmd *c, const question *q) {
  const hlo_instr *x[2] = {hlo_find_instr(c->m, q->names[0]),
                           q->n == 2 ? hlo_find_instr(c->m, q->names[1]) : NULL};
  if (!x[0]) return "it is not in this version; why with its name alone shows what happened to it";
  for (u32 k = 0; k < 2; k++)
    if (x[k] && (x[k]->opcode == HLO_PARAMETER || x[k]->opcode == HLO_TUPLE ||
                 x[k]->opcode == HLO_GET_TUPLE_ELEMENT))
      return k ? "the other one computes nothing" : "it computes nothing";
  bool reads = !x[0] || !x[1];
  for (u32 k = 0; x[0] && k < x[0]->noperands; k++) reads |= hlo_operand(x[0], k) == x[1];
  for (u32 k = 0; x[1] && k < x[1]->noperands; k++) reads |= hlo_operand(x[1], k) == x[0];
  return reads ? q->topic->never : "neither of the two reads the other";
}

hs_status cmd_why(repl_cmd *c) {
  question q = {.ids = {UINT32_MAX, UINT32_MAX}};
  HS_TRY(read_question(c, &q));
  repl_json *list = repl_json_array(c->doc, "notes");
  u32 said = say_recorded(c, &q, list);
  if (!said && q.topic && q.only_not) {  // asked why not, but a pass did it
    q.only_not = false;
    said = say_recorded(c, &q, list);
    q.only_not = !said;
  }
  if (!said && q.topic) HS_TRY(try_passes(c, &q, list, &said));
  if (!said && q.topic) {
    const char *text = !q.topic->never         ? not_constant(c, &q)
                       : q.topic == &topics[0] ? not_fused(c, &q)
                                               : q.topic->never;
    if (!c->doc) repl_say(c->out, "%s: %s\n", q.names[0], text);
    repl_json_str(c->doc, "reason", text);
    return HS_GOOD;
  }
  if (said || c->doc) return HS_GOOD;
  if (c->mod->at->number == 0)
    repl_note(
        c->out,
        "no pass has run on this module yet; why %s not fused|folded|aliased|layout tries the pass",
        q.names[0]);
  else
    repl_note(c->out, "no pass of this version's history left a note about %s%s%s", q.names[0],
              q.n == 2 ? " and " : "", q.n == 2 ? q.names[1] : "");
  return HS_GOOD;
}
