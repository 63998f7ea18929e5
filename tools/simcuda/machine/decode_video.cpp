// Video instructions. Forms whose result the PTX ISA leaves open are refused: a saturated left
// shift, and the least or greatest of c and a result that may be outside of the destination's type.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "tools/simcuda/machine/decoder.h"
#include "tools/simcuda/machine/video.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

namespace {

using VideoCode = VideoSite::Code;

struct Named {
  std::string_view name;
  VideoCode code;
};
constexpr Named kCodes[] = {
    {"vadd", VideoCode::kAdd},        {"vsub", VideoCode::kSub},
    {"vabsdiff", VideoCode::kApart},  {"vmin", VideoCode::kMin},
    {"vmax", VideoCode::kMax},        {"vavrg", VideoCode::kAverage},
    {"vset", VideoCode::kCompare},    {"vshl", VideoCode::kShiftLeft},
    {"vshr", VideoCode::kShiftRight}, {"vmad", VideoCode::kMad},
};

const ptx::RegisterOperand* as_register(const ptx::Operand& operand) {
  return std::get_if<ptx::RegisterOperand>(&operand.value);
}

std::string_view part_of(const ptx::Operand& operand) {
  const auto* reg = as_register(operand);
  return reg == nullptr ? std::string_view() : reg->part;
}

bool is_negated(const ptx::Operand& operand) {
  const auto* reg = as_register(operand);
  return reg != nullptr && reg->negated;
}

// "b3210": letter and `count` digits below `most`, the last element's first.
bool read_digits(std::string_view part, char letter, size_t count, uint32_t most,
                 uint32_t (&digits)[4]) {
  if (part.size() != count + 1 || part[0] != letter) return false;
  for (size_t i = 0; i < count; ++i) {
    const auto digit = static_cast<uint32_t>(part[count - i] - '0');
    if (digit >= most) return false;
    digits[i] = digit;
  }
  return true;
}

// One byte or half-word; without a name all of the word.
bool scalar_part(std::string_view part, uint32_t* bits, uint32_t* at) {
  uint32_t number[4] = {};
  *bits = 32;
  *at = 0;
  if (part.empty()) return true;
  *bits = part[0] == 'b' ? 8 : 16;
  const bool known = read_digits(part, part[0] == 'b' ? 'b' : 'h', 1, 32 / *bits, number);
  *at = number[0] * *bits;
  return known;
}

// Least and greatest result, as far as the types of the sources tell.
struct Range {
  int64_t low, high;
};

Range range_of(const VideoSite::Source& source) {
  const int64_t size = int64_t{1} << source.bits;
  return source.is_signed ? Range{-size / 2, size / 2 - 1} : Range{0, size - 1};
}

Range range_of(const VideoSite& site) {
  const Range x = range_of(site.x), y = range_of(site.y);
  switch (site.code) {
    case VideoCode::kAdd:
      return {x.low + y.low, x.high + y.high};
    case VideoCode::kSub:
      return {x.low - y.high, x.high - y.low};
    case VideoCode::kApart:
      return {0, std::max(x.high - y.low, y.high - x.low)};
    case VideoCode::kMin:
      return {std::min(x.low, y.low), std::min(x.high, y.high)};
    case VideoCode::kMax:
      return {std::max(x.low, y.low), std::max(x.high, y.high)};
    case VideoCode::kShiftRight:
      return {std::min<int64_t>(x.low, 0), x.high};
    case VideoCode::kCompare:
      return {0, 1};
    default:
      return {INT64_MIN, INT64_MAX};
  }
}

bool fits(const Range& range, bool is_signed) {
  const Range word = range_of(VideoSite::Source{is_signed, 32, {}});
  return range.low >= word.low && range.high <= word.high;
}

}  // namespace

void Decoder::emit_video(const VideoSite& site) {
  out_.videos.push_back(std::make_unique<VideoSite>(site));
  const auto kept = reinterpret_cast<uintptr_t>(out_.videos.back().get());
  emit(video_handler()).immediate = static_cast<int64_t>(kept);
}

