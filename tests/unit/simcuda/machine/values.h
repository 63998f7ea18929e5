// Inputs at the edges, and exact reference arithmetic that shares nothing with the machine.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/simcuda/machine/harness.h"

namespace simcuda::test {

inline uint64_t next_random(uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

inline std::vector<uint64_t> integer_edges(uint32_t bits) {
  const uint64_t top = uint64_t{1} << (bits - 1);
  std::vector<uint64_t> v = {0,
                             1,
                             2,
                             3,
                             7,
                             31,
                             32,
                             33,
                             63,
                             64,
                             65,
                             255,
                             top - 1,
                             top,
                             top + 1,
                             top | 5,
                             ~uint64_t{0},
                             ~uint64_t{0} - 1,
                             uint64_t(-7),
                             0x0123456789abcdef};
  uint64_t state = 88172645463325252u + bits;
  for (int i = 0; i < 6; ++i) v.push_back(next_random(state));
  if (bits < 64) {
    for (uint64_t& x : v) x &= (uint64_t{1} << bits) - 1;
  }
  return v;
}

inline std::vector<uint64_t> float_edges() {
  std::vector<uint64_t> v = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff,
                             0x00800000, 0x80800000, 0x00800001, 0x3f800000, 0xbf800000, 0x3f800001,
                             0x3f7fffff, 0x3f000000, 0xbf000000, 0x3fc00000, 0x40200000, 0xc0200000,
                             0x40490fdb, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
                             0xffc00001, 0x7f800001, 0x4effffff, 0x4f000000, 0xcf000000, 0x4f800000,
                             0x5f000000, 0xdf000000, 0x5f800000, 0x33800000, 0x0c800000};
  uint64_t state = 42;
  for (int i = 0; i < 12; ++i) v.push_back(next_random(state) >> 32);
  return v;
}

inline std::vector<uint64_t> double_edges() {
  std::vector<uint64_t> v = {
      0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001,
      0x000fffffffffffff, 0x0010000000000000, 0x8010000000000000, 0x3ff0000000000000,
      0xbff0000000000000, 0x3ff0000000000001, 0x3fefffffffffffff, 0x3fe0000000000000,
      0xbfe0000000000000, 0x3ff8000000000000, 0x4004000000000000, 0xc004000000000000,
      0x400921fb54442d18, 0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000,
      0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000123, 0x7ff0000000000001,
      0x41dfffffffc00000, 0x41e0000000000000, 0xc1e0000000000000, 0x41efffffffe00000,
      0x43e0000000000000, 0xc3e0000000000000, 0x43f0000000000000, 0x36a0000000000000,
      0x47efffffe0000000, 0x47efffffefffffff, 0x47effffff0000000, 0x380fffffffffffff};
  uint64_t state = 4242;
  for (int i = 0; i < 12; ++i) v.push_back(next_random(state));
  return v;
}

inline std::vector<uint64_t> half_edges() {
  std::vector<uint64_t> v = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x8400, 0x3c00,
                             0xbc00, 0x3c01, 0x3bff, 0x3800, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
                             0x7e00, 0x7c01, 0x4248, 0x5640, 0x6400, 0x1400};
  uint64_t state = 777;
  for (int i = 0; i < 12; ++i) v.push_back(next_random(state) >> 48);
  return v;
}

inline std::vector<Inputs> singles(const std::vector<uint64_t>& a) {
  std::vector<Inputs> r;
  for (const uint64_t x : a) r.push_back({x, 0, 0, 0});
  return r;
}
inline std::vector<Inputs> pairs(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  std::vector<Inputs> r;
  for (const uint64_t x : a) {
    for (const uint64_t y : b) r.push_back({x, y, 0, 0});
  }
  return r;
}
// 2^20 random inputs of `bits` each. Every eighth number is small, as a position or a length is.
inline void append_random(std::vector<Inputs>& in, uint32_t bits) {
  uint64_t state = 20;
  const auto draw = [&] {
    const uint64_t x = next_random(state), y = x % 8 == 0 ? next_random(state) % 80 : x;
    return bits == 64 ? y : y & ((uint64_t{1} << bits) - 1);
  };
  in.reserve(in.size() + (size_t{1} << 20));
  for (size_t i = 0; i < size_t{1} << 20; ++i) in.push_back({draw(), draw(), draw(), draw()});
}

// All of a, with b and c rotating, and many random triples of them.
inline std::vector<Inputs> triples(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b,
                                   const std::vector<uint64_t>& c) {
  std::vector<Inputs> r;
  uint64_t state = 99;
  for (size_t i = 0; i < 4000; ++i) {
    r.push_back({a[next_random(state) % a.size()], b[next_random(state) % b.size()],
                 c[next_random(state) % c.size()], next_random(state)});
  }
  return r;
}

inline float f32(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
inline double f64(uint64_t bits) {
  return std::bit_cast<double>(bits);
}
inline uint64_t bits(float f) {
  return std::bit_cast<uint32_t>(f);
}
inline uint64_t bits(double f) {
  return std::bit_cast<uint64_t>(f);
}

inline float flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x;
}

// The mode in which the host computes, for as long as it lives.
class HostRounding {
 public:
  explicit HostRounding(const std::string& name) : before_(std::fegetround()) {
    std::fesetround(name == "rz"   ? FE_TOWARDZERO
                    : name == "rm" ? FE_DOWNWARD
                    : name == "rp" ? FE_UPWARD
                                   : FE_TONEAREST);
  }
  ~HostRounding() { std::fesetround(before_); }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  int before_;
};

// Runs the instruction and compares it with `expected`, which takes an input and gives the bits.
template <class Expected>
void check(const std::string& code, const std::string& types, const std::vector<Inputs>& inputs,
           const Expected& expected) {
  const std::vector<uint64_t> got = evaluate(code, types, inputs);
  int shown = 0;
  for (size_t i = 0; i < inputs.size() && shown < 5; ++i) {
    const uint64_t want = expected(inputs[i]);
    if (got[i] == want) continue;
    ++shown;
    ADD_FAILURE() << code << std::hex << " a=" << inputs[i].a << " b=" << inputs[i].b
                  << " c=" << inputs[i].c << " d=" << inputs[i].d << ": got " << got[i] << ", want "
                  << want;
  }
}

}  // namespace simcuda::test
