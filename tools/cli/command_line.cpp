// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/command_line.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "interpose/services/setting_values.h"
#include "tiers/names.h"
#include "tools/cli/element_type.h"
#include "tools/cli/exit_codes.h"

namespace gpusnap {
namespace {

// An option that may be given again. `take`: false where it cannot read the text.
template <class Take>
void add_many(CLI::App& command, const std::string& name, const std::string& type,
              const std::string& such_as, const std::string& help, const Take& take) {
  const auto take_all = [name, such_as, take](const std::vector<std::string>& texts) {
    const auto wrong = std::ranges::find_if_not(texts, take);
    if (wrong == texts.end()) return;
    throw CLI::ValidationError(name, "'" + *wrong + "' is not such as " + such_as);
  };
  command.add_option_function<std::vector<std::string>>(name, take_all, help)
      ->type_name(type)
      ->expected(1)
      ->take_all();
}

template <class T>
bool append(std::vector<T>& to, const std::optional<T>& value) {
  if (value) to.push_back(*value);
  return value.has_value();
}

}  // namespace

void end_help(CLI::App& command, const std::string& text) {
  command.footer(text + kExitCodesHelp);
}

void add_store(CLI::App& command, std::string& store) {
  command.add_option("--store", store, "the store's folder (default GPUSNAP_PFS, ./gpusnap)");
}

void add_time(CLI::App& command, const std::string& name, std::chrono::nanoseconds& time,
              const std::string& such_as, const std::string& help) {
  const auto take = [name, &time, such_as](const std::string& text) {
    if (parse_duration(text, time)) return;
    throw CLI::ValidationError(name, "'" + text + "' is not a time such as " + such_as);
  };
  command.add_option_function<std::string>(name, take, help)->type_name("TIME");
}

void add_selection(CLI::App& command, RangeSelection& ranges) {
  command.add_option("--rank", ranges.rank, "only this rank's (default: all)")->type_name("N");
  add_many(
      command, "--range", "NUMBER", "3", "a range, as 'gpusnap show' numbers them",
      [&ranges](const std::string& text) { return append(ranges.numbers, parse_number(text)); });
  add_many(
      command, "--address", "ADDRESS", "0x7f0012345600", "the range that has this device address",
      [&ranges](const std::string& text) { return append(ranges.addresses, parse_address(text)); });
  add_many(command, "--site", "HASH[:ORDINAL]", "00f1e2d3c4b5a697:2",
           "the allocations that were made at this call site, or one of them",
           [&ranges](const std::string& text) { return append(ranges.sites, parse_site(text)); });
  command
      .add_option("--name", ranges.names,
                  "a variable of a module, or a region or file of a history")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
}

void add_element_type(CLI::App& command, const std::string& help,
                      const std::function<void(const ElementType*)>& take) {
  command
      .add_option_function<std::string>(
          "--dtype",
          [take](const std::string& name) {
            const ElementType* const type = find_element_type(name);
            if (type != nullptr) return take(type);
            throw CLI::ValidationError("--dtype",
                                       "'" + name + "' is none of " + element_type_names());
          },
          help)
      ->type_name("TYPE");
}

}  // namespace gpusnap
