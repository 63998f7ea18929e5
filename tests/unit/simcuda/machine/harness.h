// Runs PTX on the machine alone: no driver, memory is the test's own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tools/simcuda/images.h"
#include "tools/simcuda/machine.h"
#include "tracker/ptx.h"

namespace simcuda::test {

inline constexpr uint64_t kMemory = 0x0000'a000'0000'0000;
inline constexpr uint64_t kGap = 1 << 20;  // between buffers

// A module with its memory. Buffers are extents of their own, kGap apart at least.
class Machine {
 public:
  // A whole module; where `body` does not begin with ".version", the header is put before it.
  explicit Machine(const std::string& text);
  bool ok() const { return program_ != nullptr; }
  const LoadError& error() const { return error_; }
  Program& program() { return *program_; }

  // Memory of its own for the kernel; returns its device address.
  uint64_t buffer(size_t bytes, bool writable = true);
  template <class T>
  uint64_t buffer(const std::vector<T>& values, bool writable = true) {
    const uint64_t address = buffer(values.size() * sizeof(T), writable);
    std::memcpy(host(address), values.data(), values.size() * sizeof(T));
    return address;
  }
  std::byte* host(uint64_t address);
  template <class T>
  std::vector<T> read(uint64_t address, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), host(address), count * sizeof(T));
    return values;
  }
  uint64_t global(std::string_view name);

  // Parameters are 8-byte words, in order.
  Fault launch(std::string_view kernel, Dim3 grid, Dim3 block,
               const std::vector<uint64_t>& parameters, uint64_t shared_bytes = 0);
  // The images that launches reach by handles.
  std::shared_ptr<ImageTable> images = std::make_shared<ImageTable>();
  bool cooperative = false;    // how launch() launches
  std::string printed;         // by all launches
  KernelHeap* heap = nullptr;  // of all launches
  Counters counters;
  std::atomic<bool> cancel{false};

 private:
  std::unique_ptr<Program> program_;
  LoadError error_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::shared_ptr<ExtentTable> table_ = std::make_shared<ExtentTable>();
  uint64_t next_ = kMemory;
};

// One lane's inputs, as bits.
struct Inputs {
  uint64_t a = 0, b = 0, c = 0, d = 0;
};

// One instruction for many inputs. `code` uses %d (and %e) as destinations and %a %b %c %f as
// sources; `types` are the register types in the order d, then the sources that are used, such as
// "b32 b32 b32"; "pred" is a predicate. Returns the destination's bits, one for each input.
std::vector<uint64_t> evaluate(const std::string& code, const std::string& types,
                               const std::vector<Inputs>& inputs);

// Empty: the module decodes. Else the reason for which it does not.
std::string decode_error(const std::string& code, const std::string& types);

}  // namespace simcuda::test
