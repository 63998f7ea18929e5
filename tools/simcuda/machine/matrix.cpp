#include "tools/simcuda/machine/matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/simcuda/machine/handlers.h"
#define SIMCUDA_ISA matrices
#include "tools/simcuda/machine/half_bits.h"

namespace simcuda {
namespace {

using Element = MatrixSite::Element;
using Matrix = MatrixSite::Matrix;
using Role = MatrixSite::Role;
using namespace matrices;

constexpr uint32_t kGroup = 4;  // lanes that share a row

const std::byte* register_at(const WarpView& w, int32_t slot) {
  return (slot < 0 ? w.constants : w.registers) + slot;
}

uint64_t lane_bits(const WarpView& w, const Matrix& m, size_t index, uint32_t lane) {
  const size_t bytes = register_bits_of(m.element) / 8;
  uint64_t bits = 0;
  std::memcpy(&bits, register_at(w, m.slots[index]) + lane * bytes, bytes);
  return bits;
}

void set_lane_bits(const WarpView& w, const Matrix& m, size_t index, uint32_t lane, uint64_t bits) {
  const size_t bytes = register_bits_of(m.element) / 8;
  if (m.slots[index] != kNoSlot) {
    std::memcpy(w.registers + m.slots[index] + lane * bytes, &bits, bytes);
  }
}

struct Position {
  uint32_t row = 0, column = 0;
};

// Element number `part` of a register of a lane.
Position known_position(const Matrix& m, uint32_t lane, uint32_t index, uint32_t part) {
  const uint32_t each = register_bits_of(m.element) / bits_of(m.element);
  const uint32_t group = lane / kGroup, within = lane % kGroup;
  const uint32_t along = within * each + part;
  switch (m.role) {
    case Role::kA: {
      // Registers go down to the lower eight rows first, then on to the next columns.
      const uint32_t halves = m.rows / 8;
      return {group + index % halves * 8, along + index / halves * kGroup * each};
    }
    case Role::kB:
      return {along + index * kGroup * each, group};
    case Role::kC: {
      const uint32_t number = index * each + part;
      return {group + number / 2 * 8, within * 2 + number % 2};
    }
  }
  return {};
}

Position opaque_position(const Matrix& m, uint32_t lane, uint32_t index, uint32_t part) {
  const uint32_t each = register_bits_of(m.element) / bits_of(m.element);
  const uint32_t of_lane = m.rows * m.columns / kLanes;
  const uint32_t number = lane * of_lane + (index * each + part) % of_lane;
  // So that small elements of one register are neighbours in memory.
  if (m.role == Role::kB) return {number % m.rows, number / m.rows};
  return {number / m.columns, number % m.columns};
}

template <class Visit>
void for_each_element(const MatrixSite& site, const Matrix& m, const Visit& visit) {
  const uint32_t bits = bits_of(m.element);
  const uint32_t each = register_bits_of(m.element) / bits;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t index = 0; index < m.slots.size(); ++index) {
      for (uint32_t part = 0; part < each; ++part) {
        visit(lane, index, part * bits,
              site.opaque ? opaque_position(m, lane, index, part)
                          : known_position(m, lane, index, part));
      }
    }
  }
}

double small_float(uint32_t bits, int mantissa_bits, int bias, bool has_infinity) {
  const uint32_t magnitude = bits & 0x7f;
  const int exponent = static_cast<int>(magnitude >> mantissa_bits);
  const auto mantissa = static_cast<double>(magnitude & ((1u << mantissa_bits) - 1));
  double value = exponent == 0
                     ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                     : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  if (has_infinity && exponent == 2 * bias + 1) value = mantissa == 0 ? HUGE_VAL : NAN;
  if (!has_infinity && magnitude == 0x7f) value = NAN;
  return (bits & 0x80) != 0 ? -value : value;
}

