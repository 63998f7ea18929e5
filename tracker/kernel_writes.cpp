#include "tracker/kernel_writes.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "tracker/cubin.h"
#include "tracker/ptx.h"
#include "tracker/ptx_flow.h"

namespace gpusnap {
namespace {

using Word = KernelWrites::Word;

constexpr uint32_t kPointerBytes = 8;

std::vector<KernelWrites::Parameter> layout_of(const ptx::Function& kernel) {
  std::vector<KernelWrites::Parameter> layout;
  for (const ptx::Variable& parameter : kernel.parameters) {
    layout.push_back(
        {static_cast<uint32_t>(parameter.offset), static_cast<uint32_t>(parameter.size)});
  }
  return layout;
}

// The parameter in which a word of the block lies.
Word word_at(const std::vector<KernelWrites::Parameter>& layout, uint32_t offset) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < layout.size(); ++i) {
    if (layout[i].size != 0 && layout[i].offset <= offset) found = i;
  }
  return {found, offset - layout[found].offset};
}

KernelWrites writes_of(const ptx::Module& module, uint32_t index) {
  const ptx::Function& function = module.functions[index];
  ptx::Writes flow = ptx::analyse(module, index);
  KernelWrites kernel;
  kernel.name = function.name;
  kernel.layout_known = kernel.looked_at = true;
  kernel.parameters = layout_of(function);
  for (const auto& [target, line] : flow.targets) {
    KernelWrites::Pointer& pointer = kernel.pointers.emplace_back();
    pointer.hidden = target.hidden;
    for (const uint32_t word : target.words) {
      pointer.words.push_back(word_at(kernel.parameters, word));
    }
    for (const uint32_t parameter : target.any_word)
      pointer.words.push_back({parameter, Word::kAny});
    std::ranges::sort(pointer.words);
  }
  for (const uint32_t word : flow.numbers) {
    kernel.numbers.push_back(word_at(kernel.parameters, word));
  }
  for (const auto& [name, line] : flow.variables) kernel.globals.push_back(name);
  kernel.resolved = kernel.proven = flow.unresolved.empty();
  kernel.reason = std::move(flow.unresolved);
  return kernel;
}

template <class T>
void merge(std::vector<T>& into, const std::vector<T>& from) {
  for (const T& item : from) {
    if (std::ranges::find(into, item) == into.end()) into.push_back(item);
  }
}

void doubt(KernelWrites& kernel, const std::string& reason) {
  if (kernel.proven) kernel.reason = reason;
  kernel.proven = false;
}

// Either of two translations of one kernel may be what runs.
void merge(KernelWrites& into, const KernelWrites& other) {
  merge(into.pointers, other.pointers);
  merge(into.globals, other.globals);
  merge(into.numbers, other.numbers);
  if (!other.proven) doubt(into, other.reason);
  into.resolved = into.resolved && other.resolved;
  if (into.parameters != other.parameters) {
    into.resolved = into.layout_known = false;
    doubt(into, "its translations for different devices have different parameters");
  }
}

// Machine code runs on devices of its own major version, from its minor version on.
bool may_run(const ImageEntry& entry, uint32_t arch) {
  if (arch == 0 || entry.arch == 0) return true;
  if (entry.kind == ImageEntry::Kind::kPtx) return entry.arch <= arch;
  return entry.arch / 10 == arch / 10 && entry.arch <= arch;
}

}  // namespace

struct KernelCode::Contents {
  std::vector<std::unique_ptr<const ptx::Module>> modules;
  std::map<std::string, KernelWrites, std::less<>> machine_code;        // layouts alone
  std::map<std::string, std::set<std::string>, std::less<>> variables;  // of its kernels
  std::set<std::string> shared_variables;                               // and of all of them
  std::string machine_code_for;         // "sm_75, sm_80"; empty: there is none
  std::vector<std::string> unreadable;  // entries that could not be read, and why

  void add_ptx(const std::string& text);
  void add_cubin(const ImageEntry& entry);
  void add_variables(std::span<const std::byte> file);
  KernelWrites find_machine_code(const KernelWrites& layout) const;
};

