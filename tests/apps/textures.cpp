// Textures of an array, of a mipmapped array, of cubes and of device memory. Only the arrays keep
// the data of earlier steps: the memory that it came through is cleared.
#include "textures.h"

#include "app.h"
#include "textures_ptx.h"

namespace app {

constexpr size_t kCells = size_t{kSide} * kSide;

size_t side_of(int level) {
  return static_cast<size_t>(kLevelSide >> level);
}

CUDA_MEMCPY2D rows(size_t width, size_t height) {
  CUDA_MEMCPY2D copy{};
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = width * sizeof(float);
  copy.Height = height;
  return copy;
}

CUtexObject texture_of(const CUDA_RESOURCE_DESC& resource, CUfilter_mode filter, unsigned flags) {
  CUDA_TEXTURE_DESC description{};
  description.addressMode[0] = description.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
  description.filterMode = filter;
  description.flags = flags;
  description.maxMipmapLevelClamp = kLevels - 1;
  CUtexObject texture = 0;
  CHECK(cuTexObjectCreate(&texture, &resource, &description, nullptr));
  return texture;
}

struct Host {
  std::vector<float> field = std::vector<float>(kCells);
  std::vector<float> levels[kLevels];
  std::vector<unsigned> weights = std::vector<unsigned>(kWeights);
  std::vector<float> faces = std::vector<float>(size_t{kFaces} * kFaceSide * kFaceSide);

  void mix(int level) {
    std::vector<float> next(kCells);
    const size_t last = kSide - 1;
    for (size_t y = 0; y < kSide; ++y) {
      for (size_t x = 0; x < kSide; ++x) {
        const size_t right = std::min(x + 1, last), below = std::min(y + 1, last);
        const float four = field[y * kSide + x] + field[y * kSide + right] +
                           field[below * kSide + x] + field[below * kSide + right];
        const size_t side = side_of(level);
        const float of_level = levels[level][y * side / kSide * side + x * side / kSide];
        const size_t row = (x + y) % kFaces * kFaceSide + y % kFaceSide;
        next[y * kSide + x] = mixed(four, of_level, weights[(x + y) % kWeights],
                                    faces[row * kFaceSide + x % kFaceSide], static_cast<int>(x));
      }
    }
    field = next;
  }
};

// Faces of cubes, and a texture of them.
class Cubes {
 public:
  explicit Cubes(const std::vector<float>& faces) {
    const CUDA_ARRAY3D_DESCRIPTOR shape{kFaceSide, kFaceSide,
                                        kFaces,    CU_AD_FORMAT_FLOAT,
                                        1,         CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED};
    CHECK(cuArray3DCreate_v2(&array_, &shape));
    for (size_t face = 0; face < kFaces; ++face) change(faces, face);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array_;
    texture_ = texture_of(resource, CU_TR_FILTER_MODE_POINT, CU_TRSF_NORMALIZED_COORDINATES);
  }
  ~Cubes() {
    CHECK(cuTexObjectDestroy(texture_));
    CHECK(cuArrayDestroy(array_));
  }
  Cubes(const Cubes&) = delete;
  Cubes& operator=(const Cubes&) = delete;

  CUtexObject texture() const { return texture_; }
  void change(const std::vector<float>& faces, size_t face) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = faces.data() + face * kFaceSide * kFaceSide;
    copy.srcPitch = copy.WidthInBytes = kFaceSide * sizeof(float);
    copy.srcHeight = copy.Height = kFaceSide;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array_;
    copy.dstZ = face;
    copy.Depth = 1;
    CHECK(cuMemcpy3D_v2(&copy));
  }

 private:
  CUarray array_ = nullptr;
  CUtexObject texture_ = 0;
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  const Module module(kTexturesPtx);
  CUfunction mix = module.function("mix");
  Host host;
  Random random(5);
  for (float& value : host.field) value = static_cast<float>(random.below(1024));
  for (unsigned& weight : host.weights) weight = random.below(1024);
  for (float& value : host.faces) value = static_cast<float>(random.below(256));

