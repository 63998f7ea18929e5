// A journal's part on its way from a client to its file. What has been written may be written again
// by a backend that takes over, so nothing is noted anywhere but in the file itself.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>

#include "tiers/file_system.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap {

// Thread-safe. Writes begin at once; a thread of its own opens the file and syncs it.
class JournalReceiver {
 public:
  struct Actions {
    // So many of the leading slots are durable. By any thread, without a lock held.
    std::function<void(uint64_t slots)> progress;
    // It has been sealed, is wholly durable or has failed, and its thread is about to end.
    std::function<void(const Status&)> ended;
  };
  // `before`: how many of the leading slots were handed over when it was first seen. Of those, what
  // does not come had been written by an earlier backend.
  static Result<std::shared_ptr<JournalReceiver>> start(FileSystem& files, std::string file,
                                                        uint64_t before, Actions actions,
                                                        const Spawn& spawn);
  virtual ~JournalReceiver() = default;  // waits for what is on its way

  struct Slot {
    uint64_t sequence = 0;
    uint64_t offset = 0;               // in the file
    std::span<const std::byte> bytes;  // stay as they are until released
    // Where it was not written, not before the end of the journal.
    std::function<void(bool written)> release;
  };
  virtual void add(Slot slot) = 0;
  // Of the leading ones, those not added by now are in the file. Nothing is written before it,
  // where there are such.
  virtual void all_found() = 0;
  virtual void seal(uint64_t slots) = 0;
  // Nobody needs it any more, or this backend ends: as it is.
  virtual void leave() = 0;
  // Waits until so many of the leading slots are durable, or it has failed, or `gave_up`.
  virtual Status make_durable(uint64_t slots, const std::function<bool()>& gave_up) = 0;
};

}  // namespace gpusnap
