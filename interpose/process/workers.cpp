#include "interpose/process/workers.h"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

#include "interpose/hook/resolve.h"
#include "interpose/services/private_memory.h"
#include "tiers/unlocked.h"

namespace gpusnap {

namespace {
// Our own malloc is a private one; what libraries of the program call is this.
void use_heap() {
  const auto allocate =
      reinterpret_cast<decltype(&std::malloc)>(real_dlsym(RTLD_DEFAULT, "malloc"));
  const auto release = reinterpret_cast<decltype(&std::free)>(real_dlsym(RTLD_DEFAULT, "free"));
  if (allocate != nullptr && release != nullptr) release(allocate(1));
}
}  // namespace

Workers::Workers(int threads, Heap heap) : heap_(heap) {
  std::unique_lock lock(mutex_);
  for (int i = 0; i < threads; ++i) {
    const size_t index = workers_.size();
    workers_.emplace_back();
    if (!spawn_thread([this, index] { work(index); })) workers_.pop_back();
    // One after the other: where arenas lie that are made at the same time is chance.
    if (heap_ == Heap::kUsed) changed_.wait(lock, [this] { return begun_ == workers_.size(); });
  }
}

void Workers::work(size_t index) {
  if (heap_ == Heap::kUsed) use_heap();
  std::unique_lock lock(mutex_);
  ++begun_;
  changed_.notify_all();
  for (;;) {
    changed_.wait(lock, [&] { return static_cast<bool>(workers_[index].body); });
    auto body = workers_[index].body;
    {
      const Unlocked unlocked(lock);
      body();
      body = nullptr;
    }
    workers_[index].body = nullptr;
    ++workers_[index].ended;
    changed_.notify_all();
  }
}

std::function<void()> Workers::spawn(std::function<void()> body) {
  std::lock_guard lock(mutex_);
  for (size_t index = 0; index < workers_.size(); ++index) {
    if (workers_[index].body) continue;
    workers_[index].body = std::move(body);
    changed_.notify_all();
    return [this, index, before = workers_[index].ended] {
      std::unique_lock waiting(mutex_);
      changed_.wait(waiting, [&] { return workers_[index].ended != before; });
    };
  }
  return {};
}

}  // namespace gpusnap
