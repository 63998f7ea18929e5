// A file of the fault file system: its bytes, which of them are durable, and what a crash can make
// of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace gpusnap::test {

// Not thread-safe.
class FaultFile {
 public:
  static constexpr uint64_t kBlock = 4096;  // what a device writes whole or not at all

  FaultFile() = default;
  explicit FaultFile(std::vector<std::byte> durable) : bytes_(durable), durable_(durable) {}

  const std::vector<std::byte>& bytes() const { return bytes_; }
  const std::vector<std::byte>& durable() const { return durable_; }

  // Zeros where it is made longer.
  void write(uint64_t offset, std::span<const std::byte> bytes);
  void append(std::span<const std::byte> bytes) { write(bytes_.size(), bytes); }
  // A write that was on its way when the machine stopped: nobody sees it, but it may be on the
  // disk.
  void write_on_its_way(uint64_t offset, std::span<const std::byte> bytes);
  // The disk may show that size before the file is synced, with zeros.
  void reserve(uint64_t size) { reserved_ = size; }
  void shorten(uint64_t size) { bytes_.resize(size); }  // and synced at once
  void sync();

  // The machine has stopped and starts again; all that is there then is durable.
  void lose_nothing();
  void lose_what_was_not_synced();
  void zero_what_was_not_synced();  // behind what is durable; of its whole length
  // Each block holds what is durable or what any one of the later writes left there: whatever the
  // order in which the device wrote them. The size is any that the file had since the last sync.
  void lose_some(std::mt19937_64& random);

 private:
  struct Write {
    uint64_t offset;
    std::vector<std::byte> bytes;
    uint64_t end() const { return offset + bytes.size(); }
  };
  static void put(std::vector<std::byte>& file, uint64_t offset, std::span<const std::byte> bytes);
  void settle(std::vector<std::byte> bytes);
  uint64_t some_size(std::mt19937_64& random) const;

  std::vector<std::byte> bytes_;
  std::vector<std::byte> durable_;
  std::vector<Write> unsynced_;  // in the order in which they ended
  uint64_t reserved_ = 0;
};

}  // namespace gpusnap::test
