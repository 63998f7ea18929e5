// SPDX-License-Identifier: Apache-2.0
//
// Host memory in the place of a program's device memory, for a program that is checkpointed as a
// whole, too. In a replay its device memory holds nothing yet: what the host learnt of it comes
// from the journal. So all copies from and to it are calls of the program's own thread that depend
// on nothing but what the program asks for, and the journal has what they brought.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tools/veloc/memory.h"

namespace gpusnap::veloc {

// Used by one thread.
class Staging {
 public:
  // A region of the program's device memory, and what stands for it.
  struct Staged {
    std::byte* device = nullptr;
    std::byte* host = nullptr;
    uint64_t bytes = 0;
  };
  static Result<std::unique_ptr<Staging>> create(std::unique_ptr<Memory> device);

  bool is_on_device(const void* memory) const { return device_->is_on_device(memory); }
  // The same host memory for the same number, as long as the region is no larger.
  Staged stage(int id, std::byte* device, uint64_t bytes);
  Status copy_to_host(const std::vector<Staged>& regions) { return copy(regions, false); }
  Status copy_to_device(const std::vector<Staged>& regions) { return copy(regions, true); }

 private:
  Staging(std::unique_ptr<Memory> device, std::unique_ptr<Copier> copier)
      : device_(std::move(device)), copier_(std::move(copier)) {}
  Status copy(const std::vector<Staged>& regions, bool to_device);

  const std::unique_ptr<Memory> device_;
  const std::unique_ptr<Copier> copier_;
  std::map<int, std::vector<std::byte>> host_;
};

}  // namespace gpusnap::veloc
