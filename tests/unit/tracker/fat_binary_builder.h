// Fat binaries written by hand, for tests of their reader.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace gpusnap {

struct FatEntry {
  uint16_t kind = 1;  // 1 PTX, 2 ELF
  uint32_t arch = 75;
  uint64_t flags = 0x11;
  std::string payload;          // as it is stored
  uint64_t unpacked_bytes = 0;  // 0: not compressed
};

template <class T>
void put(std::string& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

inline std::string fat_entry(const FatEntry& entry) {
  constexpr uint32_t kHeader = 64;
  std::string payload = entry.payload;
  payload.resize((payload.size() + 7) / 8 * 8);
  std::string bytes(kHeader, '\0');
  put<uint16_t>(bytes, 0, entry.kind);
  put<uint32_t>(bytes, 4, kHeader);
  put<uint64_t>(bytes, 8, payload.size());
  if (entry.unpacked_bytes != 0) {
    put<uint32_t>(bytes, 16, static_cast<uint32_t>(entry.payload.size()));
  }
  put<uint32_t>(bytes, 28, entry.arch);
  put<uint64_t>(bytes, 40, entry.flags);
  put<uint64_t>(bytes, 56, entry.unpacked_bytes);
  return bytes + payload;
}

inline std::string fat_container(const std::string& entries) {
  std::string bytes(16, '\0');
  put<uint32_t>(bytes, 0, 0xBA55ED50);
  put<uint16_t>(bytes, 4, 1);
  put<uint16_t>(bytes, 6, 16);
  put<uint64_t>(bytes, 8, entries.size());
  return bytes + entries;
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace gpusnap
