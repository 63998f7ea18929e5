// SPDX-License-Identifier: Apache-2.0
//
// make_machine_code PTX IMAGE ARCH: the image that simcuda takes for machine code and that runs
// this PTX.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "tools/simcuda/driver/machine_image.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  const std::string ptx{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::string why;
  const auto image = simcuda::machine_image(ptx, static_cast<uint32_t>(std::atoi(argv[3])), &why);
  if (!image) {
    std::fprintf(stderr, "%s: %s\n", argv[1], why.c_str());
    return 1;
  }
  std::ofstream out(argv[2], std::ios::binary);
  out << *image;
  return out.good() ? 0 : 1;
}
