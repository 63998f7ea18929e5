// SPDX-License-Identifier: Apache-2.0
// Whether this process writes device memory directly to local tiers, and what it knows about it.
// After the first failure it does not any more.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "interpose/direct/cufile.h"
#include "interpose/direct/direct_choice.h"
#include "interpose/direct/library_calls.h"
#include "interpose/services/settings.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap {

// Thread-safe.
class DirectStorage {
 public:
  static constexpr const char* kLibrary = "libcufile.so.0";

  // Whether the settings leave anything to be written directly: there is a local tier, and what is
  // written is compared with fingerprints and not compressed whatever it takes.
  static bool is_wanted(const Settings& settings);
  // Null: there is no library, or it refuses, which is told in one line. `library`: its name or
  // path.
  static std::unique_ptr<DirectStorage> open(const Settings& settings,
                                             const char* library = kLibrary);

  // Starts the thread that makes the library's calls, which never ends.
  void begin(const Driver& driver, const Spawn& spawn);

  const CuFile& library() const { return *library_; }
  // For what may have to wait for an SSD.
  LibraryCalls& calls() { return calls_; }
  bool usable() const { return !failed_.load(std::memory_order_acquire); }
  // For good. One line says why, once.
  void fail(const Status& why);
  // The same, for a call about this file that has not returned for so long: nothing is asked of the
  // library any more.
  void stop_calling(const std::string& path, std::chrono::seconds longest);
  bool responds() const { return !stopped_.load(std::memory_order_acquire); }
  // That call has still not returned, and may read device memory.
  bool is_stuck() const { return !responds() && calls_.is_under_way(); }

  // GPUSNAP_DIRECT=always: however fast it is.
  bool always() const { return always_; }
  // Whether the next run is to go directly.
  bool chosen() const;
  void ended(SaveWay way, uint64_t bytes, uint64_t ns);

 private:
  DirectStorage(std::unique_ptr<CuFile> library, bool always)
      : library_(std::move(library)), always_(always) {}

  const std::unique_ptr<CuFile> library_;
  const bool always_;
  LibraryCalls calls_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> stopped_{false};
  mutable std::mutex mutex_;
  DirectChoice choice_;
};

}  // namespace gpusnap
