// Machine code images as ELF files: their sizes, the variables in their symbol tables, and where
// their kernels' parameters lie. Only the ELF file around the code is read, never the code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tracker/image.h"

namespace gpusnap {

inline constexpr size_t kElfHeaderBytes = 64;
// The function that kernels call for memory from the device's heap.
inline constexpr std::string_view kDeviceMalloc = "malloc";

// Whether `bytes` begin as an ELF file.
bool is_elf(std::span<const std::byte> bytes);

// The size of the ELF file at `image`, from its own tables, which must be readable; 0 when they
// are not possible.
uint64_t elf_size_at(const std::byte* image);

// Adds the device variables of the file to `found`. Returns why it could not, empty for success.
std::string read_cubin_globals(std::span<const std::byte> file, ImageGlobals& found);

struct CubinKernel {
  std::string name;
  bool layout_known = false;
  std::vector<std::pair<uint32_t, uint32_t>> parameters;  // offset in the block and size, in bytes
};

// The variables that the code can reach by itself, as relocations tell: those of its own text and
// of the functions that this names, and those of tables that all code of the file shares. Neither
// constants nor compilers' texts.
struct CubinVariables {
  // False: no relocation names any variable, so this tells nothing.
  bool known = false;
  std::vector<std::string> shared;                            // of all kernels
  std::map<std::string, std::vector<std::string>> by_kernel;  // and of one of them, too
};

// Adds the variables that the file's kernels reach to `found`; nothing where it cannot be read.
void read_cubin_variables(std::span<const std::byte> file, CubinVariables& found);

// Adds the kernels of the file, in its order, with what sections ".nv.info.<kernel>" say of their
// parameters. Returns why it could not, empty for success.
//
//   an attribute  u8 form, u8 kind, u16: its value, or (form 4) the size of what follows
//   kind 0x17     a parameter: u32, u16 number, u16 offset, u32 with the size from bit 18 on
//   kind 0x19     the size of all parameters
std::string read_cubin_kernels(std::span<const std::byte> file, std::vector<CubinKernel>& found);

}  // namespace gpusnap
