// Settings of core dumps: kept and told to programs that ask; there are none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "tools/simcuda/driver/cuda.h"

namespace simcuda {

// Thread-safe.
class CoreDumps {
 public:
  static constexpr uint64_t kGlobal = 0;  // in the place of a context

  // The bytes of an attribute: of a context what it was given itself, or else what all were.
  CUresult get(uint64_t context, CUcoredumpSettings attribute, void* value, size_t* size) const;
  CUresult set(uint64_t context, CUcoredumpSettings attribute, const void* value,
               const size_t* size);

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::map<CUcoredumpSettings, std::string>> set_;  // by the context's id
};

}  // namespace simcuda
