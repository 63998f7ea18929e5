// SPDX-License-Identifier: Apache-2.0
//
// A lock between the processes of one user on one node, for calls that are faster one after the
// other (the deep-tiers showcase, slide 24: registrations compete in the driver, allocations of
// device memory in the device). The system releases it when its holder dies. It only saves time: if
// it cannot be had, its user goes on without it.
//
// It is neither taken nor waited for while another lock of gpusnap is held. Only calls of the
// driver are made while it is held.
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
  // Each holder makes the file and removes it at its end. A killed holder leaves the file, and the
  // next holder removes it. A child that a killed holder had forked keeps the lock as long as it
  // runs. `purpose`: part of the file's name; processes of one `node` (node_name()) share the file.
  NodeLock(const std::string& node, const std::string& purpose);
  // `path`: of a file in an existing folder.
  explicit NodeLock(std::string path);
  NodeLock(const NodeLock&) = delete;
  NodeLock& operator=(const NodeLock&) = delete;

  // Releases the lock in its destructor.
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
  // Does not wait. Empty: another holder has the lock. Fails if the system has no such lock. The
  // NodeLock outlives the result.
  Result<std::optional<Held>> try_hold() const;

  const std::string& path() const { return path_; }

 private:
  // Returns the open and locked file; not valid: another holder has it, or is removing it.
  Result<Descriptor> lock_file() const;

  const bool makes_folder_;
  const std::string path_;
};

}  // namespace gpusnap
