// Data that comes to the device compressed: what is in the cells, and how much it was, nobody but
// the device's own engine for that has written.
#include "unpacking.h"

#include <zlib.h>

#include <array>

#include "app.h"
#include "unpacking_ptx.h"

namespace app {

using Bytes = std::vector<unsigned char>;
using Words = std::vector<unsigned>;

// Runs, so that there is something to compress: 16 words of each.
Words chunk_of(unsigned number, unsigned words) {
  Words chunk(words);
  for (unsigned at = 0; at < words; ++at) chunk[at] = (at / 16 + number * 77) * 2654435761u;
  return chunk;
}

const unsigned char* bytes_of(const Words& words) {
  return reinterpret_cast<const unsigned char*>(words.data());
}

Bytes deflated(const Words& words) {
  z_stream stream{};
  const size_t size = words.size() * sizeof(unsigned);
  Bytes packed(size + 1024);
  if (deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    fail("zlib", "cannot be used");
  }
  stream.next_in = const_cast<Bytef*>(bytes_of(words));
  stream.avail_in = static_cast<uInt>(size);
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) fail("zlib", "needs more room");
  packed.resize(stream.total_out);
  (void)deflateEnd(&stream);
  return packed;
}

// Literals of 4 bytes, 4 bytes back, a match of 4 + 15 + 41; at the end literals of 15 + 49.
Bytes lz4_packed(const Words& words) {
  Bytes packed;
  for (size_t at = 0; at < words.size(); at += 16) {
    const auto* const word = bytes_of(words) + at * sizeof(unsigned);
    const bool last = at + 16 == words.size();
    packed.push_back(last ? 0xf0 : 0x4f);
    if (last) packed.push_back(49);
    packed.insert(packed.end(), word, word + (last ? 64 : 4));
    if (!last) packed.insert(packed.end(), {4, 0, 41});
  }
  return packed;
}

// The size; then literals of 4 bytes, and a copy of 60 bytes from 4 bytes back.
Bytes snappy_packed(const Words& words) {
  Bytes packed;
  size_t size = words.size() * sizeof(unsigned);
  for (; size >= 128; size /= 128) packed.push_back(static_cast<unsigned char>(size % 128 + 128));
  packed.push_back(static_cast<unsigned char>(size));
  for (size_t at = 0; at < words.size(); at += 16) {
    const auto* const word = bytes_of(words) + at * sizeof(unsigned);
    packed.push_back(3 << 2);
    packed.insert(packed.end(), word, word + 4);
    packed.insert(packed.end(), {59 << 2 | 2, 4, 0});
  }
  return packed;
}

// Physical memory of which the engine knows, mapped.
class Mapped {
 public:
  Mapped() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.allocFlags.usage = CU_MEM_CREATE_USAGE_HW_DECOMPRESS;
    CHECK(cuMemGetAllocationGranularity(&size_, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemCreate(&handle_, size_, &properties, 0));
    CHECK(cuMemAddressReserve(&address_, size_, 0, 0, 0));
    CHECK(cuMemMap(address_, size_, 0, handle_, 0));
    const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuMemSetAccess(address_, size_, &access, 1));
  }
  ~Mapped() {
    CHECK(cuMemUnmap(address_, size_));
    CHECK(cuMemAddressFree(address_, size_));
    CHECK(cuMemRelease(handle_));
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  CUdeviceptr address() const { return address_; }

 private:
  size_t size_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
};

// Memory of a pool that was made for the decompression engine.
class Pooled {
 public:
  explicit Pooled(CUstream stream) : stream_(stream) {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.usage = CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS;
    CHECK(cuMemPoolCreate(&pool_, &properties));
    CHECK(cuMemAllocFromPoolAsync(&address_, kPieces * sizeof(unsigned), pool_, stream_));
    CHECK(cuMemsetD32Async(address_, 0, kPieces, stream_));
  }
  ~Pooled() {
    CHECK(cuMemFreeAsync(address_, stream_));
    CHECK(cuMemPoolDestroy(pool_));
  }
  Pooled(const Pooled&) = delete;
  Pooled& operator=(const Pooled&) = delete;
  CUdeviceptr address() const { return address_; }

 private:
  CUstream stream_;
  CUmemoryPool pool_ = nullptr;
  CUdeviceptr address_ = 0;
};

// One compressed chunk, which stays on the device as it came.
struct Pack {
  Pack(CUmemDecompressAlgorithm algorithm_, unsigned number, unsigned words)
      : algorithm(algorithm_), chunk(chunk_of(number, words)) {
    const Bytes packed = algorithm == CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE  ? deflated(chunk)
                         : algorithm == CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY ? snappy_packed(chunk)
                                                                           : lz4_packed(chunk);
    bytes.emplace_back(packed);
  }
  CUmemDecompressAlgorithm algorithm;
  Words chunk;
  std::vector<Buffer<unsigned char>> bytes;

