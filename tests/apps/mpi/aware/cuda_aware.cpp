// Preloaded behind gpusnap's library, it makes an MPI take device memory that knows nothing of it.
// It stands where the MPI library's own CUDA support would: what is sent is copied to the host
// first, what is received is copied to the device when the call, or the request, is complete. For
// programs whose MPI calls come from one thread.
//
// Handles that MPI gives to several requests are those of requests that are complete already; which
// of them is meant makes no difference then. Requests with device memory are not freed or
// cancelled.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "interpose/cuda_abi.h"

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

// Host memory in the place of a buffer on the device, from the first to the last byte that the call
// can touch; for any other buffer, the buffer itself.
class Stage {
 public:
  Stage(const void* buffer, int64_t count, MPI_Datatype type) : buffer_(const_cast<void*>(buffer)) {
    if (count <= 0 || !is_device(buffer)) return;
    MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
    PMPI_Type_get_extent(type, &lower, &extent);
    PMPI_Type_get_true_extent(type, &true_lower, &true_extent);
    const MPI_Aint others = (count - 1) * extent;
    offset_ = true_lower + std::min<MPI_Aint>(others, 0);
    before_.resize(static_cast<size_t>(true_extent + std::abs(others)));
    check(cuMemcpyDtoH_v2(before_.data(), first(), before_.size()), "cuMemcpyDtoH");
    bytes_ = before_;
  }

  // What MPI is given.
  void* start() { return bytes_.empty() ? buffer_ : bytes_.data() - offset_; }
  // What MPI changed, to the device: what lies in gaps may have been changed there meanwhile.
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

void completed(MPI_Request request) {
  const auto found = pending().find(request);
  if (found == pending().end()) return;
  if (found->second.receives) found->second.stage.store();
  pending().erase(found);
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
int filled(void* buffer, int64_t count, MPI_Datatype type, Make make) {
  Stage stage(buffer, count, type);
  const int result = make(stage.start());
  if (result == MPI_SUCCESS) stage.store();
  return result;
}

// A call that begins to send or to receive; nobody's buffer is nothing to us.
template <class Make>
int begun(const void* buffer, int count, MPI_Datatype type, int peer, bool receives,
          MPI_Request* request, Make make) {
  Stage stage(buffer, peer == MPI_PROC_NULL ? 0 : count, type);
  const int result = make(stage.start());
  if (result == MPI_SUCCESS && stage.used()) {
    pending().emplace(*request, Pending{std::move(stage), receives});
  }
  return result;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return rank;
}

int64_t size_of(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

}  // namespace

extern "C" {

// ---- messages ----

// clang-format off
#define SEND(Name) \
  int MPI_##Name(const void* buffer, int count, MPI_Datatype type, int to, int tag, \
                 MPI_Comm comm) { \
    return PMPI_##Name(Stage(buffer, count, type).start(), count, type, to, tag, comm); \
  }
#define ISEND(Name) \
  int MPI_##Name(const void* buffer, int count, MPI_Datatype type, int to, int tag, \
                 MPI_Comm comm, MPI_Request* request) { \
    return begun(buffer, count, type, to, false, request, [&](const void* start) { \
      return PMPI_##Name(start, count, type, to, tag, comm, request); \
    }); \
  }
// clang-format on
SEND(Send)
SEND(Ssend)
SEND(Bsend)
SEND(Rsend)
ISEND(Isend)
ISEND(Issend)
ISEND(Ibsend)
ISEND(Irsend)

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  return filled(buffer, count, type, [&](void* start) {
    return PMPI_Recv(start, count, type, source, tag, comm, status);
  });
}

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return begun(buffer, count, type, source, true, request, [&](void* start) {
    return PMPI_Irecv(start, count, type, source, tag, comm, request);
  });
}

int MPI_Sendrecv(const void* send, int send_count, MPI_Datatype send_type, int to, int send_tag,
                 void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                 MPI_Status* status) {
  Stage sent(send, send_count, send_type);
  return filled(buffer, count, type, [&](void* start) {
    return PMPI_Sendrecv(sent.start(), send_count, send_type, to, send_tag, start, count, type,
                         source, tag, comm, status);
  });
}

// ---- completion ----

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  const Requests requests(1, request);
  const int result = PMPI_Wait(request, status);
  if (result == MPI_SUCCESS) requests.all_completed();
  return result;
}

int MPI_Waitall(int count, MPI_Request* handles, MPI_Status* statuses) {
  const Requests requests(count, handles);
  const int result = PMPI_Waitall(count, handles, statuses);
  if (result == MPI_SUCCESS) requests.all_completed();
  return result;
}

int MPI_Waitany(int count, MPI_Request* handles, int* index, MPI_Status* status) {
  const Requests requests(count, handles);
  const int result = PMPI_Waitany(count, handles, index, status);
  if (result == MPI_SUCCESS) requests.completed(*index);
  return result;
}

int MPI_Waitsome(int count, MPI_Request* handles, int* done, int* indices, MPI_Status* statuses) {
  const Requests requests(count, handles);
  const int result = PMPI_Waitsome(count, handles, done, indices, statuses);
  if (result == MPI_SUCCESS) requests.some_completed(*done, indices);
  return result;
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  const Requests requests(1, request);
  const int result = PMPI_Test(request, flag, status);
  if (result == MPI_SUCCESS && *flag != 0) requests.all_completed();
  return result;
}

int MPI_Testall(int count, MPI_Request* handles, int* flag, MPI_Status* statuses) {
  const Requests requests(count, handles);
  const int result = PMPI_Testall(count, handles, flag, statuses);
  if (result == MPI_SUCCESS && *flag != 0) requests.all_completed();
  return result;
}

int MPI_Testany(int count, MPI_Request* handles, int* index, int* flag, MPI_Status* status) {
  const Requests requests(count, handles);
  const int result = PMPI_Testany(count, handles, index, flag, status);
  if (result == MPI_SUCCESS && *flag != 0) requests.completed(*index);
  return result;
}

int MPI_Testsome(int count, MPI_Request* handles, int* done, int* indices, MPI_Status* statuses) {
  const Requests requests(count, handles);
  const int result = PMPI_Testsome(count, handles, done, indices, statuses);
  if (result == MPI_SUCCESS) requests.some_completed(*done, indices);
  return result;
}

// ---- collectives ----

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  // At the root nothing is changed, so nothing is stored.
  return filled(buffer, count, type,
                [&](void* start) { return PMPI_Bcast(start, count, type, root, comm); });
}

int MPI_Reduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
  Stage sent(send, count, type);
  // Elsewhere the second buffer means nothing.
  return filled(receive, rank_in(comm) == root ? count : 0, type, [&](void* start) {
    return PMPI_Reduce(sent.start(), start, count, type, op, root, comm);
  });
}

// In place, what is given to send is no device memory, and what is filled has what is sent.
int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  Stage sent(send, count, type);
  return filled(receive, count, type, [&](void* start) {
    return PMPI_Allreduce(sent.start(), start, count, type, op, comm);
  });
}

int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                  int receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  Stage sent(send, send_count, send_type);
  return filled(receive, receive_count * size_of(comm), receive_type, [&](void* start) {
    return PMPI_Allgather(sent.start(), send_count, send_type, start, receive_count, receive_type,
                          comm);
  });
}

int MPI_Alltoall(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                 int receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  Stage sent(send, send_count * size_of(comm), send_type);
  return filled(receive, receive_count * size_of(comm), receive_type, [&](void* start) {
    return PMPI_Alltoall(sent.start(), send_count, send_type, start, receive_count, receive_type,
                         comm);
  });
}
}
