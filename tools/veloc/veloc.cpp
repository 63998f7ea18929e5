// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/veloc.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "interpose/services/log.h"
#include "tiers/checksum.h"
#include "tiers/clock.h"
#include "tiers/no_throw.h"
#include "tools/veloc/client.h"

namespace gpusnap::veloc {
namespace {

class SingleProcess final : public Ranks {
 public:
  explicit SingleProcess(uint32_t id) : id_(id) {}
  uint32_t rank() const override { return 0; }
  uint32_t ranks() const override { return 1; }
  std::string suffix() const override { return id_ == 0 ? "" : "-" + std::to_string(id_); }
  Status least(std::vector<int64_t>&) override { return {}; }

 private:
  const uint32_t id_;
};

class JobRanks final : public Ranks {
 public:
  explicit JobRanks(const gpusnap_veloc_ranks& ranks) : ranks_(ranks) {}
  JobRanks(const JobRanks&) = delete;
  JobRanks& operator=(const JobRanks&) = delete;
  ~JobRanks() override { ranks_.release(ranks_.context); }

  uint32_t rank() const override { return static_cast<uint32_t>(ranks_.rank); }
  uint32_t ranks() const override { return static_cast<uint32_t>(ranks_.ranks); }
  std::string suffix() const override { return {}; }
  Status least(std::vector<int64_t>& numbers) override {
    std::vector<long long> all(numbers.begin(), numbers.end());
    if (ranks_.least(ranks_.context, all.data(), static_cast<int>(all.size())) != 0) {
      return {Code::kIo, "MPI could not reduce numbers over the job's ranks"};
    }
    numbers.assign(all.begin(), all.end());
    return {};
  }

 private:
  const gpusnap_veloc_ranks ranks_;
};

// Between VELOC_Init() and VELOC_Finalize(). A program that ends without the latter has threads of
// it running to its end, so it is not destroyed by itself.
Client* client = nullptr;
pid_t owner = 0;

int told(const std::string& what, const Status& status) {
  if (status.ok()) return VELOC_SUCCESS;
  log(LogLevel::kError, "cannot ", what, ": ", status.message());
  return VELOC_FAILURE;
}

// Runs `work` with the client. `what` says what is being done: "write demo@3".
template <class Work>
int with_client(const std::string& what, Work work) noexcept {
  try {
    if (client == nullptr) return told(what, {Code::kInvalid, "call VELOC_Init() first"});
    if (owner != getpid()) {
      return told(what, {Code::kInvalid, "a forked process cannot use its parent's checkpoints"});
    }
    return told(what, no_throw(what.c_str(), [&] { return work(*client); }));
  } catch (...) {
    return VELOC_FAILURE;
  }
}

std::string id_of(const char* name, int version) {
  return std::string(name != nullptr ? name : "checkpoint") + "@" + std::to_string(version);
}

std::optional<std::string> optional_name(const char* name) {
  return name == nullptr ? std::nullopt : std::optional<std::string>(name);
}

Result<Selection> selection_of(int mode, const int* ids, int count) {
  Selection selection;
  if (mode == VELOC_CKPT_ALL) return selection;
  if ((mode != VELOC_CKPT_SOME && mode != VELOC_CKPT_REST) || count < 0 ||
      (ids == nullptr && count > 0)) {
    return Status(Code::kInvalid, "the mode is none of ALL, SOME and REST, or the list is none");
  }
  selection.mode = mode == VELOC_CKPT_SOME ? Selection::Mode::kSome : Selection::Mode::kRest;
  selection.ids.insert(ids, ids + count);
  return selection;
}

// The kernel's, as text: random bytes from elsewhere are the same in a replay.
Result<int64_t> draw() {
  std::ifstream file("/proc/sys/kernel/random/uuid");
  std::string uuid;
  if (!std::getline(file, uuid) || uuid.empty()) {
    return Status(Code::kIo, "cannot read a random number from /proc/sys/kernel/random/uuid");
  }
  return static_cast<int64_t>(checksum(uuid) >> 1);
}

// The library that checkpoints the program as a whole, if it is preloaded.
struct PreloadedLibrary {
  int64_t (*const same_as_recorded)(int64_t) =
      reinterpret_cast<int64_t (*)(int64_t)>(dlsym(RTLD_DEFAULT, "gpusnap_same_as_recorded"));
  bool (*const history_folder)(const char*) =
      reinterpret_cast<bool (*)(const char*)>(dlsym(RTLD_DEFAULT, "gpusnap_history_folder"));

