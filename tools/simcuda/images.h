// Arrays, textures and surfaces as a launch reaches them: by the handles in its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace simcuda {

enum class TexelKind : uint8_t { kUnsigned, kSigned, kHalf, kFloat };

struct TexelFormat {
  TexelKind kind = TexelKind::kUnsigned;
  uint32_t channel_bytes = 4;  // 1, 2 or 4
  uint32_t channels = 1;       // 1, 2 or 4
  uint32_t bytes() const { return channel_bytes * channels; }
};

// How the elements of sparse arrays lie: in boxes, one after the other, of rows without gaps.
struct TileShape {
  uint32_t row = 0;  // bytes; 0: there are no tiles
  uint32_t height = 1, depth = 1;
  uint64_t bytes() const { return uint64_t{row} * height * depth; }
};

constexpr uint64_t pieces(uint64_t size, uint64_t piece) {
  return (size + piece - 1) / piece;
}

// A box of elements: an array, one level of a mipmapped one, or device memory.
struct Image {
  TexelFormat format;
  uint32_t dimensions = 1;  // without layers
  bool layered = false;
  bool cube = false;  // six layers are the faces of one
  // Elements. A dimension that is missing is 1; the depth of a layered image is its layers.
  uint32_t width = 1, height = 1, depth = 1;
  uint64_t pitch = 0, slice = 0;  // bytes between rows and planes
  std::byte* host = nullptr;      // null: it lies at `address`
  uint64_t address = 0;           // in device memory
  TileShape tile;                 // with tiles there are no pitch and slice

  uint64_t row_bytes() const { return uint64_t{width} * format.bytes(); }
  // From the first byte to the end of the last row.
  uint64_t span() const { return slice * (depth - 1) + pitch * (height - 1) + row_bytes(); }
  // The place of an element, or of a part of one: `x` in bytes.
  std::byte* at(uint64_t x, uint64_t y, uint64_t z) const {
    if (tile.row == 0) return host + z * slice + y * pitch + x;
    const uint64_t column = x / tile.row, row = y / tile.height, plane = z / tile.depth;
    const uint64_t number =
        (plane * pieces(height, tile.height) + row) * pieces(row_bytes(), tile.row) + column;
    const uint64_t line = z % tile.depth * tile.height + y % tile.height;
    return host + number * tile.bytes() + line * tile.row + x % tile.row;
  }
};

enum class AddressMode : uint8_t { kWrap, kClamp, kMirror, kBorder };

struct Sampler {
  AddressMode mode[3] = {AddressMode::kClamp, AddressMode::kClamp, AddressMode::kClamp};
  bool linear = false;         // filter within a level
  bool linear_levels = false;  // and between two
  bool normalized = false;     // coordinates from 0 to 1
  bool as_integer = false;     // 8 and 16 bits are not made to [0, 1] or [-1, 1]
  float level_bias = 0, least_level = 0, greatest_level = 0;
  float border[4] = {};
};

struct Texture {
  uint64_t handle = 0;
  std::vector<Image> levels;  // one, but for mipmapped arrays; none: what it was of is gone
  Sampler sampler;
};

struct Surface {
  uint64_t handle = 0;
  Image image;
  bool gone = false;  // its array is
};

// All textures and surfaces at one moment, each sorted by handle. Immutable: a launch holds the
// table that was current when it was queued.
struct ImageTable {
  std::vector<Texture> textures;
  std::vector<Surface> surfaces;
  std::vector<std::shared_ptr<const void>> bytes;  // keeps what the images lie in
  // Null: there is none of that handle.
  const Texture* texture(uint64_t handle) const;
  const Surface* surface(uint64_t handle) const;
};

// The result of a fetch: four channels, zero if the image does not have them. Floating-point values
// if fetches of the texture give these, else integers extended to 32 bits.
struct Texel {
  uint32_t bits[4] = {};
};

// Whether fetches give floating-point values.
bool gives_floats(const TexelFormat& format, const Sampler& sampler);

// Where to fetch: as many coordinates as the image has dimensions.
struct Coordinates {
  double at[3] = {};
  uint32_t layer = 0;  // past the last one: that one
};
// Where a direction from the middle of a cube meets its faces. A cube past the last one: that one.
Coordinates on_face(const Image& image, const float (&direction)[3], uint32_t cube);
// At a level of detail; 0 is the first image.
Texel sample(const Texture& texture, const Coordinates& where, float level);
// The level of detail at which neighbouring threads, whose coordinates differ by `dx` and `dy`, are
// about a texel apart.
float level_of(const Texture& texture, const float (&dx)[3], const float (&dy)[3]);
// One channel of the four texels that a linear filter takes in two dimensions, counter-clockwise
// from the lower left.
Texel gather(const Texture& texture, const Coordinates& where, uint32_t channel);
// An element by its place, without filter; outside of the image zeros.
Texel fetch(const Texture& texture, const int32_t (&at)[3], uint32_t layer, int32_t level);

}  // namespace simcuda