void KernelCode::Contents::add_ptx(const std::string& text) {
  ptx::ParseResult parsed = ptx::parse(text);
  if (parsed.module != nullptr) {
    modules.push_back(std::move(parsed.module));
    return;
  }
  unreadable.push_back("its PTX is not understood at line " + std::to_string(parsed.error.line) +
                       ": " + parsed.error.reason);
}

void KernelCode::Contents::add_cubin(const ImageEntry& entry) {
  if (!machine_code_for.empty()) machine_code_for += ", ";
  machine_code_for += entry.arch == 0 ? "a device" : "sm_" + std::to_string(entry.arch);
  std::vector<CubinKernel> kernels;
  const auto file = std::as_bytes(std::span(entry.bytes));
  if (const std::string why = read_cubin_kernels(file, kernels); !why.empty()) {
    unreadable.push_back("its machine code: " + why);
    return;
  }
  add_variables(file);
  for (CubinKernel& read : kernels) {
    KernelWrites kernel;
    kernel.name = read.name;
    kernel.layout_known = read.layout_known;
    for (const auto& [offset, size] : read.parameters) kernel.parameters.push_back({offset, size});
    kernel.reason = "there is only machine code of it";
    const auto [known, fresh] = machine_code.try_emplace(read.name, kernel);
    if (!fresh) merge(known->second, kernel);
  }
}

void KernelCode::Contents::add_variables(std::span<const std::byte> file) {
  CubinVariables reached;
  read_cubin_variables(file, reached);
  if (reached.known) {
    shared_variables.insert(reached.shared.begin(), reached.shared.end());
    for (const auto& [kernel, names] : reached.by_kernel) {
      variables[kernel].insert(names.begin(), names.end());
    }
    return;
  }
  ImageGlobals globals;
  (void)read_cubin_globals(file, globals);
  for (const GlobalVariable& variable : globals.globals) {
    if (!variable.constant && !variable.is_compilers_text()) shared_variables.insert(variable.name);
  }
}

KernelWrites KernelCode::Contents::find_machine_code(const KernelWrites& layout) const {
  KernelWrites kernel = layout;
  std::set<std::string> names = shared_variables;
  if (const auto own = variables.find(kernel.name); own != variables.end()) {
    names.insert(own->second.begin(), own->second.end());
  }
  kernel.globals.assign(names.begin(), names.end());
  return kernel;
}

KernelCode::KernelCode(const ImageContents& image, uint32_t arch)
    : contents_(std::make_unique<Contents>()) {
  for (const ImageEntry& entry : image.entries) {
    if (!may_run(entry, arch)) continue;
    if (entry.kind == ImageEntry::Kind::kPtx) {
      contents_->add_ptx(entry.bytes);
    } else {
      contents_->add_cubin(entry);
    }
  }
  for (const std::string& entry : image.unreadable) {
    contents_->unreadable.push_back("a part of its image cannot be read: " + entry);
  }
  if (!image.error.empty()) {
    contents_->unreadable.push_back("its image cannot be read: " + image.error);
  }
}

KernelCode::~KernelCode() = default;
KernelCode::KernelCode(KernelCode&&) noexcept = default;
KernelCode& KernelCode::operator=(KernelCode&&) noexcept = default;

const std::vector<std::string>& KernelCode::unreadable() const {
  return contents_->unreadable;
}

std::vector<std::string> KernelCode::names() const {
  std::set<std::string> names;
  for (const auto& module : contents_->modules) {
    for (const ptx::Function& function : module->functions) {
      if (function.is_kernel && function.has_body) names.insert(function.name);
    }
  }
  for (const auto& [name, kernel] : contents_->machine_code) names.insert(name);
  return {names.begin(), names.end()};
}

