// SPDX-License-Identifier: Apache-2.0
// Clang's annotations for its static check of locks (-Wthread-safety); nothing for other compilers.
#pragma once

#if defined(__clang__)
#define GPUSNAP_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define GPUSNAP_THREAD_ANNOTATION(x)
#endif

// For a class: it is a lock, or it holds one for a scope.
#define CAPABILITY(name) GPUSNAP_THREAD_ANNOTATION(capability(name))
#define SCOPED_CAPABILITY GPUSNAP_THREAD_ANNOTATION(scoped_lockable)

// For a member: it is used only while the lock is held.
#define GUARDED_BY(lock) GPUSNAP_THREAD_ANNOTATION(guarded_by(lock))

// For a function: the caller holds the lock (it may be released in between); the caller does not
// hold it.
#define REQUIRES(...) GPUSNAP_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) GPUSNAP_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

// For a function: it takes the lock; it releases it; after it the analysis takes the lock for held.
#define ACQUIRE(...) GPUSNAP_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) GPUSNAP_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define ASSERT_CAPABILITY(x) GPUSNAP_THREAD_ANNOTATION(assert_capability(x))

// For a function that the analysis cannot follow.
#define NO_THREAD_SAFETY_ANALYSIS GPUSNAP_THREAD_ANNOTATION(no_thread_safety_analysis)
