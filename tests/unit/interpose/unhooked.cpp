#include "tests/unit/interpose/unhooked.h"

#include <dlfcn.h>

#include <string>
#include <vector>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/hook/resolve.h"

namespace gpusnap {
namespace {

unsigned hooks_before = 0;

std::vector<std::string> numbered_names() {
  std::vector<std::string> names(kHookCount);
  for (unsigned i = 0; i < kHookCount; ++i) names[i] = "call" + std::to_string(i);
  return names;
}

}  // namespace

void insert_hooks(unsigned inserted) {
  hooks_before = inserted;
}

const char* name_of(HookId id) {
  static const std::vector<std::string> names = numbered_names();
  return names[(static_cast<unsigned>(id) + hooks_before) % kHookCount].c_str();
}

void* driver_symbol(const char* name) {
  return dlsym(RTLD_DEFAULT, name);
}

void* real_dlsym(void* handle, const char* name) {
  return dlsym(handle, name);
}

}  // namespace gpusnap
