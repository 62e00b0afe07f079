// registry.c — the list of passes and pipelines, generated from passes.def and pipelines.def.
// Adding a pass takes a file with its descriptor and a row in passes.def.
#include "passes/passes.h"

#define PASS(name) extern const pass_info pass_##name;
#include "passes/passes.def"
#undef PASS

static const pass_info *const passes[] = {
#define PASS(name) &pass_##name,
#include "passes/passes.def"
#undef PASS
};

static const pass_pipeline pipelines[] = {
#define PIPELINE(name, summary, text) {name, summary, text},
#include "passes/pipelines.def"
#undef PIPELINE
};

const pass_registry pass_builtin = {passes, (u32)HS_COUNT(passes), pipelines,
                                    (u32)HS_COUNT(pipelines), NULL};

pass_run_options pass_run_default(void) {
  return (pass_run_options){
      .verify = true, .measure = true, .rewrite_limit = -1, .registry = &pass_builtin};
}
