// Arrays as gfortran describes them.
#include "interpose/mpi/fortran.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace gpusnap::mpi::fortran {
namespace {

Descriptor described(std::initializer_list<Descriptor::Dimension> dimensions) {
  Descriptor array{.item_bytes = 4, .rank = static_cast<int8_t>(dimensions.size()), .span = 4};
  size_t at = 0;
  for (const auto& dimension : dimensions) array.dimensions[at++] = dimension;
  return array;
}

TEST(Descriptor, WholeArraysAreDense) {
  EXPECT_TRUE(described({}).is_dense());
  EXPECT_TRUE(described({{1, 1, 7}}).is_dense());
  EXPECT_TRUE(described({{1, 1, 7}, {7, 0, 4}}).is_dense());
  EXPECT_TRUE(described({{1, 1, 7}, {7, 0, 4}, {35, 1, 2}}).is_dense());
}

TEST(Descriptor, SectionsAreNot) {
  EXPECT_FALSE(described({{2, 1, 7}}).is_dense());
  EXPECT_FALSE(described({{-1, 1, 7}}).is_dense());
  EXPECT_FALSE(described({{1, 1, 6}, {7, 0, 4}}).is_dense());
  EXPECT_FALSE(described({{7, 1, 5}, {1, 1, 7}}).is_dense());
  Descriptor component = described({{1, 1, 7}});
  component.span = 12;
  EXPECT_FALSE(component.is_dense());
}

TEST(Descriptor, OneItemOrNoneHasNoGaps) {
  EXPECT_TRUE(described({{5, 1, 1}}).is_dense());
  EXPECT_TRUE(described({{1, 1, 7}, {9, 3, 3}}).is_dense());
  EXPECT_TRUE(described({{3, 1, 0}}).is_dense());
}

TEST(Descriptor, OfAnAssumedSizeTheLastDimensionIsOpen) {
  EXPECT_TRUE(described({{1, 1, 7}, {7, 1, -1}}).is_dense());
  EXPECT_FALSE(described({{1, 1, -1}, {7, 1, 7}}).is_dense());
}

TEST(Descriptor, WhatIsNoneIsNotDense) {
  Descriptor other = described({{1, 1, 7}});
  other.version = 1;
  EXPECT_FALSE(other.is_dense());
  other = described({{1, 1, 7}});
  other.item_bytes = 0;
  EXPECT_FALSE(other.is_dense());
  other = described({{1, 1, 7}});
  other.rank = 16;
  EXPECT_FALSE(other.is_dense());
}

// Behind its last dimension there is somebody else's memory.
TEST(Descriptor, IsMovedWithItsOwnDimensionsOnly) {
  const size_t size = offsetof(Descriptor, dimensions) + sizeof(Descriptor::Dimension);
  const auto memory = std::make_unique<std::byte[]>(size);
  Descriptor array = described({{1, 3, 7}});
  int before = 0, after = 0;
  array.start = &before;
  std::memcpy(memory.get(), &array, size);
  const Descriptor moved =
      Descriptor::moved(*reinterpret_cast<const Descriptor*>(memory.get()), &after);
  EXPECT_EQ(moved.start, &after);
  EXPECT_EQ(moved.dimensions[0].upper, 7);
  EXPECT_TRUE(moved.is_dense());
}

}  // namespace
}  // namespace gpusnap::mpi::fortran
