// Textures and surfaces against what the CUDA programming guide says, computed here another way:
// coordinates are made to whole 256ths of a texel, and places are found by going around.
#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "tests/unit/simcuda/machine/harness.h"

namespace simcuda::test::texture_test {
namespace {

constexpr uint64_t kTexture = 0x1000, kSurface = 0x2000;

// An image whose elements are in `bytes`.
Image image_of(TexelFormat format, uint32_t dimensions, uint32_t width, uint32_t height,
               uint32_t depth, std::vector<std::byte>& bytes) {
  Image image;
  image.format = format;
  image.dimensions = dimensions;
  image.width = width;
  image.height = height;
  image.depth = depth;
  image.pitch = image.row_bytes() + 16;  // rows do not touch
  image.slice = image.pitch * height;
  bytes.assign(image.slice * depth, std::byte{0x5a});
  image.host = bytes.data();
  return image;
}

template <class T>
T& element(Image& image, uint32_t x, uint32_t y = 0, uint32_t z = 0, uint32_t channel = 0) {
  return *reinterpret_cast<T*>(image.host + z * image.slice + y * image.pitch +
                               x * image.format.bytes() + channel * sizeof(T));
}

constexpr TexelFormat kFloat{TexelKind::kFloat, 4, 1};

Image float_image(uint32_t dimensions, uint32_t width, uint32_t height, uint32_t depth,
                  std::vector<std::byte>& bytes) {
  Image image = image_of(kFloat, dimensions, width, height, depth, bytes);
  std::mt19937 random(7);
  for (uint32_t z = 0; z < depth; ++z) {
    for (uint32_t y = 0; y < height; ++y) {
      for (uint32_t x = 0; x < width; ++x) {
        element<float>(image, x, y, z) = static_cast<float>(random() % 1000) / 8;
      }
    }
  }
  return image;
}

// Runs `instruction` once for each row of `inputs`, whose words are %f0, %f1, ... (and, as
// integers, %i0, ...). It writes %r0 to %r3.
std::vector<std::array<uint32_t, 4>> run_rows(Machine& machine, size_t words,
                                              const std::vector<std::vector<float>>& inputs,
                                              uint64_t handle, Fault* fault = nullptr) {
  std::vector<float> flat;
  for (const auto& row : inputs) {
    flat.insert(flat.end(), row.begin(), row.end());
    flat.resize(flat.size() + words - row.size());
  }
  const uint64_t in = machine.buffer(flat);
  const uint64_t out = machine.buffer(inputs.size() * 16);
  const Fault got = machine.launch("k", {static_cast<uint32_t>(inputs.size()), 1, 1}, {1, 1, 1},
                                   {handle, in, out});
  if (fault != nullptr) {
    *fault = got;
  } else {
    EXPECT_EQ(got.kind, Fault::Kind::kNone) << got.message;
  }
  return machine.read<std::array<uint32_t, 4>>(out, inputs.size());
}

std::string kernel(const std::string& instruction, size_t words) {
  std::string text =
      ".visible .entry k(.param .u64 t, .param .u64 in, .param .u64 out) {\n"
      ".reg .b64 %t, %in, %out, %o; .reg .b32 %n; .reg .f32 %f<12>; .reg .b32 %i<12>, %r<4>;\n"
      ".reg .pred %p; .reg .b16 %h<4>; .reg .b64 %d<2>;\n"
      "ld.param.u64 %t, [t]; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];\n"
      "mov.u32 %n, %ctaid.x; mul.wide.u32 %o, %n, " +
      std::to_string(words * 4) +
      "; add.u64 %in, %in, %o;\n"
      "mul.wide.u32 %o, %n, 16; add.u64 %out, %out, %o;\n";
  for (size_t w = 0; w < words; ++w) {
    const std::string n = std::to_string(w);
    text += "ld.global.f32 %f" + n + ", [%in+" + std::to_string(w * 4) + "];\n";
    text += "cvt.rni.s32.f32 %i" + n + ", %f" + n + ";\n";
  }
  return text + instruction + "\nst.global.v4.b32 [%out], {%r0, %r1, %r2, %r3};\nret; }\n";
}

struct TextureTest : testing::Test {
  std::vector<std::byte> bytes, more;
  Texture texture{kTexture, {}, {}};

