#include "tracker/image.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <string_view>

#include "tracker/cubin.h"
#include "tracker/fat_binary.h"
#include "tracker/ptx.h"

namespace gpusnap {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;

// The structure that nvcc's host code hands over: __fatBinC_Wrapper_t in its terms.
struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void* data;
  const void* unused;
};

std::array<std::byte, 4> bytes_of(uint32_t magic) {
  std::array<std::byte, 4> bytes;
  std::memcpy(bytes.data(), &magic, sizeof magic);
  return bytes;
}

// Reads no further than the first difference: a text may be shorter than the magic.
bool begins_with(const std::byte* image, std::span<const std::byte> magic) {
  return std::equal(magic.begin(), magic.end(), image);
}

bool is_elf_at(const std::byte* image) {
  static constexpr std::array<std::byte, 4> kMagic = {std::byte{0x7F}, std::byte{'E'},
                                                      std::byte{'L'}, std::byte{'F'}};
  return begins_with(image, kMagic);
}

// PTX starts with blanks, a comment, or a directive.
bool may_be_text(std::byte first) {
  return std::string_view(" \t\r\n\f\v/.#@").find(static_cast<char>(first)) !=
         std::string_view::npos;
}

uint32_t arch_of(std::string_view text) {
  static constexpr std::string_view kTarget = ".target sm_";
  const size_t at = text.find(kTarget);
  uint32_t arch = 0;
  if (at != std::string_view::npos) {
    std::from_chars(text.data() + at + kTarget.size(), text.data() + text.size(), arch);
  }
  return arch;
}

ImageContents failed(std::string reason) {
  ImageContents contents;
  contents.error = std::move(reason);
  return contents;
}

// The structure that a wrapper at `image` points to; `image` itself when it is no wrapper.
const std::byte* unwrap(const void* image) {
  const auto* bytes = static_cast<const std::byte*>(image);
  if (bytes == nullptr || !begins_with(bytes, bytes_of(kWrapperMagic))) return bytes;
  Wrapper wrapper;
  std::memcpy(&wrapper, bytes, sizeof wrapper);
  return static_cast<const std::byte*>(wrapper.data);
}

size_t unwrapped_size(const std::byte* image) {
  if (image == nullptr) return 0;
  if (begins_with(image, bytes_of(kFatBinaryMagic))) return fat_binary_size(image);
  if (is_elf_at(image)) return elf_size_at(image);
  if (!may_be_text(*image)) return 0;
  return std::strlen(reinterpret_cast<const char*>(image));
}

}  // namespace

ImageContents read_image(std::span<const std::byte> image) {
  if (image.empty()) return failed("the image is empty");
  ImageContents contents;
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  if (image.size() >= kFatBinaryHeaderBytes &&
      begins_with(image.data(), bytes_of(kFatBinaryMagic))) {
    read_fat_binary(image, contents);
    return contents;
  }
  ImageEntry entry;
  if (is_elf(image)) {
    entry.kind = ImageEntry::Kind::kElf;
    entry.bytes = text;
  } else if (may_be_text(image.front())) {
    entry.bytes = text.substr(0, text.find('\0'));
    entry.arch = arch_of(entry.bytes);
  } else {
    return failed("it is neither PTX nor a cubin nor a fat binary");
  }
  contents.entries.push_back(std::move(entry));
  return contents;
}

ImageContents read_image_at(const void* image) {
  const std::byte* bytes = unwrap(image);
  const size_t size = unwrapped_size(bytes);
  if (size == 0) return failed("it is neither PTX nor a cubin nor a fat binary");
  return read_image({bytes, size});
}

}  // namespace gpusnap
