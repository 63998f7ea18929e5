// SPDX-License-Identifier: Apache-2.0

#include "tools/simcuda/driver/machine_image.h"

#include <elf.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <type_traits>
#include <variant>
#include <vector>

#include "tracker/fat_binary.h"
#include "tracker/ptx.h"

namespace simcuda {
namespace {

namespace ptx = gpusnap::ptx;

constexpr uint16_t kMachineCuda = 190;
constexpr uint32_t kTypeInfo = SHT_LOPROC;
constexpr unsigned char kManaged = 4;
constexpr uint32_t kRelocateAddress = 2;  // a 64-bit address of the symbol
constexpr std::string_view kHidden = ".simcuda.code";
// So that nothing takes the section for PTX, or for compressed PTX.
constexpr char kMask = '\x5a';

template <class T>
void append(std::string& to, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The file without any meaning: sections, and symbols in them.
class ElfWriter {
 public:
  ElfWriter() { sections_.emplace_back(); }

  uint16_t add_section(const std::string& name, uint32_t type, std::string bytes,
                       uint64_t size_without_bytes = 0) {
    Section& section = sections_.emplace_back();
    section.name = name;
    section.header.sh_type = type;
    section.header.sh_size = type == SHT_NOBITS ? size_without_bytes : bytes.size();
    section.header.sh_addralign = 8;
    section.bytes = std::move(bytes);
    return static_cast<uint16_t>(sections_.size() - 1);
  }
  void add_relocations(const std::string& of, uint16_t section, const std::string& entries) {
    const uint16_t at = add_section(".rela" + of, SHT_RELA, entries);
    sections_[at].header.sh_entsize = sizeof(Elf64_Rela);
    sections_[at].header.sh_info = section;
  }
  uint32_t add_symbol(const std::string& name, unsigned char info, uint16_t section, uint64_t value,
                      uint64_t size, unsigned char other = 0) {
    Elf64_Sym symbol{};
    symbol.st_name = add_name(name);
    symbol.st_info = info;
    symbol.st_other = other;
    symbol.st_shndx = section;
    symbol.st_value = value;
    symbol.st_size = size;
    symbols_.push_back(symbol);
    return static_cast<uint32_t>(symbols_.size() - 1);
  }
  std::string write(uint32_t arch);

 private:
  struct Section {
    std::string name;
    Elf64_Shdr header{};
    std::string bytes;
  };
  uint32_t add_name(const std::string& name) {
    const auto at = static_cast<uint32_t>(names_.size());
    names_ += name;
    names_ += '\0';
    return at;
  }

  std::vector<Section> sections_;
  std::vector<Elf64_Sym> symbols_ = std::vector<Elf64_Sym>(1);
  std::string names_ = std::string(1, '\0');
};

std::string ElfWriter::write(uint32_t arch) {
  std::string symbols;
  for (const Elf64_Sym& symbol : symbols_) append(symbols, symbol);
  const uint16_t table = add_section(".symtab", SHT_SYMTAB, symbols);
  const uint16_t names = add_section(".strtab", SHT_STRTAB, {});
  for (Section& section : sections_) {
    if (!section.name.empty()) section.header.sh_name = add_name(section.name);
    if (section.header.sh_type == SHT_RELA) section.header.sh_link = table;
  }
  sections_[table].header.sh_link = names;
  sections_[table].header.sh_entsize = sizeof(Elf64_Sym);
  sections_[names].bytes = names_;
  sections_[names].header.sh_size = names_.size();
  std::string body;
  for (Section& section : sections_) {
    body.resize((body.size() + 7) / 8 * 8, '\0');
    section.header.sh_offset = sizeof(Elf64_Ehdr) + body.size();
    body += section.bytes;
  }
  body.resize((body.size() + 7) / 8 * 8, '\0');
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = kMachineCuda;
  header.e_version = EV_CURRENT;
  header.e_flags = arch;
  header.e_ehsize = sizeof header;
  header.e_shoff = sizeof header + body.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(sections_.size());
  header.e_shstrndx = names;
  std::string file;
  append(file, header);
  file += body;
  for (const Section& section : sections_) append(file, section.header);
  return file;
}

// Writes a module as the linker leaves it.
class ImageWriter {
 public:
  ImageWriter(const ptx::Module& module, ElfWriter& elf) : module_(module), elf_(elf) {}

  void write() {
    for (const ptx::Function& function : module_.functions) {
      if (function.is_kernel && function.has_body) add_kernel(function);
      if (!function.has_body && !function.is_kernel) {
        elf_.add_symbol(function.name, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), SHN_UNDEF, 0, 0);
      }
    }
    add_variables();
    add_addresses();
  }

 private:
  void add_kernel(const ptx::Function& kernel);
  void add_variables();
  void add_addresses();
  void add_to(const std::string& section, uint32_t type, uint64_t size,
              const std::vector<std::pair<const ptx::Variable*, std::string>>& variables);
  void use(const ptx::Operand& operand);
  void use(const std::vector<ptx::Operand>& operands) {
    for (const ptx::Operand& operand : operands) use(operand);
  }
  void use(const ptx::Symbol& symbol) {
    if (symbol.scope == ptx::SymbolScope::kModuleVariable) used_.insert(symbol.index);
  }

  const ptx::Module& module_;
  ElfWriter& elf_;
  std::set<uint32_t> used_;                  // module variables, by index
  std::map<std::string, uint32_t> symbols_;  // of variables, by name
};

void ImageWriter::add_kernel(const ptx::Function& kernel) {
  constexpr uint8_t kSized = 4, kValue = 3, kParameter = 0x17, kParameterBytes = 0x19;
  const uint16_t text = elf_.add_section(".text." + kernel.name, SHT_PROGBITS, std::string(16, 0));
  elf_.add_symbol(kernel.name, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), text, 0, 16);
  std::string info;
  append(info, kValue);
  append(info, kParameterBytes);
  uint64_t end = 0;
  for (const ptx::Variable& parameter : kernel.parameters) {
    end = std::max(end, parameter.offset + parameter.size);
  }
  append(info, static_cast<uint16_t>(end));
  for (size_t i = kernel.parameters.size(); i-- > 0;) {
    const ptx::Variable& parameter = kernel.parameters[i];
    append(info, kSized);
    append(info, kParameter);
    append(info, uint16_t{12});
    append(info, uint32_t{0});
    append(info, static_cast<uint16_t>(i));
    append(info, static_cast<uint16_t>(parameter.offset));
    append(info, static_cast<uint32_t>(parameter.size << 18 | 0x1f000));
  }
  elf_.add_section(".nv.info." + kernel.name, kTypeInfo, info);
}

void ImageWriter::use(const ptx::Operand& operand) {
  std::visit(
      [this](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, ptx::SymbolOperand>) {
          use(value.symbol);
        } else if constexpr (std::is_same_v<T, ptx::AddressOperand>) {
          if (const auto* symbol = std::get_if<ptx::Symbol>(&value.base)) use(*symbol);
          use(value.coordinates);
        } else if constexpr (std::is_same_v<T, ptx::VectorOperand> ||
                             std::is_same_v<T, ptx::PairOperand> ||
                             std::is_same_v<T, ptx::ListOperand>) {
          use(value.elements);
        }
      },
      operand.value);
}

