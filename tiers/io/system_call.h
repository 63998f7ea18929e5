// SPDX-License-Identifier: Apache-2.0
// Shared by everything that asks the system for files: descriptors, and errors as a Status.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "tiers/status.h"

namespace gpusnap {

// "cannot <what> <path>: <reason of the system>", with advice where there is some.
Status system_failed(const char* what, const std::string& path, int error);

template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Closed by the destructor.
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

// Private to the user where it makes the file, and closed in programs that the process becomes. Not
// valid() where it fails; errno says why.
Descriptor open_descriptor(const std::string& path, int flags);

// The same file by a high number, or as it is where there is none. A program counts on the numbers
// that its own descriptors get, and may open some at any moment.
Descriptor out_of_the_way(Descriptor low);

// An existing file and its size in bytes; what is no file is kDamaged.
struct OpenedFile {
  Descriptor file;
  uint64_t size = 0;
};
Result<OpenedFile> open_to_read(const std::string& path);

// A read up to byte `wanted` met the file's end at byte `end`.
Status file_ended(const std::string& path, uint64_t end, uint64_t wanted);

}  // namespace gpusnap
