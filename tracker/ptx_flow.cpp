#include "tracker/ptx_flow.h"

#include <algorithm>
#include <array>

#include "tracker/ptx_flow_state.h"

namespace gpusnap::ptx {
namespace {

constexpr uint32_t kPointerBits = 64;

// Functions of the driver's own that write no memory of the program: what they print goes to a
// buffer of the driver.
constexpr std::array<std::string_view, 3> kHarmless = {"__assertfail", "__trap", "vprintf"};

std::string text_of(const Doubt doubt, uint32_t line) {
  const std::string at = line == 0 ? "" : " at line " + std::to_string(line);
  switch (doubt) {
    case Doubt::kLoaded:
      return "its address is loaded from memory" + at;
    case Doubt::kAtomic:
      return "its address is the result of an atomic operation" + at;
    case Doubt::kAssembled:
      return "its address is put together from parts" + at;
    case Doubt::kCall:
      return "its address comes from a function that is not known" + at;
    case Doubt::kOperation:
      return "its address comes from an instruction that is not followed" + at;
    case Doubt::kTooMany:
      return "its address may be one of too many";
    case Doubt::kNone:
      break;
  }
  return "its address comes from no pointer that the kernel is given";
}

// On one line, and not too long.
std::string quoted(std::string_view text) {
  constexpr size_t kMost = 80;
  std::string line;
  for (const char c : text) {
    const bool blank = c <= ' ';
    if (blank && line.ends_with(' ')) continue;
    if (line.size() == kMost) return "'" + line + "...'";
    line += blank ? ' ' : c;
  }
  return "'" + line + "'";
}

}  // namespace

Flow::State& Flow::reach(uint32_t function) {
  auto [at, fresh] = by_function_.try_emplace(function, nullptr);
  if (fresh) {
    states_.push_back({function, {}});
    states_.back().registers.resize(module_.functions[function].registers.size());
    at->second = &states_.back();
    changed_ = true;
  }
  return *at->second;
}

template <class Visit>
void Flow::for_each_instruction(Visit&& visit) {
  // More functions may be reached on the way.
  for (size_t i = 0; i < states_.size(); ++i) {
    const Function& function = module_.functions[states_[i].index];
    for (const Instruction& instruction : function.instructions) {
      visit(At{states_[i], function, instruction});
    }
  }
}

Writes Flow::run() {
  reach(kernel_);
  uint64_t steps = 0;
  while (changed_ && steps < kMostSteps) {
    changed_ = false;
    for_each_instruction([&](const At& at) {
      // Beyond the limit nothing is followed, so the flow is incomplete: the kernel then counts as
      // unresolved.
      if (++steps < kMostSteps) step(at);
    });
  }
  for_each_instruction([&](const At& at) { record(at); });
  if (steps >= kMostSteps) writes_.unresolved = "the kernel is too large to be followed";
  std::ranges::sort(writes_.numbers);
  return std::move(writes_);
}

void Flow::give_up(const At& at, const std::string& why) {
  if (!writes_.unresolved.empty()) return;
  writes_.unresolved = "line " + std::to_string(at.instruction.line);
  if (!at.function.is_kernel) writes_.unresolved += " in " + at.function.name;
  writes_.unresolved += ": " + quoted(at.instruction.text) + ": " + why;
}

void Flow::record(const At& at) {
  const Instruction& instruction = at.instruction;
  const Meaning meaning = meaning_of(instruction);
  if (meaning.effect == Effect::kCall) return record_call(at);
  const auto is_address = [](const Operand& operand) {
    return std::holds_alternative<AddressOperand>(operand.value);
  };
  if (meaning.effect == Effect::kOther) {
    if (std::ranges::any_of(instruction.operands, is_address)) {
      give_up(at, "the instruction is not known");
    }
    return;
  }
  if (meaning.effect != Effect::kStore && meaning.effect != Effect::kAtomic) return;
  if (meaning.refused != nullptr) return give_up(at, meaning.refused);
  if (meaning.space == Space::kShared || meaning.space == Space::kParam) return;
  const auto address = std::ranges::find_if(instruction.operands, is_address);
  if (address == instruction.operands.end()) return give_up(at, "it has no address");
  record_write(at, address_of(at, std::get<AddressOperand>(address->value)));
}

void Flow::record_call(const At& at) {
  const CallParts parts = parts_of_call(at.instruction);
  if (parts.function == kNoIndex) return give_up(at, "it calls through a pointer");
  const Function& callee = module_.functions[parts.function];
  if (!callee.has_body) {
    if (std::ranges::find(kHarmless, callee.name) != kHarmless.end()) return;
    return give_up(at, "the code of " + callee.name + " is not here");
  }
  const size_t results = parts.results == nullptr ? 0 : parts.results->elements.size();
  const size_t arguments = parts.arguments == nullptr ? 0 : parts.arguments->elements.size();
  if (callee.is_kernel || results != callee.returns.size() ||
      arguments != callee.parameters.size()) {
    give_up(at, callee.name + " takes other arguments");
  }
}

void Flow::record_write(const At& at, const Value& address) {
  Target target;
  for (const Source& source : address.sources) {
    if (source.kind == Source::Kind::kWord) target.words.push_back(source.index);
    if (source.kind == Source::Kind::kWords) target.any_word.push_back(source.index);
    if (source.kind == Source::Kind::kVariable) {
      writes_.variables.emplace(module_.variables[source.index].name, at.instruction.line);
    }
  }
  if (address.sources.empty() || address.doubt != Doubt::kNone) {
    give_up(at, text_of(address.doubt, address.doubt_line));
  }
  if (target.words.empty() && target.any_word.empty()) return;
  std::ranges::sort(target.words);
  std::ranges::sort(target.any_word);
  target.hidden = address.hidden;
  writes_.targets.emplace(std::move(target), at.instruction.line);
  for (const uint32_t word : address.numbers) {
    if (std::ranges::find(writes_.numbers, word) == writes_.numbers.end()) {
      writes_.numbers.push_back(word);
    }
  }
}

Writes analyse(const Module& module, uint32_t kernel) {
  if (module.address_bits != kPointerBits) {
    Writes writes;
    writes.unresolved = "its addresses have " + std::to_string(module.address_bits) + " bits";
    return writes;
  }
  return Flow(module, kernel).run();
}

}  // namespace gpusnap::ptx
