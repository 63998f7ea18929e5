// Measures how much a chain costs a restore: a full checkpoint, and the same memory as a full one
// followed by increments, are read and checked in turn, in one run on one device. Prints tables of
// its own.
//
//   chain_bench [MIB [INCREMENTS]]: of device memory (512), of the chain (32)
//
// The folder is the temporary one ($TMPDIR). The files are read as a restore reads them, past the
// page cache if the file system has that, into memory that stands for the device's.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tiers/commit.h"
#include "tiers/merge.h"
#include "tiers/part_reader.h"
#include "tiers/segment_store.h"
#include "tiers/store.h"

namespace gpusnap {
namespace {

constexpr uint64_t kZone = 64 << 10;
constexpr uint64_t kBlock = 4 << 20;
constexpr int kRounds = 5;

[[noreturn]] void fail(const std::string& line) {
  std::fprintf(stderr, "chain_bench: %s\n", line.c_str());
  std::exit(1);
}
void must(const Status& status) {
  if (!status.ok()) fail(status.message());
}
template <class T>
T must(Result<T> result) {
  if (!result.ok()) fail(result.status().message());
  return std::move(result.value());
}

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "gpusnap-chain-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) fail("no temporary folder");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Memory that changes at random, and its checkpoints.
class Chain {
 public:
  Chain(const std::string& folder, uint64_t bytes)
      : place_{folder + "/bench", "bench"},
        store_(must(Store::open(posix_file_system(), folder, true))),
        memory_(bytes),
        loaded_(bytes) {
    for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) put(at);
  }

  uint64_t zones() const { return memory_.size() / kZone; }
  void change(uint64_t zone) {
    for (uint64_t at = zone * kZone; at < (zone + 1) * kZone; at += sizeof(uint64_t)) put(at);
  }
  std::mt19937_64& random() { return random_; }

  // Saves the zones, in order: as an increment to the last checkpoint unless `full`. Returns the
  // epoch.
  uint64_t save(const std::vector<uint64_t>& zones, bool full) {
    const CheckpointPlace place{place_.folder, place_.folder_name, "run", ++epoch_, 0};
    Commit commit(posix_file_system(), place);
    must(commit.start());
    auto segments = must(SegmentStore::start(
        posix_file_system(), place.epoch_folder_path(),
        {place.job_folder_name, place.run, place.epoch, place.rank}, options(), compression_, {}));
    for (size_t i = 0; i < zones.size(); i += kBlock / kZone) {
      segments->add({block(
          {zones.begin() + static_cast<ptrdiff_t>(i),
           zones.begin() + static_cast<ptrdiff_t>(std::min(i + kBlock / kZone, zones.size()))})});
    }
    must(segments->finish());
    Manifest manifest;
    manifest.job = "bench";
    manifest.epoch = epoch_;
    SavedRange range;
    range.size = memory_.size();
    range.life = 1;
    manifest.ranges = {range};
    manifest.parent = full ? 0 : epoch_ - 1;
    manifest.chain = full ? 0 : 1;  // the commit counts
    manifest.extents = std::move(segments->extents());
    manifest.segments = segments->segments();
    must(commit.finish(std::move(manifest)));
    return epoch_;
  }

  // As the backend does after a commit.
  void merge(uint32_t limit) {
    MergeRequest request;
    request.job = place_;
    request.epoch = epoch_;
    request.chain_limit = limit;
    request.segments = options();
    (void)must(merge_if_worth(posix_file_system(), request, compression_, {}));
  }

  // Seconds; what was read must be the memory as it is.
  double restore(uint64_t epoch, bool is_newest) {
    const auto begin = std::chrono::steady_clock::now();
    const CheckpointInfo info = must(store_->find("bench@" + std::to_string(epoch)));
    const Contents contents = must(store_->resolve(info, 0));
    PlainReadBuffers buffers(PartReaderOptions().reads);
    must(store_->read_all(
        info, contents, buffers,
        [this](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
          for (const ReadPiece& piece : pieces) {
            std::memcpy(loaded_.data() + piece.offset, bytes.data() + piece.at, piece.size);
          }
          return Status();
        }));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (is_newest && loaded_ != memory_) fail("other bytes came back");
    return took.count();
  }

