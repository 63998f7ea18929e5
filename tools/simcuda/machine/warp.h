// A warp in execution: groups of lanes that share a place in the program.
//
// Lanes that branch apart form groups of their own. The group that is deepest in calls and, there,
// earliest in the code runs first, and groups that meet at one place of one call become one: that
// is where structured code comes together again. A group runs on until it meets another or waits.
// One that others have kept from running for too long has a turn, so that lanes may wait for one
// another.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/simcuda/machine/code.h"
#include "tools/simcuda/machine/repetition.h"

namespace simcuda {

class Block;

struct Group {
  enum class State : uint8_t { kReady, kAtBarrier, kAtSync };
  uint32_t mask = 0;
  uint32_t next = 0;  // operation
  Frame* frame = nullptr;
  State state = State::kReady;
  uint32_t barrier = 0;
  uint32_t members = 0;   // at a synchronisation of the warp
  uint64_t last_run = 0;  // Warp::elapsed then
};

// Frames and their registers, kept for reuse.
class FramePool {
 public:
  Frame* take(const CodeFunction& code);
  void give(Frame* frame);

 private:
  struct Entry {
    Frame frame;
    struct Free {
      void operator()(std::byte* p) const;
    };
    std::unique_ptr<std::byte, Free> memory;
    uint64_t bytes = 0;
  };
  std::vector<std::unique_ptr<Entry>> all_;
  std::vector<Entry*> free_;
};

struct Warp : WarpView {
  Block* block = nullptr;
  uint32_t index = 0;               // in the block
  uint32_t live = 0;                // lanes that have not exited
  uint64_t elapsed = 0;             // operations, and what waiting counts as
  uint64_t next_look = 0;           // for groups that have waited too long: when `elapsed` is this
  uint32_t favoured = kLanes;       // the lane whose group runs out of order; kLanes: none
  bool taking_turns = false;        // a group has waited too long, and none has met another since
  Repetition repetition;            // of the group that runs
  uint32_t thread[3][kLanes] = {};  // %tid of each lane
  std::vector<Group> groups;
  FramePool* frames = nullptr;
  const Op* fault_op = nullptr;
  const CodeFunction* fault_code = nullptr;
  Fault::Kind fault_kind = Fault::Kind::kNone;
  std::string fault_reason;  // where `fault` does not say it
};

// The reason that a stretch of execution ended.
enum class Stop : uint8_t { kBlocked, kBudget, kDone, kFault };

// Runs until the warp ends, can only wait, or has done about `budget` operations.
// `instructions` counts operations times lanes.
Stop run_warp(Warp& warp, uint64_t budget, uint64_t* instructions, uint64_t* operations);

// A string in global memory, for a message of one line: what cannot be read or printed is replaced.
std::string text_at(const WarpView& warp, uint64_t address);

// The group's operation at `group.next` is a SyncOp whose members are all there: does it for the
// groups of `participants` together, without moving them on.
void synchronise(Warp& warp, const std::vector<Group*>& participants);

}  // namespace simcuda
