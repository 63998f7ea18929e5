#include "interpose/process/saved_readings.h"

#include <pthread.h>

#include <cstdlib>
#include <memory>

#include "interpose/hook/hook.h"
#include "interpose/mpi/state.h"
#include "interpose/nondeterminism/clocks.h"
#include "interpose/nondeterminism/value_log.h"
#include "interpose/process/restored_rank.h"
#include "interpose/services/fatal.h"
#include "interpose/services/program.h"
#include "interpose/services/program_mark.h"
#include "interpose/services/settings.h"
#include "tiers/file_system.h"

namespace gpusnap::nondeterminism {

namespace {

constinit uint64_t epoch = 0;
constinit bool has_none = false;  // of that checkpoint
constinit bool is_switched_off = false;

// Where the tool has marked the restored program, another one need not look any further.
bool may_be_restored() {
  const char* const restore = std::getenv("GPUSNAP_RESTORE");
  if (restore == nullptr || *restore == '\0') return false;
  const char* const mark = std::getenv(kRestoredProgram);
  return mark == nullptr || *mark == '\0' || own_program_mark() == mark;
}

// Finds the checkpoint to restore in this process. An error if the process is not the checkpoint's
// program: the session will say so, or nobody if the process never uses CUDA.
Result<RestoredRank> find() {
  const Settings settings = parse_settings(environ).settings;
  if (settings.reload) return Status(Code::kNotFound, "nothing is repeated");
  const auto program = identify_program();
  if (!program.ok()) return program.status();
  const auto store = Store::open(posix_file_system(), settings.pfs, false);
  if (!store.ok()) return store.status();
  const std::string job = job_of(settings, program.value());
  auto found = find_rank(settings, *store.value(), restore_id(settings, job), mpi::ranks());
  if (!found.ok()) return found.status();
  const ProgramIdentity& saved = found->manifest().program;
  const AllowedDifferences& allowed = settings.allowed;
  const bool same = (saved.path == program->path || allowed.program) &&
                    (saved.arguments == program->arguments || allowed.arguments);
  if (!same) return Status(Code::kInvalid, "it is the checkpoint of another program");
  return found;
}

// Whether they can be given.
Status check(const std::vector<SavedReading>& readings) {
  const auto damaged = [](const char* what) {
    return Status(Code::kDamaged, std::string("what it has of clocks and random bytes ") + what);
  };
  for (const SavedReading& reading : readings) {
    if (reading.source >= kSources) return damaged("is from nowhere");
    if (reading.thread.empty() || reading.thread.size() >= kThreadPathText) {
      return damaged("is of no thread");
    }
    int64_t last = 0;
    const auto* const first = reinterpret_cast<const std::byte*>(reading.bytes.data());
    if (static_cast<Source>(reading.source) != Source::kRandom &&
        !are_numbers(first, reading.bytes.size(), last)) {
      return damaged("ends within a number");
    }
  }
  return {};
}

// They live as long as the process.
void give(const std::vector<SavedReading>& readings) {
  auto* const kept = new std::vector<SavedReading>(readings);
  std::vector<Given> given;
  for (const SavedReading& reading : *kept) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(reading.bytes.data());
    const auto source = static_cast<Source>(reading.source);
    given.push_back({reading.thread.c_str(), source, reading.ended, bytes, reading.bytes.size()});
    int64_t last = 0;
    const bool is_clock = source != Source::kRandom && source != Source::kHistory;
    if (is_clock && are_numbers(bytes, reading.bytes.size(), last)) {
      clock_was_at(source, last);
    }
  }
  begin(given.data(), given.size());
}

// Before the program's first line. Requests that libraries made earlier are not followed.
[[gnu::constructor]] void begin_following() {
  const char* const wanted = std::getenv("GPUSNAP_OUTSIDE");
  is_switched_off = wanted != nullptr && std::string_view(wanted) == "real";
  if (is_switched_off) return;
  pthread_atfork(nullptr, count_fork, begin_again_in_child);
  const Guard guard;  // nor is it the program that opens files
  if (!may_be_restored()) return begin(nullptr, 0);
  const auto found = find();
  if (!found.ok()) return begin(nullptr, 0);
  const RestoredRank& restored = found.value();
  if (const Status good = check(restored.manifest().readings); !good.ok()) {
    fatal(kExitDamaged, restored.checkpoint.id + ": " + good.message());
  }
  give(restored.manifest().readings);
  epoch = restored.checkpoint.epoch;
  has_none = restored.manifest().readings.empty();
}

}  // namespace

std::vector<SavedReading> readings() {
  std::vector<SavedReading> all;
  for_each_series([&](const char* thread, Source source, const ValueLog& series) {
    SavedReading reading{thread, static_cast<uint8_t>(source), series.ended(), {}};
    series.for_each_piece([&](const std::byte* bytes, size_t size) {
      reading.bytes.append(reinterpret_cast<const char*>(bytes), size);
    });
    if (!reading.bytes.empty() || reading.ended) all.push_back(std::move(reading));
  });
  return all;
}

uint64_t given_epoch() {
  return epoch;
}

const char* doubt() {
  if (is_switched_off) return "clocks and random bytes were not repeated: GPUSNAP_OUTSIDE=real";
  if (epoch == 0) {
    return "clocks and random bytes were not repeated: it was not known when the program began "
           "that it is this checkpoint's";
  }
  if (has_none && !readings().empty()) {
    return "the run of the checkpoint had no clocks and random bytes noted (GPUSNAP_OUTSIDE): they "
           "were not repeated";
  }
  if (has_missed_any()) {
    return "clocks and random bytes were repeated in part: the checkpoint has no more of a thread "
           "that asked for very many";
  }
  return nullptr;
}

}  // namespace gpusnap::nondeterminism
