#include "tracker/ptx.h"

#include <gtest/gtest.h>

#include <string>

namespace gpusnap::ptx {
namespace {

constexpr std::string_view kHeader = ".version 7.8\n.target sm_75, debug\n.address_size 64\n";

std::unique_ptr<const Module> accept(std::string_view body) {
  ParseResult result = parse(std::string(kHeader) + std::string(body));
  EXPECT_NE(result.module, nullptr) << "line " << result.error.line << ": " << result.error.reason
                                    << " near " << result.error.near_text;
  return std::move(result.module);
}

// Statements as the body of a kernel of one parameter, with registers of every kind.
std::unique_ptr<const Module> accept_code(std::string_view code) {
  return accept(
      ".global .align 4 .b8 table[64];\n"
      ".visible .entry k(.param .u64 k_param_0)\n{\n"
      ".reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<8>;\n" +
      std::string(code) + "\n}\n");
}

Error refuse(std::string_view body) {
  const ParseResult result = parse(std::string(kHeader) + std::string(body));
  EXPECT_EQ(result.module, nullptr) << body;
  return result.error;
}

const Instruction& first(const std::unique_ptr<const Module>& module) {
  return module->functions.at(0).instructions.at(0);
}

template <class Kind>
const Kind& operand(const Instruction& instruction, size_t index) {
  return std::get<Kind>(instruction.operands.at(index).value);
}

TEST(PtxParser, ReadsTheHeader) {
  const auto module = accept("");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->version_major, 7U);
  EXPECT_EQ(module->version_minor, 8U);
  EXPECT_EQ(module->target, "sm_75");
  EXPECT_EQ(module->address_bits, 64U);
}

TEST(PtxParser, SplitsAnInstruction) {
  const auto module = accept_code("@!%p1 ld.global.L2::128B.v2.u32 {%r1, _}, [%rd2+-8];");
  ASSERT_NE(module, nullptr);
  const Function& kernel = module->functions.at(0);
  const Instruction& load = first(module);
  EXPECT_EQ(load.opcode, "ld");
  EXPECT_EQ(load.modifiers, (std::vector<std::string_view>{"global", "L2::128B", "v2", "u32"}));
  EXPECT_TRUE(load.guard_negated);
  EXPECT_EQ(kernel.registers.at(load.guard).name, "%p1");
  EXPECT_EQ(kernel.registers.at(load.guard).type, Type::kPred);
  EXPECT_EQ(load.text, "ld.global.L2::128B.v2.u32 {%r1, _}, [%rd2+-8]");
  EXPECT_EQ(load.line, 11U);
  const auto& vector = operand<VectorOperand>(load, 0);
  ASSERT_EQ(vector.elements.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<SinkOperand>(vector.elements[1].value));
  const auto& address = operand<AddressOperand>(load, 1);
  EXPECT_EQ(address.offset, -8);
  EXPECT_EQ(kernel.registers.at(std::get<RegisterOperand>(address.base).index).name, "%rd2");
}

TEST(PtxParser, NamesLineAndPlaceOfAnError) {
  const Error error = refuse(".visible .entry k()\n{\n  mov.u32 %r1, 0;\n}\n");
  EXPECT_EQ(error.line, 6U);
  EXPECT_EQ(error.near_text, "%r1");
  EXPECT_EQ(error.reason, "unknown register");
}

}  // namespace
}  // namespace gpusnap::ptx
