// Decompression, by an engine of the device that programs give batches of work.

#include <algorithm>
#include <atomic>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/decompressors.h"
#include "tools/simcuda/driver/device_properties.h"
#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

// Bound to memory.
struct Decompression {
  CUmemDecompressAlgorithm algorithm = CU_MEM_DECOMPRESS_UNSUPPORTED;
  std::span<const std::byte> in;
  std::span<std::byte> out;
  std::byte* written = nullptr;
};

// From `address` on: so many bytes, or with 0 all to the end of the allocation. Empty: not memory
// of which the engine knows.
std::span<std::byte> locate(Driver& state, const Memory::Hold& hold, const void* place,
                            uint64_t size) {
  const auto address = reinterpret_cast<uint64_t>(place);
  const Allocation* found = state.memory.find(hold, address);
  if (found == nullptr || !can_decompress(*found)) return {};
  if (size == 0) size = found->address + found->size - address;
  std::byte* const host = state.memory.resolve(hold, address, size);
  if (host == nullptr) return {};
  return {host, size};
}

CUresult describe(Driver& state, const Memory::Hold& hold, const CUmemDecompressParams& asked,
                  Decompression* one) {
  const bool zeros =
      std::all_of(asked.padding, std::end(asked.padding), [](auto byte) { return byte == 0; });
  const auto algorithm = static_cast<unsigned>(asked.algo);
  const bool known = algorithm != 0 && (algorithm & (algorithm - 1)) == 0 &&
                     (algorithm & ~static_cast<unsigned>(kDecompressAlgorithms)) == 0;
  if (!zeros || !known || asked.srcNumBytes == 0 || asked.srcNumBytes > kMostToDecompress ||
      asked.dstNumBytes > kMostToDecompress ||
      reinterpret_cast<uint64_t>(asked.dstActBytes) % sizeof(cuuint32_t) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  one->algorithm = asked.algo;
  one->in = locate(state, hold, asked.src, asked.srcNumBytes);
  one->out = locate(state, hold, asked.dst, asked.dstNumBytes);
  one->written = locate(state, hold, asked.dstActBytes, sizeof(cuuint32_t)).data();
  const bool located = !one->in.empty() && !one->out.empty() && one->written != nullptr;
  return located ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// They have no order: done from the last to the first, so that one that reads what another writes
// shows.
WorkQueue::Task task_of(Driver& state, Context& context, std::vector<Decompression> all) {
  return [&state, &context, all = std::move(all)] {
    state.engines.run(context, Engine::kCopy, [&] {
      Effort effort{.copies = all.size()};
      for (auto one = all.rbegin(); one != all.rend(); ++one) {
        const auto written = decompress(one->algorithm, one->in, one->out);
        if (!written) {
          context.fail(CUDA_ERROR_LAUNCH_FAILED,
                       "decompression: the data is damaged, or its "
                       "place too small");
          break;
        }
        std::atomic_ref(*reinterpret_cast<cuuint32_t*>(one->written))
            .store(static_cast<cuuint32_t>(*written), std::memory_order_relaxed);
        effort.bytes += *written;
      }
      return effort;
    });
  };
}

}  // namespace
}  // namespace simcuda

using simcuda::Context;
using simcuda::Driver;
using simcuda::Stream;

CUresult cuMemBatchDecompressAsync(CUmemDecompressParams* params, size_t count, unsigned flags,
                                   size_t* failed, CUstream handle) {
  size_t at = SIZE_MAX;  // none in particular
  const CUresult result =
      simcuda::queue_in(handle, [&](Driver& state, Context& context, Stream& stream) {
        if (params == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
        auto hold = state.memory.hold();
        std::vector<simcuda::Decompression> all(count);
        for (at = 0; at < count; ++at) {
          const CUresult bad = simcuda::describe(state, hold, params[at], &all[at]);
          if (bad != CUDA_SUCCESS) return bad;
        }
        at = SIZE_MAX;
        context.submit(stream, simcuda::task_of(state, context, std::move(all)));
        return CUDA_SUCCESS;
      });
  if (result != CUDA_SUCCESS && failed != nullptr) *failed = at;
  return result;
}