  std::vector<uint64_t> all_zones() const {
    std::vector<uint64_t> all(zones());
    for (uint64_t i = 0; i < all.size(); ++i) all[i] = i;
    return all;
  }

 private:
  static SegmentStore::Options options() {
    SegmentStore::Options options;
    options.block_bytes = kBlock;
    return options;
  }

  void put(uint64_t at) {
    const uint64_t word = random_();
    std::memcpy(memory_.data() + at, &word, sizeof word);
  }

  SegmentStore::Block block(const std::vector<uint64_t>& zones) {
    auto bytes = std::make_shared<std::vector<std::byte>>();
    SegmentStore::Block block;
    for (const uint64_t zone : zones) {
      const auto from = memory_.begin() + static_cast<ptrdiff_t>(zone * kZone);
      bytes->insert(bytes->end(), from, from + kZone);
      if (!block.pieces.empty() &&
          block.pieces.back().offset + block.pieces.back().size == zone * kZone) {
        block.pieces.back().size += kZone;
      } else {
        block.pieces.push_back({0, zone * kZone, kZone});
      }
    }
    block.bytes = *bytes;
    block.release = [bytes](bool) {};
    return block;
  }

  const JobPlace place_;
  const std::unique_ptr<Store> store_;
  Compression compression_{{CompressionSetting::Mode::kOff, 1}, monotonic_clock()};
  std::mt19937_64 random_{1};
  std::vector<std::byte> memory_;
  std::vector<std::byte> loaded_;
  uint64_t epoch_ = 0;
};

double median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// Each increment has so much of the zones, at random. `limit`: 0: nothing is merged.
void measure(uint64_t bytes, int increments, double share, uint32_t limit) {
  const Folder folder;
  Chain chain(folder.path(), bytes);
  chain.save(chain.all_zones(), true);
  uint64_t newest = 1;
  for (int i = 0; i < increments; ++i) {
    std::vector<uint64_t> changed;
    std::bernoulli_distribution changes(share);
    for (uint64_t zone = 0; zone < chain.zones(); ++zone) {
      if (changes(chain.random())) changed.push_back(zone);
    }
    for (const uint64_t zone : changed) chain.change(zone);
    const uint64_t epoch = chain.save(changed, false);
    // The newest is not merged yet: with 32 of them it has as many ancestors as there can be.
    if (limit > 0 && i + 1 < increments) chain.merge(limit);
    newest = epoch;
  }
  const uint64_t full = chain.save(chain.all_zones(), true);
  std::vector<double> of_chain;
  std::vector<double> of_full;
  (void)chain.restore(full, true);  // once unmeasured: memory is touched
  for (int round = 0; round < kRounds; ++round) {
    of_full.push_back(chain.restore(full, true));
    of_chain.push_back(chain.restore(newest, true));
  }
  const double gib = static_cast<double>(bytes) / (1 << 30);
  std::printf("%7.0f%%  %-22s%10.2f GiB/s%10.2f GiB/s%9.2f\n", share * 100,
              limit == 0 ? "not merged" : "GPUSNAP_CHAIN=16", gib / median(of_full),
              gib / median(of_chain), median(of_chain) / median(of_full));
  std::fflush(stdout);
}

}  // namespace
}  // namespace gpusnap

int main(int argc, char** argv) {
  const uint64_t mib = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 512;
  const int increments = argc > 2 ? std::atoi(argv[2]) : 32;
  if (mib < 4 || mib > (1 << 20) || increments < 1 || increments > 256) {
    gpusnap::fail("usage: chain_bench [MIB [INCREMENTS]]");
  }
  std::printf("restore of %llu MiB, a full checkpoint and a chain of %d increments\n",
              static_cast<unsigned long long>(mib), increments);
  std::printf("%8s  %-22s%16s%16s%9s\n", "changed", "", "full", "chain", "ratio");
  for (const double share : {0.01, 0.05, 0.20}) {
    for (const uint32_t limit : {0U, 16U}) gpusnap::measure(mib << 20, increments, share, limit);
  }
  return 0;
}
