// Notices that lanes wait: they go round a loop and nothing of theirs changes.
#pragma once

#include <vector>

#include "tools/simcuda/machine/code.h"

namespace simcuda {

// One call in execution, by the lanes that made it together.
struct Frame {
  Frame* caller = nullptr;
  const CodeFunction* code = nullptr;
  std::byte* registers = nullptr;
  uint64_t local_base = 0;  // in each lane's local memory
  uint32_t return_to = 0;   // operation in the caller
  uint32_t lanes = 0;       // still in it
  uint32_t depth = 0;
  void* owner = nullptr;  // of its pool
};

// Compares the registers of lanes that come to a place of a loop with those they had there a pass
// before. It looks now and then, more seldom where there are many registers, so that loops which do
// something are not slowed down.
class Repetition {
 public:
  void restart() { frame_ = nullptr; }
  // Whether it wants to be told of lanes that go round a loop; `elapsed` counts operations.
  bool due(uint64_t elapsed) const { return frame_ != nullptr || elapsed >= next_; }
  // The lanes go back to `place`, the start of a loop. True: nothing has changed since they were
  // there before, so they wait for others.
  bool seen(const Frame& frame, uint32_t place, uint32_t mask, uint64_t elapsed);

 private:
  void keep(const Frame& frame);
  bool unchanged(const Frame& frame) const;

  // The registers kept for comparison; no frame: there are none.
  const Frame* frame_ = nullptr;
  uint32_t place_ = 0;
  uint32_t mask_ = 0;
  std::vector<std::byte> kept_;
  uint64_t next_ = 0;
};

}  // namespace simcuda
