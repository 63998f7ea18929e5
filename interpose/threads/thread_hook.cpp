// pthread_create and thrd_create, exported: each thread that the program makes is told its path
// (thread_path.h), and nothing else happens to it.
//
// A new thread's path, function and argument travel in a slot of our own table, not in allocated
// memory: the program's heap stays as it would be without us, and processes that are never followed
// get nothing from us. A slot is free again as soon as its thread has begun.

#include <errno.h>
#include <pthread.h>
#include <threads.h>
#include <unistd.h>

#include <atomic>

#include "interpose/hook/hook.h"
#include "interpose/hook/next_function.h"
#include "interpose/threads/thread_path.h"

// Under the C library's own versions: a program asks for them by version.
asm(R"(
  .globl gpusnap_pthread_create_new, gpusnap_pthread_create_old
  .set gpusnap_pthread_create_new, gpusnap_pthread_create
  .set gpusnap_pthread_create_old, gpusnap_pthread_create
  .symver gpusnap_pthread_create_new, pthread_create@@GLIBC_2.34, remove
  .symver gpusnap_pthread_create_old, pthread_create@GLIBC_2.2.5, remove
  .globl gpusnap_thrd_create_new, gpusnap_thrd_create_old
  .set gpusnap_thrd_create_new, gpusnap_thrd_create
  .set gpusnap_thrd_create_old, gpusnap_thrd_create
  .symver gpusnap_thrd_create_new, thrd_create@@GLIBC_2.34, remove
  .symver gpusnap_thrd_create_old, thrd_create@GLIBC_2.28, remove
)");

namespace gpusnap {
namespace {

template <class Result>
struct Start {
  std::atomic<bool> taken{false};
  Result (*routine)(void*) = nullptr;
  void* argument = nullptr;
  ThreadPath path;
};

// More threads than these are hardly ever about to begin at the same time.
constexpr size_t kStarts = 64;
template <class Result>
constinit Start<Result> starts[kStarts];

// Null when all are taken for long: the new thread then has no path.
template <class Result>
Start<Result>* take_start() {
  constexpr int kTries = 20'000;
  for (int i = 0; i < kTries; ++i) {
    for (Start<Result>& start : starts<Result>) {
      bool expected = false;
      if (!start.taken.load(std::memory_order_relaxed) &&
          start.taken.compare_exchange_strong(expected, true, std::memory_order_acquire)) {
        return &start;
      }
    }
    usleep(50);  // not a mere yield: who is to begin may be of a lower priority
  }
  return nullptr;
}

// Not noexcept: a thread that is cancelled or calls pthread_exit unwinds through it.
template <class Result>
Result run(void* given) {
  auto* start = static_cast<Start<Result>*>(given);
  Result (*routine)(void*) = start->routine;
  void* argument = start->argument;
  own_thread_path() = start->path;
  const RunningThread running(start->path);
  start->taken.store(false, std::memory_order_release);
  return routine(argument);
}

// `make(routine, argument)` makes the thread and returns `kMade` where it could.
template <int kMade, class Result, class Make>
int make_thread(Result (*routine)(void*), void* argument, Make&& make) {
  // Inside a hooked call it is the driver, or we, who make it.
  if (Guard::held()) return make(routine, argument);
  ThreadPath& own = own_thread_path();
  Start<Result>* start = own.known ? take_start<Result>() : nullptr;
  int result;
  if (start == nullptr) {
    result = make(routine, argument);
  } else {
    start->routine = routine;
    start->argument = argument;
    start->path = child_of(own);
    result = make(&run<Result>, start);
    if (result != kMade) start->taken.store(false, std::memory_order_release);
  }
  if (result == kMade) ++own.children;
  return result;
}

using PthreadCreate = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
using ThrdCreate = int (*)(thrd_t*, thrd_start_t, void*);
constinit std::atomic<PthreadCreate> next_pthread_create{nullptr};
constinit std::atomic<ThrdCreate> next_thrd_create{nullptr};

}  // namespace
}  // namespace gpusnap

extern "C" {

[[gnu::visibility("hidden"), gnu::used]] int gpusnap_pthread_create(
    pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*), void* argument) {
  using namespace gpusnap;
  const auto next = next_function("pthread_create", next_pthread_create);
  if (next == nullptr) return EAGAIN;
  return make_thread<0>(routine, argument, [&](void* (*begin)(void*), void* given) {
    return next(thread, attributes, begin, given);
  });
}

[[gnu::visibility("hidden"), gnu::used]] int gpusnap_thrd_create(thrd_t* thread,
                                                                 thrd_start_t routine,
                                                                 void* argument) {
  using namespace gpusnap;
  const auto next = next_function("thrd_create", next_thrd_create);
  if (next == nullptr) return thrd_error;
  return make_thread<thrd_success>(routine, argument, [&](thrd_start_t begin, void* given) {
    return next(thread, begin, given);
  });
}
}
