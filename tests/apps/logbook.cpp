// A program that makes mistakes, and counts the driver's messages about them: in a function of its
// own, which it registered before the cut, and in the driver's log. It sets the attributes of core
// dumps every 40 steps, and reads them in every step. All of it goes into device memory.
//
// With "told" as a second argument it is told of mistakes in calls that a replay does not make
// again.
#include "logbook.h"

#include <cstring>
#include <optional>
#include <string_view>

#include "app.h"
#include "logbook_ptx.h"

namespace app {

constexpr char kNonsense[] = ".version nonsense";

// The driver calls it as long as it lives.
class Listener {
 public:
  Listener() {
    CHECK(cuLogsRegisterCallback(
        [](void* self, CUlogLevel, char*, size_t length) {
          if (length != 0) ++static_cast<Listener*>(self)->told_;
        },
        this, &handle_));
  }
  ~Listener() { CHECK(cuLogsUnregisterCallback(handle_)); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  unsigned told() const { return told_; }

 private:
  CUlogsCallbackHandle handle_ = nullptr;
  unsigned told_ = 0;
};

// How much the driver's log has become longer by. After a restore it lacks what was logged before.
class Log {
 public:
  void begin() { CHECK(cuLogsCurrent(&at_, 0)); }
  unsigned length() {
    std::vector<char> text(25600);
    size_t size = text.size();
    CHECK(cuLogsDumpToMemory(&at_, text.data(), &size, 0));
    if (text[size] != '\0' || std::strlen(text.data()) != size) fail("log", "has no end");
    return static_cast<unsigned>(size);
  }

 private:
  CUlogIterator at_ = 0;
};

// In calls that are made again, whatever came of them.
void link_nonsense() {
  CUlinkState state = nullptr;
  CHECK(cuLinkCreate_v2(0, nullptr, nullptr, &state));
  void* image = nullptr;
  size_t size = 0;
  // Some drivers look at it at once, some when all of it is there.
  if (cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, const_cast<char*>(kNonsense), sizeof kNonsense,
                       "nonsense", 0, nullptr, nullptr) == CUDA_SUCCESS &&
      cuLinkComplete(state, &image, &size) == CUDA_SUCCESS) {
    fail("link", "nonsense was understood");
  }
  CHECK(cuLinkDestroy(state));
}

// In one that is not, once it has failed.
void load_nonsense() {
  CUmodule module = nullptr;
  if (cuModuleLoadData(&module, kNonsense) == CUDA_SUCCESS) fail("load", "nonsense was understood");
}

void ask_for_core_dumps(unsigned flags, std::string file) {
  size_t size = sizeof flags;
  CHECK(cuCoredumpSetAttribute(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
  size = file.size() + 1;
  CHECK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, file.data(), &size));
}

unsigned asked_for_core_dumps() {
  unsigned flags = 0;
  size_t size = sizeof flags;
  CHECK(cuCoredumpGetAttribute(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
  std::vector<char> file(1024);
  size = file.size();
  CHECK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, file.data(), &size));
  return flags * 100 + static_cast<unsigned>(std::strlen(file.data()));
}

int run(int steps, bool told_of_all) {
  const Device device(ContextKind::kPrimary);
  const Module module(kLogbookPtx);
  const CUfunction enter = module.function("enter");
  {
    std::vector<unsigned> model(kCells, 1);
    const Buffer<unsigned> cells(model);
    Log log;
    std::optional<Listener> listener;
    unsigned told = 0;
    for (int step = 0; step < steps; ++step) {
      if (step % 40 == 0) ask_for_core_dumps(step / 40 % 4, std::string(step / 40 % 7 + 1, 'x'));
      if (step % 20 == 10 && !told_of_all) {
        told += listener->told();
        listener.reset();
        load_nonsense();
      }
      if (!listener) listener.emplace();
      if (step % 10 == 9) log.begin();
      if (step % 5 == 4) told_of_all ? load_nonsense() : link_nonsense();
      const unsigned entry = told + listener->told() * 3 + asked_for_core_dumps() +
                             (step % 10 == 9 ? log.length() : 0);
      launch(enter, {kCells / 128, 128}, nullptr, cells.address(), entry);
      CHECK(cuCtxSynchronize());
      for (unsigned at = 0; at < kCells; ++at) model[at] = entered(model[at], at, entry);
      if (step % 10 != 9) continue;
      must_equal("cells", cells.download(), model);
      std::printf("step %d: %016" PRIx64 ", told %u\n", step, digest(model), listener->told());
    }
    must_equal("cells", cells.download(), model);
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  const bool told = argc == 3 && std::string_view(argv[2]) == "told";
  return app::run(app::steps_from(told ? 2 : argc, argv, 2000), told);
}
