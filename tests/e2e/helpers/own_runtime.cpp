// A program with a C++ runtime and an allocator of its own, which it exports: were the preloaded
// library bound to any of that, exceptions, streams and allocations would meet the wrong ones.
//
//   own_runtime ROUNDS
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace {

// Counts the program's own allocations alone.
size_t allocations = 0;

void* driver() {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return library;
}

template <class F>
F* call(const char* name) {
  void* const found = dlsym(driver(), name);
  if (found == nullptr) throw std::runtime_error(std::string("no ") + name);
  return reinterpret_cast<F*>(found);
}

void check(CUresult result) {
  if (result != CUDA_SUCCESS) throw std::runtime_error("error " + std::to_string(result));
}

uint64_t thrown_and_caught(uint64_t value) {
  try {
    throw std::vector<uint64_t>(3, value * 6364136223846793005U + 1442695040888963407U);
  } catch (const std::vector<uint64_t>& caught) {
    return caught.at(2);
  }
}

void run(int rounds) {
  constexpr size_t kWords = 5000;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  check(call<decltype(cuInit)>("cuInit")(0));
  check(call<decltype(cuDeviceGet)>("cuDeviceGet")(&device, 0));
  check(call<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, device));
  check(call<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context));
  check(call<decltype(cuMemAlloc_v2)>("cuMemAlloc_v2")(&memory, kWords * sizeof(uint64_t)));
  auto* const to_device = call<decltype(cuMemcpyHtoD_v2)>("cuMemcpyHtoD_v2");
  auto* const to_host = call<decltype(cuMemcpyDtoH_v2)>("cuMemcpyDtoH_v2");
  auto* const wait = call<decltype(cuCtxSynchronize)>("cuCtxSynchronize");
  std::vector<uint64_t> words(kWords, 1);
  check(to_device(memory, words.data(), kWords * sizeof(uint64_t)));
  for (int round = 0; round < rounds; ++round) {
    const size_t at = static_cast<size_t>(round) % kWords;
    uint64_t word = 0;
    check(to_host(&word, memory + at * sizeof word, sizeof word));
    word = thrown_and_caught(word + static_cast<uint64_t>(round));
    check(to_device(memory + (at * 7 % kWords) * sizeof word, &word, sizeof word));
    check(wait());
    if (round % 50 == 0)
      std::cout << "round " << round << " " << std::hex << word << std::dec << std::endl;
  }
  check(to_host(words.data(), memory, kWords * sizeof(uint64_t)));
  uint64_t sum = 0;
  for (const uint64_t word : words) sum = sum * 31 + word;
  std::ostringstream text;
  text << "all " << sum << " " << (allocations > static_cast<size_t>(rounds));
  std::puts(text.str().c_str());
}

}  // namespace

// The library's own allocations do not come here.
void* operator new(size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? std::atoi(argv[1]) : 100);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
