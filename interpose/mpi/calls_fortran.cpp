// The same functions as calls_c.cpp for Fortran, as `use mpi` (mpif.h) and `use mpi_f08` call them:
// everything by reference, handles as integers, indices from 1, the error in a last argument. Open
// MPI's call C's by their profiling names, so they are hooked themselves; MPICH's call C's by their
// own, and go straight through here (Subroutine).

#include "interpose/mpi/calls.h"
#include "interpose/resolve.h"

#include <dlfcn.h>

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

// A status as process.h has it: what stands for none is another address in Fortran, that of a
// variable of the library's.
class Status {
 public:
  explicit Status(int* given) : given_(given) {
    const Library* const l = library();
    const bool ignored = given == variable(&ignore_one, "mpi_fortran_status_ignore_") ||
                         given == variable(&ignore_all, "mpi_fortran_statuses_ignore_");
    if (!ignored || l == nullptr) return;
    none_ = reinterpret_cast<int*>(l->status_ignore);
    ignored_ = true;
  }
  int* get() const { return ignored_ ? none_ : given_; }
  // What a function of Fortran's is given for it.
  int* back(int* status) const { return ignored_ && status == none_ ? given_ : status; }

 private:
  static int* variable(std::atomic<int*>* cached, const char* name) {
    int* found = cached->load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = static_cast<int*>(real_dlsym(RTLD_DEFAULT, name));
      cached->store(found, std::memory_order_relaxed);
    }
    return found;
  }
  static constinit inline std::atomic<int*> ignore_one{nullptr}, ignore_all{nullptr};

  int* given_;
  int* none_ = nullptr;
  bool ignored_ = false;
};

// Subroutines of one interface: `use mpi` or `use mpi_f08`.
template <class... A>
struct Both {
  Subroutine<A...> plain, f08;
  Subroutine<A...>& of(bool is_f08) { return is_f08 ? f08 : plain; }
};
#define BOTH(name)       \
  {"mpi_" #name "_"}, {  \
    "mpi_" #name "_f08_" \
  }

constinit Both<int*, int*> wait_one{BOTH(wait)};

auto waiting(bool f08, const Requests& requests, const Status& status) {
  return [f08, requests, status](size_t index, int* st) {
    int error = kSuccess;
    auto* const request = static_cast<int*>(requests.place(index));
    wait_one.of(f08).behind()(request, status.back(st), &error);
    return error;
  };
}

template <bool f08>
void init(int* error) {
  static constinit Both<> f{BOTH(init)};
  f.of(f08)(
      [](auto make) {
        const int result = make();
        if (result == kSuccess) process().initialised_now();
        return result;
      },
      error);
}

template <bool f08>
void init_thread(int* required, int* provided, int* error) {
  static constinit Both<int*, int*> f{BOTH(init_thread)};
  f.of(f08)(
      [&](auto make) {
        const int result = make(required, provided);
        if (result == kSuccess) process().initialised_now();
        return result;
      },
      error, required, provided);
}

template <bool f08>
void finalize(int* error) {
  static constinit Both<> f{BOTH(finalize)};
  f.of(f08)(
      [](auto make) {
        process().finalising();
        return make();
      },
      error);
}

template <bool f08>
void barrier(int* comm, int* error) {
  static constinit Both<int*> f{BOTH(barrier)};
  f.of(f08)(
      [&](auto make) {
        return process().barrier("MPI_Barrier", communicator_of(comm), [&] { return make(comm); });
      },
      error, comm);
}

template <bool f08>
void allreduce(void* send, void* receive, int* count, int* type, int* op, int* comm, int* error) {
  static constinit Both<void*, void*, int*, int*, int*, int*> f{BOTH(allreduce)};
  f.of(f08)(
      [&](auto make) {
        return process().collective("MPI_Allreduce", communicator_of(comm), *count > 0,
                                    make(send, receive, count, type, op, comm));
      },
      error, send, receive, count, type, op, comm);
}

