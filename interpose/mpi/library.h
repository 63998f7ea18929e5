// The MPI library of this process, as far as it is known without its headers: what its handles and
// statuses look like, its constants, and its functions by their profiling names. Open MPI and MPICH
// with all that has its binary interface (Intel MPI, MVAPICH, Cray MPICH).
//
// Handles are passed on in whole registers, whatever they are: pointers in Open MPI, 32-bit numbers
// in MPICH, where the upper half of a register means nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpusnap::mpi {

using Handle = uintptr_t;

inline constexpr int kSuccess = 0;
inline constexpr int kOtherError = 15;  // MPI_ERR_OTHER in MPICH; no success in any library
inline constexpr int kUndefined = -32766;
inline constexpr int kAnyTag = -1;
inline constexpr int kUnequal = 3;  // of MPI_Comm_compare: not the same members
// The size of a status, in ints, is no more than this in any of the libraries.
inline constexpr size_t kMostStatusInts = 8;

struct Library {
  size_t handle_bytes = 0;  // in arrays of handles
  size_t status_ints = 0;
  size_t source_at = 0, tag_at = 0;  // which ints of a status
  uintptr_t status_ignore = 0;
  int any_source = 0, proc_null = 0;
  Handle world = 0, int_type = 0, max = 0;
  uintptr_t in_place = 0;
  int graph = 0, cart = 0, dist_graph = 0;  // of MPI_Topo_test

  int (*comm_rank)(Handle, int*) = nullptr;
  int (*comm_size)(Handle, int*) = nullptr;
  int (*comm_test_inter)(Handle, int*) = nullptr;
  int (*comm_compare)(Handle, Handle, int*) = nullptr;
  int (*comm_dup)(Handle, Handle*) = nullptr;
  int (*comm_free)(Handle*) = nullptr;
  int (*allreduce)(const void*, void*, int, Handle, Handle, Handle) = nullptr;
  int (*iallreduce)(const void*, void*, int, Handle, Handle, Handle, Handle*) = nullptr;
  int (*wait)(Handle*, void*) = nullptr;
  int (*type_extent)(Handle, intptr_t*, intptr_t*) = nullptr;
  int (*type_true_extent)(Handle, intptr_t*, intptr_t*) = nullptr;
  int (*type_size)(Handle, int*) = nullptr;
  int (*topo_test)(Handle, int*) = nullptr;
  int (*cartdim_get)(Handle, int*) = nullptr;
  int (*graph_neighbors_count)(Handle, int, int*) = nullptr;
  int (*dist_graph_neighbors_count)(Handle, int*, int*, int*) = nullptr;
  // Null: the handles of Fortran are those of C.
  Handle (*comm_f2c)(int) = nullptr;
  Handle (*type_f2c)(int) = nullptr;

  Handle communicator_of(int fortran) const {
    return comm_f2c == nullptr ? static_cast<uint32_t>(fortran) : comm_f2c(fortran);
  }
  Handle type_of(int fortran) const {
    return type_f2c == nullptr ? static_cast<uint32_t>(fortran) : type_f2c(fortran);
  }

  bool same(Handle a, Handle b) const {
    return handle_bytes == sizeof(Handle) ? a == b
                                          : static_cast<uint32_t>(a) == static_cast<uint32_t>(b);
  }
};

// Null: there is none in this process, or none that we know. Any thread.
const Library* library();

}  // namespace gpusnap::mpi
