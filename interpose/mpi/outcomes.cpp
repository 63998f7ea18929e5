#include "interpose/mpi/outcomes.h"

#include <cstring>
#include <utility>

namespace gpusnap::mpi {

namespace {
Status damaged(const char* what) {
  return {Code::kDamaged, std::string("the replay journal is damaged: ") + what};
}
}  // namespace

Result<std::unique_ptr<OutcomeReader>> OutcomeReader::open(FileSystem& files,
                                                           const std::string& folder,
                                                           const Manifest& manifest) {
  auto replayer = Replayer::open(files, folder, manifest.journal, manifest.calls);
  if (!replayer.ok()) return replayer.status();
  return std::make_unique<OutcomeReader>(std::move(replayer.value()));
}

Result<bool> OutcomeReader::read_one() {
  Entry entry;
  while (!ended_) {
    const Result<bool> any = replayer_->next_if_any(entry);
    if (!any.ok()) return any.status();
    ended_ = !any.value();
    if (ended_) break;
    if (Status skipped = replayer_->skip_deliveries(entry); !skipped.ok()) return skipped;
    if (entry.head.hook != kOutcomeEntry) continue;
    const bool has_count = entry.words.size() == 2;
    if ((!has_count && entry.words.size() != 1) || entry.answer.size() % sizeof(int32_t) != 0 ||
        (has_count && (entry.words[1] == 0 || entry.words[1] > UINT64_MAX - entry.words[0]))) {
      return damaged("an outcome of an MPI call makes no sense");
    }
    Outcome outcome{std::move(entry.name), entry.words[0], has_count ? entry.words[1] : 1, {}};
    outcome.values.resize(entry.answer.size() / sizeof(int32_t));
    if (!entry.answer.empty()) {
      std::memcpy(outcome.values.data(), entry.answer.data(), entry.answer.size());
    }
    if (outcome.name == kMatched) {
      matched_[outcome.number] = std::move(outcome.values);
    } else {
      ahead_.push_back(std::move(outcome));
    }
    return true;
  }
  return false;
}

Result<std::optional<Values>> OutcomeReader::take(std::string_view name, uint64_t number) {
  for (;;) {
    while (!ahead_.empty() && ahead_.front().last() < number) ahead_.pop_front();
    if (!ahead_.empty()) break;
    const Result<bool> any = read_one();
    if (!any.ok()) return any.status();
    if (!any.value()) return std::optional<Values>();
  }
  const Outcome& outcome = ahead_.front();
  if (outcome.number > number) return std::optional<Values>();
  if (outcome.name != name) {
    return Status(Code::kInvalid, "expected " + outcome.name + ", got " + std::string(name));
  }
  std::optional<Values> values(outcome.values);
  if (outcome.last() == number) ahead_.pop_front();
  return values;
}

Result<std::optional<Values>> OutcomeReader::matched(uint64_t posted) {
  for (;;) {
    auto found = matched_.extract(posted);
    if (!found.empty()) return std::optional(std::move(found.mapped()));
    const Result<bool> any = read_one();
    if (!any.ok()) return any.status();
    if (!any.value()) return std::optional<Values>();
  }
}

Result<bool> OutcomeReader::at_end() {
  while (ahead_.empty()) {
    const Result<bool> any = read_one();
    if (!any.ok()) return any.status();
    if (!any.value()) return true;
  }
  return false;
}

}  // namespace gpusnap::mpi
