// A value in the write-set analysis: the places from which the address in it may come.
//
// A value is a set of *sources*, the places whose addresses it may hold by addition alone (p, p +
// i, p + (q - p), one of both after a branch), and of *numbers*, the words of the parameter block
// that went into it in any other way (scaled, masked, shifted). Both only ever grow while the
// analysis runs, so it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gpusnap::ptx {

constexpr uint32_t kPointerBytes = 8;

struct Source {
  enum class Kind : uint8_t {
    kWord,      // the address that 8 bytes of the parameter block hold
    kWords,     // the address that one of the words of a kernel parameter holds
    kVariable,  // a module variable in device memory
    kObject,    // a variable of a function, or what is passed to one: memory of a thread's own
    kScratch,   // shared memory and the stack: no snapshot has it
    kParams,    // the parameter block itself, which no kernel writes
  } kind = Kind::kScratch;
  uint32_t index =
      0;  // kWord: byte offset; kWords, kParams: the parameter; kVariable, kObject: which
  // kObject and kParams: where in it; empty: anywhere.
  std::optional<int64_t> offset;

  bool same_place(const Source& other) const { return kind == other.kind && index == other.index; }
  bool operator==(const Source&) const = default;
};

// Why a value may hold an address that no source accounts for.
enum class Doubt : uint8_t {
  kNone,
  kLoaded,     // loaded from memory
  kAtomic,     // what an atomic operation gave back
  kAssembled,  // put together from parts
  kCall,       // what a function without code here gave back
  kOperation,  // an instruction that is not followed
  kTooMany,    // more sources than are kept
};

struct Value {
  static constexpr size_t kMostSources = 64;

  bool assigned = false;  // false: nothing has flowed here yet
  Doubt doubt = Doubt::kNone;
  uint32_t doubt_line = 0;
  // A word of which nobody knows where it is from was scaled or masked and is part of this: it may
  // be what makes this an address, whatever the sources are.
  bool hidden = false;
  std::vector<Source> sources;
  std::vector<uint32_t> numbers;  // byte offsets of words of the parameter block
  // The value of a constant; empty: not always the same.
  std::optional<uint64_t> constant;
  // Exactly these bytes of the parameter block, and nothing else.
  struct Bytes {
    uint32_t offset = 0, size = 0;
    bool operator==(const Bytes&) const = default;
  };
  std::optional<Bytes> exact;

  static Value number();
  static Value of_constant(uint64_t value);
  static Value of(const Source& source);
  static Value doubted(Doubt doubt, uint32_t line);

  // Both return whether anything was new.
  bool add_source(const Source& source);
  bool add_number(uint32_t word);
  bool add_doubt(Doubt why, uint32_t line);
  bool add_numbers_of(const Value& other);  // and what is hidden in it
  // Either this or the other. Returns whether this changed.
  bool join(const Value& other);
  // The sources and doubts of both, without what is known of each exactly: a sum.
  void absorb(const Value& other);
  // Adds to where in their objects the sources point.
  void shift(std::optional<int64_t> by);
  // Returns what remains of the value when it does not flow on as an address: numbers. `size`:
  // bytes of the value, which hides no address if it is smaller than one.
  Value as_number(uint32_t size) const;
};

}  // namespace gpusnap::ptx
