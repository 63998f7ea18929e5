// The same functions as calls_c.cpp for Fortran, as `use mpi` (mpif.h) and `use mpi_f08` call them:
// everything by reference, handles as integers, indices from 1, the error in a last argument. What
// they call of C's is not the program's doing any more: Open MPI's call C's by their profiling
// names, MPICH's some by these and some by their own.

#include <dlfcn.h>

#include <algorithm>
#include <iterator>

#include "interpose/mpi/calls.h"
#include "interpose/resolve.h"

namespace gpusnap::mpi {
namespace {

Process& process() {
  return Process::get();
}

Handle communicator_of(const int* comm) {
  const Library* const l = library();
  return l == nullptr || l->comm_f2c == nullptr ? static_cast<Handle>(static_cast<uint32_t>(*comm))
                                                : l->comm_f2c(*comm);
}

Requests requests_of(int* requests, const int* count) {
  return {requests, *count < 0 ? 0 : static_cast<size_t>(*count), sizeof(int)};
}
Requests request_of(int* request) {
  return {request, 1, sizeof(int)};
}

// A status as process.h has it: what stands for none is another address in Fortran, that of one of
// the library's variables.
class Status {
 public:
  explicit Status(int* given) : given_(given) {
    const Library* const l = library();
    if (l == nullptr || !stands_for_none(given)) return;
    none_ = reinterpret_cast<int*>(l->status_ignore);
    ignored_ = true;
  }
  int* get() const { return ignored_ ? none_ : given_; }
  // What a function of Fortran's is given for it.
  int* back(int* status) const { return ignored_ && status == none_ ? given_ : status; }

 private:
  // Open MPI's, MPICH's of `use mpi`, MPICH's of `use mpi_f08`; of one status and of several.
  static constexpr const char* kNone[] = {
      "mpi_fortran_status_ignore_",     "mpi_fortran_statuses_ignore_",    "mpifcmb5_", "mpifcmb9_",
      "MPIR_F08_MPI_STATUS_IGNORE_OBJ", "MPIR_F08_MPI_STATUSES_IGNORE_OBJ"};

  static bool stands_for_none(const int* given) {
    static constinit std::atomic<const int*> found[std::size(kNone)]{};
    static constinit std::atomic<bool> looked{false};
    if (!looked.load(std::memory_order_acquire)) {
      for (size_t i = 0; i < std::size(kNone); ++i) {
        found[i] = static_cast<const int*>(real_dlsym(RTLD_DEFAULT, kNone[i]));
      }
      looked.store(true, std::memory_order_release);
    }
    return std::ranges::any_of(found, [given](const auto& none) {
      return given != nullptr && none.load(std::memory_order_relaxed) == given;
    });
  }

