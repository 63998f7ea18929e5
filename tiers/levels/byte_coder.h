// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes numbers and texts for messages and headers, little-endian on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnap::levels {

class ByteWriter {
 public:
  template <class T>
  ByteWriter& number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i)));
    }
    return *this;
  }
  ByteWriter& text(std::string_view text) {
    number(static_cast<uint32_t>(text.size()));
    return raw(std::as_bytes(std::span(text)));
  }
  ByteWriter& raw(std::span<const std::byte> bytes);
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Decodes arbitrary bytes. Missing values are 0 or empty, and ok() is false from then on.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    uint64_t value = 0;
    if (!has(sizeof(T))) return T{};
    for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(bytes_[i]) << (8 * i);
    bytes_ = bytes_.subspan(sizeof(T));
    return static_cast<T>(value);
  }
  std::string text(size_t longest) {
    const auto size = number<uint32_t>();
    if (size > longest || !has(size)) {
      ok_ = false;
      return {};
    }
    std::string text(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return text;
  }
  std::span<const std::byte> rest() const { return bytes_; }
  bool ok() const { return ok_; }
  bool is_whole() const { return ok_ && bytes_.empty(); }  // and nothing follows

 private:
  bool has(size_t bytes) {
    ok_ = ok_ && bytes_.size() >= bytes;
    return ok_;
  }
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace gpusnap::levels
