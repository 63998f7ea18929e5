// SPDX-License-Identifier: Apache-2.0
//
// A lock between the processes of one user on one node, for what they do better one after the other
// (the deep-tiers showcase, slide 24: registrations compete in the driver, allocations of device
// memory in the device). The system releases it when its holder dies, however it dies. It only
// saves time: where it cannot be had, its user goes on without it.
//
// Never held, nor waited for, with another lock of ours held. In turn, calls of the driver are made
// with it held, which is what it is for, and nothing else is.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "tiers/io/system_call.h"
#include "tiers/status.h"

namespace gpusnap {

// Thread-safe; threads of one process exclude each other, too.
class NodeLock {
 public:
  // The file is made by each holder and removed at its end: a holder that is killed leaves one,
  // which the next one removes. A child that was forked meanwhile and lives on keeps the lock of a
  // holder that is killed. `purpose`: of a file name; processes of one `node` (node_name())
  // share it.
  NodeLock(const std::string& node, const std::string& purpose);
  // A file of that path, in a folder that is there.
  explicit NodeLock(std::string path);
  NodeLock(const NodeLock&) = delete;
  NodeLock& operator=(const NodeLock&) = delete;

  // Releases it at its end.
  class Held {
   public:
    Held(const NodeLock& lock, Descriptor file) : lock_(lock), file_(std::move(file)) {}
    Held(Held&&) noexcept = default;
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    Held& operator=(Held&&) = delete;
    ~Held();

   private:
    const NodeLock& lock_;
    Descriptor file_;  // not valid: moved from
  };
  // Does not wait. Nothing: another one has it. Fails where no such lock is to be had. The NodeLock
  // outlives what it returns.
  Result<std::optional<Held>> try_hold() const;

  const std::string& path() const { return path_; }

 private:
  // The file, open and locked; not valid: another one has it, or is just removing it.
  Result<Descriptor> lock_file() const;

  const bool makes_folder_;
  const std::string path_;
};

}  // namespace gpusnap