  int* given_;
  int* none_ = nullptr;
  bool ignored_ = false;
};

// `use mpi`, `use mpi_f08`, and that with buffers as descriptors, which are passed on as they are.
enum class From : uint8_t { kMpi, kF08, kF08ts };

// Of a buffer: descriptors begin with it.
template <From from>
const void* address_of(const void* buffer) {
  if (from != From::kF08ts || buffer == nullptr) return buffer;
  return *static_cast<void* const*>(buffer);
}

// One subroutine under its names.
template <class... A>
struct Named {
  Subroutine<A...> mpi, f08, f08ts;
  Subroutine<A...>& of(From from) {
    return from == From::kMpi ? mpi : from == From::kF08 ? f08 : f08ts;
  }
};
// clang-format off
#define NAMES(name) {{"mpi_" #name "_"}, {"mpi_" #name "_f08_"}, {"mpi_" #name "_f08ts_"}}
// clang-format on

constinit Named<int*, int*> wait_one = NAMES(wait);

auto waiting(From from, const Requests& requests, const Status& status) {
  return [from, requests, status](size_t index, int* st) {
    int error = kSuccess;
    auto* const request = static_cast<int*>(requests.place(index));
    wait_one.of(from).behind()(request, status.back(st), &error);
    return error;
  };
}

template <From from>
void init(int* error) {
  static constinit Named<> f = NAMES(init);
  f.of(from)(
      [](auto make) {
        const int result = make();
        if (result == kSuccess) process().initialised_now();
        return result;
      },
      error);
}

template <From from>
void init_thread(int* required, int* provided, int* error) {
  static constinit Named<int*, int*> f = NAMES(init_thread);
  f.of(from)(
      [&](auto make) {
        const int result = make(required, provided);
        if (result == kSuccess) process().initialised_now();
        return result;
      },
      error, required, provided);
}

template <From from>
void finalize(int* error) {
  static constinit Named<> f = NAMES(finalize);
  f.of(from)(
      [](auto make) {
        process().finalising();
        return make();
      },
      error);
}

template <From from>
void barrier(int* comm, int* error) {
  static constinit Named<int*> f = NAMES(barrier);
  f.of(from)(
      [&](auto make) {
        return process().barrier("MPI_Barrier", communicator_of(comm), [&] { return make(comm); });
      },
      error, comm);
}

template <From from>
void allreduce(void* send, void* receive, int* count, int* type, int* op, int* comm, int* error) {
  static constinit Named<void*, void*, int*, int*, int*, int*> f = NAMES(allreduce);
  f.of(from)(
      [&](auto make) {
        process().refuse_device("MPI_Allreduce", address_of<from>(send));
        process().refuse_device("MPI_Allreduce", address_of<from>(receive));
        return process().collective("MPI_Allreduce", communicator_of(comm), *count > 0,
                                    make(send, receive, count, type, op, comm));
      },
      error, send, receive, count, type, op, comm);
}

template <From from>
void allgather(void* send, int* send_count, int* send_type, void* receive, int* receive_count,
               int* receive_type, int* comm, int* error) {
  static constinit Named<void*, int*, int*, void*, int*, int*, int*> f = NAMES(allgather);
  f.of(from)(
      [&](auto make) {
        process().refuse_device("MPI_Allgather", address_of<from>(send));
        process().refuse_device("MPI_Allgather", address_of<from>(receive));
        return process().collective(
            "MPI_Allgather", communicator_of(comm), *receive_count > 0,
            make(send, send_count, send_type, receive, receive_count, receive_type, comm));
      },
      error, send, send_count, send_type, receive, receive_count, receive_type, comm);
}

template <From from>
void alltoall(void* send, int* send_count, int* send_type, void* receive, int* receive_count,
              int* receive_type, int* comm, int* error) {
  static constinit Named<void*, int*, int*, void*, int*, int*, int*> f = NAMES(alltoall);
  f.of(from)(
      [&](auto make) {
        process().refuse_device("MPI_Alltoall", address_of<from>(send));
        process().refuse_device("MPI_Alltoall", address_of<from>(receive));
        return process().collective(
            "MPI_Alltoall", communicator_of(comm), *receive_count > 0,
            make(send, send_count, send_type, receive, receive_count, receive_type, comm));
      },
      error, send, send_count, send_type, receive, receive_count, receive_type, comm);
}

template <From from>
void recv(void* buffer, int* count, int* type, int* source, int* tag, int* comm, int* status,
          int* error) {
  static constinit Named<void*, int*, int*, int*, int*, int*, int*> f = NAMES(recv);
  f.of(from)(
      [&](auto make) {
        process().refuse_device("MPI_Recv", address_of<from>(buffer));
        const Status own(status);
        return process().receive("MPI_Recv", *source, *tag, own.get(), [&](int s, int t, int* st) {
          return make(buffer, count, type, &s, &t, comm, own.back(st));
        });
      },
      error, buffer, count, type, source, tag, comm, status);
}

template <From from>
void sendrecv(void* send, int* send_count, int* send_type, int* to, int* send_tag, void* buffer,
              int* count, int* type, int* source, int* tag, int* comm, int* status, int* error) {
  static constinit Named<void*, int*, int*, int*, int*, void*, int*, int*, int*, int*, int*, int*>
      f = NAMES(sendrecv);
  f.of(from)(
      [&](auto make) {
        process().refuse_device("MPI_Sendrecv", address_of<from>(send));
        process().refuse_device("MPI_Sendrecv", address_of<from>(buffer));
        const Status own(status);
        return process().receive("MPI_Sendrecv", *source, *tag, own.get(),
                                 [&](int s, int t, int* st) {
                                   return make(send, send_count, send_type, to, send_tag, buffer,
                                               count, type, &s, &t, comm, own.back(st));
                                 });
      },
      error, send, send_count, send_type, to, send_tag, buffer, count, type, source, tag, comm,
      status);
}

template <From from>
void sendrecv_replace(void* buffer, int* count, int* type, int* to, int* send_tag, int* source,
                      int* tag, int* comm, int* status, int* error) {
  static constinit Named<void*, int*, int*, int*, int*, int*, int*, int*, int*> f =
      NAMES(sendrecv_replace);
  f.of(from)(
      [&](auto make) {
        process().refuse_device("MPI_Sendrecv_replace", address_of<from>(buffer));
        const Status own(status);
        return process().receive(
            "MPI_Sendrecv_replace", *source, *tag, own.get(), [&](int s, int t, int* st) {
              return make(buffer, count, type, to, send_tag, &s, &t, comm, own.back(st));
            });
      },
      error, buffer, count, type, to, send_tag, source, tag, comm, status);
}

template <From from>
void irecv(void* buffer, int* count, int* type, int* source, int* tag, int* comm, int* request,
           int* error) {
  static constinit Named<void*, int*, int*, int*, int*, int*, int*> f = NAMES(irecv);
  f.of(from)(
      [&](auto make) {
        process().refuse_device("MPI_Irecv", address_of<from>(buffer));
        return process().post_receive(*source, *tag, request_of(request), [&](int s, int t) {
          return make(buffer, count, type, &s, &t, comm, request);
        });
      },
      error, buffer, count, type, source, tag, comm, request);
}

template <From from>
void recv_init(void* buffer, int* count, int* type, int* source, int* tag, int* comm, int* request,
               int* error) {
  static constinit Named<void*, int*, int*, int*, int*, int*, int*> f = NAMES(recv_init);
  f.of(from)(
      [&](auto make) {
        process().refuse_device("MPI_Recv_init", address_of<from>(buffer));
        process().refuse_open(*source, *tag, "MPI_Recv_init from any source");
        return make(buffer, count, type, source, tag, comm, request);
      },
      error, buffer, count, type, source, tag, comm, request);
}

template <From from>
void probe(int* source, int* tag, int* comm, int* status, int* error) {
  static constinit Named<int*, int*, int*, int*> f = NAMES(probe);
  f.of(from)(
      [&](auto make) {
        const Status own(status);
        return process().receive("MPI_Probe", *source, *tag, own.get(), [&](int s, int t, int* st) {
          return make(&s, &t, comm, own.back(st));
        });
      },
      error, source, tag, comm, status);
}

template <From from>
void iprobe(int* source, int* tag, int* comm, int* flag, int* status, int* error) {
  static constinit Named<int*, int*, int*, int*, int*> f = NAMES(iprobe);
  static constinit Named<int*, int*, int*, int*> waiting_one = NAMES(probe);
  f.of(from)(
      [&](auto make) {
        const Status own(status);
        return process().poll_message(
            "MPI_Iprobe", flag, own.get(),
            [&](int* st) { return make(source, tag, comm, flag, own.back(st)); },
            [&](int s, int t, int* st) {
              int came = kSuccess;
              waiting_one.of(from).behind()(&s, &t, comm, own.back(st), &came);
              return came;
            });
      },
      error, source, tag, comm, flag, status);
}

template <From from>
void wait(int* request, int* status, int* error) {
  wait_one.of(from)(
      [&](auto make) {
        const Status own(status);
        return process().wait_all(request_of(request), own.get(),
                                  [&](int* st) { return make(request, own.back(st)); });
      },
      error, request, status);
}

template <From from>
void waitall(int* count, int* requests, int* statuses, int* error) {
  static constinit Named<int*, int*, int*> f = NAMES(waitall);
  f.of(from)(
      [&](auto make) {
        const Status own(statuses);
        return process().wait_all(requests_of(requests, count), own.get(),
                                  [&](int* st) { return make(count, requests, own.back(st)); });
      },
      error, count, requests, statuses);
}

template <From from>
void waitany(int* count, int* requests, int* index, int* status, int* error) {
  static constinit Named<int*, int*, int*, int*> f = NAMES(waitany);
  f.of(from)(
      [&](auto make) {
        const Status own(status);
        const Requests all = requests_of(requests, count);
        return process().wait_any(
            "MPI_Waitany", all, index, 1, own.get(),
            [&](int* st) { return make(count, requests, index, own.back(st)); },
            waiting(from, all, own));
      },
      error, count, requests, index, status);
}

// MPI_Waitsome or MPI_Testsome.
template <From from>
void some(Named<int*, int*, int*, int*, int*>& f, const char* name, int* count, int* requests,
          int* outcount, int* indices, int* statuses, int* error) {
  f.of(from)(
      [&](auto make) {
        const Status own(statuses);
        const Requests all = requests_of(requests, count);
        return process().complete_some(
            name, all, outcount, indices, 1, own.get(),
            [&](int* st) { return make(count, requests, outcount, indices, own.back(st)); },
            waiting(from, all, own));
      },
      error, count, requests, outcount, indices, statuses);
}

template <From from>
void waitsome(int* count, int* requests, int* outcount, int* indices, int* statuses, int* error) {
  static constinit Named<int*, int*, int*, int*, int*> f = NAMES(waitsome);
  some<from>(f, "MPI_Waitsome", count, requests, outcount, indices, statuses, error);
}

template <From from>
void testsome(int* count, int* requests, int* outcount, int* indices, int* statuses, int* error) {
  static constinit Named<int*, int*, int*, int*, int*> f = NAMES(testsome);
  some<from>(f, "MPI_Testsome", count, requests, outcount, indices, statuses, error);
}

template <From from>
void test(int* request, int* flag, int* status, int* error) {
  static constinit Named<int*, int*, int*> f = NAMES(test);
  f.of(from)(
      [&](auto make) {
        const Status own(status);
        const Requests one = request_of(request);
        return process().test_all(
            "MPI_Test", one, flag, own.get(),
            [&](int* st) { return make(request, flag, own.back(st)); },
            [&](int* st) { return waiting(from, one, own)(0, st); });
      },
      error, request, flag, status);
}

template <From from>
void testall(int* count, int* requests, int* flag, int* statuses, int* error) {
  static constinit Named<int*, int*, int*, int*> f = NAMES(testall);
  static constinit Named<int*, int*, int*> waiting_all = NAMES(waitall);
  f.of(from)(
      [&](auto make) {
        const Status own(statuses);
        return process().test_all(
            "MPI_Testall", requests_of(requests, count), flag, own.get(),
            [&](int* st) { return make(count, requests, flag, own.back(st)); },
            [&](int* st) {
              int came = kSuccess;
              waiting_all.of(from).behind()(count, requests, own.back(st), &came);
              return came;
            });
      },
      error, count, requests, flag, statuses);
}

template <From from>
void testany(int* count, int* requests, int* index, int* flag, int* status, int* error) {
  static constinit Named<int*, int*, int*, int*, int*> f = NAMES(testany);
  f.of(from)(
      [&](auto make) {
        const Status own(status);
        const Requests all = requests_of(requests, count);
        return process().test_any(
            "MPI_Testany", all, index, 1, flag, own.get(),
            [&](int* st) { return make(count, requests, index, flag, own.back(st)); },
            waiting(from, all, own));
      },
      error, count, requests, index, flag, status);
}

template <From from>
void request_get_status(int* request, int* flag, int* status, int* error) {
  static constinit Named<int*, int*, int*> f = NAMES(request_get_status);
  f.of(from)(
      [&](auto make) {
        return process().look_at("MPI_Request_get_status", flag,
                                 [&] { return make(request, flag, status); });
      },
      error, request, flag, status);
}

template <From from>
void request_free(int* request, int* error) {
  static constinit Named<int*> f = NAMES(request_free);
  f.of(from)(
      [&](auto make) {
        process().give_up(request_of(request).at(0),
                          "MPI_Request_free of a receive from any source");
        return make(request);
      },
      error, request);
}

template <From from>
void cancel(int* request, int* error) {
  static constinit Named<int*> f = NAMES(cancel);
  f.of(from)(
      [&](auto make) {
        const int result = make(request);
        if (result == kSuccess) process().refuse("MPI_Cancel");
        return result;
      },
      error, request);
}

double time_now(const char* name, std::atomic<double (*)()>& real) {
  auto now = real.load(std::memory_order_acquire);
  if (now == nullptr) {
    now = reinterpret_cast<double (*)()>(mpi_symbol(name));
    real.store(now, std::memory_order_release);
  }
  if (now == nullptr) return 0;
  if (Guard::held()) return now();
  const Guard guard;
  return process().time(now);
}

}  // namespace
}  // namespace gpusnap::mpi

