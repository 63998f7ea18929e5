#include "interpose/record/deliveries.h"

#include <algorithm>
#include <utility>

#include "interpose/services/mutation.h"
#include "tiers/checksum.h"

namespace gpusnap {

namespace {
// Queued on one stream and not known to be over. More are told apart no longer.
constexpr size_t kMostWritten = 512;

bool is_function(Deliveries::Moment moment) {
  return moment == Deliveries::Moment::kFunction || moment == Deliveries::Moment::kGraphFunction;
}

// Keeps the last write of each range.
void coalesce(HostWrite& write) {
  std::vector<HostWrite::Written> last;
  for (auto it = write.written.rbegin(); it != write.written.rend(); ++it) {
    const auto same = [&](const auto& each) { return each.range == it->range; };
    if (std::ranges::none_of(last, same)) last.push_back(*it);
  }
  write.written.assign(last.rbegin(), last.rend());
  write.is_coalesced = true;
}
}  // namespace

void Deliveries::add_copy(const HostBlock& block, const ProgressMark& mark, bool in_graph,
                          ProgramCopies::Ticket ticket) {
  copies_.push_back({copy_count_++, block, mark, in_graph, std::move(ticket)});
}

void Deliveries::forget_copies(uint64_t address, uint64_t size) {
  std::erase_if(copies_, [&](const Copy& copy) {
    const bool inside = reinterpret_cast<uint64_t>(copy.block.start) - address < size;
    if (inside) words_.give_back(copy.mark.word);
    return inside;
  });
}

bool Deliveries::take_expected(uint64_t number, uint64_t bytes, HostBlock& block) {
  const auto found = expected_.find(number);
  if (found == expected_.end() || found->second.bytes() != bytes) return false;
  block = found->second;
  expected_.erase(found);
  return true;
}

HostWrite* Deliveries::begin_write(CUcontext context, CUstream stream, uint64_t thread) {
  for (HostWrite& write : writes_) {
    if (write.is_open || write.context != context || write.stream != stream ||
        write.thread != thread || write.word == nullptr) {
      continue;
    }
    write.is_open = true;
    write.is_marked = write.in_graph = write.tells = false;
    return &write;
  }
  ProgressWord* const word = words_.take(context);
  if (word == nullptr) return nullptr;
  return &writes_.emplace_back(HostWrite{context, stream, thread, word});
}

void Deliveries::add_write(const WriteSet& set, HostWrite* write) {
  if (memory_.empty()) return;
  if (write == nullptr || !write->is_marked) return memory_.may_change(set);
  memory_.may_change_beyond(set);
  const uint32_t value = write->word == nullptr ? 0 : write->next_mark().value;
  auto& written = write->written;
  const auto may_be_replaced = [&](size_t at) {
    return at != 0 && (written[at - 1].value == value || write->is_coalesced);
  };
  memory_.for_each_range(set, [&](uint64_t range) {
    // The last ones are those that this call has added so far.
    size_t at = written.size();
    while (may_be_replaced(at) && written[at - 1].range != range) --at;
    const HostWrite::Written now{value, range, write->in_graph, write->tells};
    if (may_be_replaced(at)) {
      written[at - 1] = now;
    } else {
      written.push_back(now);
    }
  });
  if (written.size() > kMostWritten) coalesce(*write);
}

void Deliveries::end_write(HostWrite* write) {
  if (write == nullptr) return;
  write->is_open = false;
  if (write->is_marked && write->word != nullptr) ++write->word->issued;
}

void Deliveries::add_arrived(const WriteSet& set) {
  memory_.may_change_beyond(set);
  memory_.for_each_range(set, [this](uint64_t range) { arrived_.push_back(range); });
}

void Deliveries::forget_stream(CUstream stream) {
  for (HostWrite& write : writes_) {
    if (write.stream == stream) write.stream = nullptr;
  }
}

void Deliveries::forget_context(CUcontext context) {
  std::erase_if(copies_, [&](const Copy& copy) { return copy.mark.word->context == context; });
  for (HostWrite& write : writes_) {
    if (write.context != context) continue;
    write.word = nullptr;
    write.stream = nullptr;
  }
  words_.forget_context(context);
}

// In the order of their calls: of copies into the same place the later one comes later. False: a
// host function begins that may look at a copy within a graph, of which no mark tells.
bool Deliveries::take_copies(Moment moment) {
  bool told = true;
  const auto is_kept = [&](const Copy& copy) {
    if (!copy.mark.is_reached()) {
      told = told && !(is_function(moment) && copy.in_graph);
      return true;
    }
    if (is_function(moment) && mutated(Mutation::kDeliverLate)) return true;
    copy.block.for_each_row(
        [&](auto row) { memory_.note_copied(reinterpret_cast<uint64_t>(row.data()), row.size()); });
    deliveries_.push_back({{DeliveryHead::kCopy, copy.number, 0, copy.block.bytes()}, copy.block});
    words_.give_back(copy.mark.word);
    return false;
  };
  std::erase_if(copies_, [&](const Copy& copy) { return !is_kept(copy); });
  return told;
}

void Deliveries::look_for_writes(Moment moment) {
  look_.arrived.clear();
  look_.arrived.swap(arrived_);
  look_.doubtful.clear();
  for (HostWrite& write : writes_) {
    for (HostWrite::Written& each : write.written) {
      each.is_taken = write.has_reached(each.value);
      if (each.is_taken) {
        look_.arrived.push_back(each.range);
      } else if (write.is_coalesced ||
                 (each.in_graph && (each.tells || moment == Moment::kGraphFunction))) {
        look_.doubtful.push_back(each.range);
      }
    }
  }
}

// A place that the device has come to since is not among them: its range was not looked at.
void Deliveries::forget_taken() {
  for (HostWrite& write : writes_) {
    std::erase_if(write.written, [](const HostWrite::Written& each) { return each.is_taken; });
    if (write.written.empty()) write.is_coalesced = false;
  }
  std::erase_if(writes_, [this](const HostWrite& write) {
    if (!write.is_done() || !write.written.empty()) return false;
    if (write.word != nullptr) words_.give_back(write.word);
    return true;
  });
}

bool Deliveries::is_told(uint64_t range) const {
  const auto names = [range](const HostWrite::Written& each) { return each.range == range; };
  const auto writes = [&](const HostWrite& write) {
    return std::ranges::any_of(write.written, names);
  };
  return std::ranges::any_of(writes_, writes) ||
         std::ranges::find(arrived_, range) != arrived_.end();
}

void Deliveries::begin_watch() {
  watched_ = {};
  // Copies and host functions write where they like.
  if (!memory_.is_guessed() || !copies_.empty() || function_runs()) return;
  watched_ = memory_.next_untold([this](uint64_t range) { return is_told(range); });
  digest_ = checksum(watched_);
  functions_before_ = functions_begun_;
}

bool Deliveries::end_watch() {
  const auto watched = std::exchange(watched_, {});
  if (watched.empty() || functions_before_ != functions_begun_) return true;
  return checksum(watched) == digest_;
}

Deliveries::Taken Deliveries::collect(Moment moment, bool alone) {
  deliveries_.clear();
  Taken taken;
  if (!take_copies(moment)) {
    taken.doubt = "a host function beside a graph's copy into memory that is not page-locked";
  }
  look_for_writes(moment);
  look_.alone = alone;
  look_.functions_run = function_runs();
  if (!memory_.capture(look_, deliveries_, taken.flags)) {
    taken.doubt =
        "pinned or managed memory that host code has changed beside a kernel that may write to "
        "any of it (gpusnap explain), while a host function began or ran,";
  }
  forget_taken();
  if (moment == Moment::kIdle) memory_.is_settled();
  return taken;
}

}  // namespace gpusnap
