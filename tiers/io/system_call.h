// SPDX-License-Identifier: Apache-2.0
// Helpers for system calls on files: descriptors, and errors as a Status.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "tiers/status.h"

namespace gpusnap {

// Returns a status "cannot <what> <path>: <reason of the system>", for some errors with advice.
Status system_failed(const char* what, const std::string& path, int error);

template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Owns a file descriptor. The destructor closes it.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Opens a file with O_CLOEXEC. A file that it creates is private to the user. The result is not
// valid() after a failure; errno says why.
Descriptor open_descriptor(const std::string& path, int flags);

// Duplicates the descriptor to a high number; returns the descriptor itself if none is free. A
// program may rely on the numbers of its own descriptors, and may open files at any moment.
Descriptor out_of_the_way(Descriptor low);

// An existing file and its size in bytes. Opening something else than a file returns kDamaged.
struct OpenedFile {
  Descriptor file;
  uint64_t size = 0;
};
Result<OpenedFile> open_to_read(const std::string& path);

// Returns the status of a read up to byte `wanted` of a file that ends at byte `end`.
Status file_ended(const std::string& path, uint64_t end, uint64_t wanted);

}  // namespace gpusnap
