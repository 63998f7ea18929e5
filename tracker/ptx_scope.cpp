#include "tracker/ptx_scope.h"

#include <array>
#include <string>

namespace gpusnap::ptx {

void Scopes::push() {
  Scope scope;
  scope.id = static_cast<uint32_t>(parents_.size());
  parents_.push_back(open_.empty() ? kNoIndex : current());
  open_.push_back(std::move(scope));
}

bool Scopes::declare_symbol(std::string_view name, Symbol symbol) {
  Name entry;
  entry.kind = Name::Kind::kSymbol;
  entry.symbol = symbol;
  return open_.back().names.emplace(name, entry).second;
}

bool Scopes::declare_register(std::string_view name, Type type, uint32_t width) {
  if (open_.back().names.contains(name)) return false;
  open_.back().names.emplace(name, make_register(name, type, width));
  return true;
}

bool Scopes::declare_range(std::string_view prefix, Type type, uint32_t width, uint64_t count) {
  return open_.back().ranges.emplace(prefix, Range{type, width, count}).second;
}

Name Scopes::make_register(std::string_view name, Type type, uint32_t width) {
  static constexpr std::array<std::string_view, 4> kComponents = {".x", ".y", ".z", ".w"};
  Name entry;
  entry.first = static_cast<RegisterIndex>(function_.registers.size());
  entry.width = width;
  for (uint32_t i = 0; i < width; ++i) {
    std::string full(name);
    if (width > 1) full += kComponents[i];
    function_.registers.push_back({std::move(full), type});
  }
  return entry;
}

// A prefix may itself end in digits: %r12 is number 12 of %r, 2 of %r1.
const Scopes::Range* Scopes::find_range(const Scope& scope, std::string_view name) {
  uint64_t number = 0;
  uint64_t weight = 1;
  for (size_t at = name.size(); at-- > 1 && weight <= 1'000'000'000;) {
    const char digit = name[at];
    if (digit < '0' || digit > '9') break;
    number += static_cast<uint64_t>(digit - '0') * weight;
    weight *= 10;
    if (digit == '0' && at + 1 != name.size()) continue;  // no leading zeros
    const auto range = scope.ranges.find(name.substr(0, at));
    if (range != scope.ranges.end() && number < range->second.count) return &range->second;
  }
  return nullptr;
}

std::optional<Name> Scopes::find(std::string_view name) {
  for (auto scope = open_.rbegin(); scope != open_.rend(); ++scope) {
    const auto entry = scope->names.find(name);
    if (entry != scope->names.end()) return entry->second;
    const Range* range = find_range(*scope, name);
    if (range == nullptr) continue;
    return scope->names.emplace(name, make_register(name, range->type, range->width)).first->second;
  }
  return std::nullopt;
}

const Labels::Label* Labels::find(const Scopes& scopes, uint32_t scope,
                                  std::string_view name) const {
  for (; scope != kNoIndex; scope = scopes.parent(scope)) {
    const auto label = labels_.find({scope, name});
    if (label != labels_.end()) return &label->second;
  }
  return nullptr;
}

}  // namespace gpusnap::ptx
