#include "interpose/mpi/fortran.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "interpose/hook/resolve.h"
#include "interpose/mpi/library.h"

namespace gpusnap::mpi::fortran {

namespace {
// Variables whose address stands for something, or which have such an address.
template <size_t count>
struct Places {
  const char* names[count];
  bool indirect[count];
  std::atomic<const void*> found[count]{};
  std::atomic<bool> looked{false};

  bool have(const void* address) {
    if (!looked.load(std::memory_order_acquire)) {
      for (size_t i = 0; i < count; ++i) found[i] = real_dlsym(RTLD_DEFAULT, names[i]);
      looked.store(true, std::memory_order_release);
    }
    for (size_t i = 0; address != nullptr && i < count; ++i) {
      const void* place = found[i].load(std::memory_order_relaxed);
      // Filled in by the library's own first call.
      if (place != nullptr && indirect[i]) place = *static_cast<void* const*>(place);
      if (place == address) return true;
    }
    return false;
  }
};
}  // namespace

// Each of Open MPI, MPICH of `use mpi`, and MPICH of `use mpi_f08`.

bool is_no_status(const void* address) {
  static constinit Places<6> places{
      {"mpi_fortran_status_ignore_", "mpi_fortran_statuses_ignore_", "MPI_F_STATUS_IGNORE",
       "MPI_F_STATUSES_IGNORE", "MPIR_F08_MPI_STATUS_IGNORE_OBJ",
       "MPIR_F08_MPI_STATUSES_IGNORE_OBJ"},
      {false, false, true, true, false, false}};
  return places.have(address);
}

bool is_in_place(const void* address) {
  static constinit Places<3> places{
      {"mpi_fortran_in_place_", "MPIR_F_MPI_IN_PLACE", "MPIR_F08_MPI_IN_PLACE"},
      {false, true, false}};
  return places.have(address);
}

bool is_bottom(const void* address) {
  static constinit Places<3> places{
      {"mpi_fortran_bottom_", "MPIR_F_MPI_BOTTOM", "MPIR_F08_MPI_BOTTOM"}, {false, true, false}};
  return places.have(address);
}

bool Descriptor::is_dense() const {
  const auto ranks = static_cast<size_t>(rank);
  if (rank < 0 || ranks > kMostRanks || version != 0 || item_bytes == 0) return false;
  if (rank != 0 && span != static_cast<int64_t>(item_bytes)) return false;
  int64_t items = 1;
  for (size_t i = 0; i < ranks; ++i) {
    const Dimension& dimension = dimensions[i];
    const int64_t extent = dimension.upper - dimension.lower + 1;
    const bool is_last = i + 1 == ranks;
    if (extent == 0) return true;
    // If the size of an array is assumed, its last dimension has no end.
    if (dimension.stride != items && extent != 1) return false;
    if (extent < 0 && !is_last) return false;
    items *= extent;
  }
  return true;
}

Descriptor Descriptor::moved(const Descriptor& from, void* start) {
  Descriptor copy;
  const auto ranks = std::clamp<size_t>(static_cast<size_t>(from.rank), 0, kMostRanks);
  std::memcpy(static_cast<void*>(&copy), &from,
              offsetof(Descriptor, dimensions) + ranks * sizeof(Dimension));
  copy.start = start;
  return copy;
}

}  // namespace gpusnap::mpi::fortran
