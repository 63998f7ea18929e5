#include "interpose/services/data_digest.h"

#include "tiers/checksum.h"

namespace gpusnap {

uint64_t data_digest(std::span<const std::byte> data) {
  constexpr size_t kWhole = 32 << 10;
  constexpr size_t kPiece = 512;
  constexpr size_t kPieces = kWhole / kPiece;
  uint64_t digest = data.size();
  if (data.size() <= kWhole) {
    digest ^= checksum(data);
  } else {
    // The first and the last bytes are among them.
    const size_t step = (data.size() - kPiece) / (kPieces - 1);
    for (size_t i = 0; i < kPieces; ++i) {
      const size_t at = i + 1 == kPieces ? data.size() - kPiece : i * step;
      digest = digest * 31 + checksum(data.subspan(at, kPiece));
    }
  }
  return digest == 0 ? 1 : digest;
}

}  // namespace gpusnap
