// Lists the instructions of PTX files that simcuda refuses, one a line: refused FILE...
// A refused instruction is taken out, so that the ones after it are seen, too. Exit code 1 if there
// is any.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "tools/simcuda/machine.h"
#include "tracker/ptx.h"

namespace {

constexpr int kMost = 2000;

// Blanks `what` in the line, so that all others keep their numbers. False: it is not there.
bool take_out(std::string& text, uint32_t line, const std::string& what) {
  size_t at = 0;
  for (uint32_t i = 1; i < line && at != std::string::npos; ++i) at = text.find('\n', at) + 1;
  at = text.find(what, at);
  if (what.empty() || at == std::string::npos) return false;
  std::replace_if(
      text.begin() + static_cast<ptrdiff_t>(at),
      text.begin() + static_cast<ptrdiff_t>(at + what.size()), [](char c) { return c != '\n'; },
      ' ');
  return true;
}

int refused(const std::string& file) {
  std::ifstream in(file);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.empty()) {
    std::cout << file << ": cannot be read\n";
    return 1;
  }
  for (int count = 0; count < kMost; ++count) {
    gpusnap::ptx::ParseResult parsed = gpusnap::ptx::parse(text);
    simcuda::LoadError error{parsed.error.line, parsed.error.near_text, parsed.error.reason};
    if (parsed.module != nullptr &&
        simcuda::Program::decode(std::move(parsed.module), &error) != nullptr) {
      return count;
    }
    std::cout << file << ":" << error.line << ": " << error.instruction << ": " << error.reason
              << "\n";
    if (!take_out(text, error.line, error.instruction)) return count + 1;
  }
  return kMost;
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  for (int i = 1; i < argc; ++i) count += refused(argv[i]);
  return count == 0 ? 0 : 1;
}