#pragma GCC visibility push(default)

// The exported names of one subroutine; of one with buffers.
#define EXPORTED(name, parameters, arguments)               \
  extern "C" void mpi_##name##_ parameters {                \
    gpusnap::mpi::name<gpusnap::mpi::From::kMpi> arguments; \
  }                                                         \
  extern "C" void mpi_##name##_f08_ parameters {            \
    gpusnap::mpi::name<gpusnap::mpi::From::kF08> arguments; \
  }
#define EXPORTED_WITH_BUFFERS(name, parameters, arguments)    \
  EXPORTED(name, parameters, arguments)                       \
  extern "C" void mpi_##name##_f08ts_ parameters {            \
    gpusnap::mpi::name<gpusnap::mpi::From::kF08ts> arguments; \
  }

EXPORTED(init, (int* e), (e))
EXPORTED(init_thread, (int* a, int* b, int* e), (a, b, e))
EXPORTED(finalize, (int* e), (e))
EXPORTED(barrier, (int* a, int* e), (a, e))
EXPORTED_WITH_BUFFERS(allreduce, (void* a, void* b, int* c, int* d, int* f, int* g, int* e),
                      (a, b, c, d, f, g, e))
EXPORTED_WITH_BUFFERS(allgather, (void* a, int* b, int* c, void* d, int* f, int* g, int* h, int* e),
                      (a, b, c, d, f, g, h, e))