template <bool f08>
void allgather(void* send, int* send_count, int* send_type, void* receive, int* receive_count,
               int* receive_type, int* comm, int* error) {
  static constinit Both<void*, int*, int*, void*, int*, int*, int*> f{BOTH(allgather)};
  f.of(f08)(
      [&](auto make) {
        return process().collective(
            "MPI_Allgather", communicator_of(comm), *receive_count > 0,
            make(send, send_count, send_type, receive, receive_count, receive_type, comm));
      },
      error, send, send_count, send_type, receive, receive_count, receive_type, comm);
}

template <bool f08>
void alltoall(void* send, int* send_count, int* send_type, void* receive, int* receive_count,
              int* receive_type, int* comm, int* error) {
  static constinit Both<void*, int*, int*, void*, int*, int*, int*> f{BOTH(alltoall)};
  f.of(f08)(
      [&](auto make) {
        return process().collective(
            "MPI_Alltoall", communicator_of(comm), *receive_count > 0,
            make(send, send_count, send_type, receive, receive_count, receive_type, comm));
      },
      error, send, send_count, send_type, receive, receive_count, receive_type, comm);
}

template <bool f08>
void recv(void* buffer, int* count, int* type, int* source, int* tag, int* comm, int* status,
          int* error) {
  static constinit Both<void*, int*, int*, int*, int*, int*, int*> f{BOTH(recv)};
  f.of(f08)(
      [&](auto make) {
        const Status own(status);
        return process().receive("MPI_Recv", *source, *tag, own.get(), [&](int s, int t, int* st) {
          return make(buffer, count, type, &s, &t, comm, own.back(st));
        });
      },
      error, buffer, count, type, source, tag, comm, status);
}

