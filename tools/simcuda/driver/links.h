// SPDX-License-Identifier: Apache-2.0
//
// The links between devices, as SIMCUDA_LINKS sets them. Read once, by cuInit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace simcuda {

// The devices of a copy from one to another.
struct DevicePair {
  int from = -1;
  int to = -1;
  bool operator==(const DevicePair&) const = default;
};

class Links {
 public:
  // Not set: each device reaches each other, by its engine for copies.
  Links() = default;
  // `rates`: bytes per second, of devices * devices links by rows; 0: there is none.
  Links(size_t devices, std::vector<uint64_t> rates)
      : devices_(devices), rates_(std::move(rates)) {}

  bool is_set() const { return !rates_.empty(); }
  // Bytes per second of the link; 0: there is none. Only if they are set.
  uint64_t rate(DevicePair pair) const {
    return rates_[static_cast<size_t>(pair.from) * devices_ + static_cast<size_t>(pair.to)];
  }
  // Whether the devices, two different ones, reach each other's memory.
  bool has(DevicePair pair) const { return !is_set() || rate(pair) > 0; }
  // How many speeds there are that are faster than this link: 0 is the best.
  int rank(DevicePair pair) const;

 private:
  size_t devices_ = 0;
  std::vector<uint64_t> rates_;
};

// Reads SIMCUDA_LINKS for so many devices. On a value that cannot be read, returns false with one
// line that names the variable, the value and what would be right.
bool read_links(int devices, Links* links, std::string* error);

}  // namespace simcuda