  CUmemDecompressParams to(CUdeviceptr place, CUdeviceptr written, bool says_size) const {
    CUmemDecompressParams piece{};
    piece.srcNumBytes = bytes[0].bytes();
    piece.dstNumBytes = says_size ? chunk.size() * sizeof(unsigned) : 0;
    piece.dstActBytes = reinterpret_cast<cuuint32_t*>(written);
    piece.src = bytes[0].pointer();
    piece.dst = reinterpret_cast<void*>(place);
    piece.algo = algorithm;
    return piece;
  }
};

class Program {
 public:
  explicit Program(CUstream stream) : stream_(stream) {
    CHECK(cuMemsetD8_v2(mapped_.address(), 0, kChunk * sizeof(unsigned)));
    cells_.upload(host_cells_);
    values_.upload(host_values_);
    for (unsigned number = 0; number < 12; ++number) {
      // The longest last: what is shorter leaves what was behind it.
      packs_.emplace_back(static_cast<CUmemDecompressAlgorithm>(1 << number % 3), number,
                          kChunk / 4 * (number / 3 + 1));
    }
    CHECK(cuCtxSynchronize());
  }

  // Now and then, so that at a cut most of it is of long before.
  void unpack(unsigned number) {
    std::array<CUmemDecompressParams, kPieces> pieces{};
    for (unsigned i = 0; i < kPieces; ++i) {
      const Pack& pack = packs_[(number * 5 + i * 7) % packs_.size()];
      const bool into_mapped = i == 2;
      const unsigned place = (number * 3 + i * 31) % (kPlaces / 2) + i * (kPlaces / 2);
      const CUdeviceptr to =
          into_mapped ? mapped_.address() : cells_.address() + place * kChunk * sizeof(unsigned);
      pieces[i] = pack.to(to, written_.address() + i * sizeof(unsigned), number % 2 == 0);
      Words& host = into_mapped ? host_mapped_ : host_cells_;
      std::copy(pack.chunk.begin(), pack.chunk.end(),
                host.begin() + (into_mapped ? 0 : place * kChunk));
      host_written_[i] = static_cast<unsigned>(pack.chunk.size() * sizeof(unsigned));
    }
    size_t failed = 0;
    CHECK(cuMemBatchDecompressAsync(pieces.data(), kPieces, 0, &failed, stream_));
  }
  // A replay refuses the refused batch again, and names the same piece.
  size_t refused() {
    std::array pieces{packs_[0].to(cells_.address(), written_.address(), true),
                      packs_[1].to(0, written_.address(), true)};
    size_t failed = 77;
    if (cuMemBatchDecompressAsync(pieces.data(), pieces.size(), 0, &failed, stream_) ==
        CUDA_SUCCESS) {
      fail("unpacking", "something went nowhere");
    }
    return failed;
  }
  void mix(CUfunction function, unsigned number) {
    launch(function, {kMixed / 128, 128}, stream_, values_.address(), cells_.address(),
           mapped_.address(), written_.address(), number);
    for (unsigned at = 0; at < kMixed; ++at) {
      host_values_[at] =
          mixed(host_values_[at], host_cells_[source_of(at, number, kCells)],
                host_mapped_[source_of(at, number, kChunk)], host_written_[at % kPieces]);
    }
    CHECK(cuStreamSynchronize(stream_));
  }
  void compare() const {
    must_equal("values", values_.download(), host_values_);
    Words written(kPieces);
    CHECK(cuMemcpyDtoH_v2(written.data(), written_.address(), kPieces * sizeof(unsigned)));
    must_equal("written", written, host_written_);
    must_equal("cells", cells_.download(), host_cells_);
  }
  uint64_t sum() const { return digest(host_values_) ^ digest(host_cells_); }

 private:
  CUstream stream_;
  Words host_cells_ = Words(kCells, 1), host_mapped_ = Words(kChunk, 0),
        host_values_ = Words(kMixed, 1), host_written_ = Words(kPieces, 0);
  Buffer<unsigned> cells_{kCells}, values_{kMixed};
  Pooled written_{stream_};
  Mapped mapped_;
  std::vector<Pack> packs_;
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  int algorithms = 0;
  CHECK(cuDeviceGetAttribute(&algorithms, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, 0));
  if (algorithms != 7) fail("unpacking", "needs a device that decompresses");
  const Module module(kUnpackingPtx);
  const CUfunction mix = module.function("mix");
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  {
    Program program(stream);
    std::printf("refused: %zu\n", program.refused());
    for (int step = 0; step < steps; ++step) {
      if (step % 7 == 0) program.unpack(static_cast<unsigned>(step));
      program.mix(mix, static_cast<unsigned>(step));
      if (step % 10 != 9) continue;
      program.compare();
      std::printf("step %d: %016" PRIx64 "\n", step, program.sum());
    }
    program.compare();
  }
  CHECK(cuStreamDestroy_v2(stream));
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
