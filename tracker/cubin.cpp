#include "tracker/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "tracker/elf_sections.h"
#include "tracker/unaligned.h"

namespace gpusnap {
namespace {

static_assert(sizeof(Elf64_Ehdr) == kElfHeaderBytes);

// The symbol attribute that compilers set for __managed__ variables.
constexpr unsigned char kManaged = 4;

constexpr uint64_t kMostBytes = uint64_t{1} << 40;

enum class Role : uint8_t { kOther, kGlobal, kConstant };

Role role_of(std::string_view section) {
  if (section.starts_with(".nv.global")) return Role::kGlobal;
  // Bank 3 holds __constant__ data; the others are parameters and what the compiler keeps.
  if (section == ".nv.constant3") return Role::kConstant;
  return Role::kOther;
}

class CubinReader {
 public:
  CubinReader(const ElfFile& elf, ImageGlobals& found) : elf_(elf), found_(found) {
    for (const Elf64_Shdr& section : elf.sections()) {
      roles_.push_back(role_of(elf.section_name(section)));
    }
    named_.resize(roles_.size());
  }

  std::string read() {
    for (const Elf64_Shdr& section : elf_.sections()) {
      if (section.sh_type == SHT_SYMTAB) {
        if (!read_symbols(section)) return "its symbol table is damaged";
      }
    }
    // Data that nothing names could not be saved.
    for (size_t i = 0; i < roles_.size(); ++i) {
      if (roles_[i] != Role::kOther && elf_.sections()[i].sh_size > 0 && !named_[i]) {
        return "section " + std::string(elf_.section_name(elf_.sections()[i])) +
               " has data but no symbols";
      }
    }
    return {};
  }

 private:
  bool read_symbols(const Elf64_Shdr& table) {
    const auto bytes = elf_.contents(table);
    if (!bytes || table.sh_entsize != sizeof(Elf64_Sym)) return false;
    for (size_t at = 0; bytes->size() - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
      add(load<Elf64_Sym>(bytes->data() + at), table.sh_link);
    }
    return true;
  }

  void add(const Elf64_Sym& symbol, uint32_t strings) {
    // The driver provides the device's allocator.
    if (symbol.st_shndx == SHN_UNDEF && elf_.string_at(strings, symbol.st_name) == kDeviceMalloc) {
      found_.device_heap = true;
    }
    if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx >= roles_.size()) return;
    const Role role = roles_[symbol.st_shndx];
    const std::string_view name = elf_.string_at(strings, symbol.st_name);
    if (role == Role::kOther || name.empty() || symbol.st_size == 0) return;
    named_[symbol.st_shndx] = true;
    GlobalVariable variable;
    variable.name = name;
    variable.size = symbol.st_size;
    variable.constant = role == Role::kConstant;
    variable.managed = role == Role::kGlobal && (symbol.st_other & kManaged) != 0;
    found_.globals.push_back(std::move(variable));
  }

  const ElfFile& elf_;
  ImageGlobals& found_;
  std::vector<Role> roles_;  // by section
  std::vector<bool> named_;  // by section: a symbol lies in it
};

constexpr std::string_view kKernelInfo = ".nv.info.";

// The attributes of one kernel. Parameters come in any order.
CubinKernel read_kernel_info(std::string_view name, std::span<const std::byte> bytes) {
  constexpr uint8_t kFormSized = 4, kKindParameter = 0x17, kKindParameterBytes = 0x19;
  constexpr uint16_t kParameterBytes = 12;
  CubinKernel kernel;
  kernel.name = name;
  std::map<uint16_t, std::pair<uint32_t, uint32_t>> parameters;
  uint32_t all_bytes = 0;
  while (bytes.size() >= 4) {
    const auto form = load<uint8_t>(bytes.data());
    const auto kind = load<uint8_t>(bytes.data() + 1);
    const auto value = load<uint16_t>(bytes.data() + 2);
    bytes = bytes.subspan(4);
    if (kind == kKindParameterBytes && form != kFormSized) all_bytes = value;
    if (form != kFormSized) continue;
    if (value > bytes.size()) return kernel;
    if (kind == kKindParameter && value == kParameterBytes) {
      const uint32_t size = load<uint32_t>(bytes.data() + 8) >> 18;
      parameters[load<uint16_t>(bytes.data() + 4)] = {load<uint16_t>(bytes.data() + 6), size};
    }
    bytes = bytes.subspan(value);
  }
  uint32_t end = 0;
  bool in_order = true;
  for (const auto& [number, place] : parameters) {
    in_order = in_order && number == kernel.parameters.size() && place.first >= end;
    end = place.first + place.second;
    kernel.parameters.push_back(place);
  }
  // All of them are there only if they make up the block.
  kernel.layout_known = in_order && end == all_bytes;
  if (!kernel.layout_known) kernel.parameters.clear();
  return kernel;
}

}  // namespace

std::string read_cubin_kernels(std::span<const std::byte> file, std::vector<CubinKernel>& found) {
  ElfFile elf(file);
  if (!elf.open()) return "it is not a readable ELF file";
  for (const Elf64_Shdr& section : elf.sections()) {
    const std::string_view name = elf.section_name(section);
    if (!name.starts_with(kKernelInfo)) continue;
    const auto bytes = elf.contents(section);
    if (!bytes) return "section " + std::string(name) + " is damaged";
    found.push_back(read_kernel_info(name.substr(kKernelInfo.size()), *bytes));
  }
  return {};
}

bool is_elf(std::span<const std::byte> bytes) {
  return bytes.size() >= SELFMAG && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0;
}

uint64_t elf_size_at(const std::byte* image) {
  const auto header = load<Elf64_Ehdr>(image);
  if (!is_64_bit_little_endian(header)) return 0;
  if (header.e_shoff > kMostBytes || header.e_phoff > kMostBytes) return 0;
  uint64_t end = std::max<uint64_t>(
      {sizeof header, header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize,
       header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize});
  if (header.e_shnum > 0 && header.e_shentsize != sizeof(Elf64_Shdr)) return 0;
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    const auto section = load<Elf64_Shdr>(image + header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    if (section.sh_offset > kMostBytes || section.sh_size > kMostBytes) return 0;
    end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end;
}

std::string read_cubin_globals(std::span<const std::byte> file, ImageGlobals& found) {
  ElfFile elf(file);
  if (!elf.open()) return "it is not a readable ELF file";
  return CubinReader(elf, found).read();
}

}  // namespace gpusnap
