// expr.h — the expressions of `find ... where`, `assert` and `until`: numbers with units, text,
// comparisons, and/or/not.
//
//   expr := or; or := and {("or"|"||") and}; and := not {("and"|"&&") not}; not := ["not"|"!"] cmp
//   cmp := sum [("<"|"<="|">"|">="|"=="|"="|"!="|"~"|"!~") sum]; sum := product {("+"|"-") product}
//   product := unary {("*"|"/") unary}; unary := ["-"] primary; primary := NUMBER | "text" | NAME |
//   NAME(ARG) | (expr)
// `~` is "contains", or a shell pattern when the text holds * or ?. Names come from a scope.
#ifndef REPL_EXPR_H
#define REPL_EXPR_H

#include "core/base/diag.h"

typedef struct repl_value {
  const char *text;
  double number;
} repl_value;  // text NULL: a number

typedef struct repl_scope {
  // Value of NAME, or of NAME(arg) with the argument's text; false when there is no such name.
  bool (*lookup)(void *arg, const char *name, const char *call_arg, repl_value *out);
  void *arg;
  const char *const *names;
  size_t nnames;  // for "did you mean"
} repl_scope;

// Evaluates an expression. E_USAGE says what is wrong with it, and where. A result that is text is
// reduced to its truth.
hs_status repl_eval(const char *text, const repl_scope *, repl_value *out);
// Whether a value counts as true: a number other than 0, a text that is not empty.
bool repl_truth(repl_value);
// The operator `~`: whether the text contains the pattern, or matches it when it holds * or ?.
bool repl_matches(const char *text, const char *pattern);

#endif