KernelWrites KernelCode::find(std::string_view name) const {
  std::unique_ptr<KernelWrites> kernel;
  for (const auto& module : contents_->modules) {
    for (uint32_t i = 0; i < module->functions.size(); ++i) {
      const ptx::Function& function = module->functions[i];
      if (!function.is_kernel || !function.has_body || function.name != name) continue;
      KernelWrites found = writes_of(*module, i);
      if (kernel == nullptr) {
        kernel = std::make_unique<KernelWrites>(std::move(found));
      } else {
        merge(*kernel, found);
      }
    }
  }
  if (kernel == nullptr) {
    const auto machine = contents_->machine_code.find(name);
    if (machine != contents_->machine_code.end())
      return contents_->find_machine_code(machine->second);
    KernelWrites unknown;
    unknown.name = name;
    unknown.reason = contents_->unreadable.empty() ? "its code is not in the image"
                                                   : contents_->unreadable.front();
    return unknown;
  }
  if (!contents_->machine_code_for.empty()) {
    doubt(*kernel, "there is machine code for " + contents_->machine_code_for + " beside the PTX");
  }
  if (!contents_->unreadable.empty()) doubt(*kernel, contents_->unreadable.front());
  return *std::move(kernel);
}

namespace {

template <class T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Where the arguments of one launch are.
class Arguments {
 public:
  Arguments(const KernelWrites& kernel, void** params, void** extra)
      : kernel_(kernel), params_(params) {
    // {name, value, name, value, ..., 0}
    constexpr uintptr_t kEnd = 0, kBuffer = 1, kSize = 2;
    if (params != nullptr || extra == nullptr) return;
    for (void** at = extra; reinterpret_cast<uintptr_t>(at[0]) != kEnd; at += 2) {
      const auto what = reinterpret_cast<uintptr_t>(at[0]);
      if (what == kBuffer) buffer_ = static_cast<const std::byte*>(at[1]);
      if (what == kSize && at[1] != nullptr) std::memcpy(&bytes_, at[1], sizeof bytes_);
      if (what != kBuffer && what != kSize) break;  // no further: what follows is not known
    }
  }

  bool known() const {
    if (!kernel_.layout_known) return false;
    if (kernel_.parameters.empty() || params_ != nullptr) return true;
    const KernelWrites::Parameter& last = kernel_.parameters.back();
    return buffer_ != nullptr && uint64_t{last.offset} + last.size <= bytes_;
  }
  // The word at `offset` of a parameter; 0 where there is none.
  uint64_t word(uint32_t parameter, uint32_t offset) const {
    const KernelWrites::Parameter& where = kernel_.parameters[parameter];
    if (where.size < kPointerBytes || offset > where.size - kPointerBytes) return 0;
    const std::byte* from = nullptr;
    if (params_ != nullptr) {
      if (params_[parameter] == nullptr) return 0;
      from = static_cast<const std::byte*>(params_[parameter]) + offset;
    } else {
      from = buffer_ + where.offset + offset;
    }
    uint64_t value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  // A parameter of at most a word's size; 0 where there is none.
  uint64_t number(uint32_t parameter) const {
    const KernelWrites::Parameter& where = kernel_.parameters[parameter];
    const void* const from =
        params_ != nullptr ? params_[parameter] : static_cast<const void*>(buffer_ + where.offset);
    if (from == nullptr) return 0;
    // Loads of a fixed size: one of any size goes by way of memory, and waits for it.
    switch (where.size) {
      case 8:
        return load<uint64_t>(from);
      case 4:
        return load<uint32_t>(from);
      case 2:
        return load<uint16_t>(from);
      case 1:
        return load<uint8_t>(from);
      default:
        break;
    }
    uint64_t value = 0;
    std::memcpy(&value, from, where.size);
    return value;
  }
  template <class Visit>
  void for_each_word(uint32_t parameter, Visit&& visit) const {
    const uint32_t size = kernel_.parameters[parameter].size;
    for (uint32_t at = 0; at + kPointerBytes <= size; at += kPointerBytes) {
      visit(word(parameter, at));
    }
  }

 private:
  const KernelWrites& kernel_;
  void** params_ = nullptr;
  const std::byte* buffer_ = nullptr;
  size_t bytes_ = 0;
};

// The range, or space, that an address means: also one just behind it, as the end of an iteration
// is.
class Ranges {
 public:
  Ranges(const MemoryMap& memory, WriteSet& writes) : memory_(memory), writes_(writes) {}

