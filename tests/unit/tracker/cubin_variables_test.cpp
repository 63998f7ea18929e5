// SPDX-License-Identifier: Apache-2.0
//
// Which variables a kernel of machine code reaches, by the file's relocations.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "cubin_builder.h"
#include "tracker/cubin.h"

namespace gpusnap {
namespace {

using Names = std::vector<std::string>;

class CubinVariablesTest : public testing::Test {
 protected:
  CubinVariablesTest() {
    data_ = cubin_.section(".nv.global", SHT_NOBITS, 64);
    constants_ = cubin_.section(".nv.constant3", SHT_NOBITS, 8);
    k_ = cubin_.section(".text.k", SHT_NOBITS, 16);
    f_ = cubin_.section(".text.f", SHT_NOBITS, 16);
  }
  uint32_t variable(const std::string& name, uint64_t at, uint64_t size = 4) {
    return cubin_.symbol(name, data_, size, 0, STT_OBJECT, at);
  }
  CubinVariables read() {
    const std::string file = cubin_.build();
    CubinVariables found;
    read_cubin_variables(std::as_bytes(std::span(file)), found);
    return found;
  }

  CubinBuilder cubin_;
  uint16_t data_ = 0, constants_ = 0, k_ = 0, f_ = 0;
};

TEST_F(CubinVariablesTest, OfATextAndTheFunctionsThatItNames) {
  const uint32_t a = variable("a", 0), b = variable("b", 4), c = variable("c", 8);
  variable("never", 12);
  const uint32_t f = cubin_.symbol("f", f_, 16, 0, STT_FUNC);
  const uint32_t k = cubin_.symbol("k", k_, 16, 0, STT_FUNC);
  cubin_.relocations(".rela.text.k", {a, f});
  cubin_.relocations(".rela.text.f", {b, k});
  cubin_.relocations(".rela.text.g", {c});
  cubin_.relocations(".rela.debug_frame", {c});
  const CubinVariables found = read();
  EXPECT_TRUE(found.known);
  EXPECT_EQ(found.shared, Names());
  EXPECT_EQ(found.by_kernel.at("k"), (Names{"a", "b"}));
  EXPECT_EQ(found.by_kernel.at("g"), (Names{"c"}));
}

// As nvcc links.
TEST_F(CubinVariablesTest, OfATableThatAllCodeShares) {
  const uint32_t a = variable("a", 0), b = variable("b", 4), text = variable("$str$3", 12);
  variable("never", 8);
  const uint32_t constant = cubin_.symbol("constant", constants_, 8);
  cubin_.relocations(".rela.nv.constant4", {a, text, constant});
  cubin_.relocations(".rela.nv.global.init", {b});
  const CubinVariables found = read();
  EXPECT_TRUE(found.known);
  EXPECT_EQ(found.shared, (Names{"a", "b"}));
  EXPECT_TRUE(found.by_kernel.empty());
}

// A table of functions leads to what these reach.
TEST_F(CubinVariablesTest, OfFunctionsWhoseAddressIsTaken) {
  const uint32_t a = variable("a", 0);
  const uint32_t f = cubin_.symbol("f", f_, 16, 0, STT_FUNC);
  cubin_.relocations(".rela.text.f", {a});
  cubin_.relocations(".rela.nv.global.init", {f});
  EXPECT_EQ(read().shared, (Names{"a"}));
}

TEST_F(CubinVariablesTest, ByAnotherNameOfAPartOrOfTheSection) {
  variable("a", 0, 8);
  variable("b", 8, 8);
  variable("c", 16, 8);
  const uint32_t merged = variable("merged", 4, 8);
  CubinBuilder again = cubin_;
  cubin_.relocations(".rela.text.k", {merged});
  EXPECT_EQ(read().by_kernel.at("k"), (Names{"a", "b", "merged"}));
  const uint32_t section = again.symbol("", data_, 0, 0, STT_SECTION);
  again.relocations(".rela.text.f", {section});
  const std::string file = again.build();
  CubinVariables found;
  read_cubin_variables(std::as_bytes(std::span(file)), found);
  EXPECT_EQ(found.by_kernel.at("f"), (Names{"a", "b", "c", "merged"}));
}

TEST_F(CubinVariablesTest, WithoutRelocationsNothingIsKnown) {
  variable("a", 0);
  CubinBuilder astray = cubin_;
  EXPECT_FALSE(read().known);
  cubin_ = astray;
  cubin_.relocations(".rela.text.k", {77});
  EXPECT_FALSE(read().known);
}

}  // namespace
}  // namespace gpusnap
