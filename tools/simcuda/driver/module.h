// Code: modules, which belong to a context, and libraries, which load themselves into each context
// that uses them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tools/simcuda/driver/cuda.h"
#include "tools/simcuda/machine.h"

namespace simcuda {

class Context;
struct Driver;
struct Module;

// A kernel of a module, as CUfunction names it. The machine's part is immutable.
struct Function {
  CUfunction handle = nullptr;
  std::weak_ptr<Module> module;
  const Kernel* kernel = nullptr;  // lives as long as the module's program
  std::string name;
  std::atomic<int> max_dynamic_shared{0};  // bytes; 0: the device's ordinary limit
  std::atomic<int> shared_carveout{-1};
  std::atomic<bool> launched{false};  // has begun to run at least once
  // How cuLaunch and its like launch it, as set beforehand.
  struct Legacy {
    Dim3 block;
    unsigned shared = 0;
    unsigned parameter_bytes = 0;
    std::vector<std::byte> parameters;
  };
  std::mutex mutex;
  Legacy legacy;  // guarded by mutex
};

struct Variable {
  uint64_t address = 0;
  uint64_t size = 0;
  bool managed = false;
};

struct Library;

// PTX that the machine understands, not yet in any context.
struct ModuleCode {
  std::shared_ptr<Program> program;
  unsigned ptx_version = 0;  // 10 * major + minor
  unsigned target = 0;       // 10 * major + minor
};

// Immutable once loaded.
struct Module {
  CUmodule handle = nullptr;
  CUcontext context = nullptr;
  int device = 0;
  Library* library = nullptr;  // that loaded it, or null
  ModuleCode code;
  std::map<std::string, Variable, std::less<>> variables;
  std::map<std::string, CUfunction, std::less<>> functions;
  std::map<std::string, CUtexref, std::less<>> textures;
  std::map<std::string, CUsurfref, std::less<>> surfaces;
};

// A kernel of a library, as CUkernel names it.
struct LibraryKernel {
  CUkernel handle = nullptr;
  CUlibrary library = nullptr;
  std::string name;
};

struct Library {
  CUlibrary handle = nullptr;
  std::string ptx;
  std::map<std::string, CUkernel, std::less<>> kernels;
  std::mutex mutex;
  ModuleCode unused;                                     // guarded by mutex; for the first context
  std::map<CUcontext, std::shared_ptr<Module>> modules;  // guarded by mutex
};

// Says what went wrong with an image, for people; also goes to the program's own log buffer.
struct LoadLog {
  std::string error;
};

// Picks the PTX of an image that suits a device of `arch` best.
CUresult select_ptx(const void* image, int arch, std::string* ptx, LoadLog* log);
// The same for an image in a file, which is read whole.
CUresult select_ptx_file(const char* path, int arch, std::string* ptx, LoadLog* log);

// CUDA_ERROR_INVALID_PTX unless every instruction is known.
CUresult decode(const std::string& ptx, ModuleCode* code, LoadLog* log);
// Loads code into a context: variables are placed and initialised, handles are made.
CUresult load_module(Driver& driver, Context& context, ModuleCode code, Library* library,
                     std::shared_ptr<Module>* module, LoadLog* log);
// Takes away the handles of its functions and references.
void remove_handles(Driver& driver, const Module& module);
// Waits for the work of the module's context, takes its handles away and frees its variables.
void unload_module(Driver& driver, const std::shared_ptr<Module>& module);

// The library's module in a context, loaded when it was not.
CUresult module_in(Driver& driver, Context& context, Library& library,
                   std::shared_ptr<Module>* module);

}  // namespace simcuda
