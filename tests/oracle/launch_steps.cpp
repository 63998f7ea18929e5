// Kernels: launched on what their arguments name, or on what lies behind pointers in device memory.
#include <cstring>

#include "tests/oracle/program.h"

namespace oracle {

CUfunction Program::function(const char* name) {
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, module_, name));
  return function;
}

void Program::launch_step() {
  const uint64_t kind = draw_.below(14);
  if (kind < 7) return launch_on_one(kind);
  if (kind < 12) return launch_on_two(kind - 7);
  if (kind == 12) return launch_spread();
  const CUstream stream = pick_stream();
  const auto count = static_cast<unsigned>(draw_.between(1, kCounters));
  touch(*counters_, stream);
  launch("count_in_module", stream, 500, draw_.word() % kCounters, count, draw_.word());
}

void Program::launch_on_one(uint64_t kind) {
  const CUstream stream = pick_stream();
  const unsigned value = draw_.word();
  const Part to = pick_part(pick_memory());
  touch(*to.memory, stream);
  switch (kind) {
    case 0:
      return (void)launch("fill", stream, to.words(), to.pointer(), to.words(), value);
    case 1: {
      const auto step = static_cast<unsigned>(draw_.between(1, to.words()));
      const unsigned count = (to.words() - 1) / step + 1;
      return (void)launch("touch", stream, count, to.pointer(), count, step, value);
    }
    case 2: {
      const auto skipped = static_cast<unsigned>(draw_.below(4));
      const auto bytes = static_cast<unsigned>(to.size) - skipped;
      return (void)launch("touch_bytes", stream, bytes, to.address + skipped, bytes, value);
    }
    case 3: {
      const CUdeviceptr aligned = (to.address + 15) / 16 * 16;
      if (aligned + 16 > to.address + to.size) return;
      const auto words = static_cast<unsigned>((to.address + to.size - aligned) / 4);
      return (void)launch("fill_wide", stream, words / 4, aligned, words, value);
    }
    case 4:
      return (void)launch("call_function", stream, to.words(), to.pointer(), to.words(), value);
    case 5:
      return (void)launch("reverse", stream, to.words(), to.pointer(), to.words());
    default:
      return (void)launch("ponder", stream, std::min(to.words(), 512u), to.pointer(), to.words(),
                          static_cast<unsigned>(draw_.between(100, 3000)), value);
  }
}

void Program::launch_on_two(uint64_t kind) {
  const CUstream stream = pick_stream();
  const unsigned value = draw_.word();
  const auto [from, to] = pick_two();
  if (from.memory == nullptr) return;
  const unsigned words = std::min(from.words(), to.words());
  touch(*from.memory, stream);
  touch(*to.memory, stream);
  switch (kind) {
    case 0:
      return (void)launch("move", stream, words, Moved{from.pointer(), to.pointer(), words, value});
    case 1: {
      touch(*salts_, stream);
      // The mark is the last word, which nothing else of this launch writes.
      const unsigned moved = words - 1;
      return (void)launch("move_nested", stream, words, value,
                          Nested{value + 1,
                                 {from.pointer(), to.pointer(), moved, 3},
                                 {to.pointer() + moved, 0x123456789abcdefull}},
                          value * 3);
    }
    case 2:
      return (void)launch("either", stream, words, from.pointer(), to.pointer(), words, value);
    case 3:
      return (void)launch("count_up", stream, from.words(), to.pointer(), to.words(),
                          from.pointer(), from.words());
    default:
      return (void)launch("sum", stream, from.words(), from.pointer(), from.words(), to.pointer());
  }
}

void Program::launch_spread() {
  const CUstream stream = pick_stream();
  Targets targets{{}, 1024, draw_.word()};
  for (unsigned*& at : targets.at) {
    const Part part = pick_part(pick_memory());
    touch(*part.memory, stream);
    at = part.pointer();
    targets.count = std::min(targets.count, part.words());
  }
  // Where targets overlap, threads could write one word twice: each goes one word at a time.
  void* parameters[] = {&targets};
  CHECK(cuLaunchKernel(function("spread"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
}

// Through pointers that the launch's arguments do not show.
void Program::launch_through_memory() {
  draw_.chance(30) ? launch_through_variable() : launch_through_table();
}

// The pointer is a variable of the module, set by the host or by a kernel.
void Program::launch_through_variable() {
  const CUstream stream = pick_stream();
  trace("  through target\n");
  const Part to = pick_part(pick_memory());
  touch(*target_, stream);
  bool aimed = false;
  if (draw_.chance(50)) {
    aimed = launch("aim", stream, 1, to.pointer());
  } else {
    auto& bytes = host_bytes(8);
    std::memcpy(bytes.data(), &to.address, 8);
    aimed = TRY(cuMemcpyHtoDAsync_v2(target_->address, bytes.data(), 8, stream));
  }
  if (!aimed) return;
  if (draw_.chance(50)) wait_for(stream);
  touch(*target_, stream);
  touch(*to.memory, stream);
  launch("through_target", stream, to.words(), to.words(), draw_.word());
}

// A table of pointers, or a list of boxes that have them.
void Program::launch_through_table() {
  const CUstream stream = pick_stream();
  const unsigned value = draw_.word();
  // Every word is named by one pointer at most: targets are different memories.
  std::vector<Part> parts;
  Memory& table = pick_memory();
  for (const auto& memory : memories_) {
    if (memory.get() != &table && draw_.chance(50) && parts.size() < 8) {
      parts.push_back(pick_part(*memory));
    }
  }
  const bool boxes = draw_.chance(50);
  const uint64_t entry = boxes ? sizeof(Box) : 8;
  while (!parts.empty() && parts.size() * entry > table.size) parts.pop_back();
  if (parts.empty() || table.address % 8 != 0) return;
  const auto& bytes = boxes ? boxes_of(parts, table.address, value) : pointers_to(parts);
  touch(table, stream);
  if (!TRY(cuMemcpyHtoDAsync_v2(table.address, bytes.data(), bytes.size(), stream))) return;
  if (draw_.chance(50)) wait_for(stream);
  touch(table, stream);
  unsigned words = 4096;
  for (const Part& part : parts) {
    touch(*part.memory, stream);
    words = std::min(words, part.words());
  }
  if (boxes) {
    launch("through_boxes", stream, words, table.address);
  } else {
    launch("through_table", stream, words * parts.size(), table.address,
           static_cast<unsigned>(parts.size()), words, value);
  }
  // Addresses may be others in another run, and must not come into what the program computes.
  CHECK(cuMemsetD8Async(table.address, 0, parts.size() * entry, stream));
}

const std::vector<unsigned char>& Program::pointers_to(const std::vector<Part>& parts) {
  auto& bytes = host_bytes(parts.size() * 8);
  for (size_t i = 0; i < parts.size(); ++i) {
    std::memcpy(bytes.data() + i * 8, &parts[i].address, 8);
  }
  return bytes;
}

const std::vector<unsigned char>& Program::boxes_of(const std::vector<Part>& parts,
                                                    CUdeviceptr address, unsigned value) {
  auto& bytes = host_bytes(parts.size() * sizeof(Box));
  for (size_t i = 0; i < parts.size(); ++i) {
    const CUdeviceptr next = i + 1 < parts.size() ? address + (i + 1) * sizeof(Box) : 0;
    const Box box{parts[i].pointer(), std::min(parts[i].words(), 4096u), value,
                  reinterpret_cast<Box*>(next)};
    std::memcpy(bytes.data() + i * sizeof box, &box, sizeof box);
  }
  return bytes;
}

}  // namespace oracle
