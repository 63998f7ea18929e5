// SPDX-License-Identifier: Apache-2.0
#include "interpose/model/modules.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gpusnap {
namespace {

// The name of the variable that the fake driver does not find.
std::string absent;

class ModulesTest : public testing::Test {
 protected:
  ModulesTest() {
    absent.clear();
    driver_.cuCtxGetCurrent = [](CUcontext* context) {
      *context = nullptr;
      return CUDA_SUCCESS;
    };
    driver_.cuCtxPushCurrent_v2 = [](CUcontext) { return CUDA_SUCCESS; };
    driver_.cuCtxPopCurrent_v2 = [](CUcontext*) { return CUDA_SUCCESS; };
    driver_.cuGetErrorName = [](CUresult, const char** name) {
      *name = "CUDA_ERROR_NOT_FOUND";
      return CUDA_SUCCESS;
    };
    driver_.cuDeviceGetAttribute = [](int*, CUdevice_attribute, CUdevice) {
      return CUDA_ERROR_INVALID_DEVICE;
    };
    driver_.cuModuleGetGlobal_v2 = [](CUdeviceptr* address, size_t* bytes, CUmodule,
                                      const char* name) {
      if (name == absent) return CUDA_ERROR_NOT_FOUND;
      *address = 0x1000 * (1 + std::hash<std::string>{}(name) % 1000);
      *bytes = 4;
      return CUDA_SUCCESS;
    };
  }

  static ImageEntry ptx(uint32_t arch, const std::vector<std::string>& variables) {
    ImageEntry entry;
    entry.kind = ImageEntry::Kind::kPtx;
    entry.arch = arch;
    entry.bytes = ".version 8.0\n.target sm_" + std::to_string(arch) + "\n.address_size 64\n";
    for (const std::string& name : variables) entry.bytes += ".global .u32 " + name + ";\n";
    return entry;
  }
  // The obstacle to a checkpoint; "" for none.
  std::string find_globals(std::vector<ImageEntry> entries) {
    ImageContents image;
    image.entries = std::move(entries);
    const auto module = reinterpret_cast<CUmodule>(1);
    modules_.add_module(module, nullptr, image);
    modules_.add_function(reinterpret_cast<const void*>(2), modules_.number_of(module), "k");
    return modules_.find_globals({{nullptr, 0}}, memory_).message();
  }

  Driver driver_;
  MemoryMap memory_;
  Modules modules_{driver_};
};

TEST_F(ModulesTest, EachVariableIsMemory) {
  EXPECT_EQ(find_globals({ptx(80, {"a", "b"})}), "");
  EXPECT_EQ(memory_.ranges().size(), 2U);
}

TEST_F(ModulesTest, AVariableThatIsNotFoundStandsInTheWay) {
  absent = "b";
  EXPECT_EQ(find_globals({ptx(80, {"a", "b"}), ptx(90, {"b"})}),
            "the variable b of module 0 has no address (CUDA_ERROR_NOT_FOUND)");
}

TEST_F(ModulesTest, ATranslationForAnotherDeviceMayHaveMore) {
  absent = "b";
  EXPECT_EQ(find_globals({ptx(80, {"a", "b"}), ptx(90, {"a"})}), "");
  EXPECT_EQ(memory_.ranges().size(), 1U);
}

TEST_F(ModulesTest, ATextOfTheCompilersNeedsNoAddress) {
  absent = "$str";
  EXPECT_EQ(find_globals({ptx(80, {"a", "$str"})}), "");
  EXPECT_EQ(memory_.ranges().size(), 1U);
}

}  // namespace
}  // namespace gpusnap
