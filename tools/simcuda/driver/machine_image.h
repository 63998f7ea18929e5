// SPDX-License-Identifier: Apache-2.0
//
// Images that pass for machine code and run their PTX: ELF files with the public structure of a
// cubin, as tracker/cubin.h reads it. Sections, symbols, relocations and the layout of parameters
// are there; the PTX is in a section that only this driver understands.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace simcuda {

// The image for devices of `arch` (90 for 9.0). None: the PTX is not understood, `why` says so.
std::optional<std::string> machine_image(const std::string& ptx, uint32_t arch, std::string* why);
// The PTX that the image runs; none where machine_image() has not made it.
std::optional<std::string> ptx_of_machine_image(std::string_view image);

// A fat binary with this image in it, and nothing else.
std::string fat_binary_of(std::string_view image, uint32_t arch);

}  // namespace simcuda
