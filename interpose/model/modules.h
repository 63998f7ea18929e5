// The program's modules and libraries: which kernels it asked for, and which variables of theirs
// are state in device memory.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "interpose/hook/driver.h"
#include "interpose/model/contexts.h"
#include "interpose/model/kernels.h"
#include "tiers/status.h"
#include "tracker/image.h"
#include "tracker/memory_map.h"

namespace gpusnap {

inline constexpr uint32_t kUnknownFunction = UINT32_MAX;

class Modules {
 public:
  explicit Modules(const Driver& driver) : driver_(driver), kernels_(driver) {}

  // Modules and libraries are numbered together, in order of loading.
  void add_module(CUmodule module, CUcontext context, const ImageContents& image);
  void add_library(CUlibrary library, const ImageContents& image);
  void remove_module(CUmodule module, MemoryMap& memory);
  void remove_library(CUlibrary library, MemoryMap& memory);
  void remove_context(CUcontext context, MemoryMap& memory);
  // The program has a handle of something in the library: its data may become state. `module` is
  // the library's module, where the program asked for that.
  void use_library(CUlibrary library, CUmodule module = nullptr);
  uint64_t number_of(CUmodule module) const;
  uint64_t number_of(CUlibrary library) const;

  // Kernels are numbered in the order in which the program first gets a handle of them.
  // `module`: where it is from, by its number.
  void add_function(const void* handle, uint64_t module, const char* name);
  void alias_function(const void* handle, const void* known);
  void add_kernel(CUkernel kernel, uint64_t module, const char* name);
  // The driver tells of a function of the current context that the program need not have asked
  // for: graphs hold such ones of libraries' kernels.
  void met_function(CUfunction function);
  // The same of a module: it may be that of a library in the current context.
  void met_module(CUmodule module);
  uint32_t function(const void* handle) const {
    auto it = functions_.find(handle);
    return it == functions_.end() ? kUnknownFunction : it->second;
  }
  const Kernels& kernels() const { return kernels_; }
  // Replay: what the skipped launches of the kernel would have loaded.
  void load_function(CUfunction function);

  // __managed__ variables, which the host sees too: they have to be known before anything writes
  // them, so they are looked for where their module or library is first used, and never again.
  struct Managed {
    uint64_t number = 0;  // of the module
    CUmodule module = nullptr;
    CUlibrary library = nullptr;
    GlobalVariable variable;
    uint64_t address = 0;  // 0: not found
    uint64_t size = 0;
  };
  std::vector<Managed> begin_managed();
  // Asks the driver, which may load the library; the caller holds no lock.
  void find_managed(Managed& wanted) const;
  // Kernels mean the variables that were found by these names.
  void end_managed(const std::vector<Managed>& found);
  // Another thread is between the two.
  bool looks_for_managed() const { return looking_for_managed_; }

  // Puts every other variable of every module in use into the map. kUnsupported names the module or
  // the variable that stands in the way of a checkpoint. `contexts`: all that the program uses. The
  // ordinal of such a range is the number of its context.
  Status find_globals(const std::vector<KnownContext>& contexts, MemoryMap& memory);
  // The variable `name` of module `number` in a context; 0 when it is not there.
  uint64_t find_global(uint64_t number, const std::string& name, uint64_t size,
                       CUcontext context) const;

 private:
  struct Loaded {
    uint64_t number = 0;
    CUmodule module = nullptr;  // or
    CUlibrary library = nullptr;
    CUcontext context = nullptr;  // a module's; a library's data exists once in every context
    ImageGlobals globals;
    bool used = false;
    std::set<CUcontext> in_map;     // contexts of which the variables are in the map
    std::vector<Managed> managed;   // found
    bool managed_wanted = true;     // not looked for yet
    std::vector<CUkernel> kernels;  // a library's, of which the program has handles
    std::vector<CUfunction> met;    // functions of theirs that it has not asked for
  };
  Status find_globals_of(const Loaded& loaded, const KnownContext& context, MemoryMap& memory);
  CUresult address_of(const Loaded& loaded, const GlobalVariable& global, CUcontext context,
                      uint64_t* address, uint64_t* size) const;
  void place_managed(const std::vector<Managed>& found);
  Status expect_managed(const Loaded& loaded, const GlobalVariable& global,
                        const KnownContext& context, const MemoryMap& memory) const;
  template <class Match>
  void remove_if(Match&& match, MemoryMap& memory);

  const Driver& driver_;
  Kernels kernels_;
  std::vector<Loaded> loaded_;
  uint64_t next_number_ = 0;
  std::unordered_map<const void*, uint32_t> functions_;
  uint32_t function_count_ = 0;
  bool looking_for_managed_ = false;
  std::set<const void*> loaded_functions_;
};

}  // namespace gpusnap
