#include "tools/cli/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace gpusnap {
namespace {

// Copies a T out of the bytes; false where they do not reach.
template <class T>
bool read_at(std::string_view bytes, uint64_t offset, T& into) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  std::memcpy(&into, bytes.data() + offset, sizeof(T));
  return true;
}

std::string_view part(std::string_view bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() ? bytes.substr(offset, size) : std::string_view();
}

// The zero-terminated text at `offset`; empty where there is none.
std::string_view text_at(std::string_view table, uint64_t offset) {
  const std::string_view rest = part(table, offset, table.size());
  const size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

// Or a longer one that ends so: of such the linker keeps the longer one alone.
bool holds_name(std::string_view table, std::string_view name) {
  const std::string whole = std::string(name) + '\0';
  return table.find(whole) != std::string_view::npos;
}

std::vector<Elf64_Phdr> read_parts(std::string_view bytes, const Elf64_Ehdr& header) {
  std::vector<Elf64_Phdr> parts;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr program;
    if (!read_at(bytes, header.e_phoff + i * sizeof program, program)) break;
    parts.push_back(program);
  }
  return parts;
}

// Where an address of the loaded image lies in the file.
uint64_t file_offset(const std::vector<Elf64_Phdr>& parts, uint64_t address) {
  for (const Elf64_Phdr& program : parts) {
    if (program.p_type == PT_LOAD && address - program.p_vaddr < program.p_filesz) {
      return address - program.p_vaddr + program.p_offset;
    }
  }
  return UINT64_MAX;
}

// The table of sections' names; empty where there is none.
std::string_view section_names(std::string_view bytes, const Elf64_Ehdr& header) {
  Elf64_Shdr section;
  if (header.e_shentsize != sizeof(Elf64_Shdr) ||
      !read_at(bytes, header.e_shoff + uint64_t{header.e_shstrndx} * sizeof section, section)) {
    return {};
  }
  return part(bytes, section.sh_offset, section.sh_size);
}

// CUDA's sections, and the tables that gcc makes for OpenACC and OpenMP offload regions. libgomp's
// plug-in opens the driver for the latter: nothing else in the file leads to it.
bool has_device_sections(std::string_view bytes, const Elf64_Ehdr& header) {
  constexpr std::array<std::string_view, 4> kNames = {".nv_fatbin", ".nvFatBinSegment",
                                                      ".gnu.offload_funcs", ".gnu.offload_vars"};
  const std::string_view names = section_names(bytes, header);
  return std::ranges::any_of(kNames,
                             [names](std::string_view name) { return holds_name(names, name); });
}

void add_folders(std::string_view list, const std::string& folder, std::vector<std::string>& into) {
  while (!list.empty()) {
    const size_t colon = std::min(list.find(':'), list.size());
    std::string entry(list.substr(0, colon));
    for (const std::string_view origin : {"${ORIGIN}", "$ORIGIN"}) {
      const size_t at = entry.find(origin);
      if (at != std::string::npos) entry.replace(at, origin.size(), folder);
    }
    if (!entry.empty()) into.push_back(std::move(entry));
    list.remove_prefix(std::min(colon + 1, list.size()));
  }
}

void read_dynamic(std::string_view bytes, const std::vector<Elf64_Phdr>& parts,
                  const Elf64_Phdr& dynamic, const std::string& folder, ElfFacts& facts) {
  std::vector<Elf64_Dyn> entries;
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    if (!read_at(bytes, dynamic.p_offset + at, entry) || entry.d_tag == DT_NULL) break;
    entries.push_back(entry);
  }
  uint64_t names_address = 0;
  uint64_t names_bytes = 0;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_STRTAB) names_address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) names_bytes = entry.d_un.d_val;
  }
  const std::string_view names = part(bytes, file_offset(parts, names_address), names_bytes);
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NEEDED) facts.needed.emplace_back(text_at(names, entry.d_un.d_val));
    if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) {
      add_folders(text_at(names, entry.d_un.d_val), folder, facts.search);
    }
  }
  facts.opens_libraries = holds_name(names, "dlopen") || holds_name(names, "dlmopen");
  facts.imports_driver = holds_name(names, "cuInit");
}

}  // namespace

std::vector<std::string_view> sections_named(std::string_view bytes, std::string_view name) {
  std::vector<std::string_view> found;
  Elf64_Ehdr header;
  if (!read_at(bytes, 0, header) || header.e_ident[EI_CLASS] != ELFCLASS64) return found;
  const std::string_view names = section_names(bytes, header);
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    if (!read_at(bytes, header.e_shoff + i * sizeof section, section)) break;
    if (section.sh_type == SHT_NOBITS || text_at(names, section.sh_name) != name) continue;
    found.push_back(part(bytes, section.sh_offset, section.sh_size));
  }
  return found;
}

Result<ElfFacts> read_elf(std::string_view bytes, const std::string& folder) {
  if (!bytes.starts_with(ELFMAG)) return Status(Code::kUnsupported, "not an ELF file");
  ElfFacts facts;
  Elf64_Ehdr header;
  if (bytes.size() <= EI_CLASS || bytes[EI_CLASS] != ELFCLASS64) return facts;
  if (!read_at(bytes, 0, header) || header.e_phentsize != sizeof(Elf64_Phdr)) {
    return Status(Code::kDamaged, "its ELF header is cut or wrong");
  }
  facts.x86_64 = header.e_machine == EM_X86_64;
  const std::vector<Elf64_Phdr> parts = read_parts(bytes, header);
  for (const Elf64_Phdr& program : parts) {
    if (program.p_type == PT_INTERP) facts.has_interpreter = true;
    if (program.p_type == PT_DYNAMIC) read_dynamic(bytes, parts, program, folder, facts);
  }
  facts.has_device_code = has_device_sections(bytes, header);
  return facts;
}

}  // namespace gpusnap
