// The driver's messages about mistakes, its attributes of core dumps, and decompression.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

using Diagnostics = DriverTest;

constexpr char kNonsense[] = ".version nonsense";

void go_wrong() {
  CUmodule module = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, kNonsense));
}

struct Heard {
  std::vector<std::string> lines;
  CUlogsCallbackHandle handle = nullptr;
  Heard() { EXPECT_OK(cuLogsRegisterCallback(hear, this, &handle)); }
  ~Heard() { EXPECT_OK(cuLogsUnregisterCallback(handle)); }
  static void hear(void* self, CUlogLevel level, char* message, size_t length) {
    EXPECT_EQ(level, CU_LOG_LEVEL_ERROR);
    // No call of the driver is allowed here.
    EXPECT_CU(CUDA_ERROR_NOT_PERMITTED, cuCtxSynchronize());
    static_cast<Heard*>(self)->lines.emplace_back(message, length);
  }
};

TEST_F(Diagnostics, WhoAsksIsToldUntilHeAsksNoMore) {
  Heard first;
  {
    Heard second;
    go_wrong();
    EXPECT_EQ(second.lines, first.lines);
  }
  ASSERT_EQ(first.lines.size(), 1U);
  EXPECT_TRUE(first.lines[0].starts_with("simcuda: ")) << first.lines[0];
  go_wrong();
  EXPECT_EQ(first.lines.size(), 2U);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuLogsUnregisterCallback(nullptr));
}

TEST_F(Diagnostics, ALogGoesOnWhereItWasLeft) {
  Heard heard;
  CUlogIterator at = 0;
  ASSERT_OK(cuLogsCurrent(&at, 0));
  std::array<char, 4096> text{};
  size_t size = text.size();
  ASSERT_OK(cuLogsDumpToMemory(&at, text.data(), &size, 0));
  EXPECT_EQ(size, 0U);
  go_wrong();
  go_wrong();
  size = text.size();
  ASSERT_OK(cuLogsDumpToMemory(&at, text.data(), &size, 0));
  EXPECT_EQ(std::string(text.data()), heard.lines[0] + "\n" + heard.lines[1] + "\n");
  EXPECT_EQ(size, std::strlen(text.data()));
  size = text.size();
  ASSERT_OK(cuLogsDumpToMemory(&at, text.data(), &size, 0));
  EXPECT_EQ(size, 0U);
}

TEST_F(Diagnostics, OfALogThatDoesNotFitTheNewestIsGiven) {
  Heard heard;
  CUlogIterator at = 0;
  ASSERT_OK(cuLogsCurrent(&at, 0));
  for (int i = 0; i < 3; ++i) go_wrong();
  const size_t line = heard.lines[0].size() + 1;
  std::string text(2 * line + 1, '\0');
  size_t size = text.size();
  CUlogIterator again = at;
  ASSERT_OK(cuLogsDumpToMemory(&again, text.data(), &size, 0));
  text.resize(size);
  EXPECT_TRUE(text.starts_with("simcuda: older lines are left out\n"));
  EXPECT_TRUE(text.ends_with(heard.lines[2] + "\n"));
  std::array<char, 8> little{};
  size = little.size();
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(&at, little.data(), &size, 0));
  EXPECT_EQ(size, 0U);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(&at, nullptr, &size, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToFile(nullptr, nullptr, 0));
}

TEST_F(Diagnostics, WhatIsAskedOfCoreDumpsIsKept) {
  std::string file = "dumps/core";
  size_t size = file.size() + 1;
  EXPECT_OK(cuCoredumpSetAttribute(CU_COREDUMP_FILE, file.data(), &size));
  std::array<char, 1024> found{};
  size = found.size();
  EXPECT_OK(cuCoredumpGetAttribute(CU_COREDUMP_FILE, found.data(), &size));
  EXPECT_EQ(std::string(found.data()), file);
  EXPECT_EQ(size, file.size() + 1);
  // The attribute of all contexts is another one.
  size = found.size();
  EXPECT_OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, found.data(), &size));
  EXPECT_TRUE(std::string(found.data()).starts_with("core.cuda."));
  bool wanted = true, told = false;
  size = sizeof wanted;
  EXPECT_OK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &wanted, &size));
  EXPECT_OK(cuCoredumpGetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, &told, &size));
  EXPECT_TRUE(told);
  size = 0;
  EXPECT_OK(cuCoredumpGetAttribute(CU_COREDUMP_GENERATION_FLAGS, nullptr, &size));
  EXPECT_EQ(size, sizeof(unsigned));
  EXPECT_CU(CUDA_ERROR_NOT_PERMITTED,
            cuCoredumpSetAttribute(CU_COREDUMP_ENABLE_USER_TRIGGER, &wanted, &size));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuCoredumpSetAttribute(static_cast<CUcoredumpSettings>(8), &wanted, &size));
}

// Decompressed from `bytes` into 64 bytes of 0xff: what was written, or nothing where the device
// found them to be damaged, and the context is lost.
class Decompress : public DriverTest {
 protected:
  CUresult run(CUmemDecompressAlgorithm algorithm, const std::vector<uint8_t>& bytes,
               std::string* text, size_t room = 64) {
    const CUdeviceptr to = upload(std::vector<uint8_t>(64, 0xff)), written = allocate(4);
    CUmemDecompressParams piece{};
    piece.srcNumBytes = bytes.size();
    piece.dstNumBytes = room;
    piece.dstActBytes = reinterpret_cast<cuuint32_t*>(written);
    piece.src = reinterpret_cast<const void*>(upload(bytes));
    piece.dst = reinterpret_cast<void*>(to);
    piece.algo = algorithm;
    size_t failed = 0;
    const CUresult queued = cuMemBatchDecompressAsync(&piece, 1, 0, &failed, nullptr);
    if (queued != CUDA_SUCCESS) return queued;
    const CUresult result = cuCtxSynchronize();
    if (result != CUDA_SUCCESS) return result;
    const auto all = download<char>(to, 64);
    text->assign(all.data(), word(written));
    if (text->size() < all.size()) {
      EXPECT_EQ(all[text->size()], static_cast<char>(0xff));
    }
    return CUDA_SUCCESS;
  }
};

