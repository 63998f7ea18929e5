#include "interpose/services/build_id.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace gpusnap {
namespace {

std::string hex_digits(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

template <class T>
bool read_at(int file, uint64_t offset, T* to, size_t count) {
  const size_t bytes = count * sizeof(T);
  return offset <= INT64_MAX &&
         pread(file, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

// The file may hold anything.
std::string build_id_of(int file) {
  constexpr size_t kMostParts = 64;
  constexpr size_t kMostNotes = 64 << 10;
  ElfW(Ehdr) head;
  if (!read_at(file, 0, &head, 1) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(ElfW(Phdr)) ||
      head.e_phnum > kMostParts) {
    return {};
  }
  std::vector<ElfW(Phdr)> parts(head.e_phnum);
  if (!read_at(file, head.e_phoff, parts.data(), parts.size())) return {};
  std::vector<char> notes;
  for (const ElfW(Phdr) & part : parts) {
    if (part.p_type != PT_NOTE || part.p_filesz > kMostNotes) continue;
    notes.resize(part.p_filesz);
    if (!read_at(file, part.p_offset, notes.data(), notes.size())) continue;
    const std::string_view found = build_id_in(notes.data(), notes.size());
    if (!found.empty()) return hex_digits(found);
  }
  return {};
}

bool holds(const dl_phdr_info& info, uintptr_t address) {
  for (size_t i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info.dlpi_phdr[i];
    if (part.p_type == PT_LOAD && address - (info.dlpi_addr + part.p_vaddr) < part.p_memsz) {
      return true;
    }
  }
  return false;
}

bool is_of_the_driver(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libcuda.so") || name.starts_with("libnvidia-");
}

int add_library(dl_phdr_info* info, size_t, void* context) {
  auto& libraries = *static_cast<std::vector<SavedLibrary>*>(context);
  const std::string_view path(info->dlpi_name != nullptr ? info->dlpi_name : "");
  if (!path.starts_with('/') || is_of_the_driver(path) ||
      holds(*info, reinterpret_cast<uintptr_t>(&add_library))) {
    return 0;
  }
  SavedLibrary library{std::string(path), {}};
  for (size_t i = 0; i < info->dlpi_phnum && library.build_id.empty(); ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto* const notes = reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr);
    library.build_id = hex_digits(build_id_in(notes, part.p_memsz));
  }
  libraries.push_back(std::move(library));
  return 0;
}

}  // namespace

// Name, description: each padded to four bytes.
std::string_view build_id_in(const char* notes, size_t bytes) {
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const size_t name_bytes = (size_t{note.n_namesz} + 3) & ~size_t{3};
    const size_t all_bytes = sizeof note + name_bytes + ((size_t{note.n_descsz} + 3) & ~size_t{3});
    if (all_bytes > bytes) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes + sizeof note, "GNU", 4) == 0) {
      return {notes + sizeof note + name_bytes, note.n_descsz};
    }
    notes += all_bytes;
    bytes -= all_bytes;
  }
  return {};
}

Result<std::string> build_id_of_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return Status(errno == ENOENT ? Code::kNotFound : Code::kIo,
                  "cannot read " + path + ": " + strerrordesc_np(errno));
  }
  std::string found = build_id_of(file);
  close(file);
  return found;
}

std::vector<SavedLibrary> loaded_libraries() {
  std::vector<SavedLibrary> libraries;
  dl_iterate_phdr(add_library, &libraries);
  return libraries;
}

std::string changed_libraries(const std::vector<SavedLibrary>& libraries) {
  std::string first;
  size_t more = 0;
  for (const SavedLibrary& library : libraries) {
    const Result<std::string> now = build_id_of_file(library.path);
    const bool gone = now.status().code() == Code::kNotFound;
    // A library that cannot be read is not known to differ.
    if (!gone && (!now.ok() || now.value() == library.build_id)) continue;
    if (first.empty()) {
      first = library.path + (gone ? " is not there" : " is another build");
    } else {
      ++more;
    }
  }
  return more == 0 ? first : first + " (and " + std::to_string(more) + " more)";
}

}  // namespace gpusnap
