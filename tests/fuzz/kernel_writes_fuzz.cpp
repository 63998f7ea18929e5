// PTX text, or any other image: what is concluded of its kernels stays inside of their parameters,
// and a launch with just those parameters reads nothing else.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "tracker/kernel_writes.h"

namespace {

using namespace gpusnap;

void require(bool holds) {
  if (!holds) __builtin_trap();
}

// More than any launch takes; what says that it has more is not launched.
constexpr uint32_t kMostBytes = 1 << 16;

void check_word(const KernelWrites& kernel, const KernelWrites::Word& word) {
  require(word.parameter < kernel.parameters.size());
  const uint32_t size = kernel.parameters[word.parameter].size;
  if (word.offset == KernelWrites::Word::kAny) return require(size >= 8);
  require(size >= 8 && word.offset <= size - 8);
}

// Arguments whose bytes are all the same, each in memory of its own size.
void launch(const KernelWrites& kernel, uint8_t fill, const MemoryMap& memory) {
  std::vector<std::unique_ptr<uint8_t[]>> arguments;
  std::vector<void*> params;
  for (const KernelWrites::Parameter& parameter : kernel.parameters) {
    if (parameter.size > kMostBytes) return;
    arguments.push_back(std::make_unique<uint8_t[]>(parameter.size));
    std::memset(arguments.back().get(), fill, parameter.size);
    params.push_back(arguments.back().get());
  }
  if (params.empty()) return;
  WriteSet set;
  const Certainty known = collect_writes(kernel, params.data(), nullptr, memory, set);
  require(set.said());
  require(known != Certainty::kProven || (kernel.proven && kernel.resolved));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ImageContents image = read_image(std::as_bytes(std::span(data, size)));
  const KernelCode code(image, 90);
  MemoryMap memory;
  (void)memory.insert({0x0101'0101'0101'0000, 0x8000, MemoryKind::kDevice, {}, 0, 0, ""});
  for (const std::string& name : code.names()) {
    const KernelWrites kernel = code.find(name);
    require(kernel.name == name);
    require(kernel.proven == kernel.reason.empty());
    require(kernel.resolved || !kernel.proven);
    for (const KernelWrites::Pointer& pointer : kernel.pointers) {
      require(!pointer.words.empty());
      for (const KernelWrites::Word& word : pointer.words) check_word(kernel, word);
    }
    for (const KernelWrites::Word& word : kernel.numbers) check_word(kernel, word);
    for (const uint8_t fill : {0, 1, 255}) launch(kernel, fill, memory);
  }
  return 0;
}