  bool is_here() const { return same_as_recorded != nullptr && history_folder != nullptr; }
  void tell_of_folder(const std::string& folder) const {
    if (folder.empty() || history_folder(folder.c_str())) return;
    log(LogLevel::kWarn, "the program's checkpoints in ", folder,
        " are taken for its input, since there are too many such folders: 'gpusnap restore' may "
        "refuse them as changed");
  }
};

// Programs change their working folder; checkpoints stay where they were.
void make_absolute(std::string& folder) {
  if (!folder.empty()) folder = std::filesystem::absolute(folder).lexically_normal();
}

Status begin(std::unique_ptr<Ranks> ranks, const char* file) {
  if (client != nullptr) return {Code::kInvalid, "it was begun already"};
  if (file == nullptr) return {Code::kInvalid, "it needs a configuration file"};
  const Result<ParsedConfig> parsed = read_config(file);
  if (!parsed.ok()) return parsed.status();
  if (ranks->rank() == 0) {
    for (const std::string& line : parsed->warnings) log(LogLevel::kWarn, file, ": ", line);
  }
  Config config = parsed->config;
  make_absolute(config.scratch);
  make_absolute(config.persistent);
  Client::Surroundings surroundings = {
      posix_file_system(), monotonic_clock(), memory_of_this_thread, draw, {}};
  if (const PreloadedLibrary preloaded; preloaded.is_here()) {
    surroundings.same_as_recorded = preloaded.same_as_recorded;
    preloaded.tell_of_folder(config.scratch);
    preloaded.tell_of_folder(config.persistent);
  }
  Result<std::unique_ptr<Client>> created = Client::create(config, std::move(ranks), surroundings);
  if (!created.ok()) return created.status();
  client = created.value().release();
  owner = getpid();
  return {};
}

}  // namespace
}  // namespace gpusnap::veloc

using gpusnap::Result;
using gpusnap::Status;
using namespace gpusnap::veloc;

extern "C" {

int gpusnap_veloc_init(const gpusnap_veloc_ranks* ranks, const char* cfg_file) {
  return told("begin a history of checkpoints", gpusnap::no_throw("begin", [&] {
                return begin(std::make_unique<JobRanks>(*ranks), cfg_file);
              }));
}

int VELOC_Init_single(unsigned int id, const char* cfg_file) {
  return told("begin a history of checkpoints", gpusnap::no_throw("begin", [&] {
                return begin(std::make_unique<SingleProcess>(id), cfg_file);
              }));
}

int VELOC_Finalize(int drain) {
  const int result = with_client("end a history of checkpoints",
                                 [&](Client& own) { return own.finish(drain != 0); });
  if (owner != getpid()) return result;
  delete client;
  client = nullptr;
  return result;
}

int VELOC_Mem_protect(int id, void* ptr, size_t count, size_t base_size) {
  return with_client("protect memory " + std::to_string(id), [&](Client& own) -> Status {
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, base_size, &bytes) || (ptr == nullptr && bytes > 0)) {
      return {gpusnap::Code::kInvalid, "it is no memory"};
    }
    own.protect(id, ptr, bytes);
    return {};
  });
}

int VELOC_Mem_unprotect(int id) {
  return with_client("unprotect memory " + std::to_string(id),
                     [&](Client& own) { return own.unprotect(id); });
}

int VELOC_Mem_clear(void) {
  return with_client("unprotect memory", [&](Client& own) {
    own.unprotect_all();
    return Status();
  });
}

int VELOC_Checkpoint(const char* name, int version) {
  return with_client("write " + id_of(name, version), [&](Client& own) {
    return own.checkpoint(optional_name(name).value_or(""), version);
  });
}

int VELOC_Checkpoint_begin(const char* name, int version) {
  return with_client("begin " + id_of(name, version), [&](Client& own) {
    return own.begin_checkpoint(optional_name(name).value_or(""), version);
  });
}

int VELOC_Checkpoint_mem(void) {
  return VELOC_Checkpoint_selective(VELOC_CKPT_ALL, nullptr, 0);
}

