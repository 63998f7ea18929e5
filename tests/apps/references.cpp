// Texture and surface references, which programs used before there were objects: the code names
// them, and their bindings and ways of reading were set before the cut. Only the kernel has written
// the contents of the arrays.
#include <array>

#include "app.h"

namespace app {

constexpr unsigned kSide = 32, kCells = kSide * kSide;
constexpr unsigned kWeights = 1 << 19;  // of which the kernel reads kCells

// No compiler makes such code any more.
constexpr char kPtx[] = R"(
.version 6.4
.target sm_70
.address_size 64
.global .texref field;
.global .texref weights;
.global .surfref board;
.visible .entry mix(.param .u64 out)
{
  .reg .b32 %r<20>;
  .reg .f32 %f<10>;
  .reg .b64 %rd<6>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  shl.b32 %r3, %r2, 5;
  add.u32 %r3, %r3, %r1;
  add.u32 %r4, %r1, 1;
  add.u32 %r5, %r2, 1;
  cvt.rn.f32.u32 %f1, %r4;
  cvt.rn.f32.u32 %f2, %r5;
  tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [field, {%f1, %f2}];
  mul.f32 %f3, %f3, 0f40800000;
  cvt.rzi.u32.f32 %r6, %f3;
  tex.1d.v4.u32.s32 {%r7, %r8, %r9, %r10}, [weights, {%r3}];
  shl.b32 %r11, %r1, 2;
  suld.b.2d.b32.trap %r12, [board, {%r11, %r2}];
  mad.lo.u32 %r13, %r12, 1664525, %r7;
  add.u32 %r13, %r13, %r6;
  sust.b.2d.b32.trap [board, {%r11, %r2}], %r13;
  ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r3, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r13;
  ret;
}
)";

class Array {
 public:
  Array(CUarray_format format, unsigned flags) {
    const CUDA_ARRAY3D_DESCRIPTOR descriptor{kSide, kSide, 0, format, 1, flags};
    CHECK(cuArray3DCreate_v2(&array_, &descriptor));
  }
  ~Array() { CHECK(cuArrayDestroy(array_)); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  CUarray get() const { return array_; }
  template <class T>
  void upload(const std::vector<T>& cells) const {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = cells.data();
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array_;
    copy.WidthInBytes = kSide * sizeof(T);
    copy.Height = kSide;
    CHECK(cuMemcpy2D_v2(&copy));
  }

 private:
  CUarray array_ = nullptr;
};

std::vector<float> field_of(unsigned number) {
  std::vector<float> cells(kCells);
  for (unsigned at = 0; at < kCells; ++at) {
    cells[at] = static_cast<float>((at * 7 + number * 131) % 256);
  }
  return cells;
}

// The sum of the four cells around a corner; a cell outside stands for the nearest one inside.
unsigned sum_at(const std::vector<float>& field, unsigned x, unsigned y) {
  const unsigned right = std::min(x + 1, kSide - 1), above = std::min(y + 1, kSide - 1);
  return static_cast<unsigned>(field[y * kSide + x] + field[y * kSide + right] +
                               field[above * kSide + x] + field[above * kSide + right]);
}

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  CUmodule module = nullptr;
  CUfunction mix = nullptr;
  CHECK(cuModuleLoadData(&module, kPtx));
  CHECK(cuModuleGetFunction(&mix, module, "mix"));
  CUtexref field = nullptr, weights = nullptr;
  CUsurfref board = nullptr;
  CHECK(cuModuleGetTexRef(&field, module, "field"));
  CHECK(cuModuleGetTexRef(&weights, module, "weights"));
  CHECK(cuModuleGetSurfRef(&board, module, "board"));
  {
    const Array first(CU_AD_FORMAT_FLOAT, 0), second(CU_AD_FORMAT_FLOAT, 0),
        state(CU_AD_FORMAT_UNSIGNED_INT32, CUDA_ARRAY3D_SURFACE_LDST);
    const std::array<const Array*, 2> arrays{&first, &second};
    const std::array<std::vector<float>, 2> fields{field_of(0), field_of(1)};
    for (size_t i = 0; i < arrays.size(); ++i) arrays[i]->upload(fields[i]);
    std::vector<unsigned> model(kCells, 1), table(kWeights);
    state.upload(model);
    for (unsigned at = 0; at < kWeights; ++at) table[at] = at * 2654435761u;
    const Buffer<unsigned> in_memory(table), out(kCells);
    size_t offset = 0;
    CHECK(cuTexRefSetFilterMode(field, CU_TR_FILTER_MODE_LINEAR));
    CHECK(cuTexRefSetAddressMode(field, 0, CU_TR_ADDRESS_MODE_CLAMP));
    CHECK(cuTexRefSetAddressMode(field, 1, CU_TR_ADDRESS_MODE_CLAMP));
    CHECK(cuTexRefSetArray(field, first.get(), 1));
    CHECK(cuTexRefSetFormat(weights, CU_AD_FORMAT_UNSIGNED_INT32, 1));
    CHECK(cuTexRefSetFlags(weights, CU_TRSF_READ_AS_INTEGER));
    CHECK(cuTexRefSetAddress_v2(&offset, weights, in_memory.address(), in_memory.bytes()));
    if (offset != 0) fail("weights", "are not where a texture may begin");
    CHECK(cuSurfRefSetArray(board, state.get(), 0));
    size_t bound = 0;
    for (int step = 0; step < steps; ++step) {
      // Seldom: at a cut it is mostly as it was set before.
      if (step % 23 == 22) {
        bound = 1 - bound;
        CHECK(cuTexRefSetArray(field, arrays[bound]->get(), 1));
      }
      launch(mix, {kSide, kSide}, nullptr, out.address());
      CHECK(cuCtxSynchronize());
      for (unsigned at = 0; at < kCells; ++at) {
        model[at] = model[at] * 1664525 + table[at] + sum_at(fields[bound], at % kSide, at / kSide);
      }
      if (step % 10 != 9) continue;
      must_equal("cells", out.download(), model);
      std::printf("step %d: %016" PRIx64 "\n", step, digest(model));
    }
    must_equal("cells", out.download(), model);
  }
  CHECK(cuModuleUnload(module));
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
