// Logs and core dumps.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "tools/simcuda/driver/core_dumps.h"
#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/logs.h"

namespace simcuda {
namespace {

constexpr size_t kMostText = 1024;  // with the zero behind it

bool is_text(CUcoredumpSettings attribute) {
  return attribute == CU_COREDUMP_FILE || attribute == CU_COREDUMP_PIPE;
}

size_t bytes_of(CUcoredumpSettings attribute) {
  if (is_text(attribute)) return kMostText;
  return attribute == CU_COREDUMP_GENERATION_FLAGS ? sizeof(unsigned) : sizeof(bool);
}

bool is_known(CUcoredumpSettings attribute) {
  return attribute >= CU_COREDUMP_ENABLE_ON_EXCEPTION && attribute <= CU_COREDUMP_GENERATION_FLAGS;
}

std::string at_first(CUcoredumpSettings attribute) {
  if (!is_text(attribute)) {
    std::string zero(bytes_of(attribute), '\0');
    if (attribute == CU_COREDUMP_TRIGGER_HOST) zero[0] = 1;
    return zero;
  }
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  const std::string kind = attribute == CU_COREDUMP_FILE ? "core" : "corepipe";
  return kind + ".cuda." + host + "." + std::to_string(getpid());
}

}  // namespace

CUresult CoreDumps::get(uint64_t context, CUcoredumpSettings attribute, void* value,
                        size_t* size) const {
  if (!is_known(attribute) || size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (value == nullptr) {
    *size = bytes_of(attribute);
    return CUDA_SUCCESS;
  }
  std::string bytes;
  {
    std::lock_guard lock(mutex_);
    std::optional<std::string> found;
    for (const uint64_t whose : {context, kGlobal}) {
      const auto own = set_.find(whose);
      if (found || own == set_.end()) continue;
      if (const auto at = own->second.find(attribute); at != own->second.end()) found = at->second;
    }
    bytes = found ? *found : at_first(attribute);
  }
  const size_t needed = bytes.size() + (is_text(attribute) ? 1 : 0);
  if (*size < needed) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(value, bytes.c_str(), needed);
  *size = needed;
  return CUDA_SUCCESS;
}

CUresult CoreDumps::set(uint64_t context, CUcoredumpSettings attribute, const void* value,
                        const size_t* size) {
  if (!is_known(attribute) || value == nullptr || size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // A trigger from outside concerns the whole process.
  const bool of_process =
      attribute == CU_COREDUMP_PIPE || attribute == CU_COREDUMP_ENABLE_USER_TRIGGER;
  if (context != kGlobal && of_process) return CUDA_ERROR_NOT_PERMITTED;
  std::string bytes(static_cast<const char*>(value), std::min(*size, kMostText));
  if (is_text(attribute)) {
    bytes.resize(std::min(bytes.find('\0'), bytes.size()));
    if (bytes.size() >= kMostText) return CUDA_ERROR_INVALID_VALUE;
  } else if (*size != bytes_of(attribute)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::lock_guard lock(mutex_);
  set_[context][attribute] = std::move(bytes);
  return CUDA_SUCCESS;
}

}  // namespace simcuda

using simcuda::Context;
using simcuda::CoreDumps;
using simcuda::Driver;
using simcuda::in_context;
using simcuda::in_driver;
using simcuda::logs;

CUresult cuLogsRegisterCallback(CUlogsCallback function, void* data,
                                CUlogsCallbackHandle* callback) {
  return in_driver([&](Driver&) {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUlogsCallbackHandle handle = logs().add(function, data);
    if (callback != nullptr) *callback = handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  return in_driver(
      [&](Driver&) { return logs().remove(callback) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUresult cuLogsCurrent(CUlogIterator* iterator, unsigned flags) {
  return in_driver([&](Driver&) {
    if (iterator == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *iterator = logs().end();
    return CUDA_SUCCESS;
  });
}

CUresult cuLogsDumpToFile(CUlogIterator* iterator, const char* path, unsigned flags) {
  return in_driver([&](Driver&) {
    if (path == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "w"), std::fclose);
    if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUlogIterator all = 0;
    std::string text;
    (void)logs().read(iterator != nullptr ? iterator : &all, SIZE_MAX, &text);
    return std::fputs(text.c_str(), file.get()) < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
  });
}

CUresult cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer, size_t* size, unsigned flags) {
  return in_driver([&](Driver&) {
    if (buffer == nullptr || size == nullptr || *size == 0 || flags != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    CUlogIterator all = 0;
    std::string text;
    const bool fits = logs().read(iterator != nullptr ? iterator : &all, *size - 1, &text);
    *size = text.size();
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuCoredumpGetAttribute(CUcoredumpSettings attribute, void* value, size_t* size) {
  return in_context([&](Driver& state, Context& context) {
    return state.core_dumps.get(context.id(), attribute, value, size);
  });
}

CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings attribute, void* value, size_t* size) {
  return in_driver([&](Driver& state) {
    return state.core_dumps.get(CoreDumps::kGlobal, attribute, value, size);
  });
}

CUresult cuCoredumpSetAttribute(CUcoredumpSettings attribute, void* value, size_t* size) {
  return in_context([&](Driver& state, Context& context) {
    return state.core_dumps.set(context.id(), attribute, value, size);
  });
}

CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings attribute, void* value, size_t* size) {
  return in_driver([&](Driver& state) {
    return state.core_dumps.set(CoreDumps::kGlobal, attribute, value, size);
  });
}
