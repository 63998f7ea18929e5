// SPDX-License-Identifier: Apache-2.0
//
// SIMCUDA_SASS: the PTX that lies in the program, and in its libraries, becomes machine code, as if
// nvcc had been told to make nothing else. Anyone who looks at an image from then on sees that.
#pragma once

#include <cstdint>

namespace simcuda {

// Right after the start of the driver, once. Each text, and each container of nvcc's with PTX in
// it, is replaced in memory where it lies: a text by nvcc's wrapper structure, which leads to
// the image. Files stay as they are, and so does what the program makes later.
void turn_program_into_machine_code(uint32_t arch);

}  // namespace simcuda
