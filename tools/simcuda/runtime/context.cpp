#include "tools/simcuda/runtime/context.h"

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "tools/simcuda/driver/runtime_table.h"
#include "tools/simcuda/runtime/registry.h"

namespace simcuda::runtime {
namespace {

thread_local int thread_device = 0;

// The primary contexts that this runtime holds. No driver call is made under the lock but those
// that make or destroy such a context.
struct Contexts {
  std::mutex mutex;
  std::map<int, CUcontext> retained;  // by device ordinal
  std::set<CUcontext> dead;  // reset by us and not retained again; threads may still hold them
  std::atomic<bool> any_dead{false};  // so that calls of programs that never reset take no lock
};

// Never destroyed: programs call the runtime while they exit.
Contexts& contexts() {
  static auto* const instance = new Contexts;
  return *instance;
}

bool is_primary(CUcontext context, int device) {
  Contexts& all = contexts();
  const std::lock_guard lock(all.mutex);
  const auto held = all.retained.find(device);
  return held != all.retained.end() && held->second == context;
}

bool is_dead(CUcontext context) {
  Contexts& all = contexts();
  if (!all.any_dead.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(all.mutex);
  return all.dead.contains(context);
}

}  // namespace

cudaError_t primary_context(const Driver& driver, int device, CUcontext* context) {
  Contexts& all = contexts();
  const std::lock_guard lock(all.mutex);
  if (const auto held = all.retained.find(device); held != all.retained.end()) {
    *context = held->second;
    return cudaSuccess;
  }
  CUdevice handle = 0;
  if (const cudaError_t found = driver.cuDeviceGet(&handle, device); found != cudaSuccess) {
    return found;
  }
  const cudaError_t result = driver.cuDevicePrimaryCtxRetain(context, handle);
  if (result != cudaSuccess) return result;
  all.retained.emplace(device, *context);
  all.dead.erase(*context);
  all.any_dead = !all.dead.empty();
  return cudaSuccess;
}

// As CUDA's runtime does: a device's context is current before it is initialised.
void set_current_before_it_begins(const Driver& driver, int device) {
  const void* found = nullptr;
  CUdevice handle = 0;
  if (driver.cuGetExportTable(&found, &kRuntimeTable) != cudaSuccess ||
      driver.cuDeviceGet(&handle, device) != cudaSuccess) {
    return;  // another driver
  }
  CUcontext context = nullptr;
  const auto* table = static_cast<const RuntimeTable*>(found);
  if (table->primary_handle(&context, handle) == CUDA_SUCCESS)
    (void)driver.cuCtxSetCurrent(context);
}

cudaError_t switch_to(const Driver& driver, int device) {
  set_current_before_it_begins(driver, device);
  CUcontext context = nullptr;
  if (const cudaError_t result = primary_context(driver, device, &context); result != cudaSuccess) {
    return result;
  }
  const cudaError_t result = driver.cuCtxSetCurrent(context);
  if (result != cudaSuccess) return result;
  thread_device = device;
  return registry().place_managed_variables(driver);
}

cudaError_t enter_context(const Driver& driver) {
  CUcontext current = nullptr;
  const cudaError_t result = driver.cuCtxGetCurrent(&current);
  if (result != cudaSuccess) return result;
  if (current != nullptr && !is_dead(current)) return cudaSuccess;
  return switch_to(driver, thread_device);
}

cudaError_t device_of_thread(const Driver& driver, int* device) {
  CUcontext current = nullptr;
  const cudaError_t result = driver.cuCtxGetCurrent(&current);
  if (result != cudaSuccess) return result;
  // A context of our own is looked up here: its device must be known to reset it after an error
  // that the driver returns from every call.
  if (current == nullptr || is_dead(current) || is_primary(current, thread_device)) {
    *device = thread_device;
    return cudaSuccess;
  }
  return driver.cuCtxGetDevice(device);
}

cudaError_t reset_device(const Driver& driver, int device) {
  CUdevice handle = 0;
  if (const cudaError_t found = driver.cuDeviceGet(&handle, device); found != cudaSuccess) {
    return found;
  }
  registry().forget_places();
  Contexts& all = contexts();
  const std::lock_guard lock(all.mutex);
  const cudaError_t result = driver.cuDevicePrimaryCtxReset(handle);
  if (result != cudaSuccess) return result;
  const auto held = all.retained.find(device);
  if (held == all.retained.end()) return cudaSuccess;
  // A reset does not give up what was retained; the driver may well say that nothing is left of it.
  (void)driver.cuDevicePrimaryCtxRelease(handle);
  all.dead.insert(held->second);
  all.any_dead.store(true, std::memory_order_release);
  all.retained.erase(held);
  return driver.cuCtxSetCurrent(nullptr);
}

}  // namespace simcuda::runtime
