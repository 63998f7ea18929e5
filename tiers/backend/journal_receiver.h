// SPDX-License-Identifier: Apache-2.0
// Writes the part of a journal that a client hands over to its file. A backend that takes over may
// write the same bytes again, so the file itself is the only record.
//
// While the store does not answer, the receiver keeps few slots: spill() moves waiting slots to a
// local tier (journal_spill.h), from which they go to the file later.
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

// Thread-safe. The receiver's thread opens, writes and syncs the file.
class JournalReceiver {
 public:
  struct Setting {
    std::string file;
    // Number of leading slots that were handed over before the journal was first seen. If such a
    // slot is not added, an earlier backend has written it, or it is in a spill.
    uint64_t before = 0;
    // Returns the paths of the spills that earlier backends left. The journal fails if fewer than
    // `spills_before` of them have slots. Called by the receiver's thread, and again after
    // `look_again` while a device fails. Null: there are none.
    std::function<Result<std::vector<std::string>>()> find_spills;
    uint32_t spills_before = 0;
    std::chrono::nanoseconds look_again = std::chrono::seconds(5);
    Spawn spawn;
  };
  struct Actions {
    // The number of leading slots that are durable. By any thread, without a lock held.
    std::function<void(uint64_t slots)> progress;
    // The number of spills with slots that are not in the file. By any thread, with a lock held:
    // before the first slot of a spill is released, and before a spill is removed. Must not block
    // or call the receiver.
    std::function<void(uint32_t count)> spills;
    // A local tier did not take a slot; the slot waits in memory again. By any thread.
    std::function<void(const std::string& path, const Status& why)> local_failed;
    // The journal is sealed and durable, or has failed. The last call of the receiver's thread.
    std::function<void(const Status&)> ended;
  };
  static Result<std::shared_ptr<JournalReceiver>> start(FileSystem& files, Setting setting,
                                                        Actions actions);
  virtual ~JournalReceiver() = default;  // waits for writes in flight

  struct Slot {
    uint64_t sequence = 0;
    uint64_t offset = 0;               // in the file
    std::span<const std::byte> bytes;  // stay as they are until released
    // Called once. If the slot was not written, not before the end of the journal.
    std::function<void(bool written)> release;
  };
  virtual void add(Slot slot) = 0;
  // All leading slots that are still in the staging area have been added; the others are in the
  // file or in a spill. If there are leading slots (Setting::before), nothing is written before
  // this call.
  virtual void all_found() = 0;
  virtual void seal(uint64_t slots) = 0;

  // Room on a local tier.
  struct SpillRoom {
    std::string path;  // of a file that does not exist
    uint64_t bytes = 0;
    std::function<void()> give_back;  // called once, by any thread: the room is free again
  };
  // Returns whether slots wait that are neither being written to the store nor to a spill.
  virtual bool keeps_slots() const = 0;
  // Moves as many of these slots there as fit.
  virtual void spill(SpillRoom room) = 0;

  // Ends the receiver and leaves everything to another backend.
  virtual void leave() = 0;
  // Waits until that many leading slots are durable, the journal has failed, or `gave_up` returns
  // true.
  virtual Status make_durable(uint64_t slots, const std::function<bool()>& gave_up) = 0;
};

}  // namespace gpusnap
