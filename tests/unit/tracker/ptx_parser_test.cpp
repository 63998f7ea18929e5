#include "tracker/ptx.h"

#include <gtest/gtest.h>

#include <string>

#include "device_code.h"

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

TEST(PtxParser, OperandsOfEveryKind) {
  const auto module = accept_code(
      "mov.u32 %r1, %tid.x;\n"
      "mov.u32 %r1, WARP_SZ;\n"
      "mov.u64 %rd1, %clock64;\n"
      "add.s32 %r1, %r2, -5;\n"
      "or.b64 %rd1, %rd2, -9223372036854775808;\n"
      "and.b32 %r1, %r2, 0xFFFFFFFFU;\n"
      "mov.f32 %f1, 0fBF800000;\n"
      "mov.u64 %rd1, table+8;\n"
      "mov.u64 %rd1, k_param_0;\n"
      "setp.eq.and.s32 %p1|%p2, %r1, (1 + 2) * 3, !%p3;\n"
      "shfl.sync.down.b32 %r1|_, %r2, 1, 31, -1;\n");
  ASSERT_NE(module, nullptr);
  const std::vector<Instruction>& code = module->functions[0].instructions;
  EXPECT_EQ(operand<SpecialOperand>(code[0], 1).name, "%tid.x");
  EXPECT_EQ(operand<SpecialOperand>(code[1], 1).name, "WARP_SZ");
  EXPECT_EQ(operand<SpecialOperand>(code[2], 1).name, "%clock64");
  EXPECT_EQ(operand<IntegerOperand>(code[3], 2).value, static_cast<uint64_t>(-5));
  EXPECT_TRUE(operand<IntegerOperand>(code[3], 2).negative);
  EXPECT_EQ(operand<IntegerOperand>(code[4], 2).value, uint64_t{1} << 63);
  EXPECT_TRUE(operand<IntegerOperand>(code[4], 2).negative);
  EXPECT_EQ(operand<IntegerOperand>(code[5], 2).value, 0xFFFFFFFFU);
  EXPECT_FALSE(operand<IntegerOperand>(code[5], 2).negative);
  EXPECT_EQ(operand<FloatOperand>(code[6], 1).bits, 0xBF800000U);
  EXPECT_FALSE(operand<FloatOperand>(code[6], 1).is_double);
  EXPECT_EQ(operand<SymbolOperand>(code[7], 1).symbol.scope, SymbolScope::kModuleVariable);
  EXPECT_EQ(operand<SymbolOperand>(code[7], 1).offset, 8);
  EXPECT_EQ(operand<SymbolOperand>(code[8], 1).symbol.scope, SymbolScope::kParameter);
  EXPECT_EQ(operand<PairOperand>(code[9], 0).elements.size(), 2U);
  EXPECT_EQ(operand<IntegerOperand>(code[9], 2).value, 9U);
  EXPECT_TRUE(operand<RegisterOperand>(code[9], 3).negated);
  const auto& pair = operand<PairOperand>(code[10], 0);
  EXPECT_TRUE(std::holds_alternative<SinkOperand>(pair.elements[1].value));
}

TEST(PtxParser, PartsOfRegisters) {
  const auto module = accept_code(
      "vadd.s32.u32.s32.sat %r1.h0, %r2.b3, %r3, %r1;\n"
      "vabsdiff4.u32.u32.u32.add %r1, %r2.b7610, %r3.b3333, %r1;\n"
      "vmad.s32.s32.u32 %r1, %r2.h1, -%r3.b0, %r1;\n"
      "vmad.s32.s32.u32 %r1, %r2, %r3, -5;\n"
      "vote.sync.all.pred %p1, %p2, 0xffffffff;\n");
  ASSERT_NE(module, nullptr);
  const std::vector<Instruction>& code = module->functions[0].instructions;
  EXPECT_EQ(operand<RegisterOperand>(code[0], 0).part, "h0");
  EXPECT_EQ(operand<RegisterOperand>(code[0], 1).part, "b3");
  EXPECT_EQ(operand<RegisterOperand>(code[0], 2).part, "");
  EXPECT_EQ(operand<RegisterOperand>(code[1], 1).part, "b7610");
  EXPECT_EQ(operand<RegisterOperand>(code[1], 2).part, "b3333");
  EXPECT_FALSE(operand<RegisterOperand>(code[2], 1).negated);
  EXPECT_TRUE(operand<RegisterOperand>(code[2], 2).negated);
  EXPECT_EQ(operand<RegisterOperand>(code[2], 2).part, "b0");
  EXPECT_TRUE(operand<IntegerOperand>(code[3], 3).negative);
}

