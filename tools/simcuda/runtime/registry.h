// Registrations by programs compiled by nvcc before main: fat binaries, and the kernels and
// variables in them under the addresses that host code knows. Images go to the driver at first use.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/simcuda/runtime/driver_api.h"

namespace simcuda::runtime {

// One registered fat binary.
struct Image {
  const void* wrapper = nullptr;  // nvcc's structure, in the program's read-only data
  CUlibrary library = nullptr;    // null until first use
  struct Managed {
    std::string name;
    void** host_pointer = nullptr;  // where host code expects the variable's address
  };
  std::vector<Managed> managed;
  bool managed_placed = false;  // the host pointers are filled in
};

// All of the process. Any thread may call anything at any time; one lock guards it all, which is
// also held while the driver loads an image, so that each is loaded once.
class Registry {
 public:
  Image* add_image(const void* wrapper);
  // Forgets the image and all that was registered with it. Unloads it, unless the process is
  // exiting: then the driver may be gone already.
  void remove_image(Image* image);
  void add_function(Image* image, const void* host_function, const char* name);
  void add_variable(Image* image, const void* host_variable, const char* name);
  void add_managed(Image* image, void** host_pointer, const char* name);

  // A kernel of a library that the program has loaded itself; known to the end of the process.
  void add_kernel(CUkernel kernel);

  // The calls below need a current context.

  // Loads the image and makes its managed variables known to host code.
  cudaError_t load(const Driver& driver, Image* image);
  // `function` is what host code calls a kernel by, or a kernel handle that was given out before;
  // cudaErrorInvalidDeviceFunction if it is neither.
  cudaError_t find_kernel(const Driver& driver, const void* function, CUkernel* kernel);
  // The key by which find_kernel() knows the kernel of this function in the current context; null:
  // it knows none.
  const void* function_of(const Driver& driver, CUfunction function);
  // `symbol` is the variable in host code; cudaErrorInvalidSymbol if it is none.
  cudaError_t find_variable(const Driver& driver, const void* symbol, CUdeviceptr* address,
                            size_t* bytes);
  // The name that `function` was registered by, null if it was not. Valid until it is removed.
  const char* name_of(const void* function);
  // Fills in the host pointers of managed variables of loaded images that a reset made stale.
  cudaError_t place_managed_variables(const Driver& driver);
  // A context was reset: managed variables may get new addresses. Needs no current context.
  void forget_places();

 private:
  struct Function {
    Image* image = nullptr;
    std::string name;
    CUkernel kernel = nullptr;  // null until first use
  };
  struct Variable {
    Image* image = nullptr;
    std::string name;
  };

  cudaError_t load_locked(const Driver& driver, Image* image);
  cudaError_t place_locked(const Driver& driver, Image* image);

  std::mutex mutex_;
  std::map<Image*, std::unique_ptr<Image>> images_;
  std::unordered_map<const void*, Function> functions_;
  std::unordered_map<const void*, Variable> variables_;
  std::unordered_map<const void*, const void*> kernels_;  // handle given out -> host function
};

Registry& registry();

}  // namespace simcuda::runtime
