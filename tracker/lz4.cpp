#include "tracker/lz4.h"

#include <cstdint>

namespace gpusnap {
namespace {

constexpr size_t kShortest = 4;    // bytes that a match copies at least
constexpr size_t kLongField = 15;  // a length of four bits that goes on in the bytes after it

class Lz4Decoder {
 public:
  Lz4Decoder(std::span<const std::byte> block, size_t size) : block_(block), size_(size) {
    out_.reserve(size);
  }

  // Sequences of literals and a match; the last one has literals only.
  bool decode() {
    while (at_ < block_.size()) {
      const size_t token = next();
      if (!copy_literals(token >> 4)) return false;
      if (at_ == block_.size()) break;
      if (!copy_match(token & 15)) return false;
    }
    return out_.size() == size_;
  }

  std::string take() { return std::move(out_); }

 private:
  size_t next() { return static_cast<size_t>(block_[at_++]); }
  size_t room() const { return size_ - out_.size(); }

  bool read_length(size_t& length) {
    if (length != kLongField) return true;
    size_t more = 255;
    while (more == 255) {
      if (at_ == block_.size()) return false;
      more = next();
      length += more;
    }
    return true;
  }

  bool copy_literals(size_t length) {
    if (!read_length(length) || length > block_.size() - at_ || length > room()) return false;
    out_.append(reinterpret_cast<const char*>(block_.data() + at_), length);
    at_ += length;
    return true;
  }

  bool copy_match(size_t length) {
    if (block_.size() - at_ < 2) return false;
    const size_t low = next();
    const size_t distance = low | next() << 8;
    if (!read_length(length)) return false;
    length += kShortest;
    if (distance == 0 || distance > out_.size() || length > room()) return false;
    // Byte by byte: a match may reach into what it is writing.
    for (size_t from = out_.size() - distance; length > 0; --length) out_ += out_[from++];
    return true;
  }

  std::span<const std::byte> block_;
  size_t size_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::optional<std::string> lz4_decompress(std::span<const std::byte> block, size_t size) {
  Lz4Decoder decoder(block, size);
  if (!decoder.decode()) return std::nullopt;
  return decoder.take();
}

}  // namespace gpusnap