  bool points(uint64_t address) const {
    return memory_.start_of(address) || (address != 0 && memory_.start_of(address - 1));
  }
  // Returns whether it points into memory.
  bool add(uint64_t address) {
    const bool inside = add_range(memory_.start_of(address));
    const bool behind = address != 0 && add_range(memory_.start_of(address - 1));
    return inside || behind;
  }

 private:
  bool add_range(std::optional<uint64_t> start) {
    if (!start) return false;
    const auto same = [start](const WriteSet::Range& there) {
      return there.address == *start && there.size == WriteSet::kWholeRange;
    };
    if (std::find_if(writes_.begin(), writes_.end(), same) == writes_.end()) {
      memory_.make_room(writes_);
      writes_.add_range_of(*start);
    }
    return true;
  }

  const MemoryMap& memory_;
  WriteSet& writes_;
};

// Below it nothing is allocated: a null pointer, or a member of what one points to.
constexpr uint64_t kFirstAddress = 65536;

// Adds what one of the words points to. False: it is none that is known of, so the address of the
// store was made in a way that is not understood.
bool add_pointer(const KernelWrites::Pointer& pointer, const Arguments& arguments, Ranges& ranges) {
  bool found = false, all_null = true;
  const auto look = [&](uint64_t address) {
    found |= ranges.add(address);
    all_null = all_null && address < kFirstAddress;
  };
  for (const Word& word : pointer.words) {
    if (word.offset == Word::kAny) {
      arguments.for_each_word(word.parameter, look);
    } else {
      look(arguments.word(word.parameter, word.offset));
    }
  }
  return found || (all_null && !pointer.hidden);
}

}  // namespace

uint64_t digest_arguments(const KernelWrites& kernel, void** params, void** extra,
                          const MemoryMap& memory, uint64_t host_begins) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;       // an odd number whose bits are as if drawn
  constexpr uint64_t kAddressesEnd = uint64_t{1} << 48;  // of the host
  constexpr uint32_t kMostPointers = 16;
  const Arguments arguments(kernel, params, extra);
  if (!arguments.known()) return 0;
  uint64_t digest = kernel.parameters.size() + 1, pointers = 0;
  for (uint32_t i = 0; i < kernel.parameters.size(); ++i) {
    if (kernel.parameters[i].size > kPointerBytes) continue;
    const uint64_t value = arguments.number(i);
    if (value >= kNumbersEnd && memory.may_be_on_device(value)) {
      // Where a variable lies is the driver's choice, another one where modules are loaded in
      // another order; the program asks for it anew.
      if (i >= kMostPointers || memory.is_in_variable(value)) continue;
      pointers |= uint64_t{1} << i;
    } else if (kernel.parameters[i].size == kPointerBytes && value >= host_begins &&
               value < kAddressesEnd) {
      continue;
    }
    digest = (digest ^ value) * kGolden;
    digest ^= digest >> 32;
  }
  return ((digest | (kDigestMask + 1)) & ~kDigestMask) | pointers;
}

Certainty collect_writes(const KernelWrites& kernel, void** params, void** extra,
                         const MemoryMap& memory, WriteSet& writes) {
  writes.add_nothing();
  const Arguments arguments(kernel, params, extra);
  if (!arguments.known()) {
    writes.add_everything();
    return Certainty::kUnknown;
  }
  Ranges ranges(memory, writes);
  bool understood = kernel.resolved;
  for (const KernelWrites::Pointer& pointer : kernel.pointers) {
    understood &= add_pointer(pointer, arguments, ranges);
  }
  for (const Word& word : kernel.numbers) {
    understood = understood && !ranges.points(arguments.word(word.parameter, word.offset));
  }
  if (understood) return kernel.proven ? Certainty::kProven : Certainty::kLikely;
  for (uint32_t i = 0; i < kernel.parameters.size(); ++i) {
    arguments.for_each_word(i, [&](uint64_t address) { (void)ranges.add(address); });
  }
  return kernel.looked_at ? Certainty::kUnknown : Certainty::kLikely;
}

}  // namespace gpusnap