  std::vector<std::array<uint32_t, 4>> fetch_all(const std::string& instruction, size_t words,
                                                 const std::vector<std::vector<float>>& inputs,
                                                 Fault* fault = nullptr) const {
    Machine machine(kernel(instruction, words));
    EXPECT_TRUE(machine.ok()) << machine.error().instruction << ": " << machine.error().reason;
    if (!machine.ok()) return {};
    machine.images->textures = {texture};
    return run_rows(machine, words, inputs, kTexture, fault);
  }
  float fetch_float(const std::string& instruction, const std::vector<float>& input) const {
    const auto all = fetch_all(instruction, input.size(), {input});
    return all.empty() ? 0 : std::bit_cast<float>(all[0][0]);
  }
};

constexpr const char* k1d = "tex.1d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0}];";
constexpr const char* k2d = "tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1}];";
constexpr const char* k3d = "tex.3d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1, %f2, %f2}];";

// Where a place along a dimension leads; -1: the border. By going around, step by step.
int64_t lead(AddressMode mode, bool normalized, int64_t at, int64_t size) {
  if (mode == AddressMode::kBorder) return at >= 0 && at < size ? at : -1;
  if (!normalized || mode == AddressMode::kClamp) return at < 0 ? 0 : at < size ? at : size - 1;
  if (mode == AddressMode::kWrap) {
    while (at < 0) at += size;
    while (at >= size) at -= size;
    return at;
  }
  for (;;) {
    if (at < 0) {
      at = -1 - at;
    } else if (at >= size) {
      at = 2 * size - 1 - at;
    } else {
      return at;
    }
  }
}

double expected(Image& image, const Sampler& s, const std::vector<float>& where) {
  const uint32_t sizes[3] = {image.width, image.height, image.depth};
  int64_t low[3] = {0, 0, 0};
  int64_t parts[3] = {0, 0, 0};  // 256ths
  const auto n = static_cast<uint32_t>(where.size());
  for (uint32_t d = 0; d < n; ++d) {
    const double at = double{where[d]} * (s.normalized ? sizes[d] : 1);
    if (s.linear) {
      const auto steps = static_cast<int64_t>(std::floor((at - 0.5) * 256 + 0.5));
      low[d] = steps >> 8;
      parts[d] = steps & 255;
    } else {
      low[d] = static_cast<int64_t>(std::floor(at));
    }
  }
  double sum = 0;
  for (uint32_t corner = 0; corner < 1u << n; ++corner) {
    double share = 1;
    int64_t at[3] = {0, 0, 0};
    bool border = false;
    for (uint32_t d = 0; d < n; ++d) {
      const int64_t up = corner >> d & 1;
      share *= static_cast<double>(up != 0 ? parts[d] : 256 - parts[d]) / 256;
      at[d] = lead(s.mode[d], s.normalized, low[d] + up, sizes[d]);
      border = border || at[d] < 0;
    }
    if (share == 0) continue;
    sum += share *
           (border ? s.border[0]
                   : element<float>(image, static_cast<uint32_t>(at[0]),
                                    static_cast<uint32_t>(at[1]), static_cast<uint32_t>(at[2])));
  }
  return sum;
}

TEST_F(TextureTest, FiltersAndAddressesAsTheGuideSays) {
  const char* const instructions[] = {k1d, k2d, k3d};
  std::mt19937 random(1);
  for (uint32_t dimensions = 1; dimensions <= 3; ++dimensions) {
    Image image = float_image(dimensions, 5, dimensions > 1 ? 4 : 1, dimensions > 2 ? 3 : 1, bytes);
    texture.levels = {image};
    for (int setting = 0; setting < 16; ++setting) {
      Sampler& s = texture.sampler;
      for (uint32_t d = 0; d < 3; ++d) {
        s.mode[d] = static_cast<AddressMode>((setting + static_cast<int>(d)) % 4);
      }
      s.linear = (setting & 4) != 0;
      s.normalized = (setting & 8) != 0;
      s.border[0] = -3;
      std::vector<std::vector<float>> inputs;
      for (int i = 0; i < 200; ++i) {
        std::vector<float> where;
        for (uint32_t d = 0; d < dimensions; ++d) {
          const float at = (static_cast<float>(random() % 4096) - 2048) / 170;
          where.push_back(s.normalized ? at / 5 : at);
        }
        inputs.push_back(where);
      }
      const auto got = fetch_all(instructions[dimensions - 1], dimensions, inputs);
      ASSERT_EQ(got.size(), inputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) {
        const double want = expected(image, s, inputs[i]);
        ASSERT_EQ(std::bit_cast<float>(got[i][0]), static_cast<float>(want))
            << dimensions << "d, setting " << setting << ", at " << inputs[i][0];
      }
    }
  }
}

TEST_F(TextureTest, HalfwayBetweenTwoTexelsIsTheirMean) {
  Image image = float_image(1, 4, 1, 1, bytes);
  element<float>(image, 1) = 10;
  element<float>(image, 2) = 20;
  texture.levels = {image};
  texture.sampler.linear = true;
  EXPECT_EQ(fetch_float(k1d, {1.5f}), 10);
  EXPECT_EQ(fetch_float(k1d, {2.0f}), 15);
  EXPECT_EQ(fetch_float(k1d, {1.5f + 1.0f / 256}), 10 + 10.0f / 256);
  EXPECT_EQ(fetch_float(k1d, {1.5f + 1.0f / 1024}), 10) << "weights have eight bits";
}

TEST_F(TextureTest, ReadModes) {
  const auto first = [&](TexelFormat format, uint32_t raw, bool as_integer, const char* type) {
    Image image = image_of(format, 1, 1, 1, 1, bytes);
    std::memcpy(image.host, &raw, format.channel_bytes);
    texture.levels = {image};
    texture.sampler.as_integer = as_integer;
    return fetch_all(std::string("tex.1d.v4.") + type + ".f32 {%r0, %r1, %r2, %r3}, [%t, {%f0}];",
                     1, {{0.5f}})[0][0];
  };
  const auto value = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  EXPECT_EQ(value(first({TexelKind::kUnsigned, 1, 1}, 255, false, "f32")), 1);
  EXPECT_EQ(value(first({TexelKind::kUnsigned, 1, 1}, 51, false, "f32")), 0.2f);
  EXPECT_EQ(value(first({TexelKind::kUnsigned, 2, 1}, 65535, false, "f32")), 1);
  EXPECT_EQ(value(first({TexelKind::kSigned, 1, 1}, 0x80, false, "f32")), -1);
  EXPECT_EQ(value(first({TexelKind::kSigned, 1, 1}, 0x81, false, "f32")), -1);
  EXPECT_EQ(value(first({TexelKind::kSigned, 2, 1}, 32767, false, "f32")), 1);
  EXPECT_EQ(value(first({TexelKind::kHalf, 2, 1}, 0xc500, false, "f32")), -5);
  EXPECT_EQ(value(first({TexelKind::kHalf, 2, 1}, 1, false, "f32")), std::ldexp(1.0f, -24));
  EXPECT_EQ(first({TexelKind::kSigned, 1, 1}, 0xfe, true, "s32"), 0xfffffffeu);
  EXPECT_EQ(first({TexelKind::kUnsigned, 2, 1}, 0xfffe, true, "u32"), 0xfffeu);
  EXPECT_EQ(first({TexelKind::kUnsigned, 4, 1}, 0xfedcba98, false, "u32"), 0xfedcba98u);
}

TEST_F(TextureTest, ChannelsAndResidency) {
  Image image = image_of({TexelKind::kUnsigned, 1, 4}, 1, 2, 1, 1, bytes);
  for (uint32_t c = 0; c < 4; ++c)
    element<uint8_t>(image, 1, 0, 0, c) = static_cast<uint8_t>(c + 1);
  texture.levels = {image};
  texture.sampler.as_integer = true;
  const auto got = fetch_all(
      "tex.1d.v4.u32.f32 {%r0, %r1, %r2, %r3}|%p, [%t, {%f0}];\n@!%p mov.b32 %r0, 99;", 1, {{1}});
  EXPECT_EQ(got[0], (std::array<uint32_t, 4>{1, 2, 3, 4}));
}

TEST_F(TextureTest, DeviceMemoryIsFoundWhenItIsRead) {
  Machine machine(kernel("tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%t, {%i0}];", 1));
  ASSERT_TRUE(machine.ok()) << machine.error().reason;
  Image image;
  image.format = {TexelKind::kUnsigned, 4, 1};
  image.width = 3;
  image.pitch = image.slice = 12;
  image.address = machine.buffer(std::vector<uint32_t>{7, 8, 9});
  texture.levels = {image};
  machine.images->textures = {texture};
  const auto got = run_rows(machine, 1, {{0}, {2}, {3}, {-1}}, kTexture);
  EXPECT_EQ(got[0][0], 7u);
  EXPECT_EQ(got[1][0], 9u);
  EXPECT_EQ(got[2][0], 0u) << "out of range";
  EXPECT_EQ(got[3][0], 0u) << "out of range";

  machine.images->textures[0].levels[0].width = 4;  // more than there is
  Fault fault;
  run_rows(machine, 1, {{0}}, kTexture, &fault);
  EXPECT_EQ(fault.kind, Fault::Kind::kIllegalAddress);
  run_rows(machine, 1, {{0}}, kTexture + 1, &fault);
  EXPECT_EQ(fault.kind, Fault::Kind::kIllegalAddress);
  EXPECT_NE(fault.message.find("no such texture"), std::string::npos) << fault.message;
}

TEST_F(TextureTest, Layers) {
  Image image = float_image(2, 3, 2, 4, bytes);
  image.layered = true;
  texture.levels = {image};
  const auto at = [&](float layer, float x, float y) {
    return fetch_float("tex.a2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%i0, %f1, %f2, %f2}];",
                       {layer, x, y});
  };
  EXPECT_EQ(at(2, 1.5f, 1.5f), element<float>(image, 1, 1, 2));
  EXPECT_EQ(at(9, 0, 0), element<float>(image, 0, 0, 3)) << "past the last layer: the last one";
  texture.sampler.linear = true;
  EXPECT_EQ(at(1, 1, 0.5f), (element<float>(image, 0, 0, 1) + element<float>(image, 1, 0, 1)) / 2);

  Image rows = float_image(1, 3, 1, 2, more);
  rows.layered = true;
  texture.levels = {rows};
  EXPECT_EQ(fetch_float("tex.a1d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%i0, %f1}];", {1, 2.5f}),
            element<float>(rows, 2, 0, 1));
}

// Where the middle of each face is seen from the middle of the cube, and the ways in which its
// columns and rows go on.
constexpr float kFaces[6][3][3] = {
    {{1, 0, 0}, {0, 0, -1}, {0, -1, 0}}, {{-1, 0, 0}, {0, 0, 1}, {0, -1, 0}},
    {{0, 1, 0}, {1, 0, 0}, {0, 0, 1}},   {{0, -1, 0}, {1, 0, 0}, {0, 0, -1}},
    {{0, 0, 1}, {1, 0, 0}, {0, -1, 0}},  {{0, 0, -1}, {-1, 0, 0}, {0, -1, 0}}};

// From the middle of the cube to a place on a face, whose columns and rows go from -1 to 1.
std::vector<float> direction(int face, float column, float row, float length = 1) {
  std::vector<float> to(3);
  for (size_t d = 0; d < 3; ++d) {
    to[d] = length * (kFaces[face][0][d] + column * kFaces[face][1][d] + row * kFaces[face][2][d]);
  }
  return to;
}

TEST_F(TextureTest, DirectionsMeetTheFacesOfACube) {
  constexpr uint32_t kSize = 4;
  Image image = float_image(2, kSize, kSize, 12, bytes);
  image.layered = image.cube = true;
  texture.levels = {image};
  texture.sampler.normalized = true;
  std::mt19937 random(11);
  std::vector<std::vector<float>> inputs;
  std::vector<float> want;
  for (int i = 0; i < 600; ++i) {
    // The middle of a texel, or nearly.
    const int face = i % 6;
    const uint32_t x = random() % kSize, y = random() % kSize, cube = random() % 2;
    const float off = static_cast<float>(random() % 64) / 256 - 0.125f;
    const auto from = [&](uint32_t at) { return (static_cast<float>(at) + 0.5f + off) / 2 - 1; };
    const float length = std::ldexp(1.0f, static_cast<int>(random() % 20) - 10);
    inputs.push_back(direction(face, from(x), from(y), length));
    inputs.back().insert(inputs.back().begin(), static_cast<float>(cube));
    want.push_back(element<float>(image, x, y, cube * 6 + static_cast<uint32_t>(face)));
  }
  const auto got = fetch_all(
      "tex.acube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%i0, %f1, %f2, %f3}];", 4, inputs);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(std::bit_cast<float>(got[i][0]), want[i]) << i;
  }
  // A cube past the last one is that one, and without a number it is the first.
  EXPECT_EQ(fetch_float("tex.acube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%i0, %f1, %f2, %f3}];",
                        {7, 1, 0.25f, 0.25f}),
            element<float>(image, 1, 1, 6));
  EXPECT_EQ(fetch_float("tex.cube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1, %f2, %f2}];",
                        {0.25f, 0.25f, -1}),
            element<float>(image, 1, 1, 5));
}

TEST_F(TextureTest, AFaceIsFilteredAsALayer) {
  Image image = float_image(2, 4, 4, 6, bytes);
  image.layered = image.cube = true;
  texture.levels = {image};
  texture.sampler.normalized = texture.sampler.linear = true;
  for (const AddressMode mode : {AddressMode::kClamp, AddressMode::kWrap, AddressMode::kBorder}) {
    texture.sampler.mode[0] = texture.sampler.mode[1] = mode;
    for (int face = 0; face < 6; ++face) {
      for (const float at : {-0.96875f, -0.3125f, 0.25f, 0.9375f}) {
        EXPECT_EQ(
            fetch_float("tex.level.cube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1, %f2, "
                        "%f2}], 0f00000000;",
                        direction(face, at, at / 2)),
            fetch_float("tex.a2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%i0, %f1, %f2, %f2}];",
                        {static_cast<float>(face), (at + 1) / 2, (at / 2 + 1) / 2}))
            << face << " " << at;
      }
    }
  }
}

TEST_F(TextureTest, CubesHaveNoGradientsGathersAndPlaces) {
  for (const char* instruction :
       {"tex.grad.cube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1, %f2, %f2}], {%f0, %f1, "
        "%f2, "
        "%f2}, {%f0, %f1, %f2, %f2};",
        "tld4.r.cube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1, %f2, %f2}];",
        "tex.cube.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%t, {%i0, %i1, %i2, %i2}];",
        "suld.b.cube.b32.trap {%r0}, [%t, {%i0, %i1, %i2, %i2}];"}) {
    EXPECT_FALSE(Machine(kernel(instruction, 3)).ok()) << instruction;
  }
}

TEST_F(TextureTest, Levels) {
  std::vector<std::byte> places[3];
  for (uint32_t level = 0; level < 3; ++level) {
    Image image = image_of(kFloat, 2, 4 >> level, 4 >> level, 1, places[level]);
    for (uint32_t y = 0; y < image.height; ++y) {
      for (uint32_t x = 0; x < image.width; ++x) {
        element<float>(image, x, y) = 10 * static_cast<float>(level);
      }
    }
    texture.levels.push_back(image);
  }
  texture.sampler.normalized = true;
  texture.sampler.greatest_level = 10;
  const auto at = [&](float level) {
    return fetch_float("tex.level.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1}], %f2;",
                       {0.4f, 0.6f, level});
  };
  EXPECT_EQ(at(0.4f), 0);
  EXPECT_EQ(at(0.5f), 10);
  EXPECT_EQ(at(7), 20);
  texture.sampler.linear_levels = true;
  EXPECT_EQ(at(0.5f), 5);
  EXPECT_EQ(at(1.25f), 12.5f);
  EXPECT_EQ(at(-4), 0);
  texture.sampler.level_bias = 0.5f;
  EXPECT_EQ(at(1), 15);
  texture.sampler.greatest_level = 1;
  EXPECT_EQ(at(1), 10);
  EXPECT_EQ(fetch_float(k2d, {0.4f, 0.6f}), 5) << "the first level, and the bias";
  texture.sampler.level_bias = 0;
  texture.sampler.greatest_level = 10;
  // A texel of level 1 is half a unit wide.
  const auto grad = [&](float dx, float dy) {
    return fetch_float(
        "tex.grad.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1}], {%f2, %f4}, {%f4, %f3};",
        {0.4f, 0.6f, dx, dy, 0});
  };
  EXPECT_EQ(grad(0.25f, 0), 0);
  EXPECT_EQ(grad(0.5f, 0.1f), 10);
  EXPECT_EQ(grad(0.1f, 1), 20);
  EXPECT_EQ(grad(0, 0), 0);
}

TEST_F(TextureTest, GathersCounterClockwiseFromTheLowerLeft) {
  Image image = float_image(2, 4, 4, 1, bytes);
  texture.levels = {image};
  const auto got =
      fetch_all("tld4.r.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1}];", 2, {{2, 1}})[0];
  const float want[4] = {element<float>(image, 1, 1), element<float>(image, 2, 1),
                         element<float>(image, 2, 0), element<float>(image, 1, 0)};
  for (int c = 0; c < 4; ++c) EXPECT_EQ(std::bit_cast<float>(got[c]), want[c]) << c;
}

TEST_F(TextureTest, Questions) {
  texture.levels = {float_image(2, 7, 5, 3, bytes)};
  texture.levels[0].layered = true;
  texture.sampler.normalized = true;
  const auto got = fetch_all(
      "txq.width.b32 %r0, [%t]; txq.height.b32 %r1, [%t]; txq.array_size.b32 %r2, [%t];"
      "txq.normalized_coords.b32 %r3, [%t];",
      1, {{0}});
  EXPECT_EQ(got[0], (std::array<uint32_t, 4>{7, 5, 3, 1}));
  texture.levels = {float_image(2, 4, 4, 12, bytes)};
  texture.levels[0].layered = texture.levels[0].cube = true;
  const std::string of_cubes =
      "txq.width.b32 %r0, [%t]; txq.height.b32 %r1, [%t]; txq.array_size.b32 %r2, [%t];"
      "txq.depth.b32 %r3, [%t];";
  EXPECT_EQ(fetch_all(of_cubes, 1, {{0}})[0], (std::array<uint32_t, 4>{4, 4, 2, 0}));
}

TEST_F(TextureTest, WhatIsNotKnownIsRefused) {
  const auto reason = [](const std::string& instruction) {
    return Machine(kernel(instruction, 4)).error().reason;
  };
  EXPECT_NE(reason("tex.2dms.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%t, {%i0, %i1, %i2, %i2}];"), "");
  EXPECT_NE(reason("tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1}], {%i0, %i1};"), "");
  EXPECT_NE(reason("tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0}];"), "");
  EXPECT_NE(reason("suld.p.1d.b32.trap {%r0}, [%t, {%i0}];"), "");
  EXPECT_NE(reason("txq.channel_order.b32 %r0, [%t];"), "");
}

struct SurfaceTest : testing::Test {
  std::vector<std::byte> bytes;
  Surface surface{kSurface, {}, false};

