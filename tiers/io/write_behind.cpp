// SPDX-License-Identifier: Apache-2.0
#include "tiers/io/write_behind.h"

#include <fcntl.h>

#include <cerrno>
#include <new>

#include "tiers/io/system_call.h"

namespace gpusnap {

namespace {

// File systems without this call lose its advantage and nothing else.
int start(int fd, uint64_t offset, uint64_t size, unsigned flags) {
  const int result = uninterrupted([&] {
    return ::sync_file_range(fd, static_cast<off64_t>(offset), static_cast<off64_t>(size), flags);
  });
  if (result == 0) return 0;
  const bool cannot = errno == ESPIPE || errno == EINVAL || errno == ENOSYS || errno == EPERM ||
                      errno == EOPNOTSUPP;
  return cannot ? 0 : errno;
}

constexpr unsigned kAndWait =
    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

}  // namespace

int WriteBehind::wait_and_drop(const Piece& piece) {
  const int error = start(fd_, piece.first, piece.second, kAndWait);
  ::posix_fadvise(fd_, static_cast<off_t>(piece.first), static_cast<off_t>(piece.second),
                  POSIX_FADV_DONTNEED);
  return error;
}

int WriteBehind::wrote(uint64_t offset, uint64_t size) {
  if (size < kLeast) {
    {
      const MutexLock lock(mutex_);
      if ((loose_bytes_ += size) < kWindow) return 0;
      loose_bytes_ = 0;
    }
    return wait_and_drop({0, 0});  // the whole file
  }
  const int error = start(fd_, offset, size, SYNC_FILE_RANGE_WRITE);
  if (error != 0) return error;
  Piece oldest{offset, size};
  try {
    const MutexLock lock(mutex_);
    started_.emplace_back(offset, size);
    if ((started_bytes_ += size) <= kWindow) return 0;
    oldest = started_.front();
    started_.pop_front();
    started_bytes_ -= oldest.second;
  } catch (const std::bad_alloc&) {
    // Not noted down, so it cannot wait.
  }
  return wait_and_drop(oldest);
}

void WriteBehind::drop_all() {
  {
    const MutexLock lock(mutex_);
    started_.clear();
    started_bytes_ = loose_bytes_ = 0;
  }
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace gpusnap
