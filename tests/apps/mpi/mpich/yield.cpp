// Preloaded, it lets MPICH share processors. MPICH waits by looking again and again and never lets
// go of its processor: where ranks are more than processors, the rank that is waited for gets none
// until the kernel takes one away, and each wait costs milliseconds. Here it gives way whenever
// UCX, through which it communicates, had nothing new, and rests where that goes on: what gives way
// only is still in the way of threads that have to be woken.
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

namespace {
constexpr unsigned kLooks = 10;
constexpr unsigned kRest = 20;  // us
}  // namespace

extern "C" __attribute__((visibility("default"))) unsigned ucp_worker_progress(void* worker) {
  using Progress = unsigned (*)(void*);
  static const auto progress = reinterpret_cast<Progress>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  static thread_local unsigned looks = 0;  // in vain, in a row
  const unsigned made = progress(worker);
  if (made != 0) {
    looks = 0;
  } else if (++looks < kLooks) {
    sched_yield();
  } else {
    usleep(kRest);
  }
  return made;
}
