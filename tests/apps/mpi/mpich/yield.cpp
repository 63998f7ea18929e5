// Preloaded, it lets MPICH share processors. MPICH waits by looking again and again and never lets
// go of its processor: where ranks are more than processors, the rank that is waited for gets none
// until the kernel takes one away, and each wait costs milliseconds. Here it gives way whenever
// UCX, through which it communicates, had nothing new.
#include <dlfcn.h>
#include <sched.h>

extern "C" __attribute__((visibility("default"))) unsigned ucp_worker_progress(void* worker) {
  using Progress = unsigned (*)(void*);
  static const auto progress = reinterpret_cast<Progress>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  const unsigned made = progress(worker);
  if (made == 0) sched_yield();
  return made;
}
