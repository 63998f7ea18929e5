// Our own mappings against a driver of our own, which gives addresses side by side.
#include "interpose/model/shadow_mappings.h"

#include <gtest/gtest.h>

#include <map>

namespace gpusnap::own_mappings_test {
namespace {

constexpr uint64_t kPiece = 2 << 20;
constexpr uint64_t kChunk = uint64_t{32} << 30;
constexpr uint64_t kBase = 0x7000'0000'0000;

struct FakeSpace {
  std::map<uint64_t, uint64_t> reserved;  // address -> size
  std::map<uint64_t, int> mapped;         // address -> device that may use it
  uint64_t next = kBase;
  bool full = false;
  bool accessible = true;
} space;

CUresult reserve(CUdeviceptr* out, size_t size, size_t, CUdeviceptr hint, unsigned long long) {
  if (space.full) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = hint != 0 && !space.reserved.contains(hint) ? hint : space.next;
  if (*out == space.next) space.next += size;
  space.reserved[*out] = size;
  return CUDA_SUCCESS;
}
CUresult unreserve(CUdeviceptr address, size_t size) {
  EXPECT_EQ(space.reserved[address], size);
  space.reserved.erase(address);
  return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr address, size_t, size_t, CUmemGenericAllocationHandle,
             unsigned long long) {
  space.mapped[address] = -1;
  return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr address, size_t) {
  EXPECT_EQ(space.mapped.erase(address), 1U);
  return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr address, size_t, const CUmemAccessDesc* access, size_t count) {
  EXPECT_EQ(count, 1U);
  if (!space.accessible) return CUDA_ERROR_INVALID_DEVICE;
  EXPECT_EQ(access->flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  space.mapped[address] = access->location.id;
  return CUDA_SUCCESS;
}
CUresult get_error_name(CUresult, const char** name) {
  *name = "CUDA_ERROR";
  return CUDA_SUCCESS;
}

class ShadowMappingsTest : public ::testing::Test {
 protected:
  ShadowMappingsTest() {
    space = {};
    driver_.cuMemAddressReserve = reserve;
    driver_.cuMemAddressFree = unreserve;
    driver_.cuMemMap = map;
    driver_.cuMemUnmap = unmap;
    driver_.cuMemSetAccess = set_access;
    driver_.cuGetErrorName = get_error_name;
  }
  Result<ShadowMappings::Place> find(uint64_t bytes,
                                     const ShadowMappings::Place* wanted = nullptr) {
    return own_.find_place(bytes, wanted, [](auto&& call) { return call(); });
  }

  Driver driver_;
  ShadowMappings own_{driver_};
};

TEST_F(ShadowMappingsTest, LieSideBySideInOneReservation) {
  EXPECT_EQ(find(kPiece)->address, kBase);
  EXPECT_EQ(find(2 * kPiece)->address, kBase + kPiece);
  EXPECT_EQ(space.reserved.size(), 1U);
  own_.give_back(kBase, kPiece);
  EXPECT_EQ(find(kPiece)->address, kBase);
}

TEST_F(ShadowMappingsTest, WhatIsLargerThanAChunkGetsItsOwn) {
  EXPECT_EQ(find(kPiece)->chunk_bytes, kChunk);
  const auto large = find(2 * kChunk);
  EXPECT_EQ(large->address, kBase + kChunk);
  EXPECT_EQ(large->chunk_bytes, 2 * kChunk);
}

TEST_F(ShadowMappingsTest, AReplayHasTheRecordedAddresses) {
  const uint64_t chunk = kBase + 0x10'0000'0000, bytes = uint64_t{1} << 33;
  const ShadowMappings::Place third{chunk + 2 * kPiece, chunk, bytes}, first{chunk, chunk, bytes};
  EXPECT_EQ(find(kPiece, &third)->address, third.address);
  EXPECT_EQ(find(kPiece, &first)->address, first.address);
  // A place that is taken already is given elsewhere.
  EXPECT_EQ(find(kPiece, &first)->address, chunk + kPiece);
  EXPECT_EQ(space.reserved, (std::map<uint64_t, uint64_t>{{chunk, bytes}}));
}

TEST_F(ShadowMappingsTest, WhereAChunkCannotBeHadAnotherIsAsGood) {
  space.reserved[kBase + kChunk * 8] = kPiece;
  const ShadowMappings::Place recorded{kBase + kChunk * 8, kBase + kChunk * 8, kChunk};
  const auto place = find(kPiece, &recorded);
  EXPECT_NE(place->address, recorded.address);
  EXPECT_EQ(space.reserved.size(), 2U);
}

TEST_F(ShadowMappingsTest, NoAddressesIsSaid) {
  space.full = true;
  const auto place = find(kPiece);
  EXPECT_FALSE(place.ok());
  EXPECT_EQ(place.status().code(), Code::kUnsupported);
}

TEST_F(ShadowMappingsTest, AreForTheMemorysOwnDevice) {
  EXPECT_EQ(own_.map(kBase, kPiece, 1, 3), CUDA_SUCCESS);
  EXPECT_EQ(space.mapped, (std::map<uint64_t, int>{{kBase, 3}}));
  own_.unmap(kBase, kPiece);
  space.accessible = false;
  EXPECT_EQ(own_.map(kBase, kPiece, 1, 3), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_TRUE(space.mapped.empty());
}

TEST_F(ShadowMappingsTest, AllAddressesAreGivenBackInTheEnd) {
  ASSERT_TRUE(find(kPiece).ok());
  ASSERT_TRUE(find(2 * kChunk).ok());
  const auto chunks = own_.take_chunks();
  EXPECT_EQ(chunks.size(), 2U);
  // A late caller finds nothing to give back to.
  own_.give_back(kBase, kPiece);
  EXPECT_TRUE(own_.take_chunks().empty());
}

}  // namespace
}  // namespace gpusnap::own_mappings_test
