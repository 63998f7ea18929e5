// SPDX-License-Identifier: Apache-2.0
//
// The sections of an ELF file.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace gpusnap {

bool is_64_bit_little_endian(const Elf64_Ehdr& header);

// An ELF file of known length; every access is checked against it.
class ElfFile {
 public:
  explicit ElfFile(std::span<const std::byte> file) : file_(file) {}

  // False: not a file that can be read.
  bool open();
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  std::string_view section_name(const Elf64_Shdr& section) const {
    return string_at(header_.e_shstrndx, section.sh_name);
  }
  std::string_view string_at(uint32_t table, uint32_t offset) const;
  std::optional<std::span<const std::byte>> contents(const Elf64_Shdr& section) const;

 private:
  std::span<const std::byte> file_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace gpusnap
