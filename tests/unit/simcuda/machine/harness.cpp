#include "tests/unit/simcuda/machine/harness.h"

#include <sstream>

namespace simcuda::test {
namespace {

constexpr const char* kHeader = ".version 8.8\n.target sm_90\n.address_size 64\n";
constexpr uint32_t kBlockThreads = 64;

uint32_t width_of(const std::string& type) {
  return type == "pred" ? 32 : static_cast<uint32_t>(std::stoul(type.substr(1)));
}

// Loads the sources, runs `code`, stores the destination; each value takes 8 bytes in memory.
std::string wrap(const std::string& code, const std::string& types) {
  std::istringstream words(types);
  std::vector<std::string> list;
  for (std::string word; words >> word;) list.push_back(word);
  constexpr const char* kSources[] = {"%a", "%b", "%c", "%f"};
  std::ostringstream out;
  out << ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 count) {\n"
      << ".reg .b64 %in, %out, %offset; .reg .b32 %i, %n, %t; .reg .pred %skip;\n"
      << ".reg ." << list[0] << " %d;\n";
  for (size_t i = 1; i < list.size(); ++i) {
    out << ".reg ." << list[i] << " " << kSources[i - 1] << ";\n";
  }
  out << "mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x;\n"
      << "mad.lo.u32 %i, %i, %n, %t; ld.param.u32 %n, [count];\n"
      << "setp.ge.u32 %skip, %i, %n; @%skip bra DONE;\n"
      << "ld.param.u64 %in, [in]; ld.param.u64 %out, [out];\n"
      << "mul.wide.u32 %offset, %i, 32; add.u64 %in, %in, %offset;\n"
      << "mul.wide.u32 %offset, %i, 8; add.u64 %out, %out, %offset;\n";
  for (size_t i = 1; i < list.size(); ++i) {
    const size_t at = (i - 1) * 8;
    if (list[i] == "pred") {
      out << "ld.global.b32 %t, [%in+" << at << "]; setp.ne.u32 " << kSources[i - 1]
          << ", %t, 0;\n";
    } else {
      out << "ld.global.b" << width_of(list[i]) << " " << kSources[i - 1] << ", [%in+" << at
          << "];\n";
    }
  }
  out << code << "\n";
  if (list[0] == "pred") {
    out << "selp.b32 %t, 1, 0, %d; st.global.b32 [%out], %t;\n";
  } else {
    out << "st.global.b" << width_of(list[0]) << " [%out], %d;\n";
  }
  out << "DONE: ret; }\n";
  return out.str();
}

}  // namespace

Machine::Machine(const std::string& text) {
  const std::string whole = text.rfind(".version", 0) == 0 ? text : kHeader + text;
  gpusnap::ptx::ParseResult parsed = gpusnap::ptx::parse(whole);
  if (parsed.module == nullptr) {
    error_ = {parsed.error.line, parsed.error.near_text, "parser: " + parsed.error.reason};
    return;
  }
  program_ = Program::decode(std::move(parsed.module), &error_);
  if (program_ == nullptr) return;
  for (GlobalPlacement& g : program_->globals()) {
    g.address = buffer(g.variable->size, g.variable->space != gpusnap::ptx::Space::kConst);
  }
  const auto contents = program_->bind();
  for (size_t i = 0; i < contents.size(); ++i) {
    std::memcpy(host(program_->globals()[i].address), contents[i].data(), contents[i].size());
  }
}

uint64_t Machine::buffer(size_t bytes, bool writable) {
  const uint64_t address = next_;
  next_ += (bytes + kGap) / kGap * kGap + kGap;
  memory_.push_back(std::make_unique<std::byte[]>(bytes + 16));
  table_->extents.push_back({address, bytes, memory_.back().get(), writable});
  return address;
}

std::byte* Machine::host(uint64_t address) {
  const Extent* e = table_->find(address);
  return e == nullptr ? nullptr : e->host + (address - e->address);
}

uint64_t Machine::global(std::string_view name) {
  for (const GlobalPlacement& g : program_->globals()) {
    if (g.name == name) return g.address;
  }
  return 0;
}

Fault Machine::launch(std::string_view kernel, Dim3 grid, Dim3 block,
                      const std::vector<uint64_t>& parameters, uint64_t shared_bytes) {
  Launch launch;
  launch.kernel = program_->kernel(kernel);
  if (launch.kernel == nullptr) return {Fault::Kind::kIllegalInstruction, "no such kernel"};
  std::vector<std::byte> bytes(std::max<uint64_t>(info(*launch.kernel).parameter_bytes, 8));
  const auto& places = info(*launch.kernel).parameters;
  for (size_t i = 0; i < places.size() && i < parameters.size(); ++i) {
    std::memcpy(bytes.data() + places[i].offset, &parameters[i],
                std::min<uint64_t>(places[i].size, 8));
  }
  launch.grid = grid;
  launch.block = block;
  launch.dynamic_shared_bytes = shared_bytes;
  launch.parameters = bytes.data();
  launch.memory = table_;
  launch.images = images;
  launch.cooperative = cooperative;
  launch.heap = heap;
  launch.print = [this](std::string_view text) { printed += text; };
  return run(launch, counters, cancel);
}

std::vector<uint64_t> evaluate(const std::string& code, const std::string& types,
                               const std::vector<Inputs>& inputs) {
  Machine machine(wrap(code, types));
  if (!machine.ok()) {
    ADD_FAILURE() << code << ": " << machine.error().instruction << ": " << machine.error().reason;
    return std::vector<uint64_t>(inputs.size(), 0xdead);
  }
  const uint64_t in = machine.buffer(inputs);
  const uint64_t out = machine.buffer(inputs.size() * 8);
  const auto count = static_cast<uint32_t>(inputs.size());
  const Fault fault = machine.launch("k", {(count + kBlockThreads - 1) / kBlockThreads, 1, 1},
                                     {kBlockThreads, 1, 1}, {in, out, count});
  EXPECT_EQ(fault.kind, Fault::Kind::kNone) << code << ": " << fault.message;
  return machine.read<uint64_t>(out, inputs.size());
}

std::string decode_error(const std::string& code, const std::string& types) {
  return Machine(wrap(code, types)).error().reason;
}

}  // namespace simcuda::test
