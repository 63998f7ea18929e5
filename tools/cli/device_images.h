// The device code in a file: a program, a shared library, or an image of its own (.ptx, .cubin,
// .fatbin). Reads hostile input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tracker/image.h"

namespace gpusnap {

struct DeviceImage {
  std::string place;  // "fat binary at 0x2240", "PTX text at 0x1000"; empty: the whole file
  ImageContents contents;
};

// Returns the images in the fat binaries of an ELF file, and PTX that it holds as plain text; or
// the image that the file is. Empty: there is none.
std::vector<DeviceImage> find_device_images(std::string_view file);

}  // namespace gpusnap
