// Tells programs about the compiling of their code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "tools/simcuda/driver/logs.h"
#include "tools/simcuda/driver/module.h"

namespace simcuda {

// The error buffer that a program passed with a load, if it did.
class ErrorBuffer {
 public:
  ErrorBuffer(unsigned count, const CUjit_option* options, void** values) {
    for (unsigned i = 0; options != nullptr && values != nullptr && i < count; ++i) {
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER) text_ = static_cast<char*>(values[i]);
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
        error_size_ = &values[i];
        room_ = reinterpret_cast<uintptr_t>(values[i]);
      }
      if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) info_size_ = &values[i];
    }
  }
  // Writes the line, and tells the sizes that were used.
  void write(const std::string& line) const {
    if (info_size_ != nullptr) *info_size_ = nullptr;
    if (error_size_ == nullptr) return;
    size_t used = 0;
    if (text_ != nullptr && room_ != 0) {
      used = std::min(line.size(), room_ - 1);
      std::memcpy(text_, line.data(), used);
      text_[used] = '\0';
    }
    *error_size_ = reinterpret_cast<void*>(used);
  }

 private:
  char* text_ = nullptr;
  size_t room_ = 0;  // bytes of it
  void** error_size_ = nullptr;
  void** info_size_ = nullptr;
};

// Says what is wrong with an image where people and the program look.
inline CUresult report(CUresult result, const LoadLog& log, const ErrorBuffer& buffer) {
  buffer.write(result == CUDA_SUCCESS ? "" : log.error);
  if (!log.error.empty()) logs().say(log.error);
  return result;
}

}  // namespace simcuda