EXPORTED_WITH_BUFFERS(alltoall, (void* a, int* b, int* c, void* d, int* f, int* g, int* h, int* e),
                      (a, b, c, d, f, g, h, e))
EXPORTED_WITH_BUFFERS(recv, (void* a, int* b, int* c, int* d, int* f, int* g, int* h, int* e),
                      (a, b, c, d, f, g, h, e))
EXPORTED_WITH_BUFFERS(sendrecv,
                      (void* a, int* b, int* c, int* d, int* f, void* g, int* h, int* i, int* j,
                       int* k, int* l, int* m, int* e),
                      (a, b, c, d, f, g, h, i, j, k, l, m, e))
EXPORTED_WITH_BUFFERS(sendrecv_replace,
                      (void* a, int* b, int* c, int* d, int* f, int* g, int* h, int* i, int* j,
                       int* e),
                      (a, b, c, d, f, g, h, i, j, e))
EXPORTED_WITH_BUFFERS(irecv, (void* a, int* b, int* c, int* d, int* f, int* g, int* h, int* e),
                      (a, b, c, d, f, g, h, e))
EXPORTED_WITH_BUFFERS(recv_init, (void* a, int* b, int* c, int* d, int* f, int* g, int* h, int* e),
                      (a, b, c, d, f, g, h, e))