bool is_data(const ptx::Variable& variable) {
  return (variable.space == ptx::Space::kGlobal || variable.space == ptx::Space::kConst) &&
         variable.linkage != ptx::Linkage::kExtern && variable.size != 0 &&
         variable.reference == ptx::Reference::kNone;
}

void ImageWriter::add_variables() {
  struct Data {
    const char* section;
    uint32_t type;
    std::vector<std::pair<const ptx::Variable*, std::string>> variables;
  };
  Data data[] = {{".nv.global", SHT_NOBITS, {}},
                 {".nv.global.init", SHT_PROGBITS, {}},
                 {".nv.constant3", SHT_PROGBITS, {}}};
  const auto sort = [&](const ptx::Variable& variable, const std::string& name) {
    if (!is_data(variable)) return;
    const bool filled = !variable.initial.empty() || !variable.relocations.empty();
    Data& where = data[variable.space == ptx::Space::kConst ? 2 : filled ? 1 : 0];
    where.variables.emplace_back(&variable, name);
  };
  for (const ptx::Variable& variable : module_.variables) sort(variable, variable.name);
  for (const ptx::Function& function : module_.functions) {
    // A compiler keeps them under names of its own.
    for (const ptx::Variable& variable : function.variables) {
      sort(variable, function.name + "$" + variable.name);
    }
  }
  for (const Data& each : data) {
    uint64_t end = 0;
    for (const auto& [variable, name] : each.variables) {
      end = (end + variable->align - 1) / variable->align * variable->align + variable->size;
    }
    if (end != 0) add_to(each.section, each.type, end, each.variables);
  }
}

void ImageWriter::add_to(
    const std::string& section, uint32_t type, uint64_t size,
    const std::vector<std::pair<const ptx::Variable*, std::string>>& variables) {
  const uint16_t at = elf_.add_section(
      section, type, type == SHT_NOBITS ? std::string() : std::string(size, '\0'), size);
  uint64_t end = 0;
  for (const auto& [variable, name] : variables) {
    const uint64_t start = (end + variable->align - 1) / variable->align * variable->align;
    const bool visible = variable->linkage == ptx::Linkage::kVisible;
    symbols_[name] =
        elf_.add_symbol(name, ELF64_ST_INFO(visible ? STB_GLOBAL : STB_LOCAL, STT_OBJECT), at,
                        start, variable->size, variable->managed ? kManaged : 0);
    end = start + variable->size;
  }
}

