// PTX text as a syntax tree: what the write-set analysis and the software GPU both read.
//
// The tree is generic on purpose: an instruction is its opcode, its modifiers in order and its
// operands. The reader knows what an opcode means; the parser only promises that every name is
// resolved (registers, variables, labels, functions) and that every operand is well formed.
//
// Thread safety: a Module is immutable once parsed; parse() may run on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gpusnap::ptx {

enum class Space : uint8_t { kGeneric, kReg, kParam, kLocal, kShared, kGlobal, kConst };

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBF16,
  kBF16x2,
  kF32,
  kF64,
};

// Bytes that a value of the type takes in memory; 0 for kNone and kPred.
uint32_t size_of(Type type);
// The type that a token such as "u32" (no dot) names; kNone where it names none.
Type type_from_name(std::string_view name);
std::string_view name_of(Type type);
std::string_view name_of(Space space);

// Index of a register in Function::registers.
using RegisterIndex = uint32_t;
inline constexpr uint32_t kNoIndex = UINT32_MAX;

struct Register {
  std::string name;  // with the percent sign: "%r12"
  Type type = Type::kNone;
};

// `address of symbol + addend`, stored into a variable by its initialiser.
struct Relocation {
  uint64_t offset = 0;  // byte offset in the variable
  uint32_t bytes = 8;
  std::string symbol;  // a module-scope variable or a function
  int64_t addend = 0;
  bool generic = false;  // generic(symbol): the generic address, not the one in its own space
};

// A texture or surface that code names and the driver binds: its address stands for it.
enum class Reference : uint8_t { kNone, kTexture, kSurface };

enum class Linkage : uint8_t { kNone, kVisible, kExtern, kWeak, kCommon };

// A variable of any space but .reg. Parameters of functions are variables too.
struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  Type type = Type::kNone;
  uint32_t vector = 1;    // 1, 2 or 4
  uint64_t elements = 1;  // all array dimensions multiplied; 0: unsized (`.extern .shared x[]`)
  uint64_t size = 0;      // bytes
  uint64_t align = 1;     // bytes, a power of two
  uint64_t offset = 0;    // kernel and function parameters: byte offset in the parameter block
  Linkage linkage = Linkage::kNone;
  bool managed = false;  // .attribute(.managed)
  Reference reference = Reference::kNone;
  std::vector<uint8_t> initial;  // empty, or `size` bytes
  std::vector<Relocation> relocations;
  uint32_t line = 0;
};

// The kind of thing that a symbol operand refers to.
enum class SymbolScope : uint8_t {
  kModuleVariable,
  kLocalVariable,
  kParameter,
  kReturn,
  kFunction
};
struct Symbol {
  SymbolScope scope = SymbolScope::kModuleVariable;
  uint32_t index = kNoIndex;  // in Module::variables, Function::variables, parameters, returns, or
                              // Module::functions
};

struct SinkOperand {};  // _
struct RegisterOperand {
  RegisterIndex index = kNoIndex;
  bool negated = false;
  std::string_view part;  // "b3", "h10": bytes or half-words, of video instructions alone
};                        // %r1, !%p1, -%r1 of vmad, %r1.b3
struct SpecialOperand {
  std::string_view name;
};  // %tid.x, %clock64, WARP_SZ
struct IntegerOperand {
  uint64_t value = 0;
  bool negative = false;
};  // value is two's complement
struct FloatOperand {
  uint64_t bits = 0;
  bool is_double = false;
};  // 0f…, 0d…, 1.5 (a double)
struct SymbolOperand {
  Symbol symbol;
  int64_t offset = 0;
};  // variable or function, as a value
struct LabelOperand {
  uint32_t target = kNoIndex;
};  // index of an instruction
struct LabelListOperand {
  uint32_t index = kNoIndex;
};  // in Function::branch_targets
struct PrototypeOperand {
  uint32_t index = kNoIndex;
};  // in Function::prototypes
struct Operand;
// [base + offset]: the base is a register, a symbol, or nothing (an absolute address).
// [base, {x, y}]: of a tensor, whose map is there; of a texture or surface, whose handle it is.
struct AddressOperand {
  std::variant<std::monostate, RegisterOperand, Symbol> base;
  int64_t offset = 0;
  std::vector<Operand> coordinates;
};
struct VectorOperand {
  std::vector<Operand> elements;
};  // {%r1, %r2, _, 3}
struct PairOperand {
  std::vector<Operand> elements;
};  // %p1|%p2 of setp, %r1|%p1 of shfl, {...}|%p1 of tex
struct ListOperand {
  std::vector<Operand> elements;
};  // (param0, param1) of call
struct Operand {
  std::variant<SinkOperand, RegisterOperand, SpecialOperand, IntegerOperand, FloatOperand,
               SymbolOperand, LabelOperand, LabelListOperand, PrototypeOperand, AddressOperand,
               VectorOperand, PairOperand, ListOperand>
      value;
};

struct Instruction {
  std::string_view opcode;                  // "ld", "add", "bra"
  std::vector<std::string_view> modifiers;  // without dots: {"global", "nc", "f32"}
  std::vector<Operand> operands;            // in source order
  RegisterIndex guard = kNoIndex;           // @%p1
  bool guard_negated = false;               // @!%p1
  uint32_t line = 0;                        // 1-based line in the text
  std::string_view text;                    // from the opcode to before the semicolon, for messages
};

struct Prototype {
  std::vector<Variable> returns;
  std::vector<Variable> parameters;
};

struct Function {
  std::string name;
  bool is_kernel = false;  // .entry
  bool has_body = false;   // false: a declaration
  bool no_return = false;
  Linkage linkage = Linkage::kNone;
  std::vector<Variable> returns;
  std::vector<Variable> parameters;  // with their offsets in the parameter block
  uint64_t parameter_bytes = 0;      // size of the parameter block
  std::vector<Register> registers;
  std::vector<Variable> variables;  // .local, .shared, .param and .const/.global of the body;
                                    // same name in two scopes: two variables
  std::vector<Instruction>
      instructions;  // labels are resolved to indices; one past the end is legal
  std::vector<std::vector<uint32_t>> branch_targets;
  std::vector<Prototype> prototypes;
  uint32_t max_threads[3] = {0, 0, 0};       // .maxntid, 0: not said
  uint32_t required_threads[3] = {0, 0, 0};  // .reqntid
  uint32_t line = 0;
};

struct Module {
  std::string text;  // owns what the string_views above point into
  uint32_t version_major = 0, version_minor = 0;
  std::string target;  // "sm_75"
  uint32_t address_bits = 64;
  std::vector<Variable> variables;  // module scope
  std::vector<Function> functions;  // a declaration and its definition are one entry
};

struct Error {
  uint32_t line = 0;      // 1-based
  std::string near_text;  // the instruction or token
  std::string reason;
};

struct ParseResult {
  // Null when the text was refused; then `error` says why. The module never moves: the views in it
  // stay valid as long as it lives.
  std::unique_ptr<const Module> module;
  Error error;
};

// Parses untrusted text. Never throws, never recurses without bound, and takes memory in proportion
// to the text. Anything after a NUL byte is ignored.
ParseResult parse(std::string_view text);

}  // namespace gpusnap::ptx
