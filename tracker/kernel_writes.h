// The device memory that each kernel of an image may write: told by its PTX if there is some, else
// guessed from the layout of its parameters.
//
// Proven: every store of the kernel, and of the functions that it calls, goes through one of the
// `pointers` or to one of the `globals` (docs/design/tracking.md says on what this stands). That
// holds only for code that the driver builds from this PTX: machine code beside it may be another
// program.
//
// Pure logic: no CUDA, no threads. Immutable once made; collect_writes() allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/image.h"
#include "tracker/memory_map.h"
#include "tracker/write_set.h"

namespace gpusnap {

struct KernelWrites {
  struct Parameter {
    uint32_t offset = 0;  // in the parameter block
    uint32_t size = 0;    // bytes
    auto operator<=>(const Parameter&) const = default;
  };
  // Eight bytes of a parameter that hold an address.
  struct Word {
    static constexpr uint32_t kAny = UINT32_MAX;
    uint32_t parameter = 0;
    uint32_t offset = 0;  // in it; kAny: any of its aligned words may be meant
    auto operator<=>(const Word&) const = default;
  };
  // The words from one of which the address of a store comes; usually one.
  struct Pointer {
    std::vector<Word> words;
    // A word that was loaded from memory went into the address as a number. It is taken for a
    // number if one of `words` holds an address.
    bool hidden = false;
    bool operator==(const Pointer&) const = default;
  };

  std::string name;
  bool layout_known = false;  // false: parameters are not
  std::vector<Parameter> parameters;
  std::vector<Pointer> pointers;     // stored through, each set once
  std::vector<std::string> globals;  // module variables that are stored to
  // Words that went into those addresses as numbers. One that holds an address after all was
  // scaled or masked, and the launch is not proven.
  std::vector<Word> numbers;
  bool resolved = false;   // every store of the code that was looked at is accounted for
  bool looked_at = false;  // there is PTX of it
  bool proven = false;     // and no other code can be what runs
  std::string reason;      // not proven: why, with instruction and line where it is one
};

// The kernels of one image, each looked at when it is first asked for.
class KernelCode {
 public:
  // `arch`: the device's compute capability, 90 for 9.0; 0 where it is not known. Code that such
  // a device cannot run is left aside.
  KernelCode(const ImageContents& image, uint32_t arch);
  ~KernelCode();
  KernelCode(KernelCode&&) noexcept;
  KernelCode& operator=(KernelCode&&) noexcept;

  // One line for each part of the image that cannot be read, and why.
  const std::vector<std::string>& unreadable() const;
  // In alphabetical order.
  std::vector<std::string> names() const;
  // Not proven, for a kernel that is not here.
  KernelWrites find(std::string_view kernel) const;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

// Adds what a launch with these arguments (of cuLaunchKernel: an array of pointers to them, or a
// buffer described in `extra`) may write to `writes`, but for the kernel's globals, whose addresses
// the caller knows.
enum class Certainty {
  kProven,   // it writes nothing else
  kLikely,   // a guess, of what the arguments point to: of its machine code nothing is known
  kUnknown,  // likewise, but its PTX stores where no argument points to, or nothing is known
};
Certainty collect_writes(const KernelWrites& kernel, void** params, void** extra,
                         const MemoryMap& memory, WriteSet& writes);

// A digest of those of a launch's arguments that are single numbers or pointers into device memory,
// never 0; 0 where the kernel's parameters are not known. Structures do not count: they may have
// bytes that nobody sets. Nor do addresses of the host and of variables, which may be others in
// another run. In one run more of the device's memory may be known than in another: its lowest
// kDigestMask bits say which words were taken for pointers, and only where these are equal digests
// can be compared. `host_begins`: arguments of eight bytes from there on may be addresses of the
// host, at most kNumbersEnd. Allocates nothing.
inline constexpr uint64_t kDigestMask = 0xffff;
inline constexpr uint64_t kNumbersEnd = uint64_t{1} << 32;  // numbers are below it, mostly
uint64_t digest_arguments(const KernelWrites& kernel, void** params, void** extra,
                          const MemoryMap& memory, uint64_t host_begins);

}  // namespace gpusnap