TEST(PtxParser, AddressesOfEveryKind) {
  const auto module = accept_code(
      "ld.global.u32 %r1, [%rd1];\n"
      "ld.global.u32 %r1, [%rd1-4];\n"
      "ld.global.u32 %r1, [table + 4*3];\n"
      "ld.param.u64 %rd1, [k_param_0];\n"
      "st.shared.u32 [0x10], %r1;\n"
      "ld.global.u8 %r1, table[5];\n"
      "mov.u64 %rd1, table[6];\n");
  ASSERT_NE(module, nullptr);
  const std::vector<Instruction>& code = module->functions[0].instructions;
  EXPECT_TRUE(std::holds_alternative<RegisterOperand>(operand<AddressOperand>(code[0], 1).base));
  EXPECT_EQ(operand<AddressOperand>(code[1], 1).offset, -4);
  EXPECT_TRUE(std::holds_alternative<Symbol>(operand<AddressOperand>(code[2], 1).base));
  EXPECT_EQ(operand<AddressOperand>(code[2], 1).offset, 12);
  EXPECT_EQ(std::get<Symbol>(operand<AddressOperand>(code[3], 1).base).scope,
            SymbolScope::kParameter);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(operand<AddressOperand>(code[4], 0).base));
  EXPECT_EQ(operand<AddressOperand>(code[4], 0).offset, 16);
  EXPECT_EQ(operand<AddressOperand>(code[5], 1).offset, 5);
  EXPECT_EQ(operand<SymbolOperand>(code[6], 1).offset, 6);
}

TEST(PtxParser, BranchesGoForwardBackwardAndToTheEnd) {
  const auto module = accept_code(
      "start: @%p1 bra end;\n"
      "bra.uni start;\n"
      "ret;\n"
      "end:\n");
  ASSERT_NE(module, nullptr);
  const std::vector<Instruction>& code = module->functions[0].instructions;
  ASSERT_EQ(code.size(), 3U);
  EXPECT_EQ(operand<LabelOperand>(code[0], 0).target, 3U) << "one past the last instruction";
  EXPECT_EQ(operand<LabelOperand>(code[1], 0).target, 0U);
}

TEST(PtxParser, LabelsBelongToTheirScope) {
  const auto module = accept_code(
      "{ bra L; exit; L: ret; }\n"
      "{ bra L; exit; L: ret; bra out; }\n"
      "out: ret;\n");
  ASSERT_NE(module, nullptr);
  const std::vector<Instruction>& code = module->functions[0].instructions;
  EXPECT_EQ(operand<LabelOperand>(code[0], 0).target, 2U);
  EXPECT_EQ(operand<LabelOperand>(code[3], 0).target, 5U);
  EXPECT_EQ(operand<LabelOperand>(code[6], 0).target, 7U);
  EXPECT_EQ(refuse(".entry k() { bra L; { L: ret; } }").reason, "unknown label");
  EXPECT_EQ(refuse(".entry k() { L: L: ret; }").reason, "the label is there already");
}

