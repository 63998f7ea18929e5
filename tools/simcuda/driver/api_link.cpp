// Linking of code. The result is PTX again, in one text, or what passes for machine code.

#include <mutex>
#include <set>

#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/jit_log.h"
#include "tools/simcuda/driver/linker.h"
#include "tools/simcuda/driver/machine_image.h"

struct CUlinkState_st {
  simcuda::Linker linker;
  simcuda::ErrorBuffer buffer{0, nullptr, nullptr};
  std::string image;  // once it is complete
};

namespace simcuda {
namespace {

// All that there are: a handle may be one that is gone.
struct LinkStates {
  std::mutex mutex;
  std::set<CUlinkState> all;
  static LinkStates& mine() {
    static auto* const states = new LinkStates;
    return *states;
  }
};

// body(Driver&, CUlinkState_st&); one call of all at a time.
template <class Body>
CUresult with_state(CUlinkState handle, Body&& body) {
  return in_driver([&](Driver& driver) {
    LinkStates& states = LinkStates::mine();
    const std::lock_guard lock(states.mutex);
    if (!states.all.contains(handle)) return CUDA_ERROR_INVALID_HANDLE;
    return static_cast<CUresult>(body(driver, *handle));
  });
}

// `pick(arch, ptx, log)` finds the PTX in what is given.
template <class Pick>
CUresult add(CUlinkState handle, CUjitInputType type, const char* name, Pick&& pick) {
  return with_state(handle, [&](Driver& driver, CUlinkState_st& state) {
    LoadLog log;
    std::string ptx;
    if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_FATBINARY && type != CU_JIT_INPUT_CUBIN) {
      return CUDA_ERROR_NO_BINARY_FOR_GPU;  // objects and libraries of machine code
    }
    const CUresult result = pick(driver.settings.arch, &ptx, &log);
    if (result == CUDA_SUCCESS) state.linker.add(ptx, name == nullptr ? "<unnamed>" : name);
    return report(result, log, state.buffer);
  });
}

// The result of linking: a text with its zero byte, or machine code, as SIMCUDA_SASS has it.
std::string image_of(const Driver& driver, std::string ptx) {
  std::string why;
  if (driver.settings.machine_code) {
    if (auto code = machine_image(ptx, static_cast<uint32_t>(driver.settings.arch), &why)) {
      return *std::move(code);
    }
  }
  ptx += '\0';
  return ptx;
}

}  // namespace
}  // namespace simcuda

using simcuda::Driver;
using simcuda::LoadLog;

CUresult cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values,
                         CUlinkState* handle) {
  return simcuda::in_context([&](Driver&, auto&) {
    if (handle == nullptr || (count != 0 && (options == nullptr || values == nullptr))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto state = std::make_unique<CUlinkState_st>();
    state->buffer = simcuda::ErrorBuffer(count, options, values);
    auto& states = simcuda::LinkStates::mine();
    const std::lock_guard lock(states.mutex);
    states.all.insert(state.get());
    *handle = state.release();
    return CUDA_SUCCESS;
  });
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size,
                          const char* name, unsigned, CUjit_option*, void**) {
  return simcuda::add(state, type, name, [&](int arch, std::string* ptx, LoadLog* log) {
    if (data == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
    // A text need not end with a zero byte here.
    const std::string image(static_cast<const char*>(data), size);
    return simcuda::select_ptx(image.c_str(), arch, ptx, log);
  });
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned,
                          CUjit_option*, void**) {
  return simcuda::add(state, type, path, [&](int arch, std::string* ptx, LoadLog* log) {
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return simcuda::select_ptx_file(path, arch, ptx, log);
  });
}

// The forms of before CUDA 6.5, which take the same.

CUresult cuLinkCreate(unsigned count, CUjit_option* options, void** values, CUlinkState* handle) {
  return cuLinkCreate_v2(count, options, values, handle);
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t size,
                       const char* name, unsigned count, CUjit_option* options, void** values) {
  return cuLinkAddData_v2(state, type, data, size, name, count, options, values);
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned count,
                       CUjit_option* options, void** values) {
  return cuLinkAddFile_v2(state, type, path, count, options, values);
}

CUresult cuLinkComplete(CUlinkState handle, void** image, size_t* size) {
  return simcuda::with_state(handle, [&](Driver& driver, CUlinkState_st& state) {
    if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    LoadLog log;
    simcuda::Linker::Linked linked = state.linker.link();
    simcuda::ModuleCode code;
    log.error = linked.error;
    const CUresult result =
        linked.error.empty() ? simcuda::decode(linked.text, &code, &log) : CUDA_ERROR_INVALID_PTX;
    if (result == CUDA_SUCCESS) {
      state.image = simcuda::image_of(driver, std::move(linked.text));
      *image = state.image.data();
      if (size != nullptr) *size = state.image.size();
    }
    return simcuda::report(result, log, state.buffer);
  });
}

CUresult cuLinkDestroy(CUlinkState handle) {
  return simcuda::with_state(handle, [&](Driver&, CUlinkState_st& state) {
    simcuda::LinkStates::mine().all.erase(handle);
    delete &state;
    return CUDA_SUCCESS;
  });
}
