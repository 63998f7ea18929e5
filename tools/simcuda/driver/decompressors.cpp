#include "tools/simcuda/driver/decompressors.h"

#include <zlib.h>

#include <cstdint>
#include <cstring>

namespace simcuda {
namespace {

// The input left to read, and the output written so far. Any error is remembered.
class Pieces {
 public:
  Pieces(std::span<const std::byte> in, std::span<std::byte> out) : in_(in), out_(out) {}

  bool good() const { return good_; }
  bool at_end() const { return in_.empty(); }
  size_t written() const { return written_; }

  uint8_t byte() {
    if (!need(!in_.empty())) return 0;
    const auto value = static_cast<uint8_t>(in_[0]);
    in_ = in_.subspan(1);
    return value;
  }
  // Little-endian.
  uint64_t number(unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) value |= uint64_t{byte()} << (8 * i);
    return value;
  }
  // The next bytes as they are.
  void literal(uint64_t count) {
    if (!need(count <= in_.size() && count <= room())) return;
    if (count != 0) std::memcpy(out_.data() + written_, in_.data(), count);
    in_ = in_.subspan(count);
    written_ += count;
  }
  // Again what was written so far back; it may reach into itself.
  void match(uint64_t back, uint64_t count) {
    if (!need(back != 0 && back <= written_ && count <= room())) return;
    for (; count != 0; --count, ++written_) out_[written_] = out_[written_ - back];
  }
  bool need(bool holds) { return good_ = good_ && holds; }

 private:
  size_t room() const { return out_.size() - written_; }

  std::span<const std::byte> in_;
  std::span<std::byte> out_;
  size_t written_ = 0;
  bool good_ = true;
};

// A length of 15 goes on in bytes, up to one that is not 255.
uint64_t lz4_length(Pieces& pieces, uint64_t length) {
  if (length != 15) return length;
  uint8_t more = 255;
  while (more == 255 && pieces.good()) length += more = pieces.byte();
  return length;
}

// Sequences of literals and a match; the last one has none.
void lz4(Pieces& pieces) {
  while (pieces.good()) {
    const uint8_t token = pieces.byte();
    pieces.literal(lz4_length(pieces, token >> 4));
    if (pieces.at_end()) return;
    const uint64_t back = pieces.number(2);
    pieces.match(back, lz4_length(pieces, token & 15) + 4);
  }
}

// The size as a varint, then elements of which the two lowest bits tell the kind.
void snappy(Pieces& pieces) {
  uint64_t size = 0;
  uint8_t part = 128;
  for (unsigned shift = 0; part >= 128 && pieces.need(shift <= 28); shift += 7) {
    part = pieces.byte();
    size |= uint64_t{part & 127u} << shift;
  }
  while (pieces.good() && !pieces.at_end()) {
    const uint8_t tag = pieces.byte();
    const uint64_t upper = tag >> 2;
    switch (tag & 3) {
      case 0:
        pieces.literal((upper < 60 ? upper : pieces.number(static_cast<unsigned>(upper - 59))) + 1);
        break;
      case 1: {
        const uint64_t back = (uint64_t{tag} >> 5) << 8;
        pieces.match(back | pieces.byte(), (upper & 7) + 4);
        break;
      }
      default:
        pieces.match(pieces.number((tag & 3) == 2 ? 2 : 4), upper + 1);
    }
  }
  pieces.need(pieces.written() == size);
}

std::optional<size_t> deflate_back(std::span<const std::byte> in, std::span<std::byte> out) {
  z_stream stream{};
  if (in.size() > UINT32_MAX || out.size() > UINT32_MAX) return std::nullopt;
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return std::nullopt;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = inflate(&stream, Z_FINISH);
  const size_t written = stream.total_out;
  (void)inflateEnd(&stream);
  if (result != Z_STREAM_END) return std::nullopt;
  return written;
}

}  // namespace

std::optional<size_t> decompress(CUmemDecompressAlgorithm algorithm, std::span<const std::byte> in,
                                 std::span<std::byte> out) {
  if (algorithm == CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE) return deflate_back(in, out);
  Pieces pieces(in, out);
  algorithm == CU_MEM_DECOMPRESS_ALGORITHM_LZ4 ? lz4(pieces) : snappy(pieces);
  if (!pieces.good()) return std::nullopt;
  return pieces.written();
}

}  // namespace simcuda
