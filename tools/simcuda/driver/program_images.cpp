// SPDX-License-Identifier: Apache-2.0

#include "tools/simcuda/driver/program_images.h"

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cctype>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/simcuda/driver/machine_image.h"
#include "tools/simcuda/driver/module.h"

namespace simcuda {
namespace {

// nvcc's structure around a container.
struct Wrapper {
  uint32_t magic = 0x466243B1;
  uint32_t version = 1;
  const void* data = nullptr;
  const void* unused = nullptr;
};

struct Segment {
  const char* start = nullptr;
  size_t bytes = 0;
  bool writable = false;
  std::string_view text() const { return {start, bytes}; }
};

// All that is loaded, but for this driver itself.
std::vector<Segment> loaded_segments() {
  std::vector<Segment> segments;
  const auto add = [](dl_phdr_info* info, size_t, void* to) {
    std::vector<Segment> found;
    bool is_own = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = info->dlpi_phdr[i];
      if (header.p_type != PT_LOAD || (header.p_flags & PF_R) == 0) continue;
      const auto* start = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
      found.push_back({start, header.p_filesz, (header.p_flags & PF_W) != 0});
      const auto own = reinterpret_cast<uintptr_t>(&loaded_segments);
      is_own = is_own || own - reinterpret_cast<uintptr_t>(start) < header.p_memsz;
    }
    auto& all = *static_cast<std::vector<Segment>*>(to);
    if (!is_own) all.insert(all.end(), found.begin(), found.end());
    return 0;
  };
  dl_iterate_phdr(add, &segments);
  return segments;
}

// Writes to memory whatever its protection is.
class ProgramMemory {
 public:
  ProgramMemory() : file_(open("/proc/self/mem", O_RDWR | O_CLOEXEC)) {}
  ~ProgramMemory() {
    if (file_ >= 0) close(file_);
  }
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;
  bool write(const void* at, const void* bytes, size_t count) const {
    return pwrite(file_, bytes, count, static_cast<off_t>(reinterpret_cast<uintptr_t>(at))) ==
           static_cast<ssize_t>(count);
  }

 private:
  int file_;
};

class Translator {
 public:
  explicit Translator(uint32_t arch) : arch_(arch) {}

  // All containers come before all texts, which may be parts of containers.
  void translate_containers(const Segment& segment);
  void translate_texts(std::string_view memory);

 private:
  // The container that takes the place of an image; it stays for ever.
  const void* translated(const void* image) const {
    std::string ptx, why;
    LoadLog log;
    if (select_ptx(image, static_cast<int>(arch_), &ptx, &log) != CUDA_SUCCESS) return nullptr;
    const std::optional<std::string> code = machine_image(ptx, arch_, &why);
    return code ? (new std::string(fat_binary_of(*code, arch_)))->data() : nullptr;
  }

  const uint32_t arch_;
  ProgramMemory memory_;
};

void Translator::translate_containers(const Segment& segment) {
  for (size_t at = 0; at + sizeof(Wrapper) <= segment.bytes; at += alignof(Wrapper)) {
    Wrapper wrapper;
    const Wrapper expected;
    std::memcpy(&wrapper, segment.start + at, sizeof wrapper);
    if (wrapper.magic != expected.magic || wrapper.version != expected.version) continue;
    const void* const code = translated(wrapper.data);
    if (code != nullptr)
      memory_.write(segment.start + at + offsetof(Wrapper, data), &code, sizeof code);
  }
}

bool is_blank_or_comment(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r");
  return first == std::string_view::npos || line.substr(first).starts_with("//");
}

// Where the text begins that has `.version` at `at`: blank lines and comments may come before.
size_t start_of_text(std::string_view memory, size_t at) {
  while (at != 0 && memory[at - 1] == '\n') {
    size_t line = at - 1;
    while (line != 0 && memory[line - 1] != '\n' &&
           (std::isprint(static_cast<unsigned char>(memory[line - 1])) != 0 ||
            memory[line - 1] == '\t')) {
      --line;
    }
    if (!is_blank_or_comment(memory.substr(line, at - 1 - line))) break;
    at = line;
  }
  return at;
}

void Translator::translate_texts(std::string_view memory) {
  constexpr std::string_view kVersion = ".version ", kTarget = ".target sm_";
  for (size_t at = memory.find(kVersion); at != std::string_view::npos;
       at = memory.find(kVersion, at + 1)) {
    const size_t end = memory.find('\0', at);
    if (end == std::string_view::npos) return;
    const std::string_view text = memory.substr(at, end - at);
    if (text.substr(0, 64).find(kTarget) == std::string_view::npos) continue;
    const size_t start = start_of_text(memory, at);
    if (end - start < sizeof(Wrapper)) continue;
    Wrapper wrapper;
    wrapper.data = translated(memory.data() + start);
    if (wrapper.data != nullptr) memory_.write(memory.data() + start, &wrapper, sizeof wrapper);
  }
}

}  // namespace

void turn_program_into_machine_code(uint32_t arch) {
  Translator translator(arch);
  const std::vector<Segment> segments = loaded_segments();
  for (const Segment& segment : segments) {
    if (segment.writable) translator.translate_containers(segment);
  }
  for (const Segment& segment : segments) {
    if (!segment.writable) translator.translate_texts(segment.text());
  }
}

}  // namespace simcuda
