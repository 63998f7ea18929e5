// SPDX-License-Identifier: Apache-2.0

#include "tracker/elf_sections.h"

#include <cstring>

#include "tracker/unaligned.h"

namespace gpusnap {

bool is_64_bit_little_endian(const Elf64_Ehdr& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
}

bool ElfFile::open() {
  if (file_.size() < sizeof header_) return false;
  header_ = load<Elf64_Ehdr>(file_.data());
  if (!is_64_bit_little_endian(header_) || header_.e_shentsize != sizeof(Elf64_Shdr)) return false;
  const uint64_t bytes = uint64_t{header_.e_shnum} * sizeof(Elf64_Shdr);
  if (header_.e_shoff > file_.size() || bytes > file_.size() - header_.e_shoff) return false;
  sections_.resize(header_.e_shnum);
  if (bytes > 0) std::memcpy(sections_.data(), file_.data() + header_.e_shoff, bytes);
  return true;
}

std::optional<std::span<const std::byte>> ElfFile::contents(const Elf64_Shdr& section) const {
  if (section.sh_type == SHT_NOBITS || section.sh_offset > file_.size() ||
      section.sh_size > file_.size() - section.sh_offset) {
    return std::nullopt;
  }
  return file_.subspan(section.sh_offset, section.sh_size);
}

std::string_view ElfFile::string_at(uint32_t table, uint32_t offset) const {
  if (table >= sections_.size()) return {};
  const auto bytes = contents(sections_[table]);
  if (!bytes || offset >= bytes->size()) return {};
  const auto* start = reinterpret_cast<const char*>(bytes->data()) + offset;
  return {start, strnlen(start, bytes->size() - offset)};
}

}  // namespace gpusnap
