// Data that the device decompresses, into memory that nothing else writes.
#include <array>
#include <vector>

#include "tests/random/caller.h"

namespace calls {

namespace {
constexpr uint64_t kPacked = 64, kUnpacked = 70'000;  // bytes, the count behind them
}  // namespace

// LZ4: a few literals that a match repeats, and five more at the end.
void Caller::unpack_step() {
  if (packed_ == nullptr) {
    packed_ = &own_memory(kPacked);
    unpacked_ = &own_memory(kUnpacked + 4);
  }
  const uint64_t literals = draw_.between(4, 14), more = draw_.below(255);
  std::vector<unsigned char> bytes{static_cast<unsigned char>(literals << 4 | 15)};
  for (uint64_t i = 0; i < literals; ++i) {
    bytes.push_back(static_cast<unsigned char>(draw_.word()));
  }
  bytes.insert(bytes.end(), {static_cast<unsigned char>(literals), 0});
  bytes.insert(bytes.end(), {static_cast<unsigned char>(more), 0x50, 1, 2, 3, 4, 5});
  const uint64_t size = literals + 4 + 15 + more + 5;

  const CUstream stream = pick_stream();
  touch(*packed_, stream);
  touch(*unpacked_, stream);
  auto& kept = host_bytes(bytes.size());
  std::copy(bytes.begin(), bytes.end(), kept.begin());
  IN_STREAM(cuMemcpyHtoDAsync_v2, stream, packed_->address, kept.data(), kept.size());
  CUmemDecompressParams piece{};
  piece.srcNumBytes = bytes.size();
  piece.dstNumBytes = draw_.chance(50) ? size : 0;
  piece.src = reinterpret_cast<const void*>(packed_->address);
  const CUdeviceptr to = unpacked_->address + draw_.below(60'000);
  piece.dst = reinterpret_cast<void*>(to);
  piece.dstActBytes = reinterpret_cast<cuuint32_t*>(unpacked_->address + kUnpacked);
  piece.algo = CU_MEM_DECOMPRESS_ALGORITHM_LZ4;
  size_t failed = 0;
  const auto [use_ptsz, given] = given_as(stream);
  CHECK((use_ptsz ? cuMemBatchDecompressAsync_ptsz : cuMemBatchDecompressAsync)(&piece, 1, 0,
                                                                                &failed, given));
  if (draw_.chance(50)) return;
  wait_for(stream);
  std::vector<unsigned char> found(size + 4);
  const CUstream other = pick_default();
  touch(*unpacked_, other);
  AT_ONCE(cuMemcpyDtoH_v2, other, found.data(), to, size);
  AT_ONCE(cuMemcpyDtoH_v2, other, found.data() + size, unpacked_->address + kUnpacked, 4);
  see(found.data(), found.size());
}

}  // namespace calls
