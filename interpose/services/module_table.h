// The modules of the process with their places and identities, as the loader lists them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpusnap {

struct Module {
  uintptr_t begin = 0;  // of its executable part
  uintptr_t end = 0;
  uintptr_t base = 0;     // what its own addresses are relative to
  uint64_t identity = 0;  // hash of the build-id; of the file's name where there is none
};

// Immutable once read.
class ModuleTable {
 public:
  // Takes the loader's lock for the time of the listing.
  static ModuleTable read();
  // Null where the address is in none, such as code made at run time.
  const Module* find(uintptr_t address) const;
  // The loader's count of modules ever added and removed when this was read.
  uint64_t generation() const { return generation_; }

 private:
  std::vector<Module> modules_;  // by begin
  uint64_t generation_ = 0;
};

// The count as it is now; changes whenever a module comes or goes.
uint64_t module_generation() noexcept;

}  // namespace gpusnap
