#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include "tools/cli/commands.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

std::string as_json(const std::vector<CheckpointInfo>& checkpoints) {
  Json json;
  json.begin_array();
  for (const CheckpointInfo& checkpoint : checkpoints) {
    json.begin_object();
    json.key("id").value(checkpoint.id);
    json.key("job").value(checkpoint.job);
    json.key("epoch").value(checkpoint.epoch);
    json.key("time").value(show_iso_time(checkpoint.time_unix_ns));
    json.key("bytes").value(checkpoint.bytes);
    json.key("own_bytes").value(checkpoint.own_bytes);
    json.key("stored_bytes").value(checkpoint.stored_bytes);
    json.key("chain").value(uint64_t{checkpoint.chain});
    json.key("needed_by").value(checkpoint.needed_by);
    json.key("stall_ms").value(static_cast<double>(checkpoint.stall_ns) / 1e6);
    json.key("ranks").value(uint64_t{checkpoint.ranks.size()});
    json.key("state").value(name_of(checkpoint.state));
    json.key("reason").value(checkpoint.reason);
    json.end_object();
  }
  return json.end_array().text() + "\n";
}

// "full", or by how many ancestors it is one: "+3".
std::string show_chain(uint32_t chain) {
  return chain == 0 ? "full" : fmt::format("+{}", chain);
}

std::string as_table(const std::vector<CheckpointInfo>& checkpoints) {
  std::vector<std::vector<std::string>> rows = {
      {"ID", "TIME", "AGE", "SIZE", "CHAIN", "STORED", "STALL", "STATE"}};
  const std::time_t now = std::time(nullptr);
  for (const CheckpointInfo& checkpoint : checkpoints) {
    const bool known = !checkpoint.ranks.empty();
    std::string state = name_of(checkpoint.state);
    if (!checkpoint.reason.empty()) state += ": " + printable(checkpoint.reason);
    if (checkpoint.needed_by != 0) state += fmt::format(" (kept for {})", checkpoint.needed_by);
    rows.push_back({checkpoint.id, show_local_time(checkpoint.time_unix_ns),
                    show_age(now - checkpoint.time_unix_ns / 1'000'000'000),
                    known ? show_bytes(checkpoint.bytes) : "-",
                    known ? show_chain(checkpoint.chain) : "-",
                    known ? show_bytes(checkpoint.own_bytes) : "-",
                    known ? show_nanoseconds(checkpoint.stall_ns) : "-", state});
  }
  return table(rows, "llrrlrrl");
}

}  // namespace

int list_command(const StoreOptions& options) {
  const Result<std::unique_ptr<Store>> store = open_store(options.store);
  if (!store.ok()) {
    if (options.json) std::puts("[]");
    return fail(store.status());
  }
  const Result<std::vector<CheckpointInfo>> checkpoints = store.value()->list(options.what);
  if (!checkpoints.ok()) return fail(checkpoints.status());
  if (options.json) {
    fmt::print("{}", as_json(checkpoints.value()));
  } else if (checkpoints.value().empty()) {
    fmt::print(stderr, "gpusnap: no checkpoints{} in {}\n",
               options.what.empty() ? "" : " of " + options.what, store.value()->folder());
  } else {
    fmt::print("{}", as_table(checkpoints.value()));
  }
  return kExitOk;
}

}  // namespace gpusnap
