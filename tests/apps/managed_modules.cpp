// __managed__ variables of modules and of a library, which the host reads and writes in place. A
// module goes now and then, and comes again as it was at first.
#include <numeric>

#include "app.h"

namespace app {

constexpr unsigned kCells = 1024, kThreads = 64;

// clang does not know such variables.
constexpr char kPtx[] = R"(
.version 6.4
.target sm_70
.address_size 64
.visible .global .attribute(.managed) .align 4 .b32 cells[1024];
.visible .global .attribute(.managed) .align 4 .u32 total = 3;
.visible .global .attribute(.managed) .align 4 .u32 factor = 5;
.visible .entry stir(.param .u32 with)
{
  .reg .pred %p<2>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<6>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd1, %r4, 4;
  mov.u64 %rd2, cells;
  add.u64 %rd3, %rd2, %rd1;
  ld.global.u32 %r5, [%rd3];
  ld.global.u32 %r6, [factor];
  ld.param.u32 %r7, [with];
  mad.lo.u32 %r8, %r5, %r6, %r7;
  add.u32 %r8, %r8, %r4;
  st.global.u32 [%rd3], %r8;
  atom.global.add.u32 %r9, [total], %r8;
  ret;
}
)";

// The code's variables as the host sees them, and a model of what they should be.
class Variables {
 public:
  void place(CUdeviceptr cells, CUdeviceptr total, CUdeviceptr factor) {
    cells_ = reinterpret_cast<unsigned*>(cells);
    total_ = reinterpret_cast<unsigned*>(total);
    factor_ = reinterpret_cast<unsigned*>(factor);
    model_.assign(kCells, 0);
    model_total_ = 3;
    model_factor_ = 5;
    expect("at first");
  }
  void expect(const char* what) const {
    if (!std::equal(model_.begin(), model_.end(), cells_) || *total_ != model_total_ ||
        *factor_ != model_factor_) {
      fail(what, "the variables are not what they should be");
    }
  }
  void stirred(unsigned with) {
    for (unsigned at = 0; at < kCells; ++at) {
      model_[at] = model_[at] * model_factor_ + with + at;
      model_total_ += model_[at];
    }
  }
  // By the host, from what it finds.
  void turn(unsigned at) {
    model_factor_ = model_total_ | 1;
    *factor_ = *total_ | 1;
    model_[at] ^= 77;
    cells_[at] ^= 77;
  }
  uint64_t sum() const { return std::accumulate(cells_, cells_ + kCells, uint64_t{*total_}); }

 private:
  unsigned* cells_ = nullptr;
  unsigned* total_ = nullptr;
  unsigned* factor_ = nullptr;
  std::vector<unsigned> model_;
  unsigned model_total_ = 0, model_factor_ = 0;
};

class OwnModule {
 public:
  OwnModule() { load(); }
  ~OwnModule() { CHECK(cuModuleUnload(module_)); }
  OwnModule(const OwnModule&) = delete;
  OwnModule& operator=(const OwnModule&) = delete;
  void renew() {
    CHECK(cuModuleUnload(module_));
    load();
  }
  CUfunction stir() const { return stir_; }
  Variables& variables() { return variables_; }

 private:
  CUdeviceptr find(const char* name) const {
    CUdeviceptr address = 0;
    CHECK(cuModuleGetGlobal_v2(&address, nullptr, module_, name));
    return address;
  }
  void load() {
    CHECK(cuModuleLoadData(&module_, kPtx));
    CHECK(cuModuleGetFunction(&stir_, module_, "stir"));
    variables_.place(find("cells"), find("total"), find("factor"));
  }

  CUmodule module_ = nullptr;
  CUfunction stir_ = nullptr;
  Variables variables_;
};

class OwnLibrary {
 public:
  OwnLibrary() {
    CHECK(cuLibraryLoadData(&library_, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cuLibraryGetKernel(&stir_, library_, "stir"));
    variables_.place(find("cells"), find("total"), find("factor"));
  }
  ~OwnLibrary() { CHECK(cuLibraryUnload(library_)); }
  OwnLibrary(const OwnLibrary&) = delete;
  OwnLibrary& operator=(const OwnLibrary&) = delete;
  CUfunction stir() const { return reinterpret_cast<CUfunction>(stir_); }
  Variables& variables() { return variables_; }

 private:
  CUdeviceptr find(const char* name) const {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    CHECK(cuLibraryGetManaged(&address, &bytes, library_, name));
    return address;
  }

  CUlibrary library_ = nullptr;
  CUkernel stir_ = nullptr;
  Variables variables_;
};

void step_of(CUfunction stir, Variables& variables, unsigned with) {
  launch(stir, {kCells / kThreads, kThreads}, nullptr, with);
  CHECK(cuCtxSynchronize());
  variables.stirred(with);
  variables.turn(with % kCells);
}

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  {
    OwnModule lasting, fleeting;
    OwnLibrary library;
    for (int step = 0; step < steps; ++step) {
      const auto turn = static_cast<unsigned>(step);
      step_of(lasting.stir(), lasting.variables(), turn * 3);
      step_of(library.stir(), library.variables(), turn * 5);
      if (step % 9 == 8) {
        // The module is unloaded while its kernel may still run.
        launch(fleeting.stir(), {kCells / kThreads, kThreads}, nullptr, turn);
        fleeting.renew();
      }
      step_of(fleeting.stir(), fleeting.variables(), turn * 7);
      if (step % 10 != 9) continue;
      for (const Variables* each :
           {&lasting.variables(), &library.variables(), &fleeting.variables()}) {
        each->expect("variables");
        std::printf("step %d: %016" PRIx64 "\n", step, each->sum());
      }
    }
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
