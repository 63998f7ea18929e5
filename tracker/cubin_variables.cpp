// SPDX-License-Identifier: Apache-2.0

#include <elf.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "tracker/cubin.h"
#include "tracker/elf_sections.h"
#include "tracker/unaligned.h"

namespace gpusnap {
namespace {

using Names = std::set<uint32_t>;  // symbols, by number

constexpr std::string_view kText = ".text.";

class VariableReader {
 public:
  explicit VariableReader(const ElfFile& elf) : elf_(elf) {
    for (const Elf64_Shdr& section : elf.sections()) {
      const std::string_view name = elf.section_name(section);
      is_data_.push_back(name.starts_with(".nv.global"));
      texts_.push_back(name.starts_with(kText) ? name.substr(kText.size()) : std::string_view());
    }
    for (const Elf64_Shdr& section : elf.sections()) {
      if (section.sh_type == SHT_SYMTAB) read_symbols(section);
    }
    for (const Elf64_Shdr& section : elf.sections()) {
      if (section.sh_type == SHT_RELA) read_relocations<Elf64_Rela>(section, ".rela");
      if (section.sh_type == SHT_REL) read_relocations<Elf64_Rel>(section, ".rel");
    }
  }

  void find(CubinVariables& found) const;

 private:
  void read_symbols(const Elf64_Shdr& table);
  template <class Relocation>
  void read_relocations(const Elf64_Shdr& section, std::string_view prefix);
  void reach(uint32_t symbol, Names& variables, std::set<std::string_view>& texts) const;
  Names reached(const Names& named) const;
  std::vector<std::string> names_of(const Names& variables) const;

  const ElfFile& elf_;
  std::vector<bool> is_data_;            // by section
  std::vector<std::string_view> texts_;  // by section: the function whose code it is; or empty
  std::vector<Elf64_Sym> symbols_;
  std::vector<uint32_t> variables_;  // of them
  uint32_t strings_ = 0;
  std::map<std::string_view, Names> by_text_;  // by the function's name
  Names shared_;
};

void VariableReader::read_symbols(const Elf64_Shdr& table) {
  const auto bytes = elf_.contents(table);
  if (!bytes || !symbols_.empty()) return;
  strings_ = table.sh_link;
  for (size_t at = 0; bytes->size() - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
    const auto symbol = load<Elf64_Sym>(bytes->data() + at);
    const bool in_data = symbol.st_shndx < is_data_.size() && is_data_[symbol.st_shndx];
    if (in_data && ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT) {
      variables_.push_back(static_cast<uint32_t>(symbols_.size()));
    }
    symbols_.push_back(symbol);
  }
}

template <class Relocation>
void VariableReader::read_relocations(const Elf64_Shdr& section, std::string_view prefix) {
  const auto bytes = elf_.contents(section);
  std::string_view of = elf_.section_name(section);
  if (!bytes || !of.starts_with(prefix)) return;
  of.remove_prefix(prefix.size());
  if (of.starts_with(".debug") || of.starts_with(".nv_debug")) return;
  Names& names = of.starts_with(kText) ? by_text_[of.substr(kText.size())] : shared_;
  for (size_t at = 0; bytes->size() - at >= sizeof(Relocation); at += sizeof(Relocation)) {
    names.insert(ELF64_R_SYM(load<Relocation>(bytes->data() + at).r_info));
  }
}

// A symbol may be a variable, a section, another name of a part of a variable, or a function.
void VariableReader::reach(uint32_t number, Names& variables,
                           std::set<std::string_view>& texts) const {
  if (number >= symbols_.size()) return;
  const Elf64_Sym& symbol = symbols_[number];
  if (symbol.st_shndx >= texts_.size()) return;
  if (!texts_[symbol.st_shndx].empty()) texts.insert(texts_[symbol.st_shndx]);
  if (!is_data_[symbol.st_shndx]) return;
  const bool whole = ELF64_ST_TYPE(symbol.st_info) == STT_SECTION || symbol.st_size == 0;
  for (const uint32_t variable : variables_) {
    const Elf64_Sym& other = symbols_[variable];
    if (other.st_shndx != symbol.st_shndx) continue;
    const bool touches = other.st_value - symbol.st_value < symbol.st_size ||
                         symbol.st_value - other.st_value < other.st_size;
    if (whole || touches) variables.insert(variable);
  }
}

Names VariableReader::reached(const Names& named) const {
  Names variables;
  std::set<std::string_view> texts, looked_at;
  for (const uint32_t symbol : named) reach(symbol, variables, texts);
  while (looked_at.size() < texts.size()) {
    for (const std::string_view text : std::set<std::string_view>(texts)) {
      if (!looked_at.insert(text).second) continue;
      const auto found = by_text_.find(text);
      if (found == by_text_.end()) continue;
      for (const uint32_t symbol : found->second) reach(symbol, variables, texts);
    }
  }
  return variables;
}

std::vector<std::string> VariableReader::names_of(const Names& variables) const {
  std::set<std::string> names;
  for (const uint32_t variable : variables) {
    GlobalVariable global;
    global.name = elf_.string_at(strings_, symbols_[variable].st_name);
    if (!global.name.empty() && !global.is_compilers_text()) names.insert(std::move(global.name));
  }
  return {names.begin(), names.end()};
}

void VariableReader::find(CubinVariables& found) const {
  const Names shared = reached(shared_);
  found.known = !shared.empty();
  found.shared = names_of(shared);
  for (const auto& [kernel, named] : by_text_) {
    const Names own = reached(named);
    found.known = found.known || !own.empty();
    found.by_kernel[std::string(kernel)] = names_of(own);
  }
}

}  // namespace

void read_cubin_variables(std::span<const std::byte> file, CubinVariables& found) {
  ElfFile elf(file);
  if (elf.open()) VariableReader(elf).find(found);
}

}  // namespace gpusnap
