// fast.h — for files whose inner loops matter: everything after this line is compiled for
// speed, whatever the build says, and LOOP in front of a `for` promises that its iterations are
// independent.
#ifndef HLO_EVAL_FAST_H
#define HLO_EVAL_FAST_H

#if defined(__clang__)
#pragma clang diagnostic ignored \
    "-Wpass-failed"  // divisions and the like stay scalar, and that is fine
#define LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#pragma GCC optimize("O3")
#define LOOP _Pragma("GCC ivdep")
#endif

#endif