// As nvcc links: one table of addresses for all kernels of the module.
void ImageWriter::add_addresses() {
  for (const ptx::Function& function : module_.functions) {
    for (const ptx::Instruction& instruction : function.instructions) use(instruction.operands);
  }
  std::string code, data;
  uint64_t offset = 0;
  for (const uint32_t index : used_) {
    const auto symbol = symbols_.find(module_.variables[index].name);
    if (symbol == symbols_.end()) continue;
    append(code, Elf64_Rela{offset, ELF64_R_INFO(uint64_t{symbol->second}, kRelocateAddress), 0});
    offset += 8;
  }
  for (const ptx::Variable& variable : module_.variables) {
    for (const ptx::Relocation& relocation : variable.relocations) {
      const auto symbol = symbols_.find(relocation.symbol);
      if (symbol == symbols_.end()) continue;
      append(data, Elf64_Rela{relocation.offset,
                              ELF64_R_INFO(uint64_t{symbol->second}, kRelocateAddress), 0});
    }
  }
  if (!code.empty()) {
    const uint16_t at = elf_.add_section(".nv.constant4", SHT_PROGBITS, std::string(offset, '\0'));
    elf_.add_relocations(".nv.constant4", at, code);
  }
  if (!data.empty()) elf_.add_relocations(".nv.global.init", 0, data);
}

std::string mask(std::string bytes) {
  for (char& byte : bytes) byte = static_cast<char>(byte ^ kMask);
  return bytes;
}

std::string hide(const std::string& ptx) {
  constexpr int kLevel = 3;
  std::string packed(ZSTD_compressBound(ptx.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), ptx.data(), ptx.size(), kLevel));
  return mask(std::move(packed));
}

}  // namespace

std::optional<std::string> machine_image(const std::string& ptx, uint32_t arch, std::string* why) {
  const ptx::ParseResult parsed = ptx::parse(ptx);
  if (parsed.module == nullptr) {
    *why = "line " + std::to_string(parsed.error.line) + ": " + parsed.error.reason;
    return std::nullopt;
  }
  ElfWriter elf;
  ImageWriter(*parsed.module, elf).write();
  elf.add_section(std::string(kHidden), SHT_PROGBITS, hide(ptx));
  return elf.write(arch);
}

std::optional<std::string> ptx_of_machine_image(std::string_view image) {
  Elf64_Ehdr header;
  if (image.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, image.data(), sizeof header);
  const auto section_at = [&](uint64_t number, Elf64_Shdr& section) {
    const uint64_t at = header.e_shoff + number * sizeof section;
    if (at > image.size() || image.size() - at < sizeof section) return false;
    std::memcpy(&section, image.data() + at, sizeof section);
    return section.sh_type == SHT_NOBITS || (section.sh_offset <= image.size() &&
                                             section.sh_size <= image.size() - section.sh_offset);
  };
  Elf64_Shdr names, section;
  if (header.e_machine != kMachineCuda || !section_at(header.e_shstrndx, names))
    return std::nullopt;
  const std::string_view texts = image.substr(names.sh_offset, names.sh_size);
  for (uint64_t i = 1; i < header.e_shnum; ++i) {
    if (!section_at(i, section) || section.sh_name > texts.size()) return std::nullopt;
    if (!texts.substr(section.sh_name).starts_with(kHidden)) continue;
    const std::string packed = mask(std::string(image.substr(section.sh_offset, section.sh_size)));
    const auto size = ZSTD_getFrameContentSize(packed.data(), packed.size());
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN) return std::nullopt;
    std::string ptx(size, '\0');
    const size_t got = ZSTD_decompress(ptx.data(), ptx.size(), packed.data(), packed.size());
    if (got == ptx.size()) return ptx;
    return std::nullopt;
  }
  return std::nullopt;
}

std::string fat_binary_of(std::string_view image, uint32_t arch) {
  constexpr uint32_t kHeaderBytes = 64;
  const uint64_t padded = (image.size() + 7) / 8 * 8;
  std::string file;
  append(file, gpusnap::kFatBinaryMagic);
  append(file, uint16_t{1});
  append(file, static_cast<uint16_t>(gpusnap::kFatBinaryHeaderBytes));
  append(file, uint64_t{kHeaderBytes + padded});
  std::string entry(kHeaderBytes, '\0');
  const auto put = [&entry](size_t at, const auto& value) {
    std::memcpy(entry.data() + at, &value, sizeof value);
  };
  put(0, uint16_t{2});
  put(2, uint16_t{0x101});
  put(4, kHeaderBytes);
  put(8, padded);
  put(28, arch);
  put(40, uint64_t{0x11});
  file += entry;
  file += image;
  file.resize(gpusnap::kFatBinaryHeaderBytes + kHeaderBytes + padded, '\0');
  return file;
}

}  // namespace simcuda
