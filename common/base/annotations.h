#pragma once

// Clang's thread-safety annotations, checked by the clang job of `./dev check`; nothing elsewhere.
// https://clang.llvm.org/docs/ThreadSafetyAnalysis.html

#if defined(__clang__)
#define BATON_ANNOTATION_(x) __attribute__((x))
#else
#define BATON_ANNOTATION_(x)
#endif

#define BATON_CAPABILITY(x) BATON_ANNOTATION_(capability(x))
#define BATON_SCOPED_CAPABILITY BATON_ANNOTATION_(scoped_lockable)
#define GUARDED_BY(x) BATON_ANNOTATION_(guarded_by(x))
#define REQUIRES(...) BATON_ANNOTATION_(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) BATON_ANNOTATION_(acquire_capability(__VA_ARGS__))
#define RELEASE(...) BATON_ANNOTATION_(release_capability(__VA_ARGS__))
#define EXCLUDES(...) BATON_ANNOTATION_(locks_excluded(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS BATON_ANNOTATION_(no_thread_safety_analysis)
