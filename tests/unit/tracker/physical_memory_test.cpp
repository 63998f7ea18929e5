#include "tracker/physical_memory.h"

#include <gtest/gtest.h>

namespace gpusnap {
namespace {

TEST(PhysicalMemory, LivesWhileItIsHeldOrMapped) {
  PhysicalMemories memories;
  PhysicalMemory& memory = memories.add(77, 0x1000, 64);
  EXPECT_EQ(memory.number, 1U);
  EXPECT_FALSE(memory.ended());
  ++memory.mappings;
  --memory.references;
  EXPECT_FALSE(memory.ended());
  memories.retained(memory, 77);
  --memory.mappings;
  EXPECT_FALSE(memory.ended());
  --memory.references;
  EXPECT_TRUE(memory.ended());
}

TEST(PhysicalMemory, IsKnownByEachHandle) {
  PhysicalMemories memories;
  PhysicalMemory& memory = memories.add(77, 0x1000, 64);
  memories.retained(memory, 78);
  EXPECT_EQ(memories.find(77), &memory);
  EXPECT_EQ(memories.find(78), &memory);
  EXPECT_EQ(memories.find(79), nullptr);
  EXPECT_EQ(memory.references, 2U);
  memories.erase(1);
  EXPECT_EQ(memories.find(77), nullptr);
  EXPECT_EQ(memories.find(78), nullptr);
}

TEST(PhysicalMemory, NumbersAreNeverUsedAgainHandlesAre) {
  PhysicalMemories memories;
  memories.add(77, 0x1000, 64).references = 0;
  // The first one is still mapped somewhere.
  EXPECT_EQ(memories.add(77, 0x2000, 64).number, 2U);
  EXPECT_EQ(memories.find(77)->number, 2U);
  EXPECT_EQ(memories.numbered(1)->address, 0x1000U);
  memories.erase(1);
  EXPECT_EQ(memories.find(77)->number, 2U);
  memories.erase(2);
  EXPECT_EQ(memories.add(78, 0x1000, 64).number, 3U);
}

}  // namespace
}  // namespace gpusnap
