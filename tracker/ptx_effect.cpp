#include "tracker/ptx_effect.h"

#include <algorithm>
#include <iterator>

namespace gpusnap::ptx {
namespace {

struct Row {
  std::string_view opcode;
  Effect effect;
};

// By opcode. Writes to shared memory alone do not matter here, nor do writes to surfaces: they are
// of arrays, which no address leads to. An opcode that is not in the table, or is added to PTX
// later, counts as kOther.
constexpr Row kRows[] = {
    {"abs", Effect::kNumber},
    {"activemask", Effect::kNumber},
    {"add", Effect::kSum},
    {"addc", Effect::kSum},
    {"alloca", Effect::kScratch},
    {"and", Effect::kBits},
    {"applypriority", Effect::kNone},
    {"atom", Effect::kAtomic},
    {"bar", Effect::kNumber},
    {"barrier", Effect::kNumber},
    {"bfe", Effect::kNumber},
    {"bfi", Effect::kNumber},
    {"bfind", Effect::kNumber},
    {"bmsk", Effect::kNumber},
    {"bra", Effect::kNone},
    {"brev", Effect::kNumber},
    {"brkpt", Effect::kNone},
    {"brx", Effect::kNone},
    {"call", Effect::kCall},
    {"clz", Effect::kNumber},
    {"cnot", Effect::kNumber},
    {"copysign", Effect::kNumber},
    {"cos", Effect::kNumber},
    {"cp", Effect::kStore},
    {"createpolicy", Effect::kNumber},
    {"cvt", Effect::kConvert},
    {"cvta", Effect::kAddress},
    {"discard", Effect::kStore},
    {"div", Effect::kNumber},
    {"dp2a", Effect::kNumber},
    {"dp4a", Effect::kNumber},
    {"elect", Effect::kNumber},
    {"ex2", Effect::kNumber},
    {"exit", Effect::kNone},
    {"fence", Effect::kNone},
    {"fma", Effect::kProduct},
    {"fns", Effect::kNumber},
    {"getctarank", Effect::kNumber},
    {"griddepcontrol", Effect::kNone},
    {"isspacep", Effect::kNumber},
    {"ld", Effect::kLoad},
    {"ldmatrix", Effect::kLoad},
    {"ldu", Effect::kLoad},
    {"lg2", Effect::kNumber},
    {"lop3", Effect::kNumber},
    {"mad", Effect::kProduct},
    {"mad24", Effect::kProduct},
    {"madc", Effect::kProduct},
    {"mapa", Effect::kScratch},
    {"match", Effect::kNumber},
    {"max", Effect::kSum},
    {"mbarrier", Effect::kNumber},
    {"membar", Effect::kNone},
    {"min", Effect::kSum},
    {"mma", Effect::kNumber},
    {"mov", Effect::kMove},
    {"movmatrix", Effect::kNumber},
    {"mul", Effect::kNumber},
    {"mul24", Effect::kNumber},
    {"multimem", Effect::kStore},
    {"nanosleep", Effect::kNone},
    {"neg", Effect::kSum},
    {"not", Effect::kNumber},
    {"or", Effect::kBits},
    {"pmevent", Effect::kNone},
    {"popc", Effect::kNumber},
    {"prefetch", Effect::kNone},
    {"prefetchu", Effect::kNone},
    {"prmt", Effect::kNumber},
    {"rcp", Effect::kNumber},
    {"red", Effect::kStore},
    {"redux", Effect::kNumber},
    {"rem", Effect::kNumber},
    {"ret", Effect::kNone},
    {"rsqrt", Effect::kNumber},
    {"sad", Effect::kNumber},
    {"selp", Effect::kSum},
    {"set", Effect::kNumber},
    {"setmaxnreg", Effect::kNone},
    {"setp", Effect::kNumber},
    {"shf", Effect::kNumber},
    {"shfl", Effect::kNumber},
    {"shl", Effect::kNumber},
    {"shr", Effect::kNumber},
    {"sin", Effect::kNumber},
    {"slct", Effect::kSum},
    {"sqrt", Effect::kNumber},
    {"st", Effect::kStore},
    {"stackrestore", Effect::kNone},
    {"stacksave", Effect::kScratch},
    {"stmatrix", Effect::kNone},
    {"sub", Effect::kSum},
    {"subc", Effect::kSum},
    {"suld", Effect::kLoad},
    {"suq", Effect::kNumber},
    {"sured", Effect::kNone},
    {"sust", Effect::kNone},
    {"szext", Effect::kNumber},
    {"tanh", Effect::kNumber},
    {"tensormap", Effect::kStore},
    {"testp", Effect::kNumber},
    {"tex", Effect::kLoad},
    {"tld4", Effect::kLoad},
    {"trap", Effect::kNone},
    {"txq", Effect::kNumber},
    {"vabsdiff", Effect::kNumber},
    {"vabsdiff2", Effect::kNumber},
    {"vabsdiff4", Effect::kNumber},
    {"vadd", Effect::kNumber},
    {"vadd2", Effect::kNumber},
    {"vadd4", Effect::kNumber},
    {"vavrg2", Effect::kNumber},
    {"vavrg4", Effect::kNumber},
    {"vmad", Effect::kNumber},
    {"vmax", Effect::kNumber},
    {"vmax2", Effect::kNumber},
    {"vmax4", Effect::kNumber},
    {"vmin", Effect::kNumber},
    {"vmin2", Effect::kNumber},
    {"vmin4", Effect::kNumber},
    {"vote", Effect::kNumber},
    {"vset", Effect::kNumber},
    {"vset2", Effect::kNumber},
    {"vset4", Effect::kNumber},
    {"vshl", Effect::kNumber},
    {"vshr", Effect::kNumber},
    {"vsub", Effect::kNumber},
    {"vsub2", Effect::kNumber},
    {"vsub4", Effect::kNumber},
    {"wgmma", Effect::kNumber},
    {"wmma", Effect::kNumber},
    {"xor", Effect::kBits},
};
static_assert(std::ranges::is_sorted(kRows, {}, &Row::opcode));

bool space_of_word(std::string_view word, Space& space) {
  for (const Space candidate :
       {Space::kGlobal, Space::kShared, Space::kLocal, Space::kParam, Space::kConst}) {
    const std::string_view name = name_of(candidate);
    // shared::cta, param::func
    if (!word.starts_with(name)) continue;
    if (word.size() != name.size() && word[name.size()] != ':') continue;
    space = candidate;
    return true;
  }
  return false;
}

// Returns the first space among the modifiers: a copy has two, and goes to the first.
Space space_of(const Instruction& instruction) {
  Space space = Space::kGeneric;
  for (const std::string_view word : instruction.modifiers) {
    if (space_of_word(word, space)) break;
  }
  return space;
}

// cp.async goes to shared memory; in bulk it may go to global memory.
Meaning copy_meaning(const Instruction& instruction) {
  Meaning meaning{Effect::kStore, space_of(instruction), nullptr};
  if (!has_modifier(instruction, "bulk") || has_modifier(instruction, "prefetch") ||
      meaning.space == Space::kShared || meaning.space == Space::kGeneric) {
    // Without a space these are the forms that only wait.
    return {Effect::kNone, Space::kShared, nullptr};
  }
  if (has_modifier(instruction, "tensor")) {
    meaning.refused = "the tensor map that it goes through says where to";
  }
  return meaning;
}

}  // namespace

bool has_modifier(const Instruction& instruction, std::string_view word) {
  return std::ranges::find(instruction.modifiers, word) != instruction.modifiers.end();
}

Type last_type(const Instruction& instruction) {
  for (size_t i = instruction.modifiers.size(); i-- > 0;) {
    const Type type = type_from_name(instruction.modifiers[i]);
    if (type != Type::kNone) return type;
  }
  return Type::kNone;
}

Meaning meaning_of(const Instruction& instruction) {
  const auto* row = std::ranges::lower_bound(kRows, instruction.opcode, {}, &Row::opcode);
  if (row == std::end(kRows) || row->opcode != instruction.opcode) return {};
  Meaning meaning{row->effect, space_of(instruction), nullptr};
  if (instruction.opcode == "cp") return copy_meaning(instruction);
  if (instruction.opcode == "wmma") {
    if (has_modifier(instruction, "load")) meaning.effect = Effect::kLoad;
    if (has_modifier(instruction, "store")) meaning.effect = Effect::kStore;
  }
  if (instruction.opcode == "multimem" && has_modifier(instruction, "ld_reduce")) {
    meaning.effect = Effect::kLoad;
  }
  return meaning;
}

}  // namespace gpusnap::ptx