template <bool f08>
void sendrecv(void* send, int* send_count, int* send_type, int* to, int* send_tag, void* buffer,
              int* count, int* type, int* source, int* tag, int* comm, int* status, int* error) {
  static constinit Both<void*, int*, int*, int*, int*, void*, int*, int*, int*, int*, int*, int*> f{
      BOTH(sendrecv)};
  f.of(f08)(
      [&](auto make) {
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

template <bool f08>
void sendrecv_replace(void* buffer, int* count, int* type, int* to, int* send_tag, int* source,
                      int* tag, int* comm, int* status, int* error) {
  static constinit Both<void*, int*, int*, int*, int*, int*, int*, int*, int*> f{
      BOTH(sendrecv_replace)};
  f.of(f08)(
      [&](auto make) {
        const Status own(status);
        return process().receive(
            "MPI_Sendrecv_replace", *source, *tag, own.get(), [&](int s, int t, int* st) {
              return make(buffer, count, type, to, send_tag, &s, &t, comm, own.back(st));
            });
      },
      error, buffer, count, type, to, send_tag, source, tag, comm, status);
}

template <bool f08>
void irecv(void* buffer, int* count, int* type, int* source, int* tag, int* comm, int* request,
           int* error) {
  static constinit Both<void*, int*, int*, int*, int*, int*, int*> f{BOTH(irecv)};
  f.of(f08)(
      [&](auto make) {
        return process().post_receive(*source, *tag, request_of(request), [&](int s, int t) {
          return make(buffer, count, type, &s, &t, comm, request);
        });
      },
      error, buffer, count, type, source, tag, comm, request);
}

template <bool f08>
void recv_init(void* buffer, int* count, int* type, int* source, int* tag, int* comm, int* request,
               int* error) {
  static constinit Both<void*, int*, int*, int*, int*, int*, int*> f{BOTH(recv_init)};
  f.of(f08)(
      [&](auto make) {
        process().refuse_open(*source, *tag, "MPI_Recv_init from any source");
        return make(buffer, count, type, source, tag, comm, request);
      },
      error, buffer, count, type, source, tag, comm, request);
}

template <bool f08>
void probe(int* source, int* tag, int* comm, int* status, int* error) {
  static constinit Both<int*, int*, int*, int*> f{BOTH(probe)};
  f.of(f08)(
      [&](auto make) {
        const Status own(status);
        return process().receive("MPI_Probe", *source, *tag, own.get(), [&](int s, int t, int* st) {
          return make(&s, &t, comm, own.back(st));
        });
      },
      error, source, tag, comm, status);
}

template <bool f08>
void iprobe(int* source, int* tag, int* comm, int* flag, int* status, int* error) {
  static constinit Both<int*, int*, int*, int*, int*> f{BOTH(iprobe)};
  static constinit Both<int*, int*, int*, int*> waiting_one{BOTH(probe)};
  f.of(f08)(
      [&](auto make) {
        const Status own(status);
        return process().poll_message(
            "MPI_Iprobe", flag, own.get(),
            [&](int* st) { return make(source, tag, comm, flag, own.back(st)); },
            [&](int s, int t, int* st) {
              int came = kSuccess;
              waiting_one.of(f08).behind()(&s, &t, comm, own.back(st), &came);
              return came;
            });
      },
      error, source, tag, comm, flag, status);
}

template <bool f08>
void wait(int* request, int* status, int* error) {
  wait_one.of(f08)(
      [&](auto make) {
        const Status own(status);
        return process().wait_all(request_of(request), own.get(),
                                  [&](int* st) { return make(request, own.back(st)); });
      },
      error, request, status);
}

template <bool f08>
void waitall(int* count, int* requests, int* statuses, int* error) {
  static constinit Both<int*, int*, int*> f{BOTH(waitall)};
  f.of(f08)(
      [&](auto make) {
        const Status own(statuses);
        return process().wait_all(requests_of(requests, count), own.get(),
                                  [&](int* st) { return make(count, requests, own.back(st)); });
      },
      error, count, requests, statuses);
}

template <bool f08>
void waitany(int* count, int* requests, int* index, int* status, int* error) {
  static constinit Both<int*, int*, int*, int*> f{BOTH(waitany)};
  f.of(f08)(
      [&](auto make) {
        const Status own(status);
        const Requests all = requests_of(requests, count);
        return process().wait_any(
            "MPI_Waitany", all, index, 1, own.get(),
            [&](int* st) { return make(count, requests, index, own.back(st)); },
            waiting(f08, all, own));
      },
      error, count, requests, index, status);
}

// MPI_Waitsome or MPI_Testsome.
template <bool f08>
void some(Both<int*, int*, int*, int*, int*>& f, const char* name, int* count, int* requests,
          int* outcount, int* indices, int* statuses, int* error) {
  f.of(f08)(
      [&](auto make) {
        const Status own(statuses);
        const Requests all = requests_of(requests, count);
        return process().complete_some(
            name, all, outcount, indices, 1, own.get(),
            [&](int* st) { return make(count, requests, outcount, indices, own.back(st)); },
            waiting(f08, all, own));
      },
      error, count, requests, outcount, indices, statuses);
}

template <bool f08>
void waitsome(int* count, int* requests, int* outcount, int* indices, int* statuses, int* error) {
  static constinit Both<int*, int*, int*, int*, int*> f{BOTH(waitsome)};
  some<f08>(f, "MPI_Waitsome", count, requests, outcount, indices, statuses, error);
}

template <bool f08>
void testsome(int* count, int* requests, int* outcount, int* indices, int* statuses, int* error) {
  static constinit Both<int*, int*, int*, int*, int*> f{BOTH(testsome)};
  some<f08>(f, "MPI_Testsome", count, requests, outcount, indices, statuses, error);
}

template <bool f08>
void test(int* request, int* flag, int* status, int* error) {
  static constinit Both<int*, int*, int*> f{BOTH(test)};
  f.of(f08)(
      [&](auto make) {
        const Status own(status);
        const Requests one = request_of(request);
        return process().test_all(
            "MPI_Test", one, flag, own.get(),
            [&](int* st) { return make(request, flag, own.back(st)); },
            [&](int* st) { return waiting(f08, one, own)(0, st); });
      },
      error, request, flag, status);
}

template <bool f08>
void testall(int* count, int* requests, int* flag, int* statuses, int* error) {
  static constinit Both<int*, int*, int*, int*> f{BOTH(testall)};
  static constinit Both<int*, int*, int*> waiting_all{BOTH(waitall)};
  f.of(f08)(
      [&](auto make) {
        const Status own(statuses);
        return process().test_all(
            "MPI_Testall", requests_of(requests, count), flag, own.get(),
            [&](int* st) { return make(count, requests, flag, own.back(st)); },
            [&](int* st) {
              int came = kSuccess;
              waiting_all.of(f08).behind()(count, requests, own.back(st), &came);
              return came;
            });
      },
      error, count, requests, flag, statuses);
}

template <bool f08>
void testany(int* count, int* requests, int* index, int* flag, int* status, int* error) {
  static constinit Both<int*, int*, int*, int*, int*> f{BOTH(testany)};
  f.of(f08)(
      [&](auto make) {
        const Status own(status);
        const Requests all = requests_of(requests, count);
        return process().test_any(
            "MPI_Testany", all, index, 1, flag, own.get(),
            [&](int* st) { return make(count, requests, index, flag, own.back(st)); },
            waiting(f08, all, own));
      },
      error, count, requests, index, flag, status);
}

template <bool f08>
void request_get_status(int* request, int* flag, int* status, int* error) {
  static constinit Both<int*, int*, int*> f{BOTH(request_get_status)};
  f.of(f08)(
      [&](auto make) {
        return process().look_at("MPI_Request_get_status", flag,
                                 [&] { return make(request, flag, status); });
      },
      error, request, flag, status);
}

template <bool f08>
void request_free(int* request, int* error) {
  static constinit Both<int*> f{BOTH(request_free)};
  f.of(f08)(
      [&](auto make) {
        process().give_up(request_of(request).at(0),
                          "MPI_Request_free of a receive from any source");
        return make(request);
      },
      error, request);
}

template <bool f08>
void cancel(int* request, int* error) {
  static constinit Both<int*> f{BOTH(cancel)};
  f.of(f08)(
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
    now = reinterpret_cast<double (*)()>(next_function(name));
    real.store(now, std::memory_order_release);
  }
  if (now == nullptr) return 0;
  const Library* const l = library();
  if (Guard::held() || l == nullptr || !l->fortran_calls_profiling_names) return now();
  const Guard guard;
  return process().time(now);
}

}  // namespace
}  // namespace gpusnap::mpi

#pragma GCC visibility push(default)

// The exported names of one subroutine.
#define EXPORTED(name, parameters, arguments)    \
  extern "C" void mpi_##name##_ parameters {     \
    gpusnap::mpi::name<false> arguments;         \
  }                                              \
  extern "C" void mpi_##name##_f08_ parameters { \
    gpusnap::mpi::name<true> arguments;          \
  }

