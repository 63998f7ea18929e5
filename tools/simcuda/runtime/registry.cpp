#include "tools/simcuda/runtime/registry.h"

#include <atomic>
#include <cstdlib>

#include "tools/simcuda/runtime/context.h"

namespace simcuda::runtime {
namespace {

std::atomic<bool> process_exits{false};

// Set by an exit handler that is installed with the first loaded image: after the program's own
// handlers, which unregister its images, so it runs before them.
void watch_exit() {
  static const int installed = std::atexit([] { process_exits = true; });
  (void)installed;
}

}  // namespace

Registry& registry() {
  static auto* const instance =
      new Registry;  // never destroyed: programs unregister while they exit
  return *instance;
}

Image* Registry::add_image(const void* wrapper) {
  auto image = std::make_unique<Image>();
  image->wrapper = wrapper;
  Image* const result = image.get();
  const std::lock_guard lock(mutex_);
  images_.emplace(result, std::move(image));
  return result;
}

void Registry::remove_image(Image* image) {
  const std::lock_guard lock(mutex_);
  const auto found = images_.find(image);
  if (found == images_.end()) return;
  std::erase_if(kernels_, [&](const auto& entry) {
    const auto function = functions_.find(entry.second);
    return function != functions_.end() && function->second.image == image;
  });
  std::erase_if(functions_, [&](const auto& entry) { return entry.second.image == image; });
  std::erase_if(variables_, [&](const auto& entry) { return entry.second.image == image; });
  if (image->library != nullptr && !process_exits) {
    // Nobody is left to hear of a failure: the image's owner is being unloaded.
    (void)driver().cuLibraryUnload(image->library);
  }
  images_.erase(found);
}

void Registry::add_function(Image* image, const void* host_function, const char* name) {
  const std::lock_guard lock(mutex_);
  functions_[host_function] = Function{image, name, nullptr};
}

void Registry::add_variable(Image* image, const void* host_variable, const char* name) {
  const std::lock_guard lock(mutex_);
  variables_[host_variable] = Variable{image, name};
}

void Registry::add_managed(Image* image, void** host_pointer, const char* name) {
  const std::lock_guard lock(mutex_);
  image->managed.push_back({name, host_pointer});
  variables_[host_pointer] = Variable{image, name};
}

cudaError_t Registry::load(const Driver& driver, Image* image) {
  const std::lock_guard lock(mutex_);
  return load_locked(driver, image);
}

cudaError_t Registry::load_locked(const Driver& driver, Image* image) {
  if (image->library == nullptr) {
    CUlibrary library = nullptr;
    const cudaError_t result = driver.cuLibraryLoadData(&library, image->wrapper, nullptr, nullptr,
                                                        0, nullptr, nullptr, 0);
    if (result != cudaSuccess) return result;
    image->library = library;
    watch_exit();
  }
  return place_locked(driver, image);
}

cudaError_t Registry::place_locked(const Driver& driver, Image* image) {
  if (image->managed_placed) return cudaSuccess;
  for (const Image::Managed& variable : image->managed) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    const cudaError_t result =
        driver.cuLibraryGetManaged(&address, &bytes, image->library, variable.name.c_str());
    if (result != cudaSuccess) return result;
    *variable.host_pointer = reinterpret_cast<void*>(address);
  }
  image->managed_placed = true;
  return cudaSuccess;
}

cudaError_t Registry::place_managed_variables(const Driver& driver) {
  const std::lock_guard lock(mutex_);
  for (const auto& [image, owner] : images_) {
    if (image->library == nullptr) continue;
    const cudaError_t result = place_locked(driver, image);
    if (result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

void Registry::forget_places() {
  const std::lock_guard lock(mutex_);
  for (const auto& [image, owner] : images_) image->managed_placed = false;
}

void Registry::add_kernel(CUkernel kernel) {
  const std::lock_guard lock(mutex_);
  kernels_.emplace(kernel, kernel);
}

cudaError_t Registry::find_kernel(const Driver& driver, const void* function, CUkernel* kernel) {
  const std::lock_guard lock(mutex_);
  const auto found = functions_.find(function);
  if (found == functions_.end()) {
    if (!kernels_.contains(function)) return cudaErrorInvalidDeviceFunction;
    *kernel = static_cast<CUkernel>(const_cast<void*>(function));
    return cudaSuccess;
  }
  Function& entry = found->second;
  if (entry.kernel == nullptr) {
    cudaError_t result = load_locked(driver, entry.image);
    if (result != cudaSuccess) return result;
    result = driver.cuLibraryGetKernel(&entry.kernel, entry.image->library, entry.name.c_str());
    if (result == cudaErrorSymbolNotFound) return cudaErrorInvalidDeviceFunction;
    if (result != cudaSuccess) return result;
    kernels_.emplace(entry.kernel, function);
  }
  *kernel = entry.kernel;
  return cudaSuccess;
}

const void* Registry::function_of(const Driver& driver, CUfunction function) {
  const std::lock_guard lock(mutex_);
  for (const auto& [handle, host_function] : kernels_) {
    CUfunction found = nullptr;
    auto* const kernel = static_cast<CUkernel>(const_cast<void*>(handle));
    if (driver.cuKernelGetFunction(&found, kernel) == cudaSuccess && found == function) {
      return host_function;
    }
  }
  return nullptr;
}

cudaError_t Registry::find_variable(const Driver& driver, const void* symbol, CUdeviceptr* address,
                                    size_t* bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = variables_.find(symbol);
  if (found == variables_.end()) return cudaErrorInvalidSymbol;
  const Variable& variable = found->second;
  cudaError_t result = load_locked(driver, variable.image);
  if (result != cudaSuccess) return result;
  result =
      driver.cuLibraryGetGlobal(address, bytes, variable.image->library, variable.name.c_str());
  return result == cudaErrorSymbolNotFound ? cudaErrorInvalidSymbol : result;
}

const char* Registry::name_of(const void* function) {
  const std::lock_guard lock(mutex_);
  const auto handle = kernels_.find(function);
  const auto found = functions_.find(handle == kernels_.end() ? function : handle->second);
  return found == functions_.end() ? nullptr : found->second.name.c_str();
}

}  // namespace simcuda::runtime

using namespace simcuda::runtime;

namespace {
Image* image_of(void** handle) {
  return reinterpret_cast<Image*>(handle);
}
}  // namespace

void** __cudaRegisterFatBinary(void* fatCubin) {
  return reinterpret_cast<void**>(registry().add_image(fatCubin));
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** fatCubinHandle) {
  registry().remove_image(image_of(fatCubinHandle));
}

void __cudaRegisterFunction(void** fatCubinHandle, const char* hostFun, char*,
                            const char* deviceName, int, uint3*, uint3*, dim3*, dim3*, int*) {
  registry().add_function(image_of(fatCubinHandle), hostFun, deviceName);
}

void __cudaRegisterVar(void** fatCubinHandle, char* hostVar, char*, const char* deviceName, int,
                       size_t, int, int) {
  registry().add_variable(image_of(fatCubinHandle), hostVar, deviceName);
}

void __cudaRegisterManagedVar(void** fatCubinHandle, void** hostVarPtrAddress, char*,
                              const char* deviceName, int, size_t, int, int) {
  registry().add_managed(image_of(fatCubinHandle), hostVarPtrAddress, deviceName);
}

char __cudaInitModule(void** fatCubinHandle) {
  const cudaError_t result = with_context(
      [&](const Driver& driver) { return registry().load(driver, image_of(fatCubinHandle)); });
  return result == cudaSuccess ? 1 : 0;
}
