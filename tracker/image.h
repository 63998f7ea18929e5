// Device code images as programs hand them to the driver: PTX text, a cubin (ELF), or a fat binary
// that holds several of both. Read as hostile input; nothing here calls the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpusnap {

struct ImageEntry {
  enum class Kind { kPtx, kElf } kind = Kind::kPtx;
  uint32_t arch = 0;  // 75 for sm_75 / compute_75; 0 where the image does not say
  std::string bytes;  // decompressed
};

struct ImageContents {
  std::vector<ImageEntry> entries;
  // Entries that could not be read (an unknown compression, a bad checksum): one line each.
  std::vector<std::string> unreadable;
  std::string error;  // not empty: not an image at all, entries are empty
};

// Reads an image of known length.
ImageContents read_image(std::span<const std::byte> image);

// Reads an image of which only the address is known, as the driver's load calls get it: PTX text
// ends with NUL, the other forms carry their length. `image` may also be the wrapper structure
// (magic 0x466243B1) that nvcc emits. The memory must be readable as the driver would read it.
ImageContents read_image_at(const void* image);

// A module-scope variable in device memory: state of the program like any allocation.
struct GlobalVariable {
  std::string name;   // as the module's symbol table has it
  uint64_t size = 0;  // bytes
  bool constant = false;
  bool managed = false;
  // Not in each of an image's translations: a device may be given one without it.
  bool in_some_only = false;

  // A text that the compiler keeps, of an assertion for instance. Nothing writes it, and a driver
  // does not tell where machine code has it.
  bool is_compilers_text() const {
    return name.starts_with("$str") || name.starts_with("__unnamed_");
  }
};

struct ImageGlobals {
  std::vector<GlobalVariable> globals;
  bool known = false;        // false: no entry could be read; `reason` says why
  bool device_heap = false;  // kernels may keep memory of malloc(): no address leads to it
  std::string reason;
};

// Every __device__, __constant__ and __managed__ variable of the image, from its PTX or its ELF
// symbol table (public ELF format only; no machine code is looked at).
ImageGlobals globals_of(const ImageContents& contents);

}  // namespace gpusnap