TEST(PtxParser, BranchTargets) {
  const auto module = accept_code(
      "list: .branchtargets zero, one;\n"
      "brx.idx %r1, list;\n"
      "zero: ret;\none: exit;\n");
  ASSERT_NE(module, nullptr);
  const Function& kernel = module->functions[0];
  EXPECT_EQ(operand<LabelListOperand>(kernel.instructions[0], 1).index, 0U);
  EXPECT_EQ(kernel.branch_targets.at(0), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(refuse(".entry k() { .reg .b32 r; brx.idx r, l; l: ret; }").reason,
            "the label names something else");
}

TEST(PtxParser, RegistersOfRangesAreMadeWhenUsed) {
  const auto module = accept(
      ".entry k() { .reg .b32 %r<1000000000>, %r1<20>; .reg .f64 a, b;\n"
      "mov.b32 %r999999999, %r112;\n"
      "add.f64 a, b, b; }");
  ASSERT_NE(module, nullptr);
  const Function& kernel = module->functions[0];
  ASSERT_EQ(kernel.registers.size(), 4U);
  EXPECT_EQ(kernel.registers[operand<RegisterOperand>(first(module), 0).index].name, "%r999999999");
  EXPECT_EQ(refuse(".entry k() { .reg .b32 %r<3>; mov.b32 %r3, 0; }").reason, "unknown register");
  EXPECT_EQ(refuse(".entry k() { .reg .b32 %r<3>; mov.b32 %r01, 0; }").reason, "unknown register");
  EXPECT_EQ(refuse(".entry k() { .reg .b32 a; .reg .f32 a; }").reason, "the name is taken");
}

TEST(PtxParser, InnerScopesHideOuterNames) {
  const auto module = accept(
      ".entry k() { .reg .b32 %r<4>; mov.b32 %r1, 0;\n"
      "{ .reg .b64 %r1; .shared .b32 tile; mov.b64 %r1, tile; mov.b32 %r2, 0; }\n"
      "{ .shared .b64 tile; mov.b32 %r1, tile; } }");
  ASSERT_NE(module, nullptr);
  const Function& kernel = module->functions[0];
  const auto type = [&](size_t instruction) {
    const auto index = operand<RegisterOperand>(kernel.instructions[instruction], 0).index;
    return kernel.registers[index].type;
  };
  EXPECT_EQ(type(0), Type::kB32);
  EXPECT_EQ(type(1), Type::kB64);
  EXPECT_EQ(type(2), Type::kB32);
  EXPECT_EQ(operand<RegisterOperand>(kernel.instructions[0], 0).index,
            operand<RegisterOperand>(kernel.instructions[3], 0).index);
  ASSERT_EQ(kernel.variables.size(), 2U);
  EXPECT_EQ(operand<SymbolOperand>(kernel.instructions[1], 1).symbol.index, 0U);
  EXPECT_EQ(operand<SymbolOperand>(kernel.instructions[3], 1).symbol.index, 1U);
}

TEST(PtxParser, VectorRegisters) {
  const auto module = accept(
      ".entry k() { .reg .v4 .f32 v; .reg .f32 f; .reg .b64 a;\n"
      "mov.f32 f, v.y; ld.global.v4.f32 v, [a]; }");
  ASSERT_NE(module, nullptr);
  const Function& kernel = module->functions[0];
  EXPECT_EQ(kernel.registers[operand<RegisterOperand>(first(module), 1).index].name, "v.y");
  EXPECT_EQ(operand<VectorOperand>(kernel.instructions[1], 0).elements.size(), 4U);
  EXPECT_EQ(refuse(".entry k() { .reg .v2 .f32 v; mov.f32 v.x, v.z; }").reason,
            "the vector register has no such component");
}

TEST(PtxParser, ParametersHaveTheirLayout) {
  const auto module = accept(
      ".visible .entry k(.param .u8 a, .param .align 16 .b8 b[20], .param .u64 .ptr .global "
      ".align 4 c,\n .param .v2 .f32 d)\n"
      ".maxntid 128, 2\n.reqntid 64\n.minnctapersm 2\n.maxnreg 32\n.noreturn\n{ ret; }");
  ASSERT_NE(module, nullptr);
  const Function& kernel = module->functions[0];
  ASSERT_EQ(kernel.parameters.size(), 4U);
  EXPECT_EQ(kernel.parameters[0].offset, 0U);
  EXPECT_EQ(kernel.parameters[1].offset, 16U);
  EXPECT_EQ(kernel.parameters[1].size, 20U);
  EXPECT_EQ(kernel.parameters[2].offset, 40U);
  EXPECT_EQ(kernel.parameters[2].align, 8U) << "the alignment of what it points to is not its own";
  EXPECT_EQ(kernel.parameters[3].offset, 48U);
  EXPECT_EQ(kernel.parameter_bytes, 56U);
  EXPECT_EQ(kernel.max_threads[0], 128U);
  EXPECT_EQ(kernel.max_threads[1], 2U);
  EXPECT_EQ(kernel.max_threads[2], 1U);
  EXPECT_EQ(kernel.required_threads[0], 64U);
  EXPECT_TRUE(kernel.no_return);
  EXPECT_TRUE(kernel.is_kernel);
  EXPECT_EQ(kernel.linkage, Linkage::kVisible);
}

TEST(PtxParser, CallsDirectAndIndirect) {
  const auto module = accept(
      ".func (.param .b32 result) f (.param .b32 a);\n"
      ".func g() { ret; }\n"
      ".entry k() { .reg .b64 %rd<2>; .param .b32 x; .param .b32 y;\n"
      "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
      "some: .calltargets f;\n"
      "call.uni (y), f, (x);\n"
      "call g;\n"
      "call g, ();\n"
      "call (y), %rd1, (x), proto;\n"
      "call (y), %rd1, (x), some; }\n");
  ASSERT_NE(module, nullptr);
  ASSERT_EQ(module->functions.size(), 3U);
  const Function& kernel = module->functions[2];
  const std::vector<Instruction>& code = kernel.instructions;
  EXPECT_EQ(operand<ListOperand>(code[0], 0).elements.size(), 1U);
  EXPECT_EQ(operand<SymbolOperand>(code[0], 1).symbol.scope, SymbolScope::kFunction);
  EXPECT_EQ(operand<SymbolOperand>(code[0], 1).symbol.index, 0U);
  EXPECT_EQ(operand<ListOperand>(code[0], 2).elements.size(), 1U);
  EXPECT_EQ(code[1].operands.size(), 1U);
  EXPECT_EQ(operand<ListOperand>(code[2], 1).elements.size(), 0U);
  EXPECT_EQ(operand<PrototypeOperand>(code[3], 3).index, 0U);
  EXPECT_EQ(operand<PrototypeOperand>(code[4], 3).index, 1U);
  ASSERT_EQ(kernel.prototypes.size(), 2U);
  EXPECT_EQ(kernel.prototypes[1].parameters.at(0).size, 4U);
  EXPECT_EQ(refuse(".entry k() { call nobody; }").reason, "unknown name");
  EXPECT_EQ(refuse(".entry k() { call 5; }").reason, "only a function or a register can be called");
}

TEST(PtxParser, DeclarationAndDefinitionAreOneFunction) {
  const auto module = accept(
      ".func (.param .b32 r) f (.param .b64 x);\n"
      ".global .u64 pointer = f;\n"
      ".func (.param .b32 out) f (.param .b64 in) { st.param.b32 [out+0], 1; ret; }\n"
      ".func (.param .b32 r) f (.param .b64 x);\n");
  ASSERT_NE(module, nullptr);
  ASSERT_EQ(module->functions.size(), 1U);
  EXPECT_TRUE(module->functions[0].has_body);
  EXPECT_EQ(module->functions[0].returns[0].name, "out");
  EXPECT_EQ(refuse(".func f (.param .b32 x); .func f (.param .b64 x) { ret; }").reason,
            "the function does not match its declaration");
  EXPECT_EQ(refuse(".func f () { ret; } .func f () { ret; }").reason,
            "the function is defined twice");
}

TEST(PtxParser, FunctionsWithRegisterParametersCallThemselves) {
  const auto module = accept(
      ".func (.reg .u32 out) f (.reg .u32 in) { mov.u32 out, in; call (out), f, (in); ret; }");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->functions[0].registers.size(), 2U);
  EXPECT_EQ(module->functions[0].parameters[0].space, Space::kReg);
}

