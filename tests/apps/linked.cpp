// Code that the program links itself, of two texts: variables of both carry state.
#include "linked.h"

#include "app.h"
#include "linked_parts_ptx.h"
#include "linked_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr Shape kShape{kCells / kThreads, kThreads};

CUmodule load_linked() {
  CUlinkState link = nullptr;
  CUmodule module = nullptr;
  void* image = nullptr;
  size_t bytes = 0;
  CHECK(cuLinkCreate_v2(0, nullptr, nullptr, &link));
  CHECK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, const_cast<unsigned char*>(kLinkedPtx),
                         sizeof kLinkedPtx, "linked", 0, nullptr, nullptr));
  CHECK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, const_cast<unsigned char*>(kLinkedPartsPtx),
                         sizeof kLinkedPartsPtx, "parts", 0, nullptr, nullptr));
  CHECK(cuLinkComplete(link, &image, &bytes));
  CHECK(cuModuleLoadData(&module, image));
  CHECK(cuLinkDestroy(link));  // and the image with it
  return module;
}

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  const CUmodule module = load_linked();
  CUfunction take_step = nullptr, count_step = nullptr, change_salt = nullptr;
  CHECK(cuModuleGetFunction(&take_step, module, "take_step"));
  CHECK(cuModuleGetFunction(&count_step, module, "count_step"));
  CHECK(cuModuleGetFunction(&change_salt, module, "change_salt"));
  {
    std::vector<unsigned> model(kCells, 9u);
    const Buffer<unsigned> cells(model);
    unsigned seeds[4] = {3, 5, 7, 11}, salt = 17;
    for (int step = 0; step < steps; ++step) {
      if (step % 5 == 2) {
        salt = salt * 5 + 3;
        launch(change_salt, {1, 32}, nullptr, salt);
      }
      launch(take_step, kShape, nullptr, cells.address());
      launch(count_step, {1, 32}, nullptr);
      if (step % 4 == 3) CHECK(cuCtxSynchronize());
      for (unsigned at = 0; at < kCells; ++at) {
        model[at] = salted(turned(model[at], seeds[at % 4]), salt);
      }
      seeds[static_cast<unsigned>(step + 1) % 4] += 2;
      if (step % 20 == 19) {
        must_equal("cells", cells.download(), model);
        std::printf("step %d: %016" PRIx64 "\n", step, digest(model));
      }
    }
    must_equal("cells", cells.download(), model);
  }
  CHECK(cuModuleUnload(module));
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
