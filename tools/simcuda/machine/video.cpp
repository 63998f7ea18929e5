// Video instructions, stage by stage for all lanes: pick, compute, clamp, combine with c.
#include "tools/simcuda/machine/video.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

namespace simcuda {
namespace {

__extension__ typedef __int128 Wide;

// One value a lane. Values of 33 bits and their sums, differences and products fit.
using Values = int64_t[kLanes];
using Words = uint32_t[kLanes];

void read_words(const WarpView& w, int32_t slot, Words& words) {
  if (slot == kNoSlot) {
    std::fill(std::begin(words), std::end(words), 0);
  } else {
    std::memcpy(words, (slot < 0 ? w.constants : w.registers) + slot, sizeof words);
  }
}

void pick(const Words& a, const Words& b, const VideoSite::Source& source, uint32_t element,
          Values& values) {
  const Words& from = source.at[element] < 32 ? a : b;
  const uint32_t at = source.at[element] % 32;
  // Bits above the element go out to the left; the way back extends.
  const uint32_t above = 32 - source.bits - at;
  const uint32_t back = 32 - source.bits;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t top = from[lane] << above;
    values[lane] = source.is_signed ? static_cast<int32_t>(top) >> back : int64_t{top >> back};
  }
}

template <class Each>
void for_lanes(const Values& x, const Values& y, Values& t, const Each& each) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) t[lane] = each(x[lane], y[lane]);
}

int64_t average(int64_t x, int64_t y) {
  const int64_t sum = x + y;
  return sum >= 0 ? (sum + 1) >> 1 : sum >> 1;
}

void compare(Compare how, const Values& x, const Values& y, Values& t) {
  switch (how) {
    case Compare::kEq:
      return for_lanes(x, y, t, [](int64_t p, int64_t q) { return int64_t{p == q}; });
    case Compare::kNe:
      return for_lanes(x, y, t, [](int64_t p, int64_t q) { return int64_t{p != q}; });
    case Compare::kLt:
      return for_lanes(x, y, t, [](int64_t p, int64_t q) { return int64_t{p < q}; });
    case Compare::kLe:
      return for_lanes(x, y, t, [](int64_t p, int64_t q) { return int64_t{p <= q}; });
    case Compare::kGt:
      return for_lanes(x, y, t, [](int64_t p, int64_t q) { return int64_t{p > q}; });
    default:
      return for_lanes(x, y, t, [](int64_t p, int64_t q) { return int64_t{p >= q}; });
  }
}

// By an unsigned amount. To the left only the low 32 bits count.
void shift(const VideoSite& site, const Values& x, const Values& y, Values& t) {
  const bool left = site.code == VideoSite::Code::kShiftLeft;
  for_lanes(x, y, t, [&](int64_t p, int64_t q) {
    const int64_t by = site.wraps ? q & 31 : std::min<int64_t>(q, 32);
    return left ? static_cast<int64_t>(static_cast<uint64_t>(p) << by) : p >> by;
  });
}

void compute(const VideoSite& site, const Values& x, const Values& y, Values& t) {
  switch (site.code) {
    case VideoSite::Code::kAdd:
      return for_lanes(x, y, t, [](int64_t p, int64_t q) { return p + q; });
    case VideoSite::Code::kSub:
      return for_lanes(x, y, t, [](int64_t p, int64_t q) { return p - q; });
    case VideoSite::Code::kApart:
      return for_lanes(x, y, t, [](int64_t p, int64_t q) { return p < q ? q - p : p - q; });
    case VideoSite::Code::kMin:
      return for_lanes(x, y, t, [](int64_t p, int64_t q) { return std::min(p, q); });
    case VideoSite::Code::kMax:
      return for_lanes(x, y, t, [](int64_t p, int64_t q) { return std::max(p, q); });
    case VideoSite::Code::kAverage:
      return for_lanes(x, y, t, average);
    case VideoSite::Code::kCompare:
      return compare(site.compare, x, y, t);
    default:
      return shift(site, x, y, t);
  }
}

void clamp(bool is_signed, uint32_t bits, Values& t) {
  const int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t high = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  for (int64_t& value : t) value = std::clamp(value, low, high);
}

// The word as a number of the destination's type.
int64_t number(uint32_t word, bool is_signed) {
  return is_signed ? static_cast<int32_t>(word) : int64_t{word};
}

void combine(const VideoSite& site, uint32_t element, const Values& t, Words& d) {
  const uint32_t at = site.at[element];
  const uint32_t part = (site.bits == 32 ? UINT32_MAX : (1u << site.bits) - 1) << at;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const auto low = static_cast<uint32_t>(t[lane]);
    const int64_t before = number(d[lane], site.is_signed);
    switch (site.second) {
      case VideoSite::Second::kMerge:
        d[lane] = (d[lane] & ~part) | (low << at & part);
        break;
      case VideoSite::Second::kAdd:
        d[lane] += low;
        break;
      case VideoSite::Second::kMin:
        d[lane] = static_cast<uint32_t>(std::min(t[lane], before));
        break;
      case VideoSite::Second::kMax:
        d[lane] = static_cast<uint32_t>(std::max(t[lane], before));
        break;
    }
  }
}

// vmad: exact until it is scaled.
void multiply_add(const VideoSite& site, const Values& x, const Values& y, Words& d) {
  const bool product_signed = site.x.is_signed || site.y.is_signed || site.negates_product;
  const bool is_signed = product_signed || site.negates_sum;
  const Wide low = is_signed ? -(Wide{1} << 31) : Wide{0};
  const Wide high = (Wide{1} << (is_signed ? 31 : 32)) - 1;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const Wide product = Wide{x[lane]} * y[lane];
    const Wide sum = number(d[lane], product_signed);
    Wide all = (site.negates_product ? -product : product) + (site.negates_sum ? -sum : sum) +
               (site.plus_one ? 1 : 0);
    all >>= site.scale;
    if (site.saturates) all = std::clamp(all, low, high);
    d[lane] = static_cast<uint32_t>(all);
  }
}

bool run_video(WarpView& w, const Op& op, uint32_t mask) {
  const auto& site = *reinterpret_cast<const VideoSite*>(static_cast<uintptr_t>(op.immediate));
  Words a, b, d;
  Values x, y, t;
  read_words(w, site.a, a);
  read_words(w, site.b, b);
  read_words(w, site.c, d);
  for (uint32_t element = 0; element < site.elements; ++element) {
    if ((site.mask >> element & 1) == 0) continue;
    pick(a, b, site.x, element, x);
    pick(a, b, site.y, element, y);
    if (site.code == VideoSite::Code::kMad) {
      multiply_add(site, x, y, d);
      continue;
    }
    compute(site, x, y, t);
    if (site.saturates) clamp(site.is_signed, site.bits, t);
    combine(site, element, t, d);
  }
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(left));
    std::memcpy(w.registers + site.d + size_t{lane} * sizeof d[0], &d[lane], sizeof d[0]);
  }
  return true;
}

}  // namespace

Handler video_handler() {
  return run_video;
}

}  // namespace simcuda