EXPORTED(probe, (int* a, int* b, int* c, int* d, int* e), (a, b, c, d, e))
EXPORTED(iprobe, (int* a, int* b, int* c, int* d, int* f, int* e), (a, b, c, d, f, e))
EXPORTED(wait, (int* a, int* b, int* e), (a, b, e))
EXPORTED(waitall, (int* a, int* b, int* c, int* e), (a, b, c, e))
EXPORTED(waitany, (int* a, int* b, int* c, int* d, int* e), (a, b, c, d, e))
EXPORTED(waitsome, (int* a, int* b, int* c, int* d, int* f, int* e), (a, b, c, d, f, e))
EXPORTED(test, (int* a, int* b, int* c, int* e), (a, b, c, e))
EXPORTED(testall, (int* a, int* b, int* c, int* d, int* e), (a, b, c, d, e))
EXPORTED(testany, (int* a, int* b, int* c, int* d, int* f, int* e), (a, b, c, d, f, e))
EXPORTED(testsome, (int* a, int* b, int* c, int* d, int* f, int* e), (a, b, c, d, f, e))
EXPORTED(request_get_status, (int* a, int* b, int* c, int* e), (a, b, c, e))
EXPORTED(request_free, (int* a, int* e), (a, e))
EXPORTED(cancel, (int* a, int* e), (a, e))

extern "C" double mpi_wtime_() {
  static constinit std::atomic<double (*)()> real{nullptr};
  return gpusnap::mpi::time_now("mpi_wtime_", real);
}
extern "C" double mpi_wtime_f08_() {
  static constinit std::atomic<double (*)()> real{nullptr};
  return gpusnap::mpi::time_now("mpi_wtime_f08_", real);
}

#pragma GCC visibility pop