  CUarray field = nullptr;
  const CUDA_ARRAY_DESCRIPTOR plain{kSide, kSide, CU_AD_FORMAT_FLOAT, 1};
  CHECK(cuArrayCreate_v2(&field, &plain));
  CUmipmappedArray pyramid = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR shape{kLevelSide, kLevelSide, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  CHECK(cuMipmappedArrayCreate(&pyramid, &shape, kLevels));
  CUarray levels[kLevels] = {};
  for (int level = 0; level < kLevels; ++level) {
    CHECK(cuMipmappedArrayGetLevel(&levels[level], pyramid, static_cast<unsigned>(level)));
    host.levels[level].resize(side_of(level) * side_of(level));
    for (float& value : host.levels[level]) value = static_cast<float>(random.below(256));
    CUDA_MEMCPY2D fill = rows(side_of(level), side_of(level));
    fill.srcMemoryType = CU_MEMORYTYPE_HOST;
    fill.srcHost = host.levels[level].data();
    fill.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    fill.dstArray = levels[level];
    CHECK(cuMemcpy2D_v2(&fill));
  }
  const Buffer<unsigned> weights(host.weights);
  Buffer<float> scratch(host.field);
  CUDA_MEMCPY2D keep = rows(kSide, kSide);
  keep.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  keep.srcDevice = scratch.address();
  keep.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  keep.dstArray = field;
  CHECK(cuMemcpy2D_v2(&keep));

  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = field;
  const CUtexObject of_field = texture_of(resource, CU_TR_FILTER_MODE_LINEAR, 0);
  resource = {};
  resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  resource.res.mipmap.hMipmappedArray = pyramid;
  const CUtexObject of_levels =
      texture_of(resource, CU_TR_FILTER_MODE_POINT, CU_TRSF_NORMALIZED_COORDINATES);
  resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {weights.address(), CU_AD_FORMAT_UNSIGNED_INT32, 1, weights.bytes()};
  const CUtexObject of_weights =
      texture_of(resource, CU_TR_FILTER_MODE_POINT, CU_TRSF_READ_AS_INTEGER);

  Cubes cubes(host.faces);

  for (int step = 1; step <= steps; ++step) {
    const int level = step % kLevels;
    const auto face = static_cast<size_t>(step % kFaces);
    host.faces[face * kFaceSide * kFaceSide + random.below(kFaceSide * kFaceSide)] =
        static_cast<float>(random.below(256));
    cubes.change(host.faces, face);
    // One row of one level changes, the others stay from steps before.
    const size_t side = side_of(level);
    const size_t row = static_cast<size_t>(step / kLevels) % side;
    float* changed = host.levels[level].data() + row * side;
    for (size_t x = 0; x < side; ++x) changed[x] = static_cast<float>(random.below(256));
    CUDA_MEMCPY2D change = rows(side, 1);
    change.srcMemoryType = CU_MEMORYTYPE_HOST;
    change.srcHost = changed;
    change.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    change.dstArray = levels[level];
    change.dstY = row;
    CHECK(cuMemcpy2DAsync_v2(&change, nullptr));

    launch(mix, Shape{.blocks = kSide, .threads = kSide}, nullptr, of_field, of_levels, of_weights,
           cubes.texture(), scratch.pointer(), static_cast<float>(level));
    CHECK(cuMemcpy2DAsync_v2(&keep, nullptr));
    CHECK(cuMemsetD8_v2(scratch.address(), 0, scratch.bytes()));
    CHECK(cuCtxSynchronize());
    host.mix(level);
    if (step % 4 == 0 || step == steps) {
      std::vector<float> now(kCells);
      CUDA_MEMCPY2D back = rows(kSide, kSide);
      back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
      back.srcArray = field;
      back.dstMemoryType = CU_MEMORYTYPE_HOST;
      back.dstHost = now.data();
      CHECK(cuMemcpy2D_v2(&back));
      std::printf("step %d: field %016" PRIx64 "\n", step, digest(now));
      must_equal("field", now, host.field);
    }
  }
  for (const CUtexObject texture : {of_field, of_levels, of_weights}) {
    CHECK(cuTexObjectDestroy(texture));
  }
  CHECK(cuMipmappedArrayDestroy(pyramid));
  CHECK(cuArrayDestroy(field));
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 400));
}
