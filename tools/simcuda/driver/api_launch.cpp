// Kernels: launched, and how many would fit.

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/device_properties.h"
#include "tools/simcuda/driver/functions.h"

namespace simcuda {
namespace {

constexpr unsigned kKernelRegisters = 65536;  // of a multiprocessor

CUresult error_of(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::kNone:
    case Fault::Kind::kCancelled:
      return CUDA_SUCCESS;
    case Fault::Kind::kIllegalAddress:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case Fault::Kind::kMisalignedAddress:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case Fault::Kind::kInvalidAddressSpace:
      return CUDA_ERROR_INVALID_ADDRESS_SPACE;
    case Fault::Kind::kIllegalInstruction:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case Fault::Kind::kTrap:
      return CUDA_ERROR_LAUNCH_FAILED;
    case Fault::Kind::kAssert:
      return CUDA_ERROR_ASSERT;
    case Fault::Kind::kStackOverflow:
      return CUDA_ERROR_HARDWARE_STACK_ERROR;
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult check_shape(const Function& function, const Dim3& grid, const Dim3& block,
                     uint64_t shared) {
  const KernelInfo& kernel = info(*function.kernel);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0 ||
      grid.x > kMaxGridX || grid.y > kMaxGridYZ || grid.z > kMaxGridYZ ||
      block.x > kMaxThreadsPerBlock || block.y > kMaxThreadsPerBlock || block.z > kMaxBlockZ) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads > kMaxThreadsPerBlock || threads > kernel.max_threads_per_block ||
      shared > static_cast<uint64_t>(max_dynamic_shared(function))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// The parameter block from the pointers to each parameter.
CUresult gather(const KernelInfo& kernel, void** parameters, std::vector<std::byte>* block) {
  if (parameters == nullptr) {
    return kernel.parameters.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const auto& parameter = kernel.parameters[i];
    if (parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(block->data() + parameter.offset, parameters[i], parameter.size);
  }
  return CUDA_SUCCESS;
}

// The parameter block as the program laid it out itself.
CUresult unpack(void** extra, std::vector<std::byte>* block) {
  const void* buffer = nullptr;
  std::optional<size_t> size;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = extra[1];
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1] != nullptr) {
      size = *static_cast<const size_t*>(extra[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (!size || *size < block->size() || (buffer == nullptr && !block->empty())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!block->empty()) std::memcpy(block->data(), buffer, block->size());
  return CUDA_SUCCESS;
}

// Everything that a launch keeps alive until it has run.
struct QueuedKernel {
  Driver& driver;
  std::shared_ptr<Context> context;
  std::shared_ptr<Module> module;
  std::shared_ptr<Function> function;
  Dim3 grid, block;
  uint64_t shared;
  std::vector<std::byte> parameters;
  bool cooperative;
  // As it was when the launch was queued: memory that is freed later stays until this has run.
  std::shared_ptr<const ExtentTable> memory;
  std::shared_ptr<const ImageTable> images;

  void operator()() const {
    Launch launch;
    launch.kernel = function->kernel;
    launch.grid = grid;
    launch.block = block;
    launch.dynamic_shared_bytes = shared;
    launch.parameters = parameters.data();
    launch.memory = memory;
    launch.images = images;
    launch.cooperative = cooperative;
    launch.heap = context->heap();
    launch.print = [this](std::string_view text) { context->printed(text); };
    Fault fault;
    driver.engines.run(*context, Engine::kCompute, [&] {
      if (driver.engines.clock() != nullptr) {
        launch.timer = static_cast<uint64_t>(driver.engines.now());
      }
      LaunchTotals totals;
      Counters& counters = driver.counters_for(function->name);
      const bool counted = &counters == &driver.stats.machine;
      if (counted && !function->launched.exchange(true)) ++driver.stats.kernels;
      fault = run(launch, counters, context->cancelled(), &totals);
      if (launch.heap != nullptr && launch.heap->blocks() != 0) ++driver.stats.heap_left;
      return Effort{totals.device_bytes, totals.host_bytes, totals.instructions,
                    totals.timer_nanoseconds};
    });
    CUresult error = error_of(fault.kind);
    if (error != CUDA_SUCCESS && context->fail(error, fault.message)) ++driver.stats.faults;
  }
};

CUresult launch(CUfunction handle, const Dim3& grid, const Dim3& block, uint64_t shared,
                CUstream stream_handle, void** parameters, void** extra, bool cooperative) {
  KernelCall call;
  auto check = [&](Driver& state, Context& context) {
    const CUresult bad =
        check_kernel(state, context, handle, grid, block, shared, parameters, extra, &call);
    return bad != CUDA_SUCCESS || !cooperative ? bad : make_cooperative(state, &call);
  };
  return queue_or_capture(
      stream_handle,
      [&](Driver& state, Context& context, Work* work) {
        CUresult result = check(state, context);
        if (result == CUDA_SUCCESS) *work = std::move(call);
        return result;
      },
      [&](Driver& state, Context& context, Stream& stream) {
        CUresult result = check(state, context);
        WorkQueue::Task task;
        if (result != CUDA_SUCCESS) return result;
        if (state.faults.strike(FaultPoint::kLaunch)) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        result = kernel_task(state, call, &task);
        if (result == CUDA_SUCCESS) context.submit(stream, std::move(task));
        return result;
      });
}

// Attributes that ask for what a launch does not give here.
CUresult check_attributes(const CUlaunchConfig& config, bool* cooperative) {
  if (config.numAttrs != 0 && config.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    const auto& cluster = attribute.value.clusterDim;
    switch (attribute.id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        *cooperative = attribute.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (cluster.x > 1 || cluster.y > 1 || cluster.z > 1) return CUDA_ERROR_NOT_SUPPORTED;
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        break;  // hints
    }
  }
  return CUDA_SUCCESS;
}

// Blocks of a kernel that one multiprocessor holds.
int blocks_that_fit(const Driver& state, const Function& function, int threads, uint64_t shared) {
  const KernelInfo& kernel = info(*function.kernel);
  const DeviceProperties device = device_properties(state.settings.arch);
  if (threads > static_cast<int>(kernel.max_threads_per_block)) return 0;
  int rounded = (threads + kWarp - 1) / kWarp * kWarp;
  int blocks =
      std::min(device.blocks_per_multiprocessor, device.threads_per_multiprocessor / rounded);
  unsigned registers = std::max(kernel.registers, 1u) * static_cast<unsigned>(rounded);
  blocks = std::min(blocks, static_cast<int>(kKernelRegisters / registers));
  uint64_t used = kernel.static_shared_bytes + shared;
  if (used > static_cast<uint64_t>(device.shared_per_block_optin)) return 0;
  if (used != 0) {
    blocks = static_cast<int>(
        std::min<uint64_t>(static_cast<uint64_t>(blocks),
                           static_cast<uint64_t>(device.shared_per_multiprocessor) / used));
  }
  return blocks;
}

// body(Driver&, const Function&)
template <class Body>
CUresult with_function(CUfunction handle, Body&& body) {
  return in_context([&](Driver& state, Context&) {
    std::shared_ptr<Function> function;
    CUresult result = find_function(state, handle, &function);
    return result != CUDA_SUCCESS ? result : static_cast<CUresult>(body(state, *function));
  });
}

}  // namespace

CUresult check_kernel(Driver& driver, Context& context, CUfunction handle, const Dim3& grid,
                      const Dim3& block, uint64_t shared, void** parameters, void** extra,
                      KernelCall* call) {
  std::shared_ptr<Function> function;
  CUresult result = find_function(driver, handle, &function);
  if (result != CUDA_SUCCESS) return result;
  auto module = function->module.lock();
  if (!module || module->context != context.handle()) return CUDA_ERROR_INVALID_HANDLE;
  result = check_shape(*function, grid, block, shared);
  if (result != CUDA_SUCCESS) return result;
  if (parameters != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const KernelInfo& kernel = info(*function->kernel);
  std::vector<std::byte> values(kernel.parameter_bytes);
  result = extra != nullptr ? unpack(extra, &values) : gather(kernel, parameters, &values);
  if (result != CUDA_SUCCESS) return result;
  *call = {function->handle, context.handle(), grid, block, shared, std::move(values), false};
  return CUDA_SUCCESS;
}

CUresult make_cooperative(Driver& driver, KernelCall* call) {
  const auto function = driver.functions.find(call->function);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  const uint64_t blocks = uint64_t{call->grid.x} * call->grid.y * call->grid.z;
  const auto threads = static_cast<int>(call->block.x * call->block.y * call->block.z);
  const auto fit = static_cast<uint64_t>(blocks_that_fit(driver, *function, threads, call->shared));
  if (blocks > fit * kMultiprocessors) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  call->cooperative = true;
  return CUDA_SUCCESS;
}

CUresult kernel_task(Driver& driver, const KernelCall& call, WorkQueue::Task* task) {
  auto function = driver.functions.find(call.function);
  auto module = function ? function->module.lock() : nullptr;
  auto context = driver.contexts.find(call.context);
  if (!module || !context) return CUDA_ERROR_INVALID_HANDLE;
  auto memory = driver.memory.table(context->device());
  *task =
      QueuedKernel{driver,           std::move(context), std::move(module),    std::move(function),
                   call.grid,        call.block,         call.shared,          call.values,
                   call.cooperative, std::move(memory),  driver.arrays.table()};
  return CUDA_SUCCESS;
}

}  // namespace simcuda

using simcuda::Driver;
using simcuda::Function;
using simcuda::with_function;

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** params, void** extra) {
  return simcuda::launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
                         shared_bytes, stream, params, extra, false);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params,
                          void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  bool cooperative = false;
  if (CUresult bad = simcuda::check_attributes(*config, &cooperative); bad != CUDA_SUCCESS) {
    return simcuda::in_context([bad](auto&, auto&) { return bad; });
  }
  return simcuda::launch(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                         {config->blockDimX, config->blockDimY, config->blockDimZ},
                         config->sharedMemBytes, config->hStream, params, extra, cooperative);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void** params) {
  return simcuda::launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
                         shared_bytes, stream, params, nullptr, true);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                     int block_size, size_t shared_bytes) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                              shared_bytes, 0);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle,
                                                              int block_size, size_t shared_bytes,
                                                              unsigned flags) {
  return with_function(handle, [&](Driver& state, Function& function) {
    if (blocks == nullptr || block_size <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *blocks = simcuda::blocks_that_fit(state, function, block_size, shared_bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuOccupancyMaxPotentialBlockSize(int* min_grid, int* block_size, CUfunction function,
                                          CUoccupancyB2DSize shared_of_block, size_t shared_bytes,
                                          int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block_size, function, shared_of_block,
                                                   shared_bytes, limit, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* min_grid, int* block_size,
                                                   CUfunction handle,
                                                   CUoccupancyB2DSize shared_of_block,
                                                   size_t shared_bytes, int limit, unsigned flags) {
  return with_function(handle, [&](Driver& state, Function& function) {
    if (min_grid == nullptr || block_size == nullptr || limit < 0 ||
        flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    int most = static_cast<int>(simcuda::info(*function.kernel).max_threads_per_block);
    if (limit > 0) most = std::min(most, limit);
    int best_threads = 0;
    for (int threads = most; threads > 0;
         threads = (threads - 1) / simcuda::kWarp * simcuda::kWarp) {
      size_t shared = shared_of_block != nullptr ? shared_of_block(threads) : shared_bytes;
      int blocks = simcuda::blocks_that_fit(state, function, threads, shared);
      if (blocks * threads <= best_threads) continue;
      best_threads = blocks * threads;
      *block_size = threads;
      *min_grid = blocks * simcuda::kMultiprocessors;
    }
    return best_threads == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* shared_bytes, CUfunction handle,
                                                 int blocks, int block_size) {
  return with_function(handle, [&](Driver& state, Function& function) {
    if (shared_bytes == nullptr || blocks <= 0 || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
    const auto device = simcuda::device_properties(state.settings.arch);
    uint64_t fixed = simcuda::info(*function.kernel).static_shared_bytes;
    uint64_t share = static_cast<uint64_t>(device.shared_per_multiprocessor / blocks);
    share = std::min<uint64_t>(share, static_cast<uint64_t>(device.shared_per_block_optin));
    *shared_bytes = share > fixed ? share - fixed : 0;
    return CUDA_SUCCESS;
  });
}
