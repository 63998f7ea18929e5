// The few facts about an ELF file that say what it will load. Reads hostile input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/status.h"

namespace gpusnap {

struct ElfFacts {
  bool x86_64 = false;
  bool has_interpreter = false;  // is linked dynamically
  bool has_device_code = false;  // a section of CUDA's, or of gcc's for offload regions
  bool opens_libraries = false;  // imports dlopen
  bool imports_driver = false;   // names cuInit
  std::vector<std::string> needed;
  std::vector<std::string> search;  // RPATH, RUNPATH: folders, $ORIGIN resolved
};

// `bytes`: the file; `folder`: where it lies. kUnsupported where it is no ELF file, kDamaged where
// it contradicts itself.
Result<ElfFacts> read_elf(std::string_view bytes, const std::string& folder);

// The contents of the file's sections of that name, as far as they lie in the file.
std::vector<std::string_view> sections_named(std::string_view bytes, std::string_view name);

}  // namespace gpusnap
