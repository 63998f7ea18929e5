#include "tools/cli/environment.h"

#include <unistd.h>

#include <algorithm>

#include "interpose/services/program_mark.h"

namespace gpusnap {

Environment::Environment() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    entries_.emplace_back(*entry);
  }
}

std::vector<std::string>::iterator Environment::find(const std::string& name) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&name](const std::string& entry) { return entry.starts_with(name + "="); });
}

void Environment::unset(const std::string& name) {
  std::erase_if(entries_,
                [&name](const std::string& entry) { return entry.starts_with(name + "="); });
}

void Environment::set(const std::string& name, const std::string& value) {
  unset(name);
  entries_.push_back(name + "=" + value);
}

std::string Environment::get(const std::string& name) const {
  const auto found = const_cast<Environment*>(this)->find(name);
  return found == entries_.end() ? std::string() : found->substr(name.size() + 1);
}

void Environment::prepend(const std::string& name, const std::string& value, char separator) {
  const std::string before = get(name);
  set(name, before.empty() ? value : value + separator + before);
}

void Environment::even_out() {
  constexpr size_t kStep = 8 << 10;
  constexpr size_t kStepOfSettings = 4 << 10;
  constexpr auto round_up = [](size_t bytes, size_t step) {
    return (bytes + step - 1) / step * step;
  };
  unset(kPadding);
  unset(kOneMore);
  // The kernel aligns the stack's end: with an odd number of variables it would lie elsewhere.
  if (entries_.size() % 2 == 0) set(kOneMore, "1");
  set(kPadding, ".");
  size_t settings = 0, others = 0;
  for (const std::string& entry : entries_) {
    const size_t bytes = sizeof(char*) + entry.size() + 1;
    (entry.starts_with("GPUSNAP_") ? settings : others) += bytes;
  }
  const size_t missing =
      round_up(settings, kStepOfSettings) + round_up(others, kStep) - settings - others;
  set(kPadding, std::string(1 + missing, '.'));
}

std::vector<char*> Environment::pointers() {
  std::vector<char*> pointers;
  pointers.reserve(entries_.size() + 1);
  for (std::string& entry : entries_) pointers.push_back(entry.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace gpusnap