constexpr auto kDeflate = CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE;
constexpr auto kLz4 = CU_MEM_DECOMPRESS_ALGORITHM_LZ4;
constexpr auto kSnappy = CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY;

TEST_F(Decompress, EachFormat) {
  std::string text;
  // One stored block.
  EXPECT_OK(run(kDeflate, {1, 3, 0, 0xfc, 0xff, 'a', 'b', 'c'}, &text));
  EXPECT_EQ(text, "abc");
  // "ab", a match of 5 from 2 back, then literals.
  EXPECT_OK(run(kLz4, {0x21, 'a', 'b', 2, 0, 0x50, 'v', 'w', 'x', 'y', 'z'}, &text));
  EXPECT_EQ(text, "abababavwxyz");
  // 15 + 2 literals.
  EXPECT_OK(run(kLz4,
                {0xf0, 2, '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e',
                 'f', 'g'},
                &text));
  EXPECT_EQ(text, "0123456789abcdefg");
  // "abc", copies by offsets of 11, 16 and 32 bits.
  EXPECT_OK(run(kSnappy,
                {18, 2 << 2, 'a', 'b', 'c', (5 - 4) << 2 | 1, 3, (6 - 1) << 2 | 2, 1, 0,
                 (4 - 1) << 2 | 3, 12, 0, 0, 0},
                &text));
  EXPECT_EQ(text, "abcabcabbbbbbbcabc");
  // A literal that has its length in a byte of its own.
  EXPECT_OK(run(kSnappy, {2, 60 << 2, 1, 'x', 'y'}, &text));
  EXPECT_EQ(text, "xy");
}

TEST_F(Decompress, RefusesWhatItCannotDo) {
  std::string text;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, run(CU_MEM_DECOMPRESS_UNSUPPORTED, {1}, &text));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, run(static_cast<CUmemDecompressAlgorithm>(3), {1}, &text));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, run(kLz4, {0}, &text, 65));
  // Memory of the host is none that it knows.
  void* pinned = nullptr;
  ASSERT_OK(cuMemAllocHost_v2(&pinned, 64));
  CUmemDecompressParams piece{};
  piece.srcNumBytes = 1;
  piece.src = piece.dst = pinned;
  piece.dstActBytes = static_cast<cuuint32_t*>(pinned);
  piece.algo = kLz4;
  size_t failed = 7;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemBatchDecompressAsync(&piece, 1, 0, &failed, nullptr));
  EXPECT_EQ(failed, 0U);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemBatchDecompressAsync(&piece, 1, 1, &failed, nullptr));
  EXPECT_EQ(failed, SIZE_MAX);
}

TEST_F(Decompress, DamagedDataLosesTheContext) {
  const std::vector<std::pair<CUmemDecompressAlgorithm, std::vector<uint8_t>>> damaged = {
      {kDeflate, {7, 1, 2, 3}},
      {kLz4, {0x21, 'a', 'b', 3, 0, 0}},       // before the beginning
      {kLz4, {0x21, 'a', 'b', 0, 0, 0}},       // nowhere back
      {kLz4, {0x50, 'a', 'b'}},                // too few literals
      {kLz4, {0x1f, 'a', 1, 0, 255, 255, 0}},  // too much for its place
      {kLz4, {0x1f, 'a', 1, 0, 255}},          // no end
      {kSnappy, {3, 2 << 2, 'a', 'b'}},        // too few literals
      {kSnappy, {9, 2 << 2, 'a', 'b', 'c'}},   // less than it says
      {kSnappy, {5, 0, 'a', 1, 2}},            // before the beginning
      {kSnappy, {255, 255, 255, 255, 255, 255, 255}},
  };
  for (const auto& [algorithm, bytes] : damaged) {
    Heard heard;
    std::string text;
    CUcontext lost = nullptr;
    ASSERT_OK(cuCtxCreate_v2(&lost, 0, 0));
    EXPECT_CU(CUDA_ERROR_LAUNCH_FAILED, run(algorithm, bytes, &text));
    EXPECT_OK(cuCtxDestroy_v2(lost));
    ASSERT_EQ(heard.lines.size(), 1U);
    EXPECT_NE(heard.lines[0].find("the data is damaged"), std::string::npos);
  }
}

TEST_F(Decompress, OnlyMemoryThatIsMadeForIt) {
  const auto is_capable = [](CUdeviceptr address) {
    int capable = -1;
    EXPECT_OK(
        cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, address));
    return capable;
  };
  EXPECT_EQ(is_capable(allocate(64)), 1);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  for (const int usage : {0, CU_MEM_CREATE_USAGE_HW_DECOMPRESS}) {
    constexpr size_t kSize = 2 << 20;
    properties.allocFlags.usage = static_cast<unsigned short>(usage);
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    ASSERT_OK(cuMemCreate(&handle, kSize, &properties, 0));
    ASSERT_OK(cuMemAddressReserve(&address, kSize, 0, 0, 0));
    ASSERT_OK(cuMemMap(address, kSize, 0, handle, 0));
    EXPECT_EQ(is_capable(address), usage != 0);
  }
}

}  // namespace
}  // namespace simcuda::test
