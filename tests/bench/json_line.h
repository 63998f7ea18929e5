// SPDX-License-Identifier: Apache-2.0
//
// The results of a simulation as one line of JSON.
#pragma once

#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

namespace gpusnap::bench {

// Names and texts have nothing that JSON escapes.
class JsonLine {
 public:
  JsonLine() { out_ << std::setprecision(12) << '{'; }
  void key(const std::string& name) {
    out_ << (is_first_ ? "" : ", ") << '"' << name << "\": ";
    is_first_ = false;
  }
  void text(const std::string& name, const std::string& value) {
    key(name);
    out_ << '"' << value << '"';
  }
  void number(const std::string& name, double value) {
    key(name);
    out_ << value;
  }
  void numbers(const std::string& name, const std::vector<double>& values) {
    key(name);
    out_ << '[';
    for (size_t i = 0; i < values.size(); ++i) out_ << (i == 0 ? "" : ", ") << values[i];
    out_ << ']';
  }
  std::string end() {
    out_ << '}';
    return out_.str();
  }

 private:
  std::ostringstream out_;
  bool is_first_ = true;
};

}  // namespace gpusnap::bench
