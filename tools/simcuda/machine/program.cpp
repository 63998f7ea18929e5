// A module from its syntax tree to code that can be launched.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "tools/simcuda/machine/built_in.h"
#include "tools/simcuda/machine/decoder.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

namespace {

constexpr uint32_t kMostRegisters = 255;
constexpr uint32_t kDefaultMaxThreads = 1024;
constexpr uint32_t kRegistersOfBlock = 65536;

// A value for each lane; a predicate is one mask.
void lay_out(std::vector<std::byte>& bytes, const Constant& constant, uint64_t value) {
  std::byte* at = bytes.data() + bytes.size() + constant.slot;
  if (constant.bits == 1) {
    const uint32_t mask = value != 0 ? UINT32_MAX : 0;
    std::memcpy(at, &mask, sizeof mask);
    return;
  }
  const size_t size = constant.bits / 8;
  for (uint32_t i = 0; i < kLanes; ++i) std::memcpy(at + i * size, &value, size);
}

class DecodedProgram final : public Program {
 public:
  bool decode(std::unique_ptr<const ptx::Module> module, LoadError* error) {
    code_.module = std::move(module);
    code_.functions.resize(code_.module->functions.size());
    const Layout layout(code_);
    for (uint32_t f = 0; f < code_.functions.size(); ++f) {
      code_.functions[f].source = &code_.module->functions[f];
      if (!code_.module->functions[f].has_body) continue;
      if (!Decoder(layout, code_, f).run(error)) return false;
    }
    add_kernels();
    return true;
  }

  std::vector<GlobalPlacement>& globals() override { return code_.globals; }

  std::vector<std::vector<std::byte>> bind() override {
    for (CodeFunction& function : code_.functions) {
      int32_t size = 0;
      for (const Constant& c : function.constants) size = std::max(size, -c.slot);
      // Whole lines, so that the end they are counted from is aligned as registers are.
      function.constant_bytes.assign(static_cast<size_t>(size), std::byte{0});
      for (const Constant& c : function.constants) {
        const uint64_t base = c.symbol == UINT32_MAX ? 0 : code_.globals[c.symbol].address;
        lay_out(function.constant_bytes, c, base + c.value);
      }
    }
    std::vector<std::vector<std::byte>> initial;
    for (const GlobalPlacement& global : code_.globals) initial.push_back(contents(global));
    return initial;
  }

  std::vector<std::string_view> kernel_names() const override {
    std::vector<std::string_view> names;
    for (const Kernel& k : code_.kernels) names.push_back(k.info.name);
    return names;
  }

  bool uses_heap() const override {
    return std::any_of(code_.functions.begin(), code_.functions.end(),
                       [](const CodeFunction& each) {
                         if (each.decoded) return false;
                         const auto built_in = built_in_named(each.source->name);
                         return built_in == BuiltIn::kMalloc || built_in == BuiltIn::kFree;
                       });
  }

  const Kernel* kernel(std::string_view name) const override {
    for (const Kernel& k : code_.kernels) {
      if (k.info.name == name) return &k;
    }
    return nullptr;
  }

 private:
  void add_kernels() {
    for (uint32_t f = 0; f < code_.functions.size(); ++f) {
      const ptx::Function& source = code_.module->functions[f];
      if (!source.is_kernel || !code_.functions[f].decoded) continue;
      Kernel& kernel = code_.kernels.emplace_back();
      kernel.code = &code_;
      kernel.function = f;
      kernel.info.name = source.name;
      kernel.info.parameter_bytes = source.parameter_bytes;
      for (const ptx::Variable& p : source.parameters) {
        kernel.info.parameters.push_back({p.offset, p.size});
      }
      kernel.info.static_shared_bytes = code_.functions[f].shared_bytes;
      kernel.info.local_bytes = code_.functions[f].stack_bytes;
      const uint32_t* limit =
          source.required_threads[0] != 0 ? source.required_threads : source.max_threads;
      uint64_t threads = 1;
      for (int d = 0; d < 3; ++d) threads *= std::max(limit[d], 1u);
      kernel.info.max_threads_per_block =
          limit[0] == 0 ? kDefaultMaxThreads
                        : static_cast<uint32_t>(std::min<uint64_t>(threads, kDefaultMaxThreads));
      // As a compiler does, no more than leave room for the largest block: the PTX names far more
      // registers than are needed at a time.
      const uint32_t room = kRegistersOfBlock / kernel.info.max_threads_per_block;
      kernel.info.registers =
          std::min({kMostRegisters, room, static_cast<uint32_t>(source.registers.size()) + 1});
    }
  }

  // The address of a variable or function by name; 0 where there is none.
  uint64_t address_of(std::string_view name) const {
    for (const GlobalPlacement& g : code_.globals) {
      if (g.name == name) return g.address;
    }
    for (uint32_t f = 0; f < code_.module->functions.size(); ++f) {
      if (code_.module->functions[f].name == name) return kCodeWindow + f * kCodeStep;
    }
    return 0;
  }

  std::vector<std::byte> contents(const GlobalPlacement& global) const {
    const ptx::Variable& v = *global.variable;
    std::vector<std::byte> bytes(v.size);
    if (!v.initial.empty()) {
      std::memcpy(bytes.data(), v.initial.data(), std::min<size_t>(v.initial.size(), v.size));
    }
    for (const ptx::Relocation& r : v.relocations) {
      const uint64_t value = address_of(r.symbol) + static_cast<uint64_t>(r.addend);
      if (r.offset + r.bytes <= bytes.size() && r.bytes <= sizeof value) {
        std::memcpy(bytes.data() + r.offset, &value, r.bytes);
      }
    }
    return bytes;
  }

  Code code_;
};

}  // namespace

const Extent* ExtentTable::find(uint64_t address) const {
  auto after = std::upper_bound(extents.begin(), extents.end(), address,
                                [](uint64_t a, const Extent& e) { return a < e.address; });
  if (after == extents.begin()) return nullptr;
  const Extent& e = *std::prev(after);
  return address - e.address < e.size ? &e : nullptr;
}

std::unique_ptr<Program> Program::decode(std::unique_ptr<const ptx::Module> module,
                                         LoadError* error) {
  auto program = std::make_unique<DecodedProgram>();
  if (!program->decode(std::move(module), error)) return nullptr;
  return program;
}

const KernelInfo& info(const Kernel& kernel) {
  return kernel.info;
}

}  // namespace simcuda
