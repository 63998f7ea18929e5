#include "interpose/hook/activation.h"

#include <pthread.h>

#include <mutex>

namespace gpusnap {

constinit std::atomic<bool> process_active{false};

namespace {

constinit std::atomic<bool> forked{false};
constinit std::mutex start_lock;
constinit bool started = false;  // under start_lock

void become_inert() {
  // The child has none of our threads, and a copy of locks that they may have held.
  forked.store(true, std::memory_order_relaxed);
  process_active.store(false, std::memory_order_relaxed);
  session_abandon_after_fork();
}

}  // namespace

void activate(const Guard& guard) {
  if (forked.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(start_lock);
  if (started) return;
  started = true;
  pthread_atfork(nullptr, nullptr, become_inert);
  if (session_start(guard)) process_active.store(true, std::memory_order_release);
}

}  // namespace gpusnap
