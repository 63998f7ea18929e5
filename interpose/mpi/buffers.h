// Device memory in MPI calls, for libraries that take it ("CUDA-aware"). In a replay the device's
// memory is not there yet: what is sent from it comes from the journal, which has it as something
// that the host has read, and what is received into it goes into host memory of ours, since all of
// the device's memory is loaded at the cut. While recording, a receive is a write to device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "interpose/mpi/library.h"
#include "interpose/mpi/outcomes.h"

namespace gpusnap::mpi {

// What an MPI call is given to send or to fill.
struct Buffer {
  void* start = nullptr;
  int64_t count = 0;  // of `type`
  Handle type = 0;
};

// The bytes from the first to the last that a buffer can touch, gaps included.
struct Span {
  int64_t offset = 0;  // from the buffer's start
  uint64_t bytes = 0;
};
Span span_of(const Library& library, const Buffer& buffer);

// Host memory in the place of a buffer, or none: then the buffer itself is used.
class Stand {
 public:
  Stand() = default;
  explicit Stand(const Span& span) : offset_(span.offset), bytes_(span.bytes), used_(true) {}

  std::byte* bytes() { return bytes_.data(); }
  // What the call is given.
  void* start(const Buffer& buffer) {
    return used_ ? static_cast<void*>(bytes_.data() - offset_) : buffer.start;
  }

 private:
  int64_t offset_ = 0;
  std::vector<std::byte> bytes_;
  bool used_ = false;
};

// Bytes as the values of an outcome, and back. kInvalid where they are not as many as expected,
// kDamaged where they are no such values.
Values values_of(const std::vector<std::byte>& bytes);
Status bytes_of(const Values& values, std::byte* to, uint64_t expected);

}  // namespace gpusnap::mpi
