// Arguments that Fortran programs give to MPI and C ones do not: addresses of variables of the
// library that stand for something, and arrays with a descriptor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpusnap::mpi::fortran {

bool is_no_status(const void* address);  // MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE
bool is_in_place(const void* address);   // MPI_IN_PLACE
bool is_bottom(const void* address);     // MPI_BOTTOM

// An array as gfortran describes it to subroutines that take any type and rank. Other compilers do
// so, too, in ways of their own, which begin with the address as well.
struct Descriptor {
  static constexpr size_t kMostRanks = 15;
  struct Dimension {
    int64_t stride = 0, lower = 0, upper = 0;
  };

  void* start = nullptr;
  int64_t offset = 0;
  uint64_t item_bytes = 0;
  int32_t version = 0;
  int8_t rank = 0;
  int8_t type = 0;
  int16_t attribute = 0;
  int64_t span = 0;  // from item to item, where the stride is 1
  std::array<Dimension, kMostRanks> dimensions{};

  // One dimension after the other, without gaps. False also of what is no such descriptor.
  bool is_dense() const;
  // The same array somewhere else. There are no more dimensions than its rank says.
  static Descriptor moved(const Descriptor& from, void* start);
};

}  // namespace gpusnap::mpi::fortran
