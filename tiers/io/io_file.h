// SPDX-License-Identifier: Apache-2.0
// An open file: a descriptor for I/O through the page cache and, if the file system supports it,
// one for direct I/O past the cache.
//
// Both are used on one file at the same time. This is safe: direct I/O transfers a *unit* of the
// file (a page, or more if the device needs more) only if the transfer covers the whole unit. A
// transfer that covers a unit in part moves that part through the cache. Concurrent transfers share
// no byte, so two transfers that share a unit both cover it in part, and both go through the cache,
// which merges them. A unit is never transferred in both ways at once. Read-ahead is off, so the
// cache loads only units that are asked for. For transfers one after the other, the kernel keeps
// both ways consistent: it writes cached units back before direct I/O, and drops them after a
// direct write.
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
  // `path`: of the file `cached`, which is opened once more for direct I/O if `want_direct`.
  IoFile(const std::string& path, Descriptor cached, int access, bool want_direct);

  int cached() const { return cached_.get(); }
  int direct() const { return direct_.get(); }
  uint64_t unit() const { return unit_; }  // bytes; a power of two

  // The part of a transfer that can use direct I/O, in bytes from `offset`. begin == end: none.
  struct Part {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  Part direct_part(uint64_t offset, const std::byte* data, uint64_t size) const;
  // The file system accepted the descriptor for direct I/O but refuses its use.
  void give_up_direct() { direct_works_ = false; }

  // To be called after bytes went through the cache. See WriteBehind::wrote().
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
