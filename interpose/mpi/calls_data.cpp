// The calls of MPI that move data, in all their forms: C, Fortran as `use mpi` (mpif.h) and `use
// mpi_f08` call it, and both with large counts. data_calls.inc says how each of them uses the
// program's memory; one implementation is for all.

#include <atomic>

#include "interpose/hook/hook.h"
#include "interpose/hook/resolve.h"
#include "interpose/mpi/call_signature.h"

namespace gpusnap::mpi {
namespace {

// ---- bodies ----

// The call itself; which message a receive from anybody gets is followed.
int made(MpiCall& given, const CallSignature& data) {
  if (data.source == kNowhere) return given.make();
  const int source = given.integer(data.source), tag = given.integer(data.source + 1);
  if (data.request != kNowhere) {
    return process().post_receive(source, tag, given.requests(data.request, 1), [&](int s, int t) {
      given.set_source(data.source, s, t);
      return given.make();
    });
  }
  return process().receive(given.name(), source, tag, given.status(data.status),
                           [&](int s, int t, int* status) {
                             given.set_source(data.source, s, t);
                             given.set_status(data.status, status);
                             return given.make();
                           });
}

// The buffers that the calling rank sends and fills.
struct Part {
  const Side* sent = nullptr;
  const Side* filled = nullptr;
  bool fills_what_it_sends = false;
};

Part part_of(const MpiCall& given, const CallSignature& data, Handle communicator) {
  const auto if_any = [](const Side& side) {
    return side.layout == Layout::kNone ? nullptr : &side;
  };
  Part part{if_any(data.sent), if_any(data.filled), data.fills_what_it_sends};
  const bool is_root =
      data.root_does != Root::kNone && process().rank_in(communicator) == given.integer(data.root);
  if (data.root_does == Root::kSendsOut && is_root) part = {part.filled, nullptr, false};
  if (data.root_does == Root::kSends && !is_root) part.sent = nullptr;
  if (data.root_does == Root::kFills && !is_root) part.filled = nullptr;
  if (data.communicator == kNowhere) return part;
  if (data.root_does == Root::kSends) {
    if (part.filled != nullptr && given.is_in_place(part.filled->buffer)) part.filled = nullptr;
  } else if (part.sent != nullptr && given.is_in_place(part.sent->buffer)) {
    part.sent = nullptr;
    part.fills_what_it_sends = part.filled != nullptr;
    if (data.in_place.layout != Layout::kNone) part.filled = &data.in_place;
  }
  return part;
}

// A buffer of which no more is known than where it begins.
void refuse_unknown(const MpiCall& given, const CallSignature& data, const Side& side) {
  if (side.buffer == kNowhere) return;
  const void* const start = given.buffer(side.buffer);
  process().refuse_device(given.name(), start);
  if (&side != &data.sent && data.request != kNowhere) {
    process().refuse_seen(given.name(), start);
  }
}
void refuse_unknown(const MpiCall& given, const CallSignature& data) {
  refuse_unknown(given, data, data.sent);
  refuse_unknown(given, data, data.filled);
}
bool are_plain(const MpiCall& given, const CallSignature& data) {
  const auto is_plain = [&](const Side& side) {
    return side.buffer == kNowhere || given.is_plain(side.buffer);
  };
  return is_plain(data.sent) && is_plain(data.filled);
}

int moved(MpiCall& given, const CallSignature& data) {
  if (process().following() == nullptr) return made(given, data);
  const Handle communicator =
      data.communicator == kNowhere ? 0 : given.communicator(data.communicator);
  if (data.communicator != kNowhere && process().is_between_groups(communicator)) {
    refuse_unknown(given, data);
    return made(given, data);
  }
  Part part = part_of(given, data, communicator);
  for (const Side** side : {&part.sent, &part.filled}) {
    if (*side == nullptr || given.is_plain((*side)->buffer)) continue;
    refuse_unknown(given, data, **side);
    *side = nullptr;
  }
  const Requests one = data.request == kNowhere ? Requests{} : given.requests(data.request, 1);
  const Requests* const request = data.request == kNowhere ? nullptr : &one;
  const auto fill = [&] {
    if (part.filled == nullptr) return made(given, data);
    const Buffer into = buffer_of(given, *part.filled, communicator);
    const auto make = [&](void* start) {
      given.set_buffer(part.filled->buffer, start);
      return made(given, data);
    };
    return part.fills_what_it_sends ? process().send_and_fill(given.name(), into, request, make)
                                    : process().fill(given.name(), into, request, make);
  };
  if (part.sent == nullptr) return fill();
  return process().send(given.name(), buffer_of(given, *part.sent, communicator), request,
                        [&](void* start) {
                          given.set_buffer(part.sent->buffer, start);
                          return fill();
                        });
}

int move(MpiCall& given, const CallSignature& data) {
  const int result = moved(given, data);
  if (!data.synchronises) return result;
  return process().collective(given.name(), given.communicator(data.communicator),
                              given.count(data.filled.count) > 0, result);
}

int make_persistent(MpiCall& given, const CallSignature& data) {
  const bool receives = data.filled.layout != Layout::kNone;
  const Side& side = receives ? data.filled : data.sent;
  if (receives) {
    process().refuse_open(given.integer(data.source), given.integer(data.source + 1),
                          "MPI_Recv_init from any source");
  }
  if (process().following() == nullptr || !are_plain(given, data)) {
    refuse_unknown(given, data);
    return given.make();
  }
  return process().make_persistent(given.name(), buffer_of(given, side, 0), receives,
                                   given.requests(data.request, 1), [&](void* start) {
                                     given.set_buffer(side.buffer, start);
                                     return given.make();
                                   });
}

int start(MpiCall& given, const CallSignature&) {
  return process().start(given.requests(0, 1), [&] { return given.make(); });
}

int start_all(MpiCall& given, const CallSignature&) {
  const int count = given.integer(0);
  return process().start(given.requests(1, count < 0 ? 0 : static_cast<size_t>(count)),
                         [&] { return given.make(); });
}

// Memory without a type, from the position on that a call has been given.
Buffer packed(const MpiCall& given, int buffer, int bytes, int position) {
  const int64_t behind = given.count_behind(position);
  return {.start = given.buffer(buffer), .count = given.count(bytes) - behind, .behind = behind};
}

int copied(MpiCall& given, int from_at, const Buffer& from, int into_at, const Buffer& into) {
  return process().send(given.name(), from, nullptr, [&](void* sent) {
    given.set_buffer(from_at, sent);
    return process().fill(given.name(), into, nullptr, [&](void* filled) {
      given.set_buffer(into_at, filled);
      return given.make();
    });
  });
}

int pack(MpiCall& given, const CallSignature& data) {
  if (process().following() == nullptr || !are_plain(given, data)) {
    refuse_unknown(given, data);
    return given.make();
  }
  return copied(given, 0, buffer_of(given, data.sent, 0), 3, packed(given, 3, 4, 5));
}

int unpack(MpiCall& given, const CallSignature& data) {
  if (process().following() == nullptr || !are_plain(given, data)) {
    refuse_unknown(given, data);
    return given.make();
  }
  return copied(given, 0, packed(given, 0, 1, 2), 3, buffer_of(given, data.filled, 0));
}

// Whether a part of a message has come.
int look_at_part(MpiCall& given, const CallSignature&) {
  return process().look_at(given.name(), given.request_value(0), given.flag(2),
                           [&] { return given.make(); });
}

int refuse_device(MpiCall& given, const CallSignature& data) {
  refuse_unknown(given, data);
  return given.make();
}

// Messages or memory go ways that are not followed.
int refuse(MpiCall& given, const CallSignature&) {
  const int result = given.make();
  if (result == kSuccess) process().refuse(given.name());
  return result;
}

// ---- what calls are given ----

constexpr CallSignature kSend{.arguments = 6, .body = &move, .sent = items(0, 1, 2)};
constexpr CallSignature kSendInit = kSend.later().does(&make_persistent);
constexpr CallSignature kReceive{
    .arguments = 7, .body = &move, .filled = items(0, 1, 2), .source = 3, .status = 6};
constexpr CallSignature kReceiveInit = kReceive.later().does(&make_persistent);
constexpr CallSignature kReceiveMessage{
    .arguments = 5, .body = &move, .filled = items(0, 1, 2), .status = 4};
constexpr CallSignature kSendReceive{.arguments = 12,
                                     .body = &move,
                                     .sent = items(0, 1, 2),
                                     .filled = items(5, 6, 7),
                                     .source = 8,
                                     .status = 11};
constexpr CallSignature kReplace{.arguments = 9,
                                 .body = &move,
                                 .filled = items(0, 1, 2),
                                 .fills_what_it_sends = true,
                                 .source = 5,
                                 .status = 8};

// The signature of a collective, whose communicator is the last argument.
constexpr CallSignature collective(int communicator, const Side& sent, const Side& filled) {
  return {.arguments = static_cast<size_t>(communicator) + 1,
          .body = &move,
          .sent = sent,
          .filled = filled,
          .communicator = communicator};
}
// The signature of one with a root, which is the argument before the communicator.
constexpr CallSignature rooted(Root does, int communicator, const Side& sent, const Side& filled) {
  CallSignature data = collective(communicator, sent, filled);
  data.root_does = does;
  data.root = communicator - 1;
  return data;
}
constexpr CallSignature synchronising(CallSignature data) {
  data.synchronises = true;
  return data;
}

constexpr Side kToEach = of_each(0, 1, 2), kFromEach = of_each(3, 4, 5);
constexpr CallSignature kBcast = rooted(Root::kSendsOut, 4, {}, items(0, 1, 2));
constexpr CallSignature kReduce = rooted(Root::kFills, 6, items(0, 2, 3), items(1, 2, 3));
constexpr CallSignature kAllreduce = synchronising(collective(5, items(0, 2, 3), items(1, 2, 3)));
constexpr CallSignature kScan = collective(5, items(0, 2, 3), items(1, 2, 3));
constexpr CallSignature in_place(CallSignature data, const Side& side) {
  data.in_place = side;
  return data;
}
constexpr CallSignature kReduceScatter =
    in_place(collective(5, of_all(0, 2, 3), of_own(1, 2, 3)), of_all(1, 2, 3));
constexpr CallSignature kReduceScatterBlock =
    in_place(collective(5, of_each(0, 2, 3), items(1, 2, 3)), of_each(1, 2, 3));
constexpr CallSignature kGather = rooted(Root::kFills, 7, items(0, 1, 2), kFromEach);
constexpr CallSignature kGatherv = rooted(Root::kFills, 8, items(0, 1, 2), blocks(3, 4, 5, 6));
constexpr CallSignature kScatter = rooted(Root::kSends, 7, kToEach, items(3, 4, 5));
constexpr CallSignature kScatterv = rooted(Root::kSends, 8, blocks(0, 1, 2, 3), items(4, 5, 6));
constexpr CallSignature kAllgather = synchronising(collective(6, items(0, 1, 2), kFromEach));
constexpr CallSignature kAllgatherv = collective(7, items(0, 1, 2), blocks(3, 4, 5, 6));
constexpr CallSignature kAlltoall = synchronising(collective(6, kToEach, kFromEach));
constexpr CallSignature kAlltoallv = collective(8, blocks(0, 1, 2, 3), blocks(4, 5, 6, 7));
constexpr CallSignature kAlltoallw =
    collective(8, blocks_of_types(0, 1, 2, 3), blocks_of_types(4, 5, 6, 7));

constexpr CallSignature neighbours(CallSignature data) {
  data.synchronises = false;
  data.sent = data.sent.of(Peers::kDestinations);
  data.filled = data.filled.of(Peers::kSources);
  return data;
}
constexpr CallSignature kNeighborAllgather = neighbours(kAllgather);
constexpr CallSignature kNeighborAllgatherv = neighbours(kAllgatherv);
constexpr CallSignature kNeighborAlltoall = neighbours(kAlltoall);
constexpr CallSignature kNeighborAlltoallv = neighbours(kAlltoallv);
constexpr CallSignature kNeighborAlltoallw = neighbours(collective(
    8, blocks_of_types(0, 1, 2, 3).with_addresses(), blocks_of_types(4, 5, 6, 7).with_addresses()));

constexpr CallSignature kReduceLocal{.arguments = 5,
                                     .body = &move,
                                     .sent = items(0, 2, 3),
                                     .filled = items(1, 2, 3),
                                     .fills_what_it_sends = true};
constexpr CallSignature kPack{
    .arguments = 7, .body = &pack, .sent = items(0, 1, 2), .filled = items(3, kNowhere, kNowhere)};
constexpr CallSignature kUnpack{.arguments = 7,
                                .body = &unpack,
                                .sent = items(0, kNowhere, kNowhere),
                                .filled = items(3, 4, 5)};
constexpr CallSignature kStart{.arguments = 1, .body = &start};
constexpr CallSignature kStartall{.arguments = 2, .body = &start_all};
constexpr CallSignature kParrived{.arguments = 3, .body = &look_at_part};

// A collective of which a request is made that is started later: with an argument more before it.
constexpr CallSignature init_of(const CallSignature& data) {
  CallSignature init = data.does(&refuse_device);
  ++init.arguments;
  return init.later();
}
// In these device memory is not followed.
constexpr CallSignature sends_only(size_t arguments, int buffer) {
  return {
      .arguments = arguments, .body = &refuse_device, .sent = items(buffer, kNowhere, kNowhere)};
}
constexpr CallSignature fills_only(size_t arguments, int buffer) {
  return {
      .arguments = arguments, .body = &refuse_device, .filled = items(buffer, kNowhere, kNowhere)};
}
constexpr CallSignature kPackExternal{.arguments = 7,
                                      .body = &refuse_device,
                                      .sent = items(1, kNowhere, kNowhere),
                                      .filled = items(4, kNowhere, kNowhere)};
constexpr CallSignature refused(size_t arguments) {
  return {.arguments = arguments, .body = &refuse};
}

// ---- exported names ----

struct Export {
  const char* symbol;
  const char* name;  // C's
  Form form;
  CallSignature data;
  std::atomic<Anything> real{nullptr};

