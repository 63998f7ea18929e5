// The same functions as calls_c.cpp for Fortran, as `use mpi` (mpif.h) and `use mpi_f08` call them:
// everything by reference, handles as integers, indices from 1, the error in a last argument. Their
// calls of C's are not the program's doing any more: Open MPI's call C's by their profiling
// names, MPICH's some by these and some by their own.

#include "interpose/hook/resolve.h"
#include "interpose/mpi/calls.h"
#include "interpose/mpi/fortran.h"

namespace gpusnap::mpi {
namespace {

Handle communicator_of(const int* comm) {
  const Library* const l = library();
  return l == nullptr ? 0 : l->communicator_of(*comm);
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
    if (l == nullptr || !fortran::is_no_status(given)) return;
    none_ = reinterpret_cast<int*>(l->status_ignore);
    ignored_ = true;
  }
  int* get() const { return ignored_ ? none_ : given_; }
  // The status that a function of Fortran's is given for it.
  int* back(int* status) const { return ignored_ && status == none_ ? given_ : status; }

 private:
  int* given_;
  int* none_ = nullptr;
  bool ignored_ = false;
};

enum class From : uint8_t { kMpi, kF08 };

// One subroutine under its names.
template <class... A>
struct Named {
  Subroutine<A...> mpi, f08;
  Subroutine<A...>& of(From from) { return from == From::kMpi ? mpi : f08; }
};
// clang-format off
#define NAMES(name) {{"mpi_" #name "_"}, {"mpi_" #name "_f08_"}}
// clang-format on

constinit Named<int*, int*> wait_of_fortran = NAMES(wait);

auto waiting(From from, const Requests& requests, const Status& status) {
  return [from, requests, status](size_t index, int* st) {
    int error = kSuccess;
    auto* const request = static_cast<int*>(requests.place(index));
    wait_of_fortran.of(from).behind()(request, status.back(st), &error);
    return error;
  };
}

template <From from>
void init(int* error) {
  static constinit Named<> f = NAMES(init);
  f.of(from)(
      [](auto make) {
        const int result = make();
        if (result == kSuccess) process().initialised_now(cut_control());
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
        if (result == kSuccess) process().initialised_now(cut_control());
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
void mprobe(int* source, int* tag, int* comm, int* message, int* status, int* error) {
  static constinit Named<int*, int*, int*, int*, int*> f = NAMES(mprobe);
  f.of(from)(
      [&](auto make) {
        const Status own(status);
        return process().receive(
            "MPI_Mprobe", *source, *tag, own.get(),
            [&](int s, int t, int* st) { return make(&s, &t, comm, message, own.back(st)); });
      },
      error, source, tag, comm, message, status);
}

template <From from>
void improbe(int* source, int* tag, int* comm, int* flag, int* message, int* status, int* error) {
  static constinit Named<int*, int*, int*, int*, int*, int*> f = NAMES(improbe);
  static constinit Named<int*, int*, int*, int*, int*> waiting_one = NAMES(mprobe);
  f.of(from)(
      [&](auto make) {
        const Status own(status);
        return process().poll_message(
            "MPI_Improbe", flag, own.get(),
            [&](int* st) { return make(source, tag, comm, flag, message, own.back(st)); },
            [&](int s, int t, int* st) {
              int came = kSuccess;
              waiting_one.of(from).behind()(&s, &t, comm, message, own.back(st), &came);
              return came;
            });
      },
      error, source, tag, comm, flag, message, status);
}

template <From from>
void wait(int* request, int* status, int* error) {
  wait_of_fortran.of(from)(
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
        return process().look_at("MPI_Request_get_status", request_of(request).at(0), flag,
                                 [&] { return make(request, flag, status); });
      },
      error, request, flag, status);
}

template <From from>
void request_free(int* request, int* error) {
  static constinit Named<int*> f = NAMES(request_free);
  f.of(from)(
      [&](auto make) {
        process().give_up(request_of(request).at(0), "MPI_Request_free of a request that is open");
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

// The exported names of one subroutine.
#define EXPORTED(name, parameters, arguments)               \
  extern "C" void mpi_##name##_ parameters {                \
    gpusnap::mpi::name<gpusnap::mpi::From::kMpi> arguments; \
  }                                                         \
  extern "C" void mpi_##name##_f08_ parameters {            \
    gpusnap::mpi::name<gpusnap::mpi::From::kF08> arguments; \
  }
EXPORTED(init, (int* e), (e))
EXPORTED(init_thread, (int* a, int* b, int* e), (a, b, e))
EXPORTED(finalize, (int* e), (e))
EXPORTED(barrier, (int* a, int* e), (a, e))
EXPORTED(probe, (int* a, int* b, int* c, int* d, int* e), (a, b, c, d, e))
EXPORTED(iprobe, (int* a, int* b, int* c, int* d, int* f, int* e), (a, b, c, d, f, e))
EXPORTED(mprobe, (int* a, int* b, int* c, int* d, int* f, int* e), (a, b, c, d, f, e))
EXPORTED(improbe, (int* a, int* b, int* c, int* d, int* f, int* g, int* e), (a, b, c, d, f, g, e))
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
