// Kernels by their handles, against a driver that knows nothing but its devices.
#include "interpose/model/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpusnap::kernels_test {
namespace {

int device_count = 1;
int majors[2] = {9, 9};

CUresult attribute(int* value, CUdevice_attribute which, CUdevice device) {
  if (device >= device_count) return CUDA_ERROR_INVALID_DEVICE;
  *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? majors[device] : 0;
  return CUDA_SUCCESS;
}

ImageContents image() {
  ImageContents contents;
  ImageEntry ptx;
  ptx.bytes =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .u32 counter;\n"
      ".visible .entry fill(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p];\n"
      "st.global.u32 [%a], 0; st.global.u32 [counter], 1; ret; }\n"
      ".visible .entry chase(.param .u64 p) { .reg .b64 %a, %b; ld.param.u64 %a, [p];\n"
      "ld.global.u64 %b, [%a]; st.global.u32 [%b], 0; ret; }\n"
      ".visible .entry chase_too(.param .u64 p) { .reg .b64 %a, %b; ld.param.u64 %a, [p];\n"
      "ld.global.u64 %b, [%a]; st.global.u32 [%b], 1; ret; }\n";
  contents.entries.push_back(ptx);
  return contents;
}

class KernelsTest : public testing::Test {
 protected:
  KernelsTest() {
    device_count = 1;
    majors[1] = 9;
    driver_.cuDeviceGetAttribute = attribute;
    EXPECT_TRUE(memory_.insert({0x10000000, 0x1000, MemoryKind::kDevice, {}, 0, 0, ""}));
    kernels_.add_code(5, image());
  }
  WriteSet launch(const void* handle) {
    void* params[] = {&pointer_};
    WriteSet set;
    kernels_.add_writes(handle, params, nullptr, memory_, set);
    return set;
  }
  static const void* handle(uintptr_t number) { return reinterpret_cast<const void*>(number); }

  Driver driver_;
  MemoryMap memory_;
  uint64_t pointer_ = 0x10000010;
  Kernels kernels_{driver_};
};

TEST_F(KernelsTest, SaysWhatIsWrittenAndByWhom) {
  kernels_.add(handle(1), 5, "fill");
  kernels_.place_global(5, "counter", 0x20000000, 4);
  const WriteSet set = launch(handle(1));
  EXPECT_TRUE(set.proven());
  EXPECT_FALSE(set.everything());
  ASSERT_EQ(set.end() - set.begin(), 2);
  EXPECT_EQ(set.begin()[0].address, 0x10000000u);
  EXPECT_EQ(set.begin()[0].size, WriteSet::kWholeRange);
  EXPECT_EQ(set.begin()[1].address, 0x20000000u);
  EXPECT_EQ(set.begin()[1].size, 4u);
  EXPECT_TRUE(set.launch());
}

// Library headers bring such variables by the dozen.
TEST_F(KernelsTest, ManySmallVariablesAreNotEverything) {
  std::string text = ".version 7.0\n.target sm_70\n.address_size 64\n", stores;
  for (int i = 0; i < 45; ++i) {
    text += ".global .b8 one" + std::to_string(i) + ";\n";
    stores += "st.global.u8 [one" + std::to_string(i) + "], 1;\n";
  }
  ImageContents contents;
  ImageEntry ptx;
  ptx.bytes = text + ".visible .entry all(.param .u64 p) {\n" + stores + "ret; }\n";
  contents.entries.push_back(ptx);
  kernels_.add_code(6, contents);
  kernels_.add(handle(1), 6, "all");
  for (uint64_t i = 0; i < 45; ++i) {
    kernels_.place_global(6, "one" + std::to_string(i), 0x20000000 + 512 * i, 1);
  }
  const WriteSet set = launch(handle(1));
  EXPECT_TRUE(set.proven());
  EXPECT_FALSE(set.everything());
  EXPECT_FALSE(set.unknown());
  for (uint64_t i = 0; i < 45; ++i) {
    const auto holds = [i](const WriteSet::Range& range) {
      return 0x20000000 + 512 * i - range.address < range.size;
    };
    EXPECT_TRUE(std::any_of(set.begin(), set.end(), holds)) << i;
  }
}

TEST_F(KernelsTest, AKernelHasOneNumber) {
  kernels_.add(handle(1), 5, "fill");
  kernels_.add(handle(2), 5, "chase");
  kernels_.add(handle(3), 5, "fill");
  kernels_.add(handle(5), 5, "chase_too");
  kernels_.add(handle(6), 5, "chase");
  kernels_.alias(handle(4), handle(2));
  EXPECT_TRUE(launch(handle(1)).proven());
  for (uintptr_t same : {2, 4, 6}) {
    const WriteSet set = launch(handle(same));
    ASSERT_EQ(set.guesses().size(), 1u);
    EXPECT_EQ(kernels_.name(set.guesses()[0]), "chase");
  }
  ASSERT_EQ(launch(handle(5)).guesses().size(), 1u);
  EXPECT_NE(launch(handle(5)).guesses()[0], launch(handle(2)).guesses()[0]);
}

TEST_F(KernelsTest, WhatIsNotKnownWritesEverything) {
  EXPECT_TRUE(launch(handle(9)).everything());
  EXPECT_TRUE(launch(handle(9)).launch());
  kernels_.add(handle(1), 6, "fill");
  EXPECT_TRUE(launch(handle(1)).everything());
  ASSERT_EQ(launch(handle(1)).guesses().size(), 1u);
  EXPECT_EQ(kernels_.name(launch(handle(1)).guesses()[0]), "fill");
}

TEST_F(KernelsTest, VariablesWithoutAnAddressAreInNoSnapshot) {
  kernels_.add(handle(1), 5, "fill");
  const WriteSet before = launch(handle(1));
  EXPECT_EQ(before.end() - before.begin(), 1);
  kernels_.place_global(5, "counter", 0x20000000, 4);
  kernels_.forget_globals(5);
  const WriteSet after = launch(handle(1));
  EXPECT_EQ(after.end() - after.begin(), 1);
}

TEST_F(KernelsTest, MachineCodeForAnyOfTheDevicesCounts) {
  ImageContents both = image();
  ImageEntry machine_code;
  machine_code.kind = ImageEntry::Kind::kElf;
  machine_code.arch = 80;
  both.entries.push_back(machine_code);
  kernels_.add_code(7, both);
  kernels_.add(handle(1), 7, "fill");
  EXPECT_TRUE(launch(handle(1)).proven());
  device_count = 2;
  majors[1] = 8;
  kernels_.add_code(8, both);
  kernels_.add(handle(2), 8, "fill");
  EXPECT_FALSE(launch(handle(2)).proven());
}

}  // namespace
}  // namespace gpusnap::kernels_test
