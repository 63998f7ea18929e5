#include "interpose/mpi/process.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "interpose/mpi/cut_barriers.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/services/settings.h"

namespace gpusnap::mpi {

Handle Requests::at(size_t index) const {
  Handle handle = 0;
  std::memcpy(&handle, place(index), bytes);
  return handle;
}

Process& Process::get() {
  // Never deleted: MPI calls may come from destructors that run after ours.
  static auto* const process = new Process;
  return *process;
}

bool Process::meet_thread() {
  const void* nobody = nullptr;
  if (thread_.compare_exchange_strong(nobody, &self_)) return true;
  refuse("MPI calls of several threads");
  // The data that their requests send and receive would not be where they look for it.
  if (has_bound_.load(std::memory_order_relaxed)) {
    fatal(kExitImpossible,
          "another thread makes MPI calls, and the restored run has persistent "
          "requests with device memory, which are followed for one thread only");
  }
  return false;
}

void Process::refuse(const char* what) {
  if (library_ == nullptr) return;
  set_refused(what);
  control_->refuse_call(what);
}

void Process::initialised_now(CutControl& control) {
  const Library* found = library();
  Ranks now = ranks();
  int rank = 0, size = 1;
  if (found == nullptr || found->comm_rank(found->world, &rank) != kSuccess ||
      found->comm_size(found->world, &size) != kSuccess || rank < 0 || size <= rank) {
    if (initialised()) return;
    log(LogLevel::kWarn, "no checkpoints over ranks: this MPI library is none that is known");
    return;
  }
  now.rank = static_cast<uint32_t>(rank);
  now.ranks = static_cast<uint32_t>(size);
  (void)coordination_.begin(*found, now, parse_settings(environ).settings.every.barriers);
  set_ranks(now, coordination_.job_run());
  control_ = &control;
  library_ = found;
  open_replay();
  control_->initialised(now);
}

void Process::finalising() {
  coordination_.end();
  library_ = nullptr;
}

// Which checkpoint is restored is settled before any rank replays: with `latest` each of them has
// looked by itself.
void Process::agree_on_restore(uint64_t epoch) const {
  if (!coordination_.active()) return;
  const int own[2] = {static_cast<int>(epoch), -static_cast<int>(epoch)};
  int all[2] = {0, 0};
  if (!coordination_.greatest(own, all, 2) || all[0] == -all[1]) return;
  fatal(kExitNoCheckpoint, "the ranks have found different checkpoints, up to " +
                               std::to_string(all[0]) + " and down to " + std::to_string(-all[1]) +
                               ": name the one to restore (gpusnap restore --id)");
}

void Process::open_replay() {
  uint64_t epoch = 0;
  auto reader = control_->open_outcomes(epoch);
  agree_on_restore(epoch);
  if (!reader.ok()) {
    // The session says so where there is one; a program without CUDA is not restored.
    log(LogLevel::kDebug, "no outcomes of MPI calls to repeat: ", reader.status().message());
    return;
  }
  reader_ = std::move(reader.value());
}

Ballot Process::cast_ballot() {
  return get().control_->cast_ballot();
}

void Process::count_collective() {
  if (coordination_.begin_collective()) control_->make_due_by_count();
}

// After a collective of all ranks. `agreed`: what the ballots came to, if they are known.
void Process::decide(const char* name, const Ballot* agreed) {
  if (following() == nullptr) return;
  const uint64_t number = next_++;
  if (const auto recorded = this->recorded(name, number)) {
    if (first_of(*recorded) == kIsCut) replay_cut(name, recorded->size() > 1);
    return;
  }
  if (agreed != nullptr) control_->apply_agreement(*agreed);
  const bool due =
      agreed != nullptr && agreed->wanted != 0 && agreed->unready == 0 && agreed->ended == 0;
  if (due && cut(name, number, *agreed)) return;
  if (uncut_.count == 0 || uncut_.name != name || uncut_.first + uncut_.count != number) {
    journal_uncut();
    uncut_ = {name, number, 0};
  }
  ++uncut_.count;
}

// One rank may write what another saves, and read what it loads: then they wait for each other.
bool Process::cut(const char* name, uint64_t number, const Ballot& agreed) {
  journal_uncut();
  constexpr int kMeetings = 2;  // all have run empty, all that is shared has been read
  CutBarriers cut_barriers([this](bool well) { return coordination_.meet(well); },
                           agreed.shares != 0 ? kMeetings : 0, agreed.wanted >= kStop);
  return control_->cut_at_collective(name, number, agreed, cut_barriers);
}

void Process::replay_cut(const char* name, bool shared) {
  const Result<bool> last = reader_->at_end();
  if (!last.ok()) fatal(kExitDamaged, last.status().message());
  CutBarriers cut_barriers([this](bool well) { return coordination_.meet(well); },
                           shared && last.value() ? 1 : 0, false);
  control_->replay_cut_at_collective(name, last.value(), cut_barriers);
  if (last.value()) reader_.reset();
}

void Process::journal_uncut() {
  if (uncut_.count == 0) return;
  const Uncut run = std::exchange(uncut_, {});
  const int32_t not_cut = 0;
  record(run.name, run.first, {&not_cut, 1}, run.count);
}

void Process::cannot_repeat(uint64_t number, const Status& why) {
  if (why.code() != Code::kInvalid) fatal(kExitDamaged, why.message());
  fatal(kExitDiverged, "the program does not repeat itself: MPI call " + std::to_string(number) +
                           ": " + why.message() + "; nothing was changed in the store");
}

std::optional<Values> Process::recorded(std::string_view name, uint64_t number) {
  if (reader_ == nullptr) return std::nullopt;
  auto values = reader_->take(name, number);
  if (!values.ok()) cannot_repeat(number, values.status());
  if (values.value()) return std::move(values.value());
  // It was made after the cut.
  reader_.reset();
  control_->await_live(std::string(name).c_str());
  return std::nullopt;
}

std::optional<Values> Process::matched(uint64_t number) {
  if (reader_ == nullptr) return std::nullopt;
  auto values = reader_->matched(number);
  if (!values.ok()) fatal(kExitDamaged, values.status().message());
  if (values.value() && values.value()->size() != 2) {
    fatal(kExitDamaged, "the replay journal has a message without source and tag");
  }
  return std::move(values.value());
}

void Process::record(std::string_view name, uint64_t number, std::span<const int32_t> values,
                     uint64_t count) {
  journal_uncut();
  if (control_->append_outcome(name, number, values, count)) return;
  keep_early({name, number, Values(values.begin(), values.end()), count});
}

Process::Open& Process::opened(Handle request) {
  Open& open = open_[request];
  tell_open();
  return open;
}

int Process::rank_in(Handle communicator) const {
  int rank = -1;
  if (library_ != nullptr) (void)library_->comm_rank(communicator, &rank);
  return rank;
}

int Process::size_of(Handle communicator) const {
  int size = 0;
  if (library_ != nullptr) (void)library_->comm_size(communicator, &size);
  return size;
}

bool Process::is_between_groups(Handle communicator) const {
  int inter = 0;
  if (library_ != nullptr) (void)library_->comm_test_inter(communicator, &inter);
  return inter != 0;
}

Process::Degrees Process::degrees_of(Handle communicator) const {
  Degrees degrees;
  int topology = kUndefined;
  const Library* const l = library_;
  if (l == nullptr || l->topo_test(communicator, &topology) != kSuccess) return degrees;
  if (topology == l->cart) {
    int dimensions = 0;
    (void)l->cartdim_get(communicator, &dimensions);
    degrees = {2 * dimensions, 2 * dimensions};
  } else if (topology == l->graph) {
    (void)l->graph_neighbors_count(communicator, rank_in(communicator), &degrees.in);
    degrees.out = degrees.in;
  } else if (topology == l->dist_graph) {
    int weighted = 0;
    (void)l->dist_graph_neighbors_count(communicator, &degrees.in, &degrees.out, &weighted);
  }
  return degrees;
}

bool Process::lies_on_device(const Library& library, const char* name, const Buffer& buffer) {
  const Span span = span_of(library, buffer);
  auto* const first = static_cast<std::byte*>(buffer.start) + span.offset;
  if (!control_->holds_device_memory(first, span.bytes)) return false;
  // A type that says where memory is may have some of the host's, too.
  if (buffer.start != nullptr && control_->is_device_memory(first) &&
      control_->is_device_memory(first + span.bytes - 1)) {
    return true;
  }
  refuse_device_in(name);
  return false;
}

bool Process::is_to_be_kept_aside(const Library& library, const Buffer& buffer) const {
  if (reader_ == nullptr || buffer.is_empty()) return false;
  const Span span = span_of(library, buffer);
  return span.bytes != 0 &&
         control_->is_seen_by_device(static_cast<std::byte*>(buffer.start) + span.offset);
}

bool Process::repeat_read(const char* name, uint64_t number, std::span<std::byte> bytes) {
  const auto recorded = this->recorded(name, number);
  if (!recorded) return false;
  const Status same = bytes_of(*recorded, bytes.data(), bytes.size());
  if (!same.ok()) cannot_repeat(number, same);
  return true;
}

BounceBuffer Process::read_once(const Library& library, const char* name, const Buffer& buffer) {
  const Span span = span_of(library, buffer);
  const uint64_t number = next_++;
  if (reader_ != nullptr) {
    BounceBuffer stand(span);
    if (repeat_read(name, number, stand.all())) return stand;
  }
  std::vector<std::byte> bytes(span.bytes);
  const Status read =
      control_->read_device(static_cast<std::byte*>(buffer.start) + span.offset, bytes);
  if (read.ok()) {
    record(name, number, values_of(bytes));
  } else {
    // The call will find out itself; without these bytes nothing can be repeated.
    refuse_device_in(name);
  }
  return {};
}

bool Process::note_write(const char* name, const std::byte* first, uint64_t bytes) {
  const uint64_t number = next_++;
  if (recorded(name, number)) return true;
  record(name, number, {});
  // After the record, which waits for the cut that another thread may be making.
  control_->about_to_write(first, bytes);
  return false;
}

BounceBuffer Process::written(const Library& library, const char* name, const Buffer& buffer) {
  const Span span = span_of(library, buffer);
  const auto* const first = static_cast<std::byte*>(buffer.start) + span.offset;
  return note_write(name, first, span.bytes) ? BounceBuffer(span) : BounceBuffer();
}

void Process::arrived(Handle request) {
  const auto open = open_.find(request);
  if (open == open_.end()) return;
  for (BounceBuffer& stand : open->second.stands) stand.give_back();
  const auto persistent = persistent_.find(request);
  if (persistent != persistent_.end()) arrived(persistent->second);
}

// ---- requests that are started any number of times ----

Process::Memory Process::memory_at(const std::byte* first, bool receives) const {
  if (control_->is_device_memory(first)) return Memory::kDevice;
  return receives && control_->is_seen_by_device(first) ? Memory::kSeenByDevice : Memory::kHost;
}

Process::Persistent Process::persistent_of(const Library& library, const char* name,
                                           const Buffer& buffer, bool receives) {
  const Span span = span_of(library, buffer);
  Persistent persistent{.name = name,
                        .first = static_cast<std::byte*>(buffer.start) + span.offset,
                        .bytes = span.bytes,
                        .receives = receives};
  if (span.bytes == 0) return persistent;
  if (begins_on_device(library, name, buffer)) {
    persistent.memory = Memory::kDevice;
    persistent.dense = is_dense(library, buffer);
  } else if (memory_at(persistent.first, receives) == Memory::kSeenByDevice) {
    persistent.memory = Memory::kSeenByDevice;
  }
  if (reader_ == nullptr) return persistent;
  if (persistent.memory == Memory::kDevice) persistent.stand = BounceBuffer(span);
  if (persistent.memory == Memory::kSeenByDevice)
    persistent.stand = BounceBuffer::aside_of(span, buffer);
  if (persistent.stand.is_used()) has_bound_.store(true, std::memory_order_relaxed);
  return persistent;
}

void Process::start_one(Handle request) {
  const auto found = persistent_.find(request);
  if (found == persistent_.end()) return;
  Persistent& persistent = found->second;
  const bool bound = persistent.stand.is_used();
  if (!bound && memory_at(persistent.first, persistent.receives) != persistent.memory) {
    refuse("a persistent request whose memory has changed hands since");
    return;
  }
  if (persistent.memory == Memory::kHost) return;
  // While recording, what comes into host memory is nobody's concern.
  if (persistent.memory == Memory::kSeenByDevice && !bound) return;
  persistent.receives ? start_receive(persistent) : start_send(persistent);
  (void)opened(request);
}

void Process::start_send(Persistent& persistent) {
  const uint64_t number = next_++;
  BounceBuffer& stand = persistent.stand;
  if (reader_ != nullptr && repeat_read(persistent.name, number, stand.all())) return;
  std::vector<std::byte> bytes(persistent.bytes);
  const Status read = control_->read_device(persistent.first, bytes);
  if (stand.is_used()) {
    must(read, persistent.name);
    std::ranges::copy(bytes, stand.bytes());
  }
  if (!read.ok()) return refuse_device_in(persistent.name);
  record(persistent.name, number, values_of(bytes));
}

void Process::start_receive(Persistent& persistent) {
  BounceBuffer& stand = persistent.stand;
  if (persistent.memory == Memory::kSeenByDevice) return stand.begin_again();
  if (note_write(persistent.name, persistent.first, persistent.bytes)) return;
  persistent.to_device = stand.is_used();
  if (!persistent.to_device) return;
  must(control_->read_device(persistent.first, stand.all()), persistent.name);
  stand.begin();
}

void Process::arrived(Persistent& persistent) {
  if (persistent.memory == Memory::kSeenByDevice) return persistent.stand.give_back();
  if (!persistent.to_device) return;
  for (const Span& run : persistent.stand.received(persistent.dense)) {
    must(control_->write_device(
             persistent.first + run.offset,
             persistent.stand.all().subspan(static_cast<size_t>(run.offset), run.bytes)),
         persistent.name);
  }
  persistent.to_device = false;
}

void Process::must(const Status& status, const char* name) {
  if (status.ok()) return;
  fatal(kExitImpossible, std::string("device memory of a request by ") + name +
                             " cannot be copied: " + status.message());
}

void Process::refuse_device_in(const char* name) {
  // Said once, and then there is nothing more to say.
  static std::string what;
  if (what.empty()) what = std::string("device memory in ") + name;
  refuse(what.c_str());
}

void Process::refuse_seen_in(const char* name) {
  static std::string what;
  if (what.empty()) what = std::string("host memory that the device sees in ") + name;
  refuse(what.c_str());
}

double Process::time(double (*now)()) {
  if (following() == nullptr) return now() + time_offset_;
  const uint64_t number = next_++;
  std::array<int32_t, 2> words{};
  static_assert(sizeof words == sizeof(double));
  double value = 0;
  if (const auto recorded = this->recorded("MPI_Wtime", number)) {
    if (recorded->size() == words.size()) std::memcpy(&value, recorded->data(), sizeof value);
    last_time_ = value;
    return value;
  }
  value = now();
  if (last_time_) time_offset_ = *std::exchange(last_time_, std::nullopt) - value;
  value += time_offset_;
  std::memcpy(words.data(), &value, sizeof value);
  record("MPI_Wtime", number, words);
  return value;
}

Process::Completed::Completed(Process& process, const Library& library, const Requests& requests,
                              int* statuses, size_t count)
    : process_(process), library_(library), statuses_(statuses) {
  if (process.open_.empty()) return;
  requests_.reserve(requests.count);
  for (size_t i = 0; i < requests.count; ++i) requests_.push_back(requests.at(i));
  if (reinterpret_cast<uintptr_t>(statuses) != library.status_ignore) return;
  own_.resize(std::max<size_t>(count, 1) * kMostStatusInts);
  statuses_ = own_.data();
}

void Process::Completed::note(size_t index, size_t place) {
  if (requests_.empty()) return;
  const auto open = process_.open_.find(requests_[index]);
  if (open == process_.open_.end()) return;
  const int* const status = statuses_ + place * library_.status_ints;
  if (open->second.posted != 0) {
    process_.record(kMatched, open->second.posted,
                    {status[library_.source_at], status[library_.tag_at]});
  }
  process_.arrived(requests_[index]);
  process_.open_.erase(open);
  process_.tell_open();
}

}  // namespace gpusnap::mpi