double real_value(Element element, uint64_t bits) {
  constexpr uint32_t kTf32Dropped = 13;
  switch (element) {
    case Element::kF16:
      return widened<F16>(static_cast<uint16_t>(bits));
    case Element::kBF16:
      return widened<BF16>(static_cast<uint16_t>(bits));
    case Element::kTF32:
      return static_cast<double>(
          bits_as<float>(static_cast<uint32_t>(bits) >> kTf32Dropped << kTf32Dropped));
    case Element::kF32:
      return static_cast<double>(bits_as<float>(static_cast<uint32_t>(bits)));
    case Element::kF64:
      return bits_as<double>(bits);
    case Element::kE4M3:
      return small_float(static_cast<uint32_t>(bits), 3, 7, false);
    case Element::kE5M2:
      return small_float(static_cast<uint32_t>(bits), 2, 15, true);
    default:
      return 0;
  }
}

uint64_t real_bits(Element element, double value) {
  if (element == Element::kF64) return bits_as<uint64_t>(with_payload(value, value));
  if (element == Element::kF16) return narrowed<F16>(value, Rounding::kNearest);
  return bits_as<uint32_t>(canonical(static_cast<float>(value)));
}

int64_t whole_value(Element element, uint64_t bits) {
  switch (element) {
    case Element::kS8:
      return static_cast<int8_t>(bits);
    case Element::kS4:
      return static_cast<int8_t>(bits << 4) >> 4;
    case Element::kS32:
      return static_cast<int32_t>(bits);
    default:
      return static_cast<int64_t>(bits);
  }
}

bool is_whole(Element element) {
  return element >= Element::kS8;
}

// The elements of a matrix side by side, row after row; of b, column after column.
template <class T, class Value>
std::vector<T> gathered(const WarpView& w, const MatrixSite& site, const Matrix& m,
                        const Value& value) {
  std::vector<T> all(size_t{m.rows} * m.columns);
  const uint32_t bits = bits_of(m.element);
  const uint64_t low = bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
  for_each_element(site, m, [&](uint32_t lane, uint32_t index, uint32_t shift, Position at) {
    const size_t place = m.role == Role::kB ? size_t{at.column} * m.rows + at.row
                                            : size_t{at.row} * m.columns + at.column;
    all[place] = value(m.element, lane_bits(w, m, index, lane) >> shift & low);
  });
  return all;
}

template <class T, class Bits>
void scatter(const WarpView& w, const MatrixSite& site, const std::vector<T>& all,
             const Bits& bits_for) {
  const Matrix& m = site.d;
  std::vector<uint64_t> words(kLanes * m.slots.size());
  for_each_element(site, m, [&](uint32_t lane, uint32_t index, uint32_t shift, Position at) {
    words[lane * m.slots.size() + index] |= bits_for(all[at.row * m.columns + at.column]) << shift;
  });
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (size_t i = 0; i < m.slots.size(); ++i) {
      set_lane_bits(w, m, i, lane, words[lane * m.slots.size() + i]);
    }
  }
}

// Sums are exact but for a double's rounding, and rounded once; those of f64 are rounded at each
// step, one after the other.
void multiply_reals(const WarpView& w, const MatrixSite& site) {
  const auto a = gathered<double>(w, site, site.a, real_value);
  const auto b = gathered<double>(w, site, site.b, real_value);
  auto sums = gathered<double>(w, site, site.c, real_value);
  const uint32_t inner = site.a.columns;
  const bool fused = site.d.element == Element::kF64;
  for (uint32_t row = 0; row < site.d.rows; ++row) {
    for (uint32_t column = 0; column < site.d.columns; ++column) {
      const double* left = &a[size_t{row} * inner];
      const double* right = &b[size_t{column} * inner];
      double sum = sums[row * site.d.columns + column];
      for (uint32_t k = 0; k < inner; ++k) {
        sum = fused ? std::fma(left[k], right[k], sum) : sum + left[k] * right[k];
      }
      sums[row * site.d.columns + column] = sum;
    }
  }
  scatter(w, site, sums, [&](double v) { return real_bits(site.d.element, v); });
}

