#include "interpose/services/call_site.h"

#include <dlfcn.h>

#include <exception>

#include "interpose/services/log.h"
#include "interpose/services/module_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace gpusnap {
namespace {

constexpr int kMostFrames = 64;
constexpr size_t kKnownStacks = 1024;  // a power of two

struct Frame {
  uint64_t module;
  uint64_t offset;
};

}  // namespace

// A stack seen before and its hash, found by a hash of the raw return addresses. Written without a
// lock: the three words belong together only where `check` says so.
struct CallSites::Known {
  std::atomic<uint64_t> stack{0};
  std::atomic<uint64_t> site{0};
  std::atomic<uint64_t> check{0};
};

CallSites::CallSites(const void* own_address)
    : own_address_(own_address), known_(std::make_unique<Known[]>(kKnownStacks)) {
  void* const library = dlopen("libunwind.so.8", RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) {
    unwind_ = reinterpret_cast<Unwind>(dlsym(library, "unw_backtrace"));
  }
  if (unwind_ == nullptr) {
    log(LogLevel::kWarn,
        "libunwind.so.8 cannot be opened: call sites are not known, allocations are told apart by "
        "their order alone; install libunwind8");
  }
  // Never closed: another thread may be inside it.
}

CallSites::~CallSites() = default;

std::shared_ptr<const ModuleTable> CallSites::table(uint64_t modules_seen) {
  const std::lock_guard lock(mutex_);
  if (table_ == nullptr || table_->generation() != modules_seen) {
    table_ = std::make_shared<const ModuleTable>(ModuleTable::read());
  }
  return table_;
}

uint64_t CallSites::hash(void* const* addresses, size_t count, uint64_t modules_seen) noexcept try {
  const std::shared_ptr<const ModuleTable> modules = table(modules_seen);
  const Module* const own = modules->find(reinterpret_cast<uintptr_t>(own_address_));
  Frame frames[kMostFrames];
  size_t used = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(addresses[i]);
    const Module* const module = modules->find(address);
    if (module == nullptr) {
      frames[used++] = {0, 0};  // code made at run time has no lasting address
    } else if (module != own) {
      frames[used++] = {module->identity, address - module->base};
    }
  }
  const uint64_t site = XXH3_64bits(frames, used * sizeof(Frame));
  return site != 0 ? site : 1;
} catch (const std::exception&) {
  return 0;  // no memory
}

uint64_t CallSites::here() noexcept {
  if (unwind_ == nullptr) return 0;
  void* addresses[kMostFrames];
  const int found = unwind_(addresses, kMostFrames);
  if (found <= 0) return 0;
  const auto count = static_cast<size_t>(found);
  const uint64_t generation = module_generation();
  const uint64_t stack =
      XXH3_64bits_withSeed(addresses, count * sizeof(void*), generation) | 1;  // 0: an empty place
  Known& known = known_[(stack >> 1) % kKnownStacks];
  if (known.stack.load(std::memory_order_relaxed) == stack) {
    const uint64_t site = known.site.load(std::memory_order_relaxed);
    if ((stack ^ site) == known.check.load(std::memory_order_relaxed)) return site;
  }
  const uint64_t site = hash(addresses, count, generation);
  known.stack.store(stack, std::memory_order_relaxed);
  known.site.store(site, std::memory_order_relaxed);
  known.check.store(stack ^ site, std::memory_order_relaxed);
  return site;
}

}  // namespace gpusnap
