// The functions of MPI's C interface that are hooked (exports.list) and move no data: each says
// what the call is, and process.h does the rest. Declared here and not in a header: every MPI
// library has its own.

#include "interpose/mpi/calls.h"

namespace gpusnap::mpi {
namespace {

// Waits for one request, in the place of a call that found it complete when it was recorded.
constinit Function<void*, int*> wait_one{"MPI_Wait"};
constinit Function<int, int, Handle, int*> probe_one{"MPI_Probe"};

// `requests`: an array of handles.
Requests requests_of(void* requests, int count) {
  const Library* const l = library();
  return {requests, count < 0 ? 0 : static_cast<size_t>(count),
          l == nullptr ? sizeof(Handle) : l->handle_bytes};
}

auto waiting(const Requests& requests) {
  return [requests](size_t index, int* status) {
    return wait_one.behind()(requests.place(index), status);
  };
}

}  // namespace
}  // namespace gpusnap::mpi

using namespace gpusnap::mpi;  // NOLINT(google-build-using-namespace): all of this file is about it

#pragma GCC visibility push(default)
extern "C" {

int MPI_Init(int* argc, char*** argv) {
  static constinit Function<int*, char***> f{"MPI_Init"};
  return f(
      [&](auto real) {
        const int result = real(argc, argv);
        if (result == kSuccess) process().initialised_now(cut_control());
        return result;
      },
      argc, argv);
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  static constinit Function<int*, char***, int, int*> f{"MPI_Init_thread"};
  return f(
      [&](auto real) {
        const int result = real(argc, argv, required, provided);
        if (result == kSuccess) process().initialised_now(cut_control());
        return result;
      },
      argc, argv, required, provided);
}

int MPI_Finalize() {
  static constinit Function<> f{"MPI_Finalize"};
  return f([](auto real) {
    process().finalising();
    return real();
  });
}

// ---- collectives that synchronise ----

int MPI_Barrier(Handle comm) {
  static constinit Function<Handle> f{"MPI_Barrier"};
  return f(
      [&](auto real) { return process().barrier("MPI_Barrier", comm, [&] { return real(comm); }); },
      comm);
}

// ---- messages from anybody (those that are received: calls_data.cpp) ----

int MPI_Probe(int source, int tag, Handle comm, int* status) {
  static constinit Function<int, int, Handle, int*> f{"MPI_Probe"};
  return f(
      [&](auto real) {
        return process().receive("MPI_Probe", source, tag, status,
                                 [&](int s, int t, int* st) { return real(s, t, comm, st); });
      },
      source, tag, comm, status);
}

int MPI_Iprobe(int source, int tag, Handle comm, int* flag, int* status) {
  static constinit Function<int, int, Handle, int*, int*> f{"MPI_Iprobe"};
  return f(
      [&](auto real) {
        return process().poll_message(
            "MPI_Iprobe", flag, status, [&](int* st) { return real(source, tag, comm, flag, st); },
            [&](int s, int t, int* st) { return probe_one.behind()(s, t, comm, st); });
      },
      source, tag, comm, flag, status);
}

int MPI_Mprobe(int source, int tag, Handle comm, void* message, int* status) {
  static constinit Function<int, int, Handle, void*, int*> f{"MPI_Mprobe"};
  return f(
      [&](auto real) {
        return process().receive("MPI_Mprobe", source, tag, status, [&](int s, int t, int* st) {
          return real(s, t, comm, message, st);
        });
      },
      source, tag, comm, message, status);
}

int MPI_Improbe(int source, int tag, Handle comm, int* flag, void* message, int* status) {
  static constinit Function<int, int, Handle, int*, void*, int*> f{"MPI_Improbe"};
  static constinit Function<int, int, Handle, void*, int*> waiting_one{"MPI_Mprobe"};
  return f(
      [&](auto real) {
        return process().poll_message(
            "MPI_Improbe", flag, status,
            [&](int* st) { return real(source, tag, comm, flag, message, st); },
            [&](int s, int t, int* st) { return waiting_one.behind()(s, t, comm, message, st); });
      },
      source, tag, comm, flag, message, status);
}

// ---- completion ----

int MPI_Wait(void* request, int* status) {
  return wait_one(
      [&](auto real) {
        return process().wait_all(requests_of(request, 1), status,
                                  [&](int* st) { return real(request, st); });
      },
      request, status);
}

int MPI_Waitall(int count, void* requests, int* statuses) {
  static constinit Function<int, void*, int*> f{"MPI_Waitall"};
  return f(
      [&](auto real) {
        return process().wait_all(requests_of(requests, count), statuses,
                                  [&](int* st) { return real(count, requests, st); });
      },
      count, requests, statuses);
}

int MPI_Waitany(int count, void* requests, int* index, int* status) {
  static constinit Function<int, void*, int*, int*> f{"MPI_Waitany"};
  return f(
      [&](auto real) {
        const Requests all = requests_of(requests, count);
        return process().wait_any(
            "MPI_Waitany", all, index, 0, status,
            [&](int* st) { return real(count, requests, index, st); }, waiting(all));
      },
      count, requests, index, status);
}

int MPI_Waitsome(int count, void* requests, int* outcount, int* indices, int* statuses) {
  static constinit Function<int, void*, int*, int*, int*> f{"MPI_Waitsome"};
  return f(
      [&](auto real) {
        const Requests all = requests_of(requests, count);
        return process().complete_some(
            "MPI_Waitsome", all, outcount, indices, 0, statuses,
            [&](int* st) { return real(count, requests, outcount, indices, st); }, waiting(all));
      },
      count, requests, outcount, indices, statuses);
}

int MPI_Test(void* request, int* flag, int* status) {
  static constinit Function<void*, int*, int*> f{"MPI_Test"};
  return f(
      [&](auto real) {
        return process().test_all(
            "MPI_Test", requests_of(request, 1), flag, status,
            [&](int* st) { return real(request, flag, st); },
            [&](int* st) { return wait_one.behind()(request, st); });
      },
      request, flag, status);
}

int MPI_Testall(int count, void* requests, int* flag, int* statuses) {
  static constinit Function<int, void*, int*, int*> f{"MPI_Testall"};
  static constinit Function<int, void*, int*> waiting_all{"MPI_Waitall"};
  return f(
      [&](auto real) {
        return process().test_all(
            "MPI_Testall", requests_of(requests, count), flag, statuses,
            [&](int* st) { return real(count, requests, flag, st); },
            [&](int* st) { return waiting_all.behind()(count, requests, st); });
      },
      count, requests, flag, statuses);
}

int MPI_Testany(int count, void* requests, int* index, int* flag, int* status) {
  static constinit Function<int, void*, int*, int*, int*> f{"MPI_Testany"};
  return f(
      [&](auto real) {
        const Requests all = requests_of(requests, count);
        return process().test_any(
            "MPI_Testany", all, index, 0, flag, status,
            [&](int* st) { return real(count, requests, index, flag, st); }, waiting(all));
      },
      count, requests, index, flag, status);
}

int MPI_Testsome(int count, void* requests, int* outcount, int* indices, int* statuses) {
  static constinit Function<int, void*, int*, int*, int*> f{"MPI_Testsome"};
  return f(
      [&](auto real) {
        const Requests all = requests_of(requests, count);
        return process().complete_some(
            "MPI_Testsome", all, outcount, indices, 0, statuses,
            [&](int* st) { return real(count, requests, outcount, indices, st); }, waiting(all));
      },
      count, requests, outcount, indices, statuses);
}

int MPI_Request_get_status(Handle request, int* flag, int* status) {
  static constinit Function<Handle, int*, int*> f{"MPI_Request_get_status"};
  return f(
      [&](auto real) {
        return process().look_at("MPI_Request_get_status", request, flag,
                                 [&] { return real(request, flag, status); });
      },
      request, flag, status);
}

int MPI_Request_free(void* request) {
  static constinit Function<void*> f{"MPI_Request_free"};
  return f(
      [&](auto real) {
        process().give_up(requests_of(request, 1).at(0),
                          "MPI_Request_free of a request that is open");
        return real(request);
      },
      request);
}

// Whether it comes before the message is a matter of time.
int MPI_Cancel(void* request) {
  static constinit Function<void*> f{"MPI_Cancel"};
  return f(
      [&](auto real) {
        const int result = real(request);
        if (result == kSuccess) process().refuse("MPI_Cancel");
        return result;
      },
      request);
}

double MPI_Wtime() {
  static constinit std::atomic<double (*)()> real{nullptr};
  auto now = real.load(std::memory_order_acquire);
  if (now == nullptr) {
    now = reinterpret_cast<double (*)()>(gpusnap::mpi_symbol("MPI_Wtime"));
    real.store(now, std::memory_order_release);
  }
  if (now == nullptr) return 0;
  if (gpusnap::Guard::held()) return now();
  const gpusnap::Guard guard;
  return process().time(now);
}
}
#pragma GCC visibility pop
