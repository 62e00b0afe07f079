// cases.h — XLA's pass tests as data: reads and checks the C++ expectations that such a test
// holds, and prepares the module and the passes as the test does.
//
// XLA's tests state what must hold after a pass in C++: patterns over instructions, gMock matchers,
// EXPECT_ and ASSERT_ macros, small loops. The cells of a table of cases carry that text as it
// stands. Each check gives one of three answers; XC_UNKNOWN says that the text uses something that
// is not covered here, so that a case can be counted as not checkable and never as passed.
#ifndef TESTS_XLA_CASES_CASES_H
#define TESTS_XLA_CASES_CASES_H

#include "core/ir/ir.h"

typedef enum { XC_NO, XC_YES, XC_UNKNOWN } xc_answer;

// What the terms of a case are evaluated in: the module, the module before the pass, and the
// variables that the case has set so far.
typedef struct xc_env xc_env;

// before: NULL, or a clone of m made just before this call; instructions of the two are paired by
// position, so that a term about the old module can name an instruction of the new one. Both are
// borrowed. Released with xc_close.
xc_env *xc_open(const hlo_module *m, const hlo_module *before);
void xc_close(xc_env *v);

// One cell of the column `pattern`: [not ][TERM ~ ]PATTERN; without a term, about the entry's root.
xc_answer xc_check_pattern(xc_env *v, const char *text);
// One entry of the column `asserts`: an EXPECT_ or ASSERT_ macro, or a loop or condition over some.
xc_answer xc_check_statement(xc_env *v, const char *text);
// Appends what the C++ expression `how` prints ("m->ToString(HloPrintOptions::ShortParsable())");
// the empty text is m->ToString(). False when it is not understood.
bool xc_print(xc_env *v, const char *how, hs_buf *text);

// Applies the statements of the column `edits` to m; false, with the first statement that is not
// understood in `why`.
bool xc_apply_edits(hlo_module *m, const char *edits, hs_buf *why);
// Gives the entry's parameters and result row-major layouts, as ComputationLayout(shape) does.
void xc_set_default_layouts(hlo_module *m);
// Appends the pass as the pipeline language writes it, with the options that XLA's test gives it
// (columns `class`, `test`, "Suite.Case", `options` and `config`); false, with the first option
// that our pass does not have in `why`.
bool xc_pass_text(hs_buf *out, const hlo_module *m, const char *pass, const char *classname,
                  const char *test, const char *options, const char *config, hs_buf *why);
// Ends the text at the first separator outside of brackets and quotes and gives what follows it;
// NULL when there is none.
char *xc_split(char *text, const char *separator);

#endif
