// When the bulk transfers of the fault file system end, and in which order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tiers/file_system.h"

namespace gpusnap::test {

enum class Ending {
  kAtOnce,     // before write() or read() returns
  kWhenAsked,  // at end_some(), sync(), or with the file; in an order that the seed decides
  kByThread,   // by and by, by a thread, in an order that the seed decides
};

// Thread-safe, with the mutex of the file system.
class FaultTransfers {
 public:
  struct Transfer {
    const void* file = nullptr;      // whose it is
    uint64_t ticket = 0;             // in the order of their beginnings, over all files
    bool stalled = false;            // ends after release() only
    std::function<Status()> effect;  // run once, with the lock held
    BulkFile::Done done;
  };

  explicit FaultTransfers(std::mutex& mutex) : mutex_(mutex) {}
  FaultTransfers(const FaultTransfers&) = delete;
  FaultTransfers& operator=(const FaultTransfers&) = delete;
  ~FaultTransfers();

  // Without the lock; nothing may be on its way.
  void set_ending(Ending ending, uint64_t seed);
  // All of these with the lock held, which they give up to call `done`.
  void begin(std::unique_lock<std::mutex>& lock, Transfer transfer);
  size_t end_some(std::unique_lock<std::mutex>& lock, size_t count);
  // Waits until those of the file's transfers that have begun by now have ended.
  void wait(std::unique_lock<std::mutex>& lock, const void* file);
  // Lets stalled transfers go on.
  void release(std::unique_lock<std::mutex>& lock);
  size_t on_their_way() const { return held_.size() + ending_now_.size(); }

 private:
  // Ends one transfer of `file`; null: of any file. False when there is none that may end.
  bool end_one(std::unique_lock<std::mutex>& lock, const void* file);
  bool any_before(const void* file, uint64_t ticket) const;
  void run();
  void stop_thread();

  std::mutex& mutex_;
  std::condition_variable changed_;
  std::vector<Transfer> held_;
  struct Now {
    const void* file;
    uint64_t ticket;
  };
  std::vector<Now> ending_now_;
  uint64_t next_ticket_ = 0;
  Ending ending_ = Ending::kAtOnce;
  std::mt19937_64 random_;
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace gpusnap::test
