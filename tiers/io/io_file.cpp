// SPDX-License-Identifier: Apache-2.0
#include "tiers/io/io_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>

namespace gpusnap {

namespace {

// A smaller part costs more as a request of its own than as a copy.
constexpr uint64_t kLeastDirect = 64 << 10;

uint64_t page_bytes() {
  return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

bool is_in_memory(int fd) {
  struct statfs about {};
  return ::fstatfs(fd, &about) == 0 && (about.f_type == TMPFS_MAGIC || about.f_type == RAMFS_MAGIC);
}

bool same_file(int one, int other) {
  struct stat a {};
  struct stat b {};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

Descriptor open_direct(const std::string& path, const Descriptor& cached, int access) {
  if (is_in_memory(cached.get())) return Descriptor(-1);  // it is its own cache
  Descriptor direct = out_of_the_way(open_descriptor(path, access | O_DIRECT));
  if (direct.valid() && same_file(cached.get(), direct.get())) return direct;
  return Descriptor(-1);
}

}  // namespace

IoFile::IoFile(const std::string& path, Descriptor cached, int access, bool want_direct)
    : cached_(std::move(cached)),
      direct_(want_direct ? open_direct(path, cached_, access) : Descriptor(-1)),
      unit_(page_bytes()),
      address_unit_(page_bytes()),
      direct_works_(direct_.valid()),
      behind_(cached_.get()) {
  if (!direct_works_) return;
  ask_alignment();
  ::posix_fadvise(cached_.get(), 0, 0, POSIX_FADV_RANDOM);  // no read-ahead: see above
}

// Where nobody says what direct I/O needs, whole pages are what every file system takes.
void IoFile::ask_alignment() {
#ifdef STATX_DIOALIGN
  struct statx about {};
  if (::statx(direct_.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) != 0 ||
      (about.stx_mask & STATX_DIOALIGN) == 0) {
    return;
  }
  if (about.stx_dio_offset_align == 0) return give_up_direct();
  unit_ = std::max<uint64_t>(unit_, about.stx_dio_offset_align);
  address_unit_ = std::max<uint64_t>(1, about.stx_dio_mem_align);
#endif
}

IoFile::Part IoFile::direct_part(uint64_t offset, const std::byte* data, uint64_t size) const {
  if (!direct_works_) return {};
  const uint64_t first = (offset + unit_ - 1) / unit_ * unit_ - offset;
  const uint64_t last = (offset + size) / unit_ * unit_;
  if (last < offset + first + kLeastDirect) return {};
  if ((reinterpret_cast<uintptr_t>(data) + first) % address_unit_ != 0) return {};
  return {first, last - offset};
}

void IoFile::read_cached(uint64_t offset, uint64_t size) const {
  const uint64_t page = page_bytes();
  const uint64_t begin = offset / page * page;
  const uint64_t end = (offset + size + page - 1) / page * page;
  ::posix_fadvise(cached_.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                  POSIX_FADV_DONTNEED);
}

}  // namespace gpusnap