EXPORTED(init, (int* e), (e))
EXPORTED(init_thread, (int* a, int* b, int* e), (a, b, e))
EXPORTED(finalize, (int* e), (e))
EXPORTED(barrier, (int* a, int* e), (a, e))
EXPORTED(allreduce, (void* a, void* b, int* c, int* d, int* f, int* g, int* e),
         (a, b, c, d, f, g, e))
EXPORTED(allgather, (void* a, int* b, int* c, void* d, int* f, int* g, int* h, int* e),
         (a, b, c, d, f, g, h, e))
EXPORTED(alltoall, (void* a, int* b, int* c, void* d, int* f, int* g, int* h, int* e),
         (a, b, c, d, f, g, h, e))
EXPORTED(recv, (void* a, int* b, int* c, int* d, int* f, int* g, int* h, int* e),
         (a, b, c, d, f, g, h, e))
EXPORTED(sendrecv,
         (void* a, int* b, int* c, int* d, int* f, void* g, int* h, int* i, int* j, int* k, int* l,
          int* m, int* e),
         (a, b, c, d, f, g, h, i, j, k, l, m, e))
EXPORTED(sendrecv_replace,
         (void* a, int* b, int* c, int* d, int* f, int* g, int* h, int* i, int* j, int* e),
         (a, b, c, d, f, g, h, i, j, e))
EXPORTED(irecv, (void* a, int* b, int* c, int* d, int* f, int* g, int* h, int* e),
         (a, b, c, d, f, g, h, e))
EXPORTED(recv_init, (void* a, int* b, int* c, int* d, int* f, int* g, int* h, int* e),
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
