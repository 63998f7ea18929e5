#include "interpose/mpi/library.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string_view>

#include "interpose/hook/resolve.h"

namespace gpusnap::mpi {

namespace {

template <class F>
bool take(F& function, const char* name) {
  function = reinterpret_cast<F>(mpi_symbol(name));
  return function != nullptr;
}

// The address of a variable: the program's own copy counts if it was linked to have one.
Handle address_of(const char* name) {
  void* const found = real_dlsym(RTLD_DEFAULT, name);
  return reinterpret_cast<Handle>(found != nullptr ? found : mpi_symbol(name));
}

bool take_functions(Library& library) {
  return take(library.comm_rank, "PMPI_Comm_rank") && take(library.comm_size, "PMPI_Comm_size") &&
         take(library.comm_test_inter, "PMPI_Comm_test_inter") &&
         take(library.comm_compare, "PMPI_Comm_compare") &&
         take(library.comm_dup, "PMPI_Comm_dup") && take(library.comm_free, "PMPI_Comm_free") &&
         take(library.allreduce, "PMPI_Allreduce") && take(library.iallreduce, "PMPI_Iallreduce") &&
         take(library.wait, "PMPI_Wait") && take(library.type_extent, "PMPI_Type_get_extent") &&
         take(library.type_true_extent, "PMPI_Type_get_true_extent") &&
         take(library.type_size, "PMPI_Type_size") && take(library.topo_test, "PMPI_Topo_test") &&
         take(library.cartdim_get, "PMPI_Cartdim_get") &&
         take(library.graph_neighbors_count, "PMPI_Graph_neighbors_count") &&
         take(library.dist_graph_neighbors_count, "PMPI_Dist_graph_neighbors_count");
}

// The numbers are those of the libraries' public headers.
bool take_open_mpi(Library& library) {
  library.handle_bytes = sizeof(void*);
  library.status_ints = 6;  // source, tag, error, cancelled, count (8 bytes)
  library.source_at = 0;
  library.tag_at = 1;
  library.status_ignore = 0;
  library.any_source = -1;
  library.proc_null = -2;
  library.world = address_of("ompi_mpi_comm_world");
  library.int_type = address_of("ompi_mpi_int");
  library.max = address_of("ompi_mpi_op_max");
  library.in_place = 1;
  library.cart = 1;
  library.graph = 2;
  library.dist_graph = 3;
  return take(library.comm_f2c, "PMPI_Comm_f2c") && take(library.type_f2c, "PMPI_Type_f2c") &&
         library.world != 0 && library.int_type != 0 && library.max != 0;
}

bool take_mpich(Library& library) {
  library.handle_bytes = sizeof(int);
  library.status_ints = 5;  // count (8 bytes), source, tag, error
  library.source_at = 2;
  library.tag_at = 3;
  library.status_ignore = 1;
  library.any_source = -2;
  library.proc_null = -1;
  library.world = 0x44000000;
  library.int_type = 0x4c000405;
  library.max = 0x58000001;
  library.in_place = UINTPTR_MAX;
  library.graph = 1;
  library.cart = 2;
  library.dist_graph = 3;
  return true;
}

// A library with MPICH's binary interface says so in its version: "MPICH Version: 4.0.2", "Intel(R)
// MPI Library 2021", "MVAPICH2 Version", "CRAY MPICH version".
bool is_like_mpich() {
  int (*version)(char*, int*) = nullptr;
  if (!take(version, "PMPI_Get_library_version")) return false;
  char text[8192] = "";  // MPI_MAX_LIBRARY_VERSION_STRING of all of them
  int length = 0;
  if (version(text, &length) != kSuccess) return false;
  const std::string_view said(text);
  for (const char* name : {"MPICH", "Intel(R) MPI", "MVAPICH"}) {
    if (said.find(name) != std::string_view::npos) return true;
  }
  return false;
}

bool fill(Library& library) {
  const bool known = mpi_symbol("ompi_mpi_comm_world") != nullptr ? take_open_mpi(library)
                     : is_like_mpich()                            ? take_mpich(library)
                                                                  : false;
  return known && take_functions(library);
}

}  // namespace

const Library* library() {
  static constinit std::mutex mutex;
  static constinit Library the_library;
  static constinit std::atomic<const Library*> found{nullptr};
  const Library* known = found.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  const std::lock_guard lock(mutex);
  Library library;
  if (!fill(library)) return nullptr;  // it may be opened later
  the_library = library;
  found.store(&the_library, std::memory_order_release);
  return &the_library;
}

}  // namespace gpusnap::mpi
