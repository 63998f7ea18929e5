// Files of device code that the build made with the compilers that it found.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace gpusnap {

// The files whose name ends so; empty where no compiler for them was found.
inline std::vector<std::string> device_code(const std::string& ending) {
  std::vector<std::string> found;
  const char* list = std::getenv("TRACKER_DEVICE_CODE");
  std::string rest = list != nullptr ? list : "";
  while (!rest.empty()) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const std::string path = rest.substr(0, colon);
    if (path.ends_with(ending)) found.push_back(path);
    rest.erase(0, colon + 1);
  }
  return found;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace gpusnap
