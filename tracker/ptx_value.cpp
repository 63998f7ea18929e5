#include "tracker/ptx_value.h"

#include <algorithm>

namespace gpusnap::ptx {

Value Value::number() {
  Value value;
  value.assigned = true;
  return value;
}

Value Value::of_constant(uint64_t constant) {
  Value value = number();
  value.constant = constant;
  return value;
}

Value Value::of(const Source& source) {
  Value value = number();
  value.sources.push_back(source);
  return value;
}

Value Value::doubted(Doubt doubt, uint32_t line) {
  Value value = number();
  value.add_doubt(doubt, line);
  return value;
}

bool Value::add_source(const Source& source) {
  for (Source& mine : sources) {
    if (!mine.same_place(source)) continue;
    if (mine.offset == source.offset || !mine.offset) return false;
    mine.offset.reset();  // two places: anywhere, so that loops end
    return true;
  }
  if (sources.size() == kMostSources) return add_doubt(Doubt::kTooMany, 0);
  sources.push_back(source);
  return true;
}

bool Value::add_number(uint32_t word) {
  if (std::ranges::find(numbers, word) != numbers.end()) return false;
  // A value computed from so many words is not followed.
  if (numbers.size() == kMostSources) return add_doubt(Doubt::kTooMany, 0);
  numbers.push_back(word);
  return true;
}

bool Value::add_doubt(Doubt why, uint32_t line) {
  if (why == Doubt::kNone || doubt != Doubt::kNone) return false;
  doubt = why;
  doubt_line = line;
  return true;
}

bool Value::add_numbers_of(const Value& other) {
  bool changed = other.hidden && !hidden;
  hidden = hidden || other.hidden;
  for (const uint32_t word : other.numbers) changed |= add_number(word);
  return changed;
}

bool Value::join(const Value& other) {
  if (!other.assigned) return false;
  if (!assigned) {
    *this = other;
    return true;
  }
  bool changed = add_numbers_of(other);
  changed |= add_doubt(other.doubt, other.doubt_line);
  for (const Source& source : other.sources) changed |= add_source(source);
  if (constant && constant != other.constant) {
    constant.reset();
    changed = true;
  }
  if (exact && exact != other.exact) {
    exact.reset();
    changed = true;
  }
  return changed;
}

void Value::absorb(const Value& other) {
  assigned = assigned || other.assigned;
  add_numbers_of(other);
  add_doubt(other.doubt, other.doubt_line);
  for (const Source& source : other.sources) add_source(source);
  constant.reset();
  exact.reset();
}

void Value::shift(std::optional<int64_t> by) {
  for (Source& source : sources) {
    if (!source.offset) continue;
    int64_t sum = 0;
    if (by && !__builtin_add_overflow(*source.offset, *by, &sum)) {
      source.offset = sum;
    } else {
      source.offset.reset();
    }
  }
}

Value Value::as_number(uint32_t size) const {
  Value value;
  value.assigned = assigned;
  value.numbers = numbers;
  value.hidden = hidden || (size >= kPointerBytes && doubt != Doubt::kNone);
  for (const Source& source : sources) {
    if (source.kind == Source::Kind::kWord) value.add_number(source.index);
    if (source.kind == Source::Kind::kWords) value.hidden = true;
  }
  return value;
}

}  // namespace gpusnap::ptx
