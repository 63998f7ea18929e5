// Copies of zones against a driver that notes what it is asked for.
#include "interpose/snapshot/zone_copies.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace gpusnap::zone_copies_test {
namespace {

using Asked = std::vector<std::tuple<uint64_t, uint64_t, uint64_t>>;  // to, from, size

struct FakeCopies {
  Asked single, batched;
  int batches = 0;
  CUresult batch_result = CUDA_SUCCESS;
  CUresult single_result = CUDA_SUCCESS;
} fake;

CUresult copy_within(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream) {
  fake.single.emplace_back(to, from, size);
  return fake.single_result;
}
CUresult copy_back(void* to, CUdeviceptr from, size_t size, CUstream) {
  fake.single.emplace_back(reinterpret_cast<uint64_t>(to), from, size);
  return fake.single_result;
}
CUresult copy_batch(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                    CUmemcpyAttributes* attributes, size_t* first, size_t attribute_count,
                    CUstream) {
  ++fake.batches;
  EXPECT_EQ(attribute_count, 1);
  EXPECT_EQ(first[0], 0);
  EXPECT_EQ(attributes[0].srcAccessOrder, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
  if (fake.batch_result != CUDA_SUCCESS) return fake.batch_result;
  for (size_t i = 0; i < count; ++i) fake.batched.emplace_back(to[i], from[i], sizes[i]);
  return CUDA_SUCCESS;
}

class ZoneCopies : public testing::Test {
 protected:
  ZoneCopies() {
    fake = {};
    driver_.cuMemcpyDtoDAsync_v2 = copy_within;
    driver_.cuMemcpyDtoHAsync_v2 = copy_back;
    driver_.cuMemcpyBatchAsync_v2 = copy_batch;
  }
  CUresult copy(std::vector<ZoneCopy> copies, CopyTo side = CopyTo::kDevice) {
    return copy_zones(driver_, side, std::move(copies), nullptr);
  }
  Driver driver_;
};

TEST_F(ZoneCopies, NeighboursOfARangeAreOneCopy) {
  EXPECT_EQ(copy({{100, 1000, 10, 3}, {110, 1010, 20, 3}}), CUDA_SUCCESS);
  EXPECT_EQ(fake.single, (Asked{{100, 1000, 30}}));
  EXPECT_EQ(fake.batches, 0);
}

TEST_F(ZoneCopies, NeighboursOfTwoRangesStayApart) {
  EXPECT_EQ(copy({{100, 1000, 10, 3}, {110, 1010, 20, 4}}), CUDA_SUCCESS);
  EXPECT_EQ(fake.batched, (Asked{{100, 1000, 10}, {110, 1010, 20}}));
  EXPECT_TRUE(fake.single.empty());
}

TEST_F(ZoneCopies, OnlyBothEndsMakeNeighbours) {
  EXPECT_EQ(copy({{100, 1000, 10, 0}, {111, 1010, 20, 0}, {131, 1031, 1, 0}}), CUDA_SUCCESS);
  EXPECT_EQ(fake.batched, (Asked{{100, 1000, 10}, {111, 1010, 20}, {131, 1031, 1}}));
}

TEST_F(ZoneCopies, OneByOneWhereThereAreNoBatches) {
  driver_.cuMemcpyBatchAsync_v2 = nullptr;
  EXPECT_EQ(copy({{100, 1000, 10, 0}, {200, 2000, 20, 0}}, CopyTo::kHost), CUDA_SUCCESS);
  EXPECT_EQ(fake.single, (Asked{{100, 1000, 10}, {200, 2000, 20}}));
}

TEST_F(ZoneCopies, OneByOneWhereABatchIsRefused) {
  for (const CUresult result : {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE}) {
    fake = {};
    fake.batch_result = result;
    EXPECT_EQ(copy({{100, 1000, 10, 0}, {200, 2000, 20, 0}}), CUDA_SUCCESS);
    EXPECT_EQ(fake.batches, 1);
    EXPECT_EQ(fake.single, (Asked{{100, 1000, 10}, {200, 2000, 20}}));
  }
}

TEST_F(ZoneCopies, WhatFailsIsTold) {
  fake.batch_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(copy({{100, 1000, 10, 0}, {200, 2000, 20, 0}}), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(fake.single.empty());
  fake.single_result = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(copy({{100, 1000, 10, 0}}), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(ZoneCopies, NothingIsNothing) {
  EXPECT_EQ(copy({}), CUDA_SUCCESS);
  EXPECT_TRUE(fake.single.empty());
  EXPECT_EQ(fake.batches, 0);
}

}  // namespace
}  // namespace gpusnap::zone_copies_test
