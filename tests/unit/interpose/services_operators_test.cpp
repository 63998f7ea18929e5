#include <dlfcn.h>
#include <gtest/gtest.h>

namespace {

TEST(PrivateOperators, ServeTheLibraryAndNobodyElse) {
  void* const library = dlopen(OPERATORS_PROBE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto* const probe = reinterpret_cast<const char* (*)()>(dlsym(library, "probe_operators"));
  ASSERT_NE(probe, nullptr);
  EXPECT_STREQ(probe(), "");
  // Found, if at all, in a library that it needs, never in itself.
  for (const char* name : {"_Znwm", "_ZdlPv", "malloc", "__wrap_malloc", "__cxa_throw"}) {
    Dl_info symbol{};
    void* const found = dlsym(library, name);
    if (found == nullptr || dladdr(found, &symbol) == 0) continue;
    EXPECT_STRNE(symbol.dli_fname, OPERATORS_PROBE) << name;
  }
}

}  // namespace
