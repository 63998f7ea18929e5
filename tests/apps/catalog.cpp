// Code that is asked what it has: a library and a module of the same text list their kernels, and a
// kernel says whose it is, by which its variable is found.
#include "catalog.h"

#include <map>
#include <string_view>

#include "app.h"
#include "catalog_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr Shape kShape{kCells / kThreads, kThreads};

// By name; a kernel may stand where a function is wanted.
using Kernels = std::map<std::string, CUfunction, std::less<>>;

Kernels list_library(CUlibrary library) {
  // Programs may ask whether there is a function that the host can call, too.
  void* function = nullptr;
  if (cuLibraryGetUnifiedFunction(&function, library, "none") != CUDA_ERROR_NOT_FOUND) {
    fail("cuLibraryGetUnifiedFunction", "finds what is not there");
  }
  unsigned count = 0;
  CHECK(cuLibraryGetKernelCount(&count, library));
  // Room for more than there is.
  std::vector<CUkernel> all(count + 2);
  CHECK(cuLibraryEnumerateKernels(all.data(), count + 2, library));
  Kernels kernels;
  for (unsigned i = 0; i < count; ++i) {
    const char* name = nullptr;
    CHECK(cuKernelGetName(&name, all[i]));
    kernels[name] = reinterpret_cast<CUfunction>(all[i]);
  }
  return kernels;
}

Kernels list_module(CUmodule module) {
  unsigned count = 0;
  CHECK(cuModuleGetFunctionCount(&count, module));
  std::vector<CUfunction> all(count);
  CHECK(cuModuleEnumerateFunctions(all.data(), count, module));
  Kernels functions;
  for (CUfunction function : all) {
    const char* name = nullptr;
    CHECK(cuFuncGetName(&name, function));
    functions[name] = function;
  }
  return functions;
}

// The variable beside a kernel.
CUdeviceptr turns_of(CUfunction function) {
  CUmodule module = nullptr;
  CHECK(cuFuncGetModule(&module, function));
  CUdeviceptr address = 0;
  size_t bytes = 0;
  CHECK(cuModuleGetGlobal_v2(&address, &bytes, module, "turns"));
  if (bytes != sizeof(unsigned)) fail("turns", "has another size than expected");
  return address;
}

unsigned read(CUdeviceptr address) {
  unsigned value = 0;
  CHECK(cuMemcpyDtoH_v2(&value, address, sizeof value));
  return value;
}

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  CUlibrary library = nullptr;
  CHECK(cuLibraryLoadData(&library, kCatalogPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUmodule module = nullptr;
  CHECK(cuModuleLoadData(&module, kCatalogPtx));
  {
    const Kernels kernels = list_library(library), functions = list_module(module);
    CUfunction loaded = nullptr;
    CHECK(cuKernelGetFunction(&loaded, reinterpret_cast<CUkernel>(kernels.at("go_forward"))));
    const CUdeviceptr library_turns = turns_of(loaded);
    const CUdeviceptr module_turns = turns_of(functions.at("go_forward"));
    if (library_turns == module_turns) fail("turns", "of two modules are one");
    std::vector<unsigned> model(kCells, 7u);
    const Buffer<unsigned> cells(model);
    unsigned turns[2] = {0, 0};
    for (int step = 0; step < steps; ++step) {
      const unsigned which = step % 3 == 0 ? 1 : 0;
      const Kernels& from = which == 1 ? functions : kernels;
      launch(from.at("go_forward"), kShape, nullptr, cells.address());
      ++turns[which];
      launch(from.at("go_backward"), kShape, nullptr, cells.address());
      for (unsigned at = 0; at < kCells; ++at) {
        model[at] = backward(forward(model[at], at), at, turns[which]);
      }
      if (step % 4 == 3) CHECK(cuCtxSynchronize());
      if (step % 20 == 19) {
        must_equal("cells", cells.download(), model);
        if (read(library_turns) != turns[0] || read(module_turns) != turns[1]) {
          fail("turns", "have another value than expected");
        }
        std::printf("step %d: %016" PRIx64 "\n", step, digest(model));
      }
    }
    must_equal("cells", cells.download(), model);
  }
  CHECK(cuModuleUnload(module));
  CHECK(cuLibraryUnload(library));
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
