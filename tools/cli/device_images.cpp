#include "tools/cli/device_images.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "tools/cli/elf_file.h"
#include "tracker/fat_binary.h"

namespace gpusnap {
namespace {

constexpr uint16_t kCudaMachine = 190;  // EM_CUDA

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

bool is_cubin(std::string_view file) {
  Elf64_Ehdr header;
  if (file.size() < sizeof header) return false;
  std::memcpy(&header, file.data(), sizeof header);
  return header.e_machine == kCudaMachine;
}

// A section holds one container for each source file, at multiples of 8 with zeros between.
void add_fat_binaries(std::string_view file, std::string_view section,
                      std::vector<DeviceImage>& images) {
  constexpr size_t kAlign = 8;
  for (size_t at = 0; at + kFatBinaryHeaderBytes <= section.size();) {
    const std::string_view rest = section.substr(at);
    const uint64_t size = fat_binary_size(as_bytes(rest).data());
    if (size == 0 || size > rest.size()) {
      at += kAlign;
      continue;
    }
    DeviceImage image;
    image.place = fmt::format("fat binary at {:#x}", rest.data() - file.data());
    image.contents = read_image(as_bytes(rest.substr(0, size)));
    images.push_back(std::move(image));
    at += (size + kAlign - 1) / kAlign * kAlign;
  }
}

// Programs that bring their PTX as a string: from its first directive to the zero at its end.
void add_texts(std::string_view file, const std::vector<std::string_view>& fat,
               std::vector<DeviceImage>& images) {
  constexpr std::string_view kFirst = ".version ", kSecond = ".target sm_";
  constexpr size_t kFarthest = 256;
  for (size_t at = file.find(kFirst); at != std::string_view::npos;
       at = file.find(kFirst, at + 1)) {
    const std::string_view text = file.substr(at, file.substr(at).find('\0'));
    const auto holds_it = [&text](std::string_view section) {
      return text.data() >= section.data() && text.data() < section.data() + section.size();
    };
    if (std::ranges::any_of(fat, holds_it)) continue;
    if (text.substr(0, kFarthest).find(kSecond) == std::string_view::npos) continue;
    DeviceImage image;
    image.place = fmt::format("PTX text at {:#x}", at);
    image.contents = read_image(as_bytes(text));
    images.push_back(std::move(image));
    at += text.size() - 1;
  }
}

}  // namespace

std::vector<DeviceImage> find_device_images(std::string_view file) {
  std::vector<DeviceImage> images;
  if (file.starts_with(ELFMAG) && !is_cubin(file)) {
    const std::vector<std::string_view> fat = sections_named(file, ".nv_fatbin");
    for (const std::string_view section : fat) add_fat_binaries(file, section, images);
    add_texts(file, fat, images);
    return images;
  }
  DeviceImage image;
  image.contents = read_image(as_bytes(file));
  if (image.contents.error.empty()) images.push_back(std::move(image));
  return images;
}

}  // namespace gpusnap
