// SPDX-License-Identifier: Apache-2.0
//
// Command lines of the programs in this folder: "CONFIG --name value --flag ...". CONFIG is the
// configuration file of the history. An argument that is not understood ends the program.
#pragma once

#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>

#include "tests/apps/app.h"

namespace app {

class Options {
 public:
  // `usage` is what --help prints.
  Options(int argc, char** argv, const char* usage) : usage_(usage) {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument == "--help") help();
      if (!argument.starts_with("--")) {
        if (!config_.empty()) fail(argv[i], "is one argument too many (see --help)");
        config_ = argument;
      } else {
        const bool has_value = i + 1 < argc && std::string(argv[i + 1]).substr(0, 2) != "--";
        values_[argument] = has_value ? argv[++i] : "";
      }
    }
    if (config_.empty()) fail("usage", usage_);
  }

  const char* config() const { return config_.c_str(); }

  bool flag(const std::string& name) { return values_.erase(name) > 0; }

  std::string text(const std::string& name, const std::string& otherwise) {
    const auto node = values_.extract(name);
    return node.empty() ? otherwise : node.mapped();
  }

  int number(const std::string& name, int otherwise, int least = 0) {
    const std::string value = text(name, std::to_string(otherwise));
    char* end = nullptr;
    const long number = std::strtol(value.c_str(), &end, 10);
    if (value.empty() || *end != '\0' || number < least || number > 1 << 30) {
      fail(name.c_str(), "needs a number from " + std::to_string(least));
    }
    return static_cast<int>(number);
  }

  // One of the choices; the first one if the option is not given.
  std::string choice(const std::string& name, std::initializer_list<const char*> choices) {
    const std::string value = text(name, *choices.begin());
    std::string all;
    for (const char* each : choices) {
      if (value == each) return value;
      all += (all.empty() ? "" : ", ") + std::string(each);
    }
    fail(name.c_str(), "is none of " + all);
  }

  // All options have been taken.
  void finish() const {
    if (!values_.empty()) fail(values_.begin()->first.c_str(), "is unknown (see --help)");
  }

 private:
  [[noreturn]] void help() const {
    std::puts(usage_);
    std::exit(0);
  }

  const char* const usage_;
  std::string config_;
  std::map<std::string, std::string> values_;
};

// Ends the program if a call of the history failed. The library has said why.
inline void must(int result) {
  if (result == 0) return;
  std::fflush(stdout);
  std::exit(1);
}

}  // namespace app
