// Declarations that let clang compile device code to PTX without CUDA headers, and let the same
// per-element arithmetic be compiled for the host, which checks the device's results.
#pragma once

#ifdef __CUDA__
#define KERNEL extern "C" __attribute__((global))
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))
#define CONSTANT __attribute__((constant))
#define BOTH __attribute__((host)) __attribute__((device)) inline

DEVICE inline unsigned thread_index() {
  return __nvvm_read_ptx_sreg_tid_x();
}
DEVICE inline unsigned block_index() {
  return __nvvm_read_ptx_sreg_ctaid_x();
}
DEVICE inline unsigned block_size() {
  return __nvvm_read_ptx_sreg_ntid_x();
}
DEVICE inline unsigned block_count() {
  return __nvvm_read_ptx_sreg_nctaid_x();
}
DEVICE inline unsigned global_index() {
  return block_index() * block_size() + thread_index();
}
DEVICE inline unsigned thread_row() {
  return __nvvm_read_ptx_sreg_tid_y();
}
DEVICE inline unsigned block_row() {
  return __nvvm_read_ptx_sreg_ctaid_y();
}
DEVICE inline unsigned block_height() {
  return __nvvm_read_ptx_sreg_ntid_y();
}

DEVICE inline unsigned atomic_add(unsigned* address, unsigned value) {
  return static_cast<unsigned>(
      __nvvm_atom_add_gen_i(reinterpret_cast<int*>(address), static_cast<int>(value)));
}
DEVICE inline unsigned atomic_max(unsigned* address, unsigned value) {
  return __nvvm_atom_max_gen_ui(address, value);
}

BOTH float square_root(float x) {
  return __nvvm_sqrt_rn_f(x);
}
BOTH double square_root(double x) {
  return __nvvm_sqrt_rn_d(x);
}
BOTH double fused(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

#else
#include <cmath>

#define BOTH inline

BOTH float square_root(float x) {
  return std::sqrt(x);
}
BOTH double square_root(double x) {
  return std::sqrt(x);
}
BOTH double fused(double a, double b, double c) {
  return std::fma(a, b, c);
}
#endif
