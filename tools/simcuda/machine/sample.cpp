// Texture fetches, as the CUDA programming guide defines them. Weights of linear filters have 8
// bits behind the point. Coordinates and sums are computed in double precision, and rounded once.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tools/simcuda/images.h"

namespace simcuda {
namespace {

constexpr double kWeightSteps = 256;

double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const double mantissa = bits & 0x3ff;
  double value = 0;
  if (exponent == 0x1f) {
    value = mantissa == 0 ? HUGE_VAL : std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, -24);
  } else {
    value = std::ldexp(mantissa + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// The bits of one channel, extended as its kind says.
uint32_t raw_channel(const TexelFormat& format, const std::byte* element, uint32_t channel) {
  uint32_t value = 0;
  std::memcpy(&value, element + size_t{channel} * format.channel_bytes, format.channel_bytes);
  if (format.kind != TexelKind::kSigned) return value;
  const uint32_t shift = 32 - format.channel_bytes * 8;
  return static_cast<uint32_t>(static_cast<int32_t>(value << shift) >> shift);
}

double float_channel(const TexelFormat& format, uint32_t raw) {
  const double most = format.channel_bytes == 1 ? 0xff : 0xffff;
  switch (format.kind) {
    case TexelKind::kUnsigned:
      return raw / most;
    case TexelKind::kSigned:
      // The least value means -1, as its neighbour does.
      return std::max(-1.0, static_cast<int32_t>(raw) / std::floor(most / 2));
    case TexelKind::kHalf:
      return half_value(static_cast<uint16_t>(raw));
    case TexelKind::kFloat:
      break;
  }
  return std::bit_cast<float>(raw);
}

// The place in [0, size) that a place along one dimension means; -1: the border.
int64_t place(AddressMode mode, bool normalized, int64_t at, uint32_t size) {
  const auto n = static_cast<int64_t>(size);
  const auto modulo = [](int64_t a, int64_t m) { return (a % m + m) % m; };
  if (mode == AddressMode::kBorder) return at < 0 || at >= n ? -1 : at;
  if (normalized && mode == AddressMode::kWrap) return modulo(at, n);
  if (normalized && mode == AddressMode::kMirror) {
    const int64_t in_two = modulo(at, 2 * n);
    return in_two < n ? in_two : 2 * n - 1 - in_two;
  }
  return std::clamp<int64_t>(at, 0, n - 1);
}

// A coordinate in texels. A NaN counts as 0, and one that is too far away as less far.
double texels(double coordinate, bool normalized, uint32_t size) {
  constexpr double kFar = 1 << 30;
  const double value = std::isnan(coordinate) ? 0 : coordinate;
  return std::clamp(normalized ? value * size : value, -kFar, kFar);
}

// One fetch from one image.
class Fetch {
 public:
  Fetch(const Image& image, const Sampler& sampler)
      : image_(image), sampler_(sampler), floats_(gives_floats(image.format, sampler)) {}

  // The element at these places, or the border, as floating-point values or integers.
  void element(const int64_t (&at)[3], double (&channels)[4]) const {
    const bool outside = at[0] < 0 || at[1] < 0 || at[2] < 0;
    const std::byte* from =
        outside ? nullptr
                : image_.at(static_cast<uint64_t>(at[0]) * image_.format.bytes(),
                            static_cast<uint64_t>(at[1]), static_cast<uint64_t>(at[2]));
    for (uint32_t c = 0; c < 4; ++c) {
      if (outside) {
        channels[c] = floats_ ? sampler_.border[c] : 0;
      } else if (c >= image_.format.channels) {
        channels[c] = 0;
      } else {
        const uint32_t raw = raw_channel(image_.format, from, c);
        channels[c] = floats_ ? float_channel(image_.format, raw) : raw;
      }
    }
  }

  void nearest(const Coordinates& where, double (&channels)[4]) const {
    int64_t at[3] = {0, 0, layer(where)};
    for (uint32_t d = 0; d < image_.dimensions; ++d) {
      at[d] = place_of(d, static_cast<int64_t>(std::floor(along(where, d))));
    }
    element(at, channels);
  }

  void linear(const Coordinates& where, double (&channels)[4]) const {
    int64_t low[3] = {0, 0, 0};
    double weight[3] = {0, 0, 0};
    for (uint32_t d = 0; d < image_.dimensions; ++d) {
      const double at = along(where, d) - 0.5;
      low[d] = static_cast<int64_t>(std::floor(at));
      weight[d] = std::floor((at - std::floor(at)) * kWeightSteps + 0.5) / kWeightSteps;
    }
    std::fill(channels, channels + 4, 0.0);
    for (uint32_t corner = 0; corner < 1u << image_.dimensions; ++corner) {
      int64_t at[3] = {0, 0, layer(where)};
      double share = 1;
      for (uint32_t d = 0; d < image_.dimensions; ++d) {
        const bool high = (corner >> d & 1) != 0;
        at[d] = place_of(d, low[d] + (high ? 1 : 0));
        share *= high ? weight[d] : 1 - weight[d];
      }
      if (share == 0) continue;
      double texel[4];
      element(at, texel);
      for (uint32_t c = 0; c < 4; ++c) channels[c] += share * texel[c];
    }
  }

  int64_t place_of(uint32_t dimension, int64_t at) const {
    return place(sampler_.mode[dimension], sampler_.normalized, at, size(dimension));
  }
  double along(const Coordinates& where, uint32_t dimension) const {
    return texels(where.at[dimension], sampler_.normalized, size(dimension));
  }
  int64_t layer(const Coordinates& where) const {
    return image_.layered ? std::min(where.layer, image_.depth - 1) : 0;
  }
  Texel finished(const double (&channels)[4]) const {
    Texel texel;
    for (uint32_t c = 0; c < 4; ++c) {
      texel.bits[c] = floats_ ? std::bit_cast<uint32_t>(static_cast<float>(channels[c]))
                              : static_cast<uint32_t>(channels[c]);
    }
    return texel;
  }

 private:
  uint32_t size(uint32_t dimension) const {
    return dimension == 0 ? image_.width : dimension == 1 ? image_.height : image_.depth;
  }

  const Image& image_;
  const Sampler& sampler_;
  bool floats_;
};

void sample_level(const Image& image, const Sampler& sampler, const Coordinates& where,
                  double (&channels)[4]) {
  const Fetch fetch(image, sampler);
  sampler.linear ? fetch.linear(where, channels) : fetch.nearest(where, channels);
}

template <class T>
const T* find_handle(const std::vector<T>& all, uint64_t handle) {
  const auto at =
      std::lower_bound(all.begin(), all.end(), handle,
                       [](const T& one, uint64_t wanted) { return one.handle < wanted; });
  return at == all.end() || at->handle != handle ? nullptr : &*at;
}

}  // namespace

const Texture* ImageTable::texture(uint64_t handle) const {
  return find_handle(textures, handle);
}

const Surface* ImageTable::surface(uint64_t handle) const {
  return find_handle(surfaces, handle);
}

bool gives_floats(const TexelFormat& format, const Sampler& sampler) {
  if (format.kind == TexelKind::kHalf || format.kind == TexelKind::kFloat) return true;
  return !sampler.as_integer && format.channel_bytes < 4;
}

// The face is that of the longest coordinate; of two as long, which CUDA leaves open, the first.
Coordinates on_face(const Image& image, const float (&direction)[3], uint32_t cube) {
  const double x = direction[0], y = direction[1], z = direction[2];
  const double lengths[3] = {std::abs(x), std::abs(y), std::abs(z)};
  const auto axis = std::max_element(lengths, lengths + 3) - lengths;
  const bool back = direction[axis] < 0;
  double s = x, t = -y;
  if (axis == 0) s = back ? z : -z;
  if (axis == 1) t = back ? -z : z;
  if (axis == 2 && back) s = -x;
  Coordinates where;
  where.at[0] = (s / lengths[axis] + 1) / 2;
  where.at[1] = (t / lengths[axis] + 1) / 2;
  const uint32_t cubes = std::max(image.depth / 6, 1u);
  where.layer = std::min(cube, cubes - 1) * 6 + static_cast<uint32_t>(axis) * 2 + (back ? 1 : 0);
  return where;
}

Texel sample(const Texture& texture, const Coordinates& where, float level) {
  const Sampler& sampler = texture.sampler;
  const auto last = static_cast<double>(texture.levels.size() - 1);
  double at = std::isnan(level) ? 0 : double{level} + sampler.level_bias;
  at = std::max(std::min(at, double{sampler.greatest_level}), double{sampler.least_level});
  at = std::clamp(at, 0.0, last);
  const double low = sampler.linear_levels ? std::floor(at) : std::floor(at + 0.5);
  const auto first = static_cast<size_t>(std::min(low, last));
  const double weight =
      sampler.linear_levels ? std::floor((at - low) * kWeightSteps + 0.5) / kWeightSteps : 0;
  double channels[4];
  sample_level(texture.levels[first], sampler, where, channels);
  if (weight > 0 && gives_floats(texture.levels[first].format, sampler)) {
    double next[4];
    sample_level(texture.levels[first + 1], sampler, where, next);
    for (uint32_t c = 0; c < 4; ++c) channels[c] = (1 - weight) * channels[c] + weight * next[c];
  }
  return Fetch(texture.levels[first], sampler).finished(channels);
}

float level_of(const Texture& texture, const float (&dx)[3], const float (&dy)[3]) {
  const Image& image = texture.levels.front();
  const uint32_t sizes[3] = {image.width, image.height, image.depth};
  double squares[2] = {0, 0};
  for (uint32_t d = 0; d < image.dimensions; ++d) {
    const double scale = texture.sampler.normalized ? sizes[d] : 1;
    squares[0] += dx[d] * scale * dx[d] * scale;
    squares[1] += dy[d] * scale * dy[d] * scale;
  }
  const double longest = std::max(squares[0], squares[1]);
  return longest > 0 ? static_cast<float>(0.5 * std::log2(longest)) : -HUGE_VALF;
}

Texel gather(const Texture& texture, const Coordinates& where, uint32_t channel) {
  const Fetch fetch(texture.levels.front(), texture.sampler);
  constexpr int64_t kCorners[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
  double channels[4];
  for (uint32_t corner = 0; corner < 4; ++corner) {
    int64_t at[3] = {0, 0, fetch.layer(where)};
    for (uint32_t d = 0; d < 2; ++d) {
      const auto low = static_cast<int64_t>(std::floor(fetch.along(where, d) - 0.5));
      at[d] = fetch.place_of(d, low + kCorners[corner][d]);
    }
    double texel[4];
    fetch.element(at, texel);
    channels[corner] = texel[channel];
  }
  return fetch.finished(channels);
}

Texel fetch(const Texture& texture, const int32_t (&at)[3], uint32_t layer, int32_t level) {
  const auto last = static_cast<int32_t>(texture.levels.size() - 1);
  const Image& image = texture.levels[static_cast<size_t>(std::clamp(level, 0, last))];
  const uint32_t sizes[3] = {image.width, image.height, image.depth};
  Coordinates where;
  where.layer = layer;
  const Fetch one(image, texture.sampler);
  int64_t places[3] = {0, 0, one.layer(where)};
  for (uint32_t d = 0; d < image.dimensions; ++d) {
    if (at[d] < 0 || static_cast<uint32_t>(at[d]) >= sizes[d]) return {};
    places[d] = at[d];
  }
  double channels[4];
  one.element(places, channels);
  return one.finished(channels);
}

}  // namespace simcuda
