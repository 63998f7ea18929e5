#include "interpose/mpi/process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "interpose/services/log.h"
#include "interpose/services/settings.h"
#include "interpose/session.h"
#include "interpose/snapshot/checkpointer.h"

namespace gpusnap::mpi {

namespace {
constexpr const char* kSeveralThreads = "MPI calls of several threads";
}  // namespace

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

bool Process::own_thread() {
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  pid_t known = thread_.load(std::memory_order_relaxed);
  if (known == self) return true;
  if (known == 0 && thread_.compare_exchange_strong(known, self)) return true;
  refuse(kSeveralThreads);
  return false;
}

void Process::refuse(const char* what) {
  if (library_ == nullptr) return;
  set_refused(what);
  Session::refuse_call(what);
}

void Process::initialised_now() {
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
  set_ranks(now);
  (void)coordination_.begin(*found, now);
  library_ = found;
  open_replay();
  Session::mpi_initialised(now);
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
  Session::impossible(kExitNoCheckpoint, "the ranks have found different checkpoints, up to " +
                                             std::to_string(all[0]) + " and down to " +
                                             std::to_string(-all[1]) +
                                             ": name the one to restore (gpusnap restore --id)");
}

void Process::open_replay() {
  uint64_t epoch = 0;
  auto reader = Session::open_outcomes(epoch);
  agree_on_restore(epoch);
  if (!reader.ok()) {
    // The session says so where there is one; a program without CUDA is not restored.
    log(LogLevel::kDebug, "no outcomes of MPI calls to repeat: ", reader.status().message());
    return;
  }
  reader_ = std::move(reader.value());
}

Ballot Process::cast_ballot() {
  return Session::cast_ballot();
}

void Process::count_collective() {
  Session::count_collective();
}

// Behind a collective of all ranks. `agreed`: what the ballots came to, where they are known.
void Process::decide(const char* name, const Ballot* agreed) {
  if (following() == nullptr) return;
  const uint64_t number = next_++;
  if (const auto recorded = this->recorded(name, number)) {
    if (first_of(*recorded) != 1) return;
    const Result<bool> last = reader_->at_end();
    if (!last.ok()) Session::impossible(kExitDamaged, last.status().message());
    Session::replay_cut_at_collective(name, last.value());
    if (last.value()) reader_.reset();
    return;
  }
  if (agreed != nullptr) Session::heed(*agreed);
  const bool cut =
      agreed != nullptr && agreed->wanted != 0 && agreed->unready == 0 && agreed->ended == 0;
  if (!cut || !Session::cut_at_collective(name, number, static_cast<uint64_t>(agreed->epoch))) {
    record(name, number, {0});
  }
}

std::optional<Values> Process::recorded(std::string_view name, uint64_t number) {
  if (reader_ == nullptr) return std::nullopt;
  auto values = reader_->take(name, number);
  if (!values.ok()) {
    const bool other = values.status().code() == Code::kInvalid;
    Session::impossible(
        other ? kExitDiverged : kExitDamaged,
        (other ? "the program does not repeat itself: MPI call " + std::to_string(number) + ": "
               : "") +
            values.status().message() + (other ? "; nothing was changed in the store" : ""));
  }
  if (values.value()) return std::move(values.value());
  // It was made after the cut.
  reader_.reset();
  Session::await_live(std::string(name).c_str());
  return std::nullopt;
}

std::optional<Values> Process::matched(uint64_t number) {
  if (reader_ == nullptr) return std::nullopt;
  auto values = reader_->matched(number);
  if (!values.ok()) Session::impossible(kExitDamaged, values.status().message());
  if (values.value() && values.value()->size() != 2) {
    Session::impossible(kExitDamaged, "the replay journal has a message without source and tag");
  }
  return std::move(values.value());
}

void Process::record(std::string_view name, uint64_t number, std::span<const int32_t> values) {
  if (Session::append_outcome(name, number, values)) return;
  keep_early({name, number, Values(values.begin(), values.end())});
}

void Process::opened(Handle request, uint64_t number) {
  open_[request] = number;
  set_open_receives(open_.size());
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
  process_.record(kMatched, open->second, {status[library_.source_at], status[library_.tag_at]});
  process_.open_.erase(open);
  set_open_receives(process_.open_.size());
}

}  // namespace gpusnap::mpi
