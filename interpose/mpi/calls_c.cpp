// The functions of MPI's C interface that are hooked (exports.list): each says what the call is,
// and process.h does the rest. Declared here and not in a header: every MPI library has its own.

#include "interpose/mpi/calls.h"

namespace gpusnap::mpi {
namespace {

Process& process() {
  return Process::get();
}

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

// A collective that sends from one buffer and fills another, or does both in one.
// `make(const void*, void*)`.
template <class Make>
int exchanged(const char* name, const void* send, Buffer from, const Buffer& into, Make&& make) {
  if (process().is_in_place(send)) {
    return process().send_and_fill(name, into, [&](void* both) { return make(send, both); });
  }
  from.start = const_cast<void*>(send);
  return process().send(name, from, nullptr, [&](const void* sent) {
    return process().fill(name, into, nullptr, [&](void* filled) { return make(sent, filled); });
  });
}

template <class F>
int sent(F& function, const void* buffer, int count, Handle type, int to, int tag, Handle comm) {
  return function(
      [&](auto real) {
        const Buffer from{const_cast<void*>(buffer), count, type};
        return process().send(function.name, from, nullptr, [&](const void* start) {
          return real(start, count, type, to, tag, comm);
        });
      },
      buffer, count, type, to, tag, comm);
}

template <class F>
int sent_later(F& function, const void* buffer, int count, Handle type, int to, int tag,
               Handle comm, void* request) {
  return function(
      [&](auto real) {
        const Requests one = requests_of(request, 1);
        const Buffer from{const_cast<void*>(buffer), count, type};
        return process().send(function.name, from, &one, [&](const void* start) {
          return real(start, count, type, to, tag, comm, request);
        });
      },
      buffer, count, type, to, tag, comm, request);
}

// Calls by which messages or memory go ways that are not followed.
template <class F, class... A>
int refused(F& function, const char* what, A... args) {
  return function(
      [&](auto real) {
        const int result = real(args...);
        if (result == kSuccess) process().refuse(what);
        return result;
      },
      args...);
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
        if (result == kSuccess) process().initialised_now();
        return result;
      },
      argc, argv);
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  static constinit Function<int*, char***, int, int*> f{"MPI_Init_thread"};
  return f(
      [&](auto real) {
        const int result = real(argc, argv, required, provided);
        if (result == kSuccess) process().initialised_now();
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

int MPI_Allreduce(const void* send, void* receive, int count, Handle type, Handle op, Handle comm) {
  static constinit Function<const void*, void*, int, Handle, Handle, Handle> f{"MPI_Allreduce"};
  return f(
      [&](auto real) {
        const auto make = [&](const void* from, void* into) {
          return real(from, into, count, type, op, comm);
        };
        return process().collective(
            "MPI_Allreduce", comm, count > 0,
            exchanged("MPI_Allreduce", send, {nullptr, count, type}, {receive, count, type}, make));
      },
      send, receive, count, type, op, comm);
}

int MPI_Allgather(const void* send, int send_count, Handle send_type, void* receive,
                  int receive_count, Handle receive_type, Handle comm) {
  static constinit Function<const void*, int, Handle, void*, int, Handle, Handle> f{
      "MPI_Allgather"};
  return f(
      [&](auto real) {
        const auto make = [&](const void* from, void* into) {
          return real(from, send_count, send_type, into, receive_count, receive_type, comm);
        };
        const int64_t ranks = process().size_of(comm);
        return process().collective(
            "MPI_Allgather", comm, receive_count > 0,
            exchanged("MPI_Allgather", send, {nullptr, send_count, send_type},
                      {receive, receive_count * ranks, receive_type}, make));
      },
      send, send_count, send_type, receive, receive_count, receive_type, comm);
}

int MPI_Alltoall(const void* send, int send_count, Handle send_type, void* receive,
                 int receive_count, Handle receive_type, Handle comm) {
  static constinit Function<const void*, int, Handle, void*, int, Handle, Handle> f{"MPI_Alltoall"};
  return f(
      [&](auto real) {
        const auto make = [&](const void* from, void* into) {
          return real(from, send_count, send_type, into, receive_count, receive_type, comm);
        };
        const int64_t ranks = process().size_of(comm);
        return process().collective(
            "MPI_Alltoall", comm, receive_count > 0,
            exchanged("MPI_Alltoall", send, {nullptr, send_count * ranks, send_type},
                      {receive, receive_count * ranks, receive_type}, make));
      },
      send, send_count, send_type, receive, receive_count, receive_type, comm);
}

// ---- messages from anybody ----

int MPI_Recv(void* buffer, int count, Handle type, int source, int tag, Handle comm, int* status) {
  static constinit Function<void*, int, Handle, int, int, Handle, int*> f{"MPI_Recv"};
  return f(
      [&](auto real) {
        return process().fill("MPI_Recv", {buffer, count, type}, nullptr, [&](void* into) {
          return process().receive("MPI_Recv", source, tag, status, [&](int s, int t, int* st) {
            return real(into, count, type, s, t, comm, st);
          });
        });
      },
      buffer, count, type, source, tag, comm, status);
}

int MPI_Sendrecv(const void* send, int send_count, Handle send_type, int to, int send_tag,
                 void* buffer, int count, Handle type, int source, int tag, Handle comm,
                 int* status) {
  static constinit Function<const void*, int, Handle, int, int, void*, int, Handle, int, int,
                            Handle, int*>
      f{"MPI_Sendrecv"};
  return f(
      [&](auto real) {
        const auto make = [&](const void* from, void* into) {
          return process().receive("MPI_Sendrecv", source, tag, status, [&](int s, int t, int* st) {
            return real(from, send_count, send_type, to, send_tag, into, count, type, s, t, comm,
                        st);
          });
        };
        return exchanged("MPI_Sendrecv", send, {nullptr, send_count, send_type},
                         {buffer, count, type}, make);
      },
      send, send_count, send_type, to, send_tag, buffer, count, type, source, tag, comm, status);
}

int MPI_Sendrecv_replace(void* buffer, int count, Handle type, int to, int send_tag, int source,
                         int tag, Handle comm, int* status) {
  static constinit Function<void*, int, Handle, int, int, int, int, Handle, int*> f{
      "MPI_Sendrecv_replace"};
  return f(
      [&](auto real) {
        process().refuse_device("MPI_Sendrecv_replace", buffer);
        return process().receive("MPI_Sendrecv_replace", source, tag, status,
                                 [&](int s, int t, int* st) {
                                   return real(buffer, count, type, to, send_tag, s, t, comm, st);
                                 });
      },
      buffer, count, type, to, send_tag, source, tag, comm, status);
}

int MPI_Irecv(void* buffer, int count, Handle type, int source, int tag, Handle comm,
              void* request) {
  static constinit Function<void*, int, Handle, int, int, Handle, void*> f{"MPI_Irecv"};
  return f(
      [&](auto real) {
        const Requests one = requests_of(request, 1);
        return process().fill("MPI_Irecv", {buffer, count, type}, &one, [&](void* into) {
          return process().post_receive(source, tag, one, [&](int s, int t) {
            return real(into, count, type, s, t, comm, request);
          });
        });
      },
      buffer, count, type, source, tag, comm, request);
}

int MPI_Recv_init(void* buffer, int count, Handle type, int source, int tag, Handle comm,
                  void* request) {
  static constinit Function<void*, int, Handle, int, int, Handle, void*> f{"MPI_Recv_init"};
  return f(
      [&](auto real) {
        process().refuse_open(source, tag, "MPI_Recv_init from any source");
        process().refuse_device("MPI_Recv_init", buffer);
        return real(buffer, count, type, source, tag, comm, request);
      },
      buffer, count, type, source, tag, comm, request);
}

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

// ---- what is sent ----

int MPI_Send(const void* buffer, int count, Handle type, int to, int tag, Handle comm) {
  static constinit Function<const void*, int, Handle, int, int, Handle> f{"MPI_Send"};
  return sent(f, buffer, count, type, to, tag, comm);
}

int MPI_Ssend(const void* buffer, int count, Handle type, int to, int tag, Handle comm) {
  static constinit Function<const void*, int, Handle, int, int, Handle> f{"MPI_Ssend"};
  return sent(f, buffer, count, type, to, tag, comm);
}

int MPI_Bsend(const void* buffer, int count, Handle type, int to, int tag, Handle comm) {
  static constinit Function<const void*, int, Handle, int, int, Handle> f{"MPI_Bsend"};
  return sent(f, buffer, count, type, to, tag, comm);
}

int MPI_Rsend(const void* buffer, int count, Handle type, int to, int tag, Handle comm) {
  static constinit Function<const void*, int, Handle, int, int, Handle> f{"MPI_Rsend"};
  return sent(f, buffer, count, type, to, tag, comm);
}

int MPI_Isend(const void* buffer, int count, Handle type, int to, int tag, Handle comm,
              void* request) {
  static constinit Function<const void*, int, Handle, int, int, Handle, void*> f{"MPI_Isend"};
  return sent_later(f, buffer, count, type, to, tag, comm, request);
}

int MPI_Issend(const void* buffer, int count, Handle type, int to, int tag, Handle comm,
               void* request) {
  static constinit Function<const void*, int, Handle, int, int, Handle, void*> f{"MPI_Issend"};
  return sent_later(f, buffer, count, type, to, tag, comm, request);
}

int MPI_Ibsend(const void* buffer, int count, Handle type, int to, int tag, Handle comm,
               void* request) {
  static constinit Function<const void*, int, Handle, int, int, Handle, void*> f{"MPI_Ibsend"};
  return sent_later(f, buffer, count, type, to, tag, comm, request);
}

int MPI_Irsend(const void* buffer, int count, Handle type, int to, int tag, Handle comm,
               void* request) {
  static constinit Function<const void*, int, Handle, int, int, Handle, void*> f{"MPI_Irsend"};
  return sent_later(f, buffer, count, type, to, tag, comm, request);
}

int MPI_Bcast(void* buffer, int count, Handle type, int root, Handle comm) {
  static constinit Function<void*, int, Handle, int, Handle> f{"MPI_Bcast"};
  return f(
      [&](auto real) {
        const Buffer whole{buffer, count, type};
        const auto make = [&](const void* start) {
          return real(const_cast<void*>(start), count, type, root, comm);
        };
        return process().rank_in(comm) == root ? process().send("MPI_Bcast", whole, nullptr, make)
                                               : process().fill("MPI_Bcast", whole, nullptr, make);
      },
      buffer, count, type, root, comm);
}

int MPI_Reduce(const void* send, void* receive, int count, Handle type, Handle op, int root,
               Handle comm) {
  static constinit Function<const void*, void*, int, Handle, Handle, int, Handle> f{"MPI_Reduce"};
  return f(
      [&](auto real) {
        const auto make = [&](const void* from, void* into) {
          return real(from, into, count, type, op, root, comm);
        };
        // Elsewhere the second buffer means nothing.
        const bool fills = process().rank_in(comm) == root;
        return exchanged("MPI_Reduce", send, {nullptr, count, type},
                         {receive, fills ? count : 0, type}, make);
      },
      send, receive, count, type, op, root, comm);
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
        return process().look_at("MPI_Request_get_status", flag,
                                 [&] { return real(request, flag, status); });
      },
      request, flag, status);
}

int MPI_Request_free(void* request) {
  static constinit Function<void*> f{"MPI_Request_free"};
  return f(
      [&](auto real) {
        process().give_up(requests_of(request, 1).at(0),
                          "MPI_Request_free of a receive from any source");
        return real(request);
      },
      request);
}

// Whether it comes before the message is a matter of time.
int MPI_Cancel(void* request) {
  static constinit Function<void*> f{"MPI_Cancel"};
  return refused(f, "MPI_Cancel", request);
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

// ---- what is not followed ----

int MPI_Win_create(void* base, intptr_t size, int unit, Handle info, Handle comm, void* window) {
  static constinit Function<void*, intptr_t, int, Handle, Handle, void*> f{"MPI_Win_create"};
  return refused(f, "MPI_Win_create", base, size, unit, info, comm, window);
}

int MPI_Win_allocate(intptr_t size, int unit, Handle info, Handle comm, void* base, void* window) {
  static constinit Function<intptr_t, int, Handle, Handle, void*, void*> f{"MPI_Win_allocate"};
  return refused(f, "MPI_Win_allocate", size, unit, info, comm, base, window);
}

int MPI_Win_allocate_shared(intptr_t size, int unit, Handle info, Handle comm, void* base,
                            void* window) {
  static constinit Function<intptr_t, int, Handle, Handle, void*, void*> f{
      "MPI_Win_allocate_shared"};
  return refused(f, "MPI_Win_allocate_shared", size, unit, info, comm, base, window);
}

int MPI_Win_create_dynamic(Handle info, Handle comm, void* window) {
  static constinit Function<Handle, Handle, void*> f{"MPI_Win_create_dynamic"};
  return refused(f, "MPI_Win_create_dynamic", info, comm, window);
}

int MPI_Comm_spawn(const char* command, char** arguments, int most, Handle info, int root,
                   Handle comm, void* inter, int* errors) {
  static constinit Function<const char*, char**, int, Handle, int, Handle, void*, int*> f{
      "MPI_Comm_spawn"};
  return refused(f, "MPI_Comm_spawn", command, arguments, most, info, root, comm, inter, errors);
}

int MPI_Comm_spawn_multiple(int count, char** commands, char*** arguments, const int* most,
                            const void* infos, int root, Handle comm, void* inter, int* errors) {
  static constinit Function<int, char**, char***, const int*, const void*, int, Handle, void*, int*>
      f{"MPI_Comm_spawn_multiple"};
  return refused(f, "MPI_Comm_spawn_multiple", count, commands, arguments, most, infos, root, comm,
                 inter, errors);
}

int MPI_Comm_accept(const char* port, Handle info, int root, Handle comm, void* inter) {
  static constinit Function<const char*, Handle, int, Handle, void*> f{"MPI_Comm_accept"};
  return refused(f, "MPI_Comm_accept", port, info, root, comm, inter);
}

int MPI_Comm_connect(const char* port, Handle info, int root, Handle comm, void* inter) {
  static constinit Function<const char*, Handle, int, Handle, void*> f{"MPI_Comm_connect"};
  return refused(f, "MPI_Comm_connect", port, info, root, comm, inter);
}
}
#pragma GCC visibility pop
