// The random programs' own library: kernels with a variable beside them, and kernels for arrays.
#include "tests/random/calls.h"

#include "tests/oracle/random_device.h"

extern "C" DEVICE unsigned tally[kTally];
DEVICE unsigned tally[kTally];

KERNEL void tally_up(const unsigned* from, unsigned count, unsigned value) {
  for (unsigned i = global_index(); i < count; i += threads()) {
    atomic_add(tally + mixed(from[i], value) % kTally, 1 + i % 5);
  }
}

// Parameters of several kinds and places: what launches of before CUDA 4 set one by one.
KERNEL void stir(unsigned* words, unsigned count, unsigned value, float weight) {
  const auto more = static_cast<unsigned>(weight * 16);
  for (unsigned i = global_index(); i < count; i += threads()) {
    words[i] = mixed(words[i], value + more + i);
  }
}

DEVICE inline unsigned cell(unsigned long long surface, int x, int y) {
  unsigned value;
  asm volatile("suld.b.2d.b32.zero {%0}, [%1, {%2, %3}];"
               : "=r"(value)
               : "l"(surface), "r"(x * 4), "r"(y));
  return value;
}

DEVICE inline void change(unsigned long long surface, unsigned width, unsigned height,
                          unsigned value) {
  for (unsigned i = global_index(); i < width * height; i += threads()) {
    const int x = static_cast<int>(i % width), y = static_cast<int>(i / width);
    asm volatile("sust.b.2d.b32.trap [%0, {%1, %2}], {%3};" ::"l"(surface), "r"(x * 4), "r"(y),
                 "r"(mixed(cell(surface, x, y), value + i))
                 : "memory");
  }
}

KERNEL void change_surface(unsigned long long surface, unsigned width, unsigned height,
                           unsigned value) {
  change(surface, width, height, value);
}

// The surface's handle lies in device memory.
KERNEL void change_surface_behind(const unsigned long long* surface, unsigned width,
                                  unsigned height, unsigned value) {
  change(*surface, width, height, value);
}

// Points of a texture of two dimensions, row by row.
KERNEL void read_texture(unsigned long long texture, unsigned width, unsigned* to, unsigned count) {
  for (unsigned i = global_index(); i < count; i += threads()) {
    unsigned r, g, b, a;
    asm volatile("tex.2d.v4.u32.s32 {%0, %1, %2, %3}, [%4, {%5, %6}];"
                 : "=r"(r), "=r"(g), "=r"(b), "=r"(a)
                 : "l"(texture), "r"(static_cast<int>(i % width)),
                   "r"(static_cast<int>(i / width)));
    to[i] = mixed(to[i], r);
  }
}

// Likewise of a texture of memory in a row.
KERNEL void read_line(unsigned long long texture, unsigned* to, unsigned count) {
  for (unsigned i = global_index(); i < count; i += threads()) {
    unsigned r, g, b, a;
    asm volatile("tex.1d.v4.u32.s32 {%0, %1, %2, %3}, [%4, {%5}];"
                 : "=r"(r), "=r"(g), "=r"(b), "=r"(a)
                 : "l"(texture), "r"(static_cast<int>(i)));
    to[i] = mixed(to[i], r);
  }
}
