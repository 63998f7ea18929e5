// The one line that says where and why a kernel failed.
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "tools/simcuda/machine/block.h"

namespace simcuda {
namespace {

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string triple(uint32_t x, uint32_t y, uint32_t z) {
  char text[48];
  std::snprintf(text, sizeof text, "(%u,%u,%u)", x, y, z);
  return text;
}

std::string bytes(uint64_t count) {
  return std::to_string(count).append(" bytes");
}

// The extent that holds the address or ends next before it, or the first after it.
std::string nearest(const LaunchContext& context, uint64_t address) {
  if (!context.launch->memory || context.launch->memory->extents.empty()) {
    return "there is no allocation";
  }
  const std::vector<Extent>& extents = context.launch->memory->extents;
  auto after = std::upper_bound(extents.begin(), extents.end(), address,
                                [](uint64_t a, const Extent& e) { return a < e.address; });
  const Extent* best = nullptr;
  uint64_t distance = UINT64_MAX;
  if (after != extents.begin()) {
    best = &*std::prev(after);
    distance = address < best->end() ? 0 : address - best->end();
  }
  if (after != extents.end() && after->address - address < distance) {
    best = &*after;
    distance = after->address - address;
  }
  std::string text = "allocation " + hex(best->address) + " of " + bytes(best->size);
  if (distance == 0 && address < best->end() && address >= best->address) return "inside " + text;
  return bytes(distance) + (address < best->address ? " before " : " after the end of ") + text;
}

std::string place_of(const LaunchContext& context, const Warp& warp) {
  const uint64_t address = warp.fault_address;
  if (address - kSharedWindow < kWindowBytes) {
    return "shared address " + hex(address - kSharedWindow) + ", the block has " +
           bytes(context.shared_bytes) + " of shared memory";
  }
  if (address - kLocalWindow < kWindowBytes) {
    return "local address " + hex(address - kLocalWindow) + ", a thread has " +
           bytes(context.local_bytes) + " of local memory";
  }
  if (address - kParameterWindow < kWindowBytes) {
    return "parameter offset " + hex(address - kParameterWindow) + ", the kernel has " +
           bytes(warp.parameter_bytes) + " of parameters";
  }
  return "address " + hex(address) + ", " + nearest(context, address);
}

std::string reason_of(const LaunchContext& context, const Warp& warp) {
  if (!warp.fault_reason.empty()) return warp.fault_reason;
  const std::string access =
      std::string(warp.fault_write ? "write" : "read") + " of " + bytes(warp.fault_bytes);
  const std::string place = place_of(context, warp);
  switch (warp.fault) {
    case AccessFault::kMisaligned:
      return "misaligned " + access + " at " + place;
    case AccessFault::kReadOnly:
      return access + " to read-only memory at " + place;
    default:
      return access + " out of bounds at " + place;
  }
}

}  // namespace

std::string text_at(const WarpView& warp, uint64_t address) {
  constexpr size_t kMost = 1000;
  const Extent* end = warp.extents + warp.extent_count;
  const Extent* after =
      std::upper_bound(warp.extents, end, address,
                       [](uint64_t a, const Extent& extent) { return a < extent.address; });
  if (after == warp.extents || address >= std::prev(after)->end()) return "?";
  const Extent& extent = *std::prev(after);
  const std::byte* at = extent.host + (address - extent.address);
  const uint64_t most = std::min<uint64_t>(extent.end() - address, kMost);
  std::string text;
  for (uint64_t i = 0; i < most && at[i] != std::byte{0}; ++i) {
    const auto c = static_cast<unsigned char>(at[i]);
    text += c < ' ' || c == 0x7f ? '?' : static_cast<char>(c);
  }
  return text;
}

std::string describe_fault(const LaunchContext& context, const Warp& warp, Dim3 block) {
  const uint32_t lane = warp.fault_lane;
  std::string where;
  const auto& instructions = warp.fault_code->source->instructions;
  if (!instructions.empty()) {
    const gpusnap::ptx::Instruction& in = instructions[warp.fault_op->instruction];
    std::string text(in.text);
    std::replace(text.begin(), text.end(), '\n', ' ');
    where = ", line " + std::to_string(in.line) + " '" + text + "'";
  }
  return "kernel " + context.kernel->source->name + where + ", block " +
         triple(block.x, block.y, block.z) + ", thread " +
         triple(warp.thread[0][lane], warp.thread[1][lane], warp.thread[2][lane]) + ": " +
         reason_of(context, warp);
}

}  // namespace simcuda
