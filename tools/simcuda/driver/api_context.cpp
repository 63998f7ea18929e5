// Contexts: made, primary, current, and their settings.

#include <utility>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

constexpr unsigned kApiVersion = 3020;

bool good_flags(unsigned flags) {
  unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) == 0 &&
         (schedule & (schedule - 1)) == 0;
}

CUresult create(CUcontext* context, unsigned flags, CUdevice device) {
  return in_driver([&](Driver& state) {
    if (context == nullptr || !good_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
    if (!state.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    CUcontext handle = state.contexts.reserve();
    state.make_context(handle, device, flags, false);
    context_stack().push_back(handle);
    *context = handle;
    return CUDA_SUCCESS;
  });
}

// body(Driver&, Context&) with the given context, or the current one for null. Works for a context
// that is lost, too.
template <class Body>
CUresult with_context(CUcontext handle, Body&& body) {
  return in_driver([&](Driver& state) {
    std::shared_ptr<Context> context;
    if (handle == nullptr) {
      if (CUresult result = state.current(&context); result != CUDA_SUCCESS) return result;
    } else {
      context = state.contexts.find(handle);
      if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    }
    return static_cast<CUresult>(body(state, *context));
  });
}

// body(Driver&, PrimaryContext&) under the lock.
template <class Body>
CUresult with_primary(CUdevice device, Body&& body) {
  return in_driver([&](Driver& state) {
    if (!state.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(state.primary_mutex);
    return static_cast<CUresult>(body(state, state.primaries[static_cast<size_t>(device)]));
  });
}

// The lock of primary contexts is held.
CUcontext handle_of(Driver& state, PrimaryContext& primary) {
  if (primary.handle == nullptr) primary.handle = state.contexts.reserve();
  return primary.handle;
}

// The device of a primary context that is not initialised; -1: it is none.
int device_to_be(Driver& state, CUcontext handle) {
  std::lock_guard lock(state.primary_mutex);
  for (size_t device = 0; device < state.primaries.size(); ++device) {
    const PrimaryContext& primary = state.primaries[device];
    if (primary.handle == handle && !primary.context) return static_cast<int>(device);
  }
  return -1;
}

void end_primary(Driver& state, PrimaryContext& primary) {
  if (auto context = std::exchange(primary.context, nullptr)) state.destroy_context(context);
}

CUresult synchronize(Driver& state, Context& context) {
  if (CUresult error = context.error(); error != CUDA_SUCCESS) return error;
  if (CUresult bad = state.captures.check_wait(context); bad != CUDA_SUCCESS) return bad;
  context.synchronize();
  state.pools.synchronised(context);
  return context.error();
}

template <class T>
CUresult store(T* place, T value) {
  if (place == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *place = value;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult primary_handle(CUcontext* context, CUdevice device) {
  return with_primary(device, [&](Driver& state, PrimaryContext& primary) {
    return store(context, handle_of(state, primary));
  });
}

}  // namespace simcuda

using simcuda::Context;
using simcuda::context_stack;
using simcuda::Driver;
using simcuda::in_context;
using simcuda::in_driver;
using simcuda::PrimaryContext;
using simcuda::store;
using simcuda::with_context;
using simcuda::with_primary;

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return with_primary(device, [&](Driver& state, PrimaryContext& primary) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!primary.context) {
      primary.context =
          state.make_context(simcuda::handle_of(state, primary), device, primary.flags, true);
    }
    ++primary.retained;
    *context = primary.handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return with_primary(device, [&](Driver& state, PrimaryContext& primary) {
    if (primary.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary.retained == 0) simcuda::end_primary(state, primary);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return with_primary(device, [&](Driver& state, PrimaryContext& primary) {
    simcuda::end_primary(state, primary);
    primary.flags = 0;
    primary.retained = 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return cuDevicePrimaryCtxReset_v2(device);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  return with_primary(device, [&](Driver&, PrimaryContext& primary) {
    if (!simcuda::good_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
    primary.flags = flags;
    if (primary.context) primary.context->flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return with_primary(device, [&](Driver&, PrimaryContext& primary) {
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = primary.flags;
    *active = primary.context ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return simcuda::create(context, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count,
                        unsigned flags, CUdevice device) {
  if (affinity != nullptr || count != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return simcuda::create(context, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* params, unsigned flags,
                        CUdevice device) {
  if (params != nullptr && params->execAffinityParams != nullptr) {
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  }
  if (params != nullptr && params->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return simcuda::create(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  return in_driver([&](Driver& state) {
    auto context = state.contexts.find(handle);
    if (!context || context->primary()) return CUDA_ERROR_INVALID_CONTEXT;
    state.destroy_context(context);
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == handle) stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxDestroy(CUcontext context) {
  return cuCtxDestroy_v2(context);
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return in_driver([&](Driver& state) {
    if (!state.contexts.find(context)) return CUDA_ERROR_INVALID_CONTEXT;
    context_stack().push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent(CUcontext context) {
  return cuCtxPushCurrent_v2(context);
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return in_driver([&](Driver&) {
    auto& stack = context_stack();
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  return cuCtxPopCurrent_v2(context);
}

// A primary context may be made current before it is initialised: CUDA's runtime does so.
CUresult cuCtxSetCurrent(CUcontext context) {
  return in_driver([&](Driver& state) {
    auto& stack = context_stack();
    if (context != nullptr && !state.contexts.find(context) &&
        simcuda::device_to_be(state, context) < 0) {
      return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return in_driver([&](Driver&) {
    auto& stack = context_stack();
    return store(context, stack.empty() ? nullptr : stack.back());
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return cuCtxGetDevice_v2(device, nullptr);
}

// Answers for a primary context also before it is initialised, and after its end.
CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  return in_driver([&](Driver& state) {
    const auto& stack = context_stack();
    const CUcontext asked = context == nullptr && !stack.empty() ? stack.back() : context;
    if (const int to_be = simcuda::device_to_be(state, asked); asked != nullptr && to_be >= 0) {
      return store(device, to_be);
    }
    return with_context(context,
                        [&](Driver&, Context& found) { return store(device, found.device()); });
  });
}

CUresult cuCtxGetFlags(unsigned* flags) {
  return with_context(
      nullptr, [&](Driver&, Context& context) { return store(flags, context.flags.load()); });
}

CUresult cuCtxSetFlags(unsigned flags) {
  return with_context(nullptr, [&](Driver&, Context& context) {
    if (!simcuda::good_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
    context.flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  return with_context(context, [&](Driver&, Context& found) {
    return store(id, static_cast<unsigned long long>(found.id()));
  });
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version) {
  return with_context(context,
                      [&](Driver&, Context&) { return store(version, simcuda::kApiVersion); });
}

CUresult cuCtxSynchronize() {
  return cuCtxSynchronize_v2(nullptr);
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  return with_context(
      context, [](Driver& state, Context& found) { return simcuda::synchronize(state, found); });
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  return in_context([&](Driver&, Context& context) {
    if (static_cast<size_t>(limit) >= context.limits.size()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    context.limits[limit] = value;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  return in_context([&](Driver&, Context& context) {
    if (static_cast<size_t>(limit) >= context.limits.size()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    return store(value, context.limits[limit].load());
  });
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  return in_context(
      [&](Driver&, Context& context) { return store(config, context.cache_config.load()); });
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  return in_context([&](Driver&, Context& context) {
    if (config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
    context.cache_config = config;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  return in_context(
      [&](Driver&, Context& context) { return store(config, context.shared_config.load()); });
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  return in_context([&](Driver&, Context& context) {
    if (config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) return CUDA_ERROR_INVALID_VALUE;
    context.shared_config = config;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return in_context([&](Driver&, Context&) {
    if (least != nullptr) *least = simcuda::kLeastPriority;
    if (greatest != nullptr) *greatest = simcuda::kGreatestPriority;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned flags) {
  return in_context([&](Driver& state, Context& context) {
    auto peer = state.contexts.find(handle);
    if (!peer) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (peer->device() == context.device()) return CUDA_ERROR_INVALID_DEVICE;
    if (!state.settings.engines.links.has({context.device(), peer->device()})) {
      return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    return state.memory.enable_peer(context.device(), handle);
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  return in_context([&](Driver& state, Context& context) {
    if (!state.contexts.find(handle)) return CUDA_ERROR_INVALID_CONTEXT;
    return state.memory.disable_peer(context.device(), handle);
  });
}

CUresult cuCtxResetPersistingL2Cache() {
  return in_context([](Driver&, Context&) { return CUDA_SUCCESS; });
}