int VELOC_Checkpoint_selective(int mode, int* ids, int id_count) {
  return with_client("save memory", [&](Client& own) {
    const Result<Selection> selection = selection_of(mode, ids, id_count);
    return selection.ok() ? own.save(selection.value()) : selection.status();
  });
}

int VELOC_Checkpoint_end(int success) {
  return with_client("end a checkpoint",
                     [&](Client& own) { return own.end_checkpoint(success != 0); });
}

int VELOC_Checkpoint_wait(void) {
  return with_client("flush checkpoints", [](Client& own) { return own.wait_until_durable(); });
}

int VELOC_Backend_ready(void) {
  bool is_ready = false;
  const int result = with_client("look after checkpoints", [&](Client& own) {
    is_ready = own.is_durable();
    return Status();
  });
  return result == VELOC_SUCCESS ? static_cast<int>(is_ready) : VELOC_FAILURE;
}

int VELOC_Restart_test(const char* name, int version) {
  int found = VELOC_FAILURE;
  (void)with_client("look for checkpoints", [&](Client& own) -> Status {
    const Result<uint64_t> newest = own.newest(optional_name(name).value_or(""), version);
    // That there is none is an answer.
    if (newest.status().code() == gpusnap::Code::kNotFound) return {};
    if (newest.ok()) found = static_cast<int>(newest.value());
    return newest.status();
  });
  return found;
}

int VELOC_Restart(const char* name, int version) {
  return with_client("restore " + id_of(name, version),
                     [&](Client& own) { return own.restart(optional_name(name), version); });
}

int VELOC_Restart_begin(const char* name, int version) {
  return with_client("restore " + id_of(name, version),
                     [&](Client& own) { return own.begin_restart(optional_name(name), version); });
}

int VELOC_Recover_mem(void) {
  return VELOC_Recover_selective(VELOC_RECOVER_ALL, nullptr, 0);
}

int VELOC_Restart_mem(int mode, int* ids, int id_count) {
  return VELOC_Recover_selective(mode, ids, id_count);
}

int VELOC_Recover_selective(int mode, int* ids, int id_count) {
  return with_client("recover memory", [&](Client& own) {
    const Result<Selection> selection = selection_of(mode, ids, id_count);
    return selection.ok() ? own.recover(selection.value()) : selection.status();
  });
}

int VELOC_Restart_end(int success) {
  return with_client("end a restart", [&](Client& own) { return own.end_restart(success != 0); });
}

int VELOC_Recover_size(int id) {
  int size = VELOC_FAILURE;
  (void)with_client("tell the size of memory " + std::to_string(id), [&](Client& own) -> Status {
    const Result<uint64_t> bytes = own.size_of(id);
    if (!bytes.ok()) return bytes.status();
    if (bytes.value() > INT_MAX) {
      return {gpusnap::Code::kInvalid, "it is no int: ask VELOC_Recover_size_of()"};
    }
    size = static_cast<int>(bytes.value());
    return {};
  });
  return size;
}

size_t VELOC_Recover_size_of(const char* name, int version, int id) {
  size_t size = 0;
  (void)with_client("tell the size of " + id_of(name, version), [&](Client& own) -> Status {
    const Result<uint64_t> bytes = own.size_of(optional_name(name), version, id);
    if (bytes.ok()) size = bytes.value();
    return bytes.status();
  });
  return size;
}

int VELOC_Route_file(const char* original, char* routed) {
  return with_client("route a file", [&](Client& own) -> Status {
    const Result<std::string> path = own.route_file(original != nullptr ? original : "");
    if (!path.ok()) return path.status();
    if (path->size() >= VELOC_MAX_NAME) return {gpusnap::Code::kInvalid, "its path is too long"};
    std::snprintf(routed, VELOC_MAX_NAME, "%s", path->c_str());
    return {};
  });
}

int VELOC_Prefetch_enqueue(const char* name, int version) {
  return with_client("take a hint of " + id_of(name, version),
                     [&](Client& own) { return own.hint(optional_name(name), version); });
}

int VELOC_Prefetch_start(void) {
  return with_client("start prefetching", [](Client& own) { return own.start_prefetching(); });
}

}  // extern "C"