TEST(PtxParser, ExternVariableMayBeDefinedLater) {
  const auto module = accept(".extern .global .u32 x;\n.visible .global .u32 x = 5;\n");
  ASSERT_NE(module, nullptr);
  ASSERT_EQ(module->variables.size(), 1U);
  EXPECT_EQ(module->variables[0].linkage, Linkage::kVisible);
  EXPECT_EQ(module->variables[0].initial.size(), 4U);
  EXPECT_EQ(refuse(".global .u32 x; .global .u32 x;").reason, "the name is taken");
}

TEST(PtxParser, SkipsWhatOnlyDebuggersRead) {
  const auto module = accept(
      "# 1 \"a.cu\"\n"
      "@@DWARF old\n"
      ".file 1 \"/a/b.cu\", 1234, 56\n"
      ".entry k() { /* over\ntwo lines */\n"
      ".loc 1 2 3, function_name $L__info_string0, inlined_at 1 2 3\n"
      ".pragma \"nounroll\";\n"
      "L: .pragma \"used_bytes_mask 0xfff\";\n"
      "ret; // done\n}\n"
      ".section .debug_info\n{\n.b32 .debug_abbrev\nlabel:\n.b8 1, 2\n}\n"
      ".section .debug_loc { }\n");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(first(module).opcode, "ret");
}

TEST(PtxParser, IgnoresWhatFollowsANul) {
  std::string text(kHeader);
  text += '\0';
  text += "nonsense";
  EXPECT_NE(parse(text).module, nullptr);
}

TEST(PtxParser, NamesLineAndPlaceOfAnError) {
  const Error error = refuse(".visible .entry k()\n{\n  mov.u32 %r1, 0;\n}\n");
  EXPECT_EQ(error.line, 6U);
  EXPECT_EQ(error.near_text, "%r1");
  EXPECT_EQ(error.reason, "unknown register");
}

