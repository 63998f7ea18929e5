// Products of small matrices that the lanes of a warp hold together, and the moves of such matrices
// between memory and registers. All 32 lanes take part.
//
// Where elements are is as the PTX ISA says for mma, ldmatrix, stmatrix and movmatrix. For wmma it
// says nothing: lane by lane, each lane's elements follow one another, and where there are more
// places than elements they come again.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/simcuda/machine/op.h"

namespace simcuda {

struct MatrixSite {
  enum class Element : uint8_t {
    kF16,
    kBF16,
    kTF32,
    kF32,
    kF64,
    kE4M3,
    kE5M2,
    kS8,
    kU8,
    kS4,
    kU4,
    kB1,
    kS32,
  };
  enum class Role : uint8_t { kA, kB, kC };  // kC: of sums, before and after
  struct Matrix {
    Element element = Element::kF32;
    Role role = Role::kA;
    uint32_t rows = 0, columns = 0;
    std::vector<int32_t> slots;
  };

  bool opaque = false;  // wmma
  bool saturate = false;
  bool bits_and = false;  // products of bits: and, not xor
  Matrix a, b, c, d;      // a load or store: d

  // For a load or store.
  bool row_major = true;
  int32_t base = kNoSlot;     // generic address
  int32_t stride = kNoSlot;   // elements between rows or columns
  int32_t scratch = kNoSlot;  // 64 bits, for addresses
};

uint32_t bits_of(MatrixSite::Element element);
// Registers that a lane holds of it.
uint32_t registers_of(const MatrixSite::Matrix& matrix);
uint32_t register_bits_of(MatrixSite::Element element);

// Op::immediate points to a MatrixSite.
Handler matrix_multiply_handler();
Handler matrix_load_handler();
Handler matrix_store_handler();
// slots: up to four registers; the address as for load. Op::vector: matrices; Op::target: 1 where
// they are transposed.
Handler rows_load_handler();
Handler rows_store_handler();
// slots: destination, source.
Handler transpose_handler();

}  // namespace simcuda
