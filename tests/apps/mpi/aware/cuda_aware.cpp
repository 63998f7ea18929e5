// Preloaded behind gpusnap's library, it makes an MPI take device memory that knows nothing of it.
// It stands where the MPI library's own CUDA support would: what is sent is copied to the host
// first, what is received is copied to the device when the call, or the request, is complete. For
// programs whose MPI calls come from one thread. Under their profiling names, too, by which
// Fortran's functions call C's.
//
// Handles that MPI gives to several requests are those of requests that are complete already; which
// of them is meant makes no difference then. Requests with device memory are not freed or
// cancelled.
#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace {

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "cuda_aware: %s: error %d\n", call, static_cast<int>(result));
  std::abort();
}

CUdeviceptr device_address(const void* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}

bool is_device(const void* address) {
  unsigned type = 0;
  return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device_address(address)) ==
             CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE;
}

// The MPI library's own function of that name.
template <class F>
F behind(const char* name) {
  auto* const found = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
  if (found != nullptr) return found;
  std::fprintf(stderr, "cuda_aware: there is no %s\n", name);
  std::abort();
}
#define BEHIND(call)                                             \
  ([] {                                                          \
    static const auto function = behind<decltype(&call)>(#call); \
    return function;                                             \
  }())

// From the first to the last byte that a call can touch.
struct Extent {
  MPI_Aint first = 0, end = 0;  // from the buffer's start

  Extent with(const Extent& other) const {
    if (first == end) return other;
    if (other.first == other.end) return *this;
    return {std::min(first, other.first), std::max(end, other.end)};
  }
};

Extent bytes(int64_t count) {
  return {0, count};
}

// `from`: where the first of them is, in bytes.
Extent items(int64_t count, MPI_Datatype type, MPI_Aint from = 0) {
  if (count <= 0) return {};
  MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  BEHIND(PMPI_Type_get_extent)(type, &lower, &extent);
  BEHIND(PMPI_Type_get_true_extent)(type, &true_lower, &true_extent);
  const Extent one{from + true_lower, from + true_lower + true_extent};
  const MPI_Aint others = (count - 1) * extent;
  return one.with({one.first + others, one.end + others});
}

template <class Count, class Offset>
Extent blocks(int64_t number, const Count* counts, const Offset* offsets, MPI_Datatype type) {
  Extent all;
  MPI_Aint lower = 0, extent = 0;
  if (number > 0) BEHIND(PMPI_Type_get_extent)(type, &lower, &extent);
  for (int64_t i = 0; i < number; ++i) {
    all = all.with(items(counts[i], type, static_cast<MPI_Aint>(offsets[i]) * extent));
  }
  return all;
}
template <class Count, class Offset>
Extent blocks(int64_t number, const Count* counts, const Offset* offsets,
              const MPI_Datatype* types) {
  Extent all;
  for (int64_t i = 0; i < number; ++i) {
    all = all.with(items(counts[i], types[i], static_cast<MPI_Aint>(offsets[i])));
  }
  return all;
}

// Host memory in the place of a buffer on the device; for any other buffer, the buffer itself.
class Stage {
 public:
  Stage(const void* buffer, const Extent& extent) : buffer_(const_cast<void*>(buffer)) {
    offset_ = extent.first;
    const auto size = static_cast<size_t>(extent.end - extent.first);
    if (size == 0 || !is_device(reinterpret_cast<const void*>(first()))) return;
    before_.resize(size);
    bytes_.resize(size);
    load();
  }

  void load() {
    if (!used()) return;
    check(cuMemcpyDtoH_v2(before_.data(), first(), before_.size()), "cuMemcpyDtoH");
    std::copy(before_.begin(), before_.end(), bytes_.begin());
  }
  // The buffer that MPI is given.
  void* start() { return bytes_.empty() ? buffer_ : bytes_.data() - offset_; }
  // Copies the bytes that MPI changed to the device. Bytes in gaps are left alone: the device may
  // have changed them meanwhile.
  void store() const {
    const size_t size = bytes_.size();
    for (size_t at = 0; at < size;) {
      const size_t begin = at;
      while (at < size && bytes_[at] != before_[at]) ++at;
      if (at > begin) {
        check(cuMemcpyHtoD_v2(first() + begin, bytes_.data() + begin, at - begin), "cuMemcpyHtoD");
      } else {
        ++at;
      }
    }
  }
  bool used() const { return !bytes_.empty(); }

 private:
  CUdeviceptr first() const { return device_address(buffer_) + static_cast<CUdeviceptr>(offset_); }

  void* buffer_;
  MPI_Aint offset_ = 0;  // of the first byte, from the buffer's start
  std::vector<unsigned char> before_, bytes_;
};

struct Pending {
  Stage stage;
  bool receives = false;
};

// Until their requests are complete.
std::multimap<MPI_Request, Pending>& pending() {
  static auto* const all = new std::multimap<MPI_Request, Pending>;
  return *all;
}

// Until they are freed.
struct Standing : Pending {
  bool is_active = false;
};
std::map<MPI_Request, Standing>& standing() {
  static auto* const all = new std::map<MPI_Request, Standing>;
  return *all;
}

void completed(MPI_Request request) {
  const auto [first, last] = pending().equal_range(request);
  const auto made = standing().find(request);
  if (made != standing().end() && std::exchange(made->second.is_active, false) &&
      made->second.receives) {
    made->second.stage.store();
  }
  for (auto each = first; each != last; ++each) {
    if (each->second.receives) each->second.stage.store();
  }
  pending().erase(first, last);
}

// The requests of a call that may complete them, and then forgets their handles.
class Requests {
 public:
  Requests(int count, const MPI_Request* requests) : handles_(requests, requests + count) {}
  void completed(int index) const {
    if (index != MPI_UNDEFINED) ::completed(handles_[static_cast<size_t>(index)]);
  }
  void all_completed() const {
    for (const MPI_Request handle : handles_) ::completed(handle);
  }
  void some_completed(int count, const int* indices) const {
    for (int i = 0; count != MPI_UNDEFINED && i < count; ++i) completed(indices[i]);
  }

 private:
  std::vector<MPI_Request> handles_;
};

// A call that fills a buffer and returns when it is filled; `make(start)`.
template <class Make>
int filled(Stage stage, Make make) {
  const int result = make(stage.start());
  if (result == MPI_SUCCESS) stage.store();
  return result;
}

void keep(MPI_Request request, Stage stage, bool receives) {
  if (stage.used()) pending().emplace(request, Pending{std::move(stage), receives});
}

// A call that begins to send or to receive.
template <class Make>
int begun(Stage stage, bool receives, MPI_Request* request, Make make) {
  const int result = make(stage.start());
  if (result == MPI_SUCCESS) keep(*request, std::move(stage), receives);
  return result;
}

// Does both, now or later; `make(from, into)`.
template <class Make>
int exchanged(Stage sent, Stage received, MPI_Request* request, Make make) {
  const int result = make(sent.start(), received.start());
  if (result != MPI_SUCCESS) return result;
  if (request == nullptr) {
    received.store();
  } else {
    keep(*request, std::move(received), true);
    keep(*request, std::move(sent), false);
  }
  return result;
}

// Makes a request that is started any number of times.
template <class Make>
int made(Stage stage, bool receives, MPI_Request* request, Make make) {
  const int result = make(stage.start());
  if (result == MPI_SUCCESS && stage.used()) {
    standing().insert_or_assign(*request, Standing{{std::move(stage), receives}});
  }
  return result;
}
void started(MPI_Request request) {
  const auto found = standing().find(request);
  if (found == standing().end()) return;
  found->second.stage.load();
  found->second.is_active = true;
}

// Nobody's buffer is nothing to us.
Extent of_peer(int peer, const Extent& extent) {
  return peer == MPI_PROC_NULL ? Extent{} : extent;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  BEHIND(PMPI_Comm_rank)(comm, &rank);
  return rank;
}

int64_t size_of(MPI_Comm comm) {
  int size = 0;
  BEHIND(PMPI_Comm_size)(comm, &size);
  return size;
}

// Neighbours on a grid, or in a graph that says of each rank whom it knows.
std::pair<int64_t, int64_t> neighbours(MPI_Comm comm) {
  int topology = MPI_UNDEFINED, dimensions = 0, in = 0, out = 0, weighted = 0;
  BEHIND(PMPI_Topo_test)(comm, &topology);
  if (topology == MPI_CART) {
    BEHIND(PMPI_Cartdim_get)(comm, &dimensions);
    return {2 * dimensions, 2 * dimensions};
  }
  BEHIND(PMPI_Dist_graph_neighbors_count)(comm, &in, &out, &weighted);
  return {in, out};
}
int64_t sources(MPI_Comm comm) {
  return neighbours(comm).first;
}
int64_t destinations(MPI_Comm comm) {
  return neighbours(comm).second;
}

template <class Count>
int64_t sum(const Count* counts, int64_t number) {
  int64_t all = 0;
  for (int64_t i = 0; i < number; ++i) all += counts[i];
  return all;
}

}  // namespace