int32_t Decoder::video_source(size_t index) {
  Operand whole = operand(index);
  if (auto* reg = std::get_if<ptx::RegisterOperand>(&whole.value)) reg->negated = false;
  return read(whole, 32);
}

bool Decoder::take_sign(Modifiers& mods, bool* is_signed) {
  const Type type = mods.take_type();
  *is_signed = type == Type::kS32;
  if (type == Type::kS32 || type == Type::kU32) return true;
  fail("no such type for this instruction");
  return false;
}

// The types and modifiers that all but vmad have alike. False: failed.
bool Decoder::video_modifiers(Modifiers& mods, VideoSite& site) {
  if (site.code == VideoCode::kCompare) {
    const int compare = mods.take_one({"eq", "ne", "lt", "le", "gt", "ge"});
    if (compare < 0) fail("no such comparison");
    site.compare = static_cast<Compare>(std::max(compare, 0));
  } else {
    site.saturates = mods.take("sat");
    if (!take_sign(mods, &site.is_signed)) return false;
  }
  if (!take_sign(mods, &site.x.is_signed) || !take_sign(mods, &site.y.is_signed)) return false;
  if (site.code == VideoCode::kShiftLeft || site.code == VideoCode::kShiftRight) {
    const int mode = mods.take_one({"clamp", "wrap"});
    site.wraps = mode == 1;
    if (mode < 0 || site.y.is_signed) fail("no such form of the instruction");
    if (site.code == VideoCode::kShiftLeft && site.saturates) {
      fail("a saturated left shift is not supported");
    }
  }
  return !failed();
}

void Decoder::video() {
  VideoSite site;
  std::string_view name = in_->opcode;
  site.elements = name.ends_with('2') ? 2 : name.ends_with('4') ? 4 : 1;
  if (site.elements != 1) name.remove_suffix(1);
  for (const Named& each : kCodes) {
    if (each.name == name) site.code = each.code;
  }
  if (site.code == VideoCode::kMad) return video_mad(site);
  Modifiers mods(in_->modifiers);
  if (!video_modifiers(mods, site)) return;
  return site.elements == 1 ? video_scalar(mods, site) : video_elements(mods, site);
}

void Decoder::video_scalar(Modifiers& mods, VideoSite& site) {
  const int second = mods.take_one({"add", "min", "max"});
  finished(mods);
  site.second = static_cast<VideoSite::Second>(second + 1);
  if (operands() < 3) return fail("wrong number of operands");
  const std::string_view to = part_of(operand(0));
  const size_t sources = second >= 0 || !to.empty() ? 3 : 2;
  if (!expect_operands(sources + 1, sources + 1)) return;
  if (!scalar_part(to, &site.bits, &site.at[0]) || (second >= 0 && !to.empty()) ||
      !scalar_part(part_of(operand(1)), &site.x.bits, &site.x.at[0]) ||
      !scalar_part(part_of(operand(2)), &site.y.bits, &site.y.at[0]) ||
      (sources == 3 && !part_of(operand(3)).empty())) {
    return fail("no such part of a register here");
  }
  site.y.at[0] += 32;
  if (second > 0 && !site.saturates && !fits(range_of(site), site.is_signed)) {
    return fail("the result may be outside of the type in which it is compared");
  }
  video_operands(site, sources == 3);
}

