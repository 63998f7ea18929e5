// check_store STORE ORACLE: compares every complete checkpoint of a store, with what it has from
// its parents, with the file that the oracle wrote at its cut: ORACLE/<epoch>. Every range must be
// there, and every byte of it. Prints how many full and how many incremental checkpoints were
// compared. Exit status 1: a difference, told; 2: something could not be read.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tiers/tiers.h"

namespace {

using namespace gpusnap;

using Bytes = std::vector<std::byte>;
// The content of each range, by its index in the manifest.
using Content = std::vector<Bytes>;

[[noreturn]] void fail(const std::string& line) {
  std::fprintf(stderr, "check_store: %s\n", line.c_str());
  std::exit(2);
}

class Checker {
 public:
  Checker(Store& store, std::string oracle) : store_(store), oracle_(std::move(oracle)) {}

  void add(const CheckpointInfo& checkpoint) { checkpoints_[checkpoint.epoch] = &checkpoint; }
  // False: there was a difference.
  bool run();

 private:
  const Content& content(uint64_t epoch);
  void inherit(const Manifest& manifest, Content& content);
  bool compare(const Manifest& manifest, const Content& content);

  Store& store_;
  const std::string oracle_;
  std::map<uint64_t, const CheckpointInfo*> checkpoints_;
  std::map<uint64_t, Content> contents_;
};

// A range that is not fresh has what its parent has, but for its own extents.
void Checker::inherit(const Manifest& manifest, Content& content) {
  if (!checkpoints_.contains(manifest.parent)) {
    fail("epoch " + std::to_string(manifest.epoch) + " needs " + std::to_string(manifest.parent) +
         ", which is not complete");
  }
  const Content& before = this->content(manifest.parent);
  const Manifest& parent = checkpoints_[manifest.parent]->ranks[0];
  for (size_t i = 0; i < manifest.ranges.size(); ++i) {
    const SavedRange& range = manifest.ranges[i];
    if (range.fresh) continue;
    const auto same = std::find_if(parent.ranges.begin(), parent.ranges.end(), [&](const auto& of) {
      return of.address == range.address && of.size == range.size && of.life == range.life;
    });
    if (same == parent.ranges.end()) {
      fail("epoch " + std::to_string(manifest.epoch) + ": range " + std::to_string(i) +
           " is neither fresh nor in its parent");
    }
    content[i] = before[static_cast<size_t>(same - parent.ranges.begin())];
  }
}

const Content& Checker::content(uint64_t epoch) {
  if (auto it = contents_.find(epoch); it != contents_.end()) return it->second;
  const CheckpointInfo& checkpoint = *checkpoints_[epoch];
  const Manifest& manifest = checkpoint.ranks[0];
  Content content;
  for (const SavedRange& range : manifest.ranges) content.emplace_back(range.size);
  if (manifest.parent != 0) inherit(manifest, content);
  for (const Extent& extent : manifest.extents) {
    const Status status =
        store_.read(checkpoint, manifest, extent,
                    std::span(content[extent.range]).subspan(extent.offset, extent.size));
    if (!status.ok()) fail(status.message());
  }
  return contents_[epoch] = std::move(content);
}

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot read " + path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

bool Checker::compare(const Manifest& manifest, const Content& content) {
  const Bytes oracle = read_file(oracle_ + "/" + std::to_string(manifest.epoch));
  size_t at = 0, ranges = 0;
  while (at < oracle.size()) {
    uint64_t head[2];
    if (oracle.size() - at < sizeof head) fail("the oracle's file is cut short");
    std::memcpy(head, oracle.data() + at, sizeof head);
    at += sizeof head;
    if (oracle.size() - at < head[1]) fail("the oracle's file is cut short");
    size_t index = 0;
    while (index < manifest.ranges.size() && manifest.ranges[index].address != head[0]) ++index;
    if (index == manifest.ranges.size() || manifest.ranges[index].size != head[1]) {
      std::printf("epoch %" PRIu64 ": the range at %#" PRIx64 " of %" PRIu64 " bytes is missing\n",
                  manifest.epoch, head[0], head[1]);
      return false;
    }
    const auto expected = std::span(oracle).subspan(at, head[1]);
    const auto wrong =
        std::mismatch(expected.begin(), expected.end(), content[index].begin()).first;
    if (wrong != expected.end()) {
      const SavedRange& range = manifest.ranges[index];
      std::printf("epoch %" PRIu64 " (%s, zones of %" PRIu64 "): the range at %#" PRIx64
                  " of %" PRIu64 " bytes%s%s differs from byte %td on\n",
                  manifest.epoch, manifest.parent == 0 ? "full" : "incremental",
                  manifest.zone_bytes, range.address, range.size, range.name.empty() ? "" : ", ",
                  range.name.c_str(), wrong - expected.begin());
      return false;
    }
    at += head[1];
    ++ranges;
  }
  if (ranges == manifest.ranges.size()) return true;
  std::printf("epoch %" PRIu64 ": %zu ranges are saved, %zu are there\n", manifest.epoch,
              manifest.ranges.size(), ranges);
  return false;
}

bool Checker::run() {
  size_t full = 0, incremental = 0;
  bool good = true;
  for (const auto& [epoch, checkpoint] : checkpoints_) {
    const Manifest& manifest = checkpoint->ranks[0];
    good = compare(manifest, content(epoch)) && good;
    ++(manifest.parent == 0 ? full : incremental);
  }
  std::printf("full %zu incremental %zu\n", full, incremental);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: check_store STORE ORACLE\n");
    return 64;
  }
  auto store = Store::open(posix_file_system(), argv[1], false);
  if (!store.ok()) fail(store.status().message());
  const auto listed = store.value()->list("");
  if (!listed.ok()) fail(listed.status().message());
  Checker checker(*store.value(), argv[2]);
  for (const CheckpointInfo& checkpoint : listed.value()) {
    if (checkpoint.state == CheckpointState::kDamaged) fail(checkpoint.reason);
    if (checkpoint.state == CheckpointState::kComplete) checker.add(checkpoint);
  }
  return checker.run() ? 0 : 1;
}
