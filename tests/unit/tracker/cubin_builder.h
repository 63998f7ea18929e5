// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace gpusnap {

// A machine code image with nothing but sections and symbols.
class CubinBuilder {
 public:
  uint16_t section(const std::string& name, uint32_t type, uint64_t size) {
    Elf64_Shdr header{};
    header.sh_name = text(name);
    header.sh_type = type;
    header.sh_size = size;
    header.sh_offset = sizeof(Elf64_Ehdr);
    sections_.push_back(header);
    return static_cast<uint16_t>(sections_.size() - 1);
  }
  // Returns its number.
  uint32_t symbol(const std::string& name, uint16_t section, uint64_t size, unsigned char other = 0,
                  unsigned char type = STT_OBJECT, uint64_t value = 0) {
    Elf64_Sym entry{};
    entry.st_name = text(name);
    entry.st_info = ELF64_ST_INFO(STB_LOCAL, type);
    entry.st_other = other;
    entry.st_shndx = section;
    entry.st_value = value;
    entry.st_size = size;
    symbols_.push_back(entry);
    return static_cast<uint32_t>(symbols_.size() - 1);
  }
  // Section `name`, ".rela.text.k" for one, whose relocations name these symbols.
  void relocations(const std::string& name, const std::vector<uint32_t>& symbols) {
    const uint16_t at = section(name, SHT_RELA, symbols.size() * sizeof(Elf64_Rela));
    sections_[at].sh_offset = sizeof(Elf64_Ehdr) + relocations_.size() * sizeof(Elf64_Rela);
    for (const uint32_t symbol : symbols) {
      relocations_.push_back({0, ELF64_R_INFO(uint64_t{symbol}, 2), 0});
    }
  }
  std::string build() {
    const uint16_t symtab = section(".symtab", SHT_SYMTAB, symbols_.size() * sizeof(Elf64_Sym));
    const uint16_t strtab = section(".strtab", SHT_STRTAB, 0);
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<uint16_t>(sections_.size());
    header.e_shstrndx = strtab;
    sections_[symtab].sh_link = strtab;
    sections_[symtab].sh_entsize = sizeof(Elf64_Sym);
    const size_t relocation_bytes = relocations_.size() * sizeof(Elf64_Rela);
    sections_[symtab].sh_offset = sizeof header + relocation_bytes;
    sections_[strtab].sh_offset = sections_[symtab].sh_offset + sections_[symtab].sh_size;
    sections_[strtab].sh_size = strings_.size();
    header.e_shoff = sections_[strtab].sh_offset + strings_.size();
    std::string file(reinterpret_cast<const char*>(&header), sizeof header);
    file.append(reinterpret_cast<const char*>(relocations_.data()), relocation_bytes);
    file.append(reinterpret_cast<const char*>(symbols_.data()),
                symbols_.size() * sizeof(Elf64_Sym));
    file += strings_;
    file.append(reinterpret_cast<const char*>(sections_.data()),
                sections_.size() * sizeof(Elf64_Shdr));
    return file;
  }

 private:
  uint32_t text(const std::string& name) {
    const auto at = static_cast<uint32_t>(strings_.size());
    strings_ += name;
    strings_ += '\0';
    return at;
  }
  std::vector<Elf64_Shdr> sections_ = std::vector<Elf64_Shdr>(1);
  std::vector<Elf64_Sym> symbols_ = std::vector<Elf64_Sym>(1);
  std::vector<Elf64_Rela> relocations_;
  std::string strings_ = std::string(1, '\0');
};

}  // namespace gpusnap