  Word operator()(const Words& words) noexcept {
    auto next = real.load(std::memory_order_acquire);
    if (next == nullptr) [[unlikely]] {
      next = reinterpret_cast<Anything>(mpi_symbol(symbol));
      real.store(next, std::memory_order_release);
    }
    if (Guard::held() && next != nullptr) return call_with(next, words);
    int result = kOtherError;
    if (next != nullptr) {
      const Guard guard;
      MpiCall given(name, form, data.arguments, next, words);
      result = data.body(given, data);
    }
    if (form == Form::kC || form == Form::kCLarge) return static_cast<uint32_t>(result);
    auto* const error = reinterpret_cast<int*>(words[data.arguments]);
    if (error != nullptr) *error = result;
    return 0;
  }
};

}  // namespace
}  // namespace gpusnap::mpi

#pragma GCC visibility push(default)

// clang-format off
#define EXPORT(symbol, name, form, ...) \
  extern "C" gpusnap::mpi::Word symbol( \
      gpusnap::mpi::Word a0, gpusnap::mpi::Word a1, gpusnap::mpi::Word a2, \
      gpusnap::mpi::Word a3, gpusnap::mpi::Word a4, gpusnap::mpi::Word a5, \
      gpusnap::mpi::Word a6, gpusnap::mpi::Word a7, gpusnap::mpi::Word a8, \
      gpusnap::mpi::Word a9, gpusnap::mpi::Word a10, gpusnap::mpi::Word a11, \
      gpusnap::mpi::Word a12) { \
    using namespace gpusnap::mpi; \
    static constinit Export called{#symbol, name, Form::form, __VA_ARGS__}; \
    return called({a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12}); \
  }
#define FORTRAN(lower, name, ...) \
  EXPORT(lower##_, name, kFortran, __VA_ARGS__) \
  EXPORT(lower##_f08_, name, kF08, __VA_ARGS__)
#define CALL(lower, Name, ...) \
  EXPORT(MPI_##Name, "MPI_" #Name, kC, __VA_ARGS__) \
  FORTRAN(mpi_##lower, "MPI_" #Name, __VA_ARGS__) \
  EXPORT(mpi_##lower##_f08ts_, "MPI_" #Name, kF08ts, __VA_ARGS__)
#define CALL_AND_LARGE(lower, Name, ...) \
  CALL(lower, Name, __VA_ARGS__) \
  EXPORT(MPI_##Name##_c, "MPI_" #Name, kCLarge, __VA_ARGS__) \
  EXPORT(mpi_##lower##_f08ts_large_, "MPI_" #Name, kF08tsLarge, __VA_ARGS__)
// At once, and later.
#define CALLS(lower, Name, data) \
  CALL_AND_LARGE(lower, Name, data) \
  CALL_AND_LARGE(i##lower, I##lower, data.later())
// Also as requests that are made to be started, which Open MPI had before the standard did.
#define COLLECTIVES(lower, Name, data) \
  CALLS(lower, Name, data) \
  CALL_AND_LARGE(lower##_init, Name##_init, init_of(data)) \
  EXPORT(MPIX_##Name##_init, "MPIX_" #Name "_init", kC, init_of(data)) \
  FORTRAN(mpix_##lower##_init, "MPIX_" #Name "_init", init_of(data))
// clang-format on

#include "interpose/mpi/data_calls.inc"

#pragma GCC visibility pop
