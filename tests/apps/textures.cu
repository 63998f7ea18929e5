// A field that is filtered, a mipmapped array and a table in memory, all read as textures.
#include "textures.h"

DEVICE inline float filtered(unsigned long long texture, float x, float y) {
  float r, g, b, a;
  asm volatile("tex.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}];"
               : "=f"(r), "=f"(g), "=f"(b), "=f"(a)
               : "l"(texture), "f"(x), "f"(y));
  return r;
}

DEVICE inline float at_level(unsigned long long texture, float x, float y, float level) {
  float r, g, b, a;
  asm volatile("tex.level.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}], %7;"
               : "=f"(r), "=f"(g), "=f"(b), "=f"(a)
               : "l"(texture), "f"(x), "f"(y), "f"(level));
  return r;
}

DEVICE inline unsigned entry(unsigned long long texture, int x) {
  unsigned r, g, b, a;
  asm volatile("tex.1d.v4.u32.s32 {%0, %1, %2, %3}, [%4, {%5}];"
               : "=r"(r), "=r"(g), "=r"(b), "=r"(a)
               : "l"(texture), "r"(x));
  return r;
}

// A place on a face of a cube, whose columns and rows go from -1 to 1, seen from its middle.
DEVICE inline float on_face(unsigned long long texture, int cube, int face, float s, float t) {
  const float away = face % 2 == 0 ? 1.0f : -1.0f;
  const float x = face < 2 ? away : face == 5 ? -s : s;
  const float y = face == 2 || face == 3 ? away : -t;
  const float z = face < 2 ? -away * s : face < 4 ? away * t : away;
  float r, g, b, a;
  asm volatile("tex.acube.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6, %7, %8}];"
               : "=f"(r), "=f"(g), "=f"(b), "=f"(a)
               : "l"(texture), "r"(cube), "f"(x), "f"(y), "f"(z));
  return r;
}

KERNEL void mix(unsigned long long field, unsigned long long levels, unsigned long long weights,
                unsigned long long cubes, float* out, float level) {
  const int x = static_cast<int>(thread_index());
  const int y = static_cast<int>(block_index());
  const auto fx = static_cast<float>(x), fy = static_cast<float>(y);
  const float four = 4 * filtered(field, fx + 1, fy + 1);
  const float of_level = at_level(levels, (fx + 0.5f) / kSide, (fy + 0.5f) / kSide, level);
  const int face = (x + y) % kFaces;
  const auto along = [](int at) {
    return (static_cast<float>(at % kFaceSide) + 0.5f) * 2 / kFaceSide - 1;
  };
  const float of_face = on_face(cubes, face / 6, face % 6, along(x), along(y));
  out[y * kSide + x] = mixed(four, of_level, entry(weights, (x + y) % kWeights), of_face, x);
}
