// A stand-in libcuda.so.1 for the tests of the runtime: answers from a script and writes down what
// it was asked. Memory is the host's. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace fake {

struct Launch {
  std::string kernel;
  std::vector<unsigned int> geometry;  // grid, block
  unsigned int shared_bytes = 0;
  CUstream stream = nullptr;
  std::vector<std::string> arguments;  // bytes, as the kernel's parameter sizes say
  bool per_thread = false;             // came through the entry point of flags 2
};

// A kernel, library or variable that the fake driver knows.
struct Kernel {
  std::string name;
  std::vector<size_t> parameter_sizes;
};

struct Driver {
  std::vector<std::string> asked;         // "name/version/flags"
  std::vector<std::string> calls;         // names of calls, "_pt" appended for those of flags 2
  std::map<std::string, CUresult> fails;  // by name of call: what it returns instead of working
  CUresult sticky = CUDA_SUCCESS;  // when set, what every call on a context returns, until a reset
  std::map<std::string, Kernel> kernels;
  std::map<std::string, std::vector<std::byte>> variables;
  std::vector<const void*> loaded_images;
  std::vector<Launch> launches;
  int primary_references = 0;
  int resets = 0;

  size_t count(const std::string& call) const {
    return static_cast<size_t>(std::count(calls.begin(), calls.end(), call));
  }
};

}  // namespace fake

// Found by dlsym: the test and the runtime must speak to the same copy of the library.
extern "C" fake::Driver* fake_driver();