TEST(PtxParser, RefusesWithAReason) {
  EXPECT_EQ(parse("").error.reason, "PTX must begin with .version");
  EXPECT_EQ(parse(".version 7").error.reason, "bad version");
  EXPECT_EQ(parse(".version 7.123456789").error.reason, "bad version");
  EXPECT_EQ(refuse(".address_size 16").reason, "addresses are of 32 or 64 bits");
  EXPECT_EQ(refuse(".alias f, g;").reason, "aliases are not supported");
  EXPECT_EQ(refuse(".global .samplerref s;").reason, "sampler references are not supported");
  EXPECT_EQ(refuse(".const .texref t;").reason, "a texture or surface reference must be .global");
  EXPECT_EQ(refuse(".entry k() {").reason, "the text ends inside a function");
  EXPECT_EQ(refuse(".entry k() { ret }").reason, "expected a constant");
  EXPECT_EQ(refuse(".entry k() { bra nowhere; }").reason, "unknown label");
  EXPECT_EQ(refuse(".entry k() { .reg .b32 r; @r ret; }").reason,
            "a guard must be a predicate register");
  EXPECT_EQ(refuse(".entry k() { .reg .b32 r; mov.b32 r, 12abc; }").reason, "expected a constant");
  EXPECT_EQ(refuse(".entry k() { .reg .b32 r; mov.b32 r, 99999999999999999999; }").reason,
            "expected a constant");
  EXPECT_EQ(refuse(".entry k() { .reg .b32 r; mov.b32 r, %tid.q; }").reason, "no such component");
  EXPECT_EQ(refuse(".entry k() { .reg .b32 r; tex.2d r, [{r}]; }").reason,
            "this form of address is not supported");
  EXPECT_EQ(refuse(".entry k() { .reg .b64 r; ld.u32 r, [r, {r}]; }").reason, "expected ']'");
  EXPECT_EQ(refuse(".entry k() { .reg .b64 r; cp.async.bulk [r, r], [r]; }").reason,
            "expected '{'");
  EXPECT_EQ(refuse(".entry k(.param .b32 a, .param .b32 a) { }").reason, "the name is taken");
}

TEST(PtxParser, BoundsNesting) {
  std::string scopes = ".entry k() ";
  for (int i = 0; i < 100'000; ++i) scopes += '{';
  EXPECT_EQ(refuse(scopes).reason, "scopes are nested too deeply");
  EXPECT_EQ(refuse(".global .s32 x = " + std::string(100'000, '(')).reason,
            "the expression is nested too deeply");
  EXPECT_EQ(refuse(".global .s32 x = " + std::string(100'000, '-')).reason,
            "the expression is nested too deeply");
  std::string choices = ".global .s32 x = ";
  for (int i = 0; i < 100'000; ++i) choices += "1?1:";
  EXPECT_EQ(refuse(choices).reason, "the expression is nested too deeply");
  EXPECT_EQ(refuse(".global .s32 x[2] = " + std::string(100'000, '{')).reason, "too many braces");
}

// Every prefix of a module, and every character changed: an answer, whatever it is.
TEST(PtxParser, SurvivesDamage) {
  const std::string text =
      std::string(kHeader) +
      ".global .b8 t[4] = {0xFF(k), 1};\n.func (.param .b32 r) f (.param .b32 a) { ret; }\n"
      ".visible .entry k(.param .u64 p) .maxntid 1, 2, 3 {\n.reg .pred %p<2>; .reg .b32 %r<9>;\n"
      "l: .branchtargets a, b;\n{ .param .b32 x; call (x), f, (x); }\n"
      "a: @!%p1 bra b; setp.eq.s32 %p1|%p0, %r1, -(1+2);\nbrx.idx %r2, l;\n"
      "b: ld.param.u64 {%r1, _}, [p+4]; ret; }\n.section .d { .b8 1 }\n";
  for (size_t size = 0; size < text.size(); ++size) {
    const ParseResult result = parse(std::string_view(text).substr(0, size));
    EXPECT_EQ(result.module == nullptr, !result.error.reason.empty());
  }
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char other : {'{', '}', '(', ';', '.', '9', '%', '"', '\0', '\xFF'}) {
      std::string changed = text;
      changed[at] = other;
      const ParseResult result = parse(changed);
      EXPECT_EQ(result.module == nullptr, !result.error.reason.empty());
    }
  }
}

// Code of the compilers that were found when this was built.
TEST(PtxOfCompilers, IsAccepted) {
  const std::vector<std::string> files = device_code(".ptx");
  if (files.empty()) GTEST_SKIP() << "no compiler of device code";
  for (const std::string& file : files) {
    const ParseResult result = parse(read_file(file));
    ASSERT_NE(result.module, nullptr) << file << ":" << result.error.line << ": "
                                      << result.error.reason << " near " << result.error.near_text;
    size_t instructions = 0;
    for (const Function& function : result.module->functions) {
      instructions += function.instructions.size();
    }
    EXPECT_GT(instructions, 100U) << file;
  }
}

}  // namespace
}  // namespace gpusnap::ptx