// Two half-words or four bytes, each from any place of both sources.
void Decoder::video_elements(Modifiers& mods, VideoSite& site) {
  const bool adds = mods.take("add");
  finished(mods);
  if (adds && site.saturates) return fail("no such form of the instruction");
  if (adds) site.second = VideoSite::Second::kAdd;
  if (!expect_operands(4, 4)) return;
  const uint32_t count = site.elements;
  const char letter = count == 2 ? 'h' : 'b';
  const std::string_view to = part_of(operand(0));
  site.bits = 32 / count;
  site.mask = to.empty() ? (1u << count) - 1 : 0;
  uint32_t chosen[4] = {};
  const size_t length = to.empty() ? 0 : to.size() - 1;
  bool known = length <= count && (to.empty() || read_digits(to, letter, length, count, chosen));
  for (size_t i = 0; i < length && known; ++i) {
    known = i == 0 || chosen[i] > chosen[i - 1];
    site.mask |= 1u << chosen[i];
  }
  for (uint32_t which = 0; which < 2; ++which) {
    VideoSite::Source& source = which == 0 ? site.x : site.y;
    const std::string_view part = part_of(operand(1 + which));
    uint32_t places[4] = {0, 1, 2, 3};
    if (part.empty()) {
      for (uint32_t& place : places) place += which * count;
    } else {
      known = known && read_digits(part, letter, count, 2 * count, places);
    }
    source.bits = site.bits;
    for (uint32_t i = 0; i < count; ++i) source.at[i] = places[i] * site.bits;
  }
  for (uint32_t i = 0; i < count; ++i) site.at[i] = i * site.bits;
  if (!known || !part_of(operand(3)).empty()) return fail("no such part of a register here");
  video_operands(site, true);
}

void Decoder::video_operands(VideoSite& site, bool with_c) {
  const size_t count = with_c ? 4 : 3;
  for (size_t i = 1; i < count; ++i) {
    if (is_negated(operand(i))) return fail("only sources of vmad can be negated");
  }
  site.a = video_source(1);
  site.b = video_source(2);
  if (with_c) site.c = video_source(3);
  site.d = written(0, 32);
  if (!failed()) emit_video(site);
}

// The type named first tells nothing: whether the result is signed follows from the sources.
void Decoder::video_mad(VideoSite& site) {
  Modifiers mods(in_->modifiers);
  site.plus_one = mods.take("po");
  site.saturates = mods.take("sat");
  const int scale = mods.take_one({"shr7", "shr15"});
  site.scale = scale < 0 ? 0 : scale == 0 ? 7 : 15;
  if (!take_sign(mods, &site.is_signed) || !take_sign(mods, &site.x.is_signed) ||
      !take_sign(mods, &site.y.is_signed)) {
    return;
  }
  finished(mods);
  if (!expect_operands(4, 4)) return;
  if (!scalar_part(part_of(operand(1)), &site.x.bits, &site.x.at[0]) ||
      !scalar_part(part_of(operand(2)), &site.y.bits, &site.y.at[0]) ||
      !part_of(operand(0)).empty() || !part_of(operand(3)).empty()) {
    return fail("no such part of a register here");
  }
  site.y.at[0] += 32;
  site.negates_product = is_negated(operand(1)) != is_negated(operand(2));
  site.negates_sum = is_negated(operand(3));
  const bool negates = is_negated(operand(1)) || is_negated(operand(2)) || site.negates_sum;
  if ((site.plus_one && negates) || (site.negates_product && site.negates_sum)) {
    return fail("no such form of the instruction");
  }
  // Here the PTX ISA's words and its code say different things.
  const bool both_unsigned = !site.x.is_signed && !site.y.is_signed;
  const bool exact = !site.saturates && scale < 0;
  const bool too_large = site.x.bits == 32 && site.y.bits == 32 && scale < 0;
  const auto* number = std::get_if<ptx::IntegerOperand>(&operand(3).value);
  if (both_unsigned && !exact &&
      (site.negates_sum || (site.negates_product && too_large) ||
       (number != nullptr && number->negative))) {
    return fail("a negated unsigned operand of a saturated or scaled product is not supported");
  }
  site.a = video_source(1);
  site.b = video_source(2);
  site.c = video_source(3);
  site.d = written(0, 32);
  if (!failed()) emit_video(site);
}

}  // namespace simcuda
