// Writes a journal's part, which a client hands over, to its file. A backend that takes over may
// write the same bytes again, so nothing is noted anywhere but in the file itself.
//
// While the store does not answer, the receiver keeps few slots: spill() moves waiting ones to a
// local tier (journal_spill.h), and from there they go to the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap {

// Thread-safe. A thread of its own opens the file, writes and syncs it.
class JournalReceiver {
 public:
  struct Setting {
    std::string file;
    // Leading slots that were handed over before the journal was first seen. If such a slot is not
    // added, an earlier backend has written it, or it is in a spill.
    uint64_t before = 0;
    // Finds the spills that earlier backends left, at least `spills_before` of them with slots, or
    // the journal fails. Called by the receiver's thread, again after `look_again` as long as a
    // device fails. Null: there are none.
    std::function<Result<std::vector<std::string>>()> find_spills;
    uint32_t spills_before = 0;
    std::chrono::nanoseconds look_again = std::chrono::seconds(5);
    Spawn spawn;
  };
  struct Actions {
    // So many of the leading slots are durable. By any thread, without a lock held.
    std::function<void(uint64_t slots)> progress;
    // So many spills have slots that are not in the file. By any thread: before the first slot of
    // one is released, and before one is removed. Ends soon, calls nothing of this.
    std::function<void(uint32_t count)> spills;
    // A local tier did not take a slot, which waits in memory again. By any thread.
    std::function<void(const std::string& path, const Status& why)> local_failed;
    // It has been sealed, is wholly durable or has failed, and its thread is about to end.
    std::function<void(const Status&)> ended;
  };
  static Result<std::shared_ptr<JournalReceiver>> start(FileSystem& files, Setting setting,
                                                        Actions actions);
  virtual ~JournalReceiver() = default;  // waits for what is on its way

  struct Slot {
    uint64_t sequence = 0;
    uint64_t offset = 0;               // in the file
    std::span<const std::byte> bytes;  // stay as they are until released
    // Where it was not written, not before the end of the journal.
    std::function<void(bool written)> release;
  };
  virtual void add(Slot slot) = 0;
  // Leading slots that have not been added by now are in the file or in a spill. If there are
  // leading slots (Setting::before), nothing is written before this call.
  virtual void all_found() = 0;
  virtual void seal(uint64_t slots) = 0;

  // Room on a local tier.
  struct SpillRoom {
    std::string path;  // of a file that does not exist
    uint64_t bytes = 0;
    std::function<void()> give_back;  // called once, by any thread: the room is free again
  };
  // Slots wait that the store has not been asked to take, and none are on their way to a spill.
  virtual bool keeps_slots() const = 0;
  // Moves as many of them there as fit.
  virtual void spill(SpillRoom room) = 0;

  // Another backend is to go on: all stays as it is.
  virtual void leave() = 0;
  // Waits until so many of the leading slots are durable, or it has failed, or `gave_up`.
  virtual Status make_durable(uint64_t slots, const std::function<bool()>& gave_up) = 0;
};

}  // namespace gpusnap
