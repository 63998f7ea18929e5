// Our kernels on the software GPU, against the library that defines the fingerprint and against
// plain copies. simcuda ends the context at a byte read outside of an allocation, so every test
// also shows that none is.
#include "interpose/device/device_code.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "interpose/device/zones_ptx.h"
#include "tests/unit/simcuda/driver/driver_fixture.h"
#include "tiers/checksum.h"

namespace gpusnap {
namespace {

using Bytes = std::vector<std::byte>;

const Driver& linked_driver() {
  static const Driver driver = [] {
    Driver found;
    found.cuGetErrorName = cuGetErrorName;
    found.cuCtxGetDevice = cuCtxGetDevice;
    found.cuDeviceGetAttribute = cuDeviceGetAttribute;
    found.cuModuleLoadData = cuModuleLoadData;
    found.cuModuleUnload = cuModuleUnload;
    found.cuModuleGetFunction = cuModuleGetFunction;
    found.cuFuncGetAttribute = cuFuncGetAttribute;
    found.cuFuncLoad = cuFuncLoad;
    found.cuLaunchKernel = cuLaunchKernel;
    return found;
  }();
  return driver;
}

class DeviceCodeTest : public simcuda::test::DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    auto loaded = DeviceCode::load(linked_driver());
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    code_ = loaded.value();
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  void TearDown() override {
    if (code_) code_->unload();
    DriverTest::TearDown();
  }