  std::vector<std::array<uint32_t, 4>> run_all(const std::string& instruction, size_t words,
                                               const std::vector<std::vector<float>>& inputs,
                                               Fault* fault = nullptr) const {
    Machine machine(kernel(instruction, words));
    EXPECT_TRUE(machine.ok()) << machine.error().instruction << ": " << machine.error().reason;
    if (!machine.ok()) return {};
    machine.images->surfaces = {surface};
    return run_rows(machine, words, inputs, kSurface, fault);
  }
};

TEST_F(SurfaceTest, WritesAndReadsBytes) {
  Image image = surface.image = image_of({TexelKind::kUnsigned, 4, 1}, 2, 6, 4, 1, bytes);
  run_all("sust.b.2d.b32.trap [%t, {%i0, %i1}], {%i2};", 3, {{8, 3, 77}, {0, 0, 5}});
  EXPECT_EQ(element<uint32_t>(image, 2, 3), 77u);
  EXPECT_EQ(element<uint32_t>(image, 0, 0), 5u);
  EXPECT_EQ(element<uint32_t>(image, 1, 0), 0x5a5a5a5au) << "nothing else";
  const auto got = run_all("suld.b.2d.b32.trap {%r0}, [%t, {%i0, %i1}];", 2, {{8, 3}});
  EXPECT_EQ(got[0][0], 77u);
  run_all("cvt.u16.u32 %h0, %i1; sust.b.1d.b8.trap [%t, {%i0}], {%h0};", 2, {{5, 0x11}});
  EXPECT_EQ(element<uint32_t>(image, 1, 0), 0x5a5a115au);
  const auto two = run_all("suld.b.2d.v2.b32.trap {%r0, %r1}, [%t, {%i0, %i1}];", 2, {{0, 0}});
  EXPECT_EQ(two[0][0], 5u);
  EXPECT_EQ(two[0][1], 0x5a5a115au);
  const auto wide =
      run_all("suld.b.2d.b64.trap {%d0}, [%t, {%i0, %i1}]; mov.b64 {%r0, %r1}, %d0;", 2, {{0, 0}});
  EXPECT_EQ(wide[0][1], 0x5a5a115au);
}

TEST_F(SurfaceTest, BeyondTheEdge) {
  Image image = surface.image = image_of({TexelKind::kUnsigned, 4, 1}, 2, 3, 2, 1, bytes);
  for (uint32_t y = 0; y < 2; ++y) {
    for (uint32_t x = 0; x < 3; ++x) element<uint32_t>(image, x, y) = 10 * y + x;
  }
  const std::vector<std::vector<float>> outside = {{12, 0}, {-4, 1}, {4, 2}, {4, -1}};
  const auto zeros =
      run_all("mov.b32 %r0, 9; suld.b.2d.b32.zero {%r0}, [%t, {%i0, %i1}];", 2, outside);
  for (const auto& row : zeros) EXPECT_EQ(row[0], 0u);
  const auto nearest = run_all("suld.b.2d.b32.clamp {%r0}, [%t, {%i0, %i1}];", 2, outside);
  EXPECT_EQ(nearest[0][0], 2u);
  EXPECT_EQ(nearest[1][0], 10u);
  EXPECT_EQ(nearest[2][0], 11u);
  EXPECT_EQ(nearest[3][0], 1u);
  const std::vector<std::byte> before = bytes;
  run_all("sust.b.2d.b32.zero [%t, {%i0, %i1}], {%i0};", 2, outside);
  EXPECT_EQ(bytes, before);
  run_all("sust.b.2d.b32.clamp [%t, {%i0, %i1}], {%i0};", 2, {{400, 7}});
  EXPECT_EQ(element<uint32_t>(image, 2, 1), 400u);
  Fault fault;
  run_all("sust.b.2d.b32.trap [%t, {%i0, %i1}], {%i0};", 2, {{12, 0}}, &fault);
  EXPECT_EQ(fault.kind, Fault::Kind::kIllegalAddress);
  run_all("sust.b.2d.b32.trap [%t, {%i0, %i1}], {%i0};", 2, {{2, 0}}, &fault);
  EXPECT_EQ(fault.kind, Fault::Kind::kMisalignedAddress);
  surface.gone = true;
  run_all("suld.b.2d.b32.zero {%r0}, [%t, {%i0, %i1}];", 2, {{0, 0}}, &fault);
  EXPECT_EQ(fault.kind, Fault::Kind::kIllegalAddress);
}

TEST_F(SurfaceTest, LayersAndPlanes) {
  Image image = surface.image = image_of({TexelKind::kUnsigned, 4, 1}, 2, 3, 2, 4, bytes);
  surface.image.layered = true;
  run_all("sust.b.a2d.b32.trap [%t, {%i0, %i1, %i2, %i2}], {%i3};", 4, {{3, 4, 1, 55}});
  EXPECT_EQ(element<uint32_t>(image, 1, 1, 3), 55u);
  surface.image.layered = false;
  surface.image.dimensions = 3;
  run_all("sust.b.3d.b32.trap [%t, {%i0, %i1, %i2, %i2}], {%i3};", 4, {{8, 1, 2, 66}});
  EXPECT_EQ(element<uint32_t>(image, 2, 1, 2), 66u);
  EXPECT_EQ(run_all("suld.b.3d.b32.trap {%r0}, [%t, {%i0, %i1, %i2, %i2}];", 3, {{8, 1, 2}})[0][0],
            66u);
}

TEST_F(SurfaceTest, FormattedStores) {
  Image image = surface.image = image_of({TexelKind::kSigned, 1, 2}, 1, 4, 1, 1, bytes);
  run_all("sust.p.1d.v2.b32.trap [%t, {%i0}], {%i1, %i2};", 3, {{2, -300, 17}});
  EXPECT_EQ(element<int8_t>(image, 2, 0, 0, 0), -128);
  EXPECT_EQ(element<int8_t>(image, 2, 0, 0, 1), 17);
  image = surface.image = image_of({TexelKind::kHalf, 2, 1}, 1, 4, 1, 1, bytes);
  run_all("sust.p.1d.f32.trap [%t, {%i0}], {%f1};", 2, {{3, -5}});
  EXPECT_EQ(element<uint16_t>(image, 3), 0xc500);
}

TEST_F(SurfaceTest, Reductions) {
  Image image = surface.image = image_of({TexelKind::kSigned, 4, 1}, 1, 4, 1, 1, bytes);
  const auto all = [&](const std::string& operation, uint32_t start, float operand) {
    element<uint32_t>(image, 1) = start;
    run_all("sured.b." + operation + ".trap [%t, {%i0}], %i1;", 2, {{4, operand}, {4, operand}});
    return element<uint32_t>(image, 1);
  };
  EXPECT_EQ(all("add.1d.u32", 5, 3), 11u);
  EXPECT_EQ(all("min.1d.s32", 5, -3), static_cast<uint32_t>(-3));
  EXPECT_EQ(all("min.1d.u32", 5, -3), 5u);
  EXPECT_EQ(all("max.1d.s32", 5, -3), 5u);
  EXPECT_EQ(all("and.1d.b32", 6, 3), 2u);
  EXPECT_EQ(all("or.1d.b32", 6, 3), 7u);
  element<uint32_t>(image, 2) = 1;
  run_all("sured.p.min.1d.b32.trap [%t, {%i0}], %i1;", 2, {{2, -4}});
  EXPECT_EQ(element<uint32_t>(image, 2), static_cast<uint32_t>(-4)) << "as the format says";
  run_all("suq.width.b32 %r0, [%t];", 1, {{0}});
}

}  // namespace
}  // namespace simcuda::test::texture_test
