#include <array>
#include <utility>

#include "tracker/ptx.h"

namespace gpusnap::ptx {
namespace {

struct TypeRow {
  std::string_view name;
  uint32_t bytes;
};

// In the order of the enumeration.
constexpr std::array<TypeRow, 21> kTypes = {{
    {"", 0},    {"pred", 0}, {"b8", 1},    {"b16", 2},  {"b32", 4},    {"b64", 8}, {"b128", 16},
    {"u8", 1},  {"u16", 2},  {"u32", 4},   {"u64", 8},  {"s8", 1},     {"s16", 2}, {"s32", 4},
    {"s64", 8}, {"f16", 2},  {"f16x2", 4}, {"bf16", 2}, {"bf16x2", 4}, {"f32", 4}, {"f64", 8},
}};
static_assert(kTypes.size() == static_cast<size_t>(Type::kF64) + 1);

constexpr std::array<std::string_view, 7> kSpaces = {"generic", "reg",    "param", "local",
                                                     "shared",  "global", "const"};
static_assert(kSpaces.size() == static_cast<size_t>(Space::kConst) + 1);

}  // namespace

uint32_t size_of(Type type) {
  return kTypes[static_cast<size_t>(type)].bytes;
}

std::string_view name_of(Type type) {
  return kTypes[static_cast<size_t>(type)].name;
}

std::string_view name_of(Space space) {
  return kSpaces[static_cast<size_t>(space)];
}

Type type_from_name(std::string_view name) {
  for (size_t i = 1; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<Type>(i);
  }
  return Type::kNone;
}

}  // namespace gpusnap::ptx