  Bytes random_bytes(uint64_t size) {
    Bytes bytes(size);
    for (std::byte& each : bytes) each = static_cast<std::byte>(random_());
    return bytes;
  }
  // A range whose last byte is the last of its allocation, and whose first one is `shift` bytes
  // after the allocation's.
  CUdeviceptr place(const Bytes& bytes, uint64_t shift = 0) {
    const CUdeviceptr base = allocate(bytes.size() + shift);
    EXPECT_OK(cuMemcpyHtoD_v2(base + shift, bytes.data(), bytes.size()));
    return base + shift;
  }
  std::vector<uint64_t> computed(const std::vector<DeviceCode::Span>& spans, uint64_t zones,
                                 uint64_t zone_bytes) {
    const CUdeviceptr out = upload(std::vector<uint64_t>(zones, kUntouched));
    EXPECT_OK(code_->fingerprints(upload(spans), static_cast<uint32_t>(spans.size()), zones,
                                  zone_bytes, out, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
    return download<uint64_t>(out, zones);
  }
  void expect_fingerprints(const std::vector<Bytes>& memories, const std::vector<uint64_t>& shifts,
                           uint64_t zone_bytes) {
    std::vector<DeviceCode::Span> spans;
    std::vector<uint64_t> expected;
    for (size_t i = 0; i < memories.size(); ++i) {
      const std::span<const std::byte> bytes = memories[i];
      spans.push_back({place(memories[i], shifts[i]), bytes.size(), expected.size()});
      for (uint64_t at = 0; at < bytes.size(); at += zone_bytes) {
        expected.push_back(
            fingerprint(bytes.subspan(at, std::min<uint64_t>(zone_bytes, bytes.size() - at))));
      }
    }
    const auto found = computed(spans, expected.size(), zone_bytes);
    for (const auto& span : spans) {
      for (uint64_t at = 0; at < span.size; at += zone_bytes) {
        const uint64_t zone = span.first + at / zone_bytes;
        ASSERT_EQ(found[zone], expected[zone])
            << "zone " << zone << " at " << at << " of " << span.size << " bytes, address mod 16 "
            << span.address % 16 << ", zones of " << zone_bytes;
      }
    }
  }

  static constexpr uint64_t kUntouched = 0x5555'5555'5555'5555;
  std::mt19937_64 random_{20};
  std::optional<DeviceCode> code_;
  CUstream stream_ = nullptr;
};

TEST(Fingerprint, IsTheLibrarysForLongZones) {
  Bytes bytes(4096, std::byte{7});
  for (size_t size : {241, 256, 4095, 4096}) {
    EXPECT_EQ(fingerprint({bytes.data(), size}), checksum(std::span(bytes.data(), size)));
  }
}

TEST(Fingerprint, PadsShortZones) {
  Bytes padded(256);
  padded[0] = std::byte{9};
  EXPECT_EQ(fingerprint({padded.data(), 1}), checksum(padded));
  EXPECT_EQ(fingerprint({padded.data(), 240}), checksum(padded));
  EXPECT_EQ(fingerprint({}), checksum(Bytes(256)));
}

TEST(ZonesPtx, IsReadByOldDriversAndUsesNoLocalMemory) {
  const std::string text(reinterpret_cast<const char*>(kZonesPtx));
  EXPECT_NE(text.find(".version 6.4"), std::string::npos);
  EXPECT_NE(text.find(".target sm_70"), std::string::npos);
  EXPECT_EQ(text.find(".local"), std::string::npos);
  EXPECT_EQ(text.find("__local_depot"), std::string::npos);
  EXPECT_EQ(text.find("call"), std::string::npos);
}

TEST_F(DeviceCodeTest, EverySizeOfASmallRange) {
  for (uint64_t shift : {0, 1, 8}) {
    std::vector<Bytes> memories;
    for (uint64_t size = 1; size < 1300; size += 1 + size / 300) {
      memories.push_back(random_bytes(size));
    }
    expect_fingerprints(memories, std::vector<uint64_t>(memories.size(), shift), 4096);
  }
}

TEST_F(DeviceCodeTest, EveryZoneSize) {
  for (uint64_t zone = 4096; zone <= 2 << 20; zone *= 2) {
    std::vector<Bytes> memories;
    std::vector<uint64_t> shifts;
    for (uint64_t size : {zone, zone + 1, zone * 2 - 17}) {
      // The largest ones take the interpreter long; whole ranges of many zones come with the small.
      if (zone > 256 << 10 && !memories.empty()) size = zone + 1 + random_() % 2000;
      memories.push_back(random_bytes(size));
      shifts.push_back(0);
    }
    expect_fingerprints(memories, shifts, zone);
  }
}

TEST_F(DeviceCodeTest, RandomRanges) {
  for (int round = 0; round < 20; ++round) {
    std::vector<Bytes> memories;
    std::vector<uint64_t> shifts;
    for (uint64_t ranges = 1 + random_() % 12; ranges > 0; --ranges) {
      memories.push_back(random_bytes(1 + random_() % (random_() % 3 == 0 ? 40000 : 300)));
      shifts.push_back(random_() % 3 == 0 ? random_() % 16 : 0);
    }
    expect_fingerprints(memories, shifts, 4096ULL << random_() % 3);
  }
}

TEST_F(DeviceCodeTest, AnyFlippedBitShows) {
  for (uint64_t size : {1, 5, 100, 241, 1025, 4096}) {
    const Bytes bytes = random_bytes(size);
    const CUdeviceptr address = place(bytes);
    const std::vector<DeviceCode::Span> spans = {{address, size, 0}};
    const uint64_t before = computed(spans, 1, 4096)[0];
    EXPECT_EQ(before, fingerprint(bytes));
    for (int i = 0; i < 24; ++i) {
      const uint64_t bit = i == 0 ? 0 : i == 1 ? size * 8 - 1 : random_() % (size * 8);
      const std::byte flipped = bytes[bit / 8] ^ std::byte{1} << bit % 8;
      ASSERT_OK(cuMemsetD8_v2(address + bit / 8, std::to_integer<uint8_t>(flipped), 1));
      EXPECT_NE(computed(spans, 1, 4096)[0], before) << "bit " << bit << " of " << size << " bytes";
      ASSERT_OK(cuMemsetD8_v2(address + bit / 8, std::to_integer<uint8_t>(bytes[bit / 8]), 1));
    }
  }
}

TEST_F(DeviceCodeTest, NumbersOfNoSpanAreLeftAlone) {
  const Bytes bytes = random_bytes(9000);
  const CUdeviceptr address = place(bytes);
  // A gap before, between and after; an empty span stands for nothing.
  const std::vector<DeviceCode::Span> spans = {
      {address, 5000, 3}, {address, 0, 7}, {address, 9000, 10}};
  const auto found = computed(spans, 40, 4096);
  const std::span<const std::byte> all = bytes;
  for (size_t i = 0; i < found.size(); ++i) {
    const uint64_t expected = i == 3    ? fingerprint(all.subspan(0, 4096))
                              : i == 4  ? fingerprint(all.subspan(4096, 904))
                              : i == 10 ? fingerprint(all.subspan(0, 4096))
                              : i == 11 ? fingerprint(all.subspan(4096, 4096))
                              : i == 12 ? fingerprint(all.subspan(8192, 808))
                                        : kUntouched;
    EXPECT_EQ(found[i], expected) << i;
  }
}

// More zones than one step of the largest grid takes.
TEST_F(DeviceCodeTest, ManyZones) {
  int units = 0;
  ASSERT_OK(cuDeviceGetAttribute(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  const Bytes bytes = random_bytes(64);
  const CUdeviceptr address = place(bytes);
  const uint64_t zones = static_cast<uint64_t>(units) * 16 * 32 + 33;
  std::vector<DeviceCode::Span> spans;
  for (uint64_t i = 0; i < zones; ++i) spans.push_back({address, 1 + i % 64, i});
  const auto found = computed(spans, zones, 4096);
  for (uint64_t i = 0; i < zones; ++i) {
    ASSERT_EQ(found[i], fingerprint(std::span(bytes).first(1 + i % 64))) << i;
  }
}

TEST_F(DeviceCodeTest, NothingToDo) {
  EXPECT_OK(code_->fingerprints(0, 0, 0, 4096, 0, stream_));
  EXPECT_OK(code_->gather(0, 0, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
}

TEST_F(DeviceCodeTest, GathersPiecesOfEveryShape) {
  const Bytes from = random_bytes(200000);
  const CUdeviceptr source = place(from);
  Bytes expected = random_bytes(300000);
  const CUdeviceptr target = place(expected);
  std::vector<DeviceCode::Piece> pieces;
  for (uint64_t to = 0; to < 260000;) {
    const uint64_t size = random_() % (random_() % 8 == 0 ? 20000 : 70);
    const uint64_t at = random_() % (from.size() - size);
    to += random_() % 40;
    const uint64_t aligned = random_() % 3 == 0 ? at - at % 16 + to % 16 : at;
    const uint64_t start = aligned + size <= from.size() ? aligned : at;
    pieces.push_back({source + start, target + to, size});
    std::memcpy(expected.data() + to, from.data() + start, size);
    to += size;
  }
  // The first and last bytes of the allocations.
  pieces.push_back({source, target + 300000 - 33, 33});
  std::memcpy(expected.data() + 300000 - 33, from.data(), 33);
  pieces.push_back({source + from.size() - 37, target + 290000, 37});
  std::memcpy(expected.data() + 290000, from.data() + from.size() - 37, 37);
  ASSERT_OK(code_->gather(upload(pieces), static_cast<uint32_t>(pieces.size()), stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_TRUE(download<std::byte>(target, expected.size()) == expected);
}

TEST_F(DeviceCodeTest, GathersMorePiecesThanBlocks) {
  constexpr uint32_t kCount = 30000;
  std::vector<uint32_t> values(kCount);
  for (uint32_t& value : values) value = static_cast<uint32_t>(random_());
  const CUdeviceptr source = upload(values), target = allocate(kCount * 4);
  std::vector<DeviceCode::Piece> pieces;
  for (uint64_t i = 0; i < kCount; ++i) {
    pieces.push_back({source + i * 4, target + (kCount - 1 - i) * 4, 4});
  }
  ASSERT_OK(code_->gather(upload(pieces), kCount, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_TRUE(download<uint32_t>(target, kCount) ==
              std::vector<uint32_t>(values.rbegin(), values.rend()));
}

TEST_F(DeviceCodeTest, SaysWhatTheDriverSaidWhereItCannotBeLoaded) {
  Driver driver = linked_driver();
  driver.cuModuleLoadData = [](CUmodule*, const void*) { return CUDA_ERROR_INVALID_PTX; };
  const auto loaded = DeviceCode::load(driver);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.status().message().find("CUDA_ERROR_INVALID_PTX"), std::string::npos);
}

}  // namespace
}  // namespace gpusnap