// Both names of a function of ours.
#define ALSO_AS(call) \
  extern "C" __attribute__((alias("MPI_" #call))) decltype(MPI_##call) PMPI_##call;

extern "C" {

// ---- completion ----

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  const Requests requests(1, request);
  const int result = BEHIND(PMPI_Wait)(request, status);
  if (result == MPI_SUCCESS) requests.all_completed();
  return result;
}
ALSO_AS(Wait)

int MPI_Waitall(int count, MPI_Request* handles, MPI_Status* statuses) {
  const Requests requests(count, handles);
  const int result = BEHIND(PMPI_Waitall)(count, handles, statuses);
  if (result == MPI_SUCCESS) requests.all_completed();
  return result;
}
ALSO_AS(Waitall)

int MPI_Waitany(int count, MPI_Request* handles, int* index, MPI_Status* status) {
  const Requests requests(count, handles);
  const int result = BEHIND(PMPI_Waitany)(count, handles, index, status);
  if (result == MPI_SUCCESS) requests.completed(*index);
  return result;
}
ALSO_AS(Waitany)

int MPI_Waitsome(int count, MPI_Request* handles, int* done, int* indices, MPI_Status* statuses) {
  const Requests requests(count, handles);
  const int result = BEHIND(PMPI_Waitsome)(count, handles, done, indices, statuses);
  if (result == MPI_SUCCESS) requests.some_completed(*done, indices);
  return result;
}
ALSO_AS(Waitsome)

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  const Requests requests(1, request);
  const int result = BEHIND(PMPI_Test)(request, flag, status);
  if (result == MPI_SUCCESS && *flag != 0) requests.all_completed();
  return result;
}
ALSO_AS(Test)

int MPI_Testall(int count, MPI_Request* handles, int* flag, MPI_Status* statuses) {
  const Requests requests(count, handles);
  const int result = BEHIND(PMPI_Testall)(count, handles, flag, statuses);
  if (result == MPI_SUCCESS && *flag != 0) requests.all_completed();
  return result;
}
ALSO_AS(Testall)

int MPI_Testany(int count, MPI_Request* handles, int* index, int* flag, MPI_Status* status) {
  const Requests requests(count, handles);
  const int result = BEHIND(PMPI_Testany)(count, handles, index, flag, status);
  if (result == MPI_SUCCESS && *flag != 0) requests.completed(*index);
  return result;
}
ALSO_AS(Testany)

int MPI_Testsome(int count, MPI_Request* handles, int* done, int* indices, MPI_Status* statuses) {
  const Requests requests(count, handles);
  const int result = BEHIND(PMPI_Testsome)(count, handles, done, indices, statuses);
  if (result == MPI_SUCCESS) requests.some_completed(*done, indices);
  return result;
}
ALSO_AS(Testsome)

int MPI_Start(MPI_Request* request) {
  started(*request);
  return BEHIND(PMPI_Start)(request);
}
ALSO_AS(Start)

int MPI_Startall(int count, MPI_Request* requests) {
  for (int i = 0; i < count; ++i) started(requests[i]);
  return BEHIND(PMPI_Startall)(count, requests);
}
ALSO_AS(Startall)

int MPI_Request_free(MPI_Request* request) {
  standing().erase(*request);
  return BEHIND(PMPI_Request_free)(request);
}
ALSO_AS(Request_free)

// ---- what has counts ----

#define COUNT int
#define OFFSET int
#define MPI_(call) MPI_##call
#define REAL(call) BEHIND(PMPI_##call)
#define ALSO_AS_PMPI(call) ALSO_AS(call)
#include "tests/apps/mpi/aware/counted_calls.inc"

#if MPI_VERSION >= 4
#undef COUNT
#undef OFFSET
#undef MPI_
#undef REAL
#undef ALSO_AS_PMPI
#define COUNT MPI_Count
#define OFFSET MPI_Aint
#define MPI_(call) MPI_##call##_c
#define REAL(call) BEHIND(PMPI_##call##_c)
#define ALSO_AS_PMPI(call) ALSO_AS(call##_c)
#include "tests/apps/mpi/aware/counted_calls.inc"
#endif
}