void multiply_integers(const WarpView& w, const MatrixSite& site) {
  const auto a = gathered<int64_t>(w, site, site.a, whole_value);
  const auto b = gathered<int64_t>(w, site, site.b, whole_value);
  auto sums = gathered<int64_t>(w, site, site.c, whole_value);
  const uint32_t inner = site.a.columns;
  const bool bits = site.a.element == Element::kB1;
  for (uint32_t row = 0; row < site.d.rows; ++row) {
    for (uint32_t column = 0; column < site.d.columns; ++column) {
      const int64_t* left = &a[size_t{row} * inner];
      const int64_t* right = &b[size_t{column} * inner];
      int64_t& sum = sums[row * site.d.columns + column];
      for (uint32_t k = 0; k < inner; ++k) {
        sum += !bits ? left[k] * right[k] : site.bits_and ? left[k] & right[k] : left[k] ^ right[k];
      }
      if (site.saturate) sum = std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX);
    }
  }
  scatter(w, site, sums, [](int64_t v) { return uint64_t{static_cast<uint32_t>(v)}; });
}

const MatrixSite& site_of(const Op& op) {
  return *reinterpret_cast<const MatrixSite*>(op.immediate);
}

bool multiply(WarpView& w, const Op& op, uint32_t) {
  const MatrixSite& site = site_of(op);
  if (is_whole(site.d.element)) {
    multiply_integers(w, site);
  } else {
    multiply_reals(w, site);
  }
  return true;
}

// The bits moved at a time: those of an element, or a register of elements smaller than a byte.
uint32_t unit_bits(Element element) {
  return bits_of(element) < 8 ? 32 : bits_of(element);
}

// Calls visit(place in host memory, lane, register, shift) for each unit of each lane.
template <class Visit>
bool move_matrix(WarpView& w, const Op& op, uint32_t mask, bool write, const Visit& visit) {
  const MatrixSite& site = site_of(op);
  const Matrix& m = site.d;
  const uint32_t bits = bits_of(m.element), unit = unit_bits(m.element);
  Op access;
  access.slot[kAddressSlot] = site.scratch;
  access.code = static_cast<uint8_t>(MemorySpace::kGeneric);
  access.hint = op.hint;
  for (uint32_t index = 0; index < m.slots.size(); ++index) {
    for (uint32_t shift = 0; shift < register_bits_of(m.element); shift += unit) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        uint64_t base = 0;
        uint32_t stride = 0;
        std::memcpy(&base, register_at(w, site.base) + lane * sizeof base, sizeof base);
        std::memcpy(&stride, register_at(w, site.stride) + lane * sizeof stride, sizeof stride);
        const Position at = opaque_position(m, lane, index, shift / bits);
        const uint64_t number = site.row_major ? uint64_t{at.row} * stride + at.column
                                               : uint64_t{at.column} * stride + at.row;
        const uint64_t address = base + number * bits / 8;
        std::memcpy(w.registers + site.scratch + lane * sizeof address, &address, sizeof address);
      }
      std::byte* places[kLanes];
      if (!handlers().locate(w, access, mask, unit / 8, write, places)) return false;
      for (uint32_t lane = 0; lane < kLanes; ++lane) visit(places[lane], lane, index, shift);
    }
  }
  return true;
}

bool load(WarpView& w, const Op& op, uint32_t mask) {
  const Matrix& m = site_of(op).d;
  const size_t bytes = unit_bits(m.element) / 8;
  std::vector<uint64_t> words(kLanes * m.slots.size());
  const bool ok = move_matrix(
      w, op, mask, false, [&](const std::byte* at, uint32_t lane, uint32_t index, uint32_t shift) {
        uint64_t value = 0;
        std::memcpy(&value, at, bytes);
        words[lane * m.slots.size() + index] |= value << shift;
      });
  for (uint32_t lane = 0; ok && lane < kLanes; ++lane) {
    for (size_t i = 0; i < m.slots.size(); ++i) {
      set_lane_bits(w, m, i, lane, words[lane * m.slots.size() + i]);
    }
  }
  return ok;
}

bool store(WarpView& w, const Op& op, uint32_t mask) {
  const Matrix& m = site_of(op).d;
  const size_t bytes = unit_bits(m.element) / 8;
  return move_matrix(w, op, mask, true,
                     [&](std::byte* at, uint32_t lane, uint32_t index, uint32_t shift) {
                       const uint64_t value = lane_bits(w, m, index, lane) >> shift;
                       std::memcpy(at, &value, bytes);
                     });
}

