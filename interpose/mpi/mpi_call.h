// A call as the program makes it, in C or Fortran: where its arguments are, by their number, is the
// same in both, and in C's forms with large counts. They are kept as whole registers and places of
// the stack, as many as the longest of these calls uses: one that takes fewer does not look at the
// others.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "interpose/mpi/buffers.h"
#include "interpose/mpi/fortran.h"
#include "interpose/mpi/process.h"

namespace gpusnap::mpi {

using Word = uintptr_t;
inline constexpr size_t kMostArguments = 13;  // of MPI_Sendrecv in Fortran, with its error
using Words = std::array<Word, kMostArguments>;
using Anything = Word (*)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word,
                          Word);

inline Word call_with(Anything function, const Words& w) {
  return function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12]);
}

// `use mpi`, `use mpi_f08`, and that with buffers as descriptors.
enum class Form : uint8_t { kC, kCLarge, kFortran, kF08, kF08ts, kF08tsLarge };

class MpiCall {
 public:
  // `arguments`: without Fortran's error, which is behind them.
  MpiCall(const char* name, Form form, size_t arguments, Anything real, const Words& words)
      : name_(name), form_(form), arguments_(arguments), real_(real), given_(words), now_(words) {}

  const char* name() const { return name_; }  // C's

  int integer(size_t at) const {
    return in_c() ? static_cast<int>(given_[at]) : *pointer<const int>(at);
  }
  // A count: wide in the forms for large ones.
  int64_t count(size_t at) const;
  // The same where C has a pointer, too.
  int64_t count_behind(size_t at) const { return numbers(at, false)[0]; }
  Numbers numbers(size_t at, bool always_wide) const {
    return {pointer<const void>(at), always_wide || is_large()};
  }
  Handle type(size_t at) const;
  Types types(size_t at) const { return {pointer<const void>(at), !in_c()}; }
  Handle communicator(size_t at) const;
  // One that is not changed by the call.
  Handle request_value(size_t at) const {
    return in_c() ? given_[at] : static_cast<uint32_t>(integer(at));
  }
  Requests requests(size_t at, size_t count) const;

  // The address; null for MPI_BOTTOM.
  void* buffer(size_t at) const;
  bool is_in_place(size_t at) const;
  // The buffer is what its count and type say: not so a section of an array.
  bool is_plain(size_t at) const;

  int* flag(size_t at) const { return pointer<int>(at); }
  // As process.h has it: what stands for none in Fortran is C's.
  int* status(size_t at) const;

  // Change what the call is made with. A buffer may be told to stay as it was given.
  void set_buffer(size_t at, void* start);
  void set_source(size_t at, int source, int tag);  // the tag is behind it
  void set_status(size_t at, int* status);
  int make();

 private:
  bool in_c() const { return form_ == Form::kC || form_ == Form::kCLarge; }
  bool is_large() const { return form_ == Form::kCLarge || form_ == Form::kF08tsLarge; }
  bool has_descriptors() const { return form_ == Form::kF08ts || form_ == Form::kF08tsLarge; }
  template <class T>
  T* pointer(size_t at) const {
    return reinterpret_cast<T*>(given_[at]);
  }

  const char* name_;
  Form form_;
  size_t arguments_;
  Anything real_;
  Words given_, now_;
  int from_[2]{};
  std::array<std::optional<fortran::Descriptor>, 2> moved_;  // of either buffer
};

}  // namespace gpusnap::mpi
