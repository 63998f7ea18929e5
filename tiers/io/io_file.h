// SPDX-License-Identifier: Apache-2.0
// An open file as the engine sees it: a descriptor for the page cache and, where the file system
// has that, one past it.
//
// Both are used on one file at the same time. That is safe for this reason: a *unit* of the file (a
// page, or more where the device wants more) is moved past the cache only by a transfer that covers
// all of it; a transfer that covers a unit in part moves that part through the cache. Transfers
// that are on their way together do not share a byte, so two that share a unit both cover it in
// part, and both go through the cache, which merges them. No unit is ever moved in both ways at
// once. The cache never holds a unit by itself: it takes in only the unit that is asked for, since
// read-ahead is off. One after the other, the kernel keeps both ways in step: before direct I/O it
// writes the cache's units back, after a direct write it drops them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tiers/io/system_call.h"
#include "tiers/io/write_behind.h"

namespace gpusnap {

// Thread-safe.
class IoFile {
 public:
  // `path` names what `cached` is; it is opened once more for direct I/O unless that is not wanted.
  IoFile(const std::string& path, Descriptor cached, int access, bool want_direct);

  int cached() const { return cached_.get(); }
  int direct() const { return direct_.get(); }
  uint64_t unit() const { return unit_; }  // bytes; a power of two

  // Where the part lies that can go past the cache, in bytes from `offset`; begin == end: nowhere.
  struct Part {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  Part direct_part(uint64_t offset, const std::byte* data, uint64_t size) const;
  // The file system took the descriptor and refuses its use.
  void give_up_direct() { direct_works_ = false; }

  // After bytes have gone through the cache. As WriteBehind::wrote().
  int wrote_cached(uint64_t offset, uint64_t size) { return behind_.wrote(offset, size); }
  void read_cached(uint64_t offset, uint64_t size) const;
  void drop_cache() { behind_.drop_all(); }

 private:
  void ask_alignment();

  Descriptor cached_;
  Descriptor direct_;
  uint64_t unit_;
  uint64_t address_unit_;
  std::atomic<bool> direct_works_;
  WriteBehind behind_;
};

}  // namespace gpusnap