// Where a lane's lower and upper half are in 8 by 8 matrices of two bytes each, as bytes in a row.
struct Pair {
  uint32_t row[2];
  uint32_t byte[2];
};
Pair pair_of(uint32_t lane, bool transposed) {
  const uint32_t group = lane / kGroup, first = lane % kGroup * 2;
  if (transposed) return {{first, first + 1}, {group * 2, group * 2}};
  return {{group, group}, {first * 2, first * 2 + 2}};
}

constexpr uint32_t kRowBytes = 16;
constexpr uint32_t kMatrixRows = 8;

// Each lane names a row: the first eight lanes those of the first matrix, and so on.
template <class Visit>
bool for_each_half(WarpView& w, const Op& op, bool write, const Visit& visit) {
  const uint32_t lanes = kMatrixRows * op.vector;
  const uint32_t named = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
  std::byte* rows[kLanes];
  if (!handlers().locate(w, op, named, kRowBytes, write, rows)) return false;
  for (uint32_t matrix = 0; matrix < op.vector; ++matrix) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const Pair pair = pair_of(lane, op.target != 0);
      for (uint32_t half = 0; half < 2; ++half) {
        visit(rows[matrix * kMatrixRows + pair.row[half]] + pair.byte[half],
              op.slot[matrix] + static_cast<int32_t>(lane * 4 + half * 2));
      }
    }
  }
  return true;
}

bool rows_load(WarpView& w, const Op& op, uint32_t) {
  // The address may be in one of the registers that are written.
  std::byte loaded[4][kLanes * 4];
  size_t at = 0;
  if (!for_each_half(w, op, false, [&](const std::byte* from, int32_t) {
        std::memcpy(&loaded[0][0] + at, from, 2);
        at += 2;
      })) {
    return false;
  }
  for (uint32_t m = 0; m < std::min<uint32_t>(op.vector, 4); ++m) {
    if (op.slot[m] != kNoSlot) std::memcpy(w.registers + op.slot[m], loaded[m], sizeof loaded[m]);
  }
  return true;
}

bool rows_store(WarpView& w, const Op& op, uint32_t) {
  return for_each_half(
      w, op, true, [&](std::byte* to, int32_t slot) { std::memcpy(to, w.registers + slot, 2); });
}

bool transpose(WarpView& w, const Op& op, uint32_t) {
  std::byte rows[kMatrixRows][kRowBytes];
  const std::byte* from = register_at(w, op.slot[1]);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    std::memcpy(&rows[lane / kGroup][lane % kGroup * 4], from + lane * 4, 4);
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const Pair pair = pair_of(lane, true);
    for (uint32_t half = 0; half < 2; ++half) {
      std::memcpy(w.registers + op.slot[0] + lane * 4 + half * 2,
                  &rows[pair.row[half]][pair.byte[half]], 2);
    }
  }
  return true;
}

}  // namespace

uint32_t bits_of(Element element) {
  switch (element) {
    case Element::kF16:
    case Element::kBF16:
      return 16;
    case Element::kF64:
      return 64;
    case Element::kE4M3:
    case Element::kE5M2:
    case Element::kS8:
    case Element::kU8:
      return 8;
    case Element::kS4:
    case Element::kU4:
      return 4;
    case Element::kB1:
      return 1;
    default:
      return 32;
  }
}

uint32_t register_bits_of(Element element) {
  return element == Element::kF64 ? 64 : 32;
}

uint32_t registers_of(const Matrix& m) {
  return m.rows * m.columns * bits_of(m.element) / (kLanes * register_bits_of(m.element));
}

Handler matrix_multiply_handler() {
  return multiply;
}
Handler matrix_load_handler() {
  return load;
}
Handler matrix_store_handler() {
  return store;
}
Handler rows_load_handler() {
  return rows_load;
}
Handler rows_store_handler() {
  return rows_store;
}
Handler transpose_handler() {
  return transpose;
}

}  // namespace simcuda
