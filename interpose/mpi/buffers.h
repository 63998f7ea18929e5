// Device memory in MPI calls, for libraries that take it ("CUDA-aware"). In a replay the device's
// memory is not there yet: what is sent from it comes from the journal, which has it as something
// that the host has read, and what is received into it goes into host memory of ours, since all of
// the device's memory is loaded at the cut. While recording, a receive is a write to device memory.
//
// Memory that host and device both see is the host's, and receives go there in a replay, too. But
// what a replay learns of the device goes there at the recorded calls, and what comes of a
// request's message must not be there before: it is kept aside until the request is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "interpose/mpi/library.h"
#include "interpose/mpi/outcomes.h"

namespace gpusnap::mpi {

// Whole numbers of an array that a call has been given: int, or 8 bytes wide in the forms with
// large counts.
struct Numbers {
  const void* first = nullptr;
  bool wide = false;

  int64_t operator[](size_t index) const {
    return wide ? static_cast<const int64_t*>(first)[index] : static_cast<const int*>(first)[index];
  }
};

// Types of such an array, which are Fortran's or C's.
struct Types {
  const void* first = nullptr;
  bool of_fortran = false;

  Handle at(const Library& library, size_t index) const;
};

// The parts of a buffer that go to several ranks, or come from them.
struct Blocks {
  size_t number = 0;  // 0: the buffer is one piece
  Numbers counts;
  Numbers displacements;
  Types types;  // their own, with displacements in bytes; else the buffer's type and its extents
};

// The memory that an MPI call is given to send or to fill.
struct Buffer {
  void* start = nullptr;
  int64_t count = 0;  // of `type`
  Handle type = 0;
  Blocks blocks{};
  // Set for memory without a type, as MPI_Pack and MPI_Unpack have it: `count` bytes after so many.
  std::optional<int64_t> behind{};

  bool is_empty() const { return blocks.number == 0 && count <= 0; }
};

// The bytes from the first to the last that a buffer can touch, gaps included.
struct Span {
  int64_t offset = 0;  // from the buffer's start
  uint64_t bytes = 0;
};
Span span_of(const Library& library, const Buffer& buffer);
// Whether items of a buffer in one piece leave no gaps.
bool is_dense(const Library& library, const Buffer& buffer);

// Host memory in the place of a buffer, or none: then the buffer itself is used.
class BounceBuffer {
 public:
  BounceBuffer() = default;
  // For device memory: nothing comes of what is received.
  explicit BounceBuffer(const Span& span)
      : offset_(span.offset), bytes_(span.bytes), used_(span.bytes != 0) {}
  // For what a buffer in host memory receives: give_back() puts there what has come.
  static BounceBuffer aside_of(const Span& span, const Buffer& buffer);
  void give_back();
  // For another message.
  void begin_again();
  // The bytes received since begin(): the runs of bytes that have changed, or, if the whole is
  // filled from its start on, all up to the last of them.
  void begin() { before_ = bytes_; }
  std::vector<Span> received(bool dense) const;

  bool is_used() const { return used_; }
  std::span<std::byte> all() { return bytes_; }
  const std::byte* bytes() const { return bytes_.data(); }
  std::byte* bytes() { return bytes_.data(); }
  // The address that the call is given.
  void* start(const Buffer& buffer) {
    return used_ ? static_cast<void*>(bytes_.data() - offset_) : buffer.start;
  }

 private:
  int64_t offset_ = 0;
  std::vector<std::byte> bytes_;
  bool used_ = false;
  std::byte* behind_ = nullptr;  // the host memory, and what it had
  std::vector<std::byte> before_;
};

// Bytes as the values of an outcome, and back. kInvalid where they are not as many as expected,
// kDamaged where they are no such values.
Values values_of(const std::vector<std::byte>& bytes);
Status bytes_of(const Values& values, std::byte* to, uint64_t expected);

}  // namespace gpusnap::mpi
