#include "tracker/physical_memory.h"

namespace gpusnap {

PhysicalMemory& PhysicalMemories::add(uint64_t handle, uint64_t address, uint64_t size) {
  const uint64_t number = ++count_;
  // The driver may give the handle of what has ended.
  numbers_[handle] = number;
  PhysicalMemory& memory = memories_[number];
  memory.number = number;
  memory.address = address;
  memory.size = size;
  memory.handle = handle;
  return memory;
}

PhysicalMemory* PhysicalMemories::find(uint64_t handle) {
  const auto number = numbers_.find(handle);
  return number == numbers_.end() ? nullptr : numbered(number->second);
}

PhysicalMemory* PhysicalMemories::numbered(uint64_t number) {
  const auto memory = memories_.find(number);
  return memory == memories_.end() ? nullptr : &memory->second;
}

void PhysicalMemories::retained(PhysicalMemory& memory, uint64_t handle) {
  ++memory.references;
  numbers_[handle] = memory.number;
}

void PhysicalMemories::erase(uint64_t number) {
  memories_.erase(number);
  std::erase_if(numbers_, [number](const auto& each) { return each.second == number; });
}

}  // namespace gpusnap
