// The physical memory that the program has made by virtual memory management: how it is numbered,
// and when it ends. It lives as long as the program holds a reference to it or has it mapped
// somewhere.
//
// Pure logic: no CUDA, no threads. Not thread-safe; the owner serialises.
#pragma once

#include <cstdint>
#include <map>

namespace gpusnap {

struct PhysicalMemory {
  uint64_t number = 0;   // counted from 1, in the order in which it was made; the same in a replay
  uint64_t address = 0;  // of our own mapping
  uint64_t size = 0;
  uint64_t handle = 0;      // the driver's, as it was made
  uint64_t references = 1;  // that the program holds
  uint64_t mappings = 0;    // of the program's
  // The context is over in which it is saved. Whether it is there all the same nobody tells.
  bool is_doubtful = false;
  bool ended() const { return references == 0 && mappings == 0; }
};

class PhysicalMemories {
 public:
  // The program has made some, and has got `handle`.
  PhysicalMemory& add(uint64_t handle, uint64_t address, uint64_t size);
  // By a handle that the program holds; null: it is none of these.
  PhysicalMemory* find(uint64_t handle);
  PhysicalMemory* numbered(uint64_t number);
  // The program has got one more reference, by this handle, which may be another one than before.
  void retained(PhysicalMemory& memory, uint64_t handle);
  // It has ended.
  void erase(uint64_t number);
  const std::map<uint64_t, PhysicalMemory>& all() const { return memories_; }

 private:
  std::map<uint64_t, PhysicalMemory> memories_;  // by number
  std::map<uint64_t, uint64_t> numbers_;         // by handle
  uint64_t count_ = 0;
};

}  // namespace gpusnap
