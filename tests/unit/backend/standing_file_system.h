// SPDX-License-Identifier: Apache-2.0
// A store that does not answer.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "tests/support/forwarding_file_system.h"

namespace gpusnap::test {

// No folder is made below `below` until it is told to go on.
class StandingFileSystem final : public ForwardingFileSystem {
 public:
  StandingFileSystem(FileSystem& files, std::string below)
      : ForwardingFileSystem(files), below_(std::move(below)) {}

  void stand(bool stands) {
    const std::lock_guard lock(mutex_);
    stands_ = stands;
    changed_.notify_all();
  }

  Status make_folder(const std::string& folder) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !stands_ || !folder.starts_with(below_); });
    lock.unlock();
    return ForwardingFileSystem::make_folder(folder);
  }

 private:
  const std::string below_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stands_ = false;
};

}  // namespace gpusnap::test
