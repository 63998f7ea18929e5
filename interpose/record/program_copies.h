// The program's own copies from devices to the host that are on their way, as far as calls tell of
// them: what a snapshot copies in the background does not get in their way (copy_throttle.h).
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace gpusnap {

class ProgramCopies {
 public:
  struct Leave {
    void operator()(ProgramCopies* copies) const {
      copies->passed_.fetch_add(1, std::memory_order_relaxed);
      copies->on_way_.fetch_sub(1, std::memory_order_release);
    }
  };
  // One that is on its way for as long as this lives; null: one of which nobody wants to know. No
  // allocation.
  using Ticket = std::unique_ptr<ProgramCopies, Leave>;

  Ticket enter() {
    on_way_.fetch_add(1, std::memory_order_relaxed);
    return Ticket(this);
  }
  // Whether any is on its way.
  bool any() const { return on_way_.load(std::memory_order_acquire) != 0; }
  // How many have arrived: when it changes, the program's next may be a while away.
  uint64_t passed() const { return passed_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> on_way_{0}, passed_{0};
};

}  // namespace gpusnap
