// Arrays, textures and surfaces by the runtime: a wave that is read through a filtering texture and
// written through a surface, over layers, with a picture in a mipmapped array. Whole numbers that
// are small enough for any filter to be exact, so that the host's results are the same.
#include "program.h"

namespace {

constexpr int kSide = 32;
constexpr int kLayers = 3;
constexpr size_t kCells = static_cast<size_t>(kSide) * kSide;

__host__ __device__ inline float advanced(float four, float picture, int layer) {
  return static_cast<float>(
      (static_cast<unsigned>(four) + 5 * static_cast<unsigned>(picture) + 7 * layer + 1) % 512);
}

__global__ void advance(cudaTextureObject_t wave, cudaSurfaceObject_t next,
                        cudaTextureObject_t picture, float level) {
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(blockIdx.x);
  const int layer = static_cast<int>(blockIdx.y);
  const float four = 4 * tex2DLayered<float>(wave, x + 1.0f, y + 1.0f, layer);
  const uchar4 colour = tex2DLod<uchar4>(picture, (x + 0.5f) / kSide, (y + 0.5f) / kSide, level);
  surf2DLayeredwrite(advanced(four, static_cast<float>(colour.y), layer), next,
                     x * static_cast<int>(sizeof(float)), y, layer);
}

struct Wave {
  cudaArray_t array = nullptr;
  cudaTextureObject_t texture = 0;
  cudaSurfaceObject_t surface = 0;
};

Wave make_wave() {
  Wave wave;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CHECK(cudaMalloc3DArray(&wave.array, &format, make_cudaExtent(kSide, kSide, kLayers),
                          cudaArrayLayered | cudaArraySurfaceLoadStore));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = wave.array;
  cudaTextureDesc description = {};
  description.addressMode[0] = description.addressMode[1] = cudaAddressModeClamp;
  description.filterMode = cudaFilterModeLinear;
  CHECK(cudaCreateTextureObject(&wave.texture, &resource, &description, nullptr));
  CHECK(cudaCreateSurfaceObject(&wave.surface, &resource));
  return wave;
}

void destroy(const Wave& wave) {
  CHECK(cudaDestroyTextureObject(wave.texture));
  CHECK(cudaDestroySurfaceObject(wave.surface));
  CHECK(cudaFreeArray(wave.array));
}

// All layers, between the host and the array.
void copy_layers(cudaArray_t array, std::vector<float>& host, cudaMemcpyKind kind) {
  cudaMemcpy3DParms copy = {};
  const cudaPitchedPtr memory =
      make_cudaPitchedPtr(host.data(), kSide * sizeof(float), kSide, kSide);
  if (kind == cudaMemcpyHostToDevice) {
    copy.srcPtr = memory;
    copy.dstArray = array;
  } else {
    copy.srcArray = array;
    copy.dstPtr = memory;
  }
  copy.extent = make_cudaExtent(kSide, kSide, kLayers);
  copy.kind = kind;
  CHECK(cudaMemcpy3D(&copy));
}

void advance_on_host(std::vector<float>& wave, const std::vector<uchar4>& picture, int side) {
  std::vector<float> next(wave.size());
  for (int layer = 0; layer < kLayers; ++layer) {
    const float* now = wave.data() + static_cast<size_t>(layer) * kCells;
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const int right = x + 1 < kSide ? x + 1 : x, below = y + 1 < kSide ? y + 1 : y;
        const float four = now[y * kSide + x] + now[y * kSide + right] + now[below * kSide + x] +
                           now[below * kSide + right];
        const uchar4 colour = picture[y * side / kSide * side + x * side / kSide];
        next[static_cast<size_t>(layer) * kCells + y * kSide + x] =
            advanced(four, static_cast<float>(colour.y), layer);
      }
    }
  }
  wave = next;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 600);
  uint32_t seed = 3;
  std::vector<float> host(kCells * kLayers);
  for (float& value : host) value = static_cast<float>(next_random(seed) % 512);
  Wave now = make_wave(), next = make_wave();
  copy_layers(now.array, host, cudaMemcpyHostToDevice);

  const cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
  cudaMipmappedArray_t picture = nullptr;
  CHECK(cudaMallocMipmappedArray(&picture, &format, make_cudaExtent(16, 16, 0), 2));
  std::vector<uchar4> levels[2];
  for (int level = 0; level < 2; ++level) {
    const int side = 16 >> level;
    cudaArray_t array = nullptr;
    CHECK(cudaGetMipmappedArrayLevel(&array, picture, level));
    for (int i = 0; i < side * side; ++i) {
      const auto value = static_cast<unsigned char>(next_random(seed) % 64);
      levels[level].push_back(make_uchar4(1, value, 2, 3));
    }
    const size_t row = side * sizeof(uchar4);
    CHECK(cudaMemcpy2DToArray(array, 0, 0, levels[level].data(), row, row, side,
                              cudaMemcpyHostToDevice));
  }
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeMipmappedArray;
  resource.res.mipmap.mipmap = picture;
  cudaTextureDesc description = {};
  description.addressMode[0] = description.addressMode[1] = cudaAddressModeWrap;
  description.normalizedCoords = 1;
  description.maxMipmapLevelClamp = 1;
  cudaTextureObject_t of_picture = 0;
  CHECK(cudaCreateTextureObject(&of_picture, &resource, &description, nullptr));

  for (int step = 0; step < steps; ++step) {
    const int level = step % 2;
    if (step % 25 == 24) {
      destroy(next);
      next = make_wave();
    }
    advance<<<dim3(kSide, kLayers), kSide>>>(now.texture, next.surface, of_picture,
                                             static_cast<float>(level));
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    std::swap(now, next);
    advance_on_host(host, levels[level], 16 >> level);
    if (step % 8 == 0) {
      std::vector<float> found(host.size());
      copy_layers(now.array, found, cudaMemcpyDeviceToHost);
      std::printf("step %d hash %016llx\n", step, static_cast<unsigned long long>(hash_of(found)));
      expect_same("the wave", found, host);
    }
  }
  std::vector<float> found(host.size());
  copy_layers(now.array, found, cudaMemcpyDeviceToHost);
  expect_same("the wave", found, host);
  destroy(now);
  destroy(next);
  CHECK(cudaDestroyTextureObject(of_picture));
  CHECK(cudaFreeMipmappedArray(picture));
  std::puts("ok");
  return 0;
}
