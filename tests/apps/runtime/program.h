// Shared by the programs here. They are ordinary CUDA programs that know nothing of checkpoints:
// each computes something in steps, prints lines that depend on all that was computed so far,
// checks the end result against the same computation on the host, and says "ok". Two runs with the
// same arguments print the same bytes: nothing that is printed depends on addresses, time or the
// order of threads.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

inline void check(cudaError_t result, const char* call, int line) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(result));
  std::exit(1);
}
#define CHECK(call) check((call), #call, __LINE__)
#define CHECK_LAUNCH() check(cudaGetLastError(), "launch", __LINE__)

// The first argument, or `otherwise`: how many steps to run.
inline int steps_of(int argc, char** argv, int otherwise) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : otherwise;
  if (steps < 1) {
    std::fprintf(stderr, "usage: %s [steps >= 1]\n", argv[0]);
    std::exit(64);
  }
  // Whole lines reach a pipe as they are printed, so that a killed run shows how far it came.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return steps;
}

// FNV-1a, going on from `hash`.
inline uint64_t hash_of(const void* data, size_t bytes, uint64_t hash = 0xcbf29ce484222325ull) {
  const auto* byte = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * 0x100000001b3ull;
  return hash;
}

template <class T>
uint64_t hash_of(const std::vector<T>& values) {
  return hash_of(values.data(), values.size() * sizeof(T));
}

// The same numbers on host and device.
__host__ __device__ inline uint32_t next_random(uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

template <class T>
std::vector<T> fetch(const T* device, size_t count) {
  std::vector<T> values(count);
  CHECK(cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

template <class T>
T* allocate(size_t count) {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, count * sizeof(T)));
  return static_cast<T*>(memory);
}

template <class T>
T* upload(const std::vector<T>& values) {
  T* device = allocate<T>(values.size());
  CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

// Bitwise equality with the host's own computation.
template <class T>
void expect_same(const char* what, const std::vector<T>& device, const std::vector<T>& host) {
  for (size_t i = 0; i < host.size(); ++i) {
    if (std::memcmp(&device[i], &host[i], sizeof(T)) == 0) continue;
    std::printf("FAILED: %s differs from the host's at %zu\n", what, i);
    std::exit(2);
  }
}

inline int finish() {
  CHECK(cudaDeviceSynchronize());
  std::printf("ok\n");
  return 0;
}
