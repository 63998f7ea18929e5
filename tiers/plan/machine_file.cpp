// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/machine_file.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

namespace gpusnap::plan {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Without its comment; a '#' within quotes is none.
std::string_view without_comment(std::string_view line) {
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (line[i] == '#' && !quoted) return line.substr(0, i);
  }
  return line;
}

bool is_key(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char character) {
    return (character >= 'a' && character <= 'z') || (character >= '0' && character <= '9') ||
           character == '_' || character == '.' || character == '-' ||
           (character >= 'A' && character <= 'Z');
  });
}

Status wrong(std::string what) {
  return {Code::kInvalid, std::move(what)};
}

class Parser {
 public:
  Result<Machine> parse(std::string_view text) {
    for (size_t number = 1; !text.empty(); ++number) {
      const size_t end = std::min(text.find('\n'), text.size());
      const Status taken = take_line(trimmed(without_comment(text.substr(0, end))));
      if (!taken.ok()) return wrong("line " + std::to_string(number) + ": " + taken.message());
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return finish();
  }

 private:
  Status take_line(std::string_view line) {
    if (line.empty()) return {};
    if (line.front() == '[') return take_section(line);
    const size_t equals = line.find('=');
    const std::string_view key = trimmed(line.substr(0, std::min(equals, line.size())));
    if (equals == std::string_view::npos || !is_key(key)) {
      return wrong("'" + std::string(line) + "' is no [section] and no key = value");
    }
    return take_value(section_ + std::string(key), trimmed(line.substr(equals + 1)));
  }

  Status take_section(std::string_view line) {
    const std::string_view name =
        trimmed(line.substr(1, line.size() - std::min<size_t>(2, line.size())));
    if (line.back() != ']' || !is_key(name)) {
      return wrong("'" + std::string(line) + "' is no section such as [link]");
    }
    section_ = std::string(name) + ".";
    return {};
  }

  Status take_value(const std::string& key, std::string_view value) {
    if (!seen_.insert(key).second) return wrong("'" + key + "' is there twice");
    const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
    if (key == "name") {
      if (!quoted) return wrong("the name is not in quotes");
      machine_.name = value.substr(1, value.size() - 2);
      return {};
    }
    std::string number(value);
    std::erase(number, '_');
    if (quoted || number.ends_with('x')) {
      return wrong(key + ": " + std::string(value) + " is no number such as 12.5");
    }
    return set_input(machine_, key, number);
  }

  Result<Machine> finish() {
    for (const Input& input : inputs()) {
      if (!input.required || seen_.contains(input.key)) continue;
      return wrong("'" + std::string(input.key) + "' is missing (" + input.help + ")");
    }
    if (!seen_.contains("ssd.read")) machine_.ssd_read = machine_.ssd_write;
    if (!seen_.contains("pfs.read")) machine_.pfs_read = machine_.pfs_write;
    return machine_;
  }

  Machine machine_;
  std::string section_;  // with its dot
  std::set<std::string> seen_;
};

}  // namespace

Result<Machine> parse_machine(std::string_view text) {
  return Parser().parse(text);
}

}  // namespace gpusnap::plan
